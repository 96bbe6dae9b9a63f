"""What the last chapter on a paper shows of its ledger, whichever paper it is."""

from __future__ import annotations

from book import ledger
from book.view.ledger_view import ClaimsTable


def claims_table(paper: str) -> ClaimsTable:
    """One row per claim of the paper, leading to its place in the ledger."""
    return ClaimsTable(ledger.entries(paper), root="../")
