"""Below a chapter's title stands what it finds: a line for each claim box on the page, which leads to it."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

BOX = re.compile(
    r"<div class='ev-claim' id='(?P<id>[^']+)'[^>]*>"
    r"<p>(?P<verdict><b [^>]*>[^<]*</b>&nbsp;<b>[^<]*</b>).*?"
    r"<p><b>(?P<title>.*?)</b> <small>",
    re.DOTALL,
)


def add_lines(app: Sphinx, doctree: nodes.document) -> None:
    """Put the verdicts of the page's claim boxes, as stored in its outputs, before its first section."""
    if "/" not in app.env.docname:  # a chapter stands in its paper's folder
        return
    lines = {}
    for raw in doctree.findall(nodes.raw):
        text = raw.astext()
        boxes = list(BOX.finditer(text))
        if len(boxes) != text.count("<div class='ev-claim'"):
            logging.getLogger(__name__).warning("verdict_lines: cannot read a claim box", location=raw)
        for box in boxes:
            lines[box["id"]] = f"<li>{box['verdict']} <a href='#{box['id']}'>{box['title']}</a></li>"
    title = next(doctree.findall(nodes.section), None)
    if not lines or title is None:
        return
    first = next((i for i, child in enumerate(title) if isinstance(child, nodes.section)), len(title))
    words = "<p>What the paper claims, and what we find:</p>"
    html = f"<div class='ev-verdicts'>{words}<ul>{''.join(lines.values())}</ul></div>"
    title.insert(first, nodes.raw("", html, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("doctree-read", add_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
