"""Make pandas tables of more than 20 rows sortable and searchable, on the pages where one stands."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def add_assets(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Link the table library from pages that hold a pandas table."""
    if doctree is not None and any(
        'class="dataframe' in node.astext() for node in doctree.findall(nodes.raw)
    ):
        app.add_css_file("vendor/datatables/style.css")
        app.add_js_file("vendor/datatables/simple-datatables.js", loading_method="defer")
        app.add_js_file("tables.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.add_css_file("book.css")
    app.connect("html-page-context", add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
