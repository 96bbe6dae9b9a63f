"""Draw stored Vega-Lite outputs in the static pages, with the explorers' own drawing code and no network.

MyST-NB gets such an output as HTML. A page with charts gets one script: Vega from the installed vl-convert,
the code of explorers and players, a start-up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from embviz.view.pages import MIME, inert, page_script, page_style

SCRIPT, STYLE = "embviz.js", "embviz.css"
LAST = 900  # after all who fill in outputs; Sphinx's default is 500


def write_charts(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace each chart among a notebook's outputs, with what stands beside it, by inert HTML."""
    if MIME not in source[0] or not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if MIME in output.get("data", {}):
                output["data"] = {"text/html": inert(output["data"][MIME])}
    source[0] = json.dumps(notebook)


def write_assets(app: Sphinx) -> None:
    """Write the script and the style into the pages' _static folder."""
    folder = Path(app.outdir, "_static")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(page_script(), encoding="utf-8")
    (folder / STYLE).write_text(page_style(), encoding="utf-8")


def add_assets(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Link script and style from pages that hold a chart."""
    if doctree is not None and any("embviz-output" in node.astext() for node in doctree.findall(nodes.raw)):
        app.add_css_file(STYLE)
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", write_charts, priority=LAST)
    app.connect("builder-inited", write_assets)
    app.connect("html-page-context", add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
