"""The resizing paper: a trained transformer carried through a random projection."""

from __future__ import annotations

from embviz.experiments.resizing import geometry, growing, quantized, recovery
from embviz.studies import Study

STUDIES: dict[str, Study] = {
    **geometry.STUDIES,
    **recovery.STUDIES,
    **growing.STUDIES,
    **quantized.STUDIES,
}
