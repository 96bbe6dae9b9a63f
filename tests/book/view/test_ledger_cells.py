"""Cells with the tag `ledger`: each is shown by itself, nbval compares none, claims come after results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from book.view.ledger_cells import evaluate, fill, shows_ledger
from embviz import ledger
from tests.book.conftest import BOOK
from tests.book.scripts import load_script

NOTEBOOKS = [path for path in sorted(BOOK.rglob("*.ipynb")) if "_build" not in path.parts]
SHOWS = re.compile(r"\b(claim_line|claims_of|PapersMap|ClaimsList|ClaimsMatrix|claims_table|plot_figures)\(")


def code_cells(path: Path) -> list[dict[str, object]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(BOOK)))
def test_what_shows_the_ledger_has_both_tags_and_can_be_shown_by_itself(path):
    cells = code_cells(path)
    for cell in cells:
        assert shows_ledger(cell) or not SHOWS.search("".join(cell["source"])), cell["source"]
        assert not shows_ledger(cell) or "nbval-ignore-output" in cell["metadata"]["tags"]
    fill(cells)
    for cell in filter(shows_ledger, cells):
        assert cell["outputs"][0]["data"].keys() - {"text/plain"}, cell["source"]


def lines_in(path: Path) -> list[str]:
    """Claims that have a line in a chapter, in their order."""
    return re.findall(r'claim_line\(\s*"([\w.]+)"', "\n".join("".join(c["source"]) for c in code_cells(path)))


def test_every_claim_has_its_line_in_the_chapter_that_it_names():
    lines = {path: lines_in(path) for path in NOTEBOOKS}
    for claim in ledger.load_claims():
        assert claim.id in lines[BOOK / f"{claim.chapter}.ipynb"]


def test_no_verdict_stands_before_the_question_and_the_chapter_ends_with_what_was_reproduced():
    chapters = {BOOK / f"{claim.chapter}.ipynb" for claim in ledger.load_claims()}
    for path in chapters:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells]
        headings = [text for text in texts if re.match("##? ", text)]
        first = next(i for i, text in enumerate(texts) if "claim_line(" in text)
        assert any("## " in text for text in texts[:first] if not text.startswith("from")), path
        last = next(i for i, text in enumerate(texts) if "claims_of(" in text)
        assert last > max(i for i, text in enumerate(texts) if "claim_line(" in text), path
        assert texts[last - 1] == "## What was reproduced", path
        assert any(heading.startswith("## Exercises") for heading in headings), path


def test_a_cell_that_ends_without_an_expression_is_refused():
    assert evaluate("x = 1\nx + 1") == 2
    with pytest.raises(ValueError, match="ends with the expression that it shows"):
        evaluate("x = 1")


@pytest.fixture
def app():
    environment = SimpleNamespace(
        docname="kernel/algebra", note_dependency=[].append, doc2path=lambda name: f"{name}.ipynb"
    )
    return SimpleNamespace(env=environment)


def test_a_page_is_filled_in_from_the_ledger(app):
    extension = load_script("ext/claims")
    source = 'from book.view import claim_line\n\nclaim_line("kernel.exact")'
    cell = {"cell_type": "code", "source": source, "execution_count": 1, "outputs": []}
    text = [json.dumps({"cells": [{**cell, "metadata": {"tags": ["ledger"]}}]})]
    extension.fill_cells(app, "kernel/algebra", text)
    item = ledger.entry("kernel.exact")
    (output,) = json.loads(text[0])["cells"][0]["outputs"]
    assert item.verdict in output["data"]["text/html"]


def test_a_page_without_claims_stays_as_it_is(app):
    text = [json.dumps({"cells": [{"cell_type": "markdown", "source": "words", "metadata": {}}]})]
    before = list(text)
    load_script("ext/claims").fill_cells(app, "kernel/algebra", text)
    assert text == before
