"""Functions that a notebook defines again in the same cell: an explorer calls the newest one.

Two cells may use one name for two functions, so a name alone does not say that one replaces the other. The
cell does, which a notebook's front end tells the kernel by its identifier.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

_CELL_OF: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_NEWEST: dict[tuple[str, str], types.FunctionType] = {}  # by cell and name


def newest(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was last defined under the same name in the same cell; else the function itself."""
    if not isinstance(function, types.FunctionType) or function not in _CELL_OF:
        return function
    return _NEWEST[_CELL_OF[function], function.__name__]


def note_functions(cell: str | None, namespace: dict[str, Any]) -> None:
    """Write down which functions of a notebook were defined by the cell that has just run."""
    if cell is None:
        return
    for name, thing in list(namespace.items()):
        if not isinstance(thing, types.FunctionType) or thing in _CELL_OF:
            continue
        if (thing.__module__, thing.__name__) == ("__main__", name):
            _CELL_OF[thing] = cell
            _NEWEST[cell, name] = thing


def watch_cells() -> None:
    """Note functions after each cell of a notebook from now on; nothing outside IPython."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None:
        shell.events.register(
            "post_run_cell", lambda result: note_functions(result.info.cell_id, shell.user_ns)
        )


watch_cells()
