"""Each chapter's head: what to read before, which is there and comes earlier."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.book.conftest import BOOK

PARTS = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))["parts"]
NUMBERED = [BOOK / chapter["file"] for part in PARTS if part.get("numbered") for chapter in part["chapters"]]


def first_cell(notebook: Path) -> list[str]:
    source = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(source).splitlines()


# A chapter has exercises; the ledger and pages about the book have none.
CHAPTERS = [
    path
    for stem in NUMBERED
    if (path := stem.with_suffix(".ipynb")).is_file() and "## Exercises" in path.read_text(encoding="utf-8")
]
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_chapter_says_below_its_title_what_to_read_before(path):
    title, _, head = first_cell(path)[:3]
    assert title.startswith("# ")
    said = re.match(r"\*\*Prerequisites:\*\* (.+?)\.(?: |$)", head)
    assert said, f"{head!r} is not of the form **Prerequisites:** [title](chapter.ipynb)."
    for words, address in LINK.findall(said[1]):
        before = (path.parent / address).resolve()
        assert before.is_file(), f"{address} is not there"
        assert first_cell(before)[0] == f"# {words}"
        assert NUMBERED.index(before.with_suffix("")) < NUMBERED.index(path.with_suffix(""))


def test_a_page_and_the_side_bar_show_the_chapters_number(pages):
    page = (pages / "introduction.html").read_text(encoding="utf-8")
    assert '<h1><span class="section-number">1. </span>Embeddings in 15 minutes' in page
    listed = re.findall(r'<a class="(?:current )?reference internal" href="[^"]*">(\d+)\. [^<]', page)
    assert [*dict.fromkeys(map(int, listed))] == list(range(1, len(NUMBERED) + 1))
