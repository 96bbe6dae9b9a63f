"""The Natural Ordering Condition of the geometry paper: is steering safe where the order means something?

Source: section 3.1. Residues on a ring and positions in a sequence are in order, a vocabulary is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from book.geometry.experiments import steering
from book.geometry.experiments.steering_language import (
    BASELINE,
    BY_FREQUENCY,
    BY_NEIGHBORS,
    FROZEN,
    LOWEST,
    N_LOOKED_AT,
    N_TIED_SEEDS,
    NEAR_NYQUIST,
    ON_POSITIONS,
    POSITIONS,
    REORDERED,
    SUBSPACE,
    TOP_5,
    SteeringRun,
    losses_to_baseline,
    steering_curves,
    steering_language,
    texts_and_setting,
)
from book.ledger.cells import Cell
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part, Study

FIGURES: Mapping[str, str] = {  # of variants, all of the positions
    "positions_near_nyquist": NEAR_NYQUIST,
    "positions_frozen": FROZEN,
}


def position_runs(preset: str) -> list[SteeringRun]:
    """Tied models of byte pairs with steered positions, and their baselines, one run per seed and variant."""
    seeds = range(N_LOOKED_AT[preset], N_TIED_SEEDS[preset][0])
    return _tied(preset, seeds, (BASELINE, *ON_POSITIONS))


def reordered_runs(preset: str = "laptop") -> list[SteeringRun]:
    """Tied models whose tokens are projected onto low modes along two orders that mean something, beside a
    random subspace of as many dimensions and no projection.
    """
    seeds = range(N_LOOKED_AT[preset], N_TIED_SEEDS[preset][0])
    return _tied(preset, seeds, (BASELINE, SUBSPACE, *REORDERED))


def _tied(preset: str, seeds: Iterable[int], variants: Iterable[str]) -> list[SteeringRun]:
    text, _, setting = texts_and_setting(preset)
    return [
        SteeringRun(text, variant, seed, tied=True, start="small", setting=setting)
        for seed in seeds
        for variant in variants
    ]


def _residue_preset(preset: str) -> str:
    return "quick" if preset == "quick" else "paper"


def _residue_cells(preset: str) -> dict[str, list[Cell]]:
    """Runs on residues in their order, on residues in a random order, and without a projection."""
    runs = {"ordered": steering.NEAR, "shuffled": steering.CONTROLS["shuffled"], "baseline": steering.BASE}
    return {name: steering.cells_of(run, _residue_preset(preset)) for name, run in runs.items()}


def _cells(preset: str) -> list[Cell]:
    residues = [cell for cells in _residue_cells(preset).values() for cell in cells]
    return residues + [steering_language.cell(run) for run in position_runs(preset)]


def position_costs(preset: str = "laptop") -> pd.DataFrame:
    """What steered positions cost, in bits a token over the baseline of the seed.

    Returns
    -------
    DataFrame
        variant (without "positions, " before it), seed, difference.
    """
    table = losses_to_baseline(steering_curves(position_runs(preset)), "bits_per_token")
    return table[["variant", "seed", "difference"]].replace(
        {name: name.removeprefix(POSITIONS) for name in ON_POSITIONS}
    )


def _findings(preset: str) -> dict[str, Finding]:
    residues = {name: steering.times(cells) for name, cells in _residue_cells(preset).items()}
    shuffled = steering.speedups(residues["shuffled"], residues["baseline"])
    found = {"shuffled": steering.capped(over_seeds(shuffled))}
    costs = position_costs(preset).pivot(index="seed", columns="variant", values="difference")
    corpus = texts_and_setting(preset)[0].corpus
    saved = -costs.sub(costs[FROZEN], axis=0)  # over positions that are not trained
    control = {"near_nyquist": float(saved[NEAR_NYQUIST].mean())}
    return found | {
        name: over_seeds(saved[variant].to_numpy(), controls=control, corpus=corpus)
        for name, variant in (("top5_saved", TOP_5), ("lowest_saved", LOWEST))
    }


def _bits(runs: list[SteeringRun]) -> pd.DataFrame:
    """Bits a token at the end of each run, one row per seed, one column per variant."""
    table = steering_curves(runs)
    return table[table["step"] == table["step"].max()].pivot(
        index="seed", columns="variant", values="bits_per_token"
    )


def _reordered_findings(preset: str) -> dict[str, Finding]:
    bits = _bits(reordered_runs(preset))
    corpus = texts_and_setting(preset)[0].corpus
    values = {
        "rescue_frequency": bits[SUBSPACE] - bits[BY_FREQUENCY],
        "rescue_neighbors": bits[SUBSPACE] - bits[BY_NEIGHBORS],
    }
    return {name: over_seeds(each.to_numpy(), corpus=corpus) for name, each in values.items()}


def _reordered_cells(preset: str) -> list[Cell]:
    return [steering_language.cell(run) for run in reordered_runs(preset)]


STUDIES = {
    "geometry.natural_order": Study(
        _cells,
        _findings,
        parts=(Part(_reordered_cells, _reordered_findings),),
    )
}
