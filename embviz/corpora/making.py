"""A corpus from your text, files, documents or tokens, with the tokenizer that you choose."""

from __future__ import annotations

import codecs
import copy
import errno
import gzip
import hashlib
import heapq
import itertools
import json
import os
import shutil
import string
import tempfile
import unicodedata
import warnings
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import regex

from embviz.arrays import check_int, release_pages
from embviz.corpora.corpus import DOCUMENT_SEPARATOR, Corpus
from embviz.corpora.texts import normalize_words
from embviz.memory import format_bytes, require_memory

BLOCK = 1 << 22  # characters read at a time
ON_DISK = 1 << 28  # bytes of ids from which they stay in a file, which the system pages in
N_TYPES = 1 << 20  # types in memory; then they are sorted into a file, and a new list begins
N_CHUNKS = 1 << 18  # what stood between spaces lately and how it was cut: some 60 MB
TELL = 0.01  # share of dropped letters from which a warning says so
# Default word boundaries of Unicode annex 29; pieces between them that have a letter or digit are words.
_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)
_WORD = regex.compile(r"[\p{L}\p{N}]")
_OTHER_LETTER = regex.compile(r"[^\P{L}A-Za-z]")
_OUTSIDE = "".join(set(string.punctuation) - set("_'"))  # ASCII that joins no word at its end


def make_corpus(
    source: Any,
    *,
    name: str | None = None,
    tokenizer: Any = "unicode",
    encoding: str = "utf-8",
    min_count: int = 1,
    max_vocab: int | None = None,
) -> Corpus:
    """A corpus from your text, of any length.

    Ids of a long text lie in a temporary file without a name, in the folder that TMPDIR names: up to 8 bytes
    a token while it is made, 4 afterwards. With `max_vocab` memory does not grow with the text.

    Parameters
    ----------
    source : str, path, or an iterable of documents or of paths
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
        Of files.
    min_count, max_vocab : int
        Rarer words become holes, as by ``restrict``, and are not kept in memory.

    Returns
    -------
    Corpus
        Its checksum is the SHA-256 of the text as UTF-8, documents joined by the separator.

    Raises
    ------
    FileNotFoundError
        If a path names no file.
    MemoryError
        If the ids of all tokens do not fit, with the estimate.
    OSError
        If the folder of temporary files has no room, with the bytes.

    Source
    ------
    Unicode Standard Annex 29, "Unicode text segmentation": word boundaries, by the library `regex`.

    >>> make_corpus("Die Straße, die Straßen!").vocabulary
    ['die', 'straße', 'straßen']
    >>> make_corpus(["one fish", "two fish"], name="fish").document_starts.tolist()
    [0, 2]
    """
    called = name or (Path(source).stem if isinstance(source, os.PathLike) else "mine")
    tokenize = _tokenizer(tokenizer)
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ValueError(f'no encoding is called {encoding!r}: give one such as "utf-8"') from error
    min_count = check_int(min_count, "min_count", 1)
    max_vocab = None if max_vocab is None else check_int(max_vocab, "max_vocab", 1)
    n_letters, n_dropped, example = 0, 0, ""
    with _Numbering(called) as numbering:
        for begins, block in _blocks(source, encoding):
            numbering.add(tokenize(block), begins=begins)
            if tokenizer == "text8":
                lost = _OTHER_LETTER.findall(block) if not block.isascii() else []
                example = example or "".join(lost[:1])
                lower = np.frombuffer(block.encode("ascii", "replace"), dtype=np.uint8) | 32
                n_letters += int(((lower >= ord("a")) & (lower <= ord("z"))).sum()) + len(lost)
                n_dropped += len(lost)
            numbering.digest(block, begins=begins)
        if n_dropped > TELL * n_letters:
            warnings.warn(
                f"text8's form drops {n_dropped / n_letters:.0%} of the letters of {called!r}, such as "
                f'{example!r}: take tokenizer="unicode" to keep them',
                stacklevel=2,
            )
        return numbering.corpus(min_count, max_vocab)


def corpus_from_tokens(documents: Iterable[Any], *, name: str = "mine") -> Corpus:
    """A corpus from tokens, or ids, that you have already.

    Parameters
    ----------
    documents : iterable of lists of tokens, or one such list
        Strings, or integers, whose tokens are their digits.
    name : str

    Returns
    -------
    Corpus
        Its ids go by falling count, as those of every corpus: look a token up in its vocabulary.

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
            tokens = [_token(token) for token in document]
            numbering.add(tokens, begins=True)
            numbering.digest("\0".join(tokens), begins=True)
        return numbering.corpus()


def _token(token: Any) -> str:
    if isinstance(token, str):
        return token
    if isinstance(token, int | np.integer) and not isinstance(token, bool):
        return str(int(token))
    raise ValueError(f"{token!r} is no token: give strings or integers, one list per document")


# --- reading ----------------------------------------------------------------------------------------


def _blocks(source: Any, encoding: str) -> Iterator[tuple[bool, str]]:
    """Pieces of text, none cut inside a word, and whether a document begins with them."""
    if isinstance(source, str):
        if len(source) < 1_000 and "\n" not in source and os.path.isfile(source):
            raise ValueError(
                f"{source!r} is the name of a file: give pathlib.Path({source!r}), or the text itself"
            )
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


def read_file(path: Path) -> str:
    """The whole text of a file, which is no device; packed as .gz or not."""
    return "".join(_read(path, "utf-8"))


def _read(path: Path, encoding: str) -> Iterator[str]:
    """A file's text, a block at a time."""
    if path.is_block_device() or (path.is_char_device() and path != Path("/dev/stdin")):
        raise ValueError(f"{path} is a device, which may have no end: give a file")
    file: IO[str]
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding=encoding, newline="") as file:  # type: ignore[operator]
        try:
            yield file.read(BLOCK).removeprefix("\ufeff")
            while block := file.read(BLOCK):
                yield block
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise ValueError(
                f"{path} is not {error.encoding}: byte 0x{byte:02x} stands where none can. Decode it with "
                'errors="replace", or name its encoding if that is another, such as "latin-1"'
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is cut short or damaged ({error}): get it again") from error


def _pieces(blocks: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Blocks of a text, cut at separators, or else before white space."""
    rest, begins = "", True
    for block in blocks:
        *documents, rest = (rest + block).split(DOCUMENT_SEPARATOR)
        for document in documents:
            yield begins, document
            begins = True
        while len(rest) > BLOCK:
            cut = _last_space(rest)
            if not rest[cut].isspace():
                message = f"the text has no white space in {cut:,} characters: a word may be cut there"
                warnings.warn(message, stacklevel=2)
            yield begins, rest[:cut]
            rest, begins = rest[cut:], False
    yield begins, rest


def _last_space(text: str) -> int:
    """Where to cut: before the last white space that leaves something, not inside a separator."""
    end = max(BLOCK // 2, len(text) - len(DOCUMENT_SEPARATOR))
    spaces = [text.rfind(space, 1, end) for space in ("\n", " ")]
    return max(spaces) if max(spaces) > 0 else end


# --- tokenizing -------------------------------------------------------------------------------------


def whole_text(tokenizer: Any) -> Any:
    """A tokenizer of the library tokenizers without its own truncation and padding; the given one stays."""
    if getattr(tokenizer, "truncation", None) is None and getattr(tokenizer, "padding", None) is None:
        return tokenizer
    uncut = copy.deepcopy(tokenizer)
    uncut.no_truncation()
    uncut.no_padding()
    return uncut


def _tokenizer(tokenizer: Any) -> Callable[[str], Iterable[str]]:
    if tokenizer == "unicode":
        return unicode_words
    if tokenizer == "text8":
        return lambda text: normalize_words(text).decode().split()
    if hasattr(tokenizer, "tokenize"):  # transformers
        return lambda text: tokenizer.tokenize(text)
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab"):  # tokenizers
        uncut = whole_text(tokenizer)
        return lambda text: uncut.encode(text, add_special_tokens=False).tokens
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
    return list(itertools.chain.from_iterable(map(_CUT.__getitem__, text.split())))


class _Cut(dict[str, tuple[str, ...]]):
    """Words of what stands between spaces, which texts repeat."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(self) >= N_CHUNKS:
            self.clear()
        core = chunk.strip(_OUTSIDE)
        plain = core.isascii() and core.isalnum()  # most are one word of ASCII: no rule cuts there
        words = self[chunk] = (core.lower(),) if plain else _words_of(chunk)
        return words


_CUT = _Cut()


def _words_of(chunk: str) -> tuple[str, ...]:
    pieces = _BOUNDARY.split(unicodedata.normalize("NFC", chunk).lower())
    return tuple(piece for piece in pieces if _WORD.search(piece))


# --- numbering --------------------------------------------------------------------------------------


class _Index(dict[str, int]):
    """Numbers of words by first appearance."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class _Numbering:
    """Tokens become ids as they are read; a long text's ids are stored in a file, and so are many types."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.index = _Index()  # of this part of the text
        self.starts = array("q")
        self.n_tokens = 0
        self._begun = False
        self._hash = hashlib.sha256()
        self._any = False
        self._spool = tempfile.SpooledTemporaryFile(max_size=ON_DISK)  # noqa: SIM115
        self._ends = [0]  # tokens before and after each part that is closed
        self._types: list[IO[bytes]] = []  # of each: its words in their order, with number and count

    def __enter__(self) -> _Numbering:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._spool, *self._types):
            file.close()

    def digest(self, text: str, *, begins: bool) -> None:
        """Count a piece of text into the checksum."""
        if begins and self._any:
            self._hash.update(DOCUMENT_SEPARATOR.encode())
        self._any = True
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def add(self, tokens: Iterable[str], *, begins: bool) -> None:
        """The tokens of a piece; a document without a token is none."""
        tokens = list(tokens)
        self._begun |= begins
        if not tokens:
            return
        if not isinstance(tokens[0], str):
            raise ValueError(f"the tokenizer gave {tokens[0]!r}, which is no string: return tokens, not ids")
        ids = np.fromiter(map(self.index.__getitem__, tokens), np.uint32, len(tokens))
        if self._begun:
            self.starts.append(self.n_tokens)
            self._begun = False
        try:
            self._spool.write(ids.tobytes())
        except OSError as error:
            raise self._full(4 * self.n_tokens, error.errno) from error
        self.n_tokens += len(ids)
        if len(self.index) >= N_TYPES:
            self._close_part()

    def _close_part(self, *, alone: bool = False) -> None:
        """Types of the text since the last part go to a file, sorted unless there is no other."""
        file = tempfile.SpooledTemporaryFile(max_size=ON_DISK >> 4)  # noqa: SIM115
        self._types.append(file)
        self._ends.append(self.n_tokens)
        counts = np.zeros(len(self.index), dtype=np.int64)
        for ids in self._ids(len(self._types) - 1):
            counts += np.bincount(ids, minlength=len(counts))
        items = self.index.items() if alone else sorted(self.index.items())
        typed = ((word, number, int(counts[number])) for word, number in items)
        while batch := list(itertools.islice(typed, 1 << 8)):
            file.write(json.dumps(batch).encode() + b"\n")
        self.index.clear()
        self._spool.seek(0, os.SEEK_END)

    def _typed(self, part: int) -> Iterator[tuple[str, int, int, int]]:
        """Word, part, number and count, by word."""
        file = self._types[part]
        file.seek(0)
        for line in file:
            for word, number, count in json.loads(line):
                yield word, part, number, count

    def _kept(self, min_count: int, max_vocab: int | None) -> list[tuple[int, int, int, str]]:
        """Words by falling count, equal ones by first appearance: minus the count, part, number, word."""
        every = heapq.merge(*map(self._typed, range(len(self._types))))
        of_word = (list(same) for _, same in itertools.groupby(every, key=lambda one: one[0]))
        totals = ((-sum(one[3] for one in same), *same[0][1:3], same[0][0]) for same in of_word)
        frequent = (total for total in totals if total[0] <= -min_count)
        return sorted(frequent) if max_vocab is None else heapq.nsmallest(max_vocab, frequent)

    def corpus(self, min_count: int = 1, max_vocab: int | None = None) -> Corpus:
        """All of it, numbered again by falling count; equal counts stay in order of first appearance."""
        if not self.n_tokens:
            raise ValueError(f"the text {self.name!r} is empty: it has no word (with a letter or a digit)")
        self._close_part(alone=not self._types)
        kept = self._kept(min_count, max_vocab)
        if not kept:
            raise ValueError(f"no word of {self.name!r} occurs {min_count:,} times: lower min_count")
        vocabulary = [word for *_, word in kept]
        new_id = {word: place for place, word in enumerate(vocabulary)}
        numbered, filled = self._room(np.min_scalar_type(len(vocabulary))), 0
        for part in range(len(self._types)):
            new = {number: new_id.get(word, len(new_id)) for word, _, number, _ in self._typed(part)}
            table = np.fromiter(map(new.__getitem__, range(len(new))), numbered.dtype, len(new))
            for ids in self._ids(part):
                numbered[filled : filled + len(ids)] = table[ids]
                filled += len(ids)
                release_pages(numbered)
        counts, starts = -np.array([count for count, *_ in kept]), np.array(self.starts)
        return Corpus(self.name, numbered, vocabulary, counts, starts, self._hash.hexdigest())

    def _ids(self, part: int) -> Iterator[np.ndarray]:
        self._spool.seek(4 * self._ends[part])
        while left := min(4 * BLOCK, 4 * self._ends[part + 1] - self._spool.tell()):
            yield np.frombuffer(self._spool.read(left), dtype=np.uint32)

    def _room(self, dtype: np.dtype) -> np.ndarray:
        n_bytes = self.n_tokens * dtype.itemsize
        if n_bytes > ON_DISK:
            if shutil.disk_usage(tempfile.gettempdir()).free < n_bytes:
                raise self._full(n_bytes, errno.ENOSPC)
            with tempfile.TemporaryFile() as file:  # without a name: gone with the array
                return np.memmap(file, dtype=dtype, mode="w+", shape=(self.n_tokens,))
        require_memory(n_bytes, what=f"the ids of {self.name!r}", instead="take a part of the text")
        return np.empty(self.n_tokens, dtype=dtype)

    def _full(self, n_bytes: int, number: int | None) -> OSError:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        return OSError(
            number,
            f"{folder} has {format_bytes(free)} left, and the ids of {self.name!r} take "
            f"{format_bytes(n_bytes)} or more: let TMPDIR name a folder with 8 bytes a token",
        )
