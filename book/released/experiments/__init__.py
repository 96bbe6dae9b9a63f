"""What is measured on released models, and stored; the weights themselves are not."""

from __future__ import annotations

from book.ledger.claims import load_claims
from book.ledger.studies import Study
from book.released.experiments import (
    counts,
    hammer,
    isotropy,
    meaning,
    numbers,
    queries,
    shrinking,
    shrunk,
    tuned,
    vocabulary,
)

STUDIES: dict[str, Study] = {
    claim.id: Study(lambda preset: [], lambda preset: {}, needs="no experiment measures it yet")
    for claim in load_claims("released")
}
STUDIES |= vocabulary.STUDIES
STUDIES |= meaning.STUDIES
STUDIES |= isotropy.STUDIES
STUDIES |= numbers.STUDIES
STUDIES |= counts.STUDIES
STUDIES |= hammer.STUDIES
STUDIES |= queries.STUDIES
STUDIES |= tuned.STUDIES
STUDIES |= shrinking.STUDIES
STUDIES |= shrunk.STUDIES
