"""Cells with the tag `ledger`: each is shown by itself, nbval compares none, and pages name their claims."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes

from book.view.ledger_cells import evaluate, fill, shows_ledger
from embviz import ledger
from tests.book.conftest import BOOK
from tests.book.scripts import load_script

NOTEBOOKS = [path for path in sorted(BOOK.rglob("*.ipynb")) if "_build" not in path.parts]
SHOWS = re.compile(r"\b(claim_box|plot_tally|ClaimsList|ClaimsMatrix|claims_table|plot_figures)\(")


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


def test_every_claim_has_its_box_in_the_chapter_that_it_names():
    boxes = {path: {item.claim.id for item in fill(code_cells(path))} for path in NOTEBOOKS}
    for claim in ledger.load_claims():
        assert claim.id in boxes[BOOK / f"{claim.chapter}.ipynb"]


def test_a_cell_that_ends_without_an_expression_is_refused():
    assert evaluate("x = 1\nx + 1") == 2
    with pytest.raises(ValueError, match="ends with the expression that it shows"):
        evaluate("x = 1")


@pytest.fixture
def app():
    environment = SimpleNamespace(
        docname="kernel/algebra",
        temp_data={},
        note_dependency=[].append,
        doc2path=lambda name: f"{name}.ipynb",
    )
    return SimpleNamespace(env=environment)


def page() -> nodes.document:
    document = nodes.document(None, None)
    question = nodes.section("", nodes.title("", "The question"))
    document += nodes.section("", nodes.title("", "Algebra"), nodes.paragraph("", "You can."), question)
    return document


def test_a_page_is_filled_in_from_the_ledger_and_names_its_claims_between_goal_and_question(app):
    extension = load_script("ext/claims")
    source = 'from book.view import claim_box\n\nclaim_box("kernel.exact")'
    cell = {"cell_type": "code", "source": source, "execution_count": 1, "outputs": []}
    text = [json.dumps({"cells": [{**cell, "metadata": {"tags": ["ledger"]}}]})]
    extension.fill_cells(app, "kernel/algebra", text)
    item = ledger.entry("kernel.exact")
    (output,) = json.loads(text[0])["cells"][0]["outputs"]
    assert item.verdict in output["data"]["text/html"]
    document = page()
    extension.add_lines(app, document)
    _, goal, lines, question = document[0].children
    assert (goal.astext(), question[0].astext()) == ("You can.", "The question")
    assert f"<b>{item.verdict}</b> <a href='#kernel.exact'>{item.claim.title}</a>" in lines.astext()


def test_pages_without_claims_and_those_of_no_paper_stay_as_they_are(app):
    extension = load_script("ext/claims")
    text = [json.dumps({"cells": [{"cell_type": "markdown", "source": "words", "metadata": {}}]})]
    extension.fill_cells(app, "kernel/algebra", text)
    extension.add_lines(app, document := page())
    assert len(document[0]) == 3
    app.env.docname, app.env.temp_data["claim_boxes"] = "index", [ledger.entry("kernel.exact")]
    extension.add_lines(app, document := page())
    assert len(document[0]) == 3
