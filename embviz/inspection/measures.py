"""Measurements of a weight matrix and its rows, each with draws of its control.

The null of a matrix is the same numbers in random places; that of two tables, or of an order, the same rows
in a random order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from embviz.arrays import checked, matched
from embviz.metrics import bootstrap_interval, nearest_neighbors

N_RESAMPLES = 200  # of rows


@dataclass(frozen=True)
class Measured:
    """A measurement, its control, and an interval over rows if it is a mean over rows.

    Parameters
    ----------
    quantity : str
    value : float
    null : array, one value a draw
    interval : pair of float, optional
        95%, by resampling rows.
    """

    quantity: str
    value: float
    null: np.ndarray
    interval: tuple[float, float] = field(default=(np.nan, np.nan))


def singular_values(matrix: ArrayLike) -> np.ndarray:
    """Singular values, the largest first, by the smaller Gram matrix in float64.

    Parameters
    ----------
    matrix : array, shape (n, m)

    Returns
    -------
    array, shape (min(n, m),); exact to about 1e-8 of the largest

    >>> singular_values([[3.0, 0.0], [0.0, -4.0]]).tolist()
    [4.0, 3.0]
    """
    matrix = checked(matrix, "matrix", 2)
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    found: np.ndarray = np.sqrt(np.linalg.eigvalsh(gram).clip(0))[::-1]
    return found


def edge(matrix: ArrayLike) -> float:
    """Where the spectrum of independent entries of that variance ends: s (sqrt(n) + sqrt(m)).

    Parameters
    ----------
    matrix : array, shape (n, m)

    Source
    ------
    Marchenko and Pastur (1967), Distribution of eigenvalues for some sets of random matrices.
    """
    matrix = checked(matrix, "matrix", 2)
    n, m = matrix.shape
    return float(matrix.std() * (np.sqrt(n) + np.sqrt(m)))


def _of_spectrum(values: np.ndarray, end: float) -> dict[str, float]:
    squares = values**2
    return {
        "beyond the edge": float((values > end).mean()),
        "stable rank": float(squares.sum() / squares[0]),
        "from orthogonal": float(squares.std() / squares.mean()),
    }


def spectrum_measures(
    matrix: ArrayLike, *, n_draws: int, seed: int
) -> tuple[list[Measured], np.ndarray, np.ndarray]:
    """Share of singular values beyond the edge, stable rank, distance from an orthogonal matrix.

    Parameters
    ----------
    matrix : array, shape (n, m)
    n_draws : int
        Of the null, the same entries in random places.
    seed : int

    Returns
    -------
    measures : list of Measured
        The stable rank is |W|_F^2 over the square of the largest singular value. "from orthogonal" is the
        standard deviation of the squared singular values over their mean: 0 for a matrix with orthonormal
        rows or columns, times any number.
    values, null_values : array, shape (min(n, m),)
        Singular values, and those of the null's first draw.

    Raises
    ------
    ValueError
        If all entries are equal, or one is not finite.
    """
    matrix = checked(matrix, "matrix", 2)
    if np.ptp(matrix) == 0:
        raise ValueError("all its numbers are equal")
    end, values = edge(matrix), singular_values(matrix)
    rng = np.random.default_rng(seed)
    nulls = [singular_values(rng.permutation(matrix.ravel()).reshape(matrix.shape)) for _ in range(n_draws)]
    drawn = [_of_spectrum(null, end) for null in nulls]
    found = [
        Measured(name, value, np.array([draw[name] for draw in drawn]))
        for name, value in _of_spectrum(values, end).items()
    ]
    return found, values, nulls[0]


# --- rows -------------------------------------------------------------------------------------------


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; those that are 0 are left out, since they point nowhere."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[lengths[:, 0] > 0] / lengths[lengths[:, 0] > 0]


def _mean_cosine(unit: np.ndarray, times: np.ndarray | None = None) -> float:
    """Mean cosine of all pairs of different rows, a row counted so many times."""
    times = np.ones(len(unit)) if times is None else times
    total = times @ unit
    return float((total @ total - times @ times) / (times.sum() ** 2 - times @ times))


def row_measures(rows: ArrayLike, *, n_draws: int, seed: int) -> list[Measured]:
    """Isotropy of rows: their mean cosine, and the mean cosine of each with its nearest.

    Parameters
    ----------
    rows : array, shape (V, D), at least three of them not 0
    n_draws : int
        Of the null, the same entries in random places.
    seed : int

    Raises
    ------
    ValueError
        If fewer than three rows have a direction.

    Source
    ------
    Mean cosine as a measure of isotropy: Ethayarajh (2019), section 3.3.
    """
    rows = checked(rows, "rows", 2)
    unit = _unit(rows)
    if len(unit) < 3:
        raise ValueError(f"{len(unit)} of {len(rows)} rows are not 0: at least three are needed")
    rng = np.random.default_rng(seed)
    drawn = [_unit(rng.permutation(rows.ravel()).reshape(rows.shape)) for _ in range(n_draws)]
    counts = (
        np.bincount(rng.integers(len(unit), size=len(unit)), minlength=len(unit)) for _ in range(N_RESAMPLES)
    )
    again = [_mean_cosine(unit, times.astype(float)) for times in counts]
    low, high = np.quantile(again, [0.025, 0.975])
    nearest = _nearest_cosines(unit)
    means = np.array([_mean_cosine(one) for one in drawn])
    nearest_means = np.array([_nearest_cosines(one).mean() for one in drawn])
    around = bootstrap_interval(nearest, seed=rng, n_resamples=N_RESAMPLES)
    return [
        Measured("mean cosine", _mean_cosine(unit), means, (float(low), float(high))),
        Measured("cosine with the nearest", float(nearest.mean()), nearest_means, around),
    ]


def _nearest_cosines(unit: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 - nearest_neighbors(unit, 1, metric="cosine")[1][:, 0]
    return found


def paired_measures(x: ArrayLike, y: ArrayLike, *, n_draws: int, seed: int) -> list[Measured]:
    """Two tables of the same words: the cosine of a word's two rows, and whether pairs are alike in both.

    Parameters
    ----------
    x, y : array, shape (V, D)
        Input and output rows.
    n_draws : int
        Of the null, the rows of `y` in a random order.
    seed : int

    Raises
    ------
    ValueError
        If shapes differ, fewer than three words have a direction in both, or all rows of one have the same.
    """
    x, y = matched(x, y, 2)
    has_both = np.logical_and(x.any(axis=1), y.any(axis=1))
    x, y = _unit(x[has_both]), _unit(y[has_both])
    if len(x) < 3:
        raise ValueError(f"{len(x)} words have rows that are not 0 in both tables: at least three are needed")
    rng = np.random.default_rng(seed)
    i, j = rng.integers(len(x), size=(2, 50_000))
    i, j = i[i != j], j[i != j]
    alike = (x[i] * x[j]).sum(axis=1)

    def same_word(other: np.ndarray) -> np.ndarray:
        cosines: np.ndarray = (x * other).sum(axis=1)
        return cosines

    def agreement(other: np.ndarray) -> float:
        return float(np.corrcoef(alike, (other[i] * other[j]).sum(axis=1))[0, 1])

    for name, unit in (("x", x), ("y", y)):
        if np.ptp((unit[i] * unit[j]).sum(axis=1)) < 1e-12:  # but for rounding
            raise ValueError(f"{name}: all its rows have one direction, so that no correlation is defined")
    orders = [rng.permutation(y) for _ in range(n_draws)]
    own = same_word(y)
    interval = bootstrap_interval(own, seed=rng, n_resamples=N_RESAMPLES)
    means = np.array([same_word(other).mean() for other in orders])
    return [
        Measured("cosine of a token's two rows", float(own.mean()), means, interval),
        Measured("correlation of cosines", agreement(y), np.array([agreement(other) for other in orders])),
    ]


def order_measures(table: ArrayLike, *, n_draws: int, seed: int) -> list[Measured]:
    """Smoothness of positions: 1 - mean squared step / mean squared distance of two rows.

    Parameters
    ----------
    table : array, shape (T, D), at least three rows
    n_draws : int
        Of the null, the rows in a random order, about 0.
    seed : int

    Raises
    ------
    ValueError
        If there are fewer than three rows, or all are equal.

    >>> line = np.arange(20.0)[:, None]
    >>> [round(one.value, 2) for one in order_measures(line, n_draws=2, seed=0)]
    [0.99]
    """
    table = checked(table, "table", 2)
    if len(table) < 3 or np.ptp(table, axis=0).max() == 0:
        raise ValueError(f"{len(table)} rows: at least three are needed, and not all equal")

    def smoothness(rows: np.ndarray) -> float:
        steps = (np.diff(rows, axis=0) ** 2).sum(axis=1).mean()
        apart = 2 * rows.var(axis=0, ddof=1).sum()  # mean squared distance of two different rows
        return float(1 - steps / apart)

    rng = np.random.default_rng(seed)
    null = np.array([smoothness(rng.permutation(table)) for _ in range(n_draws)])
    return [Measured("smoothness", smoothness(table), null)]
