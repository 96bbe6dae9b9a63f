"""The documents that a model reads, packed into one small file: for machines that can't hold the data set.

A pack is made where the data set is, checked there against its checksum, and carries that checksum along.
It is looked for in ``texts/`` below the cache folder, then below the folder that ``EMBVIZ_DATA_DIR`` names.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embviz.storage import cache_folder, mirror_folder, whole_file

_BETWEEN = "\0"  # in no document: there it would stand for an end


class DamagedPackError(ValueError):
    """A pack that is cut short, altered, or of other documents than its name says."""


@dataclass(frozen=True)
class Split:
    """Documents to train on, others held out, and the SHA-256 of the whole text that they are from."""

    documents: list[str]
    held_out: list[str]
    checksum: str


def pack_name(about: Mapping[str, Any]) -> str:
    """File name of the pack of what `about` describes: a corpus, and which of its documents."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    return f"{about['corpus']}-{digest}.xz"


def write_pack(split: Split, about: Mapping[str, Any]) -> Path:
    """Write a pack into the cache folder; returns the file."""
    parts = [_BETWEEN.join(part).encode() for part in (split.documents, split.held_out)]
    header = {
        "about": dict(about),
        "checksum": split.checksum,
        "bytes": [len(part) for part in parts],
        "sha256": hashlib.sha256(b"".join(parts)).hexdigest(),
    }
    path = cache_folder() / "texts" / pack_name(about)
    with whole_file(path) as temporary, lzma.open(temporary, "wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        for part in parts:
            file.write(part)
    return path


def read_pack(about: Mapping[str, Any]) -> Split | None:
    """The pack of what `about` describes, or None where there is none.

    Raises
    ------
    DamagedPackError
        If the file is cut short or altered, or holds other documents.
    """
    folders = [folder for folder in (cache_folder(), mirror_folder()) if folder is not None]
    paths = [folder / "texts" / pack_name(about) for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    try:
        with lzma.open(path) as file:
            header = json.loads(file.readline())
            parts = [file.read(n_bytes) for n_bytes in header["bytes"]]
        found = hashlib.sha256(b"".join(parts)).hexdigest()
        if header["about"] != dict(about) or found != header["sha256"]:
            raise ValueError("its documents are others")
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedPackError(
            f"{path} is cut short or altered ({error}): delete it, and copy or pack it again"
        ) from error
    documents, held_out = (part.decode().split(_BETWEEN) for part in parts)
    return Split(documents, held_out, header["checksum"])
