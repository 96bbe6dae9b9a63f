"""The embedded corpus: docstrings of the libraries that the extra ``trajectories``, or ``book``, installs.

Real English that needs no download: about three million words. The libraries are read as files, never
imported, and what was gathered is kept in the cache under a fingerprint of their versions. With fewer of
them it would be another text under the same name, and is refused.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from embviz import storage
from embviz.imports import MissingExtraError

LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy", "torch")  # names of distributions
FORMAT = 2  # raise when the gathering changes
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})


def fingerprint() -> str:
    """SHA-256 of what the corpus depends on: the libraries' versions, Python's, and :data:`FORMAT`."""
    versions = {library: _version(library) for library in LIBRARIES}
    parts = {"format": FORMAT, "python": list(sys.version_info[:2]), "libraries": versions}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            f'the embedded corpus reads docstrings of {library}: pip install "embviz[trajectories]"'
        ) from error


def load_docstrings(*, separator: str) -> str:
    """The corpus as one text, from the cache, or gathered (about 10 seconds) and kept there.

    `separator` stands on a line of its own between docstrings.
    """
    path = storage.cache_folder() / "embedded" / f"{fingerprint()[:32]}.txt"
    cached = _read_checked(path)
    if cached is None:
        # docstrings may hold lone surrogates, which UTF-8 cannot: they become question marks
        cached = f"\n{separator}\n".join(gather_docstrings()).encode(errors="replace")
        sealed = cached + b"\n" + hashlib.sha256(cached).hexdigest().encode()
        storage.write_if_possible(path, lambda temporary: temporary.write_bytes(sealed))
    return cached.decode()


def _read_checked(path: Path) -> bytes | None:
    """Content of a cached file whose last line is its SHA-256; None if it is absent or damaged."""
    try:
        content, _, digest = path.read_bytes().rpartition(b"\n")
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest().encode() == digest else None


def gather_docstrings() -> list[str]:
    """Docstrings of the installed libraries, each once, in the order of their sorted file names."""
    found: dict[str, None] = {}
    paths = [path for library in LIBRARIES for path in _source_files(library)]
    for path in tqdm(paths, desc="gathering docstrings", unit=" files", leave=False, disable=None):
        source = path.read_bytes()
        if b'"""' in source:
            found.update(dict.fromkeys(_docstrings(source)))
    return list(found)


def _source_files(library: str) -> list[Path]:
    """A library's modules in a fixed order; its tests are left out: half of the time, 4% of the words."""
    module = "sklearn" if library == "scikit-learn" else library
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the embedded corpus reads the source files of {module}: none found")
    root = Path(found.submodule_search_locations[0])
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    return [root / name for name in names if _TEST_FOLDERS.isdisjoint(name.split("/"))]


def _docstrings(source: bytes) -> Iterator[str]:
    """Docstrings of a module, its classes and functions, in reading order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the libraries' own strings
            todo: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError):  # written for another Python
        return
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text
        inner = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.Try)
        todo += [child for child in reversed(getattr(node, "body", ())) if isinstance(child, inner)]
