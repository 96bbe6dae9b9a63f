"""Kernels of trained models, and what a kernel or its first row gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike

from embviz.arrays import checked
from embviz.kernels.spectrum import Given, matrix_of, rounding
from embviz.memory import require_memory


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
    W: np.ndarray, D: Given, *, zeros: Literal["refuse", "drop"] = "refuse", max_memory: int | None = None
) -> Extraction:
    """K = ifft2(fft2(W) / fft2(D)).

    Parameters
    ----------
    W : array, shape (..., V, V)
        Gram matrices E E' of tied embeddings, or a stack of them: seeds, snapshots.
    D : array (V, V), symmetric, or Spectrum
    zeros : "refuse" or "drop"
        What to do where fft2(D) is 0, or below rounding. "drop" puts the kernel's own transform to 0 there
        and tells how often; it no longer reconstructs W. Nothing is ever replaced.
    max_memory : int, optional, in bytes
        By default what is available.

    Raises
    ------
    ValueError
        If a frequency can't be divided and `zeros` is "refuse", shapes don't fit, W is not finite, D is not
        symmetric, or a row of it is all 0.
    MemoryError
        If the transforms would not fit, before they are made.

    Source
    ------
    The kernel paper, section 3.3, step 3.
    """
    D = matrix_of(D)
    W = _checked_stack(W, "W", len(D))
    if zeros not in ("refuse", "drop"):
        raise ValueError(f'zeros is {zeros!r}: use "refuse" or "drop"')
    require_memory(
        40 * W.size + 32 * D.size,  # transforms, their inverse, |fft2(D)|, the kernel; peaks as measured
        what=f"a kernel of shape {W.shape}",
        instead="keep the most frequent words only, or extract fewer kernels at once",
        max_memory=max_memory,
    )
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
    MemoryError
        If V x V numbers would not fit.

    Source
    ------
    The kernel paper, section 3.3, step 1, and section 8, limitation 2.
    """
    embedding, output = checked(embedding, "embedding", 2), checked(output, "output", 2)
    if embedding.shape != output.shape:
        raise ValueError(
            f"the model is not tied: its embedding has shape {embedding.shape}, its output {output.shape}"
        )
    if not np.array_equal(embedding, output):
        n_rows = int((embedding != output).any(axis=1).sum())
        raise ValueError(
            f"the model is not tied: {n_rows} of {len(embedding)} words have another output vector than "
            "embedding, and W = E E' is defined for one matrix. As a null take embedding @ embedding.T, or "
            "the output's, and say which"
        )
    V = len(embedding)
    require_memory(
        8 * V * V + embedding.size, what=f"W of {V:,} words", instead="keep the most frequent words only"
    )
    return embedding @ embedding.T


def _checked_stack(matrices: ArrayLike, name: str, V: int | None = None) -> np.ndarray:
    """Square matrices (..., V, V), of D's size where V is given."""
    array = checked(matrices, name)
    if V is not None and array.shape[-2:] != (V, V):
        raise ValueError(f"{name} has shape {array.shape}, and D is {V} x {V}: give one of (..., {V}, {V})")
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name} has shape {array.shape}: give square matrices, (..., V, V)")
    return array


def reconstruct(D: Given, kernel: np.ndarray) -> np.ndarray:
    """W = ifft2(fft2(D) fft2(K)), the cyclic convolution of D with kernels (..., V, V).

    Raises
    ------
    ValueError
        If shapes don't fit, a kernel is not finite, D is not symmetric, or a row of it is all 0.
    """
    D = matrix_of(D)
    kernel = _checked_stack(kernel, "kernel", len(D))
    return scipy.fft.irfft2(scipy.fft.rfft2(D) * scipy.fft.rfft2(kernel), s=D.shape)


def circulant(first_row: ArrayLike, *, direction: Literal[1, -1] = 1) -> np.ndarray:
    """Row i is the first row rolled by i places: to the right (an entry depends on j - i) or left (i + j).

    Raises
    ------
    MemoryError
        If V x V numbers and as many places would not fit.

    Examples
    --------
    >>> circulant([1, 2, 3])
    array([[1, 2, 3],
           [3, 1, 2],
           [2, 3, 1]])
    >>> circulant([1, 2, 3], direction=-1)
    array([[1, 2, 3],
           [2, 3, 1],
           [3, 1, 2]])
    """
    first_row = checked(first_row, "first_row", 1, kind="number")
    V = len(first_row)
    require_memory(
        16 * V * V, what=f"a circulant of {V:,} rows", instead="keep its first row, which says all"
    )
    return first_row[_rolled_places(len(first_row), direction)]


def _rolled_places(V: int, direction: int) -> np.ndarray:
    if direction not in (1, -1):
        raise ValueError(f"direction is {direction!r}: use 1 (to the right) or -1 (to the left)")
    places = np.arange(V)
    return (places - direction * places[:, None]) % V


def reconstruct_from_row(D: Given, k0: ArrayLike, *, direction: Literal[1, -1] = 1) -> np.ndarray:
    """W from one row: D convolved with the circulant of k0.

    With direction 1 it is a circulant again, V times the cyclic convolution of k0 with the mean of D along
    each cyclic diagonal, whatever the words are.
    """
    D, k0 = matrix_of(D), checked(k0, "k0", 1)
    if len(k0) != len(D):
        raise ValueError(f"k0 has {len(k0)} entries, and D is {len(D)} x {len(D)}: give one a word")
    return reconstruct(D, circulant(k0, direction=direction))


def circulant_scores(kernels: np.ndarray, *, direction: Literal[1, -1] = 1) -> np.ndarray:
    """:func:`embviz.metrics.circulant_score` of each matrix of a stack (..., V, V) at once."""
    kernels = _checked_stack(kernels, "kernels")
    rolled = kernels[..., 0, :][..., _rolled_places(kernels.shape[-1], direction)]
    inner = np.einsum("...ij,...ij->...i", kernels, rolled)
    lengths = np.linalg.norm(kernels, axis=-1) * np.linalg.norm(rolled, axis=-1)
    return np.median(np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0), axis=-1)


def circulant_share(matrices: np.ndarray) -> np.ndarray:
    """Share of \\|M\\|_F^2 that the nearest circulant keeps, for a stack (..., V, V): 1 just for circulants.

    About 1 / V for independent entries. The nearest circulant has the mean of each cyclic diagonal.
    """
    matrices = _checked_stack(matrices, "matrices")
    V = matrices.shape[-1]
    means = cyclic_diagonals(matrices) / V
    total = np.einsum("...ij,...ij->...", matrices, matrices)
    if not total.all():
        raise ValueError("one of matrices is 0 everywhere: it has no share to keep")
    return V * (means**2).sum(-1) / total


def cyclic_diagonals(matrices: np.ndarray) -> np.ndarray:
    """Sums s(m) of M[i, i + m mod V] over i, for a stack (..., V, V): shape (..., V)."""
    matrices = _checked_stack(matrices, "matrices")
    V = matrices.shape[-1]
    places = np.arange(V)
    return matrices[..., places[:, None], (places + places[:, None]) % V].sum(axis=-2)


# --- what nearly orthogonal embeddings give ---------------------------------------------------------


def noise_gain(D: Given) -> float:
    """How much louder noise in W leaves the division by fft2(D) than the identity does.

    The sum of 1 / |fft2(D)|^2 over all frequencies, those with a = b twice as noise is symmetric, over that
    of a + b = 0, where the identity lives. It is V + 1 where all frequencies of D are alike, less where the
    smallest happen to lie on that line, and more where they don't: the order of the vocabulary decides.

    Raises
    ------
    ValueError
        If fft2(D) is 0 somewhere: the kernel is not defined there. If D is not symmetric, or a row all 0.
    """
    D = matrix_of(D)
    size = np.abs(scipy.fft.fft2(D))
    if not size.all():
        raise ValueError(f"fft2(D) is exactly 0 at {(size == 0).sum()} frequencies: the noise has no bound")
    let_through = 1 / size**2
    places = np.arange(len(D))
    line = let_through[places, -places].sum()
    return float((let_through.sum() + let_through.diagonal().sum()) / line)


def expected_score(D: Given, spread: ArrayLike) -> np.ndarray:
    """The circulant score to expect of W = I + noise, whatever was or was not learned.

    Rows of such a kernel are one row, the identity's, and noise; two of them have in common what the first
    gives to their squared length, 1 / (1 + spread^2 gain). The cosine of one of them with the identity's row
    is the root of that. An approximation: lengths are taken by their means.

    Parameters
    ----------
    D : array or Spectrum
    spread : numbers
        Standard deviation of the entries of W off the diagonal, in units of the mean diagonal entry:
        1 / sqrt(d) of random embeddings in d dimensions.

    Returns
    -------
    array of the shape of `spread`, in 0..1
    """
    return 1 / (1 + checked(spread, "spread", low=0) ** 2 * noise_gain(D))
