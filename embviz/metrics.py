"""Angles, distances, agreement, symmetry: arrays in, numbers out. NaN and infinity are refused everywhere."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.spatial
from numpy.typing import ArrayLike
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from embviz.arrays import check_array, check_pair, check_square
from embviz.memory import require_memory


def _spread_sample(values: ArrayLike) -> np.ndarray:
    """A sample that is not constant."""
    sample = check_array(values, "values", 1)
    if np.ptp(sample) == 0:
        raise ValueError(f"all {len(sample)} values are {sample[0]:g}: a sample without spread has no shape")
    return sample


# --- angles and distances ---------------------------------------------------------------------------


def cosines(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Cosine of the angle between each row of `x` and the same row of `y`.

    Parameters
    ----------
    x, y : arrays, shape (n, D), finite

    Returns
    -------
    array, shape (n,), in -1..1; 0 where a row is all zeros, the word tests' convention
    """
    x, y = check_pair(x, y, 2)
    return np.clip(np.einsum("nd,nd->n", normalize(x), normalize(y)), -1, 1)


def _require_directions(rows: np.ndarray, name: str) -> None:
    if not (directed := rows.any(axis=1)).all():
        raise ValueError(f"row {int(np.argmin(directed))} of {name} is all zeros: it has no direction")


def normalize(x: np.ndarray) -> np.ndarray:
    """Rows (..., D) at length 1; a row of zeros stays as it is."""
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    found: np.ndarray = x / np.where(norms > 0, norms, 1)
    return found


def mean_cosine(x: np.ndarray) -> np.ndarray:
    """Mean cosine of all pairs of different rows of tables (..., n, D); 0 for pairs with a row of zeros."""
    unit, n = normalize(x), x.shape[-2]
    same = (unit**2).sum(axis=(-2, -1))  # each row with itself
    found: np.ndarray = ((unit.sum(axis=-2) ** 2).sum(axis=-1) - same) / (n * (n - 1))
    return found


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
    x = check_array(x, "x", 2)
    require_memory(
        12 * len(x) * (len(x) - 1),
        what=f"measuring all pairs of {len(x):,} rows",
        instead="take a random sample of the rows, or nearest_neighbors, which looks at a block at a time",
    )
    if metric == "euclidean":
        return squareform(pdist(x))
    if metric != "cosine":
        raise ValueError(f'metric is {metric!r}: use "euclidean" or "cosine"')
    _require_directions(x, "x")
    # |u - v|^2 / 2 of unit rows: accurate where 1 - u'v would round to nothing
    return squareform(pdist(normalize(x), "sqeuclidean")) / 2


# --- matrices ---------------------------------------------------------------------------------------


def circulant_score(matrix: ArrayLike) -> float:
    """Median cosine between row i and the first row rolled right by i places: 1 for a circulant matrix.

    Parameters
    ----------
    matrix : array, shape (n, n), finite

    Returns
    -------
    float in -1..1; row 0, equal to itself, is counted too, as in the source

    Source
    ------
    The kernel paper, section 3.3, step 4.
    """
    matrix = check_square(matrix, "matrix")
    # row by row: with all rolled rows at once, 15,000 tokens would take several arrays of 2 GB
    scores = [cosines(row[None], np.roll(matrix[0], i)[None]) for i, row in enumerate(matrix)]
    return float(np.median(scores))


def procrustes_disparity(x: ArrayLike, y: ArrayLike) -> float:
    """What is left of the difference of two point sets after the best shift, scale, rotation, reflection.

    Parameters
    ----------
    x, y : arrays, shape (n, D), finite, rows not all equal; row i of one meant to match row i of the other

    Returns
    -------
    float in 0..1: 0 when they match; the share of the sum of squares that no such map explains
    """
    return float(scipy.spatial.procrustes(*check_pair(x, y, 2))[2])


def procrustes_map(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The map Q (E, D) with orthonormal columns or rows that brings y Q nearest to x.

    Parameters
    ----------
    x : array, shape (n, D)
    y : array, shape (n, E)

    Source
    ------
    Schönemann (1966), A generalized solution of the orthogonal Procrustes problem.
    """
    left, _, right = np.linalg.svd(y.T @ x, full_matrices=False)
    found: np.ndarray = left @ right
    return found


# --- symmetry and shape of a distribution -----------------------------------------------------------


def positive_share(values: ArrayLike) -> float:
    """Share of values above 0, in 0..1; zeros are not positive, nor are they left out.

    Parameters
    ----------
    values : array, shape (n,), finite, one at least

    Examples
    --------
    >>> positive_share([-1.0, 0.0, 2.0, 3.0])
    0.5
    """
    return float(np.mean(check_array(values, "values", 1) > 0))


def kurtosis(values: ArrayLike) -> float:
    """Fourth central moment over the squared variance: 2 for the semicircle, 3 for the normal (no excess).

    Parameters
    ----------
    values : array, shape (n,), finite, not all equal

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
    values : array, shape (n,), finite, not all equal

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
    n_resamples: int = 2000,
) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean of independent values.

    Parameters
    ----------
    values : array, shape (n,), finite, at least two
    seed : int or Generator
    n_resamples : int, default 2000

    Returns
    -------
    (low, high), in the unit of the values
    """
    sample = check_array(values, "values", 1)
    if len(sample) < 2:
        raise ValueError("one value has no interval: give at least two")
    rng = np.random.default_rng(seed)
    draws = (rng.integers(len(sample), size=len(sample)) for _ in range(n_resamples))
    replicates = np.array([sample[take].mean() for take in draws])
    low, high = np.quantile(replicates, [0.025, 0.975])
    return float(low), float(high)


# --- neighbours --------------------------------------------------------------------------------------


def nearest_neighbors(
    x: ArrayLike,
    n_neighbors: int = 8,
    *,
    asked: ArrayLike | None = None,
    metric: Literal["euclidean", "cosine"] = "euclidean",
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's nearest other rows, by brute force; :func:`embviz.neighbors.find_neighbors` for many rows.

    Parameters
    ----------
    x : array, shape (V, D), finite
        Rows are compared with each other.
    n_neighbors : int
        k, below V.
    asked : array of int, shape (n,), optional
        The rows whose neighbours are looked for among all; by default all.
    metric : "euclidean" or "cosine"
        "cosine" is one minus the cosine; it needs rows that aren't zero.

    Returns
    -------
    ids : array of int, shape (n, k)
        Nearest first. Rows as far as each other, up to 1e-6 of the longest row's length, come by their
        number, so that rounding doesn't choose between them.
    distances : array, shape (n, k)
        To that precision.

    Examples
    --------
    >>> nearest_neighbors([[0.0], [1.0], [3.0]], 1)[0].ravel().tolist()
    [1, 0, 1]
    """
    x = check_array(x, "x", 2)
    if not 1 <= n_neighbors < len(x):
        raise ValueError(f"x: {len(x)} rows have at most {len(x) - 1} neighbours each, not {n_neighbors}")
    asked = np.arange(len(x)) if asked is None else asked
    places = check_array(asked, "asked", 1, kind="integer", low=0, high=len(x) - 1)
    if metric == "cosine":
        _require_directions(x, "x")
        ids, distances = _nearest(normalize(x), places, n_neighbors)
        return ids, distances**2 / 2  # of rows of length 1
    return _nearest(x, places, n_neighbors)


def _nearest(x: np.ndarray, asked: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    x = x - x.mean(axis=0)
    squares = (x**2).sum(axis=1)
    step = 1e-6 * np.sqrt(squares.max()) or 1.0
    ids = np.empty((len(asked), n_neighbors), dtype=np.int64)
    distances = np.empty((len(asked), n_neighbors))
    for first in range(0, len(asked), 512):
        rows = asked[first : first + 512]
        squared = squares[rows, None] + squares - 2 * x[rows] @ x.T  # (block, V)
        # in whole steps: sums in another order, as of another processor, then choose the same neighbours
        whole = np.rint(np.sqrt(np.maximum(squared, 0)) / step)
        whole[np.arange(len(rows)), rows] = np.inf
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

    Examples
    --------
    >>> neighbors_kept([[1, 2], [0, 2]], [[2, 3], [2, 0]]).tolist()
    [0.5, 1.0]
    """
    true = check_array(true, "true", 2, kind="integer", low=0)
    shown = check_array(shown, "shown", 2, kind="integer", low=0)
    if true.shape != shown.shape:
        raise ValueError(f"true has shape {true.shape} and shown {shown.shape}: they don't match")
    share: np.ndarray = (true[:, :, None] == shown[:, None, :]).any(axis=2).mean(axis=1)
    return share
