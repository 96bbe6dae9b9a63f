"""Citations in the copies that `embviz lab` opens: authors and years in place of keys."""

from __future__ import annotations

import json

from embviz.project import copy_chapters
from embviz.project.citations import ROLE, read_references, written_out
from tests.book.conftest import BOOK

BIBTEX = r"""
@article{two2014, author = {Levy, Omer and G{\"o}del, Kurt}, title = {A}, year = {2014}}
@article{three2016, author = {van der Maaten, L. and B, C. and D, E.}, title = {A}, year = {2016}}
"""


def written(tmp_path, text):
    (tmp_path / "references.bib").write_text(BIBTEX, encoding="utf-8")
    return written_out(text, read_references([tmp_path / "references.bib"]))


def test_a_citation_is_authors_and_year(tmp_path):
    assert written(tmp_path, "{cite:t}`two2014` says") == "Levy and Gödel (2014) says"
    assert written(tmp_path, "so {cite}`two2014,three2016`.") == (
        "so (Levy and Gödel, 2014; van der Maaten et al., 2016)."
    )
    assert written(tmp_path, "{cite:t}`three2016, two2014`") == (
        "van der Maaten et al. (2016), Levy and Gödel (2014)"
    )


def test_a_key_without_an_entry_stays(tmp_path):
    assert written(tmp_path, "{cite}`two2014,absent`") == "{cite}`two2014,absent`"


def test_no_copy_of_the_books_chapters_shows_a_key(tmp_path):
    copies = copy_chapters(BOOK, tmp_path / "copies")
    assert len(copies.written) > 40
    cited = 0
    for name in copies.written:
        before, after = (
            (folder / name).read_text(encoding="utf-8") for folder in (BOOK, tmp_path / "copies")
        )
        cited += len(ROLE.findall(before))
        assert ROLE.findall(after) == [], name
        json.loads(after)  # a name did not break the file
    assert cited > 200


def test_a_copy_with_citations_counts_as_unedited(tmp_path):
    book, folder = tmp_path / "book", tmp_path / "copies"
    book.mkdir()
    (book / "references.bib").write_text(BIBTEX, encoding="utf-8")
    (book / "one.ipynb").write_text("first {cite}`two2014`", encoding="utf-8")
    assert copy_chapters(book, folder).written == ("one.ipynb",)
    assert copy_chapters(book, folder).written == ()
    (book / "one.ipynb").write_text("second {cite}`two2014`", encoding="utf-8")
    assert copy_chapters(book, folder).written == ("one.ipynb",)
    assert (folder / "one.ipynb").read_text(encoding="utf-8") == "second (Levy and Gödel, 2014)"
    (folder / "one.ipynb").write_text("mine", encoding="utf-8")
    (book / "one.ipynb").write_text("third", encoding="utf-8")
    assert copy_chapters(book, folder).kept == ("one.ipynb",)
