"""The kernel between log co-occurrence D and a Gram matrix W of tied embeddings.

K = ifft2(fft2(W) / fft2(D)), word ids on both axes; fft2(D)[a, b] sums D[i, j] exp(-2 pi i (a i + b j) / V).
What follows for every W and D, and is tested:

- K exists for every W, and D convolved with it is W, if fft2(D) has no zero; this says nothing about W.
- K is circulant, K[i, j] = k0[j - i], if and only if W is.
- Renumber the words i -> u i + s mod V, u prime to V: the circulant score stays. Other orders change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike
from scipy import sparse

from embviz.arrays import check_array, check_matrix, check_square
from embviz.memory import require_memory

Matrix: TypeAlias = np.ndarray | sparse.sparray

ASYMMETRY = 1e-10  # of the largest entry: far above rounding in float64, far below a count
BLOCK = 512  # rows compared at a time


def log_counts(counts: Matrix) -> np.ndarray:
    """D = log(1 + C).

    Parameters
    ----------
    counts : sparse or dense array, shape (V, V)
        Symmetric, non-negative pair counts.

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
    counts = check_matrix(counts, "counts", low=0)
    V = counts.shape[0]
    require_memory(
        16 * V * V,  # D, and at most as much again: the rows that are compared with columns
        what=f"log counts of a vocabulary of {V:,} words",
        instead="keep the most frequent words only, Corpus.restrict(max_vocab=...): memory grows as V^2",
    )
    dense = (
        np.array(counts, dtype=float) if isinstance(counts, np.ndarray) else counts.astype(float).toarray()
    )
    _require_symmetric(dense, "counts", tolerance=0.0)
    _require_paired(dense, "counts")
    return np.log1p(dense, out=dense)


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
            "again"
        )


def check_log_counts(D: np.ndarray) -> np.ndarray:
    """D as a float array (V, V): square, finite and symmetric, no row all 0, or it is refused."""
    D = check_square(D, "D")
    _require_symmetric(D, "D", tolerance=ASYMMETRY)
    _require_paired(D, "D")
    return D


def rounding(V: int, largest: float) -> float:
    """Rounding error of a transform of V x V numbers whose largest magnitude is given."""
    return float(np.finfo(float).eps * V * largest)


@dataclass(frozen=True, eq=False)
class Extraction:
    """A kernel, or a stack of them, and how well the division that gave it was posed."""

    kernel: np.ndarray  # (..., V, V)
    condition: float  # max / min of |fft2(D)| over the frequencies that were divided
    n_zeros: int  # frequencies where fft2(D) is exactly 0
    n_near_zeros: int  # where it is not, but below rounding: V times machine epsilon of the largest
    imaginary: float  # largest imaginary part left out, relative to the largest entry

    @property
    def k0(self) -> np.ndarray:
        """The first row, shape (..., V)."""
        return self.kernel[..., 0, :]


def extract_kernel(
    W: np.ndarray, D: np.ndarray, *, zeros: Literal["refuse", "drop"] = "refuse"
) -> Extraction:
    """K = ifft2(fft2(W) / fft2(D)).

    Parameters
    ----------
    W : array, shape (..., V, V)
        Finite Gram matrices E E' of tied embeddings, or a stack of them: seeds, snapshots.
    D : array (V, V), symmetric, no row all 0
    zeros : "refuse" or "drop"
        What to do where fft2(D) is 0, or below rounding. "drop" puts the kernel's own transform to 0 there
        and tells how often; it no longer reconstructs W. Nothing is ever replaced.

    Source
    ------
    The kernel paper, section 3.3, step 3.
    """
    D = check_log_counts(D)
    W = _checked_stack(W, "W", len(D))
    if zeros not in ("refuse", "drop"):
        raise ValueError(f'zeros is {zeros!r}: use "refuse" or "drop"')
    transform = scipy.fft.fft2(D)
    size = np.abs(transform)
    exact = size == 0
    near = ~exact & (size <= rounding(len(D), size.max()))
    lost = exact | near
    if zeros == "refuse" and lost.any():
        raise ValueError(
            f"fft2(D) is exactly 0 at {exact.sum()} of {lost.size} frequencies and below rounding at "
            f'{near.sum()}: the kernel is not defined there. zeros="drop" leaves them out of it'
        )
    quotient = scipy.fft.fft2(W)
    np.divide(quotient, transform, out=quotient, where=~lost)
    quotient[..., lost] = 0
    kernel = scipy.fft.ifft2(quotient, overwrite_x=True)
    largest = float(np.abs(kernel.real).max())
    return Extraction(
        kernel=kernel.real.copy(),
        condition=float(size.max() / size[~lost].min()),
        n_zeros=int(exact.sum()),
        n_near_zeros=int(near.sum()),
        imaginary=float(np.abs(kernel.imag).max()) / largest if largest else 0.0,
    )


def tied_gram(embedding: np.ndarray, output: np.ndarray) -> np.ndarray:
    """W = E E' of a tied model, shape (V, V), whose input and output matrices are one.

    Raises
    ------
    ValueError
        If the two differ: W is not defined then; or if they are not finite.

    Source
    ------
    The kernel paper, section 3.3, step 1, and section 8, limitation 2.
    """
    embedding, output = check_array(embedding, "embedding", 2), check_array(output, "output", 2)
    if embedding.shape != output.shape:
        raise ValueError(
            f"the model is not tied: its embedding has shape {embedding.shape}, its output {output.shape}"
        )
    if not np.array_equal(embedding, output):
        n_rows = int((embedding != output).any(axis=1).sum())
        raise ValueError(
            f"the model is not tied: {n_rows} of {len(embedding)} words have another output vector than "
            "embedding, and W = E E' is defined for one matrix. As a control use embedding @ embedding.T, or "
            "the output's, and say which"
        )
    return embedding @ embedding.T


def _checked_stack(matrices: ArrayLike, name: str, V: int | None = None) -> np.ndarray:
    """Square matrices (..., V, V), of D's size where V is given."""
    array = check_array(matrices, name)
    if V is not None and array.shape[-2:] != (V, V):
        raise ValueError(f"{name} has shape {array.shape}, and D is {V} x {V}: give one of (..., {V}, {V})")
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name} has shape {array.shape}: give square matrices, (..., V, V)")
    return array
