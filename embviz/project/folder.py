"""Where a project lies, and how its modules are imported.

A project is a folder with ``data/claims``: the nearest one upwards from the working directory, or the one
that ``EMBVIZ_PROJECT`` (on the command line ``--project``) names. Its modules are imported from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PROJECT_VARIABLE = "EMBVIZ_PROJECT"
CLAIMS = Path("data", "claims")  # what makes a folder a project


class NoProjectError(FileNotFoundError):
    """There is no project here; the message says how to name one and how to begin one."""


@dataclasses.dataclass(frozen=True)
class Project:
    """A folder with claims.

    Parameters
    ----------
    root : Path
        The folder that holds ``data/claims``; modules that claims name are imported from it.
    """

    root: Path

    @property
    def claims(self) -> Path:
        """Folder of the claims, a TOML file a paper."""
        return self.root / CLAIMS

    @property
    def results(self) -> Path:
        """Folder of the stored results, unless ``EMBVIZ_RESULTS_DIR`` names another."""
        return self.root / "data" / "results"

    @property
    def ledger(self) -> Path:
        """File of the ledger, unless ``EMBVIZ_RESULTS_DIR`` names another folder."""
        return self.root / "data" / "ledger.json"

    @property
    def registry(self) -> Path:
        """File of the project's own data sets, which it need not have."""
        return self.root / "data" / "registry.toml"

    @property
    def book(self) -> Path:
        """Folder of the chapters."""
        return self.root / "book"

    @property
    def enclosing(self) -> Path | None:
        """The project that this one lies in, or None."""
        return next((folder for folder in self.root.parents if _has_claims(folder)), None)


def find_project(start: str | os.PathLike[str] | None = None) -> Project:
    """The project that one works in.

    Parameters
    ----------
    start : path, optional
        Where to look from, upwards. By default the folder that ``EMBVIZ_PROJECT`` names, which must itself
        be a project, or else the working directory.

    Raises
    ------
    NoProjectError
        If there is none, or the nearest belongs to another user; the message says what to do.
    """
    named = os.environ.get(PROJECT_VARIABLE)
    if start is None and named:
        return Project(_named(os.path.abspath(os.path.expanduser(named))))
    return Project(_nearest(os.fspath(start) if start is not None else os.getcwd()))


@functools.lru_cache(maxsize=32)  # asked for each cell's file
def _named(name: str) -> Path:
    root = Path(os.path.realpath(name))  # a link that names itself is no project either
    if not _has_claims(root):
        raise NoProjectError(f"{root} is not a project: it has no folder {CLAIMS}")
    return root


@functools.lru_cache(maxsize=32)
def _nearest(start: str) -> Path:
    here = Path(start).resolve()
    for folder in (here, *here.parents):
        if _has_claims(folder):
            if _of_another_user(folder):
                raise NoProjectError(
                    f"the project {folder} belongs to another user, and its modules run as code: if you "
                    f"trust it, name it with --project DIR or {PROJECT_VARIABLE}"
                )
            return folder
    raise NoProjectError(
        f"no project at {here} or above it, that is no folder with {CLAIMS}: go to one, name it with "
        f"--project DIR or {PROJECT_VARIABLE}, or begin one with `embviz new my_paper`"
    )


def _has_claims(folder: Path) -> bool:
    return (folder / CLAIMS).is_dir()


def _of_another_user(folder: Path) -> bool:
    """Whether somebody else could have put the claims there; where this package runs from, it is trusted."""
    if not hasattr(os, "getuid") or Path(__file__).resolve().is_relative_to(folder):
        return False
    return any(place.stat().st_uid != os.getuid() for place in (folder, folder / "data", folder / CLAIMS))


@contextlib.contextmanager
def working_in(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Within the block, `folder` is the project, for this process and those it starts; None: as before.

    Raises
    ------
    NoProjectError
        If it is not a project.
    """
    if folder is None:
        yield
        return
    before = os.environ.get(PROJECT_VARIABLE)
    os.environ[PROJECT_VARIABLE] = os.path.abspath(os.path.expanduser(folder))
    try:
        find_project()
        yield
    finally:
        os.environ.pop(PROJECT_VARIABLE)
        if before is not None:
            os.environ[PROJECT_VARIABLE] = before


def import_from(root: Path, name: str) -> ModuleType:
    """Import the module called `name` from a project's folder, or else from where it is installed.

    Parameters
    ----------
    root : Path
        The project's folder: first on the path of modules during this import, last afterwards, so that
        none of its files stands for a module that something else imports.
    name : str
        Such as ``book.my_paper.experiments``.

    Raises
    ------
    ImportError
        If there is no such module, something that it imports is missing, or a module of the same name was
        imported from elsewhere.
    """
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} can't be imported in the project {root}: {error}", name=name) from error
    finally:
        sys.path.remove(str(root))
        if str(root) not in sys.path:
            sys.path.append(str(root))
    file = Path(module.__file__ or root).resolve()
    if _source(root, name) is not None and not file.is_relative_to(root):
        raise ImportError(
            f"the project {root} has a module {name}, but another one is loaded, {file}: take its folder "
            "off PYTHONPATH, or start Python again in the project",
            name=name,
        )
    return module


def _source(root: Path, name: str) -> Path | None:
    """The file of a module below a folder, or None."""
    stem = root.joinpath(*name.split("."))
    return next((file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None)
