"""A table of rows measured whole, a block of rows at a time: spectrum, lengths, directions, nearest rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from embviz.arrays import check_array
from embviz.files.weights import StoredArray
from embviz.inspection import measures
from embviz.inspection.measures import Measured

BLOCK_ROWS = 4_096  # rows that are read at a time
N_MADE = 200  # rows of the control whose nearest rows are looked for
SMALL = 1 << 20  # numbers of a table that is read whole, so that controls of its spectrum can be drawn


@dataclass(frozen=True, eq=False)
class TableMoments:
    """What one pass over all rows of a table, (V, D), adds up."""

    n_rows: int
    mean: np.ndarray  # (D,) of all rows
    gram: np.ndarray  # (D, D) the rows' products, W' W
    unit_sum: np.ndarray  # (D,) sum of the rows, each divided by its length; rows of length 0 are left out
    lengths: np.ndarray  # (V,)
    mean_entry: float  # of all V D entries, as those that follow
    std: float
    kurtosis: float  # fourth central moment over the squared variance; 3 for a normal distribution
    largest: float  # absolute distance of an entry from their mean

    @property
    def centred_gram(self) -> np.ndarray:
        """Products of the rows minus their mean."""
        found: np.ndarray = self.gram - self.n_rows * np.outer(self.mean, self.mean)
        return found

    @property
    def centred_std(self) -> float:
        """Standard deviation of the entries once the mean row is taken off."""
        return float(np.sqrt(max(np.trace(self.centred_gram), 0) / (self.n_rows * len(self.mean))))


def blocks(array: StoredArray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers and rows, float32, so many at a time; NaN and infinity are refused with their row."""
    for first in range(0, array.shape[0], BLOCK_ROWS):
        block = np.arange(first, min(first + BLOCK_ROWS, array.shape[0]))
        rows = array.read(block)
        if not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"row {first + bad} of the table has NaN or infinity")
        yield block, rows


def table_moments(array: StoredArray) -> TableMoments:
    """Sums over all rows of a table (V, D)."""
    V, D = array.shape
    gram, total, units = np.zeros((D, D)), np.zeros(D), np.zeros(D)
    lengths = np.empty(V, dtype=np.float32)
    power = np.zeros(3)  # sums of x^2, x^3, x^4
    low, high = np.inf, -np.inf
    for block, rows in blocks(array):
        gram += rows.T @ rows
        total += rows.sum(axis=0, dtype=np.float64)
        squares = rows * rows
        lengths[block] = own = np.sqrt(squares.sum(axis=1))
        units += (1 / np.where(own > 0, own, np.inf)) @ rows
        flat, flat_squares = rows.ravel(), squares.ravel()
        power += [squares.sum(dtype=np.float64), flat_squares @ flat, flat_squares @ flat_squares]
        low, high = min(low, float(rows.min())), max(high, float(rows.max()))
    mean = float(total.sum() / (V * D))
    # moments about the mean from sums of powers: a second pass would read the whole table again
    second, third, fourth = power / (V * D)
    variance = max(second - mean**2, 0.0)
    about = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    kurtosis = about / variance**2 if variance > 0 else 1.0
    largest = max(high - mean, mean - low)
    return TableMoments(
        V, total / V, gram, units, lengths, mean, float(np.sqrt(variance)), float(kurtosis), largest
    )


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest rows of some vectors among all rows of a table, the largest cosine first."""

    rows: np.ndarray  # (n, k)
    cosines: np.ndarray  # (n, k)
    centred: np.ndarray  # (n,) the largest cosine once the table's mean is taken off both
    unit_sum: np.ndarray  # (D,) sum of all the table's rows, mean taken off, each divided by its length
    n_directions: int  # of these rows, those that are not 0


def nearest_rows(
    array: StoredArray, queries: np.ndarray, own: np.ndarray, mean: np.ndarray, n: int = 1
) -> Nearest:
    """The nearest rows of some vectors by cosine, among all rows of a table.

    Parameters
    ----------
    queries : array, (n_queries, D)
        Of a zero vector all cosines are 0.
    own : integer array, (n_queries,)
        The row that a query is and that is left out; -1 where it is none.
    mean : array, (D,)
        What is taken off for `Nearest.centred`.
    n : int
        Nearest rows of each, of which there are at most V - 1.
    """
    V = array.shape[0]
    queries = np.asarray(check_array(queries, "queries", 2, kind="floating"), dtype=np.float32)
    own = check_array(own, "own", 1, kind="integer", low=-1, high=V - 1)
    mean = np.asarray(mean, dtype=np.float32)
    n = min(n, V - 1)
    best = np.full((len(queries), n), -np.inf, dtype=np.float32)
    near = np.zeros((len(queries), n), dtype=int)
    centred = np.full(len(queries), -np.inf, dtype=np.float32)
    apart = queries - mean
    inverse, inverse_apart = inverse_lengths(queries), inverse_lengths(apart)
    shift = apart @ mean + mean @ mean  # q r = (q - m)(r - m) + (q - m) m + r m; no large numbers cancel
    order = np.argsort(own, kind="stable")
    unit_sum, n_directions = np.zeros(array.shape[1]), 0
    # One product serves both cosines: that of centred rows, to which what the mean adds is put back for the
    # others. The other way round a large mean would swallow the digits of what rows do not share.
    for block, rows in blocks(array):
        centred_rows = rows - mean
        inverse_rows = inverse_lengths(centred_rows)
        unit_sum += inverse_rows @ centred_rows
        n_directions += int((inverse_rows > 0).sum())
        products = apart @ centred_rows.T
        first, last = np.searchsorted(own[order], [block[0], block[-1] + 1])
        among, itself = order[first:last], own[order[first:last]] - block[0]
        cosines = products * inverse_rows
        cosines[among, itself] = -np.inf
        np.maximum(centred, cosines.max(axis=1) * inverse_apart, out=centred)
        products += centred_rows @ mean
        products += shift[:, None]
        products *= inverse_lengths(rows)
        products[among, itself] = -np.inf
        better = np.flatnonzero(products.max(axis=1) > best[:, -1])
        k = min(n, len(block))
        ids = np.argpartition(-products[better], k - 1, axis=1)[:, :k]
        both = np.hstack([best[better], np.take_along_axis(products[better], ids, 1)])
        every = np.hstack([near[better], ids + block[0]])
        chosen = np.argsort(-both, axis=1, kind="stable")[:, :n]
        best[better] = np.take_along_axis(both, chosen, 1)
        near[better] = np.take_along_axis(every, chosen, 1)
    best *= inverse[:, None]
    return Nearest(near, best.clip(-1, 1), centred.clip(-1, 1), unit_sum, n_directions)


def inverse_lengths(rows: np.ndarray) -> np.ndarray:
    """One over each row's length, 0 for a zero row, which has no direction."""
    lengths = np.linalg.norm(rows, axis=1)
    found: np.ndarray = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1), 0)
    return found.astype(np.float32)


def columns_at_random(array: StoredArray, n: int, seed: int) -> np.ndarray:
    """Rows whose every number comes from the same column of another random row of the table.

    They have the mean and the variance of each column, and nothing of what columns have in common: a control
    for how near a row's nearest row is.

    """
    rng = np.random.default_rng(seed)
    V, D = array.shape
    given = array.read(np.sort(rng.choice(V, size=min(V, 2_048), replace=False)))
    found: np.ndarray = given[rng.integers(len(given), size=(n, D)), np.arange(D)]
    return found


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """All rows of a table, (V, D), measured as they are ("raw") and with their mean taken off ("centred")."""

    moments: TableMoments
    rows: np.ndarray  # whose nearest rows were looked for
    vectors: np.ndarray  # (len(rows), D)
    nearest: Nearest  # of these rows
    control: Nearest  # of rows that take each column from another random row
    raw: list[Measured]  # spectrum, isotropy, nearest rows, spread of lengths
    centred: list[Measured]  # the same without lengths
    spectra: dict[str, tuple[np.ndarray, np.ndarray]]  # over the edge, and of independent entries


def measure_table(
    array: StoredArray, rows: np.ndarray, *, n_draws: int, seed: int, n_neighbors: int = 1
) -> MeasuredTable:
    """Measure a table: its spectrum and lengths from all rows, nearest rows of some among all.

    `rows`, sorted, were drawn at random; their `n_neighbors` nearest rows are looked for, but for those
    that are zero, and three others are needed. Of each control that is drawn there are `n_draws`.
    """
    moments = table_moments(array)
    if moments.std == 0:
        raise ValueError("all its numbers are equal")
    rows = rows[moments.lengths[rows] > 0]
    n_rows = int((moments.lengths > 0).sum())
    if len(rows) < 3:
        raise ValueError(f"{n_rows} of {moments.n_rows} rows are not 0: at least three are needed")
    raw, centred, spectra = _spectra(array, moments, n_draws=n_draws, seed=seed)
    vectors = array.read(rows)
    made = columns_at_random(array, min(len(rows), N_MADE), seed)
    own = np.concatenate([rows, np.full(len(made), -1)])
    found = nearest_rows(array, np.concatenate([vectors, made]), own, moments.mean, n_neighbors)
    nearest, control = (
        replace(found, rows=found.rows[part], cosines=found.cosines[part], centred=found.centred[part])
        for part in (slice(len(rows)), slice(len(rows), None))
    )
    draws = {"n_draws": n_draws, "seed": seed}
    raw += [
        measures.isotropy_measures(moments.unit_sum, n_rows, vectors, **draws),
        measures.nearest_measures(nearest.cosines[:, 0], control.cosines[:, 0], **draws),
        measures.length_measures(moments.lengths, moments.kurtosis, array.shape[1]),
    ]
    apart = vectors - moments.mean.astype(np.float32)
    apart = apart[apart.any(axis=1)]
    if centred and len(apart) > 2:
        centred += [
            measures.isotropy_measures(found.unit_sum, found.n_directions, apart, **draws),
            measures.nearest_measures(nearest.centred, control.centred, **draws),
        ]
    return MeasuredTable(moments, rows, vectors, nearest, control, raw, centred, spectra)


def _spectra(
    array: StoredArray, moments: TableMoments, *, n_draws: int, seed: int
) -> tuple[list[Measured], list[Measured], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Measures of the raw and the centred spectrum, and both over their edges; draws for small tables."""
    V, D = array.shape
    found: list[list[Measured]] = []
    spectra = {}
    for name, gram, std in (
        ("raw", moments.gram, moments.std),
        ("centred", moments.centred_gram, moments.centred_std),
    ):
        end = std * (np.sqrt(V) + np.sqrt(D))
        if std <= 1e-6 * moments.std:  # but for rounding all rows are equal
            found.append([])
            continue
        if V * D <= SMALL:
            matrix = array.read().astype(np.float64)
            matrix = matrix if name == "raw" else matrix - matrix.mean(axis=0)
            one, values, control = measures.spectrum_measures(matrix, n_draws=n_draws, seed=seed)
        else:
            squares = np.linalg.eigvalsh(gram).clip(0)[::-1][: min(V, D)]
            mean, largest = (moments.mean_entry, moments.largest) if name == "raw" else (0.0, 0.0)
            one = measures.large_spectrum_measures(squares, (V, D), std, mean, largest)
            values, control = np.sqrt(squares), measures.normal_spectrum(V, D, std, seed=seed)
        found.append(one)
        spectra[name] = (values / end, control / end)
    return found[0], found[1], spectra
