"""The page of forms: each chart fills its column and no more, whatever its width, and can be heard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.book.browser import tab
from tests.book.test_pages import resize, show

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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


def columns_that_are_filled(page: Page) -> list[dict]:
    """Each chart, which fills its column and no more, and whose finding a screen reader says."""
    charts: list[dict] = page.evaluate(CHARTS)
    assert len(charts) >= 11, "the page shows each form"
    for chart in charts:
        assert chart["scrolled"] <= chart["column"] + 1, chart["finding"]
        assert 0.97 * chart["column"] <= chart["drawing"] <= chart["column"] + 1, chart["finding"]
        assert chart["heard"] == chart["finding"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return charts


def test_each_form_fills_its_column_at_every_width_and_panels_stand_below_each_other_on_a_phone(
    chromium, site
):
    with tab(chromium, site) as page:
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            show(page, site, "forms")
            charts = columns_that_are_filled(page)
            height = next(chart["height"] for chart in charts if "every matrix" in chart["finding"])
            assert (height > 600) == (width == 390), height
        resize(page, 700)
        columns_that_are_filled(page)
