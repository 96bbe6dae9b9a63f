"""Words of a vocabulary may be markup, quotes, emoji, right-to-left or broken lines: always shown as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.book.browser import settle, tab
from tests.book.made_pages import HOSTILE, IMAGE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(chromium: Browser, made_pages: Path) -> Iterator[Page]:
    with tab(chromium, "file://", viewport={"width": 1280, "height": 1600}) as page:
        page.goto(f"{made_pages.as_uri()}/words.html")
        settle(page)
        yield page
        assert page.evaluate("window.hurt") is None


def test_a_page_cannot_be_ended_from_inside_its_data(made_pages):
    html = (made_pages / "words.html").read_text(encoding="utf-8")
    start = html.index('<script type="application/json">') + len('<script type="application/json">')
    stored = json.loads(html[start : html.index("</script>", start)])
    assert [row["word"][0] for row in stored["data"]["values"]] == HOSTILE


def test_titles_captions_controls_and_drawings_show_words_as_text_and_two_explorers_move_apart(page):
    assert page.locator(".embviz-title").first.text_content() == HOSTILE[1]
    assert page.locator(".embviz-caption").first.text_content() == HOSTILE[0]
    first, second = page.locator(".embviz select").all()
    assert first.locator("option").all_text_contents() == [f"{word}!" for word in HOSTILE]
    for index, word in enumerate(HOSTILE):
        first.select_option(index=index)
        page.evaluate("document.querySelector('.embviz-output').view.runAsync().then(() => true)")
        assert word in page.locator(".embviz-chart").first.locator("svg text").all_text_contents()
        assert second.input_value() == HOSTILE[0]
    assert page.locator(".embviz script, .embviz img, .embviz b").count() == 0


def test_a_tooltip_shows_words_as_text_and_fetches_no_image(page):
    page.locator(".embviz select").first.select_option(index=1)
    page.locator(".embviz-chart").first.locator(".mark-rect path").first.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert tip.locator("td.value").all_text_contents()[:2] == [HOSTILE[1], IMAGE]
    assert tip.locator("img, script").count() == 0


def test_a_long_table_shows_words_as_text_and_can_be_searched(page):
    box = page.locator(".datatable-input")
    box.wait_for()
    page.wait_for_selector("table.datatable-table tbody tr")
    cells = page.locator("table.datatable-table tbody td").all_inner_texts()
    assert HOSTILE[0] in cells
    assert page.locator("table.datatable-table :is(script, img, b)").count() == 0
    box.fill("owl")
    page.wait_for_function("document.querySelectorAll('table.datatable-table tbody tr').length === 3")
