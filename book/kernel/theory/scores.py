"""How circulant kernels are, and how circulant noise alone makes them."""

from __future__ import annotations

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike


def circulant_scores(kernels: np.ndarray, *, direction: int = 1) -> np.ndarray:
    """Median cosine between row i and the first row rolled by i places, of each of a stack (..., V, V).

    To the right with direction 1, as :func:`embviz.metrics.circulant_score`; to the left with -1. A row of
    zeros has the cosine 0.
    """
    places = np.arange(kernels.shape[-1])
    rolled = kernels[..., 0, :][..., (places - direction * places[:, None]) % len(places)]
    inner = np.einsum("...ij,...ij->...i", kernels, rolled)
    lengths = np.linalg.norm(kernels, axis=-1) * np.linalg.norm(rolled, axis=-1)
    return np.median(np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0), axis=-1)


def noise_gain(D: np.ndarray) -> float:
    """How much louder noise in W leaves the division by fft2(D) than the identity does.

    The sum of 1 / |fft2(D)|^2 over all frequencies, those with a = b twice as noise is symmetric, over that
    of a + b = 0, where the identity lives. It is V + 1 where all frequencies of D are alike, less where the
    smallest happen to lie on that line, and more where they don't: the order of the vocabulary decides.
    """
    let_through = 1 / np.abs(scipy.fft.fft2(D)) ** 2
    places = np.arange(len(D))
    line = let_through[places, -places].sum()
    return float((let_through.sum() + let_through.diagonal().sum()) / line)


def expected_score(D: np.ndarray, spread: ArrayLike) -> np.ndarray:
    """The circulant score to expect of W = I + noise, whatever was or was not learned; of `spread`'s shape.

    Rows of such a kernel are one row, the identity's, and noise; two of them have in common what the first
    gives to their squared length, 1 / (1 + spread^2 gain). The cosine of one of them with the identity's row
    is the root of that. An approximation: lengths are taken by their means. `spread` is the standard
    deviation of the entries of W off the diagonal, in units of the mean diagonal entry: 1 / sqrt(d) of random
    embeddings in d dimensions.
    """
    return 1 / (1 + np.square(spread) * noise_gain(D))
