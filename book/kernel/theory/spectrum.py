"""Eigenpairs of log co-occurrence D, and functions of eigenvalues of both signs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike

from embviz.kernels import check_log_counts
from embviz.memory import require_memory

Negative = Literal["clamp", "magnitude", "signed", "shift", "positive"]
Logarithm = Literal["clamp", "magnitude", "complex"]

FLOOR = 1e-15  # the listings' clamp of eigenvalues


def permute(matrix: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows and columns in another order: entry (i, j) belongs to the words order[i] and order[j]."""
    return matrix[np.ix_(order, order)]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A symmetric matrix with its eigenpairs, computed once for all that a slider moves."""

    matrix: np.ndarray  # (V, V)
    values: np.ndarray  # (V,), ascending
    vectors: np.ndarray  # (V, V), one column per eigenvector

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.values)

    @property
    def n_negative(self) -> int:
        """Number of eigenvalues below 0."""
        return int((self.values < 0).sum())

    @functools.cached_property
    def transform(self) -> np.ndarray:
        """fft2 of the matrix, its columns 0..V//2: (V, V//2 + 1); the others are conjugates of these."""
        return scipy.fft.rfft2(self.matrix)

    def permuted(self, order: np.ndarray) -> Spectrum:
        """The spectrum of the reordered matrix, without computing eigenpairs again."""
        return Spectrum(permute(self.matrix, order), self.values, self.vectors[order])


Given: TypeAlias = Spectrum | np.ndarray  # D, with or without its eigenpairs


def matrix_of(D: Given) -> np.ndarray:
    """D itself, (V, V); an array is checked, a spectrum's matrix was checked when it was decomposed."""
    return D.matrix if isinstance(D, Spectrum) else check_log_counts(D)


def transform_of(D: Given) -> np.ndarray:
    """fft2(D), its columns 0..V//2: (V, V//2 + 1)."""
    return D.transform if isinstance(D, Spectrum) else scipy.fft.rfft2(matrix_of(D))


def decompose(D: np.ndarray) -> Spectrum:
    """All eigenpairs of D, which must be square, finite and symmetric, with no row of zeros.

    >>> decompose(np.array([[1.0, 2.0], [2.0, 1.0]])).values.round(3)
    array([-1.,  3.])
    """
    D = check_log_counts(D)
    require_memory(
        48 * D.size,  # D, eigenvectors, D^eps, the half planes of both transforms, |fft2(D)|: float64 each
        what=f"the spectrum of {len(D):,} words",
        instead="keep the most frequent words only, Corpus.restrict(max_vocab=...): memory grows as V^2",
    )
    return eigenpairs(D)


def eigenpairs(matrix: np.ndarray) -> Spectrum:
    """Spectrum of any symmetric matrix, such as PMI."""
    values, vectors = np.linalg.eigh(matrix)
    return Spectrum(matrix, values, vectors)


def spectrum_of(D: Given) -> Spectrum:
    """D with its eigenpairs, computed if need be."""
    return D if isinstance(D, Spectrum) else decompose(D)


def spectral_power(
    values: np.ndarray, power: ArrayLike, *, negative: Negative = "clamp", floor: ArrayLike = FLOOR
) -> np.ndarray:
    """Powers of eigenvalues, some of them negative, shape (..., V).

    Parameters
    ----------
    values : array, shape (V,)
        They may be infinite where the power is below 0: such an eigenvalue is left out.
    power, floor : numbers or arrays that broadcast to a shape (...)
    negative : what stands for l**power
        "clamp", max(l, floor)**power, the listings'; "magnitude", max(\\|l\\|, floor)**power; "signed", that
        times the sign of l; "shift", (l - min + floor)**power; "positive", 0 unless l is above 0.
    """
    power, floor = np.asarray(power, dtype=float), np.asarray(floor, dtype=float)
    if not (floor > 0).all():
        raise ValueError(f"the floor is {floor.min():g}: it must be above 0, for powers below 0")
    with np.errstate(over="ignore"):
        raised = _raised(values, power[..., None], floor[..., None], negative)
    if not np.isfinite(raised).all():
        raise ValueError(f"values or floor to the power {power.ravel()[0]:g} overflow: take a smaller one")
    return raised


def _raised(values: np.ndarray, power: np.ndarray, floor: np.ndarray, negative: str) -> np.ndarray:
    if negative == "clamp":
        return np.maximum(values, floor) ** power
    if negative == "magnitude":
        return np.maximum(np.abs(values), floor) ** power
    if negative == "signed":
        return np.sign(values) * np.maximum(np.abs(values), floor) ** power
    if negative == "shift":
        return (values - values.min() + floor) ** power
    if negative == "positive":
        return np.where(values > 0, np.where(values > 0, values, 1.0) ** (power + 0 * floor), 0.0)
    raise ValueError(f"negative is {negative!r}: use one of {', '.join(get_args(Negative))}")


def checked_eps(eps: ArrayLike) -> np.ndarray:
    """Powers in (0, 1], or a refusal."""
    eps = np.asarray(eps, dtype=float)
    if not ((eps > 0) & (eps <= 1)).all():
        outside = eps[~((eps > 0) & (eps <= 1))].ravel()[0]
        raise ValueError(f"eps is {outside:g}: D^eps is defined here above 0 and up to 1 (the paper: 0.003)")
    return eps


def one_eps(eps: float) -> float:
    """One power in (0, 1], or a refusal."""
    power = checked_eps(eps)
    if power.ndim:
        raise ValueError(f"eps has shape {power.shape}: give one power here; alpha_scan takes many")
    return float(power)


def matrix_power(D: Given, eps: float, *, negative: Negative = "clamp", floor: float = FLOOR) -> np.ndarray:
    """D^eps = Q f(l) Q' of a symmetric matrix, shape (V, V); `negative` as in :func:`spectral_power`."""
    power, spectrum = one_eps(eps), spectrum_of(D)
    weights = spectral_power(spectrum.values, power, negative=negative, floor=floor)
    return (spectrum.vectors * weights) @ spectrum.vectors.T


def log_values(values: np.ndarray, kind: Logarithm, floor: float = FLOOR) -> np.ndarray:
    """Logarithms of eigenvalues l of both signs.

    "clamp": log max(l, floor); "magnitude": log max(\\|l\\|, floor); "complex": that plus i pi where l is
    negative, as in the principal logarithm of a matrix.
    """
    if kind == "clamp":
        return np.log(np.maximum(values, floor))
    magnitude = np.log(np.maximum(np.abs(values), floor))
    if kind == "magnitude":
        return magnitude
    if kind == "complex":
        return magnitude + 1j * np.pi * (values < 0)
    raise ValueError(f"kind is {kind!r}: use one of {', '.join(get_args(Logarithm))}")
