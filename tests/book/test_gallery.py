"""The gallery: a card for each chapter, drawn from its stored output, small enough, and drawn once."""

from __future__ import annotations

import re

import pytest

from tests.book.conftest import BOOK
from tests.book.scripts import load_script

gallery = load_script("ext/gallery")
CHAPTERS = sorted(path for path in BOOK.glob("*/*.ipynb"))
CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "title": {"text": ["One bar"]},
    "data": {"values": [{"x": 0.05}]},
    "mark": "bar",
    "encoding": {"x": {"field": "x", "type": "quantitative", "axis": {"values": [0.05], "format": ".2f"}}},
    "width": 620,
    "height": 200,
    "config": {"style": {"bar": {"fill": "currentColor"}}},
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))


def test_every_chapter_has_a_card_that_leads_to_it_and_says_what_its_picture_shows(pages):
    page = (pages / "gallery.html").read_text(encoding="utf-8")
    cards = re.findall(r'<li><a href="([^"]+)\.html"><img src="([^"]+)".*?</strong> (.+?)</a></li>', page)
    assert sorted(card[0] for card in cards) == [f"{path.parent.name}/{path.stem}" for path in CHAPTERS]
    assert all((pages / card[1]).stat().st_size > 500 for card in cards)
    assert all(len(card[2]) > 20 for card in cards)


def test_all_pictures_together_weigh_less_than_a_page_may(pages):
    sizes = [path.stat().st_size for path in (pages / "_static" / "gallery").iterdir()]
    assert sum(sizes) < 2_500_000


def test_a_card_is_narrow_wordless_and_has_no_colour_of_the_page():
    colour = {"field": "model", "legend": {"title": "model of the text", "orient": "top"}}
    said = gallery.small(CHART | {"layer": [{"encoding": {"color": colour}}]})
    assert "One bar" not in said
    assert "model of the text" not in said  # it could lie over a mark
    assert f'"width": {gallery.WIDTH}' in said
    assert '"orient": "top"' in said
    drawn = gallery.drawn(gallery.small(CHART)).decode()
    assert "currentColor" not in drawn
    assert ">0.05<" in drawn  # an axis keeps its digits


def test_a_picture_is_drawn_once_and_again_when_what_it_shows_changes(monkeypatch):
    drawings = []
    monkeypatch.setattr(gallery, "drawn", lambda chart: drawings.append(chart) or chart.encode())
    for chart in ("a", "a", "b"):
        assert gallery.kept(chart) == chart.encode()
    assert drawings == ["a", "b"]


def test_a_drawing_of_many_marks_becomes_pixels(monkeypatch):
    monkeypatch.setattr(gallery, "LARGEST", 100)
    assert gallery.drawn(gallery.small(CHART)).startswith(b"\x89PNG")


def test_a_picture_for_another_page_is_that_of_the_cell_named():
    notebook = BOOK / "tying" / "exor.ipynb"
    assert gallery.picture(notebook, "cell-11")["usermeta"]["embviz"]["player"]
    with pytest.raises(ValueError, match=r"exor.ipynb has no picture in a cell 'cell-00'"):
        gallery.picture(notebook, "cell-00")


def test_each_stop_of_the_tour_has_a_picture_to_move_a_sentence_and_a_chapter():
    stops = (BOOK / "tour.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert [stop[:2] for stop in stops] == [f"{number}." for number in range(1, 8)]
    for stop in stops:
        page, cell = re.search(r"```\{picture\} (\S+) (\S+)\n```", stop).groups()
        meta = gallery.picture(BOOK / f"{page}.ipynb", cell)["usermeta"]["embviz"]
        assert meta.keys() & {"controls", "player", "maps"}, page
        assert stop.count("**Remember:**") == 1
        assert f"]({page}.ipynb)" in stop
