"""Claims on pages: cells with the tag ``ledger`` are filled in from the ledger file at each build."""

from __future__ import annotations

import json
from pathlib import Path

from sphinx.application import Sphinx

from book import view
from book.ledger.places import ledger_path
from book.view.ledger_cells import fill, shows_ledger

CODE = sorted(Path(view.__file__).parent.glob("*.py"))


def fill_cells(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in a notebook before it is parsed; the page is built again when the ledger changes."""
    if not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    if not any(map(shows_ledger, notebook["cells"])):
        return
    fill(notebook["cells"])
    source[0] = json.dumps(notebook)
    for path in (ledger_path(), *CODE):
        app.env.note_dependency(str(path))


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", fill_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
