"""The picture of a chapter on another page, and the tour that is made of them."""

from __future__ import annotations

import re

import pytest

from tests.book.conftest import BOOK
from tests.book.scripts import load_script

pictures = load_script("ext/pictures")


def test_a_picture_for_another_page_is_that_of_the_cell_named():
    notebook = BOOK / "tying" / "exor.ipynb"
    assert pictures.picture(notebook, "cell-11")["usermeta"]["embviz"]["player"]
    with pytest.raises(ValueError, match=r"exor.ipynb has no picture in a cell 'cell-00'"):
        pictures.picture(notebook, "cell-00")


def test_each_stop_of_the_tour_has_a_picture_to_move_a_sentence_and_a_chapter():
    stops = (BOOK / "tour.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert [stop[:2] for stop in stops] == [f"{number}." for number in range(1, 8)]
    for stop in stops:
        page, cell = re.search(r"```\{picture\} (\S+) (\S+)\n```", stop).groups()
        meta = pictures.picture(BOOK / f"{page}.ipynb", cell)["usermeta"]["embviz"]
        assert meta.keys() & {"controls", "player", "maps"}, page
        assert stop.count("**Remember:**") == 1
        assert f"]({page}.ipynb)" in stop
