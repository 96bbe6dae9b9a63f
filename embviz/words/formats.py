"""Files of word vectors as others write them: word2vec, GloVe, fastText, safetensors; packed or not.

No pickle is read: a file of gensim's own is refused with the line that converts it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from embviz.memory import require_memory

Read = tuple[list[str], np.ndarray]  # a vocabulary and its rows (V, D), float32
FASTTEXT = 793_712_314  # the number that a binary file of fastText begins with
FASTTEXT_VERSION = 12
PEEKED = 20  # lines of a file without a header from which its dimension follows


def context_path(path: str | os.PathLike[str]) -> Path:
    """Where the context vectors of a word2vec file lie: its name with ``.context`` added."""
    return Path(f"{os.fspath(path)}.context")


# --- reading ----------------------------------------------------------------------------------------


def read_vectors(
    path: str | os.PathLike[str],
    *,
    limit: int | None = None,
    encoding: str = "utf-8",
    vocabulary: Sequence[str] | str | os.PathLike[str] | None = None,
    tensor: str | None = None,
) -> Read:
    """Words and their vectors from a file; which format it is shows in its first bytes.

    Parameters
    ----------
    path : path
        word2vec's text or binary format, with its header; GloVe's text, without one; fastText's ``.vec`` and
        ``.bin`` (a word's vector is the mean of its own and its n-grams', as fastText computes it);
        safetensors; any of the text formats and word2vec's binary one packed as ``.gz``.
    limit : int, optional
        Read the first so many words, which in these files are the most frequent.
    encoding : str
        Of the words.
    vocabulary : list of str, or a file, optional
        Needed for safetensors: the words in the order of the rows; a file has one word per line, or is JSON,
        a list or token to id.
    tensor : str, optional
        Of a safetensors file with several tables of so many rows: which one.

    Returns
    -------
    list of str, and array (V, D), float32

    Raises
    ------
    ValueError
        If the file is cut short, malformed, of another encoding, or holds a pickle; the message names the
        record, and what to do.
    MemoryError
        If the vectors would not fit, with the size.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}: read at least one word, or leave it out")
    try:
        with _open(path) as file:
            first = file.peek(64)[:64] if hasattr(file, "peek") else b""
            words, rows = _reader(first, path, vocabulary, tensor)(file, limit, encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f'{path}: a word is not {error.encoding}: name its encoding, such as encoding="latin-1"'
        ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is cut short or damaged ({error}): get it again") from error
    return _first_of_each(words, rows, path)


Reader = Callable[[BinaryIO, int | None, str], Read]


def _open(path: Path) -> BinaryIO:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else open(path, "rb")  # type: ignore[return-value]


def _reader(
    first: bytes, path: Path, vocabulary: Sequence[str] | str | os.PathLike[str] | None, tensor: str | None
) -> Reader:
    """What reads a file that begins so."""
    if first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ValueError(
            f"{path} is a pickle, which can run code and is not read: convert it with gensim, "
            f"KeyedVectors.load({str(path)!r}).save_word2vec_format('vectors.bin', binary=True), for a whole "
            "model Word2Vec.load(...).wv instead of KeyedVectors.load(...)"
        )
    if first[:4] == struct.pack("<i", FASTTEXT):
        return lambda file, limit, encoding: _read_fasttext(file, limit, encoding, path)
    if is_safetensors(path, first):
        return lambda file, limit, encoding: _read_safetensors(path, limit, vocabulary, tensor, encoding)
    header = first.split(b"\n", 1)[0].split()
    if len(header) == 2 and all(part.isdigit() for part in header):
        return lambda file, limit, encoding: _read_word2vec(file, limit, encoding, path)
    return lambda file, limit, encoding: _read_glove(file, limit, encoding, path)


def is_safetensors(path: Path, first: bytes) -> bool:
    """Whether a file that begins so is one: the length of its header fits, and JSON follows."""
    return first[8:9] == b"{" and struct.unpack("<Q", first[:8])[0] < path.stat().st_size


def _first_of_each(words: list[str], rows: np.ndarray, path: Path) -> Read:
    """Without words that came before: files of the web hold a few twice."""
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        places.setdefault(word, place)
    if len(places) < len(words):
        n_twice = len(words) - len(places)
        warnings.warn(f"{path}: {n_twice:,} words came a second time and are left out", stacklevel=4)
        return list(places), rows[list(places.values())]
    return words, rows


def _room(n_words: int, embedding_dim: int, path: Path) -> np.ndarray:
    require_memory(
        4 * n_words * embedding_dim,
        what=f"{n_words:,} vectors of {path.name} in {embedding_dim} dimensions",
        instead="read fewer with limit=",
    )
    return np.empty((n_words, embedding_dim), dtype=np.float32)


def _read_word2vec(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Read:
    n_words, D = (int(part) for part in file.readline(100).split())
    # a record takes two bytes a number at least: a wild header is refused before it is allocated
    if not isinstance(file, gzip.GzipFile) and path.stat().st_size < n_words * (2 * D + 1):
        raise ValueError(f"{path} is too short for its {n_words} words in {D} dimensions: get it again")
    start, line = file.tell(), file.readline()
    is_text = len(_numbers(line, D)) == D
    file.seek(start)
    n_read = n_words if limit is None else min(n_words, limit)
    if is_text:
        return _read_lines(file, n_read, n_words, D, encoding, path)
    return _read_binary(file, n_read, n_words, D, encoding, path)


def _read_glove(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Read:
    """Text without a header: a word may hold blanks, so the shortest of the first lines tells D."""
    peeked = [line for line in itertools.islice(file, PEEKED) if line.strip()]
    D = min((len(line.split()) - 1 for line in peeked), default=0)
    if D < 1 or any(len(_numbers(line, D)) != D for line in peeked):
        raise ValueError(
            f'{path} neither starts with "V D", as word2vec files do, nor has words and numbers in its first '
            "lines, as GloVe's do: it is no file of word vectors that is known here"
        )
    file.seek(0)
    n_lines = sum(1 for line in file if line.strip()) if limit is None else limit
    file.seek(0)
    return _read_lines(file, n_lines, n_lines, D, encoding, path, exact=limit is None)


def _numbers(line: bytes, D: int) -> list[float]:
    """The last D numbers of a record in text; an empty list if it is none."""
    parts = line.rsplit(maxsplit=D)
    if len(parts) != D + 1:
        return []
    try:
        return [float(part) for part in parts[1:]]
    except ValueError:
        return []


def _read_lines(
    file: BinaryIO, n_read: int, n_words: int, D: int, encoding: str, path: Path, *, exact: bool = True
) -> Read:
    """Records in text; `exact` is false where the file may end before `n_read`."""
    words: list[str] = []
    doubtful: list[int] = []
    rows = _room(n_read, D, path)
    lines = (line for line in file if line.strip())
    for line in itertools.islice(lines, n_read):
        numbers = _numbers(line, D)
        if len(numbers) != D:
            raise ValueError(
                f"{path}: record {len(words) + 1} of {n_words} is not a word and {D} numbers: get it again"
            )
        rows[len(words)] = numbers
        word = line.rstrip().rsplit(maxsplit=D)[0].strip(b" ")
        if b" " in word and _numbers(b"x " + word.rsplit(b" ", 1)[1], 1):
            doubtful.append(len(words) + 1)
        words.append(word.decode(encoding))
    if len(words) < n_read and exact:
        raise ValueError(f"{path}: record {len(words) + 1} of {n_words} is missing: get the file again")
    if doubtful:
        warnings.warn(
            f"{path}: a word ends in a number in {len(doubtful):,} records, the first of them record "
            f"{doubtful[0]} with {words[doubtful[0] - 1]!r}: it may have a number more than the others' {D}",
            stacklevel=6,
        )
    if words and not line.endswith(b"\n"):
        warnings.warn(f"{path}: the last line has no end, so that its last number may be cut", stacklevel=6)
    return words, rows[: len(words)]


def _read_binary(file: BinaryIO, n_read: int, n_words: int, D: int, encoding: str, path: Path) -> Read:
    words, rows, rest = [], _room(n_read, D, path), b""
    for i in range(n_read):
        while (end := rest.find(b" ")) < 0 or end + 1 + 4 * D > len(rest):
            more = file.read(1 << 20)
            if not more:
                raise ValueError(f"{path}: record {i + 1} of {n_words} is cut short: get the file again")
            rest += more
        # word2vec ends a record with a newline, gensim does not
        words.append(rest[:end].lstrip(b"\n").decode(encoding))
        rows[i] = np.frombuffer(rest, dtype="<f4", count=D, offset=end + 1)
        rest = rest[end + 1 + 4 * D :]
    return words, rows


def _read_safetensors(
    path: Path,
    limit: int | None,
    vocabulary: Sequence[str] | str | os.PathLike[str] | None,
    tensor: str | None,
    encoding: str,
) -> Read:
    if vocabulary is None:
        raise ValueError(
            f"{path} has no words in it: give vocabulary=, a list or file with one word per line"
        )
    words = _words_of(vocabulary, encoding)
    try:
        with safe_open(path, framework="numpy") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
            fitting = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == len(words)]
            chosen = fitting if tensor is None else [name for name in fitting if name == tensor]
            if len(chosen) != 1:
                raise ValueError(
                    f"{path} has {len(chosen)} tables of {len(words):,} rows: name one with tensor=, of "
                    f"{', '.join(fitting) or shapes}"
                )
            rows = file.get_slice(chosen[0])[: len(words) if limit is None else limit]
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file that numpy reads ({error})") from error
    return words[: len(rows)], np.asarray(rows, dtype=np.float32)


def _words_of(vocabulary: Sequence[str] | str | os.PathLike[str], encoding: str) -> list[str]:
    if not isinstance(vocabulary, str | os.PathLike):
        return list(vocabulary)
    text = Path(vocabulary).read_text(encoding=encoding)
    if not text.lstrip().startswith(("[", "{")):
        return text.removesuffix("\n").split("\n")
    known = json.loads(text)
    return sorted(known, key=known.__getitem__) if isinstance(known, dict) else list(known)


# --- fastText's binary format -----------------------------------------------------------------------


def _read_fasttext(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Read:
    def take(form: str) -> tuple[int, ...]:
        content = file.read(struct.calcsize(form))
        if len(content) < struct.calcsize(form):
            raise ValueError(f"{path} is cut short: get it again")
        return struct.unpack(form, content)

    _, version = take("<ii")
    if version != FASTTEXT_VERSION:
        raise ValueError(
            f"{path} has version {version} of fastText's format: only {FASTTEXT_VERSION} is known"
        )
    D, *_, bucket, shortest, longest, _, _ = take("<12id")
    _, n_words, n_labels, _, pruned = take("<iiiqq")
    if n_labels or pruned >= 0:
        raise ValueError(f"{path} is a classifier or pruned: give fastText's unsupervised vectors")
    words = [_fasttext_word(file, encoding, path) for _ in range(n_words)]
    (quantized,) = take("<?")
    n_rows, width = take("<qq")
    if quantized or width != D or n_rows != n_words + bucket:
        raise ValueError(f"{path} is quantized, or its sizes do not fit: give fastText's full .bin")
    table = _room(n_rows, D, path)
    if file.readinto(table) != table.nbytes:  # type: ignore[attr-defined]
        raise ValueError(f"{path} is cut short: get it again")
    chosen = words[:limit]
    rows = np.empty((len(chosen), D), dtype=np.float32)
    for place, word in enumerate(chosen):
        grams = (
            [n_words + gram_hash(gram) % bucket for gram in n_grams(word, shortest, longest)]
            if bucket
            else []
        )
        rows[place] = table[[place, *grams]].mean(axis=0, dtype=np.float64)
    return chosen, rows


def _fasttext_word(file: BinaryIO, encoding: str, path: Path) -> str:
    letters = b"".join(iter(lambda: file.read(1), b"\0"))
    if len(file.read(9)) < 9:  # its count and kind
        raise ValueError(f"{path} is cut short: get it again")
    return letters.decode(encoding)


def n_grams(word: str, shortest: int, longest: int) -> Iterator[bytes]:
    """A word's n-grams of letters in UTF-8, between "<" and ">": those that fastText adds to it.

    >>> list(n_grams("ab", 3, 4))
    [b'<ab', b'<ab>', b'ab>']
    """
    if word == "</s>":  # the end of a line has none
        return
    letters = f"<{word}>"
    for start in range(len(letters)):
        for size in range(shortest, min(longest, len(letters) - start) + 1):
            if not (size == 1 and start in (0, len(letters) - 1)):
                yield letters[start : start + size].encode()


def gram_hash(gram: bytes) -> int:
    """FNV-1a over 32 bits, bytes taken as signed: the n-gram's place before the remainder.

    >>> gram_hash(b"")
    2166136261
    """
    value = 2_166_136_261
    for byte in gram:
        value = ((value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16_777_619) & 0xFFFFFFFF
    return value
