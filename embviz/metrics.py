"""Angles, distances, agreement, symmetry: arrays in, numbers out. NaN and infinity are refused everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.spatial.distance import pdist, squareform


def _finite(values: ArrayLike, name: str, n_axes: int) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.size == 0:
        raise ValueError(f"{name} is empty")
    if array.ndim != n_axes:
        raise ValueError(f"{name} has shape {array.shape}: give an array with {n_axes} axes")
    if not np.isfinite(array).all():
        n_bad = int((~np.isfinite(array)).sum())
        raise ValueError(f"{name} has {n_bad} NaN or infinite value(s): find where they come from")
    return array


def _square(matrix: ArrayLike, name: str) -> np.ndarray:
    array = _finite(matrix, name, 2)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} has shape {array.shape}: it must be square")
    return array


def _matched(x: ArrayLike, y: ArrayLike, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = _finite(x, "x", n_axes), _finite(y, "y", n_axes)
    if x.shape != y.shape:
        raise ValueError(
            f"x has shape {x.shape} and y {y.shape}: row i of one is held against row i of the other"
        )
    return x, y


def _spread_sample(values: ArrayLike) -> np.ndarray:
    sample = _finite(values, "values", 1)
    if np.ptp(sample) == 0:
        raise ValueError(
            f"all {len(sample)} value(s) are {sample[0]:g}: a sample without spread has no shape"
        )
    return sample


# --- angles and distances ---------------------------------------------------------------------------


def cosines(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Cosine of the angle between each row of `x` and the same row of `y`.

    Parameters
    ----------
    x, y : arrays, shape (n, D)

    Returns
    -------
    array, shape (n,), in -1..1; 0 where a row is all zeros, the word tests' convention

    Raises
    ------
    ValueError
        If the shapes differ, or a value is not finite.
    """
    x, y = _matched(x, y, 2)
    return np.clip(np.einsum("nd,nd->n", _unit_rows(x), _unit_rows(y)), -1, 1)


def angles(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Angle between each row of `x` and the same row of `y`, in radians, shape (n,), in 0..pi.

    Accurate near 0 and pi too, where the arc cosine of a rounded cosine is not.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a row is all zeros: it has no direction.
    """
    x, y = _matched(x, y, 2)
    for name, rows in (("x", x), ("y", y)):
        if not (directed := rows.any(axis=1)).all():
            raise ValueError(f"row {int(np.argmin(directed))} of {name} is all zeros: it has no direction")
    x, y = _unit_rows(x), _unit_rows(y)
    return 2 * np.arctan2(np.linalg.norm(x - y, axis=1), np.linalg.norm(x + y, axis=1))


def _unit_rows(x: np.ndarray) -> np.ndarray:
    largest = np.abs(x).max(axis=1, keepdims=True)
    x = x / np.where(largest > 0, largest, 1)  # so that squares neither overflow nor vanish
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)


def pairwise_distances(x: ArrayLike, *, metric: Literal["euclidean", "cosine"] = "euclidean") -> np.ndarray:
    """Distances between all rows of `x`.

    Parameters
    ----------
    x : array, shape (n, D)
    metric : "euclidean", in units of x; or "cosine", 1 - cosine, in 0..2

    Returns
    -------
    array, shape (n, n), symmetric, zero on the diagonal

    Raises
    ------
    ValueError
        If a value is not finite, or a cosine is asked of a row that is all zeros.
    """
    x = _finite(x, "x", 2)
    if metric == "euclidean":
        return squareform(pdist(x))
    if metric != "cosine":
        raise ValueError(f'metric is {metric!r}: use "euclidean" or "cosine"')
    if not (directed := x.any(axis=1)).all():
        raise ValueError(f"row {int(np.argmin(directed))} of x is all zeros: it has no direction")
    # |u - v|^2 / 2 of unit rows: accurate where 1 - u'v would round to nothing
    return squareform(pdist(_unit_rows(x), "sqeuclidean")) / 2


def concordance(x: ArrayLike, y: ArrayLike) -> float:
    """Lin's concordance: how near the points (x, y) lie to the line y = x. 1 on it, 0 without agreement.

    Parameters
    ----------
    x, y : arrays, shape (n,)

    Returns
    -------
    float in -1..1; at most the correlation, which ignores a shift or a change of scale

    Raises
    ------
    ValueError
        If the lengths differ, a value is not finite, or both are one constant: 0 / 0.

    Source
    ------
    Lin (1989), A concordance correlation coefficient, Biometrics 45, with variances divided by n.
    """
    x, y = _matched(x, y, 1)
    spread = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    if spread == 0:
        raise ValueError(f"x and y are both {x[0]:g} throughout: their concordance is 0 / 0")
    return float(2 * np.mean((x - x.mean()) * (y - y.mean())) / spread)


# --- matrices ---------------------------------------------------------------------------------------


def circulant_score(matrix: ArrayLike, *, direction: Literal[1, -1] = 1) -> float:
    """Median cosine between row i and the first row rolled by i places: 1 for a circulant matrix.

    Parameters
    ----------
    matrix : array, shape (n, n)
    direction : 1 or -1
        1 rolls to the right, as a circulant does (an entry depends on column - row); -1 to the left (on
        column + row).

    Returns
    -------
    float in -1..1; row 0, equal to itself, is counted too, as in the source

    Raises
    ------
    ValueError
        If the matrix is not square and finite.

    Source
    ------
    The kernel paper, section 3.3, step 4.
    """
    matrix = _square(matrix, "matrix")
    if direction not in (1, -1):
        raise ValueError(f"direction is {direction!r}: use 1 (to the right) or -1 (to the left)")
    places = np.arange(len(matrix))
    rolled = matrix[0][(places[None, :] - direction * places[:, None]) % len(matrix)]  # (n, n)
    return float(np.median(cosines(matrix, rolled)))


def involution_error(Q: ArrayLike) -> float:
    """|Q^2 - I|_F / sqrt(d): 0 for a reflection, about sqrt(2) for a large random rotation.

    Source
    ------
    The reflections paper, Lemma 3: the map from word to context vectors is nearly an involution.
    """
    Q = _square(Q, "Q")
    return float(np.linalg.norm(Q @ Q - np.eye(len(Q))) / np.sqrt(len(Q)))


@dataclass(frozen=True)
class SquareSummary:
    """Entries of the square of a matrix: 1, 0, 0, 0 for an involution."""

    diagonal_mean: float
    diagonal_std: float
    offdiagonal_mean: float
    offdiagonal_std: float


def square_summary(Q: ArrayLike) -> SquareSummary:
    """Mean and standard deviation of Q^2 on and off its diagonal.

    Raises
    ------
    ValueError
        If Q is not square and finite, or 1 x 1: nothing is off its diagonal.

    Source
    ------
    The reflections paper, Figure 3.
    """
    Q = _square(Q, "Q")
    if len(Q) == 1:
        raise ValueError("Q has shape (1, 1): nothing is off its diagonal")
    square = Q @ Q
    diagonal, off = np.diag(square), square[~np.eye(len(Q), dtype=bool)]
    return SquareSummary(*(float(x) for x in (diagonal.mean(), diagonal.std(), off.mean(), off.std())))


def procrustes_disparity(x: ArrayLike, y: ArrayLike) -> float:
    """What is left of the difference of two point sets after the best shift, scale, rotation, reflection.

    Parameters
    ----------
    x, y : arrays, shape (n, D), row i of one meant to match row i of the other

    Returns
    -------
    float in 0..1: 0 when they match; the share of the sum of squares that no such map explains

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or all rows of one are the same point.
    """
    x, y = _matched(x, y, 2)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    for name, points in (("x", x), ("y", y)):
        if not points.any():
            raise ValueError(f"all rows of {name} are the same point: there is nothing to align")
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    explained = np.linalg.svd(x.T @ y, compute_uv=False).sum()
    return float(max(0.0, 1 - explained**2))


# --- symmetry and shape of a distribution -----------------------------------------------------------


def positive_share(values: ArrayLike) -> float:
    """Share of values above 0; a zero counts half, so that the mirrored sample has one minus this share."""
    sample = _finite(values, "values", 1)
    return float((np.count_nonzero(sample > 0) + np.count_nonzero(sample == 0) / 2) / len(sample))


def skewness(values: ArrayLike) -> float:
    """Third central moment over the cubed standard deviation: 0 when symmetric around the mean."""
    return float(stats.skew(_spread_sample(values)))


def kurtosis(values: ArrayLike) -> float:
    """Fourth central moment over the squared variance: 2 for the semicircle, 3 for the normal (no excess)."""
    return float(stats.kurtosis(_spread_sample(values), fisher=False))


def mirror_distance(values: ArrayLike) -> float:
    """Wasserstein-1 distance between a sample and its mirror image around 0, in standard deviations.

    0 when the sample is symmetric around 0; twice the mean over the standard deviation when it lies all
    on one side.
    """
    sample = np.sort(_spread_sample(values))  # sorted, so the mirrored sample in order is -sample[::-1]
    return float(np.mean(np.abs(sample + sample[::-1])) / sample.std())


def semicircle_distance(values: ArrayLike) -> float:
    """Kolmogorov-Smirnov distance to the semicircle around 0 with the sample's mean square; in 0..1.

    Wigner's semicircle of variance s^2 ends at -2s and 2s.

    Raises
    ------
    ValueError
        If a value is not finite, or all are 0.
    """
    sample = np.sort(_finite(values, "values", 1))
    radius = 2 * np.sqrt(np.mean(sample**2))
    if radius == 0:
        raise ValueError(f"all {len(sample)} value(s) are 0: no semicircle has variance 0")
    x = np.clip(sample / radius, -1, 1)
    expected = 0.5 + (x * np.sqrt(1 - x**2) + np.arcsin(x)) / np.pi  # the law's cumulative distribution
    steps = np.arange(len(x) + 1) / len(x)
    return float(max(np.max(steps[1:] - expected), np.max(expected - steps[:-1])))


# --- uncertainty ------------------------------------------------------------------------------------


def bootstrap_interval(
    values: ArrayLike,
    *,
    seed: int | np.random.Generator,
    statistic: Callable[[np.ndarray], float] = np.mean,
    level: float = 0.95,
    n_resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic of independent values.

    Parameters
    ----------
    values : array, shape (n,), at least two
    seed : int or Generator
    statistic : function of an array (n,), default the mean
    level : float between 0 and 1, default 0.95
    n_resamples : int, default 2000

    Returns
    -------
    (low, high), in units of the statistic

    Raises
    ------
    ValueError
        If there are fewer than two values, or one, or the statistic of some resample, is not finite.
    """
    sample = _finite(values, "values", 1)
    if len(sample) < 2:
        raise ValueError("one value has no interval: give at least two")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it must lie between 0 and 1")
    rng = np.random.default_rng(seed)
    draws = (rng.integers(len(sample), size=len(sample)) for _ in range(n_resamples))
    replicates = np.array([statistic(sample[take]) for take in draws], dtype=float)
    if not np.isfinite(replicates).all():
        raise ValueError("the statistic of some resample is not finite: give more, or more varied, values")
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
