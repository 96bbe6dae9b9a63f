"""The resizing paper: a trained transformer carried through a random projection."""

from __future__ import annotations

from book.resizing.experiments import (
    fresh,
    geometry,
    growing,
    porting,
    quantized,
    recovery,
    throughput,
    widths,
)
from embviz.ledger.studies import Study

STUDIES: dict[str, Study] = {
    **geometry.STUDIES,
    **porting.STUDIES,
    **recovery.STUDIES,
    **throughput.STUDIES,
    **growing.STUDIES,
    **quantized.STUDIES,
    **fresh.STUDIES,
    **widths.STUDIES,
}
STUDIES |= {claim: fresh.also(STUDIES[claim], *later) for claim, later in fresh.LATER.items()}
