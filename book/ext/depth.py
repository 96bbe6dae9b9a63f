"""Sections that go deeper are folded: a comment below a heading says what the fold holds.

``<!-- depth: two more readings, with their nulls -->`` shows nothing in a notebook. In the pages the
section's heading stays, and its content opens below the comment's words, when a link leads there, or with
all others.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

COMMENT = re.compile(r"<!-- depth: (?P<holds>.+?) -->\s*")
SCRIPT = "depth.js"


class depth(nodes.General, nodes.Element):  # docutils calls visit_depth  # noqa: N801
    """What a folded section holds, but for its heading."""


def fold_sections(_app: Sphinx, doctree: nodes.document) -> None:
    """Put what follows a comment on depth into a fold; a comment that follows no heading is a warning."""
    for comment in list(doctree.findall(nodes.raw)):
        match = COMMENT.fullmatch(comment.astext())
        if match is None:
            continue
        section = comment.parent
        if not isinstance(section, nodes.section) or section.index(comment) != 1:
            logging.getLogger(__name__).warning("depth: no heading before it", location=comment)
            continue
        content = section.children[2:]
        del section.children[1:]
        section += depth("", *content, holds=match["holds"])


def visit_depth(translator: Any, node: depth) -> None:
    """Open the fold."""
    translator.body.append(f"<details class='ev-depth'><summary>{html.escape(node['holds'])}</summary>\n")


def depart_depth(translator: Any, _node: depth) -> None:
    """Close it."""
    translator.body.append("</details>\n")


def add_script(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Link the script from pages with a fold."""
    if doctree is not None and next(doctree.findall(depth), None) is not None:
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.add_node(depth, html=(visit_depth, depart_depth))
    app.connect("doctree-read", fold_sections)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
