"""Files of word vectors as others write them: word2vec, GloVe, fastText, safetensors; packed or not.

No pickle is read: a file of gensim's own is refused with the line that converts it.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
from safetensors import SafetensorError, safe_open

from embviz.memory import require_memory

Read = tuple[list[str], np.ndarray]  # a vocabulary and its rows (V, D), float32
Raw = tuple[Sequence[bytes | str], np.ndarray]  # the same with words as they are stored
FASTTEXT = 793_712_314  # the number that a binary file of fastText begins with
FASTTEXT_VERSION = 12
GGUF_ROWS = 16_384  # rows that are turned into floats at a time
PEEKED = 20  # lines of a file without a header from which its dimension follows
LONGEST_LINE = 1 << 24  # bytes of a record in text: a million numbers
BLANKS = "or a word before it holds a blank, which this format cannot store: get the file again"
LONGEST_WORD = 1 << 16  # bytes of a word in a binary file
BOM = b"\xef\xbb\xbf"  # the byte-order mark that some editors put before UTF-8
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")  # bytes of no text
Undecodable = Literal["refuse", "replace", "skip"]


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
    undecodable: Undecodable = "refuse",
) -> Read:
    """Words and their vectors from a file; which format it is shows in its first bytes.

    Parameters
    ----------
    path : path
        word2vec's text or binary format, with its header; GloVe's text, without one; fastText's ``.vec`` and
        ``.bin`` (a word's vector is the mean of its own and its n-grams', as fastText computes it);
        safetensors; the input embedding of a GGUF file; the JSON of wink's packages; a folder of Hugging Face
        with one file of safetensors and its vocabulary. Text, and word2vec's binary format, may be packed as
        ``.gz``, ``.bz2``, ``.xz`` or as the one file of a ``.zip``.
    limit : int, optional
        Read the first so many words, which in these files are the most frequent.
    encoding : str
        Of the words.
    vocabulary : list of str, or a file, optional
        Needed for safetensors: the words in the order of the rows; a file has one word per line, or is JSON,
        a list or token to id.
    tensor : str, optional
        Of a safetensors file with several tables of so many rows: which one.
    undecodable : {"refuse", "replace", "skip"}
        A word whose bytes are not of that encoding is refused, gets a mark of replacement for each wrong
        byte, or is left out; a warning counts such words.

    Returns
    -------
    list of str, and array (V, D), float32

    Raises
    ------
    ValueError
        If the file is cut short, malformed, goes on after its last record, is of another encoding, holds a
        NaN or infinity, or is a pickle or a Git LFS pointer; the message names the record, and what to do.
    MemoryError
        If the vectors would not fit, with the size.
    """
    path = Path(path)
    if path.is_dir():
        path, vocabulary = _table_of_folder(path, vocabulary)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}: read at least one word, or leave it out")
    if undecodable not in get_args(Undecodable):
        raise ValueError(f'undecodable is {undecodable!r}: use "refuse", "replace" or "skip"')
    try:
        with _open(path) as file:
            first = file.peek(64)[:64] if hasattr(file, "peek") else b""
            words, rows = _reader(first, path, vocabulary, tensor)(file, limit, encoding)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is cut short or damaged ({error}): get it again") from error
    decoded, rows = _decode(words, rows, encoding, undecodable, path)
    _check_finite(decoded, rows, path)
    return _first_of_each(decoded, rows, path)


def _decode(
    words: Sequence[bytes | str], rows: np.ndarray, encoding: str, undecodable: Undecodable, path: Path
) -> Read:
    """Words as text; words in another encoding are refused, repaired or left out, and counted."""
    decoded: list[str] = []
    wrong: list[int] = []
    for place, word in enumerate(words):
        if isinstance(word, str):
            decoded.append(word)
            continue
        try:
            decoded.append(word.decode(encoding))
        except UnicodeDecodeError as error:
            if undecodable == "refuse":
                raise ValueError(
                    f"{path}: the word of record {place + 1}, {word!r}, is not {error.encoding}: give "
                    'undecodable="replace" or "skip", or its encoding if that is another (such as "latin-1")'
                ) from error
            wrong.append(place)
            decoded.append(word.decode(encoding, errors="replace"))
    if wrong:
        done = "are left out" if undecodable == "skip" else "have marks of replacement"
        warnings.warn(f"{path}: {len(wrong):,} words are not {encoding} and {done}", stacklevel=4)
    if undecodable == "skip" and wrong:
        kept = np.setdiff1d(np.arange(len(decoded)), wrong)
        return [decoded[i] for i in kept], rows[kept]
    return decoded, rows


def _check_finite(words: list[str], rows: np.ndarray, path: Path) -> None:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        place = int(finite.argmin())
        raise ValueError(
            f"{path}: record {place + 1}, {words[place]!r}, holds NaN or infinity (so do "
            f"{int((~finite).sum()) - 1:,} more): train the vectors again, or take the records out"
        )


Reader = Callable[[BinaryIO, int | None, str], Raw]


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


def _reader(
    first: bytes, path: Path, vocabulary: Sequence[str] | str | os.PathLike[str] | None, tensor: str | None
) -> Reader:
    """What reads a file that begins so."""
    if first.startswith(b"version https://git-lfs"):
        raise ValueError(f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull`")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path} is UTF-16, which is not read: save it as UTF-8")
    if first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ValueError(
            f"{path} is a pickle, which can run code and is not read: convert it with gensim, "
            f"KeyedVectors.load({str(path)!r}).save_word2vec_format('vectors.bin', binary=True), for a whole "
            "model Word2Vec.load(...).wv instead of KeyedVectors.load(...)"
        )
    if first.startswith(b"GGUF"):
        return lambda file, limit, encoding: _read_gguf(path, limit)
    if first.lstrip()[:1] == b"{":
        return lambda file, limit, encoding: _read_wink(file, limit, path)
    if first[:4] == struct.pack("<i", FASTTEXT):
        return lambda file, limit, encoding: _read_fasttext(file, limit, encoding, path)
    if is_safetensors(path, first):
        return lambda file, limit, encoding: _read_safetensors(path, limit, vocabulary, tensor, encoding)
    header = first.removeprefix(BOM).split(b"\n", 1)[0].split()
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


def _read_word2vec(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Raw:
    n_words, D = (int(part) for part in file.readline(100).removeprefix(BOM).split())
    if min(n_words, D) < 1:
        raise ValueError(
            f"{path} has {n_words} words in {D} dimensions by its header: there is nothing to read"
        )
    # a record takes two bytes a number at least: a wild header is refused before it is allocated
    packed = not hasattr(file, "fileno") or isinstance(file, gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile)
    if not packed and path.stat().st_size < n_words * (2 * D + 1):
        raise ValueError(f"{path} is too short for its {n_words} words in {D} dimensions: get it again")
    sample = file.peek(4096) if hasattr(file, "peek") else b""
    n_read = n_words if limit is None else min(n_words, limit)
    if CONTROL.search(sample):
        return _read_binary(file, n_read, n_words, D, path, whole=limit is None)
    words, rows = _read_lines(_lines(file, path), n_read, n_words, D, path)
    if limit is None and next((line for line in _lines(file, path) if line.strip()), None) is not None:
        raise ValueError(
            f"{path} goes on after the {n_words} records that its header names: mend the header, or read the "
            f"first ones with limit={n_words}"
        )
    return words, rows


def _read_glove(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Raw:
    """Text without a header: words may hold blanks or be empty; D leaves the fewest odd records."""
    peeked = [line for line in itertools.islice(_lines(file, path), PEEKED) if line.strip()]
    odd = {D: sum(_is_odd(line, D) for line in peeked) for D in {len(line.split()) - 1 for line in peeked}}
    D = min(odd, key=lambda n: (odd[n], n), default=0)
    if D < 1 or 2 * sum(not _numbers(line, D) for line in peeked) >= len(peeked):
        raise ValueError(
            f'{path} neither starts with "V D", as word2vec files do, nor has words and numbers in its first '
            "lines, as GloVe's do: it is no file of word vectors that is known here"
        )
    file.seek(0)
    n_lines = sum(1 for line in _lines(file, path) if line.strip()) if limit is None else limit
    file.seek(0)
    return _read_lines(_lines(file, path), n_lines, n_lines, D, path, exact=limit is None)


def _is_odd(line: bytes, D: int) -> bool:
    """Whether a record in D dimensions would be malformed, or its word end in a number."""
    if not _numbers(line, D):
        return True
    word = line.rsplit(maxsplit=D)[0].strip(b" ")
    return b" " in word and bool(_numbers(b"x " + word.rsplit(b" ", 1)[1], 1))


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Lines of a text, each of a bounded length."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise ValueError(
                f"{path} has a line of more than {LONGEST_LINE:,} bytes: it is no text of vectors"
            )
        yield line


def _numbers(line: bytes, D: int) -> list[float]:
    """The last D numbers of a record in text; an empty list if it is none. The word may be empty."""
    parts = line.rsplit(maxsplit=D)
    if line[:1] in (b" ", b"\t") and len(parts) == D:
        parts = [b"", *parts]
    if len(parts) != D + 1:
        return []
    try:
        return [] if b"_" in b"".join(parts[1:]) else [float(part) for part in parts[1:]]
    except ValueError:
        return []


def _read_lines(
    lines: Iterator[bytes], n_read: int, n_words: int, D: int, path: Path, *, exact: bool = True
) -> Raw:
    """Records in text; `exact` is false where the file may end before `n_read`."""
    words: list[bytes] = []
    doubtful: list[int] = []
    n_empty = 0
    rows = _room(n_read, D, path)
    line = b"\n"
    for line in itertools.islice((one.removeprefix(BOM) for one in lines if one.strip()), n_read):
        numbers = _numbers(line, D)
        if len(numbers) != D:
            raise ValueError(
                f"{path}: record {len(words) + 1} of {n_words} is not a word and {D} numbers: get it again"
            )
        rows[len(words)] = numbers
        parts = line.rstrip().rsplit(maxsplit=D)
        word = parts[0].strip(b" ") if len(parts) > D else b""
        n_empty += not word
        if word and _is_odd(line, D):
            doubtful.append(len(words) + 1)
        words.append(word)
    if len(words) < n_read and exact:
        raise ValueError(f"{path}: record {len(words) + 1} of {n_words} is missing: get the file again")
    if n_empty:
        warnings.warn(f"{path}: the word of {n_empty:,} records is empty", stacklevel=6)
    if doubtful:
        first = words[doubtful[0] - 1].decode(errors="replace")
        warnings.warn(
            f"{path}: a word ends in a number in {len(doubtful):,} records, the first of them record "
            f"{doubtful[0]} with {first!r}: it may have a number more than the others' {D}",
            stacklevel=6,
        )
    if words and not line.endswith(b"\n"):
        warnings.warn(f"{path}: the last line has no end, so that its last number may be cut", stacklevel=6)
    return words, rows[: len(words)]


def _read_binary(file: BinaryIO, n_read: int, n_words: int, D: int, path: Path, *, whole: bool) -> Raw:
    words: list[bytes] = []
    rows, rest = _room(n_read, D, path), b""
    for i in range(n_read):
        while (end := rest.find(b" ")) < 0 or end + 1 + 4 * D > len(rest):
            if end < 0 and len(rest) > LONGEST_WORD:
                raise ValueError(f"{path}: record {i + 1} of {n_words} has no word: it is no word2vec file")
            more = file.read(1 << 20)
            if not more:
                raise ValueError(f"{path}: record {i + 1} of {n_words} is cut short, {BLANKS}")
            rest += more
        # word2vec ends a record with a newline, gensim does not
        words.append(rest[:end].lstrip(b"\n"))
        if CONTROL.search(words[i]) or b"\n" in words[i]:
            raise ValueError(
                f"{path}: the word of record {i + 1} of {n_words} holds bytes of no text, {BLANKS}"
            )
        rows[i] = np.frombuffer(rest, dtype="<f4", count=D, offset=end + 1)
        rest = rest[end + 1 + 4 * D :]
    if whole and (rest + file.read(2)).strip(b"\n"):
        raise ValueError(f"{path} goes on after the {n_words} records that its header names, {BLANKS}")
    return words, rows


def _read_safetensors(
    path: Path,
    limit: int | None,
    vocabulary: Sequence[str] | str | os.PathLike[str] | None,
    tensor: str | None,
    encoding: str,
) -> Raw:
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


# --- files of models, and packages of vectors ---------------------------------------------------------


def _read_gguf(path: Path, limit: int | None) -> Raw:
    from embviz.words.gguf_files import EMBEDDING, read_gguf

    found = read_gguf(path)
    if found.tokens is None or EMBEDDING not in found.tensors:
        raise ValueError(f"{path} has no tokens, or no {EMBEDDING}: it has no vectors of words")
    n_rows, D = found.tensors[EMBEDDING].shape
    n_rows = min(n_rows, len(found.tokens), n_rows if limit is None else limit)
    require_memory(4 * n_rows * D, what=f"{n_rows:,} vectors of {path}", instead="give a limit")
    rows = np.empty((n_rows, D), dtype=np.float32)
    for first in range(0, n_rows, GGUF_ROWS):
        block = np.arange(first, min(first + GGUF_ROWS, n_rows))
        rows[block] = found.read(EMBEDDING, block)
    return found.tokens[:n_rows], rows


WINK_RECORD = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+.\deE,]+)\]')


def _read_wink(file: BinaryIO, limit: int | None, path: Path) -> Raw:
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


def _table_of_folder(
    folder: Path, vocabulary: Sequence[str] | str | os.PathLike[str] | None
) -> tuple[Path, Sequence[str] | str | os.PathLike[str]]:
    """The file of weights of a folder of Hugging Face, and its vocabulary."""
    files = sorted(folder.glob("*.safetensors"))
    if len(files) != 1:
        raise ValueError(f"{folder} has {len(files)} files of safetensors: name the file of vectors")
    if vocabulary is None:
        known = [folder / name for name in ("tokenizer.json", "vocab.json", "vocab.txt")]
        vocabulary = next((file for file in known if file.is_file()), None)
    if vocabulary is None:
        raise ValueError(f"{folder} has no tokenizer.json, vocab.json or vocab.txt: give vocabulary=")
    if isinstance(vocabulary, Path) and vocabulary.name == "tokenizer.json":
        vocabulary = _words_of_tokenizer(vocabulary)
    return files[0], vocabulary


def _words_of_tokenizer(file: Path) -> list[str]:
    """The tokens of a tokenizer.json in the order of their ids."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        known = told["model"]["vocab"]
        ids = known if isinstance(known, dict) else {token: i for i, (token, _) in enumerate(known)}
        ids = ids | {one["content"]: one["id"] for one in told.get("added_tokens", [])}
        names = {int(i): str(token) for token, i in ids.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} has no vocabulary that is understood: give vocabulary=") from error
    return [names.get(i, f"[row {i}]") for i in range(max(names, default=-1) + 1)]


# --- fastText's binary format -----------------------------------------------------------------------


def _read_fasttext(file: BinaryIO, limit: int | None, encoding: str, path: Path) -> Raw:
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
    words = [_fasttext_word(file, path).decode(encoding) for _ in range(n_words)]
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


def _fasttext_word(file: BinaryIO, path: Path) -> bytes:
    letters = b"".join(iter(lambda: file.read(1), b"\0"))
    if len(file.read(9)) < 9:  # its count and kind
        raise ValueError(f"{path} is cut short: get it again")
    return letters


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
