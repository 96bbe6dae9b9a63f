"""What the book's pages alone show: lines for claims, the ledger, verdicts, sentences that rest on them."""

from book.view.ledger_view import (
    ClaimsList,
    ClaimsMatrix,
    ClaimsTable,
    claim_line,
    claims_of,
    plot_ledger,
)
from book.view.papers import PapersMap
from book.view.statements import as_judged

__all__ = [
    "ClaimsList",
    "ClaimsMatrix",
    "ClaimsTable",
    "PapersMap",
    "as_judged",
    "claim_line",
    "claims_of",
    "plot_ledger",
]
