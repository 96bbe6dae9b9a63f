"""Pictures outside the book: pages of their own that ask no other host, and images.

The same code draws a chart, an explorer, a player or a map in the book's pages and in a saved page. An image
stands in for it where neither Vega charts nor our widgets are drawn.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from embviz.storage import cache_folder, whole_file
from embviz.view.typesetting import TypesetTable, number, typeset

MIME = "application/vnd.vegalite.v5+json"
# JupyterLab draws Vega-Lite up to 5, and what Altair 6 writes is valid there too.
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
# A bare notebook gives a chart no container to fill.
NOTEBOOK_WIDTH = 620  # pixels
SVG_LIMIT = 400_000  # characters, about 2,000 marks; a PNG of more takes less
FOLDER = Path(__file__).parent

START = """
function begin(element) {
  const fold = element.closest("details:not([open])"); // what is folded is drawn once it has a width
  if (fold) {
    fold.addEventListener("toggle", () => begin(element), { once: true });
    return Promise.resolve();
  }
  const spec = JSON.parse(element.querySelector("script").textContent);
  const { player, maps } = spec.usermeta?.embviz ?? {};
  const draw = player ? play : maps ? (at, map) => drawMaps(at, map) : mount; // a map needs no Vega
  return draw(element, spec, globalThis.embvizVegaEmbed).catch((error) => console.error(error));
}
function search(fold) {
  const field = document.createElement("input");
  Object.assign(field, { type: "search", placeholder: "search the table" });
  field.setAttribute("aria-label", field.placeholder);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of fold.querySelectorAll("tbody tr")) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
  fold.querySelector("summary").after(field);
}
const start = async () => {
  document.querySelectorAll("details[data-search]").forEach(search);
  for (const element of document.querySelectorAll(".embviz-output")) {
    // The first picture is seen before the second is drawn, and one that never ends holds nothing up.
    await Promise.race([begin(element), new Promise((rest) => setTimeout(rest, 5000))]);
    await new Promise((rest) => setTimeout(rest));
  }
};
document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", start) : start();
"""
# Vega compiles the expressions of a chart; nothing else is asked for anywhere.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
)
STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText; }
body { background: Canvas; font-family: system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 0.5rem; }
td, th { padding-right: 1em; text-align: left; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
"""
FOLDED_ROWS = 2_000

WORDS_STYLE = """
.embviz-cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.6rem;margin:.8rem 0}
.embviz-cards>div{border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.5rem .7rem;min-width:0}
.embviz-cards b{display:block;font-size:1.7em;line-height:1.2;font-variant-numeric:tabular-nums}
.embviz-cards span{display:block;font-size:.85em;line-height:1.3}
.embviz-cards .control{opacity:.75}
.embviz-terms{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.9em;margin:.2rem 0 .6rem}
.embviz-terms details[open]{flex-basis:100%}
:is(.embviz-terms,.embviz-cards) summary{cursor:pointer;text-decoration:underline dotted;font-size:.95em}
.embviz-fold>summary{cursor:pointer;font-weight:600;margin:.6rem 0}
.embviz-fold>input{font:inherit;max-width:100%;margin:.2rem 0}
.embviz-page p,.embviz-page li{overflow-wrap:anywhere;line-height:1.45}
.embviz-page h1{margin:.4rem 0;overflow-wrap:anywhere}
.embviz-page ol{padding-left:1.4rem}
""".replace("\n", "")


def script(name: str) -> str:
    """One of the package's scripts without its last line, the export, so that another may follow it."""
    code, export, _ = (FOLDER / name).read_text(encoding="utf-8").rpartition("export default")
    assert export, f"{name} ends with its export"
    return code


def map_script() -> str:
    """The map's drawing code in its own scope, after the explorers' code."""
    names = "{ drawMaps, renderMaps }"
    return f"const {names} = (() => {{\n{script('maps.js')}\nreturn {names};\n}})();\n"


def style(*names: str) -> str:
    """The package's style sheets, one after the other."""
    return "".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


@functools.cache
def vega_runtime() -> str:
    """JavaScript of Vega, Vega-Lite and Vega-Embed in one piece, from the installed vl-convert; no network.

    It sets ``globalThis.embvizVegaEmbed`` and must be wrapped in a function or loaded as a module, since it
    declares short names of its own. To make it takes seconds, so it is kept in the cache folder.
    """
    kept = cache_folder() / f"vega_of_vl_convert_{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    code = vl_convert.javascript_bundle("globalThis.embvizVegaEmbed = vegaEmbed;")
    with contextlib.suppress(OSError):  # a folder that can't be written to
        kept.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(kept) as temporary:
            temporary.write_text(code, encoding="utf-8")
    return code


def page_script(*, vega: bool = True) -> str:
    """Vega, the drawing code and the start-up, wrapped so that none of their names leaks."""
    drawing = script("explorer.js") + script("player.js") + map_script()
    runtime = f"(() => {{{vega_runtime()}\n}})();\n" if vega else ""
    return f"{runtime}(() => {{\n{drawing}\n{START}}})();\n"


def page_style() -> str:
    """The styles of charts, explorers, players and maps."""
    return style("explorer.css", "player.css", "maps.css")


def inert(spec: Mapping[str, Any]) -> str:
    """A specification as HTML that runs nothing: '<' is escaped, since a word may be ``</script>``."""
    text = json.dumps(spec, sort_keys=True).replace("<", "\\u003c")
    return f'<div class="embviz-output"><script type="application/json">{text}</script></div>'


def page(
    pictures: Any,
    *,
    title: str = "embviz",
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> str:
    """HTML of a page with pictures and tables: what they weigh, and 1 MB of Vega unless all are maps.

    As :func:`save_page`, with the title of the browser's window.
    """
    every = pictures if isinstance(pictures, Sequence) else [pictures]
    specs = [None if isinstance(each, Words | TypesetTable) else _specification(each) for each in every]
    shown = "\n".join(
        each._repr_html_() if spec is None else inert(spec) for each, spec in zip(every, specs, strict=True)
    )
    below = "".join(
        f"<h2>{html.escape(name)}</h2>{typeset(table)._repr_html_()}"
        for name, table in (tables or {}).items()
    )
    only_maps = all("maps" in spec.get("usermeta", {}).get("embviz", {}) for spec in specs if spec)
    script = page_script(vega=not only_maps).replace("</script", "<\\/script")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}{page_style()}</style></head>\n"
        f"<body>\n{shown}\n{below}\n<script>{script}</script></body></html>\n"
    )


def save_page(
    pictures: Any, path: str | os.PathLike[str], *, tables: Mapping[str, pd.DataFrame] | None = None
) -> None:
    """Write pictures as a page that asks no other host for anything; no name in it runs as HTML.

    Parameters
    ----------
    pictures : Altair chart, explorer, player, map, words, table, or a sequence of them
    path : path
        Of the .html file; a file of that name is replaced once the new one is whole.
    tables : mapping of title to DataFrame, optional
        Below the pictures.
    """
    text = page(pictures, title=Path(path).stem, tables=tables)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # of a file's name


class Page:
    """Pictures, tables and words below each other: shows itself in a notebook, and saves itself.

    Parameters
    ----------
    parts : sequence of charts, explorers, maps, `Words` and typeset tables
    title : str
        Of the whole.
    """

    def __init__(self, parts: Sequence[Any], title: str = "") -> None:
        self.parts, self.title = list(parts), title

    def __repr__(self) -> str:
        return f"<page: {self.title}>"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        for part in self.parts:
            display(part)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline, as :func:`save_page`."""
        save_page(self.parts, path)


def image(spec: Mapping[str, Any]) -> dict[str, str]:
    """A chart as an image, by its mime type: for converters, and front ends that draw no Vega charts.

    It shows the controls' first values. Text and axes have the colour of the page around them. A chart of
    many marks is a PNG on white. Nothing is fetched: a chart with data from another host has no image.
    """
    offline: dict[str, Any] = {"allowed_base_urls": []}
    try:
        svg = vl_convert.vegalite_to_svg(dict(spec), **offline)
        if len(svg) <= SVG_LIMIT:
            return {"image/svg+xml": svg}
        png = vl_convert.vegalite_to_png({**spec, "background": "white"}, scale=2, **offline)
    except ValueError:  # the browser says what is wrong with it
        return {}
    return {"image/png": base64.b64encode(png).decode()}


def portable(spec: dict[str, Any]) -> dict[str, Any]:
    """The same specification for other viewers: a fixed width where it would fill its container.

    ``usermeta.embviz.fluid`` tells our own pages to fill the container all the same.
    """
    spec = {**spec, "$schema": SCHEMA}
    if spec.get("width") == "container":
        meta = spec.get("usermeta", {})
        ours = {**meta.get("embviz", {}), "fluid": True}
        spec |= {"width": NOTEBOOK_WIDTH, "usermeta": {**meta, "embviz": ours}}
    return spec


def _specification(picture: Any) -> dict[str, Any]:
    if hasattr(picture, "static_spec"):
        found: dict[str, Any] = picture.static_spec()
        return found
    if isinstance(picture, dict):
        return picture
    if isinstance(picture, alt.TopLevelMixin):
        return portable(picture.to_dict())  # type: ignore[attr-defined]
    raise TypeError(f"{type(picture).__name__} is no chart, explorer, player or map of embviz")


# --- what stands between the pictures of a page ---


class Words:
    """A piece of a page that is no picture: HTML in a notebook and on a page, plain text elsewhere.

    Parameters
    ----------
    markup : str
        HTML whose names are escaped.
    text : str
        The same for a terminal.
    """

    def __init__(self, markup: str, text: str = "") -> None:
        self.markup, self.text = markup, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<div class="embviz-page"><style>{WORDS_STYLE}</style>{self.markup}</div>'


def heading(text: str, *sentences: str, level: int = 2) -> Words:
    """A heading with sentences below it."""
    below = "".join(f"<p>{html.escape(one)}</p>" for one in sentences)
    return Words(f"<h{level}>{html.escape(text)}</h{level}>{below}", "\n".join([text, *sentences]))


def numbered_list(title: str, sentences: Sequence[str], note: str = "") -> Words:
    """A numbered list under a title, with a note below it."""
    items = "".join(f"<li>{html.escape(one)}</li>" for one in sentences)
    text = "\n".join([title, *(f"{place}. {one}" for place, one in enumerate(sentences, 1))])
    below = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return Words(f"<h3>{html.escape(title)}</h3><ol>{items}</ol>{below}", text)


def cards(quantities: Sequence[tuple[str, float, float, str]]) -> Words:
    """Quantities beside each other, each with its control and, at a click, what it is.

    Parameters
    ----------
    quantities : sequence of name, value, control and explanation
    """
    boxes = [
        f"<div><span>{html.escape(name)}</span><b>{_shown(value)}</b>"
        f'<span class="control">control {_shown(control)}</span>'
        f"<details><summary>What is this?</summary><span>{html.escape(meaning)}</span></details></div>"
        for name, value, control, meaning in quantities
    ]
    text = "\n".join(
        f"{name}: {_shown(value)} (control {_shown(control)})" for name, value, control, _ in quantities
    )
    return Words(f'<div class="embviz-cards">{"".join(boxes)}</div>', text)


def _shown(value: float) -> str:
    return "0.000" if 0 < abs(value) < 5e-4 else number(value)


def terms(explained: Mapping[str, str]) -> Words:
    """Terms in a row; a click on one shows what it is."""
    folds = "".join(
        f"<details><summary>{html.escape(name)}</summary>{html.escape(meaning)}</details>"
        for name, meaning in explained.items()
    )
    text = "\n".join(f"{name}: {meaning}" for name, meaning in explained.items())
    return Words(f'<div class="embviz-terms">{folds}</div>', text)


def fold_table(title: str, table: pd.DataFrame) -> Words:
    """A table, or its first rows, that a click opens; a saved page has a field to search them."""
    shown = typeset(table, most_rows=FOLDED_ROWS)
    opened = f"<summary>{html.escape(title)} ({len(table):,} rows)</summary>"
    mark = f'<details class="embviz-fold" data-search>{opened}'
    return Words(f"{mark}{shown._repr_html_()}</details>", f"{title}\n{shown!r}")
