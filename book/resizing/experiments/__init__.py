"""The resizing paper: a trained transformer carried through a random projection."""

from __future__ import annotations

from book.ledger.studies import Study
from book.resizing.experiments import (
    geometry,
    growing,
    porting,
    quantized,
    recovery,
    throughput,
    tuned,
    widths,
)

STUDIES: dict[str, Study] = {
    **geometry.STUDIES,
    **porting.STUDIES,
    **recovery.STUDIES,
    **tuned.STUDIES,
    **throughput.STUDIES,
    **growing.STUDIES,
    **quantized.STUDIES,
    **widths.STUDIES,
}
