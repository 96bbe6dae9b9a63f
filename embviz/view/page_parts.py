"""What stands between the pictures of a page: headings, quantities beside their controls, terms, folds."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import pandas as pd

from embviz.view.typesetting import number, typeset

FOLDED_ROWS = 2_000

STYLE = """
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
        return f'<div class="embviz-page"><style>{STYLE}</style>{self.markup}</div>'


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
