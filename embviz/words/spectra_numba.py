"""Compiled loop of the configuration model: edges that change partners, all degrees kept."""

from __future__ import annotations

import numpy as np

from embviz.compiling import njit
from embviz.words.cooccurrence_numba import mixed


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _joined(met: np.ndarray, a: int, b: int) -> bool:
    return (met[a, b >> 3] >> (b & 7)) & 1 == 1


@njit(nogil=True, cache=True)
def _flip(met: np.ndarray, a: int, b: int) -> None:
    met[a, b >> 3] ^= 1 << (b & 7)
    met[b, a >> 3] ^= 1 << (a & 7)
