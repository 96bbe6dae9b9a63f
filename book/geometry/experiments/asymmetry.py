"""Queries against keys in the geometry paper: does leaving the one out help, and leaving the other out cost?

Source: section 7.2. Both are measured already; here they are held against each other.
"""

from __future__ import annotations

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
from embviz.ledger.cells import Cell
from embviz.ledger.findings import Finding, over_seeds
from embviz.ledger.studies import Study


def _residue_preset(preset: str) -> str:
    return "quick" if preset == "quick" else "paper"


def _residue_cells(preset: str) -> dict[str, list[Cell]]:
    """A baseline, one without queries and one without keys, a cell a seed."""
    runs = {"baseline": steering.BASE, "no_q": queries.NO_Q, "no_k": queries.CONTROLS["no_k"]}
    return {name: steering.cells_of(run, _residue_preset(preset)) for name, run in runs.items()}


def _language_runs(preset: str) -> list[LanguageRun]:
    return of_seeds(stories(preset), (BASELINE, NO_Q, NO_K), N_CONTROL_SEEDS[preset])


def _cells(preset: str) -> list[Cell]:
    residues = [cell for cells in _residue_cells(preset).values() for cell in cells]
    return residues + [language_models.cell(run) for run in _language_runs(preset)]


def _findings(preset: str) -> dict[str, Finding]:
    times = {name: steering.times(cells, steering.STRICT) for name, cells in _residue_cells(preset).items()}
    faster = {name: steering.speedups(times[name], times["baseline"]) for name in ("no_q", "no_k")}
    table, corpus = curves(_language_runs(preset)), stories(preset).text.corpus
    saved = {"no_q": gains(table, NO_Q), "no_k": gains(table, NO_K)}
    return {
        "grokking": over_seeds(faster["no_q"] - faster["no_k"]),
        "language": over_seeds(saved["no_q"] - saved["no_k"], corpus=corpus),
        "grokking_no_q": over_seeds(faster["no_q"]),
        "grokking_no_k": over_seeds(faster["no_k"]),
        "language_no_q": over_seeds(saved["no_q"], corpus=corpus),
        "language_no_k": over_seeds(saved["no_k"], corpus=corpus),
    }


STUDIES = {"geometry.qk_asymmetry": Study(_cells, _findings)}
