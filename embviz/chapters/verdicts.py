"""What the last chapter on a paper shows of its ledger, whichever paper it is."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import altair as alt
import pandas as pd

from embviz import ledger, ledger_view
from embviz.ledger_view import ClaimsTable


@functools.cache
def entries(paper: str) -> tuple[ledger.Entry, ...]:
    """Every claim of the paper, judged on what is stored."""
    return tuple(ledger.entries(paper))


def claims_table(paper: str) -> ClaimsTable:
    """A row a claim, leading to its box."""
    return ClaimsTable(entries(paper))


def tally(paper: str) -> str:
    """How many claims have each verdict, in words."""
    counts = {name: sum(entry.verdict == name for entry in entries(paper)) for name in ledger.VERDICTS}
    said = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    return f"Of {len(entries(paper))} claims: {said}"


def plot_figures(paper: str) -> alt.LayerChart:
    """Every judged figure of the paper against its accepted range."""
    return ledger_view.plot_ledger(ledger.table(list(entries(paper))))


def by_claim(paper: str) -> Mapping[str, ledger.Entry]:
    """Entries by the claim's name without the paper's."""
    return {entry.claim.id.split(".")[1]: entry for entry in entries(paper)}


def tests_met(said: pd.Series) -> str:
    """How many of the tests of a table are met, by the words of their last column."""
    n_open = int(said.str.contains("not measured").sum())
    n_met = len(said) - n_open - int(said.str.contains("not met,").sum())
    return f"{n_met} of {len(said)} tests are met, {n_open} not measured"
