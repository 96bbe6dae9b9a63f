"""The resizing paper: a trained transformer carried through a random projection."""

from __future__ import annotations

import dataclasses

from book.ledger.studies import Study
from book.resizing.experiments import (
    fresh,
    geometry,
    growing,
    porting,
    quantized,
    recovery,
    states,
    throughput,
    widths,
)

STUDIES: dict[str, Study] = {
    **geometry.STUDIES,
    **porting.STUDIES,
    **recovery.STUDIES,
    **states.STUDIES,
    **throughput.STUDIES,
    **growing.STUDIES,
    **quantized.STUDIES,
    **fresh.STUDIES,
    **widths.STUDIES,
}
for parts in (fresh.LATER, fresh.LATER_STILL):
    for claim, part in parts.items():
        STUDIES[claim] = dataclasses.replace(STUDIES[claim], parts=(*STUDIES[claim].parts, part))
