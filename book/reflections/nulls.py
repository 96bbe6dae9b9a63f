"""Random matrices to hold a spectrum against: Gaussian, permuted, and a graph with the same degrees."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from embviz.compiling import njit

SWITCHES = 10  # tried for each edge


def semicircle(n: int, *, variance: float, seed: int) -> np.ndarray:
    """Symmetric float32 matrix (n, n) of Gaussian entries, whose eigenvalues fill Wigner's semicircle.

    Its radius is ``2 * sqrt(n * variance)``.

    Source
    ------
    Wigner (1958), On the distribution of the roots of certain symmetric matrices.
    """
    entries = np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32)
    upper = np.triu(entries * np.float32(variance**0.5))
    return upper + np.triu(upper, 1).T


def permute_entries(matrix: np.ndarray | sparse.csr_array, *, seed: int) -> np.ndarray:
    """The entries on and above the diagonal in random places, mirrored: the values without the structure.

    Takes a symmetric matrix of shape (V, V) and gives a float32 array of the same shape.
    """
    matrix = matrix.astype(np.float32)
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    above = np.triu(np.ones(dense.shape, dtype=bool))
    entries = dense[above]
    np.random.default_rng(seed).shuffle(entries)
    permuted = np.zeros_like(dense)
    permuted[above] = entries
    return permuted + np.triu(permuted, 1).T


def configuration_model(matrix: np.ndarray | sparse.csr_array, *, seed: int) -> sparse.csr_array:
    """A random graph in which every node has as many neighbours as in `matrix`.

    Starts from the graph of the nonzero entries off the diagonal of a symmetric matrix (V, V), and lets
    random pairs of edges exchange partners; loops and repeated edges never arise, so all degrees stay
    exact. Gives a csr_array (V, V) of ones, symmetric, with a zero diagonal.

    Source
    ------
    Edge switching: Maslov & Sneppen (2002).
    """
    n = matrix.shape[0]
    edges = sparse.triu(sparse.coo_array(matrix), k=1)
    edges.eliminate_zeros()
    heads, tails = (np.array(ends, dtype=np.int64) for ends in edges.coords)
    switch_edges(heads, tails, n, SWITCHES * len(heads), seed)
    where = np.concatenate([heads, tails]), np.concatenate([tails, heads])
    return sparse.csr_array(sparse.coo_array((np.ones(2 * len(heads)), where), shape=(n, n)))


@njit(nogil=True)
def switch_edges(heads: np.ndarray, tails: np.ndarray, n: int, n_attempts: int, seed: int) -> int:
    """Let random pairs of edges a-b, c-d become a-d, c-b, in place, unless that makes a loop or a repeat.

    `heads` and `tails` (E,) hold the edges of a graph of `n` nodes; returns the number of switches made.
    """
    met = np.zeros((n, (n + 7) // 8), np.uint8)  # (n, n) bits: which nodes are joined
    for edge in range(len(heads)):
        _flip(met, heads[edge], tails[edge])
    counter = mixed(np.uint64(seed) + np.uint64(1))
    n_edges = np.uint64(len(heads))
    n_switches = 0
    for _ in range(n_attempts):
        counter += np.uint64(0x9E3779B97F4A7C15)
        bits = mixed(counter)  # 31 bits choose an edge, 31 another, 1 its direction
        first = ((bits >> np.uint64(33)) * n_edges) >> np.uint64(31)
        second = ((bits & np.uint64(0x7FFFFFFF)) * n_edges) >> np.uint64(31)
        a, b, c, d = heads[first], tails[first], heads[second], tails[second]
        if bits & np.uint64(0x80000000):
            c, d = d, c
        if a == d or c == b or _joined(met, a, d) or _joined(met, c, b):
            continue
        _flip(met, a, b)
        _flip(met, c, d)
        _flip(met, a, d)
        _flip(met, c, b)
        tails[first] = d
        heads[second], tails[second] = c, b
        n_switches += 1
    return n_switches


@njit(nogil=True)
def _joined(met: np.ndarray, a: int, b: int) -> bool:
    return (met[a, b >> 3] >> (b & 7)) & 1 == 1


@njit(nogil=True)
def _flip(met: np.ndarray, a: int, b: int) -> None:
    met[a, b >> 3] ^= 1 << (b & 7)
    met[b, a >> 3] ^= 1 << (a & 7)


@njit(nogil=True)
def mixed(x: np.uint64) -> np.uint64:
    """Bits of `x` stirred so that each decides about half of all: SplitMix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
