"""Counts of made texts, and the paper's sums in slow loops: what kernels are compared with."""

import numpy as np

from embviz import kernels
from embviz.words.cooccurrence import count_pairs


def made_text(n: int = 600, vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    """Ids with frequencies that fall as 1 / rank; every word occurs."""
    weights = 1 / np.arange(1, vocab_size + 1)
    drawn = np.random.default_rng(seed).choice(vocab_size, n, p=weights / weights.sum())
    return np.concatenate([np.arange(vocab_size), drawn])


def made_counts(vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    return count_pairs(made_text(vocab_size=vocab_size, seed=seed), vocab_size, window=2).toarray()


def made_log_counts(vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    return kernels.log_counts(made_counts(vocab_size, seed))


def positive_definite(vocab_size: int = 9, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(vocab_size, 3 * vocab_size))
    return rows @ rows.T / vocab_size


def symmetric(vocab_size: int, seed: int) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(vocab_size, vocab_size))
    return half + half.T


def slow_counts(ids, vocab_size, window):
    """One place after another, all places within the window of it but itself."""
    counts = np.zeros((vocab_size, vocab_size))
    for here, word in enumerate(ids):
        for there in range(here - window, here + window + 1):
            if there != here and 0 <= there < len(ids):
                counts[word, ids[there]] += 1
    return counts


def slow_fft2(matrix, sign=-1):
    """The sum that defines the transform, entry by entry."""
    V = len(matrix)
    found = np.zeros((V, V), complex)
    for a in range(V):
        for b in range(V):
            for i in range(V):
                for j in range(V):
                    found[a, b] += matrix[i, j] * np.exp(sign * 2j * np.pi * (a * i + b * j) / V)
    return found if sign < 0 else found / V**2
