"""Below a chapter's title stand its verdicts, as its claim boxes have them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docutils import nodes
from sphinx.util import logging

from embviz.view import claim_box
from tests.book.scripts import load_script

extension = load_script("ext/verdict_lines")
CHAPTER = SimpleNamespace(env=SimpleNamespace(docname="kernel/algebra"))


def chapter(*outputs: str) -> nodes.document:
    page = nodes.document(None, None)
    boxes = [nodes.raw("", output, format="html") for output in outputs]
    question = nodes.section("", nodes.title("", "The question"), *boxes)
    page += nodes.section("", nodes.title("", "Algebra"), nodes.paragraph("", "You can."), question)
    return page


def test_each_claim_has_a_line_between_the_goal_and_the_question_that_leads_to_its_box():
    boxes = [claim_box(claim)._repr_html_() for claim in ("kernel.exact", "kernel.circulant")]
    page = chapter(*boxes, boxes[0])  # an output may stand in two formats
    extension.add_lines(CHAPTER, page)
    _, goal, lines, question = page[0].children
    assert (goal.astext(), question[0].astext()) == ("You can.", "The question")
    said = lines.astext()
    assert said.count("<li>") == 2
    for claim in ("kernel.exact", "kernel.circulant"):
        item = claim_box(claim).entry
        assert f"<b>{item.verdict}</b> <a href='#{claim}'>{item.claim.title}</a>" in said


def test_pages_that_are_no_chapters_or_have_no_claims_stay_as_they_are():
    page = chapter(claim_box("kernel.exact")._repr_html_())
    extension.add_lines(SimpleNamespace(env=SimpleNamespace(docname="index")), page)
    assert len(page[0]) == 3
    page = chapter("<p>a table</p>")
    extension.add_lines(CHAPTER, page)
    assert len(page[0]) == 3


def test_a_box_of_another_shape_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    heard: list[str] = []
    monkeypatch.setattr(logging.SphinxLoggerAdapter, "warning", lambda _, text, **__: heard.append(text))
    extension.add_lines(CHAPTER, chapter("<div class='ev-claim' id='kernel.exact'>holds</div>"))
    assert heard == ["verdict_lines: cannot read a claim box"]
