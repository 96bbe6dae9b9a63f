"""Weights, tokens and texts of any model: what :mod:`embviz.files` reads, word vectors, texts as its ids."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embviz.corpora import make_corpus
from embviz.corpora.corpus import Corpus
from embviz.corpora.making import whole_text
from embviz.corpora.registry import resolve_path
from embviz.files.gguf import MAGIC, read_gguf
from embviz.files.weights import StoredArray, Weights, first_bytes, name_of, weights_of
from embviz.imports import require
from embviz.inspection import roles
from embviz.words.wordvectors import WordVectors, token_names

LENGTHS = "n_positions max_position_embeddings n_ctx max_seq_len block_size length"


def read_weights(source: Any) -> Weights:
    """The arrays of a model.

    Parameters
    ----------
    source : nn.Module, WordVectors, mapping of names to arrays, path, or name of a released model
        A module of any kind, compiled or not; a folder of Hugging Face (safetensors or pytorch_model.bin, in
        one file or in shards); a file: safetensors, GGUF, a state_dict, .npz, or .npy with one matrix, which
        is taken for the embedding. ``"gemma3_270m"`` and the other models of ``embviz data list`` are taken
        from what ``embviz data fetch`` fetched.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or no weights in the folder.

    Examples
    --------
    >>> weights = read_weights({"wte.weight": np.eye(3)})
    >>> weights.arrays["wte.weight"].read(np.array([1])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    if isinstance(source, WordVectors):
        tables = {"embedding.weight": source.word, "output.weight": source.context}
        weights = weights_of({name: table for name, table in tables.items() if table is not None})
        return replace(weights, name="word vectors")
    if isinstance(source, str | os.PathLike) and first_bytes(path := resolve_path(source), 1) == b"{":
        return replace(read_weights(WordVectors.load(path)), name=name_of(source, path.stem))
    return weights_of(source)


def read_tokenizer(source: str | os.PathLike[str], *, for_text: bool = False) -> Any:
    """The tokenizer beside a model's files (tokenizer.json, of Hugging Face), its tokens, or None.

    Parameters
    ----------
    source : path, or name of a released model
        The model's folder, or a file in it. Word vectors give the list of their tokens, which cuts no text.
    for_text : bool, default False
        Whether a GGUF file gives the tokenizer that Transformers makes of it, in seconds, instead of the list
        of its tokens.

    """
    path = resolve_path(source)
    first = first_bytes(path, 4)
    if first == MAGIC:
        return _gguf_tokenizer(path) if for_text else read_gguf(path).tokens
    if first.startswith(b"{"):
        return WordVectors.load(path).vocabulary
    folder = path if path.is_dir() else path.parent
    if not (file := folder / "tokenizer.json").is_file():
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no other kind
        raise ValueError(f"{file} is no tokenizer that can be read ({error})") from error


def _gguf_tokenizer(path: Path) -> Any:
    require("adapters", "transformers", purpose="a tokenizer of a GGUF file")
    from transformers import PreTrainedTokenizerFast

    try:
        return PreTrainedTokenizerFast.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True
        ).backend_tokenizer
    except Exception as error:  # of many kinds, where a field is missing or of a form that it does not know
        raise ValueError(f"Transformers makes no tokenizer of {path} ({error})") from error


def model_vectors(source: Any, tokenizer: Any = None) -> WordVectors:
    """A model's input embedding as word vectors, its output matrix as context vectors.

    Parameters
    ----------
    source : Any
        As of :func:`read_weights`.
    tokenizer : a tokenizer or a list of tokens, optional
        By default the one beside the model's files.

    Returns
    -------
    WordVectors
        Without context vectors where the model is tied, or has no output matrix of the embedding's shape.

    Examples
    --------
    >>> model_vectors({"wte.weight": np.eye(3)}, ["a", "b", "c"]).vocabulary
    ['a', 'b', 'c']
    """
    weights = read_weights(source)
    name = roles.find_embedding(weights)
    if name is None:
        raise ValueError(roles.no_embedding(weights))
    if tokenizer is None and isinstance(source, str | os.PathLike):
        tokenizer = read_tokenizer(source)
    if tokenizer is None:
        raise ValueError(f"{weights.name} has no tokenizer.json: the rows of its embedding have no names")
    array, output = weights.arrays[name], weights.arrays.get(str(roles.find_output(weights, name)))
    untied = output is not None and output.shape == array.shape and not same_rows(array, output)
    return WordVectors(
        token_names(tokenizer, array.shape[0]), array.read(), output.read() if output and untied else None
    )


def same_rows(first: StoredArray, second: StoredArray) -> bool:
    """Whether two tables are one, by their first rows."""
    if first.shape != second.shape:
        return False
    rows = np.arange(min(first.shape[0], 500))
    return first is second or np.array_equal(first.read(rows), second.read(rows))


# --- texts --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ModelText:
    """A text in a model's tokens."""

    corpus: Corpus
    rows: np.ndarray  # (words + 1,): the embedding's row of each word, -1 where there is none, and of a hole
    vocab_size: int  # V of the embedding

    @property
    def counts(self) -> np.ndarray:
        """How often the token of each row comes, (V,)."""
        known = self.rows[:-1] >= 0
        found = np.bincount(self.rows[:-1][known], self.corpus.counts[known], minlength=self.vocab_size)
        return found.astype(np.int64)


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
    V = weights.arrays[name].shape[0]
    row_of = {token: row for row, token in enumerate(token_names(tokenizer, V))}
    return ModelText(corpus, np.array([row_of.get(word, -1) for word in [*corpus.vocabulary, None]]), V)


def text_strings(
    text: Any, tokenizer: Any, weights: Weights, n_strings: int = 8, n_tokens: int = 256
) -> list[Tensor]:
    """Strings of a text as a model's ids, (1, T + 1) each, the tokenizer's first token before each.

    They are evenly spread. A text with too few tokens, or with tokens that the model lacks, is refused.
    """
    found = model_text(weights, roles.find_embedding(weights), tokenizer, text)
    if isinstance(found, str):
        raise ValueError(found)
    return cut_strings(found, weights, n_strings, n_tokens, first_token(tokenizer))


def given_strings(
    strings: Tensor | None, text: Any, tokenizer: Any, weights: Weights, n_strings: int, n_tokens: int = 256
) -> Tensor:
    """Strings as they are given, (B, T + 1), or cut from a text."""
    if strings is not None:
        return strings
    if text is None or tokenizer is None:
        raise ValueError("there is no text: give text and tokenizer, or strings")
    return torch.cat(text_strings(text, tokenizer, weights, n_strings, n_tokens))


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
