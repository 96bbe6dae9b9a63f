"""Each chapter's head: what to read before, which is there and comes earlier, and how long it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from book import reading_time
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


def notebook(folder: Path, *cells: dict[str, object]) -> Path:
    path = folder / "chapter.ipynb"
    path.write_text(json.dumps({"cells": [{"metadata": {}, "outputs": [], **cell} for cell in cells]}))
    return path


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_chapter_says_below_its_title_what_to_read_before_and_how_long_it_takes(path):
    title, _, head = first_cell(path)[:3]
    assert title.startswith("# ")
    said = reading_time.HEAD.fullmatch(head)
    assert said, f"{head!r} is not of the form **Prerequisites:** ... **Time:** about N minutes."
    for words, address in LINK.findall(said[1]):
        before = (path.parent / address).resolve()
        assert before.is_file(), f"{address} is not there"
        assert first_cell(before)[0] == f"# {words}"
        assert NUMBERED.index(before.with_suffix("")) < NUMBERED.index(path.with_suffix(""))
    assert not reading_time.differs(path), "run python book/reading_time.py --write"


def test_time_is_that_of_words_open_code_and_pictures_and_not_of_solutions(tmp_path):
    prose = "word " * 2_000 + "\n```{dropdown} Solutions\n" + "word " * 999 + "\n```"
    picture = {"data": {"application/vnd.vegalite.v5+json": {}}}
    path = notebook(
        tmp_path,
        {"cell_type": "markdown", "source": [prose]},
        {"cell_type": "code", "source": ["x\n\n" * 60], "outputs": [picture]},
        {
            "cell_type": "code",
            "source": ["x\n" * 600],
            "metadata": {"tags": ["hide-input"]},
            "outputs": [picture],
        },
    )
    assert reading_time.minutes(path) == pytest.approx(10 + 5 + 2, abs=0.05)
    assert reading_time.estimated_minutes(path) == 15


def test_the_head_of_a_chapter_that_grew_is_found_and_corrected(tmp_path):
    head = "# Title\n\n**Prerequisites:** linear algebra. **Time:** about 5 minutes.\n\n"
    path = notebook(tmp_path, {"cell_type": "markdown", "source": [head, "word " * 3_000]})
    assert reading_time.differs(path)
    path.write_text(reading_time.corrected(path), encoding="utf-8")
    assert first_cell(path)[2] == "**Prerequisites:** linear algebra. **Time:** about 15 minutes."
    assert not reading_time.differs(path)


def test_a_page_and_the_side_bar_show_the_chapters_number(pages):
    page = (pages / "introduction.html").read_text(encoding="utf-8")
    assert '<h1><span class="section-number">1. </span>Embeddings in 15 minutes' in page
    listed = re.findall(r'<a class="(?:current )?reference internal" href="[^"]*">(\d+)\. [^<]', page)
    assert [*dict.fromkeys(map(int, listed))] == list(range(1, len(NUMBERED) + 1))
