"""Angles, distances, agreement, symmetry: arrays in, numbers out. NaN and infinity are refused everywhere."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from embviz.arrays import checked, matched, square
from embviz.memory import require_memory


def require_pairs(n: int, n_numbers: float) -> None:
    """Refuse so many float64 numbers for each of the pairs of `n` rows, where they would not fit.

    Parameters
    ----------
    n : int
        Rows; there are n (n - 1) / 2 pairs.
    n_numbers : float
        Numbers a pair that are in memory together at the peak.

    Raises
    ------
    MemoryError
        If they would not fit.

    Examples
    --------
    >>> require_pairs(1_000, 3)
    """
    require_memory(
        int(4 * n_numbers * n * (n - 1)),
        what=f"measuring all pairs of {n:,} rows",
        instead="take a random sample of the rows, or nearest_neighbors, which looks at a block at a time",
    )


def _spread_sample(values: ArrayLike, name: str = "values") -> np.ndarray:
    """A sample that is not constant."""
    sample = checked(values, name, 1)
    if np.ptp(sample) == 0:
        raise ValueError(
            f"{name}: all {len(sample)} value(s) are {sample[0]:g}: a sample without spread has no shape"
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
    x, y = matched(x, y, 2)
    return np.clip(np.einsum("nd,nd->n", _unit_rows(x), _unit_rows(y)), -1, 1)


def angles(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Angle between each row of `x` and the same row of `y`.

    Accurate near 0 and pi too, where the arc cosine of a rounded cosine is not.

    Parameters
    ----------
    x, y : arrays, shape (n, D)
        No row all zeros.

    Returns
    -------
    array, shape (n,), in radians, in 0..pi

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a row is all zeros: it has no direction.
    """
    x, y = matched(x, y, 2)
    for name, rows in (("x", x), ("y", y)):
        _require_directions(rows, name)
    x, y = _unit_rows(x), _unit_rows(y)
    return 2 * np.arctan2(np.linalg.norm(x - y, axis=1), np.linalg.norm(x + y, axis=1))


def _require_directions(rows: np.ndarray, name: str) -> None:
    if not (directed := rows.any(axis=1)).all():
        raise ValueError(f"row {int(np.argmin(directed))} of {name} is all zeros: it has no direction")


def _unit_rows(x: np.ndarray) -> np.ndarray:
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
    MemoryError
        If 1.5 n^2 numbers would not fit, before they are made; so do all that measure every pair of rows.
    """
    x = checked(x, "x", 2)
    require_pairs(len(x), 3)
    if metric == "euclidean":
        return squareform(pdist(x))
    if metric != "cosine":
        raise ValueError(f'metric is {metric!r}: use "euclidean" or "cosine"')
    _require_directions(x, "x")
    # |u - v|^2 / 2 of unit rows: accurate where 1 - u'v would round to nothing
    return squareform(pdist(_unit_rows(x), "sqeuclidean")) / 2


# --- matrices ---------------------------------------------------------------------------------------


def circulant_score(matrix: ArrayLike) -> float:
    """Median cosine between row i and the first row rolled right by i places: 1 for a circulant matrix.

    Parameters
    ----------
    matrix : array, shape (n, n)

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
    matrix = square(matrix, "matrix")
    # row by row: with all rolled rows at once, 15,000 tokens would take several arrays of 2 GB
    scores = [cosines(row[None], np.roll(matrix[0], i)[None]) for i, row in enumerate(matrix)]
    return float(np.median(scores))


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
    first, second = matched(x, y, 2)
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    for name, points in (("x", first), ("y", second)):
        if not points.any():
            raise ValueError(f"all rows of {name} are the same point: there is nothing to align")
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    explained = np.linalg.svd(first.T @ second, compute_uv=False).sum()
    return float(max(0.0, 1 - explained**2))


# --- symmetry and shape of a distribution -----------------------------------------------------------


def positive_share(values: ArrayLike) -> float:
    """Share of values above 0, in 0..1; zeros are not positive, nor are they left out.

    Parameters
    ----------
    values : array, shape (n,)

    Raises
    ------
    ValueError
        If there is no value, or one is not finite.

    Examples
    --------
    >>> positive_share([-1.0, 0.0, 2.0, 3.0])
    0.5
    """
    return float(np.mean(checked(values, "values", 1) > 0))


def skewness(values: ArrayLike) -> float:
    """Third central moment over the cubed standard deviation: 0 when symmetric around the mean.

    Parameters
    ----------
    values : array, shape (n,)

    Raises
    ------
    ValueError
        If there is no value, one is not finite, or all are equal.
    """
    return float(stats.skew(_spread_sample(values)))


def kurtosis(values: ArrayLike) -> float:
    """Fourth central moment over the squared variance: 2 for the semicircle, 3 for the normal (no excess).

    Parameters
    ----------
    values : array, shape (n,)

    Raises
    ------
    ValueError
        If there is no value, one is not finite, or all are equal.

    Examples
    --------
    >>> round(kurtosis([-1.0, -1.0, 1.0, 1.0]), 6)
    1.0
    """
    return float(stats.kurtosis(_spread_sample(values), fisher=False))


def mirror_distance(values: ArrayLike) -> float:
    """Wasserstein-1 distance between a sample and its mirror image around 0, in standard deviations.

    0 when the sample is symmetric around 0; twice the mean over the standard deviation when it lies all
    on one side.

    Parameters
    ----------
    values : array, shape (n,)

    Raises
    ------
    ValueError
        If there is no value, one is not finite, or all are equal.

    Examples
    --------
    >>> mirror_distance([-2.0, -1.0, 1.0, 2.0])
    0.0
    """
    sample = np.sort(_spread_sample(values))  # sorted, so the mirrored sample in order is -sample[::-1]
    return float(np.mean(np.abs(sample + sample[::-1])) / sample.std())


# --- uncertainty ------------------------------------------------------------------------------------


def bootstrap_interval(
    values: ArrayLike,
    *,
    seed: int | np.random.Generator,
    level: float = 0.95,
    n_resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of independent values.

    Parameters
    ----------
    values : array, shape (n,), at least two
    seed : int or Generator
    level : float between 0 and 1, default 0.95
    n_resamples : int, default 2000

    Returns
    -------
    (low, high), in the unit of the values

    Raises
    ------
    ValueError
        If there are fewer than two values, or one is not finite.
    """
    sample = checked(values, "values", 1)
    if len(sample) < 2:
        raise ValueError("one value has no interval: give at least two")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it must lie between 0 and 1")
    rng = np.random.default_rng(seed)
    draws = (rng.integers(len(sample), size=len(sample)) for _ in range(n_resamples))
    replicates = np.array([sample[take].mean() for take in draws])
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# --- planes -----------------------------------------------------------------------------------------


def principal_plane(weights: ArrayLike) -> np.ndarray:
    """Coordinates of a matrix's rows over time, in the best two dimensions for the last step.

    The plane is one for all steps, so that a picture of one step after the other doesn't turn: the first
    two principal components of the last step's rows, about their mean. Their signs make the coordinate
    largest in magnitude positive.

    Parameters
    ----------
    weights : array, shape (S, V, D)
        V rows at each of S steps, D at least 2.

    Returns
    -------
    array, shape (S, V, 2), in units of the weights; the last step's rows have mean 0

    Raises
    ------
    ValueError
        If a value is not finite, there are fewer than two dimensions, or all rows of the last step are equal.

    Examples
    --------
    >>> principal_plane([[[0, 0, 1], [5, 0, 1], [1, 1, 1], [1, -1, 1]]])[0, 1].tolist()
    [3.25, 0.0]
    """
    weights = checked(weights, "weights", 3)
    if weights.shape[2] < 2:
        raise ValueError(f"weights has shape {weights.shape}: a plane needs rows of at least two dimensions")
    mean = weights[-1].mean(axis=0)
    _, singular_values, axes = np.linalg.svd(weights[-1] - mean, full_matrices=False)
    if singular_values[0] == 0:
        raise ValueError("all rows of the last step are equal: they define no plane")
    last = (weights[-1] - mean) @ axes[:2].T  # (V, 2)
    extreme = last[np.abs(last).argmax(axis=0), [0, 1]]
    return (weights - mean) @ (axes[:2] * np.where(extreme < 0, -1, 1)[:, None]).T


# --- neighbours --------------------------------------------------------------------------------------


def nearest_neighbors(
    x: ArrayLike, n_neighbors: int = 8, *, metric: Literal["euclidean", "cosine"] = "euclidean"
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's nearest other rows, by brute force.

    Parameters
    ----------
    x : array, shape (V, D)
        Rows are compared with each other.
    n_neighbors : int
        k, below V.
    metric : "euclidean" or "cosine"
        "cosine" is one minus the cosine; it needs rows that aren't zero.

    Returns
    -------
    ids : array of int, shape (V, k)
        Nearest first. Rows as far as each other, up to 1e-6 of the longest row's length, come by their
        number, so that rounding doesn't choose between them.
    distances : array, shape (V, k)
        To that precision.

    Raises
    ------
    ValueError
        If a value is not finite, there are no more rows than neighbours, or, with "cosine", a row is zero.

    Examples
    --------
    >>> nearest_neighbors([[0.0], [1.0], [3.0]], 1)[0].ravel().tolist()
    [1, 0, 1]
    """
    x = checked(x, "x", 2)
    if not 1 <= n_neighbors < len(x):
        raise ValueError(f"x: {len(x)} rows have at most {len(x) - 1} neighbours each, not {n_neighbors}")
    if metric == "cosine":
        _require_directions(x, "x")
        ids, distances = _nearest(_unit_rows(x), n_neighbors)
        return ids, distances**2 / 2  # of rows of length 1
    return _nearest(x, n_neighbors)


def _nearest(x: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    x = x - x.mean(axis=0)
    squares = (x**2).sum(axis=1)
    step = 1e-6 * np.sqrt(squares.max()) or 1.0
    ids = np.empty((len(x), n_neighbors), dtype=np.int64)
    distances = np.empty((len(x), n_neighbors))
    for first in range(0, len(x), 512):
        rows = slice(first, first + 512)
        squared = squares[rows, None] + squares - 2 * x[rows] @ x.T  # (block, V)
        whole = np.rint(np.sqrt(np.maximum(squared, 0)) / step)
        own = np.arange(len(whole))
        whole[own, own + first] = np.inf
        limits = np.partition(whole, n_neighbors - 1, axis=1)[:, n_neighbors - 1]
        for row, limit in enumerate(limits):
            near = np.flatnonzero(whole[row] <= limit)
            near = near[np.argsort(whole[row, near], kind="stable")][:n_neighbors]
            ids[first + row], distances[first + row] = near, whole[row, near] * step
    return ids, distances


def neighbors_kept(true: ArrayLike, shown: ArrayLike) -> np.ndarray:
    """How far a drawing can be trusted: the share of each row's true neighbours among those shown.

    Parameters
    ----------
    true, shown : array of int, shape (V, k)
        Neighbours of the same rows in the full space and in the drawing, from :func:`nearest_neighbors`.

    Returns
    -------
    array, shape (V,), from 0 to 1; a drawing that knows nothing keeps ``k / (V - 1)`` on average

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> neighbors_kept([[1, 2], [0, 2]], [[2, 3], [2, 0]]).tolist()
    [0.5, 1.0]
    """
    true = checked(true, "true", 2, kind="integer", low=0)
    shown = checked(shown, "shown", 2, kind="integer", low=0)
    if true.shape != shown.shape:
        raise ValueError(f"true has shape {true.shape} and shown {shown.shape}: they don't match")
    share: np.ndarray = (true[:, :, None] == shown[:, None, :]).any(axis=2).mean(axis=1)
    return share
