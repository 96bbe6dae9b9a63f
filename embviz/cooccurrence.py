"""Windowed co-occurrence counts, and the PMI family made of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

Counts = npt.NDArray[np.floating] | sparse.csr_array


@njit(nogil=True, cache=True)
def _dense_counts(ids, starts, vocab_size, window, counts):  # type: ignore[no-untyped-def]
    for document in range(starts.size - 1):
        for i in range(starts[document], starts[document + 1]):
            if ids[i] >= vocab_size:
                continue
            for j in range(i + 1, min(i + window + 1, starts[document + 1])):
                if ids[j] < vocab_size:
                    counts[ids[i], ids[j]] += 1
                    counts[ids[j], ids[i]] += 1


def count_pairs(
    ids: np.ndarray, vocab_size: int, *, window: int, document_starts: np.ndarray | None = None
) -> sparse.csr_array:
    """Symmetric counts of pairs of words at most `window` places apart; shape (V, V)."""
    if window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    starts = np.array([0]) if document_starts is None else document_starts
    bounds = np.append(starts, len(ids)).astype(np.int64)
    dense = np.zeros((vocab_size, vocab_size), dtype=np.int32)
    _dense_counts(ids, bounds, vocab_size, window, dense)
    return sparse.csr_array(dense)


def pmi(counts: Counts, *, smoothing: float = 0.0, context_power: float = 1.0) -> Counts:
    """Pointwise mutual information; pairs that never met stay 0."""
    csr = sparse.csr_array(counts).astype(float)
    total = csr.sum()
    marginal = np.asarray(csr.sum(axis=1)).ravel()
    context = marginal**context_power / (marginal**context_power).sum()
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    csr.data = np.log(csr.data / (marginal[rows] * context[csr.indices]))
    return csr


def ppmi(counts: Counts, *, smoothing: float = 0.0, context_power: float = 1.0) -> Counts:
    """Positive PMI: negative values clipped to 0."""
    return shifted_pmi(counts, n_negative=1, smoothing=smoothing, context_power=context_power)


def shifted_pmi(
    counts: Counts, *, n_negative: int, smoothing: float = 0.0, context_power: float = 1.0
) -> Counts:
    """max(PMI - log n_negative, 0)."""
    csr = pmi(counts, smoothing=smoothing, context_power=context_power)
    csr.data = np.maximum(csr.data - np.log(n_negative), 0)
    csr.eliminate_zeros()
    return csr
