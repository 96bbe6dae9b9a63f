"""Copies of the chapters to work on, so that running and saving them leaves the book as it is."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

MANIFEST = ".embviz-chapters.json"  # beside the copies: the SHA-256 of each as it was written
NOT_CHAPTERS = {"_build", "assets", "node_modules", ".ipynb_checkpoints"}


def copy_chapters(
    book: Path, folder: Path, filled: Callable[[bytes, str], bytes]
) -> tuple[list[str], list[str]]:
    """Copy the notebooks below `book` into `folder`; a copy that was edited is never overwritten.

    What a copy holds is `filled(notebook, name)`, with a name such as ``geometry/grokking``.

    Returns
    -------
    two lists of str
        Paths below `folder`: what was written, new or newer than an unedited copy; and the edited copies
        whose chapter has changed in the book since, which are left alone.
    """
    book, folder = book.resolve(), folder.resolve()
    if folder.is_relative_to(book) or book.is_relative_to(folder):
        raise ValueError(f"{folder} and the book {book} lie one inside the other: choose another --folder")
    folder.mkdir(parents=True, exist_ok=True)
    copied, written, kept = _read_manifest(folder), [], []
    for chapter in sorted(book.rglob("*.ipynb")):
        name = chapter.relative_to(book)
        if NOT_CHAPTERS & set(name.parts):
            continue
        text = filled(chapter.read_bytes(), name.with_suffix("").as_posix())
        copy, key, now = folder / name, name.as_posix(), _digest(text)
        there = _digest(copy.read_bytes()) if copy.exists() else None
        if there == now:
            copied[key] = now
        elif there is None or there == copied.get(key):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
            copied[key] = now
            written.append(key)
        elif copied.get(key) != now:
            kept.append(key)
    shutil.copyfile(book / "_toc.yml", folder / "_toc.yml")  # by which a chapter knows that it is one
    (folder / MANIFEST).write_text(json.dumps(copied, indent=1, sort_keys=True), encoding="utf-8")
    return written, kept


def _read_manifest(folder: Path) -> dict[str, str]:
    """Empty where there is none, or where it can't be read: every copy then counts as edited."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
