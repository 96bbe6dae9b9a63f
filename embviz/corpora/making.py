"""A corpus of your own: from a text, files, documents or tokens, with the tokenizer that you choose."""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import os
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import regex

from embviz.corpora.corpus import DOCUMENT_SEPARATOR, Corpus
from embviz.corpora.texts import normalize_words
from embviz.memory import require_memory

BLOCK = 1 << 22  # characters read at a time
ON_DISK = 1 << 28  # bytes of ids from which they stay in a file, which the system pages in
TELL = 0.01  # share of dropped letters from which a warning says so
# Default word boundaries of Unicode annex 29; pieces between them that have a letter or digit are words.
_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)
_WORD = regex.compile(r"[\p{L}\p{N}]")
_OTHER_LETTER = regex.compile(r"[^\P{L}A-Za-z]")
_SPACE = regex.compile(r"\s")


def make_corpus(
    source: Any, *, name: str | None = None, tokenizer: Any = "unicode", encoding: str = "utf-8"
) -> Corpus:
    """A corpus from a text of yours.

    Parameters
    ----------
    source : str, bytes, path, or an iterable of documents or of paths
        A string is the text itself; a file is named by a ``pathlib.Path``, is read a block at a time, and may
        be packed (``.gz``). In a text or a file documents are separated by ``<|endoftext|>``; each string of
        an iterable is one document.
    name : str, optional
        What to call it in results and messages; by default the file's name, or "mine".
    tokenizer : "unicode", "text8", a tokenizer of Hugging Face, or a function from text to tokens
        "unicode" cuts at the default word boundaries of Unicode's annex 29, lower-cases, and drops pieces
        without a letter or a digit; Chinese, Japanese and Thai fall into characters or runs of them, since
        their words need a dictionary. "text8" keeps a-z, spells digits out, and warns of the letters that it
        drops. Special tokens of a tokenizer are not added.
    encoding : str
        Of files and bytes.

    Returns
    -------
    Corpus
        Its checksum is the SHA-256 of the text as UTF-8, documents joined by the separator.

    Raises
    ------
    ValueError
        If there is no word, the tokenizer is none of those, a file is not of that encoding, or a string is
        the name of a file.
    FileNotFoundError
        If a path names no file.
    MemoryError
        If the ids of all tokens do not fit, with the estimate.

    Source
    ------
    Unicode Standard Annex 29, "Unicode text segmentation": word boundaries, by the library `regex`.

    >>> make_corpus("Die Straße, die Straßen!").vocabulary
    ['die', 'straße', 'straßen']
    >>> make_corpus(["one fish", "two fish"], name="fish").document_starts.tolist()
    [0, 2]
    """
    called = name or _name_of(source)
    tokenize = _tokenizer(tokenizer)
    n_letters, n_dropped, example = 0, 0, ""
    with _Numbering(called) as numbering:
        for begins, block in _blocks(source, encoding):
            numbering.add(tokenize(block), begins=begins)
            if tokenizer == "text8":
                lost = _OTHER_LETTER.findall(block) if not block.isascii() else []
                example = example or "".join(lost[:1])
                n_letters, n_dropped = n_letters + _ascii_letters(block) + len(lost), n_dropped + len(lost)
            numbering.digest(block, begins=begins)
        if n_dropped > TELL * n_letters:
            warnings.warn(
                f"text8's form drops {n_dropped / n_letters:.0%} of the letters of {called!r}, such as "
                f'{example!r}: take tokenizer="unicode" to keep them',
                stacklevel=2,
            )
        return numbering.corpus()


def corpus_from_tokens(
    documents: Iterable[Any], *, name: str = "mine", vocabulary: Sequence[str] | None = None
) -> Corpus:
    """A corpus from tokens, or ids, that you have already.

    Parameters
    ----------
    documents : iterable of lists of tokens, or one such list
        Strings, or integers.
    name : str
    vocabulary : sequence of str, optional
        Of integers: the token of each id; by default its digits.

    Returns
    -------
    Corpus
        Its ids go by falling count, as those of every corpus: look a token up in its vocabulary.

    Raises
    ------
    ValueError
        If there is no token, a token is no string or integer, or an id lies outside the vocabulary.

    >>> corpus_from_tokens([[7, 3, 7], [3, 3]]).vocabulary
    ['3', '7']
    """
    if isinstance(documents, str | bytes):
        raise ValueError("documents is one string: give lists of tokens, or the text to make_corpus")
    rest = iter(documents)
    first = next(rest, None)
    every = itertools.chain([] if first is None else [first], rest)
    flat = isinstance(first, str | int | np.integer)
    with _Numbering(name) as numbering:
        for document in [every] if flat else every:
            tokens = [_token(token, vocabulary) for token in document]
            numbering.add(tokens, begins=True)
            numbering.digest("\0".join(tokens), begins=True)
        return numbering.corpus()


def _token(token: Any, vocabulary: Sequence[str] | None) -> str:
    if isinstance(token, str):
        return token
    if isinstance(token, int | np.integer) and not isinstance(token, bool):
        if vocabulary is None:
            return str(int(token))
        if 0 <= token < len(vocabulary):
            return vocabulary[int(token)]
        raise ValueError(f"id {token} lies outside the vocabulary of {len(vocabulary):,}: give its own")
    raise ValueError(f"{token!r} is no token: give strings or integers, a list a document")


# --- reading ----------------------------------------------------------------------------------------


def _name_of(source: Any) -> str:
    return Path(source).stem if isinstance(source, os.PathLike) else "mine"


def _blocks(source: Any, encoding: str) -> Iterator[tuple[bool, str]]:
    """Pieces of text, none cut inside a word, and whether a document begins with them."""
    if isinstance(source, bytes):
        source = _decoded(source, encoding)
    if isinstance(source, str):
        _refuse_file_name(source)
        yield from _pieces([source])
    elif isinstance(source, os.PathLike):
        yield from _pieces(_read(Path(source), encoding))
    elif isinstance(source, Iterable):
        for number, document in enumerate(source):
            if isinstance(document, os.PathLike):
                yield from _pieces(_read(Path(document), encoding))
            elif isinstance(document, str):
                yield True, document
            else:
                raise ValueError(
                    f"document {number} is {type(document).__name__}: give strings or paths; lists of tokens "
                    "go through corpus_from_tokens"
                )
    else:
        raise ValueError(
            f"source is {type(source).__name__}: give a text, a pathlib.Path, or documents in a list"
        )


def _refuse_file_name(text: str) -> None:
    if len(text) < 1_000 and "\n" not in text and os.path.isfile(text):
        raise ValueError(f"{text!r} is the name of a file: give pathlib.Path({text!r}), or the text itself")


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _wrong_encoding("the text", error) from error


def _wrong_encoding(what: str, error: UnicodeDecodeError) -> ValueError:
    return ValueError(
        f"{what} is not {error.encoding}: byte 0x{error.object[error.start]:02x} stands where none can. "
        'Name its encoding, such as encoding="latin-1"'
    )


def _read(path: Path, encoding: str) -> Iterator[str]:
    """A file's text, a block at a time."""
    file: IO[str]
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding=encoding, newline="") as file:  # type: ignore[operator]
        try:
            yield file.read(BLOCK).removeprefix("\ufeff")
            while block := file.read(BLOCK):
                yield block
        except UnicodeDecodeError as error:
            raise _wrong_encoding(str(path), error) from error


def _pieces(blocks: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Blocks of a text, cut anew: at separators, and else before white space."""
    rest, begins = "", True
    for block in blocks:
        *whole, rest = (rest + block).split(DOCUMENT_SEPARATOR)
        for document in whole:
            yield begins, document
            begins = True
        while len(rest) > BLOCK:
            cut = _last_space(rest)
            yield begins, rest[:cut]
            rest, begins = rest[cut:], False
    yield begins, rest


def _last_space(text: str) -> int:
    """Where to cut: before the last white space that leaves something, not inside a separator."""
    end = max(BLOCK // 2, len(text) - len(DOCUMENT_SEPARATOR))
    spaces = [text.rfind(space, 1, end) for space in ("\n", " ")]
    return max(spaces) if max(spaces) > 0 else end


# --- tokenizing -------------------------------------------------------------------------------------


def _tokenizer(tokenizer: Any) -> Callable[[str], Iterable[str]]:
    if tokenizer == "unicode":
        return unicode_words
    if tokenizer == "text8":
        return lambda text: normalize_words(text).decode().split()
    if hasattr(tokenizer, "tokenize"):  # transformers
        return lambda text: tokenizer.tokenize(text)
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab"):  # tokenizers
        return lambda text: tokenizer.encode(text, add_special_tokens=False).tokens
    if callable(tokenizer):
        return tokenizer
    raise ValueError(
        f'tokenizer is {tokenizer!r}: use "unicode", "text8", one of Hugging Face, or a function from a text '
        "to its tokens"
    )


def unicode_words(text: str) -> list[str]:
    """Words of a text in any script, lower-cased: Unicode's annex 29.

    >>> unicode_words("Don't panic: 3.14 – ЁЛКА 字典 🙂")
    ["don't", 'panic', '3.14', 'ёлка', '字', '典']
    """
    return list(itertools.chain.from_iterable(map(_words_of, text.split())))


@functools.lru_cache(maxsize=1 << 18)  # texts repeat what stands between their spaces: ten times as fast
def _words_of(chunk: str) -> tuple[str, ...]:
    pieces = _BOUNDARY.split(unicodedata.normalize("NFC", chunk).lower())
    return tuple(piece for piece in pieces if _WORD.search(piece))


def _ascii_letters(text: str) -> int:
    lower = np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8) | 32
    return int(((lower >= ord("a")) & (lower <= ord("z"))).sum())


# --- numbering --------------------------------------------------------------------------------------


class _Numbering:
    """Tokens become ids as they come; those of a long text wait in a file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.index: dict[str, int] = {}  # by first appearance
        self.starts: list[int] = []
        self.n_tokens = 0
        self._begun = False
        self._hash = hashlib.sha256()
        self._any = False
        self._spool = tempfile.SpooledTemporaryFile(max_size=ON_DISK)  # noqa: SIM115

    def __enter__(self) -> _Numbering:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def digest(self, text: str, *, begins: bool) -> None:
        """Count a piece of text into the checksum."""
        if begins and self._any:
            self._hash.update(DOCUMENT_SEPARATOR.encode())
        self._any = True
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def add(self, tokens: Iterable[str], *, begins: bool) -> None:
        """The tokens of a piece; a document without a token is none."""
        index, tokens = self.index, list(tokens)
        self._begun |= begins
        if not tokens:
            return
        if not isinstance(tokens[0], str):
            raise ValueError(f"the tokenizer gave {tokens[0]!r}, which is no string: return tokens, not ids")
        ids = np.fromiter((index.setdefault(token, len(index)) for token in tokens), np.uint32, len(tokens))
        if self._begun:
            self.starts.append(self.n_tokens)
            self._begun = False
        self._spool.write(ids.tobytes())
        self.n_tokens += len(ids)

    def corpus(self) -> Corpus:
        """All of it, numbered anew by falling count; equal counts stay in order of first appearance."""
        if not self.n_tokens:
            raise ValueError(f"the text {self.name!r} is empty: it has no word (with a letter or a digit)")
        counts = np.zeros(len(self.index), dtype=np.int64)
        for ids in self._ids():
            counts += np.bincount(ids, minlength=len(counts))
        order = np.argsort(-counts, kind="stable")
        new = np.empty(len(order), dtype=np.min_scalar_type(len(order)))
        new[order] = np.arange(len(order))
        numbered, filled = self._room(new.dtype), 0
        for ids in self._ids():
            numbered[filled : filled + len(ids)] = new[ids]
            filled += len(ids)
        words = list(self.index)
        starts = np.array(self.starts, dtype=np.int64)
        vocabulary = [words[i] for i in order]
        return Corpus(self.name, numbered, vocabulary, counts[order], starts, self._hash.hexdigest())

    def _ids(self) -> Iterator[np.ndarray]:
        self._spool.seek(0)
        while content := self._spool.read(4 * BLOCK):
            yield np.frombuffer(content, dtype=np.uint32)

    def _room(self, dtype: np.dtype) -> np.ndarray:
        n_bytes = self.n_tokens * dtype.itemsize
        if n_bytes > ON_DISK:
            with tempfile.TemporaryFile() as file:  # without a name: gone with the array
                return np.memmap(file, dtype=dtype, mode="w+", shape=(self.n_tokens,))
        require_memory(n_bytes, what=f"the ids of {self.name!r}", instead="take a part of the text")
        return np.empty(self.n_tokens, dtype=dtype)
