"""Stored runs behind the chapter on attention without queries: ten pairs, five seeds of each control."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from book.geometry import steering as runs
from book.geometry.experiments import queries, steering
from book.geometry.experiments.steering import GROKKED, STRICT
from embviz.ledger.cells import Cell

WITH, WITHOUT = PAIR = ("with queries", "without queries")
NEAR, BOTH = "near-Nyquist", "near-Nyquist, without queries"
RUNS = {
    WITH: steering.BASE,
    WITHOUT: queries.NO_Q,
    "without keys": queries.CONTROLS["no_k"],
    "frozen queries": queries.CONTROLS["frozen_q"],
    "queries start as identity": queries.CONTROLS["identity_q"],
    NEAR: steering.NEAR,
    BOTH: queries.BOTH,
}
VARIANTS = {  # three seeds each, of no claim's verdict
    "without queries, scores halved": queries.VARIANTS["half_no_q"],
    "with queries, scores halved": queries.VARIANTS["half_q"],
    "without queries, wider MLPs": queries.VARIANTS["wide_no_q"],
}
ATTENTIONS = tuple(RUNS)[:5]
TOGETHER = (WITH, WITHOUT, NEAR, BOTH)
THRESHOLDS = (STRICT, GROKKED)  # the first is Table 8's
LIMIT = runs.LIMIT


def stored(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of runs, keys of RUNS or VARIANTS; runs of which none is stored are left out."""
    found, every = {}, RUNS | VARIANTS
    for name in names:
        n_seeds = queries.N_PAIRS[runs.PRESET] if name in PAIR else None
        found[name] = steering.cells_of(every[name], runs.PRESET, n_seeds)
    return {name: own for name, cells in found.items() if (own := [cell for cell in cells if cell.stored()])}


def times(names: Iterable[str], threshold: float = STRICT) -> pd.DataFrame:
    """Times of stored runs, as :func:`.steering.times_of`, with what they have `saved` on WITH."""
    names = list(names)
    table = runs.times_of(stored([WITH, *names]), threshold)
    table["saved"] = runs.saved(table, WITH)
    return table[table["run"].isin(names)].reset_index(drop=True)


def pairs(threshold: float, moment: str = "grok") -> pd.DataFrame:
    """Epochs of both runs of a seed: seed, a column each run of PAIR, and reached, whether WITHOUT got there.

    Parameters
    ----------
    moment : {"grok", "memorize"}
    """
    table = times(PAIR, threshold)
    wide = table.pivot(index="seed", columns="run", values=moment).dropna()
    reached = table[table["run"] == WITHOUT].set_index("seed")[
        {"grok": "grokked", "memorize": "memorized"}[moment]
    ]
    return wide.assign(reached=reached).reset_index().rename_axis(columns=None)


def accuracies_beside() -> pd.DataFrame:
    """Accuracies of WITH beside those of each `other` stored run, which is then called "the other"."""
    curves = runs.accuracies(stored(RUNS))
    parts = [
        curves[curves["run"].isin([WITH, name])].assign(other=name)
        for name in dict.fromkeys(curves["run"])
        if name != WITH
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(run=table["run"].where(table["run"] == WITH, "the other"))
