"""What is measured on released models, and stored; the weights themselves are not."""

from __future__ import annotations

from book.released.experiments import isotropy, meaning, vocabulary
from embviz.ledger.claims import load_claims
from embviz.ledger.studies import Study

STUDIES: dict[str, Study] = {
    claim.id: Study(lambda preset: [], lambda preset: {}, needs="no experiment measures it yet")
    for claim in load_claims("released")
}
STUDIES |= vocabulary.STUDIES
STUDIES |= meaning.STUDIES
STUDIES |= isotropy.STUDIES
