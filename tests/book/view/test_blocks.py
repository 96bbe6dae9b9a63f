"""Blocks that show the ledger: on pages, and filled in in copies of chapters."""

import json

import pytest

from book import ledger
from book.view.blocks import fill, fill_notebook, markdown

LINE = "```{claim} kernel.exact\n```"


def test_a_block_shows_the_claim_and_the_text_around_it_stays():
    said = fill(
        f"Before.\n\n{LINE}\n\nAfter, in `{{claim}} code`.\n\n```python\n1 + 1\n```", "kernel/algebra"
    )
    assert said.startswith("Before.\n\n<p class='ev-claim' id='kernel.exact'>")
    assert said.endswith("</p>\n\nAfter, in `{claim} code`.\n\n```python\n1 + 1\n```")
    assert ledger.entry("kernel.exact").verdict in said


def test_sentences_in_a_block_are_filled_and_cite_their_verdicts():
    item = ledger.entry("kernel.circulant")
    text = f"A score of {{score:.2f}} [kernel.circulant: {item.verdict}].\n\nMore."
    said = markdown("say", "kernel.circulant", text, "kernel/extracting")
    assert f'href="../ledger.html#kernel.circulant" title="{item.claim.title}"' in said
    assert said.endswith("</small>.\n\nMore.")


@pytest.mark.parametrize(("page", "root"), [("index", ""), ("kernel/algebra", "../")])
def test_links_lead_from_the_page_to_the_ledger_and_in_a_copy_to_its_notebook(page, root):
    assert f"href='{root}ledger.html#kernel.exact'" in markdown("claim", "kernel.exact", "", page)
    assert f"href='{root}ledger.ipynb#kernel.exact'" in fill(LINE, page)


def test_a_chapter_lists_the_claims_that_name_it():
    said = markdown("claims", "", "", "tying/exor")
    own = [item for item in ledger.entries() if item.claim.chapter == "tying/exor"]
    assert said.count("<li>") == len(own) > 1
    assert all(f"href='../ledger.html#{item.claim.id}'" in said for item in own)


@pytest.mark.parametrize("kind", ["claims-list", "claims-table"])
def test_every_claim_of_a_paper_is_shown(kind):
    said = markdown(kind, "kernel", "", "ledger")
    assert all(f"#{item.claim.id}'" in said for item in ledger.entries("kernel"))


def test_the_matrix_has_the_papers_in_the_order_of_the_book():
    said = markdown("claims-matrix", "", "", "ledger")
    places = [said.index(f"href='#{paper}'") for paper in ("reflections", "tying", "kernel", "released")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```{claim} kernel.nothing\n```", "kernel.nothing"),
        ("```{claims}\n```", "no claim names the chapter 'yours/yours'"),
        ("```{papers} yours\n```", "no paper has the part 'yours'"),
        ("```{say} kernel.exact\nIt is {nothing}.\n```", "kernel.exact has no 'nothing'"),
        ("```{say}\nIt is so [kernel.circulant: yes].\n```", "kernel.circulant is .* now, not 'yes'"),
    ],
)
def test_what_names_nothing_or_rests_on_another_verdict_is_refused(block, message):
    with pytest.raises(ValueError, match=message):
        fill(block, "yours/yours")


def test_in_a_notebook_text_is_filled_and_code_is_not():
    cells = [{"cell_type": kind, "source": LINE.splitlines(keepends=True)} for kind in ("markdown", "code")]
    filled = json.loads(fill_notebook(json.dumps({"cells": cells}).encode(), "kernel/algebra"))["cells"]
    assert "In the ledger" in "".join(filled[0]["source"])
    assert "".join(filled[1]["source"]) == LINE
