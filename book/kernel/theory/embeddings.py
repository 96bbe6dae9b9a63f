"""Embeddings without training: a text's counts, one row of a kernel, a square root."""

from __future__ import annotations

import numpy as np

from book.kernel.theory.circulants import reconstruct_from_row
from book.kernel.theory.rows import Form, k0_eigen, k0_fft
from book.kernel.theory.spectrum import decompose
from embviz.kernels import log_counts
from embviz.words import count_pairs


def training_free_embeddings(
    ids: np.ndarray, vocab_size: int, embedding_dim: int, *, form: Form = "eigen"
) -> np.ndarray:
    """From a text to embeddings (V, D): log counts, a row of the kernel, its circulant with D, a square root.

    W is a circulant, so that these are cosines and sines of the word's id, whatever k0 is: all words are
    equally long, and how alike two are depends on the distance of their ids alone. Windows of 5 reach over
    borders of documents, as in the paper, section 7.1 and Appendix B, third function.
    """
    if not 1 <= embedding_dim <= vocab_size:
        raise ValueError(f"embedding_dim is {embedding_dim}: {vocab_size} words span 1 to {vocab_size}")
    spectrum = decompose(log_counts(count_pairs(ids, vocab_size, window=5)))
    k0 = k0_eigen(spectrum) if form == "eigen" else k0_fft(spectrum)
    W = reconstruct_from_row(spectrum, k0)
    values, vectors = np.linalg.eigh((W + W.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    return vectors[:, :embedding_dim] * np.sqrt(np.maximum(values[:embedding_dim], 0))
