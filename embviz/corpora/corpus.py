"""Corpora as arrays of token ids: words in text8's normal form, with their vocabulary and documents.

Data sets are named in ``data/registry.toml`` (see :mod:`embviz.corpora.registry`). The corpus ``"embedded"``
needs no file: it is the docstrings of the libraries that every installation of embviz has.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import safetensors
import safetensors.numpy

from embviz import storage
from embviz.arrays import check_array, check_ids, check_starts, in_blocks
from embviz.corpora import docstrings, registry
from embviz.corpora.texts import normalize_words, wikifil
from embviz.memory import require_memory

DOCUMENT_SEPARATOR = "<|endoftext|>"
TOKENS_FORMAT = 1  # raise when normalization, numbering or the cache's layout changes
BYTES_PER_CHARACTER = 6  # peak memory of numbering: measured 4 to 6 times the text, imports not counted
UNKNOWN_WORD = "UNK"


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as word ids, with its vocabulary.

    ``ids`` has shape (N,), the smallest unsigned integer type that fits; an id equal to
    ``len(vocabulary)`` is a hole: the place of a word that is not in the vocabulary.
    ``vocabulary`` and ``counts`` (V,) go by falling count, ties by first appearance (word pieces: by the
    published order). ``document_starts`` are positions in ``ids``, rising from 0. ``checksum`` is the SHA-256
    of the raw text (of the embedded corpus: its fingerprint).
    """

    name: str
    ids: np.ndarray
    vocabulary: list[str]
    counts: np.ndarray
    document_starts: np.ndarray
    checksum: str

    def __post_init__(self) -> None:
        n_words = len(self.vocabulary)
        ids = check_ids(self.ids, n_words)
        counts = check_array(self.counts, "counts", 1, kind="integer", low=0)
        if len(counts) != n_words:
            raise ValueError(f"counts has {len(counts)} entries for {n_words} words: give each word one")
        found = np.zeros(n_words + 1, dtype=np.int64)
        for block in in_blocks(ids, 1 << 20):  # numpy counts in a copy of eight bytes an id
            found += np.bincount(block.astype(np.int64), minlength=n_words + 1)
        if (wrong := np.flatnonzero(found[:n_words] != counts)).size:
            raise ValueError(
                f"counts of {len(wrong)} word(s) disagree with ids, the first "
                f"{self.vocabulary[wrong[0]]!r}: count again, np.bincount(ids, minlength=V + 1)[:V]"
            )
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "document_starts", check_starts(self.document_starts, len(ids)))

    def __repr__(self) -> str:
        return (
            f"Corpus({self.name!r}, {len(self.ids):,} tokens, {len(self.vocabulary):,} types, "
            f"{len(self.document_starts):,} documents)"
        )

    @property
    def n_tokens(self) -> int:
        """Number of places, holes included."""
        return len(self.ids)

    def words(self) -> Iterator[str | None]:
        """The words in reading order; None at a hole."""
        words = [*self.vocabulary, None]
        return (words[i] for i in self.ids)

    def head(self, n_tokens: int) -> Corpus:
        """The corpus cut after its first `n_tokens` places, its vocabulary counted again."""
        if n_tokens < 1:
            raise ValueError(f"n_tokens is {n_tokens}: a corpus needs at least one token")
        if n_tokens >= self.n_tokens:
            return self
        ids, vocabulary, counts = _renumber(self.ids[:n_tokens], self.vocabulary)
        starts = self.document_starts[self.document_starts < n_tokens]
        return replace(self, ids=ids, vocabulary=vocabulary, counts=counts, document_starts=starts)

    def restrict(
        self,
        *,
        min_count: int = 1,
        max_vocab: int | None = None,
        rare: Literal["hole", "drop", "unk"] = "hole",
    ) -> Corpus:
        """Keep the frequent words only.

        Parameters
        ----------
        min_count : int, default 1
            Words that occur less often are rare.
        max_vocab : int, optional
            So are words after the first `max_vocab` by count (ties: those that appear first are kept).
            The "UNK" of ``rare="unk"`` is not counted in it.
        rare : what becomes of the places of rare words
            "hole": they stay, empty, with id V, so that distances are those of the text (hyperwords);
            "drop": they are taken out, and their neighbours move together (gensim); holes go too;
            "unk": they all become one word "UNK" with id 0, kept in the text and the vocabulary (the
            word2vec tutorial that the reflections paper started from); holes become it too.

        Returns
        -------
        Corpus with the same checksum and the same documents (less those that "drop" leaves empty)
        """
        n_kept = self._n_frequent(min_count, max_vocab)
        # ids go by falling count, so that the words kept are a prefix of the vocabulary
        if rare == "hole":
            ids = np.minimum(self.ids, self.ids.dtype.type(n_kept)).astype(
                np.min_scalar_type(n_kept), copy=False
            )
            return replace(self, ids=ids, vocabulary=self.vocabulary[:n_kept], counts=self.counts[:n_kept])
        if rare == "drop":
            return self._without_rare(n_kept)
        if rare == "unk":
            return self._with_unknown(n_kept)
        raise ValueError(f'rare is {rare!r}: use "hole", "drop" or "unk"')

    def _n_frequent(self, min_count: int, max_vocab: int | None) -> int:
        if max_vocab is not None and max_vocab < 1:
            raise ValueError(f"max_vocab is {max_vocab}: keep at least one word")
        if UNKNOWN_WORD in self.vocabulary[:1]:
            raise ValueError('rare words are "UNK" already: restrict the corpus that this one came from')
        if (rises := np.flatnonzero(np.diff(self.counts) > 0)).size:
            raise ValueError(
                f"counts rise after word {rises[0]}: the frequent words are not a prefix of the vocabulary; "
                "number the words by falling count, as head() does"
            )
        n_kept = int(np.searchsorted(-self.counts, -min_count, side="right"))
        n_kept = n_kept if max_vocab is None else min(n_kept, max_vocab)
        if n_kept == 0:
            raise ValueError(
                f"no word of {self.name!r} occurs {min_count:,} times or more; the most frequent, "
                f"{self.vocabulary[0]!r}, occurs {self.counts[0]:,} times: lower min_count"
            )
        return n_kept

    def _without_rare(self, n_kept: int) -> Corpus:
        kept = self.ids < n_kept
        before = np.concatenate([[0], np.cumsum(kept)])  # (N + 1,) tokens kept before each place
        starts = before[self.document_starts]
        ends = np.append(starts[1:], before[-1])
        ids = self.ids[kept].astype(np.min_scalar_type(n_kept), copy=False)
        return replace(
            self,
            ids=ids,
            vocabulary=self.vocabulary[:n_kept],
            counts=self.counts[:n_kept],
            document_starts=starts[starts < ends],
        )

    def _with_unknown(self, n_kept: int) -> Corpus:
        new = np.zeros(
            len(self.vocabulary) + 1, dtype=np.min_scalar_type(n_kept + 1)
        )  # rare words and holes: 0
        new[:n_kept] = np.arange(1, n_kept + 1)
        n_unknown = self.n_tokens - int(self.counts[:n_kept].sum())
        return replace(
            self,
            ids=new[self.ids],
            vocabulary=[UNKNOWN_WORD, *self.vocabulary[:n_kept]],
            counts=np.concatenate([[n_unknown], self.counts[:n_kept]]),
        )


def _renumber(ids: np.ndarray, vocabulary: list[str]) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Number words again by falling count, ties by first appearance; holes stay holes.

    ids (N,) index `vocabulary`, len(vocabulary) is a hole -> ids (N,), vocabulary (V,), counts (V,).
    """
    n_old = len(vocabulary)
    counts = np.bincount(ids, minlength=n_old + 1)[:n_old]
    first = np.full(n_old + 1, len(ids))
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # of repeated indices the last assignment stays
    order = np.lexsort((first[:n_old], -counts))
    order = order[: np.count_nonzero(counts)]
    new = np.full(n_old + 1, len(order), dtype=np.min_scalar_type(len(order)))
    new[order] = np.arange(len(order))
    return new[ids], [vocabulary[i] for i in order], counts[order]


def text8_corpus(text: str | bytes, *, name: str) -> Corpus:
    """A text (of bytes: UTF-8) as words in text8's normal form, as all corpora of the registry are read.

    Documents are separated by ``<|endoftext|>``; without it the text is one document.
    """
    content = text.encode() if isinstance(text, str) else text
    documents = content.split(DOCUMENT_SEPARATOR.encode())
    return _corpus_of_documents(
        (normalize_words(document) for document in documents),
        name=name,
        checksum=hashlib.sha256(content).hexdigest(),
    )


def _corpus_of_documents(documents: Iterable[bytes], *, name: str, checksum: str) -> Corpus:
    """Documents in normal form, numbered; those without a word are left out."""
    filled = [document for document in documents if document]
    if not filled:
        raise ValueError(f"the text {name!r} is empty: it has no word (a run of letters a-z, or a digit)")
    lengths = [document.count(b" ") + 1 for document in filled]
    starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)]).astype(np.int64)
    indices, words = _encode_words(b" ".join(filled))
    ids, vocabulary, counts = _renumber(indices, words)
    return Corpus(name, ids, vocabulary, counts, starts, checksum)


def _encode_words(normal: bytes) -> tuple[np.ndarray, list[str]]:
    """Words of a text in normal form -> ids (N,) by first appearance, and the words."""
    letters = np.frombuffer(normal, dtype=np.uint8)
    spaces = np.flatnonzero(letters == 32)
    offset_type, string_type = (
        (np.int32, pa.binary()) if len(normal) < 2**31 - 1 else (np.int64, pa.large_binary())
    )
    # a word is taken with the space after it: then the text itself is arrow's buffer, without a copy
    offsets = np.empty(len(spaces) + 2, dtype=offset_type)
    offsets[0] = 0
    offsets[1:-1] = spaces + 1
    offsets[-1] = len(normal) + 1
    del spaces
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(normal + b" ")]
    encoded = pa.Array.from_buffers(string_type, len(offsets) - 1, buffers).dictionary_encode()
    words = [word.as_py()[:-1].decode("ascii") for word in encoded.dictionary]
    return encoded.indices.to_numpy(zero_copy_only=True), words


def load_corpus(name: str, *, n_tokens: int | None = None) -> Corpus:
    """A named corpus as words in text8's normal form.

    The first time, the text is verified, normalized and numbered; the result is kept in the cache
    folder and read from there afterwards.

    Parameters
    ----------
    name : "embedded", or a corpus of the registry (``embviz data list``)
        Of one in parts the first, which is for training.
    n_tokens : int, optional
        Keep the first `n_tokens` tokens only; the vocabulary is counted on them.

    Raises
    ------
    registry.DataMissingError
        If the file is not at hand: nothing is downloaded here, the message says how to.
    registry.ChecksumError
        If the file is not the one that the registry describes.
    MemoryError
        If the text is too large for this machine, with the estimate.
    registry.RegistryError
        If there is no such corpus, or it is published as tokens, not as text.
    """
    corpus = _load_embedded() if name == registry.EMBEDDED else _load_registered(name)
    return corpus if n_tokens is None else corpus.head(n_tokens)


def _load_embedded() -> Corpus:
    checksum = docstrings.fingerprint()
    path = tokens_path(checksum)
    corpus = read_tokens(path, registry.EMBEDDED)
    if corpus is None:
        text = docstrings.load_docstrings(separator=DOCUMENT_SEPARATOR)
        corpus = replace(text8_corpus(text, name=registry.EMBEDDED), checksum=checksum)
        write_tokens(path, corpus)
    return corpus


def _load_registered(name: str) -> Corpus:
    entry = _corpus_entry(name)
    if entry.format == "tokens":
        raise registry.RegistryError(
            f"corpus {name!r} is published as tokens, not as text: registry.read_bytes gives its parts"
        )
    file = entry.files[0]
    registry.find_form(name, file)  # verified before the cached tokens are used, too
    path = tokens_path(file.identity.partition(":")[2])
    corpus = read_tokens(path, name)
    if corpus is None:
        if file.text_size is not None:
            require_memory(
                BYTES_PER_CHARACTER * file.text_size,
                what=f"numbering the words of {name!r}",
                instead="use a smaller corpus (embviz data list), such as 'embedded'",
            )
        content = registry.read_bytes(name, part=file.part)
        if entry.format == "text":
            corpus = text8_corpus(content, name=name)
        else:
            documents = wikifil(content) if entry.format == "wikipedia xml" else [content.strip()]
            checksum = hashlib.sha256(content).hexdigest()
            corpus = _corpus_of_documents(documents, name=name, checksum=checksum)
        write_tokens(path, corpus)
    return corpus


def _corpus_entry(name: str) -> registry.DataSet:
    entry = registry.data_set(name)
    if entry.kind != "corpus":
        raise registry.RegistryError(f"data set {name!r} is a {entry.kind}, not a corpus")
    return entry


def load_text(name: str, *, part: str | None = None) -> str:
    """The text of a corpus as it is, cased and with ``<|endoftext|>`` between documents, from disk.

    `part` is "train", "valid" or "test" where a corpus has them; default the first. Raises as
    :func:`load_corpus`.
    """
    if name == registry.EMBEDDED:
        return docstrings.load_docstrings(separator=DOCUMENT_SEPARATOR)
    entry = _corpus_entry(name)
    return registry.read_bytes(name, part=part or entry.files[0].part).decode()


def tokens_path(key: str) -> Path:
    return storage.cache_folder() / "tokens" / f"{key[:32]}-v{TOKENS_FORMAT}.safetensors"


def write_tokens(path: Path, corpus: Corpus) -> None:
    """Keep a corpus in the cache, if that can be written to."""
    arrays = {
        "ids": corpus.ids,
        "counts": corpus.counts,
        "document_starts": corpus.document_starts,
        "vocabulary": np.frombuffer("\n".join(corpus.vocabulary).encode(), dtype=np.uint8),
    }
    metadata = {"checksum": corpus.checksum, "digest": _arrays_digest(arrays)}
    with contextlib.suppress(safetensors.SafetensorError):  # its way of saying that the disk is full
        storage.write_if_possible(path, lambda file: safetensors.numpy.save_file(arrays, file, metadata))


def read_tokens(path: Path, name: str) -> Corpus | None:
    """A corpus from the cache, or None if it is not there or its digest is wrong (it is then made again)."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError):
        return None
    if metadata.get("digest") != _arrays_digest(arrays):
        return None
    vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
    return Corpus(
        name, arrays["ids"], vocabulary, arrays["counts"], arrays["document_starts"], metadata["checksum"]
    )


def _arrays_digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def load_word_test(name: str) -> pd.DataFrame:
    """A test of word vectors, lower-cased.

    Parameters
    ----------
    name : a word test of the registry, such as "wordsim353", "men", "google_analogy"

    Returns
    -------
    DataFrame
        Of a similarity test: word1, word2, score (a float, so that ranks are those of numbers). Of an
        analogy test: a, b, c, d and section; "a is to b as c is to d".

    """
    entry = registry.data_set(name)
    if entry.kind != "word test":
        raise registry.RegistryError(f"data set {name!r} is a {entry.kind}, not a word test")
    lines = registry.read_bytes(name).decode().lower().splitlines()
    if entry.format == "similarity":
        pairs = pd.DataFrame([line.split() for line in lines], columns=["word1", "word2", "score"])
        return pairs.astype({"score": float})
    rows = []
    section = name
    for line in lines:
        if line.startswith(":"):
            section = line.removeprefix(":").strip()
        else:
            rows.append((*line.split(), section))
    return pd.DataFrame(rows, columns=["a", "b", "c", "d", "section"])
