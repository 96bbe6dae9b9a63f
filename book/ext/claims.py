"""Claims on the book's pages: cells with the tag ``ledger`` are filled in from the ledger file at each build.

Below a chapter's title stands what it finds: a line for each claim box on the page, which leads to it.
"""

from __future__ import annotations

import html
import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from book import view
from book.view.ledger_cells import fill, shows_ledger
from book.view.ledger_view import text_html, verdict_html
from embviz.storage import ledger_path

CODE = sorted(Path(view.__file__).parent.glob("*.py"))
BOXES = "claim_boxes"  # name in the page's temporary data


def fill_cells(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in a notebook before it is parsed; the page is built again when the ledger changes."""
    if not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    if not any(map(shows_ledger, notebook["cells"])):
        return
    app.env.temp_data[BOXES] = fill(notebook["cells"])
    source[0] = json.dumps(notebook)
    for path in (ledger_path(), *CODE):
        app.env.note_dependency(str(path))


def add_lines(app: Sphinx, doctree: nodes.document) -> None:
    """Put the verdicts of the page's claim boxes before its first section."""
    boxes = app.env.temp_data.get(BOXES, [])
    title = next(doctree.findall(nodes.section), None)
    if "/" not in app.env.docname or not boxes or title is None:  # a chapter stands in its paper's folder
        return
    lines = "".join(
        f"<li>{verdict_html(item.verdict, item.smaller_scale)} <a href='#{html.escape(item.claim.id)}'>"
        f"{text_html(item.claim.title)}</a></li>"
        for item in boxes
    )
    first = next((i for i, child in enumerate(title) if isinstance(child, nodes.section)), len(title))
    words = "<p>What the paper claims, and what we find:</p>"
    title.insert(
        first, nodes.raw("", f"<div class='ev-verdicts'>{words}<ul>{lines}</ul></div>", format="html")
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", fill_cells)
    app.connect("doctree-read", add_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
