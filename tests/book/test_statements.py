"""Sentences of the book about verdicts: each was written for the verdict that the ledger has now."""

from __future__ import annotations

import ast
import json

import pytest

from book.view.statements import cited_as, moved_sentences
from tests.book.conftest import BOOK

PAGES = sorted(path for path in BOOK.rglob("*.ipynb") if "_build" not in path.parts)


def statements(source: str) -> list[str]:
    """The texts that a cell hands to `as_judged`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    own = [call for call in calls if ast.unparse(call.func).split(".")[-1] == "as_judged"]
    return [ast.literal_eval(call.args[0]) for call in own]


def cells_with_statements() -> list[tuple[str, str]]:
    found = []
    for path in PAGES:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "as_judged(" in source:
                found += [(path.stem, text) for text in statements(source)]
    return found


@pytest.mark.parametrize(("page", "text"), cells_with_statements())
def test_every_sentence_about_a_verdict_says_what_the_ledger_says(stored_ledger, page, text):
    verdicts = {entry.claim.id: cited_as(entry) for entry in stored_ledger}
    assert moved_sentences(text, verdicts) == []


def test_the_front_page_and_the_summary_rest_on_verdicts():
    pages = {page for page, _ in cells_with_statements()}
    assert {"index", "results"} <= pages
