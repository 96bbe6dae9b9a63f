"""GGUF, the format of llama.cpp: weights, tokens and configuration of a model in one file.

The header is read here, since the library's reader makes several objects of every token; the library `gguf`
knows the types of rounded numbers and turns them into floats.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embviz.imports import require
from embviz.storage import whole_file

MAGIC = b"GGUF"
EMBEDDING = "token_embd.weight"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
UINT32, STRING, ARRAY = 4, 8, 9
COPIED = 1 << 24  # bytes at a time
MOST_DEEP = 3  # arrays of arrays
# The names of Hugging Face for what the configuration says, below the architecture's name.
OPTIONS = {
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
}
N_ROWS = 1_024  # that are turned into floats together
NO_HEAD = ("bert", "encoder")  # in the names of architectures without an output matrix


@dataclass(frozen=True, eq=False)
class GGUFTensor:
    """Where a tensor lies in its file: its type's number, its shape (rows first) and its first byte."""

    kind: int
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """What the header of a file says: fields by name, and tensors by name."""

    path: Path
    fields: dict[str, Any]
    tensors: dict[str, GGUFTensor]
    places: dict[str, tuple[int, int]]  # first byte and end of each field, and of "" the list of tensors

    @property
    def tokens(self) -> list[str] | None:
        """The vocabulary, where the file has one."""
        return self.fields.get("tokenizer.ggml.tokens")

    @property
    def config(self) -> dict[str, Any]:
        """The configuration by Hugging Face's names."""
        architecture = str(self.fields.get("general.architecture", ""))
        found: dict[str, Any] = {
            name: value
            for key, name in OPTIONS.items()
            if isinstance(value := self.fields.get(f"{architecture}.{key}"), int)
        }
        found["model_type"] = architecture
        if not any(word in architecture for word in NO_HEAD):
            found["tie_word_embeddings"] = "output.weight" not in self.tensors
        return found

    def write_without_tokens(self, path: str | os.PathLike[str]) -> None:
        """A copy without the tokenizer's lists, which take other readers minutes."""
        architecture = str(self.fields["general.architecture"])
        size = f"{architecture}.vocab_size".encode()
        with (
            open(self.path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            whole_file(Path(path)) as temporary,
            open(temporary, "wb") as copy,
        ):
            kept = [
                data[first:end]
                for name, (first, end) in self.places.items()
                if name and not name.startswith("tokenizer.ggml.")
            ]
            if f"{architecture}.vocab_size" not in self.fields and self.tokens is not None:
                kept.append(
                    struct.pack("<Q", len(size)) + size + struct.pack("<II", UINT32, len(self.tokens))
                )
            (first, end), alignment = self.places[""], int(self.fields.get("general.alignment", 32))
            copy.write(data[:8] + struct.pack("<QQ", len(self.tensors), len(kept)) + b"".join(kept))
            copy.write(data[first:end])
            copy.write(bytes(-copy.tell() % alignment))
            start = -(-end // alignment) * alignment
            for place in range(start, len(data), COPIED):
                copy.write(data[place : place + COPIED])

    def is_known(self, name: str) -> bool:
        """Whether the library can turn a tensor's numbers into floats."""
        quants = _library().quants
        kind = self.kind_of(name)
        return kind in ("F32", "F16") or getattr(quants, kind, None) is not None

    def kind_of(self, name: str) -> str:
        """The name of a tensor's type, such as ``Q8_0``."""
        gguf = _library()
        try:
            return str(gguf.GGMLQuantizationType(self.tensors[name].kind).name)
        except ValueError:
            return f"type {self.tensors[name].kind}"

    def read(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        """A tensor, or some of its rows, float32."""
        gguf = _library()
        found = self.tensors[name]
        kind = gguf.GGMLQuantizationType(found.kind)
        per_block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
        row = found.shape[-1] // per_block * n_bytes
        n_rows = math.prod(found.shape[:-1])
        stored = np.memmap(self.path, mode="r", offset=found.start, shape=(n_rows, row))
        if rows is not None and len(found.shape) == 2:
            one_piece = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
            part = np.asarray(stored[int(rows[0]) : int(rows[-1]) + 1] if one_piece else stored[rows])
            return _floats(part, kind)
        whole = _floats(np.asarray(stored), kind)
        whole = whole.reshape(found.shape)
        return whole if rows is None else whole[rows]


def _floats(rows: np.ndarray, kind: Any) -> np.ndarray:
    """Stored rows as float32, 1,024 at a time: the library's groups of 16 take five times longer."""
    quants = _library().quants
    by_rows = getattr(getattr(quants, kind.name, None), "dequantize_rows", None)
    if by_rows is None or not len(rows):
        found = np.asarray(quants.dequantize(rows, kind), dtype=np.float32)
        return found if found.flags.writeable else found.copy()  # float32 is the file's own memory
    parts = [by_rows(rows[first : first + N_ROWS]) for first in range(0, len(rows), N_ROWS)]
    return np.asarray(np.concatenate(parts) if len(parts) > 1 else parts[0], dtype=np.float32)


def _library() -> Any:
    require("gguf", "gguf", purpose="a GGUF file")
    import gguf

    return gguf


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as GGUF files do."""
    with open(path, "rb") as file:
        return file.read(4) == MAGIC


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """The header of a GGUF file, versions 2 and 3; MissingExtraError without the library gguf."""
    path = Path(path)
    _library()
    if not is_gguf(path):
        raise ValueError(f"{path} is not a GGUF file")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _header(path, _Reader(data))
        except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
            raise ValueError(f"{path} is not a whole GGUF file ({error}): get it again") from error


class _Reader:
    """Numbers and strings of a header, one after the other."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place = data, 4

    def number(self, form: str) -> Any:
        (found,) = struct.unpack(f"<{form}", self.piece(struct.calcsize(f"<{form}")))
        return found

    def string(self) -> str:
        return self.piece(self.number("Q")).decode("utf-8", "backslashreplace")

    def piece(self, n_bytes: int) -> bytes:
        if self.place + n_bytes > len(self.data):
            raise IndexError("past the end")
        found = self.data[self.place : self.place + n_bytes]
        self.place += n_bytes
        return found

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, n = self.number("I"), self.number("Q")
            if n > len(self.data) or depth > MOST_DEEP:  # every entry takes a byte at least
                raise IndexError("past the end")
            if inner in SCALARS:
                form = SCALARS[inner]
                return np.frombuffer(self.piece(n * struct.calcsize(form)), dtype=f"<{form}")
            return [self.value(inner, depth + 1) for _ in range(n)]
        if kind not in SCALARS:
            raise IndexError(f"a field of type {kind}")
        return self.number(SCALARS[kind])


def _header(path: Path, reader: _Reader) -> GGUFFile:
    if (version := reader.number("I")) not in (2, 3):
        raise ValueError(f"{path} is GGUF of version {version}, of which 2 and 3 are read")
    n_tensors, n_fields = reader.number("Q"), reader.number("Q")
    fields, places = {}, {}
    for _ in range(n_fields):
        first = reader.place
        name = reader.string()
        fields[name] = reader.value(reader.number("I"))
        places[name] = (first, reader.place)
    listed, first = {}, reader.place
    for _ in range(n_tensors):
        name = reader.string()
        shape = tuple(reader.number("Q") for _ in range(reader.number("I")))[::-1]
        listed[name] = (shape, reader.number("I"), reader.number("Q"))
    places[""] = (first, reader.place)
    alignment = int(fields.get("general.alignment", 32))
    if alignment < 1:
        raise ValueError(f"{path} has an alignment of {alignment} bytes: it is damaged")
    first = -(-reader.place // alignment) * alignment
    tensors = {}
    for name, (shape, kind, offset) in listed.items():
        tensors[name] = GGUFTensor(kind, shape, first + offset)
        if (size := _size(shape, kind)) is not None and first + offset + size > len(reader.data):
            raise ValueError(f"{path} is cut short: {name} lies past its end; get it again")
    return GGUFFile(path, fields, tensors, places)


def _size(shape: tuple[int, ...], kind: int) -> int | None:
    """Bytes of a tensor; None for a type that the library does not have."""
    gguf = _library()
    try:
        per_block, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return None
    return math.prod(shape) // per_block * n_bytes
