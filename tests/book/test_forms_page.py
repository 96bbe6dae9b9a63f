"""The page of forms: each chart fits a phone, fills its column, and can be heard."""

from __future__ import annotations

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


@pytest.mark.parametrize("width", [390, 1280])
def test_each_form_fills_its_column_and_no_more(
    chromium: Browser, watch: Watch, site: str, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    watch.follow_requests(context, site)
    for chart in shown(opened(context, watch, site, "forms")):
        assert chart["scrolled"] <= chart["column"] + 1, chart["finding"]
        assert 0.97 * chart["column"] <= chart["drawing"] <= chart["column"] + 1, chart["finding"]
    assert watch.errors == []
    context.close()


def test_the_finding_is_what_a_screen_reader_says(context, watch, site):
    for chart in shown(opened(context, watch, site, "forms")):
        assert chart["heard"] == chart["finding"]


def test_panels_stand_below_each_other_on_a_phone(chromium, watch, site):
    heights = []
    for width in (390, 1280):
        context = chromium.new_context(viewport={"width": width, "height": 900})
        charts = {chart["finding"]: chart for chart in shown(opened(context, watch, site, "forms"))}
        heights.append(
            next(chart["height"] for finding, chart in charts.items() if "every matrix" in finding)
        )
        context.close()
    assert heights[0] > 2 * heights[1]


def test_panels_follow_their_box_when_the_window_narrows(context, watch, site):
    page = opened(context, watch, site, "forms")
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(
        "[...document.querySelectorAll('.embviz-chart:has(svg)')].every((chart) =>"
        " Math.abs(chart.querySelector('svg').getBoundingClientRect().width - chart.clientWidth)"
        " < 0.03 * chart.clientWidth)",
        timeout=5_000,
    )
