"""Findings: one measured number with its interval, what was repeated for it, and its controls."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from embviz.arrays import check_array

SEEDS = "seeds"  # whole runs, each from a seed of its own
LEAST_REPETITIONS = 3  # fewer have no spread to speak of


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was measured for one measurement of a claim."""

    value: float  # in the measurement's unit
    low: float  # 95% interval; both ends are `value` where there is none
    high: float
    n_seeds: int = 1  # independent repetitions; 1 for an interval over the items of one run, 0: none counts
    controls: Mapping[str, float] = dataclasses.field(default_factory=dict)  # the same on each control
    corpus: str = ""  # the data set; empty for a simulation
    repeats: str = SEEDS  # what was repeated, in the plural, such as "words of a test"
    exact: bool = False  # nothing to repeat: a count, arithmetic, a function of a named text alone
    # geometric mean and ends of its interval, Student's of the logarithms; None where not all are positive
    on_logs: tuple[float, float, float] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high, *self.controls.values())
        if any(math.isnan(number) for number in numbers):
            raise ValueError(f"a finding holds NaN: {self}")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"the value {self.value} lies outside its interval [{self.low}, {self.high}]")
        if self.exact and not self.low == self.value == self.high:
            raise ValueError(f"an exact number has no interval: {self}")
        if self.n_seeds < 0:
            raise ValueError(f"a finding of {self.n_seeds} repetitions")

    def on_log_scale(self) -> Finding:
        """The same with geometric mean and interval of the logarithms, for a ratio or relative error."""
        if self.exact or self.n_seeds < 2:
            return self
        if self.on_logs is None:
            raise ValueError("a logarithmic scale needs repetitions that are known and positive")
        value, low, high = self.on_logs
        return dataclasses.replace(self, value=value, low=low, high=high, on_logs=None)

    @property
    def decides(self) -> bool:
        """Whether a verdict may rest on it: it is exact, or was repeated :data:`LEAST_REPETITIONS` times."""
        return self.exact or self.n_seeds >= LEAST_REPETITIONS


def exact(value: float, *, controls: Mapping[str, float] | None = None, corpus: str = "") -> Finding:
    """A finding that nothing could be repeated for: a count, arithmetic, a function of a named text alone.

    >>> exact(3).low, exact(3).exact
    (3.0, True)
    """
    value = float(value)
    return Finding(value, value, value, controls=controls or {}, corpus=corpus, repeats="", exact=True)


def once(
    value: float, *, repeats: str = SEEDS, controls: Mapping[str, float] | None = None, corpus: str = ""
) -> Finding:
    """One number without an interval: of a single run, or of many taken together, such as a median.

    It can be shown, and decides nothing; `repeats` says what would have to be repeated.

    >>> once(0.5, repeats="sets of 36 models").n_seeds
    1
    """
    value = float(value)
    return Finding(value, value, value, controls=controls or {}, corpus=corpus, repeats=repeats)


def over_seeds(
    values: Sequence[float] | np.ndarray,
    *,
    repeats: str = SEEDS,
    controls: Mapping[str, float] | None = None,
    corpus: str = "",
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Finding:
    """Mean over independent repetitions with Student's 95% interval; a single one gives no interval.

    Parameters
    ----------
    values : sequence of float, shape (R,)
        One measurement a repetition, not NaN; may be infinite, of one sign, of what never happened: so is
        then the mean, and the interval holds all that such a number can be.
    repeats : str
        What was repeated.
    within : tuple of two floats
        What such a number can be, -1 to 1 for a cosine: an interval that reaches further is cut there.

    Returns
    -------
    Finding

    >>> finding = over_seeds([1.0, 2.0, 3.0])
    >>> finding.value, finding.n_seeds, round(finding.high - finding.value, 3)
    (2.0, 3, 2.484)
    """
    if len(values) == 0:
        raise ValueError("values is empty, no seed was measured: run the experiment's cells first")
    values = check_array(values, "values", 1, infinite=True)
    if {math.inf, -math.inf} <= set(values):
        raise ValueError("values holds infinities of both signs: they have no mean")
    mean = float(values.mean())
    low = high = mean
    if values.size > 1 and math.isinf(mean):
        low, high = -math.inf, math.inf
    elif values.size > 1:
        half = float(student(values.size) * values.std(ddof=1) / math.sqrt(values.size))
        low, high = mean - half, mean + half
    low, high = max(low, min(within[0], mean)), min(high, max(within[1], mean))
    return Finding(mean, low, high, values.size, controls or {}, corpus, repeats, on_logs=_on_logs(values))


def _on_logs(values: np.ndarray) -> tuple[float, float, float] | None:
    if values.size < 2 or not (np.isfinite(values) & (values > 0)).all():
        return None
    logs = np.log(values)
    half = student(values.size) * logs.std(ddof=1) / math.sqrt(values.size)
    with np.errstate(over="ignore"):  # an end beyond every float is infinite
        mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    return float(mean), float(low), float(high)


def extreme(
    values: Sequence[float] | np.ndarray,
    *,
    largest: bool,
    repeats: str = SEEDS,
    controls: Mapping[str, float] | None = None,
    corpus: str = "",
) -> Finding:
    """The worst of several repetitions, its interval their whole range: for errors that must all be small.

    A value may be infinite: the epoch of what never happened.

    >>> finding = extreme([1.0, 3.0, 2.0], largest=True)
    >>> finding.value, finding.low, finding.high
    (3.0, 1.0, 3.0)
    """
    values = check_array(values, "values", 1, infinite=True)
    low, high = float(np.min(values)), float(np.max(values))
    return Finding(high if largest else low, low, high, len(values), controls or {}, corpus, repeats)


def share(
    n_hits: int,
    n: int,
    *,
    repeats: str = SEEDS,
    controls: Mapping[str, float] | None = None,
    corpus: str = "",
) -> Finding:
    """A share of `n` independent repetitions with Wilson's 95% interval.

    >>> finding = share(0, 20)
    >>> finding.value, finding.low, round(finding.high, 3)
    (0.0, 0.0, 0.161)
    """
    value, z = n_hits / n, 1.959963984540054
    centre, width = value + z**2 / (2 * n), z * math.sqrt(value * (1 - value) / n + z**2 / (4 * n**2))
    low, high = ((centre + sign * width) / (1 + z**2 / n) for sign in (-1, 1))
    return Finding(
        value, max(0.0, min(low, value)), min(1.0, max(high, value)), n, controls or {}, corpus, repeats
    )


def resampled(
    value: float,
    replicates: Sequence[float] | np.ndarray,
    n: int,
    *,
    repeats: str = SEEDS,
    controls: Mapping[str, float] | None = None,
    corpus: str = "",
) -> Finding:
    """A number with the middle 95% of its bootstrap replicates, each over `n` repetitions drawn again.

    Replicates may be infinite; an end between a finite and an infinite one is taken as the farther of both.

    >>> resampled(2.0, [1.0, 2.0, 3.0], 5).n_seeds
    5
    """
    replicates = check_array(replicates, "replicates", 1, infinite=True)
    ends = 0.025, 0.975
    if np.isfinite(replicates).all():
        low, high = (float(end) for end in np.quantile(replicates, ends))
    else:  # between infinities there is no line
        places, ordered = (len(replicates) - 1) * np.array(ends), np.sort(replicates)
        low, high = float(ordered[math.floor(places[0])]), float(ordered[math.ceil(places[1])])
    return Finding(float(value), min(low, value), max(high, value), n, controls or {}, corpus, repeats)


def student(n: int) -> float:
    """The factor of a 95% interval over `n` measurements: standard errors to either side.

    >>> round(student(3), 3)
    4.303
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(n - 1, 0.975))
