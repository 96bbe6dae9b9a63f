"""The lemma of Johnson and Lindenstrauss: the width that its bound asks for, and the one that draws need.

Source: the resizing paper, Algorithm 1, line 1. `eps` is the share by which a squared distance may change,
`delta` the share of draws that may fail, both in 0..1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist

from embviz.projections import Projection, draw, largest_width


def bound(eps: float, n_vectors: int, delta: float, C: float = 8.0) -> int:
    """The width that the lemma asks for, ceil(C (log N + log 1/delta) / eps^2); the paper leaves C open.

    >>> bound(0.5, 256, 0.05)
    274
    """
    return math.ceil(C * _unscaled_width(eps, n_vectors, delta))


def constant(m: int, eps: float, n_vectors: int, delta: float) -> float:
    """The C at which the bound is m, before it is rounded up."""
    return m / _unscaled_width(eps, n_vectors, delta)


def _unscaled_width(eps: float, n_vectors: int, delta: float) -> float:
    return (math.log(n_vectors) + math.log(1 / delta)) / eps**2


def distortions(x: np.ndarray, projection: Projection) -> np.ndarray:
    """Squared distance after the map over that before, of all pairs of rows of `x` (n, d) that differ.

    Shape (n (n - 1) / 2,), less the pairs of equal rows, whose distance every linear map keeps at 0.
    """
    before = pdist(x, "sqeuclidean")
    differ = before > 0
    return pdist(projection.apply(x), "sqeuclidean")[differ] / before[differ]


def smallest_width(x: np.ndarray, family: str, *, eps: float, delta: float, n_draws: int, seed: int) -> int:
    """The least m at which a share of 1 - delta of isometric maps keeps every pair of rows within 1 +- eps.

    Found by halving, as if the share only grew with m; draw i has the seed (seed, i) at each m.
    """
    d = x.shape[1]
    limit, n_allowed = largest_width(family, d), math.floor(delta * n_draws)

    def is_kept(m: int) -> bool:
        n_lost = 0
        for i in range(n_draws):
            n_lost += np.abs(distortions(x, draw(family, m, d, seed=[seed, i])) - 1).max() > eps
            if n_lost > n_allowed:
                return False
        return True

    high = 1
    while high < limit and not is_kept(high):
        high *= 2  # reaches a Hadamard map's limit too, a power of two, where it is an isometry
    low = high // 2  # the last that failed
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_kept(middle) else (middle, high)
    return high
