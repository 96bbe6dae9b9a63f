"""A registry of made data, so that its tests need no real file and no network."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path

TEXT = b" a rose is a rose is a rose and so on"


def checksum(content: bytes, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, content).hexdigest()


def toml_entry(name: str, *files: dict, kind: str = "corpus", form: str = "words", **fields: str) -> str:
    """One entry; a file is its fields, with `forms` as a list of tables."""
    fields = {"title": "made", "kind": kind, "format": form, "licence": "ours", "citation": "us", **fields}
    lines = [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    for file in files:
        lines.append(f"[[{name}.files]]")
        for key, value in file.items():
            lines.append(f"{key} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def stored(path: str, content: bytes, **fields: object) -> dict:
    """A form that is known by its SHA-256 and size."""
    return {"path": path, "size": len(content), "sha256": checksum(content), **fields}


def whole(*forms: dict, text: bytes | None = None, part: str = "all") -> dict:
    """A file in the given forms, with its text's checksum where `text` is given."""
    known = {} if text is None else {"text_size": len(text), "text_sha256": checksum(text)}
    return {"part": part, **known, "forms": list(forms)}


def write(folder: Path, path: str, content: bytes) -> Path:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


ROSE_XZ = lzma.compress(TEXT)
