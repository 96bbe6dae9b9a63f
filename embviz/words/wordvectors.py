"""Word vectors: a vocabulary with a word and a context vector each, on disk and by factorization.

Training them is in :mod:`embviz.words.skipgram`, testing them in :mod:`embviz.words.wordtests`.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import scipy.sparse
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from embviz.arrays import Kind, checked, checked_matrix
from embviz.storage import whole_file

SEPARATORS = " \t\n\r\v\f"  # what readers of the word2vec formats cut words at


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of a vocabulary.

    Parameters
    ----------
    vocabulary : list of str, length V
    word : array, (V, D), float32
    context : array, (V, D), float32, or None
        None where only word vectors are known, as in a file of another program.
    signature : array, (D,), of +1 and -1, or None
        The q of contexts tied as ``q * word``.
    transform : array, (D, D), or None
        The learned Q of contexts ``Q word``.
    bias : array, (V,), or None
        Added to a context's inner products.

    Raises
    ------
    ValueError
        If shapes do not fit each other, a number is NaN or infinite, or a word comes twice.
    """

    vocabulary: list[str]
    word: np.ndarray
    context: np.ndarray | None = None
    signature: np.ndarray | None = None
    transform: np.ndarray | None = None
    bias: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("word", "context", "signature", "transform", "bias"):
            given = getattr(self, name)
            n_axes = 1 if name in ("signature", "bias") else 2
            kind: Kind = "number" if name == "signature" else "floating"
            if given is not None or name == "word":
                object.__setattr__(self, name, checked(given, name, n_axes, kind=kind))
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
    def load(cls, path: str | os.PathLike[str]) -> WordVectors:
        """Read a file of :meth:`save`.

        Raises
        ------
        ValueError
            If the file is cut short, or is not one of ours.
        """
        try:
            tensors = load_file(path)
            vocabulary = json.loads(tensors.pop("vocabulary").tobytes())
            return cls(vocabulary, **tensors)
        except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a whole file of word vectors ({error}): save it again"
            ) from error

    def save_word2vec(self, path: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Write the word vectors in word2vec's format, the context vectors beside them.

        Parameters
        ----------
        path : path
            The context vectors go to the same name with ``.context`` added.
        binary : bool
            word2vec's binary format, 4 bytes a number; else text, with 9 digits, which is exact.

        Raises
        ------
        ValueError
            If a word is empty or has white space in it, which the format cannot hold.
        """
        for word in self.vocabulary:
            if not word or any(character in SEPARATORS for character in word):
                raise ValueError(
                    f"the word {word!r} is empty or has white space in it, at which readers of the word2vec "
                    "format cut: rename it, or use save() (safetensors)"
                )
        _write_word2vec(Path(path), self.vocabulary, self.word, binary)
        if self.context is not None:
            _write_word2vec(context_path(path), self.vocabulary, self.context, binary)

    @classmethod
    def load_word2vec(cls, path: str | os.PathLike[str]) -> WordVectors:
        """Read word2vec's text or binary format, and the context vectors if ``<path>.context`` is there.

        Which of the two formats it is shows in the first record. The signature is not part of the format.

        Raises
        ------
        ValueError
            If the file is cut short or malformed; the message names the file and the record.
        """
        vocabulary, word = _read_word2vec(Path(path))
        if not context_path(path).is_file():
            return cls(vocabulary, word)
        context_vocabulary, context = _read_word2vec(context_path(path))
        if context_vocabulary != vocabulary:
            raise ValueError(
                f"{context_path(path)} has other words than {path}: move it away, or save both again"
            )
        return cls(vocabulary, word, context)


# --- word2vec's formats -----------------------------------------------------------------------------


def context_path(path: str | os.PathLike[str]) -> Path:
    """Where the context vectors of a word2vec file lie: its name with ``.context`` added."""
    return Path(f"{os.fspath(path)}.context")


def _write_word2vec(path: Path, vocabulary: list[str], rows: np.ndarray, binary: bool) -> None:
    rows = np.ascontiguousarray(rows, dtype="<f4")
    line = " ".join(["%.9g"] * rows.shape[1])  # nine digits tell any two float32 apart
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        file.write(f"{len(vocabulary)} {rows.shape[1]}\n".encode())
        for word, row in zip(vocabulary, rows, strict=True):
            numbers = row.tobytes() if binary else (line % tuple(row.tolist())).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def _read_word2vec(path: Path) -> tuple[list[str], np.ndarray]:
    with open(path, "rb") as file:
        header = file.readline(100).split()
        if len(header) != 2 or not all(part.isdigit() for part in header):
            raise ValueError(f'{path} does not start with "V D": it is no word2vec file, or lacks its header')
        V, D = int(header[0]), int(header[1])
        start = file.tell()
        # a record takes two bytes a number at least: a wild header is refused before it is allocated
        if path.stat().st_size < V * (2 * D + 1):
            raise ValueError(f"{path} is too short for its {V} words in {D} dimensions: get it again")
        is_text = len(_numbers(file.readline(), D)) == D
        file.seek(start)
        return (_read_text if is_text else _read_binary)(file, V, D, path)


def _numbers(line: bytes, D: int) -> list[float]:
    """The D numbers of a record in text; an empty list if it is none."""
    parts = line.split(b" ", 1)[-1].split()
    try:
        return [float(part) for part in parts] if len(parts) == D else []
    except ValueError:
        return []


def _read_text(file: BinaryIO, V: int, D: int, path: Path) -> tuple[list[str], np.ndarray]:
    vocabulary, rows = [], np.empty((V, D), dtype=np.float32)
    for i in range(V):
        line = file.readline()
        numbers = _numbers(line, D)
        if len(numbers) != D or not line.endswith(b"\n"):
            raise ValueError(
                f"{path}: record {i + 1} of {V} is not a word and {D} numbers: get the file again"
            )
        vocabulary.append(line.split(b" ", 1)[0].decode())
        rows[i] = numbers
    return vocabulary, rows


def _read_binary(file: BinaryIO, V: int, D: int, path: Path) -> tuple[list[str], np.ndarray]:
    content, place = file.read(), 0
    vocabulary, rows = [], np.empty((V, D), dtype=np.float32)
    for i in range(V):
        end = content.find(b" ", place)
        if end < 0 or end + 1 + 4 * D > len(content):
            raise ValueError(f"{path}: record {i + 1} of {V} is cut short: get the file again")
        # word2vec ends a record with a newline, gensim does not
        vocabulary.append(content[place:end].lstrip(b"\n").decode())
        rows[i] = np.frombuffer(content, dtype="<f4", count=D, offset=end + 1)
        place = end + 1 + 4 * D
    return vocabulary, rows


# --- vectors by factorization -----------------------------------------------------------------------


def factorize_pmi(
    pmi: np.ndarray | scipy.sparse.csr_array,
    embedding_dim: int,
    *,
    seed: int,
    vocabulary: list[str] | None = None,
    eigenvalue_power: float = 0.5,
) -> WordVectors:
    """Word and context vectors from the eigenvectors of a symmetric PMI matrix.

    With the eigenpairs largest in absolute value, ``W = U |L|^power`` and ``q = sign(L)``; at the power 0.5
    ``W diag(q) W'`` is the closest matrix of rank D to `pmi` in Frobenius norm.

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
    eigenvalue_power : float
        0.5 is Remark 4.2's; Levy et al. (2015) find 0 and 0.5 better than 1 on word tests.

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

    pmi = checked_matrix(pmi, "pmi")
    values, vectors = truncated_eigen(pmi, embedding_dim, seed=seed)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    signature = np.where(values < 0, -1, 1).astype(np.int8)
    word = (vectors * np.abs(values) ** eigenvalue_power).astype(np.float32)
    names = [str(i) for i in range(len(word))] if vocabulary is None else list(vocabulary)
    return WordVectors(names, word, word * signature.astype(np.float32), signature)


Choice = Literal["word", "context", "sum"]


def chosen_rows(vectors: WordVectors, which: Choice) -> np.ndarray:
    """The (V, D) table to test: word vectors, context vectors, or their sum.

    Raises
    ------
    ValueError
        If contexts are asked for and there are none.
    """
    if which == "word":
        return vectors.word
    if vectors.context is None:
        raise ValueError(f"{which!r} needs context vectors, and these have none: test the word vectors")
    return vectors.context if which == "context" else vectors.word + vectors.context
