"""Saved pages of pictures in a browser: drawn from one file, asking nobody, running no name."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from embviz.view.pages import save_page
from tests.book.browser import settle, tab
from tests.inspection.test_inspecting import save_hostile
from tests.view.test_pages import PICTURES, POINTS, chart

pytestmark = pytest.mark.browser

# Contrasts of the points of charts, as they're seen, with the page behind them.
CONTRASTS = """
() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const ground = parts(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  const linear = (one) => (one <= 10 ? one / 3295 : ((one / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  return [...document.querySelectorAll(".embviz-chart .mark-symbol.role-mark path")].map((path) => {
    const { fill, opacity, fillOpacity } = getComputedStyle(path);
    const share = opacity * fillOpacity;
    const seen = light(parts(fill).slice(0, 3).map((one, at) => share * one + (1 - share) * ground[at]));
    const [low, high] = [seen, light(ground)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}
"""


WINDOW = {"width": 900, "height": 900}


def test_a_saved_page_draws_every_kind_of_picture_light_and_dark(chromium: Browser, tmp_path: Path):
    save_page(
        [chart(), *(make() for make in PICTURES.values())], tmp_path / "x.html", tables={"Names": POINTS}
    )
    with tab(chromium, "file://", viewport=WINDOW) as page:
        page.goto((tmp_path / "x.html").as_uri())
        settle(page)
        assert page.locator("figure.embviz").count() >= 5
        assert page.locator("figure.embviz svg, figure.embviz canvas").count() >= 5
        page.emulate_media(color_scheme="dark")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) >= 2
        assert min(contrasts) >= 3
        page.locator("input[type=range]").first.press("ArrowRight")
        page.evaluate("probes.chartsFollow()")
        assert page.evaluate("document.documentElement.scrollWidth") <= 900


@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_an_inspection_of_hostile_tokens_is_drawn_and_asks_and_runs_nothing(
    chromium: Browser, tmp_path: Path
):
    save_hostile(tmp_path / "hostile.html", 400)
    dialogs: list[str] = []
    with tab(chromium, "file://", viewport=WINDOW) as page:
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto((tmp_path / "hostile.html").as_uri())
        settle(page)
        assert page.locator(".embviz-output").count() >= 5
        assert page.locator("td img, td script, .embviz-page img").count() == 0
        fold = page.locator("details[data-search]").first
        fold.locator("summary").click()
        fold.locator("input").fill("V of layer 11")
        seen = [row for row in fold.locator("tbody tr").all() if row.is_visible()]
        assert 0 < len(seen) < fold.locator("tbody tr").count()
        assert all("V of layer 11" in row.inner_text() for row in seen)
    assert dialogs == []
