"""Libraries that an extra brings: asked for by name, with the command where they are missing."""

from __future__ import annotations

import atexit
import importlib
import importlib.metadata
import importlib.util
import re
import shutil
import sys
import tempfile
import types
from collections import defaultdict
from pathlib import Path

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
    """PyMDE, with an empty module for torchvision, which its data sets alone need.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    require("trajectories", "pymde", purpose="a layout by PyMDE")
    if "torchvision" in sys.modules:
        return importlib.import_module("pymde")
    sys.modules["torchvision"] = types.ModuleType("torchvision")
    try:
        return importlib.import_module("pymde")
    finally:
        del sys.modules["torchvision"]


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
