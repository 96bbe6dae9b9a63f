"""Measurements of a weight matrix and its rows, each with draws of its control.

The control of a matrix is the same numbers in random places, or what such a matrix tends to by formula; that
of two tables, or of an order, the same rows in a random order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal

from embviz.arrays import check_array, check_pair
from embviz.metrics import bootstrap_interval, mean_cosine, normalize

N_RESAMPLES = 200  # of rows
TRACY_WIDOM = -1.2065  # mean of the distribution of the largest eigenvalue, real case


@dataclass(frozen=True, eq=False)
class Measured:
    """A measurement beside its control: a row of a report, once a report has given it its place."""

    quantity: str
    value: float = np.nan  # NaN where it does not apply
    null: np.ndarray = field(default_factory=lambda: np.empty(0))  # control, a value a draw; one by formula
    interval: tuple[float, float] = (np.nan, np.nan)  # 95%, by resampling rows, of a mean over rows
    part: str = ""  # of the model
    layer: int | None = None
    head: int | None = None
    n_rows: int | None = None
    note: str = ""  # what belongs to the number, or why there is none

    @property
    def control(self) -> float:
        """Mean of the control's draws."""
        return float(self.null.mean()) if self.null.size else np.nan


def singular_values(matrix: ArrayLike) -> np.ndarray:
    """Singular values of a matrix (n, m), the largest first, by the smaller Gram matrix in float64.

    They are exact to about 1e-8 of the largest.

    >>> singular_values([[3.0, 0.0], [0.0, -4.0]]).tolist()
    [4.0, 3.0]
    """
    matrix = check_array(matrix, "matrix", 2)
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    found: np.ndarray = np.sqrt(np.linalg.eigvalsh(gram).clip(0))[::-1]
    return found


def edge(matrix: ArrayLike) -> float:
    """Where the spectrum of independent entries of that variance ends: s (sqrt(n) + sqrt(m)).

    Source
    ------
    Marchenko and Pastur (1967), Distribution of eigenvalues for some sets of random matrices.
    """
    matrix = check_array(matrix, "matrix", 2)
    n, m = matrix.shape
    return float(matrix.std() * (np.sqrt(n) + np.sqrt(m)))


def random_spectrum(
    n: int, m: int, std: float, mean: float = 0.0, largest: float = 0.0
) -> tuple[float, float, float]:
    """What the spectrum of a matrix is where its entries are independent: share beyond the edge, and so on.

    Share beyond the edge, stable rank, "from orthogonal", as of :func:`spectrum_measures`, of n x m
    entries, both large, with standard deviation `std`, this mean, and this largest distance from the mean.
    A mean, and an entry of more than ``std (n m) ** 0.25``, each bring a singular value beyond the edge.

    Source
    ------
    Marchenko and Pastur (1967) for the variance of the squares; Johnstone (2001), On the distribution of the
    largest eigenvalue, theorem 1.1, for the largest; Benaych-Georges and Nadakuditi (2012), The singular
    values and vectors of low rank perturbations, section 3.1, for what lies beyond the edge.

    >>> [round(float(value), 2) for value in random_spectrum(1_000, 250, 1.0)]
    [0.0, 112.42, 0.5]
    """
    few = min(n, m)
    root = np.sqrt(n) + np.sqrt(m)
    spread = root * (1 / np.sqrt(n) + 1 / np.sqrt(m)) ** (1 / 3)
    end = std * np.sqrt(root**2 + TRACY_WIDOM * spread)
    # a mean, or one large entry, is a matrix of rank one: it shows beyond the edge once it is larger than the
    # noise of both its sides together, and the noise then lifts it further
    planted = [size for size in (abs(mean) * np.sqrt(n * m), largest) if size > std * (n * m) ** 0.25]
    tops = [np.sqrt((size**2 + n * std**2) * (size**2 + m * std**2)) / size for size in planted]
    top = max([end, *tops])
    squares = n * m * (std**2 + mean**2)
    # few squared singular values with Marchenko and Pastur's variance, and those that were planted
    bulk = n * m * std**2 / few
    excess = [value**2 - bulk for value in tops]
    variance = bulk**2 * few / max(n, m) + sum(size**2 for size in excess) / few
    return len(planted) / few, squares / top**2, float(np.sqrt(variance)) / (squares / few)


def _of_spectrum(squares: np.ndarray, end: float) -> dict[str, float]:
    return {
        "beyond the edge": float((squares > end**2).mean()),
        "stable rank": float(squares.sum() / squares[0]),
        "from orthogonal": float(squares.std() / squares.mean()),
    }


LARGE = 64  # rows and columns from which a random matrix's spectrum is taken from the formula


def spectrum_measures(
    matrix: ArrayLike, *, n_draws: int, seed: int, with_control: bool = True
) -> tuple[list[Measured], np.ndarray, np.ndarray]:
    """Share of singular values beyond the edge, stable rank, distance from an orthogonal matrix.

    The stable rank is |W|_F^2 over the square of the largest singular value. "from orthogonal" is the
    standard deviation of the squared singular values over their mean: 0 for a matrix with orthonormal rows or
    columns, times any number. The control of a matrix with fewer than 64 rows or columns has the same entries
    in random places, `n_draws` times; of larger ones it is what independent entries tend to, by formula.

    Returns
    -------
    measures : list of Measured
    values, control_values : array, shape (min(n, m),)
        Singular values, and those of one matrix of independent entries: the control's first draw, or, for a
        large matrix, normal numbers of this variance (`with_control`). A large matrix's values are exact to
        about 3e-4 of the largest (float32).
    """
    matrix = check_array(matrix, "matrix", 2)
    if np.ptp(matrix) == 0:
        raise ValueError("all its numbers are equal")
    rng = np.random.default_rng(seed)
    if min(matrix.shape) >= LARGE:
        small = matrix.astype(np.float32)
        gram = small @ small.T if len(small) <= small.shape[1] else small.T @ small
        squares = np.linalg.eigvalsh(gram).clip(0)[::-1].astype(np.float64)
        mean, std = float(matrix.mean()), float(matrix.std())
        largest = max(float(matrix.max()) - mean, mean - float(matrix.min()))
        found = large_spectrum_measures(squares, matrix.shape, std, mean, largest)
        rows, columns = matrix.shape
        control = normal_spectrum(rows, columns, std, seed=seed) if with_control else np.empty(0)
        return found, np.sqrt(squares), control
    end, values = edge(matrix), singular_values(matrix)
    controls = [
        singular_values(rng.permutation(matrix.ravel()).reshape(matrix.shape)) for _ in range(n_draws)
    ]
    drawn = [_of_spectrum(control**2, end) for control in controls]
    found = [
        Measured(name, value, np.array([draw[name] for draw in drawn]))
        for name, value in _of_spectrum(values**2, end).items()
    ]
    return found, values, controls[0]


def large_spectrum_measures(
    squares: np.ndarray, shape: tuple[int, ...], std: float, mean: float, largest: float
) -> list[Measured]:
    """As :func:`spectrum_measures`, from squared singular values, the largest first, and sums of entries."""
    end = std * (np.sqrt(shape[0]) + np.sqrt(shape[1]))
    control = random_spectrum(shape[0], shape[1], std, mean, largest)
    own = _of_spectrum(squares, end)
    return [
        Measured(name, value, np.array([level]))
        for (name, value), level in zip(own.items(), control, strict=True)
    ]


def normal_spectrum(n: int, m: int, std: float, *, seed: int) -> np.ndarray:
    """Singular values of one (n, m) matrix of independent normal entries, the largest first, without it.

    Source
    ------
    Dumitriu and Edelman (2002), Matrix models for beta ensembles: the matrix has the singular values of a
    bidiagonal one with chi-distributed entries.

    >>> bool(normal_spectrum(10_000, 200, 1.0, seed=0)[0] < 1.01 * (100 + 200 ** 0.5))
    True
    """
    n, m = max(n, m), min(n, m)
    rng = np.random.default_rng(seed)
    diagonal = np.sqrt(rng.chisquare(np.arange(n, n - m, -1)))
    beside = np.sqrt(rng.chisquare(np.arange(m - 1, 0, -1))) if m > 1 else np.empty(0)
    squares = diagonal**2
    squares[1:] += beside**2
    values = eigh_tridiagonal(squares, diagonal[:-1] * beside, eigvals_only=True)
    found: np.ndarray = std * np.sqrt(values.clip(0))[::-1]
    return found


# --- rows -------------------------------------------------------------------------------------------


def isotropy_measures(
    unit_sum: np.ndarray, n_rows: int, rows: np.ndarray, *, n_draws: int, seed: int
) -> Measured:
    """Mean cosine of all pairs of rows of a table, of which `n_rows` are not 0.

    `unit_sum` (D,) is the sum of all rows, each divided by its length. The interval and the control, entries
    in random places, come from `rows` (n, D), drawn at random.

    Source
    ------
    Mean cosine as a measure of isotropy: Ethayarajh (2019), section 3.3.
    """
    value = float((unit_sum @ unit_sum - n_rows) / (n_rows * (n_rows - 1)))
    with_all = normalize(rows) @ (unit_sum / n_rows)
    error = 1.96 * 2 * float(with_all.std()) / np.sqrt(n_rows)  # of a mean over pairs: Hoeffding (1948)
    rng = np.random.default_rng(seed)
    drawn = (rng.permutation(rows.ravel()).reshape(rows.shape) for _ in range(n_draws))
    control = np.array([mean_cosine(one) for one in drawn])
    return Measured("mean cosine", value, control, (value - error, value + error))


def nearest_measures(cosines: np.ndarray, control: np.ndarray, *, n_draws: int, seed: int) -> Measured:
    """Mean cosine of rows, drawn at random, with their nearest among all rows of a table.

    The control are the cosines of made rows that take each column from another random row, cut into `n_draws`
    parts.
    """
    around = bootstrap_interval(cosines, seed=seed, n_resamples=N_RESAMPLES)
    parts = np.array([part.mean() for part in np.array_split(control, min(n_draws, len(control)))])
    return Measured("cosine with the nearest", float(cosines.mean()), parts, around)


def length_measures(lengths: np.ndarray, kurtosis: float, embedding_dim: int) -> Measured:
    """Spread of the lengths of all rows, (V,): their standard deviation over their mean.

    The control is the spread of rows of D independent entries of this kurtosis, by formula:
    ``sqrt((kurtosis - 1) / D) / 2``.
    """
    lengths = lengths.astype(np.float64)
    control = 0.5 * np.sqrt(max(kurtosis - 1, 0) / embedding_dim)
    spread = float(lengths.std() / lengths.mean())
    return Measured("spread of row lengths", spread, np.array([control]))


def paired_measures(x: ArrayLike, y: ArrayLike, *, n_draws: int, seed: int) -> list[Measured]:
    """Two tables (V, D) of the same words: cosine of a word's two rows, and whether pairs are alike in both.

    At least three words have a direction in both; the control has the rows of `y` in random orders.
    """
    x, y = check_pair(x, y, 2)
    has_both = np.logical_and(x.any(axis=1), y.any(axis=1))
    x, y = normalize(x[has_both]), normalize(y[has_both])
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
    """Smoothness of positions (T, D): 1 - mean squared step / mean squared distance of two rows.

    The control, rows in random orders, is about 0.

    >>> line = np.arange(20.0)[:, None]
    >>> [round(one.value, 2) for one in order_measures(line, n_draws=2, seed=0)]
    [0.99]
    """
    table = check_array(table, "table", 2)
    if len(table) < 3 or np.ptp(table, axis=0).max() == 0:
        raise ValueError(f"{len(table)} rows: at least three are needed, and not all equal")

    def smoothness(rows: np.ndarray) -> float:
        steps = (np.diff(rows, axis=0) ** 2).sum(axis=1).mean()
        apart = 2 * rows.var(axis=0, ddof=1).sum()  # mean squared distance of two different rows
        return float(1 - steps / apart)

    rng = np.random.default_rng(seed)
    null = np.array([smoothness(rng.permutation(table)) for _ in range(n_draws)])
    return [Measured("smoothness", smoothness(table), null)]
