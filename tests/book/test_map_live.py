"""A live map on a page: what is chosen there is known to the kernel, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from embviz.view import Map, embedding_map
from tests.book.browser import tab, until
from tests.book.widget_page import show_widget

pytestmark = pytest.mark.browser

MAP = "document.querySelector('#el').maps"


@pytest.fixture
def made() -> Map:
    vectors = np.random.default_rng(0).normal(size=(30, 4))
    kinds = {"kind": [str(place % 5) for place in range(30)]}
    return embedding_map(vectors, [f"word{place}" for place in range(30)], color=kinds, focus="word5")


@pytest.fixture
def around() -> str:
    return "<div>"


@pytest.fixture
def page(chromium: Browser, made: Map, around: str) -> Iterator[Page]:
    with tab(chromium, "about:", viewport={"width": 900, "height": 800}, reduced_motion="reduce") as page:
        yield show_widget(page, made, around=around)


def click(page: Page, word: str, *modifiers: str) -> None:
    find = f"(word) => {{ const {{ map, data }} = {MAP}.panels[0]; "
    find += "const box = map.canvas.getBoundingClientRect(); "
    find += "const [x, y] = map.screen(data.index.get(word)); return [box.left + x, box.top + y]; }"
    x, y = page.evaluate(find, word)
    for key in modifiers:
        page.keyboard.down(key)
    page.mouse.click(x, y)
    for key in modifiers:
        page.keyboard.up(key)


def test_words_are_chosen_by_clicks_and_by_the_kernel(page, made):
    seen: list[list[str]] = []
    made.observe(lambda change: seen.append(change.new), "selected")
    near = page.locator(".embviz-near b")
    assert near.text_content() == "word5"
    assert made.selected == ["word5"]
    click(page, "word7", "Shift")
    near.filter(has_text="word7").wait_for()
    click(page, "word9", "Shift")
    click(page, "word5", "Shift")  # a second time: no longer chosen
    click(page, "word3")
    near.filter(has_text="word3").wait_for()
    until(page, lambda: len(seen) == 4)
    assert seen == [["word5", "word7"], ["word5", "word7", "word9"], ["word7", "word9"], ["word3"]]
    page.evaluate("receive('selected', ['word1', 'word2'])")
    near.filter(has_text="word2").wait_for()
    page.wait_for_function(f"{MAP}.panels[0].map.labels.filter((one) => one.bold).length === 2")
    page.evaluate("receive('selected', [])")
    page.get_by_text("Point at a word").wait_for()
    page.get_by_label("find").fill("word20")
    until(page, lambda: made.selected == ["word20"])
    assert len(seen) == 5  # what the kernel chose, the page did not send back


@pytest.mark.parametrize("around", ["<div id=box hidden>"])
def test_a_map_that_is_drawn_before_it_is_seen_has_its_legend(page):
    symbols = page.locator(".embviz-legend svg, .embviz-legend i, .embviz-legend canvas")
    assert symbols.count() == 0
    page.evaluate("document.querySelector('#box').hidden = false")
    symbols.first.wait_for()
    assert symbols.count() == 5  # the kinds
