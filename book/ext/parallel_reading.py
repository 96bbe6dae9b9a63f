"""Read the pages on all cores, each process with its share of the reference."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def declare_safe(app: Sphinx) -> None:
    """Declare the one extension parallel that does not declare itself; Sphinx would read on one core.

    It numbers the table of contents, in the first process and when all pages are read.
    """
    app.setup_extension("sphinx_external_toc")
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True


def mix(_app: Sphinx, _env: Any, pages: list[str]) -> None:
    """Sort pages by their names alone, so that each process gets pages of the reference."""
    pages.sort(key=lambda page: page.rpartition("/")[2])


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    declare_safe(app)
    app.connect("env-before-read-docs", mix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
