"""Scripts where they are needed: long tables are sorted and searched, the ledger's lines filtered."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def add_assets(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Link the table library from pages with a table, the filter from those with claims to open."""
    raw = [] if doctree is None else [node.astext() for node in doctree.findall(nodes.raw)]
    if any("class='ev-claims'" in text for text in raw):
        app.add_js_file("ledger.js", loading_method="defer")
    if any('class="embviz-table"' in text for text in raw):
        app.add_css_file("vendor/datatables/style.css")
        app.add_js_file("vendor/datatables/simple-datatables.js", loading_method="defer")
        app.add_js_file("tables.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.add_css_file("book.css")
    app.connect("html-page-context", add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
