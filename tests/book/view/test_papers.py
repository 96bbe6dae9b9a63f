"""The map of the five papers: where each acts, what it asks, and answers as strong as their verdicts."""

import dataclasses

import pytest
import yaml

from book import ledger
from book.view.papers import PAPERS, STAGES, cited, papers_map
from tests.book.conftest import BOOK

TOC = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))["parts"]


def test_a_map_whose_verdict_has_moved_is_refused_by_name(monkeypatch):
    true_entry = ledger.entry

    def moved(name):
        item = true_entry(name)
        return dataclasses.replace(item, verdict=ledger.YES) if name == "kernel.circulant" else item

    monkeypatch.setattr(ledger, "entry", moved)
    with pytest.raises(ValueError, match=r"kernel\.circulant is 'yes' now"):
        papers_map(None, "")


def test_each_paper_leads_to_the_first_chapter_of_its_part_and_acts_on_the_path():
    firsts = {part["caption"].lower(): part["chapters"][0]["file"] for part in TOC}
    assert [paper.opens for paper in PAPERS] == [firsts[paper.part] for paper in PAPERS]
    assert all(1 <= paper.stages[0] <= paper.stages[1] <= len(STAGES) for paper in PAPERS)


def test_a_paper_is_cited_as_the_bibliography_has_it():
    title, authors, year = cited("bertolotti2024")
    assert title == "By Tying Embeddings You Are Assuming the Distributional Hypothesis"
    assert (authors, year) == ("Francesco Bertolotti and Walter Cazzola", "2024")
    assert cited("mobley2026kernel")[1] == "John Alexander Mobley"
    assert "{" not in "".join(cited(paper.key)[0] for paper in PAPERS)


def test_the_front_page_shows_all_papers_and_a_part_its_own():
    whole, part = papers_map(None, ""), papers_map("kernel", "../")
    for paper in PAPERS:
        assert "[" in paper.answer, "it rests on no verdict"
        assert paper.question in whole
        assert (paper.question in part) == (paper.part == "kernel")
        assert f"href='{paper.opens}.html'" in whole
        assert f"href='../{paper.opens}.html'" in part
    assert part.count("ev-other") == len(PAPERS) - 1
    assert part.count("aria-current") == 1
    assert "ev-other" not in whole
    with pytest.raises(ValueError, match="no paper has the part 'yours': choose from reflections"):
        papers_map("yours", "")


def test_every_part_of_a_paper_opens_with_the_map_and_its_paper_highlighted():
    for paper in PAPERS:
        source = (BOOK / f"{paper.opens}.ipynb").read_text(encoding="utf-8")
        assert f"```{{papers}} {paper.part}" in source, paper.opens
