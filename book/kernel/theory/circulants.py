"""Circulants: made from a row, the nearest one to a matrix, and what a single row gives back."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike

from book.kernel.theory.spectrum import Given, matrix_of


def circulant(first_row: ArrayLike, *, direction: Literal[1, -1] = 1) -> np.ndarray:
    """Row i is the first row rolled by i places: to the right (an entry depends on j - i) or left (i + j).

    >>> circulant([1, 2, 3])
    array([[1, 2, 3],
           [3, 1, 2],
           [2, 3, 1]])
    >>> circulant([1, 2, 3], direction=-1)
    array([[1, 2, 3],
           [2, 3, 1],
           [3, 1, 2]])
    """
    first_row = np.asarray(first_row)
    places = np.arange(len(first_row))
    return first_row[(places - direction * places[:, None]) % len(places)]


def reconstruct(D: Given, kernels: np.ndarray) -> np.ndarray:
    """W = ifft2(fft2(D) fft2(K)), the cyclic convolution of D with kernels (..., V, V)."""
    D = matrix_of(D)
    return scipy.fft.irfft2(scipy.fft.rfft2(D) * scipy.fft.rfft2(kernels), s=D.shape)


def reconstruct_from_row(D: Given, k0: np.ndarray, *, direction: Literal[1, -1] = 1) -> np.ndarray:
    """W from one row: D convolved with the circulant of k0.

    With direction 1 it is a circulant again, V times the cyclic convolution of k0 with the mean of D along
    each cyclic diagonal, whatever the words are.
    """
    return reconstruct(D, circulant(k0, direction=direction))


def circulant_share(matrices: np.ndarray) -> np.ndarray:
    """Share of \\|M\\|_F^2 in the nearest circulant, for a stack (..., V, V): 1 for circulants alone.

    About 1 / V for independent entries. The nearest circulant has the mean of each cyclic diagonal.
    """
    V = matrices.shape[-1]
    means = cyclic_diagonals(matrices) / V
    total = np.einsum("...ij,...ij->...", matrices, matrices)
    return V * (means**2).sum(-1) / total


def cyclic_diagonals(matrices: np.ndarray) -> np.ndarray:
    """Sums s(m) of M[i, i + m mod V] over i, for a stack (..., V, V): shape (..., V)."""
    places = np.arange(matrices.shape[-1])
    return matrices[..., places[:, None], (places + places[:, None]) % len(places)].sum(axis=-2)
