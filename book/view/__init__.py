"""What the book's pages alone show: claims, the ledger, tables of results, sentences filled from them."""

from book.view.ledger_view import (
    ClaimsList,
    ClaimsMatrix,
    ClaimsTable,
    claim_line,
    claims_of,
    plot_ledger,
)
from book.view.papers import PapersMap
from book.view.sentences import quote, say
from book.view.statements import as_judged
from book.view.tables import figures_table

__all__ = [
    "ClaimsList",
    "ClaimsMatrix",
    "ClaimsTable",
    "PapersMap",
    "as_judged",
    "claim_line",
    "claims_of",
    "figures_table",
    "plot_ledger",
    "quote",
    "say",
]
