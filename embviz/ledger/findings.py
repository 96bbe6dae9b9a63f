"""Findings: one measured number with its interval, its seeds and its nulls."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was measured for one figure of a claim.

    Parameters
    ----------
    value : float
        The measured number, in the figure's unit.
    low, high : float
        Ends of its 95% interval; both equal to `value` for an exact count.
    n_seeds : int
        Independent repetitions behind the interval; 1 when the interval is a bootstrap of one run.
    nulls : mapping of str to float
        The same measurement on each control.
    corpus : str
        Name of the data set it was measured on; empty for a simulation.
    """

    value: float
    low: float
    high: float
    n_seeds: int = 1
    nulls: Mapping[str, float] = dataclasses.field(default_factory=dict)
    corpus: str = ""

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high, *self.nulls.values())
        if any(math.isnan(number) for number in numbers):
            raise ValueError(f"a finding holds NaN: {self}")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"the value {self.value} lies outside its interval [{self.low}, {self.high}]")


def exact(value: float, *, nulls: Mapping[str, float] | None = None, corpus: str = "") -> Finding:
    """A finding without uncertainty, such as a count.

    >>> exact(3).low
    3.0
    """
    return Finding(float(value), float(value), float(value), nulls=nulls or {}, corpus=corpus)


def over_seeds(
    values: Sequence[float] | np.ndarray,
    *,
    nulls: Mapping[str, float] | None = None,
    corpus: str = "",
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Finding:
    """Mean over independent seeds with Student's 95% interval; a single seed gives no interval.

    Parameters
    ----------
    values : sequence of float, shape (R,)
        One measurement a seed.
    within : tuple of two floats
        What such a number can be, -1 to 1 for a cosine: an interval that reaches further is cut there.

    Returns
    -------
    Finding

    Raises
    ------
    ValueError
        If `values` is empty or holds a NaN.

    >>> finding = over_seeds([1.0, 2.0, 3.0])
    >>> finding.value, finding.n_seeds, round(finding.high - finding.value, 3)
    (2.0, 3, 2.484)
    """
    values = np.asarray(values, dtype=float)
    if values.size == 0:
        raise ValueError("no seed was measured: run the experiment's cells first")
    mean = float(values.mean())
    half = 0.0
    if values.size > 1:
        half = float(stats.t.ppf(0.975, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))
    low, high = max(mean - half, min(within[0], mean)), min(mean + half, max(within[1], mean))
    return Finding(mean, low, high, values.size, nulls or {}, corpus)
