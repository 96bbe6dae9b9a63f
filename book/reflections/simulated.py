"""Spectra of simulated PMI matrices, for explorers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from book.reflections.experiments import theory
from embviz.view.charts import mirrored_bins


def simulated_pmi_spectrum(
    dimension: int, positive: float, *, n_words: int = 300, n_bins: int = 60, seed: int = 0
) -> pd.DataFrame:
    """Histogram of the eigenvalues of a simulated PMI matrix, beside its mirror image.

    Parameters
    ----------
    dimension : int
        d, the length of a word vector.
    positive : float between 0 and 1
        Share of the diagonal of Q that is +1; the paper's l is ``round(positive * dimension)``.
    n_words : int, default 300
        Rows of W; beyond `dimension`, the matrix has ``n_words - dimension`` eigenvalues at 0, left out.
    seed : int
        Of the word vectors, drawn from N(0, 1/d).

    Returns
    -------
    DataFrame as from :func:`embviz.view.charts.mirrored_bins`

    Raises
    ------
    ValueError
        If `positive` is outside 0 to 1 or `dimension` below 1.

    Source
    ------
    Reflections paper, section 2.3: PMI simulated as W diag(q) W'.
    """
    if dimension < 1 or not 0 <= positive <= 1:
        raise ValueError(
            f"d = {dimension}, share {positive}: d must be at least 1 and the share between 0 and 1"
        )
    matrix = theory.simulated_pmi(n_words, dimension, round(positive * dimension), seed=seed)
    return mirrored_bins(nonzero_eigenvalues(matrix, dimension), n_bins=n_bins)


def nonzero_eigenvalues(matrix: ArrayLike, rank: int) -> NDArray[np.float64]:
    """The `rank` eigenvalues largest in magnitude of a symmetric matrix of that rank, shape (n, n).

    >>> nonzero_eigenvalues([[0.0, 2.0], [2.0, 0.0]], 5).tolist()
    [-2.0, 2.0]
    """
    eigenvalues = np.linalg.eigvalsh(np.asarray(matrix, dtype=np.float64))  # (n,), ascending
    order = np.argsort(np.abs(eigenvalues), kind="stable")
    return eigenvalues[np.sort(order[max(len(eigenvalues) - rank, 0) :])]
