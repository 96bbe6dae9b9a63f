"""Compiled loops of counting: where each word stands, its neighbours added up, draws by place, symmetry.

V is the vocabulary's size; `text` is padded with holes (id V) so that no window leaves it. Indices are
unsigned throughout: signed ones cost a test for negative values at each access, and three times the time.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from embviz.compiling import njit, prefetch

PLACES_AHEAD = 16  # how early the text around a place is asked for


@njit(nogil=True)
def count_places(text: np.ndarray, row_starts: np.ndarray) -> None:
    """Fill `row_starts` (V + 2,), zeros, so that word w has places row_starts[w]..row_starts[w + 1]."""
    for place in range(len(text)):
        row_starts[np.uint64(text[place]) + np.uint64(1)] += 1
    for word in range(1, len(row_starts)):
        row_starts[word] += row_starts[word - 1]


@njit(nogil=True)
def group_places(text: np.ndarray, row_starts: np.ndarray, places: np.ndarray) -> None:
    """Fill `places` with the places of word 0 in rising order, then of word 1, ...; holes are left out."""
    following = row_starts.copy()
    n_words = np.uint64(len(row_starts) - 2)
    for place in range(len(text)):
        word = np.uint64(text[place])
        if word < n_words:
            places[following[word]] = place
            following[word] += 1


@njit(nogil=True)
def count_rows(
    text: np.ndarray,
    places: np.ndarray,
    row_starts: np.ndarray,
    first: int,
    last: int,
    units: np.ndarray,
    reach: np.ndarray | None,
    columns: np.ndarray,
    values: np.ndarray,
    sizes: np.ndarray,
) -> np.uint64:
    """Count rows `first`..`last`: fill `columns`, rising in a row, `values` and each row's size.

    `units` (window,) weighs distances 1, 2, ...; `reach` is each place's own window, like `text`. Returns
    the number of entries; `columns` and `values` have room for one more.
    """
    # One sum a column, not a hash table: V sums fit into the caches, and every place of a word adds to them
    # without a search. The columns that were met are listed beside, so that only these are read and cleared.
    hole = np.uint64(len(row_starts) - 2)
    sums = np.zeros(len(row_starts) - 1, units.dtype)  # (V + 1,)
    groups = np.zeros((len(sums) >> 6) + 1, np.uint64)  # a bit for each column
    groups_of_groups = np.zeros((len(groups) >> 6) + 1, np.uint64)  # a bit for each of `groups`
    window = len(units)
    n = np.uint64(0)
    for row in range(first, last):
        begin = n
        sums[hole] = 1  # above 0: holes look as if they were listed already
        for i in range(row_starts[row], row_starts[row + 1]):
            ahead = np.int64(places[min(i + PLACES_AHEAD, len(places) - 1)])
            for other in (ahead - window, ahead + window):  # most of a place's time was waiting for memory
                prefetch(text, (other,))
                if reach is not None:
                    prefetch(reach, (other,))
            n = _add_neighbours(text, np.uint64(places[i]), units, reach, sums, columns, n)
        _sort(columns[begin:n], groups, groups_of_groups)
        for j in range(begin, n):
            column = np.uint64(columns[j])
            values[j] = sums[column]
            sums[column] = 0
        sizes[row - first] = n - begin
    return n


@njit(nogil=True)
def _add_neighbours(
    text: np.ndarray,
    place: np.uint64,
    units: np.ndarray,
    reach: np.ndarray | None,
    sums: np.ndarray,
    columns: np.ndarray,
    n: np.uint64,
) -> np.uint64:
    """Add one place's neighbours to `sums`, and to `columns` those whose sum was 0; the list's new length."""
    for k in range(len(units)):
        distance = np.uint64(k + 1)
        for other in (place - distance, place + distance):
            unit = units[k]
            if reach is not None:  # decided when compiled: one unit for each end that reaches the other
                unit *= int(reach[place] >= distance) + int(reach[other] >= distance)
            column = np.uint64(text[other])
            columns[n] = column  # overwritten by the next one if it was listed already: no branch to miss
            n += np.uint64((sums[column] == 0) & (unit != 0))
            sums[column] += unit
    return n


@njit(nogil=True)
def _sort(columns: np.ndarray, groups: np.ndarray, groups_of_groups: np.ndarray) -> None:
    """Sort distinct numbers: set a bit for each, and read the bits in order; they are 0 again then."""
    six, low = np.uint64(6), np.uint64(63)
    for i in range(len(columns)):
        group = np.uint64(columns[i]) >> six
        groups[group] |= np.uint64(1) << (np.uint64(columns[i]) & low)
        groups_of_groups[group >> six] |= np.uint64(1) << (group & low)
    n = np.uint64(0)
    for i in range(len(groups_of_groups)):
        while groups_of_groups[i]:
            group = (np.uint64(i) << six) + np.uint64(trailing_zeros(groups_of_groups[i]))
            groups_of_groups[i] &= groups_of_groups[i] - np.uint64(1)  # the lowest bit off
            bits = groups[group]
            groups[group] = 0
            while bits:
                columns[n] = (group << six) + np.uint64(trailing_zeros(bits))
                bits &= bits - np.uint64(1)
                n += np.uint64(1)


@njit(nogil=True)
def hash_places(n_places: int, seed: int) -> np.ndarray:
    """64 random bits for each place, shape (n_places,) uint64: SplitMix64 started from the seed.

    They depend on place and seed alone, so that no number of workers or order of work changes them.

    Source
    ------
    Steele, Lea & Flood (2014), Fast splittable pseudorandom number generators, figure 17.
    """
    bits = np.empty(n_places, np.uint64)
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = mixed(np.uint64(seed) + golden)
    for place in range(n_places):
        bits[place] = mixed(start + np.uint64(place) * golden)
    return bits


@njit(nogil=True)
def mixed(x: np.uint64) -> np.uint64:
    """Bits of `x` stirred so that each decides about half of all: SplitMix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True)
def first_asymmetry(row_starts: np.ndarray, columns: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    """(row, column) of an entry that differs from its mirror image, or (-1, -1); rows must be sorted.

    One pass without a transposed copy: as rows rise, the mirror images found in any row come in order.
    """
    following = row_starts[:-1].copy()
    for row in range(len(row_starts) - 1):
        for i in range(row_starts[row], row_starts[row + 1]):
            column = columns[i]
            mirror = following[column]
            if mirror == row_starts[column + 1] or columns[mirror] > row:
                return row, column
            if columns[mirror] < row:  # that row has passed, without this entry's mirror image
                return column, columns[mirror]
            if values[mirror] != values[i]:
                return row, column
            following[column] += 1
    return -1, -1


@njit(nogil=True)
def row_sums(row_starts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sum of each row of a sparse array, float64: exact for whole numbers up to 2^53."""
    sums = np.zeros(len(row_starts) - 1)
    for row in range(len(sums)):
        for i in range(row_starts[row], row_starts[row + 1]):
            sums[row] += values[i]
    return sums


@njit(nogil=True)
def subtract_margins(
    logs: np.ndarray,
    row_starts: np.ndarray,
    columns: np.ndarray,
    log_words: np.ndarray,
    log_contexts: np.ndarray,
    log_total: float,
) -> None:
    """Turn logarithms of a sparse array's counts into PMI, in place."""
    for row in range(len(row_starts) - 1):
        for i in range(row_starts[row], row_starts[row + 1]):
            logs[i] += log_total - (log_words[row] + log_contexts[columns[i]])


@njit(nogil=True)
def subtract_margins_dense(
    logs: np.ndarray, counts: np.ndarray, log_words: np.ndarray, log_contexts: np.ndarray, log_total: float
) -> None:
    """The same for a dense array (V, V): pairs without a co-occurrence stay 0."""
    for row in range(len(counts)):
        for column in range(len(counts)):
            if counts[row, column] > 0:
                logs[row, column] += log_total - (log_words[row] + log_contexts[column])
