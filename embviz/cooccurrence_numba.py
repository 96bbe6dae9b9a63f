"""Compiled loops of counting: where each word stands, its neighbours added up, draws by place, symmetry.

V is the vocabulary's size; `text` is padded with holes (id V) so that no window leaves it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SCAN_SHARE = 8  # a row with over V / 8 neighbours is read off all V sums in order; a shorter one is sorted


@njit(nogil=True, cache=True)
def count_places(text: np.ndarray, row_starts: np.ndarray) -> None:
    """Fill `row_starts` (V + 2,), zeros, so that word w has places row_starts[w]..row_starts[w + 1]."""
    for place in range(len(text)):
        row_starts[text[place] + 1] += 1
    for word in range(1, len(row_starts)):
        row_starts[word] += row_starts[word - 1]


@njit(nogil=True, cache=True)
def group_places(text: np.ndarray, row_starts: np.ndarray, places: np.ndarray) -> None:
    """Fill `places` with the places of word 0 in rising order, then of word 1, ...; holes are left out."""
    following = row_starts.copy()
    n_words = len(row_starts) - 2
    for place in range(len(text)):
        word = text[place]
        if word < n_words:
            places[following[word]] = place
            following[word] += 1


@njit(nogil=True, cache=True)
def count_rows(
    text: np.ndarray,
    places: np.ndarray,
    row_starts: np.ndarray,
    first: int,
    last: int,
    units: np.ndarray,
    reach: np.ndarray,
    sums: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    sizes: np.ndarray,
) -> int:
    """Rows `first`..`last` of the counts: `columns`, `values` in order, and each row's size; their number.

    `units` (window,) weighs distances 1, 2, ...; `reach` (text's length, or empty) is each place's own
    window; `sums` (V + 1,) is zeros, and is left so.
    """
    n = 0
    n_words = len(sums) - 1
    for row in range(first, last):
        row_places = places[row_starts[row] : row_starts[row + 1]]
        begin = n
        if len(row_places) * 2 * len(units) * SCAN_SHARE > n_words:
            _add_neighbours(text, row_places, units, reach, sums)
            n = _read_all(sums, columns, values, n)
        else:
            n = _add_and_list_neighbours(text, row_places, units, reach, sums, columns, n)
            columns[begin:n].sort()
            for i in range(begin, n):
                values[i] = sums[columns[i]]
                sums[columns[i]] = 0
        sizes[row - first] = n - begin
    return n


@njit(nogil=True, cache=True)
def _add_neighbours(
    text: np.ndarray, row_places: np.ndarray, units: np.ndarray, reach: np.ndarray, sums: np.ndarray
) -> None:
    window = len(units)
    for place in row_places:
        for distance in range(1, window + 1):
            if len(reach) == 0:
                left = right = units[distance - 1]
            else:
                left = _pair_units(units, reach, place, place - distance, distance)
                right = _pair_units(units, reach, place, place + distance, distance)
            sums[text[place - distance]] += left
            sums[text[place + distance]] += right
    sums[-1] = 0  # what holes gathered


@njit(nogil=True, cache=True)
def _pair_units(units: np.ndarray, reach: np.ndarray, place: int, other: int, distance: int) -> int:
    """A pair's weight with dynamic reach: one unit for each end that reaches the other."""
    return units[distance - 1] * (int(reach[place] >= distance) + int(reach[other] >= distance))


@njit(nogil=True, cache=True)
def _read_all(sums: np.ndarray, columns: np.ndarray, values: np.ndarray, n: int) -> int:
    for column in range(len(sums) - 1):
        columns[n] = column  # overwritten by the next one unless this one met: no branch to mispredict
        values[n] = sums[column]
        n += int(sums[column] != 0)
        sums[column] = 0
    return n


@njit(nogil=True, cache=True)
def _add_and_list_neighbours(
    text: np.ndarray,
    row_places: np.ndarray,
    units: np.ndarray,
    reach: np.ndarray,
    sums: np.ndarray,
    columns: np.ndarray,
    n: int,
) -> int:
    window = len(units)
    hole = len(sums) - 1
    for place in row_places:
        for offset in range(-window, window + 1):
            if offset == 0:
                continue
            other = place + offset
            column = text[other]
            unit = units[abs(offset) - 1]
            if len(reach) > 0:
                unit = _pair_units(units, reach, place, other, abs(offset))
            if column != hole and unit != 0:
                columns[n] = column
                n += int(sums[column] == 0)
                sums[column] += unit
    return n


@njit(nogil=True, cache=True)
def hash_places(n_places: int, seed: int) -> np.ndarray:
    """64 random bits for each place (splitmix64 of place and seed), shape (n_places,) uint64.

    They depend on nothing else, so that neither the number of workers nor the order of work matters.

    Source
    ------
    Steele, Lea & Flood (2014), the finalizer of SplitMix.
    """
    bits = np.empty(n_places, np.uint64)
    start = _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    for place in range(n_places):
        bits[place] = _mixed(start + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15))
    return bits


@njit(nogil=True, cache=True)
def _mixed(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def first_asymmetry(
    row_starts: np.ndarray, columns: np.ndarray, values: np.ndarray, tolerance: float
) -> tuple[int, int]:
    """(row, column) of an entry that differs from its mirror image, or (-1, -1); rows must be sorted.

    One pass without a transposed copy: as rows rise, the mirror images of an entry's row come in order.
    """
    following = row_starts[:-1].copy()
    for row in range(len(row_starts) - 1):
        for i in range(row_starts[row], row_starts[row + 1]):
            column = columns[i]
            mirror = following[column]
            if mirror == row_starts[column + 1] or columns[mirror] != row:
                return row, column
            if not abs(values[mirror] - values[i]) <= tolerance:
                return row, column
            following[column] += 1
    return -1, -1
