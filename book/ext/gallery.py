"""The gallery: a picture of each chapter as a card; and one chapter's picture elsewhere.

Pictures are drawn at build time from stored outputs, and kept by the checksum of what they are drawn from.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from book.view.ledger_cells import fill
from embviz.storage import cache_folder, ledger_path, write_if_possible
from embviz.view.pages import MIME, inert

WIDTH = 420  # pixels of a chart that fills its column on a page
SHARE = 0.7  # of that width, of a picture in pixels
LARGEST = 60_000  # bytes of a drawing; what has more marks becomes pixels
INK = "#333"  # of what has the colour of the text; the style turns it over in the dark


def lead(notebook: Path) -> tuple[str, dict[str, Any]]:
    """A chapter's title, and the specification of its first picture."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    fill(cells)
    text = "".join(cells[0]["source"])
    charts = (
        output["data"][MIME]
        for cell in cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    )
    return re.search(r"(?m)^# (.+)$", text)[1], next(charts, {})  # type: ignore[index]


def picture(notebook: Path, name: str) -> dict[str, Any]:
    """The specification that one cell of a notebook shows.

    Raises
    ------
    ValueError
        If the notebook has no such cell, or the cell shows no picture.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        for output in cell.get("outputs", []):
            if cell["id"] == name and MIME in output.get("data", {}):
                chart: dict[str, Any] = output["data"][MIME]
                return chart
    raise ValueError(f"{notebook.name} has no picture in a cell {name!r}")


def small(chart: dict[str, Any]) -> str:
    """A specification of the same picture for a card: narrow, and without words above it."""
    said = {key: value for key, value in chart.items() if key not in ("title", "description", "usermeta")}
    said = _without_legend_titles(said)  # so narrow, they would lie over the first mark
    if isinstance(said.get("width"), int) and said["width"] > WIDTH:
        said["width"] = WIDTH
        if isinstance(said.get("height"), int):
            said["height"] = said["height"] * 3 // 4
    return json.dumps(said, sort_keys=True).replace("currentColor", INK)


def _without_legend_titles(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_legend_titles(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: value if key in ("values", "datasets") else _without_legend_titles(value)
        for key, value in part.items()
    }
    if isinstance(kept.get("legend"), dict):
        kept["legend"] = {**kept["legend"], "title": None}
    return kept


def drawn(chart: str) -> bytes:
    """A picture of a specification, as SVG, or as PNG where that would be large."""
    path = re.compile(r' d="[^"]*"')
    svg = vl_convert.vegalite_to_svg(chart)
    svg = path.sub(lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), svg)  # a tenth of a pixel will do
    if len(svg) <= LARGEST:
        return svg.encode()
    width = float(re.search(r'width="([\d.]+)"', svg)[1])  # type: ignore[index]
    png: bytes = vl_convert.svg_to_png(svg, scale=min(1.0, SHARE * WIDTH / width))
    return png


def kept(chart: str) -> bytes:
    """The picture, drawn once for each version of vl-convert and kept in the cache folder."""
    name = hashlib.sha256((f"{version('vl-convert-python')} {SHARE} {chart}").encode()).hexdigest()[:24]
    path = cache_folder() / "gallery" / name
    if path.is_file():
        return path.read_bytes()
    picture = drawn(chart)
    write_if_possible(path, lambda temporary: temporary.write_bytes(picture))
    return picture


class Gallery(SphinxDirective):
    """``{gallery} reflections``: cards of a part's chapters, in order.

    A line ``chapter: caption`` or ``chapter cell: caption`` gives a card its sentence, and a picture that
    is not the chapter's first. Without a line, or where the cell has gone, a card shows
    the first picture and its title.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """One list of cards."""
        book, part = Path(self.env.srcdir), self.arguments[0]
        told = {}
        for line in filter(str.strip, self.content):
            where, _, caption = line.partition(": ")
            chapter, _, cell = where.partition(" ")
            told[chapter] = cell, caption
        cards = []
        for page in self.config.external_site_map:
            notebook = book / f"{page}.ipynb"
            if page.rpartition("/")[0] == part and notebook.is_file():
                self.env.note_dependency(str(notebook))
                self.env.note_dependency(str(ledger_path()))
                title, chart = lead(notebook)
                cell, caption = told.get(notebook.stem, ("", ""))
                try:
                    chart = picture(notebook, cell) if cell else chart
                except ValueError:  # the chapter has changed since
                    caption = ""
                cards.append(self.card(page, title, chart, caption))
        return [nodes.raw("", f'<ul class="gallery">{"".join(cards)}</ul>', format="html")]

    def card(self, page: str, title: str, chart: dict[str, Any], caption: str) -> str:
        """HTML of a card; the picture says nothing that the sentence below it does not."""
        name = write_picture(self.env, page, kept(small(chart)))
        address = self.env.app.builder.get_relative_uri(self.env.docname, page)
        said = caption or " ".join(chart["title"]["text"])
        return (
            f'<li><a href="{address}"><img src="{name}" alt="" loading="lazy">'
            f"<strong>{html.escape(title)}</strong> {html.escape(said)}</a></li>"
        )


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


def write_picture(env: BuildEnvironment, page: str, picture: bytes) -> str:
    """Write a card's picture into the pages' static folder; gives its address from the book's root."""
    out = Path(env.app.outdir, "_static", "gallery")
    out.mkdir(parents=True, exist_ok=True)
    name = page.replace("/", "-") + (".png" if picture.startswith(b"\x89PNG") else ".svg")
    (out / name).write_bytes(picture)
    return f"_static/gallery/{name}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.add_directive("gallery", Gallery)
    app.add_directive("picture", ChapterPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
