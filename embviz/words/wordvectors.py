"""Word vectors: a vocabulary with a word and a context vector each, on disk and by factorization.

Training them is in :mod:`embviz.words.skipgram`, testing them in :mod:`embviz.words.wordtests`.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from embviz.arrays import Kind, check_array, check_matrix
from embviz.corpora.registry import resolve_path
from embviz.metrics import nearest_neighbors
from embviz.storage import whole_file
from embviz.words import formats

VectorChoice = Literal["word", "context", "sum"]
SEPARATORS = " \t\n\r\v\f"  # what readers of the word2vec formats cut words at


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of a vocabulary."""

    vocabulary: list[str]
    word: np.ndarray  # (V, D) float32
    context: np.ndarray | None = None  # (V, D); None where only word vectors are known
    signature: np.ndarray | None = None  # (D,) of +1 and -1: the q of contexts tied as ``q * word``
    transform: np.ndarray | None = None  # (D, D) the learned Q of contexts ``Q word``
    bias: np.ndarray | None = None  # (V,) added to a context's inner products

    def __post_init__(self) -> None:
        for name in ("word", "context", "signature", "transform", "bias"):
            given = getattr(self, name)
            n_axes = 1 if name in ("signature", "bias") else 2
            kind: Kind = "number" if name == "signature" else "floating"
            if given is not None or name == "word":
                object.__setattr__(self, name, check_array(given, name, n_axes, kind=kind))
        V, D = len(self.vocabulary), self.word.shape[-1]
        expected = {"word": (V, D), "context": (V, D), "signature": (D,), "transform": (D, D), "bias": (V,)}
        for name, shape in expected.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; {V} words in {D} dimensions need {shape}")
        if len(self.index) != V:
            twice = next(word for i, word in enumerate(self.vocabulary) if self.index[word] != i)
            raise ValueError(f"the word {twice!r} is in the vocabulary twice; vectors need distinct words")

    @functools.cached_property
    def index(self) -> dict[str, int]:
        """Row of each word."""
        return {word: row for row, word in enumerate(self.vocabulary)}

    @property
    def n_parameters(self) -> int:
        """Trained numbers: tied contexts cost nothing, a learned Q costs D x D."""
        tied = self.signature is not None or self.transform is not None
        trained = [self.word, None if tied else self.context, self.transform, self.bias]
        return sum(part.size for part in trained if part is not None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one safetensors file (read it with :meth:`load`)."""
        tensors = {"vocabulary": np.frombuffer(json.dumps(self.vocabulary).encode(), dtype=np.uint8)}
        for name in ("word", "context", "signature", "transform", "bias"):
            array = getattr(self, name)
            if array is not None:
                tensors[name] = np.ascontiguousarray(array)
        with whole_file(path) as temporary:
            save_file(tensors, temporary, metadata={"format": "embviz word vectors 1"})

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, limit: int | None = None) -> WordVectors:
        """Read word vectors from a file; its first bytes show the format.

        Parameters
        ----------
        path : path, or "glove_6b_100d"
            A file of :meth:`save`; word2vec's text or binary format, with the context vectors where
            ``<path>.context`` lies beside it; GloVe's text; fastText's ``.vec`` or ``.bin``; text may be
            packed. The name stands for what ``embviz data fetch`` fetched.
        limit
            As in :func:`~embviz.words.formats.read_vectors`.

        """
        path = resolve_path(path)
        if path.is_file() and (found := _load_own(path)) is not None:
            return found if limit is None else found.head(limit)
        words, word = formats.read_vectors(path, limit=limit)
        beside = formats.context_path(path)
        if not beside.is_file():
            return cls(words, word)
        context_words, context = formats.read_vectors(beside, limit=limit)
        if context_words != words:
            raise ValueError(f"{beside} has other words than {path}: move it away, or save both again")
        return cls(words, word, context)

    @classmethod
    def from_gensim(cls, model: Any) -> WordVectors:
        """Vectors of a gensim model or of its ``KeyedVectors``; context vectors where it has ``syn1neg``."""
        keyed = getattr(model, "wv", model)
        context = getattr(model, "syn1neg", None)
        words = np.array(keyed.vectors, dtype=np.float32)
        return cls(list(keyed.index_to_key), words, None if context is None else np.array(context))

    def head(self, n_words: int) -> WordVectors:
        """The first so many words."""
        context = None if self.context is None else self.context[:n_words]
        bias = None if self.bias is None else self.bias[:n_words]
        words, rows = self.vocabulary[:n_words], self.word[:n_words]
        return WordVectors(words, rows, context, self.signature, self.transform, bias)

    def most_similar(self, word: str | np.ndarray, n: int = 10) -> list[tuple[str, float]]:
        """Words of the largest cosine with a word or vector, the largest first; the word itself is left out.

        Parameters
        ----------
        word : str, or array of shape (D,)
        n : int
        """
        table = self.word
        asked = table[self._place(word)] if isinstance(word, str) else check_array(word, "word", 1)
        if len(asked) != table.shape[1] or not np.linalg.norm(asked) > 0:
            raise ValueError(f"word has {len(asked)} numbers: {table.shape[1]} are needed, not all of them 0")
        lengths, unit = np.linalg.norm(table, axis=1), asked / np.linalg.norm(asked)
        cosines = (table @ unit.astype(table.dtype) / np.where(lengths > 0, lengths, 1)).clip(-1, 1)
        if isinstance(word, str):
            cosines[self.index[word]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(n, len(table) - isinstance(word, str))]
        return [(self.vocabulary[place], float(cosines[place])) for place in best]

    def neighbors(self, n_neighbors: int = 10) -> pd.DataFrame:
        """Nearest neighbours of every word, by cosine.

        Parameters
        ----------
        n_neighbors : int

        Returns
        -------
        DataFrame, one row per pair
            Columns word, rank (from 1), neighbor, cosine.

        Examples
        --------
        >>> rows = np.array([[1, 0], [1, 0.1], [0, 1]])
        >>> WordVectors(["one", "two", "three"], rows).neighbors(1).neighbor.tolist()
        ['two', 'one', 'two']
        """
        if not (directed := self.word.any(axis=1)).all():
            empty = self.vocabulary[int(np.argmin(directed))]
            raise ValueError(f"the vector of {empty!r} is zero and has no direction: leave the word out")
        ids, distances = nearest_neighbors(self.word, n_neighbors, metric="cosine")
        words = np.array(self.vocabulary, dtype=object)
        return pd.DataFrame(
            {
                "word": np.repeat(words, n_neighbors),
                "rank": np.tile(np.arange(1, n_neighbors + 1), len(words)),
                "neighbor": words[ids.ravel()],
                "cosine": 1 - distances.ravel(),
            }
        )

    def _place(self, word: str) -> int:
        if word in self.index:
            return self.index[word]
        alike = [known for known in self.vocabulary if known.lower().startswith(word.lower()[:3])][:5]
        raise ValueError(
            f"{word!r} is not among the {len(self.vocabulary):,} words"
            + (f": there are {', '.join(map(repr, alike))}" if alike else "")
        )

    def save_word2vec(self, path: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Write the word vectors in word2vec's format, the context vectors beside them.

        Parameters
        ----------
        path : path
            The context vectors go to the same name with ``.context`` added.
        binary : bool
            word2vec's binary format, 4 bytes a number; else text, with 9 digits, which is exact.
        """
        _write_word2vec(Path(path), self.vocabulary, self.word, binary=binary)
        if self.context is not None:
            _write_word2vec(formats.context_path(path), self.vocabulary, self.context, binary=binary)

    def save_glove(self, path: str | os.PathLike[str]) -> None:
        """Write the word vectors as GloVe's text: word2vec's without the header."""
        _write_word2vec(Path(path), self.vocabulary, self.word, binary=False, header=False)

    def save_projector(self, folder: str | os.PathLike[str]) -> None:
        """Write ``vectors.tsv`` and ``metadata.tsv`` for TensorBoard's embedding projector."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        line = "\t".join(["%.9g"] * self.word.shape[1])
        with whole_file(folder / "vectors.tsv") as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(line % tuple(row.tolist()) + "\n" for row in self.word)
        with whole_file(folder / "metadata.tsv") as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(" ".join(word.split()) + "\n" for word in self.vocabulary)  # tabs become blanks

    def save_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write columns word, vector and, where there are any, context: for Embedding Atlas, say."""
        columns = {"word": pa.array(self.vocabulary)}
        for name, table in (("vector", self.word), ("context", self.context)):
            if table is not None:
                flat = pa.array(np.ascontiguousarray(table, dtype=np.float32).ravel())
                columns[name] = pa.FixedSizeListArray.from_arrays(flat, table.shape[1])
        with whole_file(path) as temporary:
            pq.write_table(pa.table(columns), temporary)


def _load_own(path: str | os.PathLike[str]) -> WordVectors | None:
    """A file of :meth:`WordVectors.save`, or None if it is none."""
    with open(path, "rb") as file:
        if not formats.is_safetensors(Path(path), file.read(9)):
            return None
    try:
        tensors = load_file(path)
        if not tensors.keys() >= {"vocabulary", "word"}:
            return None
        vocabulary = json.loads(tensors.pop("vocabulary").tobytes())
        return WordVectors(vocabulary, **tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a whole file of word vectors ({error}): save it again") from error


def token_names(tokenizer: Any, n_rows: int) -> list[str]:
    """One token per row, distinct: by a tokenizer of Hugging Face or of ``tokenizers``, or by a list."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        known = [tokenizer.convert_ids_to_tokens(i) for i in range(min(n_rows, len(tokenizer)))]
    elif hasattr(tokenizer, "id_to_token"):
        known = [tokenizer.id_to_token(i) for i in range(n_rows)]
    else:
        known = list(tokenizer)[:n_rows]
    found: dict[str, None] = {}
    for row in range(n_rows):
        token = known[row] if row < len(known) and known[row] is not None else f"[row {row}]"
        found[f"{token} [row {row}]" if token in found else str(token)] = None
    return list(found)


# --- files for others ---------------------------------------------------------------------------------


def _write_word2vec(
    path: Path, vocabulary: list[str], rows: np.ndarray, *, binary: bool, header: bool = True
) -> None:
    """word2vec's format, in text with nine digits, which tell any float32 apart; GloVe's has no header."""
    for word in vocabulary:
        if not word or any(character in SEPARATORS for character in word):
            raise ValueError(
                f"the word {word!r} is empty or has white space in it, at which readers of the word2vec "
                "format cut: rename it, or use save() (safetensors)"
            )
    rows = np.ascontiguousarray(rows, dtype="<f4")
    line = " ".join(["%.9g"] * rows.shape[1])
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        if header:
            file.write(f"{len(vocabulary)} {rows.shape[1]}\n".encode())
        for word, row in zip(vocabulary, rows, strict=True):
            numbers = row.tobytes() if binary else (line % tuple(row.tolist())).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


# --- vectors by factorization -----------------------------------------------------------------------


def factorize_pmi(
    pmi: np.ndarray | scipy.sparse.csr_array,
    embedding_dim: int,
    *,
    seed: int,
    vocabulary: list[str] | None = None,
) -> WordVectors:
    """Word and context vectors from the eigenvectors of a symmetric PMI matrix.

    With the eigenpairs largest in absolute value, ``W = U |L|^0.5`` and ``q = sign(L)``: ``W diag(q) W'`` is
    the closest matrix of rank D to `pmi` in Frobenius norm.

    Parameters
    ----------
    pmi : array or sparse array, (V, V)
        Symmetric, in nats.
    embedding_dim : int
        D, below V.
    seed : int
        Of the solver's start; it decides the eigenvectors' signs at most.
    vocabulary : list of str, optional
        "0", "1", ... if not given.

    Returns
    -------
    WordVectors
        With ``signature = sign(L)``, so ``(signature > 0).mean()`` is the share of +1; columns by falling
        absolute eigenvalue.

    Source
    ------
    The reflections paper, Remark 4.2; Levy & Goldberg (2014).
    """
    from embviz.words.spectra import truncated_eigen

    pmi = check_matrix(pmi, "pmi")
    values, vectors = truncated_eigen(pmi, embedding_dim, seed=seed)
    signature = np.where(values < 0, -1, 1).astype(np.int8)
    word = (vectors * np.sqrt(np.abs(values))).astype(np.float32)
    names = [str(i) for i in range(len(word))] if vocabulary is None else list(vocabulary)
    return WordVectors(names, word, word * signature.astype(np.float32), signature)


def chosen_rows(vectors: WordVectors, which: VectorChoice) -> np.ndarray:
    """The (V, D) table to test: word vectors, context vectors, or their sum."""
    if which == "word":
        return vectors.word
    if vectors.context is None:
        raise ValueError(f"{which!r} needs context vectors, and these have none: test the word vectors")
    return vectors.context if which == "context" else vectors.word + vectors.context
