"""Libraries that an extra brings: asked for by name, and a sentence with the command where they are missing.

PyMDE, Lightning and Transformers import torchvision, of which embviz uses nothing. Its published wheel wants
CUDA; next to a torch for CPUs alone it can't be imported, and neither can they. Here they can.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.metadata
import importlib.util
import re
import shutil
import sys
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

TORCHVISION = "torchvision"
# packages whose modules are named otherwise
PACKAGES = {
    "dask_jobqueue": "dask-jobqueue",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "vl_convert": "vl-convert-python",
}


class MissingExtraError(ImportError):
    """A library that is not installed; the message names it, what needs it, and the command."""


def require(extra: str, *modules: str, purpose: str) -> None:
    """Refuse to go on without libraries; they are looked for, not imported.

    Parameters
    ----------
    extra : str
        That of embviz which brings them.
    *modules : str
        Names as they are imported.
    purpose : str
        What needs them, as a sentence begins.

    Raises
    ------
    MissingExtraError
        If one is not installed.

    Examples
    --------
    >>> require("view", "no_such_module", purpose="embviz.view")
    Traceback (most recent call last):
    embviz.imports.MissingExtraError: embviz.view needs no_such_module: pip install "embviz[view]"
    """
    missing = [name for name in modules if not installed(name)]
    if missing:
        *most, last = (PACKAGES.get(name, name) for name in missing)
        names = f"{', '.join(most)} and {last}" if most else last
        raise MissingExtraError(f'{purpose} needs {names}: pip install "embviz[{extra}]"', name=missing[0])


def installed(module: str) -> bool:
    """Whether a library is imported or its files are there; it is not imported here.

    >>> installed("numpy"), installed("no_such_module")
    (True, False)
    """
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None


def extra_with(module: str) -> str | None:
    """The extra of embviz that brings a library and the least beside it, None if none does.

    >>> extra_with("torch"), extra_with("umap"), extra_with("no_such_module")
    ('torch', 'trajectories', None)
    """
    package = PACKAGES.get(module, module)
    packages = defaultdict(set)
    for line in importlib.metadata.requires("embviz") or []:
        if found := re.fullmatch(r"""([\w.-]+).*extra == ['"](\w+)['"]""", line):
            packages[found[2]].add(found[1])
    return min(
        (extra for extra in packages if package in packages[extra]),
        key=lambda e: len(packages[e]),
        default=None,
    )


def import_pymde() -> types.ModuleType:
    """PyMDE, whose data sets alone need torchvision.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    require("trajectories", "pymde", purpose="a layout by PyMDE")
    return _import("pymde", _StandIn(TORCHVISION))


def import_umap() -> types.ModuleType:
    """UMAP, also where numba finds no folder for its machine code: then it is compiled at every start.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    require("trajectories", "umap", purpose="a UMAP layout")
    try:
        return importlib.import_module("umap")
    except RuntimeError as error:
        if "no locator available" not in str(error):  # numba's message
            raise
    from embviz.compiling import machine_code_in

    folder = Path(tempfile.mkdtemp(prefix="embviz-compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with machine_code_in(folder):
        return importlib.import_module("umap")


def import_lightning() -> types.ModuleType:
    """Lightning, whose metrics of images alone need torchvision.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    require("adapters", "lightning", purpose="recording within Lightning")
    return _import("lightning", _StandIn(TORCHVISION))


def import_transformers() -> types.ModuleType:
    """Transformers, for which torchvision counts as not installed where it doesn't work.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    require("adapters", "transformers", purpose="a model or a Trainer of Hugging Face")
    first = "transformers" not in sys.modules
    transformers = _import("transformers", None)
    if first and not works(TORCHVISION):
        with _as_module(TORCHVISION, None):
            transformers.utils.import_utils.is_torchvision_available()  # it asks once, and remembers
    return transformers


@functools.cache
def works(name: str) -> bool:
    """Whether a module can be imported; it is tried once."""
    try:
        importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):  # RuntimeError: its operators aren't there
        return False
    return True


def _import(name: str, instead: types.ModuleType | None) -> types.ModuleType:
    if (module := sys.modules.get(name)) is not None:
        return module
    if works(TORCHVISION):
        return importlib.import_module(name)
    with _as_module(TORCHVISION, instead):
        return importlib.import_module(name)


@contextmanager
def _as_module(name: str, instead: types.ModuleType | None) -> Iterator[None]:
    """Let `name` import as `instead`; as None it can't be imported."""
    before = {key: module for key, module in sys.modules.items() if key.partition(".")[0] == name}
    for key in before:
        del sys.modules[key]
    sys.modules[name] = instead  # type: ignore[assignment]
    finders = [] if instead is None else [_StandInFinder(name)]
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if key.partition(".")[0] == name]:
            del sys.modules[key]
        sys.modules.update(before)


class _StandIn(types.ModuleType):
    """A module that has every name, of nothing that can be used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _StandInFinder:
    """Finds a stand-in for every module below one that is stood in for."""

    def __init__(self, name: str) -> None:
        self.prefix = f"{name}."

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith(self.prefix):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""
