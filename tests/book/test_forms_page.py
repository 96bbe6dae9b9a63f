"""The page of forms: each chart fits a phone, fills its column, and can be heard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.book.browser import Watch
from tests.book.test_pages import opened

pytestmark = pytest.mark.browser

# In the page: of each chart, not of the map, its column's width, its drawing's, and what a screen reader
# says of it.
CHARTS = """
() => [...document.querySelectorAll(".embviz-output:has(.embviz-chart svg)")].map((output) => {
  const chart = output.querySelector(".embviz-chart");
  const drawing = chart.querySelector("svg").getBoundingClientRect();
  return {
    finding: output.querySelector(".embviz-title").textContent,
    heard: output.querySelector("[role=graphics-document]").getAttribute("aria-label"),
    column: chart.clientWidth, scrolled: chart.scrollWidth, drawing: drawing.width, height: drawing.height,
  };
})
"""


def shown(page: Page) -> list[dict]:
    charts: list[dict] = page.evaluate(CHARTS)
    assert len(charts) >= 11, "the page shows each form"
    return charts


@pytest.fixture(scope="module", params=[390, 1280])
def page(request: pytest.FixtureRequest, chromium: Browser, site: str) -> Iterator[tuple[Page, Watch]]:
    """The page, opened at the width of a phone and at a desktop's, with what it did since."""
    context = chromium.new_context(viewport={"width": request.param, "height": 900})
    watch = Watch()
    watch.follow_requests(context, site)
    yield opened(context, watch, site, "forms"), watch
    context.close()


def test_each_form_fills_its_column_and_no_more_and_a_screen_reader_says_its_finding(page):
    for chart in shown(page[0]):
        assert chart["scrolled"] <= chart["column"] + 1, chart["finding"]
        assert 0.97 * chart["column"] <= chart["drawing"] <= chart["column"] + 1, chart["finding"]
        assert chart["heard"] == chart["finding"]
    assert page[0].evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page[1].errors == []


def test_panels_stand_below_each_other_on_a_phone(page):
    height = next(chart["height"] for chart in shown(page[0]) if "every matrix" in chart["finding"])
    assert (height > 600) == (page[0].viewport_size["width"] == 390), height


def test_panels_follow_their_box_when_the_window_changes(page):
    page[0].set_viewport_size({"width": 700, "height": 900})
    page[0].wait_for_function(
        "[...document.querySelectorAll('.embviz-chart:has(svg)')].every((chart) =>"
        " Math.abs(chart.querySelector('svg').getBoundingClientRect().width - chart.clientWidth)"
        " < 0.03 * chart.clientWidth)",
        timeout=5_000,
    )
