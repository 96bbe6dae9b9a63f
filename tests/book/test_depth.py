"""Sections that go deeper are folded, by a comment below their heading."""

from __future__ import annotations

import pytest
from docutils import nodes
from sphinx.util import logging

from tests.book.scripts import load_script

extension = load_script("ext/depth")


def document(*children: nodes.Node) -> nodes.document:
    page = nodes.document(None, None)
    page += nodes.section("", *children, ids=["one"])
    return page


def comment(text: str) -> nodes.raw:
    return nodes.raw("", f"<!-- {text} -->", format="html")


def title() -> nodes.title:
    return nodes.title("", "More")


def test_what_follows_the_comment_and_no_other_is_folded_below_its_words():
    note, page = (
        document(title(), comment(said), nodes.paragraph("", "a"), nodes.paragraph("", "b"))
        for said in ("a note", "depth: two readings")
    )
    for one in (note, page):
        extension.fold_sections(None, one)
    assert next(note.findall(extension.depth), None) is None
    heading, fold = page[0].children
    assert heading.astext() == "More"
    assert fold["holds"] == "two readings"
    assert [child.astext() for child in fold] == ["a", "b"]


def test_a_comment_that_follows_no_heading_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    heard: list[str] = []
    monkeypatch.setattr(logging.SphinxLoggerAdapter, "warning", lambda _, text, **__: heard.append(text))
    page = document(title(), nodes.paragraph("", "a"), comment("depth: late"))
    extension.fold_sections(None, page)
    assert heard == ["depth: no heading before it"]
