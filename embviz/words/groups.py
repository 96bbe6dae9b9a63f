"""Ordered lists of words (months, years, digits): are their vectors a circle, an arc, a line or a cluster?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from embviz.arrays import check_int
from embviz.metrics import mean_cosine, normalize
from embviz.words.wordvectors import WordVectors

LEAST_WORDS = 5  # of a list: four points have one mode only
ORDERED = 0.01  # p-value below which the order of a list shows in its vectors
CLOSED = 0.05  # p-value below which its two ends approach each other
ROUNDING = 1e-9  # orders that are alike, such as a list and its reverse, differ by less
STARTS = ("▁", "Ġ", " ", "##")  # marks of tokenizers that begin or continue a word


@dataclass(frozen=True, eq=False)
class GroupProbe:
    """What :func:`probe_groups` measured of one list of n words.

    `shape` is "circle", "arc", "periodic" (a higher mode), "line", "cluster" or "none": the first whose
    p-values are below 0.01 (0.05 for the closing, which tells a circle from an arc). In `table` the control
    is the mean over permuted orders, or over random words for "mean cosine", low and high are its 2.5% and
    97.5% quantiles, and p is one-sided, of the value among the controls.
    """

    words: list[str]  # those in the vocabulary, in the given order
    missing: list[str]  # those outside, which were left out
    shape: str
    table: pd.DataFrame  # quantity, value, control, low, high, p
    power: pd.DataFrame  # mode (1..n//2), power (share of the variance without the trend), low, high
    plane: pd.DataFrame  # word, place, u, v: in the plane of its strongest mode; of a line, the trend is u

    def value(self, quantity: str) -> float:
        """One measured quantity, by its name in `table`."""
        return float(self.table.set_index("quantity")["value"][quantity])


def probe_groups(
    vectors: WordVectors,
    groups: Mapping[str, Sequence[str]],
    *,
    center: bool = True,
    n_controls: int = 999,
) -> dict[str, GroupProbe]:
    """Look for a circle, an arc, a line or a cluster in ordered lists of words, each beside its control.

    Rows are scaled to length 1. Measured of each list are the mean cosine of its words; the share of its
    variance along a linear trend; without this trend, the power of the first Fourier mode and of the
    strongest; and the closing, which is the rank correlation of distance with separation among words at
    least half the list apart. It is negative for a circle, whose ends approach each other (December is near
    January and far from July), and positive for an arc, which has power in its first mode too. The controls
    are the same words in permuted orders; for the mean cosine, other words of the vocabulary.

    Parameters
    ----------
    vectors : WordVectors
    groups : mapping of names to lists of words, each in its natural order, at least five words
    center : bool, default True
        Whether the mean over the whole vocabulary is subtracted first.
    n_controls : int, default 999
        Permuted orders, and draws of other words, per list.

    Returns
    -------
    dict of str to GroupProbe

    Examples
    --------
    >>> angles = 2 * np.pi * np.arange(12) / 12
    >>> circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    >>> months = [f"month {i}" for i in range(12)]
    >>> probe_groups(WordVectors(months, circle), {"months": months}, center=False)["months"].shape
    'circle'
    """
    check_int(n_controls, "n_controls", 99)
    rows = vectors.word.astype(np.float32)
    if center:
        rows = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    random = np.random.default_rng(0)
    found = {}
    for name, words in groups.items():
        present = _present(vectors, name, words)
        missing = [word for word in words if word not in vectors.index]
        found[name] = _probe(rows, vectors, present, missing, n_controls, random)
    return found


def _present(vectors: WordVectors, name: str, words: Sequence[str]) -> list[str]:
    if len(set(words)) != len(words):
        twice = next(word for word in words if list(words).count(word) > 1)
        raise ValueError(f"the list {name!r} has the word {twice!r} twice")
    present = [word for word in words if word in vectors.index]
    if len(present) >= LEAST_WORDS:
        return present
    counts = {start: sum(start + word in vectors.index for word in words) for start in STARTS}
    start = max(counts, key=lambda mark: counts[mark])
    hint = f"; {counts[start]} of them are with {start!r} before the word" if counts[start] else ""
    raise ValueError(
        f"the list {name!r} has {len(present)} of its {len(words)} words in the vocabulary, where "
        f"{LEAST_WORDS} at least are needed{hint}"
    )


def _probe(
    rows: np.ndarray,
    vectors: WordVectors,
    words: list[str],
    missing: list[str],
    n_controls: int,
    random: np.random.Generator,
) -> GroupProbe:
    points = normalize(rows[[vectors.index[word] for word in words]].astype(np.float64))
    if not (directed := points.any(axis=1)).all():
        raise ValueError(f"the vector of {words[int(directed.argmin())]!r} is zero: it has no direction")
    n = len(words)
    orders = [random.permutation(n) for _ in range(n_controls)]
    own, controls = _of_order(points), [_of_order(points[order]) for order in orders]
    cosine = float(mean_cosine(points))
    draws = [float(mean_cosine(rows[_draw(random, len(rows), n)])) for _ in range(n_controls)]

    strongest = [one.power.max() for one in controls]
    table = pd.DataFrame(
        [
            _row("mean cosine", cosine, draws),
            _row("linear trend", own.trend, [one.trend for one in controls]),
            _row("first mode", own.power[0], [one.power[0] for one in controls]),
            _row("strongest mode", own.power.max(), strongest),
            _row("closing", own.closing, [one.closing for one in controls], below=True),
        ]
    )
    spread = np.quantile([one.power for one in controls], [0.025, 0.975], axis=0)
    modes = np.arange(1, len(own.power) + 1)
    power = pd.DataFrame({"mode": modes, "power": own.power, "low": spread[0], "high": spread[1]})
    shape = _shape(table.set_index("quantity")["p"], int(own.power.argmax()) + 1)
    return GroupProbe(words, missing, shape, table, power, _plane(points, words, shape, own))


def _draw(random: np.random.Generator, n_rows: int, n: int) -> np.ndarray:
    """`n` distinct rows, in a time that does not grow with the vocabulary."""
    if n_rows < 4 * n:
        return random.permutation(n_rows)[:n]
    rows = np.unique(random.integers(n_rows, size=2 * n))
    return random.permutation(rows)[:n]


@dataclass(frozen=True, eq=False)
class _Order:
    """What depends on the order of the points."""

    trend: float  # share of the variance along a linear trend
    power: np.ndarray  # (n // 2,), share of the rest by mode
    closing: float  # rank correlation of distance with separation, far pairs
    slope: np.ndarray  # (D,), direction of the trend
    rest: np.ndarray  # (n, D), points without mean and trend


def _of_order(points: np.ndarray) -> _Order:
    n = len(points)
    centered = points - points.mean(axis=0)
    variance = float(np.square(centered).sum()) or 1.0
    time = np.arange(n) - (n - 1) / 2
    time /= np.linalg.norm(time)
    slope = time @ centered
    rest = centered - np.outer(time, slope)
    # without the trend, which alone would put power into the first mode, as a circle does
    spectrum = np.square(np.abs(np.fft.rfft(rest, axis=0))).sum(axis=1)[1:] * 2
    if n % 2 == 0:
        spectrum[-1] /= 2  # the Nyquist mode has no conjugate
    power = spectrum / (float(spectrum.sum()) or 1.0)
    return _Order(float(slope @ slope) / variance, power, _closing(points), slope, rest)


def _closing(points: np.ndarray) -> float:
    """Spearman's correlation of distance with separation among pairs at least half the list apart."""
    n = len(points)
    first, second = np.triu_indices(n, k=(n + 1) // 2)
    distances = np.linalg.norm(points[first] - points[second], axis=1)
    ranks, separations = rankdata(distances), rankdata(second - first)
    ranks, separations = ranks - ranks.mean(), separations - separations.mean()
    size = np.linalg.norm(ranks) * np.linalg.norm(separations)
    return float(ranks @ separations / size) if size else 0.0


def _row(quantity: str, value: float, controls: Sequence[float], *, below: bool = False) -> dict[str, object]:
    low, high = np.quantile(controls, [0.025, 0.975])
    above = np.subtract(controls, value) * (-1 if below else 1)
    extreme = above >= -ROUNDING * max(abs(value), 1)
    p = (1 + int(extreme.sum())) / (1 + len(controls))
    control = float(np.mean(controls))
    return {"quantity": quantity, "value": value, "control": control, "low": low, "high": high, "p": p}


def _shape(p: pd.Series, mode: int) -> str:
    if p["first mode"] < ORDERED:
        return "circle" if p["closing"] < CLOSED else "arc"
    if mode > 1 and p["strongest mode"] < ORDERED:
        return "periodic"
    if p["linear trend"] < ORDERED:
        return "line"
    return "cluster" if p["mean cosine"] < ORDERED else "none"


def _plane(points: np.ndarray, words: list[str], shape: str, order: _Order) -> pd.DataFrame:
    n = len(points)
    centered = points - points.mean(axis=0)
    if shape == "line":
        along = order.slope / np.linalg.norm(order.slope)
        across = np.linalg.svd(order.rest, full_matrices=False)[2][0]
        axes = np.stack([along, across])
    else:
        mode = int(order.power.argmax()) + 1
        angles = 2 * np.pi * mode * np.arange(n) / n
        waves = np.stack([np.cos(angles), np.sin(angles)]) @ (order.rest if shape != "circle" else centered)
        axes = np.linalg.svd(waves, full_matrices=False)[2]
    flat = np.pad(centered @ axes.T, ((0, 0), (0, 1)))  # of one dimension the other is 0
    return pd.DataFrame({"word": words, "place": np.arange(n), "u": flat[:, 0], "v": flat[:, 1]})
