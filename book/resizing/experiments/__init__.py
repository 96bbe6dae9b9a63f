"""The resizing paper: a trained transformer carried through a random projection."""

from __future__ import annotations

from book.resizing.experiments import geometry, growing, porting, quantized, recovery, throughput
from embviz.ledger.studies import Study

STUDIES: dict[str, Study] = {
    **geometry.STUDIES,
    **porting.STUDIES,
    **recovery.STUDIES,
    **throughput.STUDIES,
    **growing.STUDIES,
    **quantized.STUDIES,
}
