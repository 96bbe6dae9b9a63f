"""Blocks of Markdown that show the ledger, on the built pages and in copies of the chapters.

A block is a fence whose first line has its kind, and what it is about::

    ```{claim} geometry.carrier
    ```

    ```{say} geometry.carrier
    A trained embedding saves {embedding_given:.0f}% of the epochs.
    ```

What they show is never stored: the book's build (book/ext/claims.py) and :func:`fill` write it from the
ledger file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from book import ledger
from book.ledger.judging import Entry
from book.view import ledger_view
from book.view.papers import PAPERS, papers_map
from book.view.sentences import say


def _of_chapter(chapter: str) -> list[Entry]:
    items = [item for item in ledger.entries() if item.claim.chapter == chapter]
    if not items:
        raise ValueError(f"no claim names the chapter {chapter!r}")
    return items


def _by_paper() -> list[Entry]:
    """All entries in the order of the book's parts, questions of our own last."""
    parts = [paper.part for paper in PAPERS]
    return sorted(ledger.entries(), key=lambda item: (*parts, item.claim.paper).index(item.claim.paper))


# What each kind shows, of: what it is about, its text, the page, and the way to the book's root.
KINDS: dict[str, Callable[[str, str, str, str], str]] = {
    "claim": lambda claim, _text, _page, root: ledger_view.claim_line(ledger.entry(claim), root),
    "claims": lambda _, _text, page, root: ledger_view.chapter_claims(_of_chapter(page), root),
    "claims-table": lambda paper, _text, _page, root: ledger_view.claims_table(ledger.entries(paper), root),
    "claims-list": lambda paper, _text, _page, _root: ledger_view.claims_list(ledger.entries(paper)),
    "claims-matrix": lambda _, _text, _page, _root: ledger_view.claims_matrix(_by_paper()),
    "papers": lambda part, _text, _page, root: papers_map(part or None, root),
    "say": lambda claim, text, _page, root: say(text, claim=claim, root=root),
}
BLOCK = re.compile(rf"^```{{({'|'.join(KINDS)})}}[ \t]*(.*)\n((?:.*\n)*?)```[ \t]*$", re.MULTILINE)


def markdown(kind: str, about: str, text: str, page: str) -> str:
    """What a block shows on a page such as ``geometry/grokking``, as Markdown, which may be HTML.

    Raises
    ------
    ValueError
        If there is no such claim, paper, part or measurement, or a sentence's verdict has moved.
    """
    return KINDS[kind](about.strip(), text.rstrip("\n"), page, "../" * page.count("/"))


def fill(text: str, page: str) -> str:
    """A cell of a page with what its blocks show in their place; links lead to notebooks."""

    def shown(block: re.Match[str]) -> str:
        return re.sub(
            r"(href=['\"][^'\":]*)\.html\b", r"\1.ipynb", markdown(block[1], block[2], block[3], page)
        )

    return BLOCK.sub(shown, text)


def fill_notebook(content: bytes, page: str) -> bytes:
    """A notebook whose cells are filled; as it is if it has no block."""
    notebook = json.loads(content)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = fill("".join(cell["source"]), page).splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False).encode()
