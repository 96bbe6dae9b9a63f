"""The list of lies, and how one is planted and taken back."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = [Path(__file__).with_name(name) for name in ("lies.toml", "book.toml")]


@dataclass(frozen=True)
class Lie:
    """`old` of the file `path`, found there once, becomes `new`; `tests`, arguments of pytest, must fail."""

    path: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.path}: {self.old.strip()} -> {self.new.strip() or 'nothing'}"

    def tell(self, source: str) -> str:
        """The source with the lie in it.

        Raises
        ------
        ValueError
            If `old` is not found exactly once: the list has to follow the code.
        """
        if (n := source.count(self.old)) != 1:
            raise ValueError(f"{self.path} holds {self.old!r} {n} times, not once: bring the list up to date")
        return source.replace(self.old, self.new)


def lies() -> list[Lie]:
    """All lies, in the order of their lists."""
    files = [tomllib.loads(path.read_text(encoding="utf-8"))["file"] for path in LISTS]
    return [
        Lie(file["path"], old, new, *tests or [file["tests"]])
        for file in itertools.chain(*files)
        for old, new, *tests in file["lies"]
    ]


@contextlib.contextmanager
def planted(folder: Path, lie: Lie) -> Iterator[None]:
    """Within the block the file under `folder` holds the lie; afterwards it is as before, its time too."""
    path = folder / lie.path
    kept = path.with_suffix(".kept")
    source = path.read_text(encoding="utf-8")
    shutil.copy2(path, kept)
    try:
        path.write_text(lie.tell(source), encoding="utf-8")
        yield
    finally:
        kept.replace(path)
