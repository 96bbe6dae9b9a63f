"""One chapter's picture on another page, as it stands there, with its controls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from embviz.view.pages import MIME, inert


def picture(notebook: Path, name: str) -> dict[str, Any]:
    """The specification that one cell of a notebook shows.

    Raises
    ------
    ValueError
        If the notebook has no such cell, or the cell shows no picture.
    """
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if cell["id"] == name and MIME in output.get("data", {}):
                chart: dict[str, Any] = output["data"][MIME]
                return chart
    raise ValueError(f"{notebook.name} has no picture in a cell {name!r}")


class ChapterPicture(SphinxDirective):
    """``{picture} tying/exor cell-11``: the picture of a chapter's cell, with its controls."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """The picture as it stands in the chapter; an error where there is none."""
        page, name = self.arguments
        notebook = Path(self.env.srcdir, f"{page}.ipynb")
        self.env.note_dependency(str(notebook))
        try:
            chart = picture(notebook, name)
        except ValueError as error:
            raise self.error(str(error)) from None
        return [nodes.raw("", inert(chart), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.add_directive("picture", ChapterPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
