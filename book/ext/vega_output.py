"""Draw stored Vega-Lite outputs in the static pages, with the explorers' own drawing code and no network.

A page with charts gets one script: Vega from the installed vl-convert, the code of explorers and players, a
start-up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import myst_nb.core.render as render
from docutils import nodes
from sphinx.application import Sphinx

from embviz.view.pages import MIME, inert, page_script, page_style

SCRIPT, STYLE = "embviz.js", "embviz.css"


class VegaOutput:
    """MyST-NB's renderer of one mime type; ranked before the widget view that may stand beside it."""

    mime_priority_overrides = (("*", MIME, 1),)

    @staticmethod
    def handle_mime(
        renderer: render.NbElementRenderer, data: render.MimeData, inline: bool
    ) -> list[nodes.Element] | None:
        """The specification as inert JSON."""
        if inline or data.mime_type != MIME:
            return None
        return [nodes.raw("", inert(data.content), format="html")]


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


def register() -> None:
    """Add our renderer to MyST-NB's, which otherwise come from installed packages alone."""
    installed = render.load_mime_renders()
    if VegaOutput not in installed:
        render.load_mime_renders = lambda: [*installed, VegaOutput]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    register()
    app.connect("builder-inited", write_assets)
    app.connect("html-page-context", add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
