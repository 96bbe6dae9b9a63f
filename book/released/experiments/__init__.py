"""What is measured on released models, and stored; the weights themselves are not."""

from __future__ import annotations

from embviz.ledger.claims import load_claims
from embviz.ledger.studies import Study

NEEDS = "the weights are not on this machine: `embviz data fetch gemma3_270m minilm_l6 glove_6b_100d`"
STUDIES: dict[str, Study] = {
    claim.id: Study(lambda preset: [], lambda preset: {}, needs="not measured yet")
    for claim in load_claims("released")
}
