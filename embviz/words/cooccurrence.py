"""Windowed co-occurrence counts, and the family of pointwise mutual information.

Counting goes row by row: the places of every word are listed first, then each word's neighbours are added
up in one array of length V. Memory grows with V and the number of pairs that met, never with V x V; each
row is whole when it leaves a worker, so that any number of workers gives the same result.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, TypeVar

import joblib
import numpy as np
import scipy.sparse

from embviz.arrays import check_array, check_ids, check_int, check_matrix, check_starts, in_blocks
from embviz.memory import available_memory, require_memory
from embviz.words import cooccurrence_numba as compiled

Weighting = Literal["flat", "linear", "harmonic"]
Matrix = TypeVar("Matrix", np.ndarray, scipy.sparse.csr_array)

LARGEST_VOCABULARY = 2**31 - 2  # ids of words and of a hole are int32
BLOCK_PLACES = 1 << 25  # of a text that are laid out at a time, where places need no draws
N_SLABS = 16  # of rows, of about as many entries, to which a block's counts are added one after the other
ENTRIES_PER_TASK = 1 << 20  # of one worker's task, at most: tens of megabytes
TASKS_PER_BATCH = 8  # for each worker; memory is looked at after each batch


# --- counting ---------------------------------------------------------------------------------------


def count_pairs(
    ids: np.ndarray,
    vocab_size: int,
    *,
    window: int,
    document_starts: np.ndarray | None = None,
    weighting: Weighting = "flat",
    dynamic: bool = False,
    subsample: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
) -> scipy.sparse.csr_array:
    """Count how often two words stand within `window` places of each other.

    Entry (i, j) sums over all places of word i the weights of the places of word j around it, on both
    sides; so it equals (j, i), and two neighbouring places of one word add 2 to its diagonal entry.
    Memory does not grow with the text, which may lie in a file, unless places are drawn.

    Parameters
    ----------
    ids : integer array, shape (N,)
        The text; ids from 0 to V - 1. V and above is a hole: a place whose word is not counted.
    vocab_size : int
        V.
    window : int, in places
        Reach to each side.
    document_starts : integer array, optional
        Positions where documents start, rising from 0; no pair reaches over one.
    weighting : "flat" (1), "linear" ((window + 1 - distance) / window) or "harmonic" (1 / distance)
    dynamic : bool, default False
        As in word2vec, every place draws its own reach from 1..window. A pair then has half its weight
        for each of its two ends that reaches the other, which keeps the counts symmetric.
    subsample : float, optional
        Threshold t as a share of the text, as in word2vec (1e-3 to 1e-5): frequent words are dropped at
        random, each place on its own, before windows are laid; see :func:`keep_probability`. None keeps
        all.
    seed : int
        Of dynamic reach and subsampling. Draws depend on the place alone.
    n_jobs : int, default 1
        Worker threads, as in joblib: -1 is every core. The counts are the same for any number.

    Returns
    -------
    csr_array, shape (V, V), symmetric, sorted, without stored zeros
        int32 (int64 for very long texts) when flat and not dynamic, else float64.

    Raises
    ------
    MemoryError
        If the counts would not fit, while they are made.

    Source
    ------
    Levy, Goldberg & Dagan (2015), section 3.1; Mikolov et al. (2013), section 2.3.
    """
    ids, starts = _checked_text(ids, vocab_size, document_starts)
    check_int(window, "window", 1)
    if window > len(ids):
        raise ValueError(f"window is {window}, longer than the text of {len(ids)} places: make it smaller")
    vocab_size = int(vocab_size)  # one of NumPy's, such as ids.max() + 1, may be of 16 bits
    if subsample is not None:
        ids, starts = subsample_places(ids, vocab_size, subsample, document_starts=starts, seed=seed)
    units, unit = _weight_units(weighting, window, dynamic, len(ids))
    reach = dynamic_reach(len(ids), window, seed) if dynamic else None
    if dynamic or subsample is not None:
        counts = _count(ids, starts, vocab_size, units, reach, n_jobs)
    else:
        counts = _count_in_blocks(ids, starts, vocab_size, units, n_jobs)
    if weighting != "flat" or dynamic:
        counts.data = counts.data / unit
    return counts


def _count_in_blocks(
    ids: np.ndarray, starts: np.ndarray, vocab_size: int, units: np.ndarray, n_jobs: int
) -> scipy.sparse.csr_array:
    """Each block is counted with the last places before it; their own pairs, counted twice, go off."""
    window, place = len(units), 0
    kind = _count_type(len(ids), units)
    before = ids[:0]
    seams: list[np.ndarray] = []
    seam_starts: list[np.ndarray] = []
    total: list[scipy.sparse.csr_array] = []  # by rows: no sum of it all stands beside it all
    slabs: list[slice] = []
    for block in in_blocks(ids, max(BLOCK_PLACES, window)):
        text = np.concatenate([before, block])
        first = place - len(before)
        inside = np.searchsorted(starts, [first + 1, first + len(text)])
        begins = np.append(0, starts[slice(*inside)] - first)
        part = _count(text, begins, vocab_size, units, None, n_jobs)
        if len(text) == len(ids):
            return part
        if not total:
            ends = np.searchsorted(part.indptr, np.linspace(0, part.nnz, N_SLABS + 1)[1:-1])
            slabs = [slice(*ab) for ab in itertools.pairwise(np.unique([0, *ends, vocab_size]).tolist())]
        else:
            seam_starts.append(begins[begins < window] + len(seams) * window)
            seams.append(before)
        # by slabs of rows: a sum of two sparse arrays stands beside both, and of a slab it is small
        for number, rows in enumerate(slabs):
            added = part[rows].astype(kind)
            if len(total) > number:
                summed = total[number] + added  # whose arrays have up to as much room again: copies have none
                arrays = (summed.data.copy(), summed.indices.copy(), summed.indptr)
                added = scipy.sparse.csr_array(arrays, shape=summed.shape)
            total[number : number + 1] = [added]
        before, place = text[-window:].copy(), place + len(block)  # a view would keep the text
    twice = (np.concatenate(seams), np.concatenate(seam_starts))
    part = _count(*twice, vocab_size, units, None, n_jobs)
    parts = []
    for rows in slabs:
        slab = total.pop(0) - part[rows].astype(kind)
        parts.append(_Rows(np.diff(slab.indptr), slab.indices, slab.data))
    return _stack(parts)


@dataclass(frozen=True)
class _Rows:
    """Counted rows, one after the other."""

    sizes: np.ndarray  # entries of each row
    columns: np.ndarray
    values: np.ndarray


def _stack(parts: list[_Rows]) -> scipy.sparse.csr_array:
    """One array of all rows; each part leaves memory when it is copied."""
    sizes = np.concatenate([part.sizes for part in parts])
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    index_type = np.int32 if indptr[-1] < 2**31 else np.int64
    indices, data = np.empty(indptr[-1], index_type), np.empty(indptr[-1], parts[0].values.dtype)
    first = 0
    while parts:
        part = parts.pop(0)
        last = first + len(part.columns)
        indices[first:last], data[first:last] = part.columns, part.values
        first = last
    shape = (len(sizes), len(sizes))
    counts = scipy.sparse.csr_array((data, indices, indptr.astype(index_type)), shape=shape)
    counts.has_canonical_format = True
    return counts


def _count_type(n_places: int, units: np.ndarray) -> type[np.signedinteger]:
    largest_sum = 4 * n_places * int(units.sum())  # 2 sides, and 2 ends when dynamic
    return np.int32 if largest_sum < 2**31 else np.int64


def _checked_text(
    ids: np.ndarray, vocab_size: int, document_starts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    check_int(vocab_size, "vocab_size", 1, LARGEST_VOCABULARY)
    ids = check_ids(ids, vocab_size, holes="above")
    if max(block.max() for block in in_blocks(ids)) > vocab_size:
        ids = np.minimum(ids, ids.dtype.type(vocab_size))
    ids = ids.astype(np.int64) if ids.dtype == np.uint64 else ids
    starts = np.zeros(1, np.int64) if document_starts is None else check_starts(document_starts, len(ids))
    return ids, starts


def _weight_units(weighting: str, window: int, dynamic: bool, n_places: int) -> tuple[np.ndarray, int]:
    """Weights by distance as whole multiples of 1 / unit: sums are exact, whatever their order.

    Only harmonic weights of wide windows are rounded: to 2^-20 or better for 100 M places.
    """
    distance = np.arange(1, window + 1)
    if weighting == "flat":
        unit, units = 1, np.ones(window, np.int64)
    elif weighting == "linear":
        unit, units = window, window + 1 - distance
    elif weighting == "harmonic":
        unit = math.lcm(*range(1, window + 1))
        largest_sum = 4 * n_places * (1 + math.log(window))  # in weights: 2 sides, 2 ends
        if unit >= 2**53 or unit * largest_sum >= 2**53:  # the first is beyond float64 from window 709 on
            unit = 2 ** (52 - math.ceil(math.log2(largest_sum)))
        units = np.array([round(unit / k) for k in range(1, window + 1)])
    else:
        raise ValueError(f'weighting is {weighting!r}: use "flat", "linear" or "harmonic"')
    return units.astype(np.int64), 2 * unit if dynamic else unit


def _count(
    ids: np.ndarray,
    starts: np.ndarray,
    vocab_size: int,
    units: np.ndarray,
    reach: np.ndarray | None,
    n_jobs: int,
) -> scipy.sparse.csr_array:
    """All rows, by `n_jobs` threads; MemoryError once they outgrow what was there at the start."""
    available, window = available_memory(), len(units)
    units = units.astype(_count_type(len(ids), units))
    text = _with_gaps(ids, starts, window, fill=vocab_size)
    reach = None if reach is None else _with_gaps(reach, starts, window, fill=0)
    row_starts = np.zeros(vocab_size + 2, np.int64)  # where each word's places start
    compiled.count_places(text, row_starts)
    places = np.empty(row_starts[vocab_size], np.uint32 if len(text) < 2**32 else np.uint64)
    compiled.group_places(text, row_starts, places)
    # a row has at most V entries, and at most its places' neighbours: tasks are cut by this bound
    largest = np.minimum(np.diff(row_starts)[:vocab_size] * 2 * window, vocab_size)
    until = np.cumsum(largest)
    n_tasks = 1 + int(until[-1]) // ENTRIES_PER_TASK
    edges = np.searchsorted(until, np.linspace(0, until[-1], n_tasks + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], edges, [vocab_size]]))

    def count_rows(first: int, last: int) -> _Rows:
        n_most = int(largest[first:last].sum()) + 1
        columns, values = np.empty(n_most, np.int32), np.empty(n_most, units.dtype)
        sizes = np.empty(last - first, np.int64)
        n = compiled.count_rows(text, places, row_starts, first, last, units, reach, columns, values, sizes)
        return _Rows(sizes, columns[:n].copy(), values[:n].copy())

    tasks = [joblib.delayed(count_rows)(first, last) for first, last in itertools.pairwise(edges)]
    batch_size = TASKS_PER_BATCH * joblib.effective_n_jobs(n_jobs)
    entry_bytes = 2 * (4 + units.itemsize)  # index and value; in a worker's part, and in the whole
    parts: list[_Rows] = []
    with joblib.Parallel(n_jobs, backend="threading") as parallel:
        for first in range(0, len(tasks), batch_size):
            parts += parallel(tasks[first : first + batch_size])
            n_entries = sum(len(part.columns) for part in parts)
            require_memory(
                n_entries * entry_bytes,
                what=f"counting {n_entries / 1e6:,.1f} M pairs of {vocab_size:,} words",
                instead="keep fewer words (a higher min_count) or use a smaller window",
                available=available,
            )
    return _stack(parts)


def _with_gaps(values: np.ndarray, starts: np.ndarray, window: int, *, fill: int) -> np.ndarray:
    """`values` with `window` times `fill` before, between and after documents, so windows need no check."""
    kind = np.uint16 if max(fill, window) < 2**16 else np.uint32  # short ids stay in cache
    padded = np.full(len(values) + (len(starts) + 1) * window, fill, kind)
    ends = np.append(starts[1:], len(values))
    for k, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        padded[start + k * window : end + k * window] = values[start:end]
    return padded


# --- draws ------------------------------------------------------------------------------------------


def dynamic_reach(n_places: int, window: int, seed: int) -> np.ndarray:
    """Each place's own reach, uniform on 1..window, shape (n_places,): word2vec's dynamic window."""
    check_int(window, "window", 1, 2**31 - 1)
    bits = compiled.hash_places(check_int(n_places, "n_places", 0), 2 * check_int(seed, "seed", 0, 2**62))
    return (1 + ((bits >> np.uint64(32)) * np.uint64(window) >> np.uint64(32))).astype(np.int32)


def keep_probability(counts: np.ndarray, threshold: float) -> np.ndarray:
    """Probability that a place of each word survives subsampling: sqrt(t / f) + t / f, at most 1.

    `counts` (V,) are the words' numbers in the text, f is a word's share of their sum, and t the threshold.
    A word that does not occur has 1.

    Source
    ------
    word2vec's code, which differs from Mikolov et al. (2013), eq. 5.
    """
    if not 0 < threshold < np.inf:
        raise ValueError(f"subsample is {threshold}: it must be above 0")
    counts = check_array(counts, "counts", 1, kind="number", low=0)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    return np.where(counts > 0, np.minimum(1.0, np.sqrt(ratio) + ratio), 1.0)


def subsample_places(
    ids: np.ndarray,
    vocab_size: int,
    threshold: float,
    *,
    document_starts: np.ndarray,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The text and document starts after random removal of frequent words; see :func:`count_pairs`.

    Holes stay. Documents that lose all their places go too; a text that loses all keeps one hole.
    """
    ids, document_starts = _checked_text(ids, vocab_size, document_starts)
    check_int(seed, "seed", 0, 2**62)
    counts = np.bincount(ids, minlength=vocab_size + 1)[:vocab_size]
    keep = np.append(keep_probability(counts, threshold), 1.0)
    drawn = (compiled.hash_places(len(ids), 2 * seed + 1) >> np.uint64(11)) * 2.0**-53
    kept = drawn < keep[ids]
    if not kept.any():
        return np.array([vocab_size]), np.zeros(1, np.int64)
    before = np.concatenate([[0], np.cumsum(kept)])  # (N + 1,) places kept before each place
    starts = np.unique(before[document_starts])
    return ids[kept], starts[starts < before[-1]]


# --- pointwise mutual information -------------------------------------------------------------------


def pmi(counts: Matrix, *, smoothing: float = 0.0, context_power: float = 1.0) -> Matrix:
    """Pointwise mutual information of symmetric co-occurrence counts.

    Parameters
    ----------
    counts : sparse or dense array, shape (V, V)
        Symmetric, non-negative pair counts.
    smoothing : float, in counts
        Added to every cell first; 0 leaves pairs that never met at 0, not at minus infinity. Anything
        else fills every cell of a sparse array too.
    context_power : float, default 1
        Exponent on the contexts' distribution, the columns; 0.75 as in word2vec damps the bias toward
        rare contexts, and makes the result asymmetric. At 1 it is symmetric to the bit.

    Returns
    -------
    array of the same kind, shape (V, V), float64, in nats

    Raises
    ------
    MemoryError
        If smoothing would fill more cells of a sparse array than there is memory for.

    Source
    ------
    Levy & Goldberg (2014), eq. 6; zeros kept as in the reflections paper, section 3.1, footnote 7;
    context_power: Levy, Goldberg & Dagan (2015), eq. 3.
    """
    counts = _checked_counts(counts)
    if not 0 <= smoothing < np.inf:
        raise ValueError(f"smoothing is {smoothing}: it must be 0 or above")
    if not 0 < context_power <= 1:
        raise ValueError(f"context_power is {context_power}: it must be above 0, and at most 1")
    if smoothing and not isinstance(counts, np.ndarray):
        n_bytes = 36 * counts.shape[0] ** 2  # dense copies and a sparse one of every cell
        instead = "smooth with 0, or keep fewer words"
        require_memory(n_bytes, what="smoothing every cell of a sparse array", instead=instead)
        full = pmi(counts.toarray(), smoothing=smoothing, context_power=context_power)
        # zeros are stored too: a smoothed pair of PMI 0 has met, and a shift must move it
        V = len(full)
        columns = np.tile(np.arange(V, dtype=np.int32), V)
        return scipy.sparse.csr_array((full.ravel(), columns, np.arange(0, V * V + 1, V)), shape=(V, V))
    if smoothing:
        counts = np.add(counts, smoothing, dtype=float)
    if isinstance(counts, np.ndarray):
        words = counts.sum(axis=1, dtype=float)
    else:
        words = compiled.row_sums(counts.indptr, counts.data)
    if (words == 0).any():
        lonely = np.flatnonzero(words == 0)
        first = ", ".join(map(str, lonely[:5])) + (", ..." if len(lonely) > 5 else "")
        raise ValueError(
            f"{len(lonely)} word(s) have no pair at all (ids {first}): their PMI is not defined; "
            f"use a wider window or a higher min_count, or cut them from the counts"
        )
    log_words, log_contexts = np.log(words), context_power * np.log(words)
    return _log_ratios(counts, log_words, log_contexts, np.log((words**context_power).sum()))


def _log_ratios(counts: Matrix, log_words: np.ndarray, log_contexts: np.ndarray, log_total: float) -> Matrix:
    """log(counts total / (words contexts)) where counts are above 0, and 0 elsewhere.

    Words' and contexts' logarithms are added before they are taken off, so that equal ones give a result
    that is symmetric to the bit.
    """
    if isinstance(counts, np.ndarray):
        ratios = np.log(counts, out=np.zeros(counts.shape), where=counts > 0, dtype=float)
        compiled.subtract_margins_dense(ratios, counts, log_words, log_contexts, log_total)
        return ratios
    data = np.log(counts.data, dtype=float)
    compiled.subtract_margins(data, counts.indptr, counts.indices, log_words, log_contexts, log_total)
    return scipy.sparse.csr_array((data, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)


def ppmi(counts: Matrix) -> Matrix:
    """Positive PMI: :func:`pmi` with everything below 0 put to 0 (same kind and errors)."""
    return shifted_pmi(counts, n_negative=1)


def shifted_pmi(
    counts: Matrix,
    *,
    n_negative: float,
    positive: bool = True,
    smoothing: float = 0.0,
    context_power: float = 1.0,
) -> Matrix:
    """PMI less the logarithm of the number of negative samples; what skip-gram implicitly factorizes.

    Parameters
    ----------
    counts, smoothing, context_power
        As for :func:`pmi`.
    n_negative : float, at least 1
        k; the shift is log k, in nats, on pairs that met. Pairs that never met stay 0.
    positive : bool, default True
        Put what is below 0 to 0 (SPPMI).

    Returns
    -------
    array of the same kind, shape (V, V), float64, in nats

    Source
    ------
    Levy & Goldberg (2014), eqs. 7 and 11.
    """
    if not 1 <= n_negative < np.inf:
        raise ValueError(f"n_negative is {n_negative}: it must be at least 1")
    matrix = pmi(counts, smoothing=smoothing, context_power=context_power)
    if isinstance(matrix, np.ndarray):
        matrix -= math.log(n_negative) * (np.asarray(counts) + smoothing > 0)
        return np.maximum(matrix, 0.0, out=matrix) if positive else matrix
    matrix.data -= math.log(n_negative)
    if positive:
        np.maximum(matrix.data, 0.0, out=matrix.data)
        matrix.eliminate_zeros()
    return matrix


# --- checks -----------------------------------------------------------------------------------------


def _checked_counts(counts: Matrix) -> Matrix:
    counts = check_matrix(counts, "counts", low=0)
    if counts.shape[0] == 1:
        raise ValueError("the vocabulary has one word: pointwise mutual information compares at least two")
    if not isinstance(counts, np.ndarray) and (not counts.has_canonical_format or (counts.data == 0).any()):
        csr = scipy.sparse.csr_array(counts, copy=True)  # with sorted rows and no stored zeros
        csr.sum_duplicates()
        csr.eliminate_zeros()
        counts = csr
    row, column = _first_asymmetry(counts)
    if row >= 0:
        raise ValueError(
            f"counts are not symmetric: cells ({row}, {column}) and ({column}, {row}) differ; "
            f"add the transpose to count both directions, or take the mean of both if it is rounding"
        )
    return counts


def _first_asymmetry(matrix: Matrix) -> tuple[int, int]:
    """(row, column) of an entry that differs from its mirror image, to the bit; (-1, -1) if none does."""
    if not isinstance(matrix, np.ndarray):
        csr = matrix
        return compiled.first_asymmetry(csr.indptr, csr.indices, csr.data)
    step = max(1, (1 << 24) // len(matrix))  # rows at a time: no second matrix in memory
    for first in range(0, len(matrix), step):
        differs = matrix[first : first + step] != matrix[:, first : first + step].T
        if differs.any():
            row, column = divmod(int(np.argmax(differs)), len(matrix))
            return first + row, column
    return -1, -1
