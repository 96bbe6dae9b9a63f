"""Johnson-Lindenstrauss maps: families and pseudo-inverses.

A map T takes d coordinates to m. In `isometric` scaling the mean of |Tx|^2 over draws is |x|^2; in `unit`
scaling its rows (its columns where m > d) have length 1 on average, and exactly orthonormal ones T T' = I.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from embviz.arrays import check_array

FAMILIES = ("gaussian", "rademacher", "sparse", "hadamard", "orthonormal")
Scaling = Literal["isometric", "unit"]
Seed = int | Sequence[int] | np.random.Generator
BLOCK_BITS = 4  # of the fast transform: blocks of 16 at most, near d log d and yet matrix products
ROUNDING = 1e-9  # by which the products of orthonormal rows may miss 0 and 1


@dataclass(frozen=True, eq=False)
class Projection:
    """A linear map from d coordinates to m.

    Parameters
    ----------
    family : str
        Its name: one of :data:`FAMILIES`, or "pca", "coordinates", "permutation", "given".
    operator : array, shape (m, d), or SubsampledHadamard
    scale : float
        Length of a row, of a column where m > d, on average over draws; 1 in unit scaling.
    """

    family: str
    operator: np.ndarray | SubsampledHadamard = field(repr=False)
    scale: float = 1.0

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Projection:
        """A projection from your own matrix T (m, d), which must be finite; its family is "given"."""
        T = check_array(matrix, "matrix", 2).copy()
        lengths = np.linalg.norm(T, axis=1 if T.shape[0] <= T.shape[1] else 0)
        return cls("given", T, float(np.sqrt(np.mean(lengths**2))))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        m, d = self.operator.shape
        return m, d

    @property
    def m(self) -> int:
        """New width."""
        return self.shape[0]

    @property
    def d(self) -> int:
        """Old width."""
        return self.shape[1]

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """T, shape (m, d), float64; of a Hadamard map formed when it is asked for, and not before."""
        if isinstance(self.operator, SubsampledHadamard):
            return np.ascontiguousarray(self.operator.apply(np.eye(self.d)).T)
        return self.operator

    def apply(self, x: ArrayLike) -> np.ndarray:
        """Map vectors (..., d) to (..., m), float64."""
        x = check_array(x, "x", empty=True)
        if x.ndim == 0 or x.shape[-1] != self.d:
            raise ValueError(f"x has shape {x.shape} for a map of {self.d} coordinates to {self.m}")
        if isinstance(self.operator, SubsampledHadamard):
            return self.operator.apply(x)
        return x @ self.operator.T

    @functools.cached_property
    def is_orthonormal(self) -> bool:
        """Whether T T' = I, or T'T = I where m > d: T+ is T' then."""
        gram = self._gram()
        return bool(np.abs(gram - np.eye(len(gram))).max() < ROUNDING)

    def pseudo_inverse(self) -> np.ndarray:
        """T+ = T'(T T')^-1, or (T'T)^-1 T' where m > d, by Cholesky's factors.

        Returns
        -------
        array, shape (d, m); T T+ = I where m <= d, T+ T = I where m >= d

        Raises
        ------
        ValueError
            If T has not full rank; the message gives the rank.

        Source
        ------
        The resizing paper, eq. 3 and Algorithm 1, lines 3 and 4, which know m < d only.
        """
        gram, k = self._gram(), min(self.shape)
        values = np.linalg.eigvalsh(gram)  # squared singular values
        rank = int((values > values[-1] * max(self.shape) * np.finfo(float).eps).sum())
        if rank < k:
            raise ValueError(
                f"a map of {self.d} coordinates to {self.m} has rank {rank}, not {k}: T+ does not exist; "
                "draw another map, or choose a smaller m"
            )
        factors = scipy.linalg.cho_factor(gram, lower=True)
        if self.m <= self.d:
            return scipy.linalg.cho_solve(factors, self.matrix).T
        return scipy.linalg.cho_solve(factors, self.matrix.T)

    def _gram(self) -> np.ndarray:
        """T T', or T'T where m > d."""
        T = self.matrix
        return T @ T.T if self.m <= self.d else T.T @ T


# --- families ---------------------------------------------------------------------------------------


def draw(family: str, m: int, d: int, *, seed: Seed, scaling: Scaling = "isometric") -> Projection:
    """A random map from d coordinates to m.

    Parameters
    ----------
    family : str
        "gaussian": independent normal entries; "rademacher": +-1; "sparse": two thirds of the entries 0, the
        others +-1; "hadamard": random signs, a Walsh-Hadamard transform of d padded to a power of two, m of
        its coordinates at random; "orthonormal": m rows of a random rotation, or d columns where m > d.
    m, d : int
        New and old width, at least 1.
    seed : int, sequence of int, or Generator
    scaling : "isometric" or "unit"
        See the head of this file. Where m >= d they agree.

    Returns
    -------
    Projection

    Source
    ------
    The resizing paper, section 4.2 (Gaussian, variance 1/m), names the others; Achlioptas (2003) for signs
    and sparse signs; Ailon & Chazelle (2009) for the Hadamard map, here with sampled coordinates in place of
    their sparse Gaussian matrix.

    Examples
    --------
    >>> draw("orthonormal", 3, 8, seed=0, scaling="unit").is_orthonormal
    True
    """
    _require_widths(m, d)
    if scaling not in get_args(Scaling):
        raise ValueError(f"scaling is {scaling!r}: use " + " or ".join(map(repr, get_args(Scaling))))
    rng = np.random.default_rng(seed)
    factor = 1.0 if scaling == "isometric" else math.sqrt(min(m, d) / d)
    scale = factor * math.sqrt(max(m, d) / m)
    if family == "gaussian":
        return Projection(family, rng.normal(size=(m, d)) * factor / math.sqrt(m), scale)
    if family == "rademacher":
        return Projection(family, _signs(rng, (m, d)) * factor / math.sqrt(m), scale)
    if family == "sparse":
        entries = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])[rng.integers(6, size=(m, d))]
        return Projection(family, entries * factor * math.sqrt(3 / m), scale)
    if family == "hadamard":
        return Projection(family, _draw_hadamard(rng, m, d, factor / math.sqrt(m)), scale)
    if family == "orthonormal":
        return Projection(family, _orthonormal(rng, m, d) * scale, scale)
    raise ValueError(f"no family {family!r}: choose one of {', '.join(FAMILIES)}")


def largest_width(family: str, d: int) -> float:
    """The largest m that a family allows: inf, or for a Hadamard map the power of two that d is padded to."""
    return padded_width(d) if family == "hadamard" else math.inf


def pca(x: ArrayLike, m: int) -> Projection:
    """The map that has seen its vectors: their m leading principal directions, orthonormal rows.

    Of all linear maps with orthonormal rows it keeps most of the vectors' mean square. Directions in which
    the vectors have no length complete the basis where m asks for more.

    Parameters
    ----------
    x : array, shape (n, d), finite
        The calibration set.
    m : int, 1 to d
    """
    vectors = check_array(x, "x", 2)
    d = vectors.shape[1]
    _require_widths(m, d)
    if m > d:
        raise ValueError(f"{m} principal directions of {d} coordinates: m can be {d} at most")
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    rows = directions.T[::-1][:m]  # largest variance first
    largest = rows[np.arange(m), np.abs(rows).argmax(axis=1)]
    return Projection("pca", np.ascontiguousarray(rows * np.sign(largest)[:, None]))


def coordinates(m: int, d: int, seed: Seed, *, scaling: Scaling = "isometric") -> Projection:
    """A control: m of d coordinates at random, nothing mixed; with replacement where m > d."""
    _require_widths(m, d)
    rng = np.random.default_rng(seed)
    taken = rng.choice(d, size=m, replace=m > d)
    scale = math.sqrt(d / m) if scaling == "isometric" else 1.0
    return Projection("coordinates", np.eye(d)[taken] * scale, scale)


def signed_permutation(d: int, seed: Seed) -> Projection:
    """A control: coordinates in another order, some with the other sign; a rotation that mixes nothing."""
    _require_widths(d, d)
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    return Projection("permutation", np.eye(d)[order] * _signs(rng, (d, 1)))


def _require_widths(m: int, d: int) -> None:
    if m < 1 or d < 1:
        raise ValueError(f"a map of {d} coordinates to {m}: both must be at least 1")


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(2, size=shape) * 2.0 - 1.0


def _orthonormal(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Rows, or columns where m > d, of a rotation drawn uniformly: (m, d)."""
    basis, triangle = np.linalg.qr(rng.normal(size=(max(m, d), min(m, d))))
    basis = basis * np.where(np.diag(triangle) < 0, -1.0, 1.0)  # without this not uniform
    return np.ascontiguousarray(basis.T if m <= d else basis)


# --- the fast transform -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SubsampledHadamard:
    """Signs, a Walsh-Hadamard transform, some of its coordinates: applied in d log d, never formed."""

    signs: np.ndarray  # (d,), +-1
    rows: np.ndarray  # (m,), which coordinates are kept
    factor: float  # size of every entry

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.rows), len(self.signs)

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Map vectors (..., d) to (..., m)."""
        x = check_array(x, "x", empty=True)
        if x.ndim == 0 or x.shape[-1] != len(self.signs):
            raise ValueError(f"x has shape {x.shape} for a map of {len(self.signs)} coordinates")
        signed = x * (self.signs * self.factor)
        missing = padded_width(len(self.signs)) - len(self.signs)
        if missing:
            signed = np.concatenate([signed, np.zeros((*x.shape[:-1], missing))], axis=-1)
        return walsh_hadamard(signed).take(self.rows, axis=-1)


def _draw_hadamard(rng: np.random.Generator, m: int, d: int, factor: float) -> SubsampledHadamard:
    width = padded_width(d)
    if m > width:
        raise ValueError(
            f"a Hadamard map of {d} coordinates has {width} (d padded to a power of two), fewer than {m}: "
            "use another family, or a smaller m"
        )
    return SubsampledHadamard(_signs(rng, (d,)), rng.choice(width, size=m, replace=False), factor)


def padded_width(d: int) -> int:
    """The least power of two that is at least d.

    >>> padded_width(100), padded_width(128)
    (128, 128)
    """
    return 1 << (d - 1).bit_length()


def walsh_hadamard(x: ArrayLike) -> np.ndarray:
    """Walsh-Hadamard transform of the last axis, entries +-1 in Sylvester's order.

    A transform of 16 x 8 coordinates is one of 16 along one axis and of 8 along the other, each done as a
    matrix product, and so on.

    Parameters
    ----------
    x : array, shape (..., 2^k)

    Returns
    -------
    array of the same shape, float64; sqrt(2^k) times as long

    Examples
    --------
    >>> walsh_hadamard([1.0, 2.0, 3.0, 4.0]).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    x = check_array(x, "x")
    width = x.shape[-1] if x.ndim else 0
    if width != padded_width(width):
        raise ValueError(f"x has {width} coordinates: their number must be a power of two")
    n_bits = width.bit_length() - 1
    n_axes = max(1, -(-n_bits // BLOCK_BITS))
    blocks = [1 << (n_bits * (axis + 1) // n_axes - n_bits * axis // n_axes) for axis in range(n_axes)]
    out, done = x.reshape(-1, blocks[0]) @ _sylvester(blocks[0]), blocks[0]
    for block in blocks[1:]:
        out = _sylvester(block) @ out.reshape(-1, block, done)
        done *= block
    return out.reshape(x.shape)


@functools.cache
def _sylvester(n: int) -> np.ndarray:
    matrix = scipy.linalg.hadamard(n, dtype=float)
    matrix.flags.writeable = False
    return matrix
