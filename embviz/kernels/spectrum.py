"""Log co-occurrence D, its eigenpairs, and functions of eigenvalues of both signs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike
from scipy import sparse

from embviz.arrays import checked, checked_matrix, square
from embviz.memory import require_memory
from embviz.words.cooccurrence import count_pairs

Matrix: TypeAlias = np.ndarray | sparse.sparray
Negative = Literal["clamp", "magnitude", "signed", "shift", "positive"]
Logarithm = Literal["clamp", "magnitude", "complex"]

FLOOR = 1e-15  # the listings' clamp of eigenvalues
ASYMMETRY = 1e-10  # of the largest entry: far above rounding in float64, far below a count
BLOCK = 512  # rows at a time, where another V x V array isn't needed


# --- D ----------------------------------------------------------------------------------------------


def log_counts(counts: Matrix, *, max_memory: int | None = None) -> np.ndarray:
    """D = log(1 + C).

    Parameters
    ----------
    counts : sparse or dense array, shape (V, V)
        Symmetric, non-negative pair counts.
    max_memory : int, optional, in bytes
        By default what is available.

    Returns
    -------
    array, shape (V, V), float64, in nats

    Raises
    ------
    ValueError
        If the counts are not square, finite, non-negative and symmetric, or a word has no pair at all.
    MemoryError
        If V x V numbers would not fit, before they are made.

    Source
    ------
    The kernel paper, section 3.3, step 2.

    Examples
    --------
    >>> log_counts(np.array([[0, 1], [1, 0]])).round(3)
    array([[0.   , 0.693],
           [0.693, 0.   ]])
    """
    counts = checked_matrix(counts, "counts", low=0)
    # D, and at most as much again: the rows that are compared with columns
    require_for(counts.shape[0], max_memory, "log counts", n_arrays=2)
    dense = dense_counts(counts)
    _require_symmetric(dense, "counts", tolerance=0.0)
    _require_paired(dense, "counts")
    return np.log1p(dense, out=dense)


def dense_counts(counts: Matrix) -> np.ndarray:
    """A float64 copy that is not sparse, (V, V)."""
    counts = checked_matrix(counts, "counts")
    return np.array(counts, dtype=float) if isinstance(counts, np.ndarray) else counts.astype(float).toarray()


def _require_symmetric(matrix: np.ndarray, name: str, *, tolerance: float) -> None:
    """Refuse what is not symmetric, naming the worst pair."""
    largest, worst, place = max(matrix.max(), -matrix.min()), 0.0, (0, 0)
    for first in range(0, len(matrix), BLOCK):  # rows from the diagonal on, against columns
        rows = matrix[first : first + BLOCK, first:] - matrix[first:, first : first + BLOCK].T
        np.abs(rows, out=rows)
        if rows.max() > worst:
            i, j = divmod(int(rows.argmax()), rows.shape[1])
            worst, place = float(rows.max()), (first + i, first + j)
    if worst > tolerance * largest:
        i, j = place
        raise ValueError(
            f"{name} is not symmetric: entries ({i}, {j}) and ({j}, {i}), which differ most, differ by "
            f"{worst:.3g}; count both directions, M + M.T, or take the mean of both if it is rounding"
        )


def _require_paired(matrix: np.ndarray, name: str) -> None:
    """Refuse words whose rows are all 0, naming them."""
    if (silent := np.flatnonzero(~matrix.any(axis=1))).size:
        first = ", ".join(map(str, silent[:5])) + (", ..." if silent.size > 5 else "")
        raise ValueError(
            f"{silent.size} word(s) have no pair at all (ids {first}): their rows of D are all 0. Drop them: "
            f"keep = abs({name}).sum(axis=1) > 0, then {name}[keep][:, keep], and number the text's words "
            "anew"
        )


def permute(matrix: Matrix, order: ArrayLike) -> Matrix:
    """Rows and columns in another order: entry (i, j) is that of the words order[i] and order[j]."""
    matrix = checked_matrix(matrix, "matrix")
    order = _checked_order(order, matrix.shape[0])
    return matrix[np.ix_(order, order)] if isinstance(matrix, np.ndarray) else matrix[order][:, order]


def _checked_order(order: ArrayLike, V: int) -> np.ndarray:
    order = checked(order, "order", 1, kind="integer")
    if order.shape != (V,) or not np.array_equal(np.sort(order), np.arange(V)):
        raise ValueError(f"order must name each of the {V} words once, from 0 to {V - 1}")
    return order


def conventions(
    ids: np.ndarray,
    vocab_size: int,
    *,
    document_starts: np.ndarray | None = None,
    windows: Sequence[int] = (2, 5, 10),
    max_memory: int | None = None,
) -> dict[str, np.ndarray]:
    """D under every way of counting that the text leaves open.

    Parameters
    ----------
    ids : integer array, shape (N,)
        The text; V and above is a hole.
    vocab_size : int
        V.
    document_starts : integer array, optional
        Without it, "borders kept" is left out.
    windows : of integers, in places to each side
        The first 5 among them, or else the first, is combined with the other conventions.
    max_memory : int, optional, in bytes
        By default what is available.

    Returns
    -------
    dict of arrays (V, V), in nats
        "window 5": as the paper's loop, over borders of documents, 2 on the diagonal for two neighbouring
        places of one word. "halved": each pair once, C / 2. "diagonal once": its diagonal alone halved.
        "no diagonal". "borders kept": no pair over one.

    Raises
    ------
    ValueError
        As :func:`embviz.words.cooccurrence.count_pairs` and :func:`log_counts`.
    MemoryError
        If all these arrays would not fit, before anything is counted.
    """
    n_counted = len(windows) + 3 + (document_starts is not None)
    # all of them, the diagonal, and what log_counts takes
    require_for(vocab_size, max_memory, f"{n_counted} ways of counting", n_arrays=n_counted + 3)
    counted = {
        f"window {w}": dense_counts(count_pairs(ids, vocab_size, window=w, max_memory=max_memory))
        for w in windows
    }
    chosen = 5 if 5 in windows else windows[0]
    plain = counted[f"window {chosen}"]
    diagonal = np.diag(plain.diagonal())
    counted["halved"] = plain / 2
    counted["diagonal once"] = plain - diagonal / 2
    counted["no diagonal"] = plain - diagonal
    del plain, diagonal  # V x V each
    if document_starts is not None:
        counted["borders kept"] = dense_counts(
            count_pairs(
                ids, vocab_size, window=chosen, document_starts=document_starts, max_memory=max_memory
            )
        )
    for name, counts in counted.items():
        counted[name] = log_counts(counts, max_memory=max_memory)
    return counted


# --- eigenpairs -------------------------------------------------------------------------------------


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

    def permuted(self, order: ArrayLike) -> Spectrum:
        """The spectrum of the reordered matrix, without computing eigenpairs again."""
        order = _checked_order(order, self.vocab_size)
        return Spectrum(self.matrix[np.ix_(order, order)], self.values, self.vectors[order])


Given: TypeAlias = Spectrum | np.ndarray  # D, with or without its eigenpairs


def matrix_of(D: Given) -> np.ndarray:
    """D itself, (V, V): a spectrum's is known to be one, an array is looked at.

    Raises
    ------
    ValueError
        If an array is not square, finite and symmetric, or a row of it is all 0.
    """
    if isinstance(D, Spectrum):
        return D.matrix
    D = square(D, "D")
    _require_symmetric(D, "D", tolerance=ASYMMETRY)
    _require_paired(D, "D")
    return D


def transform_of(D: Given) -> np.ndarray:
    """fft2(D), its columns 0..V//2: (V, V//2 + 1)."""
    return D.transform if isinstance(D, Spectrum) else scipy.fft.rfft2(matrix_of(D))


def rounding(V: int, largest: float) -> float:
    """What a transform of V x V numbers can't tell from 0, where its largest magnitude is that."""
    return float(np.finfo(float).eps * V * largest)


N_ARRAYS = 6  # of V x V numbers, at the peak of a spectrum and one deconvolution


def n_bytes_for(V: int, n_arrays: int = N_ARRAYS) -> int:
    """Peak memory of the work on V words, D included."""
    # six: D, eigenvectors, D^eps, the half planes of both transforms, |fft2(D)|: float64 each; the eigenvalue
    # solver's peak (D, its copy, the vectors, twice that for work) stays below
    return n_arrays * 8 * V * V


def require_for(V: int, max_memory: int | None, what: str, n_arrays: int = N_ARRAYS) -> None:
    """Refuse V words whose arrays would not fit."""
    require_memory(
        n_bytes_for(V, n_arrays),
        what=f"{what} of a vocabulary of {V:,} words, V x V numbers several times,",
        instead="keep the most frequent words only, Corpus.restrict(max_vocab=...): memory grows as V^2",
        max_memory=max_memory,
    )


def decompose(D: np.ndarray, *, max_memory: int | None = None) -> Spectrum:
    """All eigenpairs of D.

    Parameters
    ----------
    D : array, shape (V, V), symmetric
    max_memory : int, optional, in bytes
        By default what is available.

    Raises
    ------
    ValueError
        If D is not square, finite and symmetric, or a row of it is all 0.
    MemoryError
        If the work on V words would not fit, before it starts.

    Examples
    --------
    >>> decompose(np.array([[1.0, 2.0], [2.0, 1.0]])).values.round(3)
    array([-1.,  3.])
    """
    D = square(D, "D")
    require_for(len(D), max_memory, "the spectrum")
    return eigenpairs(matrix_of(D))


def eigenpairs(matrix: np.ndarray) -> Spectrum:
    """Those of any symmetric matrix, such as PMI, that needn't be D."""
    matrix = square(matrix, "matrix")
    _require_symmetric(matrix, "matrix", tolerance=ASYMMETRY)
    values, vectors = np.linalg.eigh(matrix)
    return Spectrum(matrix, values, vectors)


def spectrum_of(D: Given) -> Spectrum:
    """D with its eigenpairs, computed if need be."""
    return D if isinstance(D, Spectrum) else decompose(D)


def spectral_power(
    values: np.ndarray, power: ArrayLike, *, negative: Negative = "clamp", floor: ArrayLike = FLOOR
) -> np.ndarray:
    """Powers of eigenvalues, some of them negative.

    Parameters
    ----------
    values : array, shape (V,)
        They may be infinite where the power is below 0: such an eigenvalue is left out.
    power, floor : numbers or arrays that broadcast to a shape (...)
    negative : what stands for l**power
        "clamp", max(l, floor)**power, the listings'; "magnitude", max(\\|l\\|, floor)**power; "signed", that
        times the sign of l; "shift", (l - min + floor)**power; "positive", 0 unless l is above 0.

    Returns
    -------
    array, shape (..., V)

    Raises
    ------
    ValueError
        If `negative` is none of these, a floor is not above 0, or a power overflows.
    """
    values = checked(values, "values", 1, infinite=True)
    power, floor = checked(power, "power"), checked(floor, "floor")
    if power.shape and floor.shape and power.shape != floor.shape:
        try:
            np.broadcast_shapes(power.shape, floor.shape)
        except ValueError as error:
            shapes = f"power has shape {power.shape} and floor {floor.shape}"
            raise ValueError(f"{shapes}: they don't fit each other") from error
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
    eps = checked(eps, "eps")
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
    """D^eps = Q f(l) Q' of a symmetric matrix, shape (V, V); `negative` as in :func:`spectral_power`.

    Raises
    ------
    ValueError
        If eps is not one number above 0 and at most 1.
    """
    power, spectrum = one_eps(eps), spectrum_of(D)
    return _of_values(spectrum, spectral_power(spectrum.values, power, negative=negative, floor=floor))


def _of_values(spectrum: Spectrum, values: np.ndarray) -> np.ndarray:
    return (spectrum.vectors * values) @ spectrum.vectors.T


def negative_projector(D: Given) -> np.ndarray:
    """P, the orthogonal projector on the eigenvectors with negative eigenvalues, shape (V, V)."""
    spectrum = spectrum_of(D)
    chosen = spectrum.vectors[:, spectrum.values < 0]
    return chosen @ chosen.T


def log_matrix(D: Given, kind: Logarithm = "clamp", *, floor: float = FLOOR) -> np.ndarray:
    """The logarithm of a symmetric matrix with eigenvalues of both signs.

    Parameters
    ----------
    D : array or Spectrum
    kind : of an eigenvalue l
        "clamp", log max(l, floor); "magnitude", log max(\\|l\\|, floor); "complex", that plus i pi where l is
        negative: the principal matrix logarithm, its real part "magnitude", its imaginary part pi P.

    Returns
    -------
    array, shape (V, V), complex for "complex"
    """
    spectrum = spectrum_of(D)
    return _of_values(spectrum, log_values(spectrum.values, kind, floor))


def log_values(values: np.ndarray, kind: Logarithm, floor: float) -> np.ndarray:
    """Logarithms of eigenvalues, as :func:`log_matrix` takes them."""
    values = checked(values, "values", 1)
    if kind == "clamp":
        return np.log(np.maximum(values, floor))
    magnitude = np.log(np.maximum(np.abs(values), floor))
    if kind == "magnitude":
        return magnitude
    if kind == "complex":
        return magnitude + 1j * np.pi * (values < 0)
    raise ValueError(f"kind is {kind!r}: use one of {', '.join(get_args(Logarithm))}")
