"""What the kernel paper's models read: a short text in V symbols, in the readings that its words allow.

"Tokenized English Wikipedia text" of 50 to 300 symbols can be the most frequent words with all others
dropped, or mapped to one symbol, or characters; its length isn't told.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from embviz.corpora import docstrings, registry
from embviz.corpora.corpus import DOCUMENT_SEPARATOR, UNKNOWN_WORD, load_corpus, load_text

Symbols = Literal["drop", "unk", "characters"]
Order = Literal["frequency", "alphabetical", "appearance"]
LEAST_HELD_OUT = 2_000  # tokens
N_COUNTED = 1_000_000  # characters


@dataclass(frozen=True)
class TextReading:
    """A corpus cut to V symbols and so many tokens."""

    corpus: str = "enwiki2018"  # of the registry, or "embedded"; characters need one with its marks and cases
    symbols: Symbols = "drop"  # what words outside the vocabulary become; or the text's characters instead
    vocab_size: int = 100  # the symbol of all other words of "unk" included
    n_tokens: int = 50_000  # to train on, after the vocabulary's cut
    order: Order = "frequency"  # of ids: by falling count, by code point, or as they first appear
    shuffled: bool = False  # the training tokens in random order, which leaves no context
    seed: int = 0  # of that order

    def __post_init__(self) -> None:
        for name, known in (("symbols", Symbols), ("order", Order)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(get_args(known))}"
                )
        if self.vocab_size < 2 or self.n_tokens < 2:
            raise ValueError(f"a text needs two symbols and two tokens at least: {self}")

    @property
    def n_held_out(self) -> int:
        """Tokens held out, the next ones."""
        return max(LEAST_HELD_OUT, self.n_tokens // 10)


@dataclass(frozen=True)
class Slice(TextReading):
    """A reading that begins further on in its corpus; of words alone."""

    offset: int = 0  # words of the corpus before it

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symbols == "characters" or self.offset < 0:
            raise ValueError(f"a slice is of words and begins at 0 or later: {self}")


@dataclass(frozen=True, eq=False)
class Text:
    """A training text, and the text that follows it, as ids of one vocabulary."""

    name: str
    ids: np.ndarray  # (N,)
    held_out: np.ndarray  # (n,)
    vocabulary: tuple[str, ...]  # (V,)
    counts: np.ndarray  # (V,), in `ids`
    document_starts: np.ndarray  # places in `ids`, rising from 0
    checksum: str  # SHA-256 of the corpus; of the embedded one its fingerprint


@dataclass(frozen=True, eq=False)
class Source:
    """A corpus, or the beginning of one, uncut."""

    ids: np.ndarray  # (N,) places in `names`
    names: list[str]
    starts: np.ndarray  # of documents
    checksum: str


@functools.lru_cache(maxsize=8)
def load(reading: TextReading) -> Text:
    """The text of a reading.

    The vocabulary of words is counted on the training text itself: where others are dropped, on the shortest
    beginning of the corpus in which the V most frequent words stand `n_tokens` times. That of characters is
    counted on the first million of the corpus, since a short text doesn't have V different ones: `counts` may
    hold zeros then. The next tokens in the vocabulary are held out.

    Raises
    ------
    ValueError
        If the corpus is too short or has too few different symbols; the message says how many there are.
    registry.RegistryError, registry.DataMissingError, registry.ChecksumError
        As :func:`embviz.corpora.corpus.load_corpus`.
    """
    if reading.symbols != "characters":
        return cut(reading, words(reading.corpus))
    n_needed = reading.n_tokens + reading.n_held_out
    return cut(reading, _characters(reading.corpus, max(N_COUNTED, 8 * n_needed)))


def words(corpus: str) -> Source:
    """The words of a corpus."""
    loaded = load_corpus(corpus)
    return Source(loaded.ids, loaded.vocabulary, loaded.document_starts, loaded.checksum)


def _characters(corpus: str, n_read: int) -> Source:
    """The first characters of a text, its documents stripped and closed by a line's end each."""
    content = load_text(corpus).encode()
    embedded = corpus == registry.EMBEDDED
    checksum = docstrings.fingerprint() if embedded else hashlib.sha256(content).hexdigest()
    # a character takes 4 bytes at most; the last one may be cut
    text = content[: 4 * n_read].decode(errors="ignore")
    documents = [f"{document}\n" for part in text.split(DOCUMENT_SEPARATOR) if (document := part.strip())]
    points = np.frombuffer("".join(documents).encode("utf-32-le"), dtype="<u4")[:n_read]
    used, ids = np.unique(points, return_inverse=True)
    starts = np.cumsum([0, *(len(document) for document in documents[:-1])])
    return Source(ids, [chr(point) for point in used], starts, checksum)


def cut(reading: TextReading, source: Source) -> Text:
    """The text of a reading, of words that are available; see :func:`load`."""
    if isinstance(reading, Slice):
        first = reading.offset
        source = dataclasses.replace(source, ids=source.ids[first:], starts=source.starts - first)
    unknown = reading.symbols == "unk"
    known = _vocabulary(reading, source)
    names = [source.names[index] for index in known] + [UNKNOWN_WORD] * unknown
    new = np.full(len(source.names), len(known) if unknown else -1)  # the symbol of all others: the last
    new[known] = np.arange(len(known))
    n_train, n_needed = reading.n_tokens, reading.n_tokens + reading.n_held_out
    for n_searched in (50 * n_needed, len(source.ids)):  # the whole corpus only where that is too near
        tokens = new[source.ids[:n_searched]]
        places = np.flatnonzero(tokens >= 0)
        if len(places) >= n_needed:
            break
    if len(places) < n_needed:
        raise ValueError(_too_short(reading, len(places)))
    train, held_out = tokens[places[:n_train]], tokens[places[n_train:n_needed]]
    starts = np.unique(np.searchsorted(places[:n_train], source.starts))
    order = _order(reading.order, train, names)
    rank = np.empty(len(order), dtype=np.min_scalar_type(len(order)))
    rank[order] = np.arange(len(order))
    ids = rank[train]
    if reading.shuffled:
        ids = np.random.default_rng([reading.seed, zlib.crc32(b"shuffled text")]).permutation(ids)
    return Text(
        reading.corpus,
        ids,
        rank[held_out],
        tuple(names[index] for index in order),
        np.bincount(ids, minlength=len(order)),
        starts[starts < n_train],
        source.checksum,
    )


def _vocabulary(reading: TextReading, source: Source) -> np.ndarray:
    """Places in `source.names` of the symbols kept, most frequent first, without "unk"."""
    n_counted = {
        "drop": lambda: _shortest_beginning(reading, source.ids),
        "unk": lambda: reading.n_tokens,
        "characters": lambda: N_COUNTED,
    }[reading.symbols]()
    counts, first = _counted(source.ids[:n_counted], len(source.names))
    n_different = np.count_nonzero(counts)
    if n_different < reading.vocab_size:
        raise ValueError(
            f"the first {min(n_counted, len(source.ids)):,} tokens of {reading.corpus!r} have "
            f"{n_different:,} different symbols: lower vocab_size, {reading.vocab_size:,}, or take more"
        )
    n_known = reading.vocab_size - (reading.symbols == "unk")
    return np.lexsort((first, -counts))[:n_known]  # ties: those that appear first


def _shortest_beginning(reading: TextReading, ids: np.ndarray) -> int:
    """Length of the shortest beginning whose V most frequent words stand `n_tokens` times."""

    def n_kept(n: int) -> int:  # never falls as n grows
        return int(np.sort(np.bincount(ids[:n]))[-reading.vocab_size :].sum())

    asked = reading.n_tokens
    low, high = asked - 1, asked  # n_kept(low) < asked, since it is at most low
    while n_kept(high) < asked:
        if high >= len(ids):
            raise ValueError(_too_short(reading, n_kept(high)))
        low, high = high, min(2 * high, len(ids))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if n_kept(middle) < asked else (low, middle)
    return high


def _too_short(reading: TextReading, n_there: int) -> str:
    return (
        f"{reading.corpus!r} has {n_there:,} tokens in {reading.vocab_size:,} symbols "
        f"({reading.symbols}), not {reading.n_tokens:,} to train on and {reading.n_held_out:,} held out: "
        "lower n_tokens or take a larger corpus"
    )


def _counted(ids: np.ndarray, n_names: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts and first places of each symbol, (n_names,) both; of an absent one len(ids)."""
    first = np.full(n_names, len(ids))
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # of repeated indices the last assignment stays
    return np.bincount(ids, minlength=n_names), first


def _order(order: Order, ids: np.ndarray, names: list[str]) -> np.ndarray:
    """Old ids in the order of the new ones, (V,)."""
    if order == "alphabetical":
        return np.array(sorted(range(len(names)), key=names.__getitem__))
    counts, first = _counted(ids, len(names))
    return np.argsort(first) if order == "appearance" else np.lexsort((first, -counts))
