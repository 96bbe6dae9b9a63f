"""Texts in a model's tokens: strings for its loss, its first token before each."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embviz.corpora import make_corpus
from embviz.corpora.corpus import Corpus
from embviz.corpora.making import whole_text
from embviz.files.weights import Weights
from embviz.inspection import roles
from embviz.words.wordvectors import token_names

LENGTHS = "n_positions max_position_embeddings n_ctx max_seq_len block_size length"


@dataclass(frozen=True, eq=False)
class ModelText:
    """A text in a model's tokens."""

    corpus: Corpus
    rows: np.ndarray  # (V + 1,): the embedding's row of each word, -1 where there is none, and of a hole

    @property
    def counts(self) -> np.ndarray:
        """How often each row's token comes, up to the last row that does."""
        known = self.rows[:-1] >= 0
        return np.bincount(self.rows[:-1][known], self.corpus.counts[known])


def model_text(weights: Weights, name: str | None, tokenizer: Any, corpus: Any) -> ModelText | str:
    """A text in the tokens of the embedding of this name; or why there is none."""
    if isinstance(corpus, os.PathLike) and not os.path.exists(corpus):  # also where nothing would read it
        raise FileNotFoundError(errno.ENOENT, "no such text", os.fspath(corpus))
    if corpus is None or tokenizer is None or name is None:
        none = "corpus" if corpus is None else "tokenizer"
        return roles.no_embedding(weights) if name is None else f"no {none} was given"

    if not isinstance(corpus, Corpus):
        if isinstance(tokenizer, list | tuple):
            return "a list of tokens cuts no text: give a Corpus"
        corpus = make_corpus(corpus, tokenizer=tokenizer)
    names = token_names(tokenizer, weights.arrays[name].shape[0])
    row_of = {token: row for row, token in enumerate(names)}
    return ModelText(corpus, np.array([row_of.get(word, -1) for word in [*corpus.vocabulary, None]]))


def text_strings(
    text: Any, tokenizer: Any, weights: Weights, n_strings: int = 8, n_tokens: int = 256
) -> list[Tensor]:
    """Strings of a text as a model's ids, (1, T + 1) each, the tokenizer's first token before each.

    They are evenly spread.

    Parameters
    ----------
    text : text, path or Corpus
    tokenizer : as of :func:`~embviz.inspection.inspect`
    weights : Weights
    n_strings, n_tokens : int

    Raises
    ------
    ValueError
        If the text has too few tokens, or tokens that the model does not have.
    """
    found = model_text(weights, roles.find_embedding(weights), tokenizer, text)
    if isinstance(found, str):
        raise ValueError(found)
    return cut_strings(found, weights, n_strings, n_tokens, first_token(tokenizer))


def first_token(tokenizer: Any) -> int | None:
    """The token that a tokenizer of Hugging Face puts before every text, such as ``<bos>``, if it does."""
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)  # of transformers
    if not hasattr(tokenizer, "id_to_token"):
        return None
    uncut = whole_text(tokenizer)
    plain = uncut.encode("a", add_special_tokens=False).ids
    marked = uncut.encode("a", add_special_tokens=True).ids
    return int(marked[0]) if len(marked) > len(plain) and marked[1 : len(plain) + 1] == plain else None


def tokens_per_byte(tokenizer: Any, strings: list[Tensor]) -> float | None:
    """Tokens that are predicted for each byte of text; None where the tokenizer gives no text back.

    Of each string, (1, T + 1), the first token is not predicted.
    """
    if not hasattr(tokenizer, "decode"):
        return None
    n_bytes = sum(len(tokenizer.decode(string[0, 1:].tolist()).encode()) for string in strings)
    return sum(string.shape[1] - 1 for string in strings) / n_bytes if n_bytes else None


def cut_strings(
    text: ModelText,
    weights: Weights,
    n_batches: int,
    n_tokens: int,
    start: int | None = None,
) -> list[Tensor]:
    """Strings of a text as the model's ids, (1, T + 1) each, evenly spread; T at most the model's length.

    The token `start`, where there is one, stands before each.
    """
    corpus, positions = text.corpus, roles.find_positions(weights)
    table = weights.arrays[positions].shape[0] if positions else n_tokens
    n_tokens = min(n_tokens, roles.option(weights.config, LENGTHS) or table, corpus.n_tokens - 1)
    if n_tokens < 2:
        raise ValueError(f"the text has {corpus.n_tokens} tokens: at least three are needed")
    first = np.unique(np.linspace(0, corpus.n_tokens - n_tokens - 1, n_batches).round().astype(int))
    strings = [text.rows[corpus.ids[place : place + n_tokens + 1].astype(int)] for place in first]
    if start is not None:
        strings = [np.concatenate([[start], string[:-1]]) for string in strings]
    known = [torch.from_numpy(string)[None] for string in strings if (string >= 0).all()]
    if not known:
        raise ValueError(
            "every string of the text has tokens that the model doesn't: cut it by its tokenizer"
        )
    return known
