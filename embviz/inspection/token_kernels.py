"""The kernel between log co-occurrence and the Gram matrix of a model's frequent tokens, on a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from embviz.arrays import check_int
from embviz.files.weights import StoredArray
from embviz.inspection import roles
from embviz.inspection.weight_files import ModelText, model_text, read_tokenizer, read_weights, same_rows
from embviz.kernels import Extraction, extract_kernel, log_counts, tied_gram
from embviz.metrics import circulant_score
from embviz.words import count_pairs

WINDOW = 5
N_DRAWS = 5  # of the control


@dataclass(frozen=True, eq=False)
class TokenKernel:
    """What :func:`token_kernel` found."""

    tokens: list[str]  # (V,) the most frequent tokens of the text, the most frequent first
    rows: np.ndarray  # (V,) their rows of the embedding
    D: np.ndarray  # (V, V) log counts of their pairs, nats
    W: np.ndarray  # (V, V) Gram matrix of their rows
    extraction: Extraction  # the kernel K that gives W from D, and how well it was posed
    score: float  # circulant score of K
    controls: np.ndarray  # the score for embeddings whose rows are in random orders


def token_kernel(model: Any, text: Any, tokenizer: Any = None, *, n_words: int = 300) -> TokenKernel:
    """D, W and the kernel between them for a tied model's frequent tokens of a text.

    Parameters
    ----------
    model : module, mapping of names to arrays, path, or name of a released model
        As of :func:`~embviz.inspection.inspect`.
    text : text, path or Corpus, with at least four of the model's tokens
    tokenizer : a tokenizer, optional
        By default the one beside the model's files. Pairs are counted in a window of 5 tokens on each side.
    n_words : int
        Tokens, V.

    Returns
    -------
    TokenKernel

    Source
    ------
    The kernel paper, section 3.3.

    Examples
    --------
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(20)}, unk_token="w0"))
    >>> words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    >>> rows = np.random.default_rng(0).normal(size=(20, 4))
    >>> found = token_kernel({"wte.weight": rows}, "w1 w2 w3 w4 w5 w2 w1 w4", words)
    >>> found.tokens[:2], found.W.shape
    (['w1', 'w2'], (5, 5))
    """
    weights = read_weights(model)
    name = roles.find_embedding(weights)
    output = roles.find_output(weights, name)
    if output is not None and not same_rows(weights.arrays[str(name)], weights.arrays[output]):
        raise ValueError("input and output embedding differ, and the kernel is defined for tied ones")
    if tokenizer is None and (tokenizer := read_tokenizer(model, for_text=True)) is None:
        raise ValueError("there is no tokenizer beside the model: give one")
    found = model_text(weights, name, tokenizer, text)
    if isinstance(found, str):
        raise ValueError(found)
    return kernel_of(found, weights.arrays[str(name)], n_words=n_words)


def kernel_of(text: ModelText, array: StoredArray, *, n_words: int = 300, seed: int = 0) -> TokenKernel:
    """As :func:`token_kernel`, of a text in the model's tokens."""
    corpus = text.corpus
    known = np.flatnonzero(text.rows >= 0)[: check_int(n_words, "n_words", low=4)]
    if len(known) < 4:
        raise ValueError(f"{len(known)} words of the corpus are tokens of the model: cut it by its tokenizer")
    new_id = np.full(len(text.rows), len(known))
    new_id[known] = np.arange(len(known))
    rows = text.rows[known]
    order = np.argsort(rows)
    vectors = np.empty((len(rows), array.shape[1]))
    vectors[order] = array.read(rows[order])
    counts = count_pairs(
        new_id[corpus.ids], len(known), window=WINDOW, document_starts=corpus.document_starts
    )
    D, rng = log_counts(counts), np.random.default_rng(seed)

    def extracted(rows: np.ndarray) -> tuple[np.ndarray, Extraction]:
        return (gram := tied_gram(rows, rows)), extract_kernel(gram, D, zeros="drop")

    W, own = extracted(vectors)
    controls = [circulant_score(extracted(rng.permutation(vectors))[1].kernel) for _ in range(N_DRAWS)]
    tokens = [corpus.vocabulary[word] for word in known]
    return TokenKernel(tokens, rows, D, W, own, circulant_score(own.kernel), np.array(controls))
