"""Leave out what a build would do again and again, or for nobody; pages stay as they are."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import myst_nb.sphinx_
import nbformat
import pybtex.plugin
from sphinx.application import Sphinx


def write_no_copies() -> None:
    """Keep MyST-NB from writing out each notebook beside the pages, which link to Sphinx's copies."""
    lean = SimpleNamespace(**{**vars(nbformat), "writes": lambda _notebook: ""})
    myst_nb.sphinx_.nbformat = lean  # type: ignore[attr-defined]


def look_up_once() -> None:
    """Let the bibliography search the installed packages once a style, not once a citation."""
    look_up: Any = pybtex.plugin._load_entry_point
    if not hasattr(look_up, "cache_info"):
        pybtex.plugin._load_entry_point = cache(look_up)


def read_in_parallel(app: Sphinx) -> None:
    """Say of the one extension that does not say it that pages may be read side by side.

    It numbers the table of contents, in the first process and when all pages are read.
    """
    app.setup_extension("sphinx_external_toc")
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True


def mix(_app: Sphinx, _env: Any, pages: list[str]) -> None:
    """Read pages by their names alone, so that each process gets its share of the reference."""
    pages.sort(key=lambda page: page.rpartition("/")[2])


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    read_in_parallel(app)
    write_no_copies()
    look_up_once()
    app.connect("env-before-read-docs", mix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
