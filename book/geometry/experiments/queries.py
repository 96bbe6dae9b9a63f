"""Findings on grokking without a query projection: Table 8 and Figure 5 of the geometry paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.geometry.experiments import steering
from book.geometry.experiments.grokking import GrokkingRun
from book.geometry.experiments.steering import (
    BASE,
    FEWER,
    GROKKED,
    NEAR,
    SEEDS,
    STRICT,
    capped,
    cells_of,
    speedups,
    times,
)
from book.ledger.cells import Cell, missing
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study
from book.transformer import TransformerConfig


@dataclass(frozen=True)
class WideRun(GrokkingRun):
    """MLPs with the weights of a query projection, D^2 a layer: D / 2 more hidden units."""

    mlp_dim: int = 576

    @property
    def shape(self) -> TransformerConfig:
        """As the plain run's, with wider MLPs."""
        return dataclasses.replace(super().shape, mlp_dim=self.mlp_dim)


N_PAIRS = {"quick": 2, "laptop": 10, "paper": 10}
NO_Q = GrokkingRun(attention="no_q")
CONTROLS = {
    name: GrokkingRun(attention=name)  # type: ignore[arg-type]
    for name in ("no_k", "frozen_q", "identity_q")
}
VARIANTS = {  # of the model without queries, but for the last: whether halved scores do it by themselves
    "half_no_q": GrokkingRun(attention="half_no_q"),  # scores halved, as the prior work has them
    "wide_no_q": WideRun(attention="no_q"),
    "half_q": GrokkingRun(attention="half_standard"),
}
BOTH = dataclasses.replace(NEAR, attention="no_q")


def _query_cells(preset: str) -> list[Cell]:
    pairs = [cell for run in (BASE, NO_Q) for cell in cells_of(run, preset, N_PAIRS[preset])]
    return pairs + [cell for run in CONTROLS.values() for cell in cells_of(run, preset)]


def variant_cells(preset: str) -> dict[str, list[Cell]]:
    """One cell per seed of each of VARIANTS."""
    return {name: cells_of(run, preset, FEWER[preset]) for name, run in VARIANTS.items()}


def _by_seed(preset: str) -> list[Cell]:
    """Cells of the variants, sorted by seed, so that a sweep that is cut short leaves pairs."""
    return [cell for seed in zip(*variant_cells(preset).values(), strict=True) for cell in seed]


def _query_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, threshold in (("speedup_99", STRICT), ("speedup_95", GROKKED)):
        base, without = pair_times(preset, threshold)
        controls = {
            control: speedups(times(cells_of(run, preset), threshold), base)
            for control, run in CONTROLS.items()
        }
        means = {control: float(values.mean()) for control, values in controls.items()}
        found[name] = capped(over_seeds(speedups(without, base), controls=means))
        if threshold == STRICT:
            halved = variant_cells(preset)["half_no_q"]
            if not missing(halved):
                found["half_no_q"] = capped(over_seeds(speedups(times(halved, threshold), base)))
            found["memorization"] = over_seeds((without["memorize"] / base["memorize"]).to_numpy(float))
    return found


def pair_times(preset: str = "paper", threshold: float = 0.95) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Times with and without a query projection, seed by seed, of :func:`~.steering.times`."""
    base, without = (times(cells_of(run, preset, N_PAIRS[preset]), threshold) for run in (BASE, NO_Q))
    return base, without


# --- both together --------------------------------------------------------------------------------------


def _both_cells(preset: str) -> list[Cell]:
    return [cell for run in (BOTH, NEAR, NO_Q) for cell in cells_of(run, preset, SEEDS[preset])]


def _both_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, threshold in (("ratio_95", GROKKED), ("ratio_99", STRICT)):
        both, near, without = (
            times(cells_of(run, preset), threshold)["grok"].to_numpy(float) for run in (BOTH, NEAR, NO_Q)
        )
        found[name] = over_seeds(both / np.minimum(near, without))
    return found


STUDIES: dict[str, Study] = {
    "geometry.noq_grokking": Study(
        _query_cells,
        _query_findings,
        beside=_by_seed,
    ),
    "geometry.open_combination": Study(_both_cells, _both_findings),
}


# --- stored runs, by the names that the chapter gives them ----------------------------------------------

WITH, WITHOUT = PAIR = ("with queries", "without queries")
RUNS = {
    WITH: BASE,
    WITHOUT: NO_Q,
    "without keys": CONTROLS["no_k"],
    "frozen queries": CONTROLS["frozen_q"],
    "queries start as identity": CONTROLS["identity_q"],
    "near-Nyquist": NEAR,
    "near-Nyquist, without queries": BOTH,
}
NAMED_VARIANTS = {  # three seeds each, of no claim's verdict
    "without queries, scores halved": VARIANTS["half_no_q"],
    "with queries, scores halved": VARIANTS["half_q"],
    "without queries, wider MLPs": VARIANTS["wide_no_q"],
}
ATTENTIONS = tuple(RUNS)[:5]
TOGETHER = (WITH, WITHOUT, *tuple(RUNS)[5:])
THRESHOLDS = (STRICT, GROKKED)  # the first is Table 8's


def stored(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of runs, keys of RUNS or NAMED_VARIANTS; runs of which none is stored are left out."""
    every = RUNS | NAMED_VARIANTS
    n_seeds = dict.fromkeys(PAIR, N_PAIRS[steering.SHOWN])
    cells = {name: cells_of(every[name], steering.SHOWN, n_seeds.get(name)) for name in names}
    stored_cells = {name: [cell for cell in own if cell.stored()] for name, own in cells.items()}
    return {name: own for name, own in stored_cells.items() if own}


def stored_times(names: Iterable[str], threshold: float = STRICT) -> pd.DataFrame:
    """Times of stored runs, as :func:`.steering.times_by_run`, with what they have `saved` on WITH."""
    names = list(names)
    table = steering.times_by_run(stored([WITH, *names]), threshold)
    table["saved"] = steering.saved(table, WITH)
    return table[table["run"].isin(names)].reset_index(drop=True)


def pairs(threshold: float, moment: str = "grok") -> pd.DataFrame:
    """Epochs of both runs of a seed: seed, a column each run of PAIR, and reached: did WITHOUT generalize?

    Parameters
    ----------
    moment : {"grok", "memorize"}
    """
    table = stored_times(PAIR, threshold)
    wide = table.pivot(index="seed", columns="run", values=moment).dropna()
    reached = table[table["run"] == WITHOUT].set_index("seed")[
        {"grok": "grokked", "memorize": "memorized"}[moment]
    ]
    return wide.assign(reached=reached).reset_index().rename_axis(columns=None)
