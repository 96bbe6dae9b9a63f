"""Embeddings without training: a text's counts, one row of a kernel, a square root."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from embviz.kernels.extraction import reconstruct_from_row
from embviz.kernels.rows import EPS, Form, k0_eigen, k0_fft
from embviz.kernels.spectrum import Negative, decompose, log_counts, require_for
from embviz.words.cooccurrence import count_pairs


@dataclass(frozen=True, eq=False)
class TrainingFree:
    """Embeddings made from one row of the kernel."""

    E: np.ndarray  # (V, D)
    k0: np.ndarray  # (V,)
    D: np.ndarray  # (V, V), log(1 + counts)
    kept_share: float  # of the sum of |eigenvalues| of W, that E E' keeps
    negative_share: float  # of it, in negative eigenvalues that are cut off
    gap: float  # 1 - next / last kept eigenvalue; 0: the cut parts a pair, and E E' is arbitrary


def training_free_embeddings(
    ids: np.ndarray,
    vocab_size: int,
    embedding_dim: int,
    *,
    window: int = 5,
    eps: float = EPS,
    form: Form = "eigen",
    document_starts: np.ndarray | None = None,
    negative: Negative = "clamp",
    safe: float | None = None,
    max_memory: int | None = None,
) -> TrainingFree:
    """From a text to embeddings: D, a row of the kernel, its circulant convolved with D, a square root.

    W is a circulant, so that these are cosines and sines of the word's id, whatever k0 is: all words are
    equally long, and how alike two are depends on the distance of their ids alone.

    Parameters
    ----------
    ids : integer array, shape (N,)
        The text; V and above is a hole.
    vocab_size, embedding_dim : int
        V and D, at most V.
    window : int, in places to each side
    eps, form, negative, safe
        As for :func:`alpha_scan`; the paper's pipeline takes the eigen form, which divides by no transform.
    document_starts : integer array, optional
        By default windows reach over borders of documents, as in the paper.
    max_memory : int, optional, in bytes
        By default what is available.

    Raises
    ------
    ValueError
        If a word has no pair, eps is outside (0, 1], there are more dimensions than words, or the FFT form
        finds zeros of fft2(D) and no `safe`.
    MemoryError
        If V x V numbers would not fit, before anything is counted.

    Source
    ------
    The kernel paper, section 7.1 and Appendix B, third function.
    """
    if not 1 <= embedding_dim <= vocab_size:
        raise ValueError(f"embedding_dim is {embedding_dim}: {vocab_size} words span 1 to {vocab_size}")
    if form not in get_args(Form):
        raise ValueError(f'form is {form!r}: use "eigen" or "fft"')
    require_for(vocab_size, max_memory, "training-free embeddings")
    counts = count_pairs(
        ids, vocab_size, window=window, document_starts=document_starts, max_memory=max_memory
    )
    D = log_counts(counts, max_memory=max_memory)
    spectrum = decompose(D, max_memory=max_memory)
    if form == "eigen":
        k0 = k0_eigen(spectrum, eps, negative=negative)
    else:
        k0 = k0_fft(spectrum, eps, negative=negative, safe=safe)
    W = reconstruct_from_row(spectrum, k0)
    W = (W + W.T) / 2
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.maximum(values[:embedding_dim], 0)
    total = np.abs(values).sum()
    following = values[embedding_dim] if embedding_dim < vocab_size else 0.0
    return TrainingFree(
        E=vectors[:, :embedding_dim] * np.sqrt(kept),
        k0=k0,
        D=D,
        kept_share=float(kept.sum() / total),
        negative_share=float(-values[values < 0].sum() / total),
        gap=float(1 - max(following, 0.0) / kept[-1]) if kept[-1] > 0 else math.inf,
    )
