"""Findings on grokking without a query projection: Table 8 and Figure 5 of the geometry paper."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

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
from embviz.ledger.cells import Cell, missing
from embviz.ledger.findings import Finding, over_seeds
from embviz.ledger.studies import Study
from embviz.models.transformer import TransformerConfig


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


def _variant_cells(preset: str) -> dict[str, list[Cell]]:
    return {name: cells_of(run, preset, FEWER[preset]) for name, run in VARIANTS.items()}


def _by_seed(preset: str) -> list[Cell]:
    """Cells of the variants, those of a seed together, so that a sweep that is cut short leaves pairs."""
    return [cell for seed in zip(*_variant_cells(preset).values(), strict=True) for cell in seed]


def _query_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, threshold in (("speedup_99", STRICT), ("speedup_95", GROKKED)):
        base, without = pair_times(preset, threshold)
        controls = {
            control: speedups(times(cells_of(run, preset), threshold), base)
            for control, run in CONTROLS.items()
        }
        nulls = {control: float(values.mean()) for control, values in controls.items()}
        found[name] = capped(over_seeds(speedups(without, base), nulls=nulls))
        if threshold == STRICT:
            found |= {
                control: capped(over_seeds(controls[control])) for control in ("frozen_q", "identity_q")
            }
            found |= {
                variant: capped(over_seeds(speedups(times(cells, threshold), base)))
                for variant, cells in _variant_cells(preset).items()
                if not missing(cells)
            }
            difference = (without["grok"] - base["grok"]).to_numpy(float)
            found["restricted_mean"] = over_seeds(difference)
            found["memorization"] = over_seeds((without["memorize"] / base["memorize"]).to_numpy(float))
    return found


def pair_times(preset: str, threshold: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Times with and without a query projection, seed by seed, of :func:`~.steering.times`."""
    base, without = (times(cells_of(run, preset, N_PAIRS[preset]), threshold) for run in (BASE, NO_Q))
    return base, without


# --- survival -------------------------------------------------------------------------------------------


def survival(table: pd.DataFrame) -> pd.DataFrame:
    """Kaplan-Meier curve of the share of runs that have not grokked yet, with its 95% interval.

    Parameters
    ----------
    table : DataFrame
        Of :func:`~.steering.times`.

    Returns
    -------
    DataFrame
        epoch, share, low, high: steps of the curve, the first at epoch 0 with share 1. The interval is that
        of log(-log share), which is undefined where all runs or none are left; there both ends are the share.
    """
    curve = stats.ecdf(censored(table)).sf
    ends = np.column_stack([curve.quantiles, curve.probabilities, *_interval(curve)])
    rows = np.vstack([[0.0, 1.0, 1.0, 1.0], ends])
    return pd.DataFrame(rows, columns=["epoch", "share", "low", "high"])


def _interval(curve: stats._distribution_infrastructure) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[name-defined]
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where all runs or none are left
        found = curve.confidence_interval(method="log-log")
    low, high = found.low.probabilities, found.high.probabilities
    share = curve.probabilities
    return np.where(np.isnan(low), share, low), np.where(np.isnan(high), share, high)


def censored(table: pd.DataFrame) -> stats.CensoredData:
    """Epochs to grok; a run that did not grok is known to need more than its limit."""
    return stats.CensoredData(
        uncensored=table.loc[table["grokked"], "grok"].to_numpy(float),
        right=table.loc[~table["grokked"], "grok"].to_numpy(float),
    )


def logrank_p(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """P-value of the log-rank test that two kinds of run take equally long to grok.

    It is 1 where the test has nothing to go by: no run ever grokked, or all at one epoch.
    """
    with np.errstate(invalid="ignore"):
        p = float(stats.logrank(censored(first), censored(second)).pvalue)
    return 1.0 if math.isnan(p) else p


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
