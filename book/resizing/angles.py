"""What a map does to vectors, by four measures; and what they are for random directions and random maps.

Source: the resizing paper, section 5. `x` holds vectors before a map and `y` the same vectors after it, one a
row, none all zeros; angles are in radians.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, special
from scipy.spatial.distance import pdist

from embviz.metrics import cosines, kurtosis


def pair_angles(x: ArrayLike) -> np.ndarray:
    """Angles between the rows i < j of `x` (n, D); shape (n (n - 1) / 2,)."""
    x = np.asarray(x, dtype=float)
    # half the chord is the sine of half the angle: accurate near 0, where the arc cosine of a rounded cosine
    # is not
    half_chords = pdist(x / np.linalg.norm(x, axis=1, keepdims=True)) / 2
    return 2 * np.arcsin(np.clip(half_chords, 0, 1))


def angular_error(x: ArrayLike, y: ArrayLike) -> float:
    """Mean change of the angles between all pairs of rows, in 0..pi; the widths may differ.

    >>> angular_error([[1, 0], [0, 1]], [[2, 0], [0, 3]])
    0.0
    """
    return float(np.mean(np.abs(pair_angles(x) - pair_angles(y))))


def concordance(x: ArrayLike, y: ArrayLike) -> float:
    """Hyperspherical concordance: correlation of the cosines of all pairs of rows, in -1..1.

    It is 1 for a rotation or a change of scale, about 0 for vectors that have nothing in common.

    >>> round(concordance([[1, 0], [0, 1], [1, 1]], [[0, 2], [-2, 0], [-2, 2]]), 6)
    1.0
    """
    return float(np.corrcoef(np.cos(pair_angles(x)), np.cos(pair_angles(y)))[0, 1])


def feature_alignment(x: ArrayLike, y: ArrayLike) -> float:
    """Mean cosine between each vector and its image, which must have as many coordinates; in -1..1.

    It compares coordinates, not angles: on average over random features it is the trace of a rotation over D.

    >>> feature_alignment([[1, 0], [0, 1]], [[0, 1], [-1, 0]])
    0.0
    """
    return float(np.mean(cosines(x, y)))


def kurtosis_shift(x: ArrayLike, y: ArrayLike) -> float:
    """By how much the kurtosis of all entries changes: below 0 where a map evens them out.

    >>> round(kurtosis_shift([0, 0, 0, 1], [[0.5, 0.5], [-0.5, 0.5]]), 6)
    0.0
    """
    return kurtosis(np.ravel(y)) - kurtosis(np.ravel(x))


def random_angular_error(dim: int, other_dim: int) -> float:
    """Angular error of independent random directions: what is left when nothing is kept.

    The mean of |a - b| for the angle a of two random directions in `dim` dimensions and b of two in
    `other_dim`; about sqrt(2 / pi) sqrt(1 / dim + 1 / other_dim) where both are large.

    >>> round(random_angular_error(2, 2) / np.pi, 6), round(random_angular_error(3, 3) / np.pi, 6)
    (0.333333, 0.25)
    """

    def below(angle: float, n: int) -> float:
        """Probability that two directions lie closer: (1 + cosine) / 2 of their angle is beta-distributed."""
        return float(special.betainc((n - 1) / 2, (n - 1) / 2, (1 - np.cos(angle)) / 2))

    def apart(angle: float) -> float:
        """Probability that one angle lies below `angle` and the other above: |a - b| is its integral."""
        a, b = below(angle, dim), below(angle, other_dim)
        return a + b - 2 * a * b

    half, _ = integrate.quad(apart, 0, np.pi / 2, epsabs=1e-12, limit=200)
    return 2 * half  # both angles are as likely to lie as far on the other side of a right angle


def expected_angular_error(x: ArrayLike, dim: int) -> float:
    """Angular error of the rows of `x` under a Gaussian map to `dim` dimensions, to first order.

    The angle a of a pair is moved by a normal amount of standard deviation sin(a) / sqrt(dim), whatever the
    width of `x`: the mean of its size is sqrt(2 / (pi dim)) sin(a).
    """
    return float(np.sqrt(2 / (np.pi * dim)) * np.sin(pair_angles(x)).mean())


def expected_concordance(x: ArrayLike, dim: int) -> float:
    """Concordance of the rows of `x` under a Gaussian map to `dim` dimensions, to first order.

    The cosine of a pair at angle a is blurred by a standard deviation of sin(a)^2 / sqrt(dim), apart from
    what it was: the correlation is the root of the share of the variance that was there before. Vectors that
    share a long common part share its error, which no correlation sees: for them this is too low.
    """
    angles = pair_angles(x)
    variance = np.cos(angles).var()
    return float(np.sqrt(variance / (variance + np.mean(np.sin(angles) ** 4) / dim)))
