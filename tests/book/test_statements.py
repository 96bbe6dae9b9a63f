"""Sentences of the book about verdicts: each was written for the verdict that the ledger has now."""

from __future__ import annotations

import ast
import json

from book.view.statements import cited_as, moved_sentences
from tests.book.conftest import BOOK


def statements(source: str) -> list[str]:
    """The texts that a cell hands to `as_judged`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    own = [call for call in calls if ast.unparse(call.func).split(".")[-1] == "as_judged"]
    return [ast.literal_eval(call.args[0]) for call in own]


def test_every_sentence_about_a_verdict_says_what_the_ledger_says(stored_ledger):
    verdicts = {entry.claim.id: cited_as(entry) for entry in stored_ledger}
    pages = set()
    for path in BOOK.rglob("*.ipynb"):
        text = path.read_text(encoding="utf-8") if "_build" not in path.parts else ""
        for cell in json.loads(text)["cells"] if "as_judged(" in text else ():
            found = statements("".join(cell["source"])) if cell["cell_type"] == "code" else []
            assert [moved for text in found for moved in moved_sentences(text, verdicts)] == [], path.stem
            pages |= {path.stem} if found else set()
    assert {"index", "results"} <= pages
