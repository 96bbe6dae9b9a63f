"""Queries against keys in the geometry paper: does leaving the one out help, and leaving the other out cost?

Source: section 7.2. Both are measured already; here they are held against each other.
"""

from __future__ import annotations

import pandas as pd

from book.geometry.experiments import queries, steering
from book.geometry.experiments.language_models import (
    BASELINE,
    N_CONTROL_SEEDS,
    NO_K,
    NO_Q,
    LanguageRun,
    curves,
    gains,
    language_models,
    of_seeds,
    stories,
)
from book.ledger.cells import Cell
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study


def _residue_preset(preset: str) -> str:
    return "quick" if preset == "quick" else "paper"


def _residue_cells(preset: str) -> dict[str, list[Cell]]:
    """A baseline, one without queries and one without keys, one cell per seed."""
    runs = {"baseline": steering.BASE, "no_q": queries.NO_Q, "no_k": queries.CONTROLS["no_k"]}
    return {name: steering.cells_of(run, _residue_preset(preset)) for name, run in runs.items()}


def _language_runs(preset: str) -> list[LanguageRun]:
    return of_seeds(stories(preset), (BASELINE, NO_Q, NO_K), N_CONTROL_SEEDS[preset])


def _cells(preset: str) -> list[Cell]:
    residues = [cell for cells in _residue_cells(preset).values() for cell in cells]
    return residues + [language_models.cell(run) for run in _language_runs(preset)]


def saved(preset: str = "laptop") -> pd.DataFrame:
    """What stored runs save on the run with both of the same seed, in percent of its epochs or bits.

    Returns
    -------
    DataFrame
        task ("residues" or "stories"), without ("queries" or "keys"), seed, saved.
    """
    times = {name: steering.times(cells, steering.STRICT) for name, cells in _residue_cells(preset).items()}
    table = curves(_language_runs(preset))
    rows = [
        (task, without, seed, value)
        for without, name, variant in (("queries", "no_q", NO_Q), ("keys", "no_k", NO_K))
        for task, values in (
            ("residues", steering.speedups(times[name], times["baseline"])),
            ("stories", gains(table, variant)),
        )
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["task", "without", "seed", "saved"])


def _findings(preset: str) -> dict[str, Finding]:
    wide = saved(preset).pivot(index=["task", "seed"], columns="without", values="saved")
    found = {}
    corpus = stories(preset).text.corpus
    for name, task, of in (("grokking", "residues", ""), ("language", "stories", corpus)):
        own = wide.loc[task]
        found[name] = over_seeds((own["queries"] - own["keys"]).to_numpy(), corpus=of)
    return found


STUDIES = {"geometry.qk_asymmetry": Study(_cells, _findings)}
