"""Files of word vectors as others write them: word2vec, GloVe, fastText; packed or not.

No pickle is read: a file of gensim's own is refused with the line that converts it.
"""

from __future__ import annotations

import array
import bz2
import gzip
import itertools
import json
import lzma
import os
import re
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from embviz.imports import require

Read = tuple[list[str], np.ndarray]  # a vocabulary and its rows (V, D), float32
Raw = tuple[list[bytes], np.ndarray]  # the same with words as they are stored
FASTTEXT = struct.pack("<i", 793_712_314)  # what a binary file of fastText begins with
PEEKED = 20  # lines of a file without a header from which its dimension follows
BLANKS = "or a word before it holds a blank, which this format cannot store: get the file again"
BOM = b"\xef\xbb\xbf"  # the byte-order mark that some editors put before UTF-8
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")  # bytes of no text


def context_path(path: str | os.PathLike[str]) -> Path:
    """Where the context vectors of a word2vec file lie: its name with ``.context`` added."""
    return Path(f"{os.fspath(path)}.context")


def read_vectors(path: str | os.PathLike[str], *, limit: int | None = None) -> Read:
    """Words and their vectors from a file; which format it is shows in its first bytes.

    Parameters
    ----------
    path : path
        word2vec's text or binary format, with its header; GloVe's text, without one; fastText's ``.vec``, and
        its ``.bin`` by gensim; the JSON of wink's packages. Text, and word2vec's binary format, may be packed
        as ``.gz``, ``.bz2``, ``.xz`` or as the one file of a ``.zip``. Words are UTF-8; where one is not, a
        warning counts such words, and their wrong bytes get marks of replacement.
    limit : int, optional
        Read the first so many words, which in these files are the most frequent.

    Returns
    -------
    list of str, and array (V, D), float32

    Raises
    ------
    MissingExtraError
        If a ``.bin`` of fastText is to be read without gensim.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}: read at least one word, or leave it out")
    if path.is_dir():
        raise _model(path)
    try:
        with _open(path) as file:
            words, rows = _read(file, path, limit)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is cut short or damaged ({error}): get it again") from error
    places: dict[str, int] = {}  # of each word the first: files of the web hold a few twice
    for place, word in enumerate(words):
        places.setdefault(word, place)
    if len(places) < len(words):
        n_twice = len(words) - len(places)
        warnings.warn(f"{path}: {n_twice:,} words came a second time and are left out", stacklevel=3)
        return list(places), rows[list(places.values())]
    return words, rows


def _open(path: Path) -> BinaryIO:
    """The file, unpacked while it is read."""
    with open(path, "rb") as file:
        first = file.read(6)
    if first.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if first.startswith(b"BZh"):
        return bz2.open(path, "rb")  # type: ignore[return-value]
    if first.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(path, "rb")  # type: ignore[return-value]
    if first.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"{path} is an archive of {len(names)} files: unpack it and name one")
            return archive.open(names[0])  # type: ignore[return-value]
    return open(path, "rb")


def _read(file: BinaryIO, path: Path, limit: int | None) -> Read:
    """By the format that the first bytes show."""
    first = file.peek(64)[:64]  # type: ignore[attr-defined]
    if first.startswith(b"version https://git-lfs"):
        raise ValueError(f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull`")
    if first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ValueError(
            f"{path} is a pickle, which can run code and is not read: convert it with gensim, "
            f"KeyedVectors.load({str(path)!r}).save_word2vec_format('vectors.bin', binary=True), for a whole "
            "model Word2Vec.load(...).wv instead of KeyedVectors.load(...)"
        )
    if first.startswith(b"GGUF") or is_safetensors(path, first):
        raise _model(path)
    if first.startswith(FASTTEXT):
        return _read_fasttext(path, limit)
    if first.lstrip()[:1] == b"{":
        return _read_wink(file, limit, path)
    if first.startswith(BOM):
        file.read(len(BOM))
    header = first.removeprefix(BOM).split(b"\n", 1)[0].split()
    if len(header) == 2 and all(part.isdigit() for part in header):
        words, rows = _read_word2vec(file, limit, path)
    else:
        words, rows = _read_glove(file, limit, path)
    decoded = [word.decode(errors="replace") for word in words]
    if n_wrong := sum("\ufffd" in word for word in decoded):
        warnings.warn(f"{path}: {n_wrong:,} words are not UTF-8 and have marks of replacement", stacklevel=4)
    return decoded, rows


def _model(path: Path) -> ValueError:
    return ValueError(
        f"{path} is a model: embviz.inspection.model_vectors({str(path)!r}) reads its embedding"
    )


def is_safetensors(path: Path, first: bytes) -> bool:
    """Whether a file that begins so is one: the length of its header fits, and JSON follows."""
    return first[8:9] == b"{" and struct.unpack("<Q", first[:8])[0] < path.stat().st_size


def _read_word2vec(file: BinaryIO, limit: int | None, path: Path) -> Raw:
    n_words, D = (int(part) for part in file.readline().split())
    if min(n_words, D) < 1:
        raise ValueError(
            f"{path} has {n_words} words in {D} dimensions by its header: there is nothing to read"
        )
    n_read = n_words if limit is None else min(n_words, limit)
    if CONTROL.search(file.peek(4096)):  # type: ignore[attr-defined]
        return _read_binary(file, n_read, n_words, D, path, whole=limit is None)
    words, rows = _read_lines(file, n_read, D, path)
    if len(words) < n_read:
        raise ValueError(f"{path}: record {len(words) + 1} of {n_words} is missing: get the file again")
    if limit is None and any(line.strip() for line in file):
        raise ValueError(
            f"{path} goes on after the {n_words} records that its header names: mend the header, or read the "
            f"first ones with limit={n_words}"
        )
    return words, rows


def _read_glove(file: BinaryIO, limit: int | None, path: Path) -> Raw:
    """Text without a header: a few words hold blanks, so that most of the first lines tell D."""
    peeked = [line for line in itertools.islice(file, PEEKED) if line.strip()]
    ((D, _),) = Counter(len(line.split()) - 1 for line in peeked).most_common(1) or [(0, 0)]
    if D < 1 or 2 * sum(_record(line, D) is None for line in peeked) >= len(peeked):
        raise ValueError(
            f'{path} neither starts with "V D", as word2vec files do, nor has words and numbers in its first '
            "lines, as GloVe's do: it is no file of word vectors that is known here"
        )
    return _read_lines(itertools.chain(peeked, file), limit, D, path)


def _record(line: bytes, D: int) -> tuple[bytes, list[float]] | None:
    """A word, which may hold blanks or be empty, and its last D numbers; None if the line is none."""
    parts = line.rsplit(maxsplit=D)
    if len(parts) == D and line[:1] in (b" ", b"\t"):
        parts = [b"", *parts]
    try:
        return (parts[0].strip(b" "), list(map(float, parts[1:]))) if len(parts) == D + 1 else None
    except ValueError:
        return None


def _read_lines(lines: Iterable[bytes], n_read: int | None, D: int, path: Path) -> Raw:
    """Up to `n_read` records in text."""
    words: list[bytes] = []
    numbers = array.array("f")
    line = b"\n"
    for line in itertools.islice((one for one in lines if one.strip()), n_read):
        if (record := _record(line, D)) is None:
            raise ValueError(f"{path}: record {len(words) + 1} is not a word and {D} numbers: get it again")
        words.append(record[0])
        numbers.extend(record[1])
    if not line.endswith(b"\n"):
        warnings.warn(f"{path}: the last line has no end, so that its last number may be cut", stacklevel=6)
    return words, np.frombuffer(numbers, dtype=np.float32).reshape(len(words), D)


def _read_binary(file: BinaryIO, n_read: int, n_words: int, D: int, path: Path, *, whole: bool) -> Raw:
    words: list[bytes] = []
    numbers, rest = bytearray(), b""
    for i in range(1, n_read + 1):
        while (end := rest.find(b" ")) < 0 or end + 1 + 4 * D > len(rest):
            if not (more := file.read(1 << 20)):
                raise ValueError(f"{path}: record {i} of {n_words} is cut short, {BLANKS}")
            rest += more
        # word2vec ends a record with a newline, gensim does not
        words.append(word := rest[:end].lstrip(b"\n"))
        if CONTROL.search(word) or b"\n" in word:
            raise ValueError(f"{path}: the word of record {i} of {n_words} holds bytes of no text, {BLANKS}")
        numbers += rest[end + 1 : end + 1 + 4 * D]
        rest = rest[end + 1 + 4 * D :]
    if whole and (rest + file.read(2)).strip(b"\n"):
        raise ValueError(f"{path} goes on after the {n_words} records that its header names, {BLANKS}")
    return words, np.frombuffer(numbers, dtype="<f4").reshape(n_read, D)


def _read_fasttext(path: Path, limit: int | None) -> Read:
    """fastText's ``.bin``: a word's vector is the mean of its own and its n-grams'."""
    require("fasttext", "gensim", purpose="a .bin of fastText")
    from gensim.models.fasttext import load_facebook_vectors

    found = load_facebook_vectors(str(path))
    return found.index_to_key[:limit], np.array(found.vectors[:limit], dtype=np.float32)


WINK_RECORD = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+.\deE,]+)\]')


def _read_wink(file: BinaryIO, limit: int | None, path: Path) -> Read:
    """The JSON of wink's packages: sizes, ``words`` by frequency, ``vectors`` by word, a record at a time."""
    content = file.read()
    start = content.find(b'"vectors":{')
    try:
        header = json.loads(content[:start].rstrip(b", \n") + b"}")
        words, D, at = list(header["words"]), int(header["dimensions"]), int(header["wordIndex"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is JSON, but not of wink's word vectors (words, dimensions)") from error
    n_words = len(words) if limit is None else min(limit, len(words))
    rows, seen = np.empty((n_words, D), dtype=np.float32), np.zeros(n_words, dtype=bool)
    for record in WINK_RECORD.finditer(content, start):
        numbers = record[2].split(b",")
        place = int(numbers[at]) if len(numbers) > at else -1
        if not 0 <= place < n_words:
            continue  # an unknown word's vector, or one beyond the limit
        if json.loads(b'"' + record[1] + b'"') != words[place]:
            raise ValueError(f"{path}: the record of {words[place]!r} belongs to another word: get it again")
        rows[place], seen[place] = list(map(float, numbers[:D])), True
    if not seen.all():
        raise ValueError(f"{path} has no vector of {words[int(seen.argmin())]!r}: get it again")
    return words[:n_words], rows
