"""What the code is, committed or not: digests of the files that compute results."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path

from embviz.project import NoProjectError, find_project

PACKAGE = Path(__file__).resolve().parent.parent
LIBRARIES = ("numpy", "scipy", "torch", "numba", "pandas", "pyarrow", "scikit-learn")
NOT_CODE = {"__pycache__", "_build", "node_modules", "site-packages"}


def tree_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of a folder's Python files, at any depth."""
    digest = hashlib.sha256()
    for path in sorted(_python_files(folder)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if path.name not in NOT_CODE and not path.name.startswith("."):
                yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def module_folder(module: str) -> Path | None:
    """The folder that a module or package lies in, found without importing it; None if it isn't there.

    For ``book.geometry.experiments`` it is ``book/geometry``: the paper's folder. The project's own modules
    come before those that are installed.
    """
    places = [Path(place) for place in _installed(module.split(".")[0])]
    with contextlib.suppress(NoProjectError):
        places.insert(0, find_project().root)
    for place in places:
        path = place.resolve().joinpath(*module.split("."))
        if path.is_dir() or path.with_suffix(".py").is_file():
            return path.parent
    return None


def _installed(top: str) -> list[str]:
    """Folders that a module of this name, without dots, is found in."""
    try:
        spec = importlib.util.find_spec(top)  # of a name without dots: this runs nothing
    except ValueError:  # __main__, where it is a notebook or a script
        return []
    if spec is None:
        return []
    own = [str(Path(spec.origin).parent)] if spec.origin else []
    return [*(str(Path(place).parent) for place in spec.submodule_search_locations or ()), *own]


@functools.cache
def commit() -> str:
    """The commit that is checked out where the package lies; empty outside a checkout."""
    command = ["git", "-C", str(PACKAGE), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def versions() -> dict[str, str]:
    """Versions of the libraries that results depend on, as far as they are installed."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
