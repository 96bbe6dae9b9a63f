"""Saved pages and frames of pictures in a browser: drawn from one file, asking nobody, running no name."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from embviz.view.pages import frame, save_page
from tests.book.browser import Watch
from tests.inspection.test_inspecting import save_hostile
from tests.view.test_pages import PICTURES, POINTS, chart

pytestmark = pytest.mark.browser

READY = "() => document.querySelectorAll('.embviz-output:not([data-ready=true])').length === 0"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_page_draws_every_kind_of_picture(
    chromium: Browser, watch: Watch, tmp_path: Path, scheme: str
):
    save_page(
        [chart(), *(make() for make in PICTURES.values())], tmp_path / "x.html", tables={"Names": POINTS}
    )
    context = chromium.new_context(viewport={"width": 900, "height": 900}, color_scheme=scheme)
    watch.follow_requests(context, "file://")
    page = context.new_page()
    watch.follow(page)
    page.goto((tmp_path / "x.html").as_uri())
    page.wait_for_function(READY)
    assert page.locator("figure.embviz").count() >= 5
    assert page.locator("figure.embviz svg, figure.embviz canvas").count() >= 5
    page.locator("input[type=range]").first.press("ArrowRight")
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 900
    assert watch.errors == []
    assert watch.strangers == []
    context.close()


def test_a_frame_is_as_high_as_its_picture(chromium: Browser, watch: Watch, tmp_path: Path):
    (tmp_path / "cell.html").write_text(frame(PICTURES["explorer"]()), encoding="utf-8")
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    watch.follow_requests(context, "file://")
    page = context.new_page()
    watch.follow(page)
    page.goto((tmp_path / "cell.html").as_uri())
    inner = page.frames[1]
    inner.wait_for_function(READY)
    page.wait_for_timeout(300)
    high = inner.evaluate("document.documentElement.offsetHeight")
    assert high <= page.locator("iframe").bounding_box()["height"] <= high + 6
    assert (watch.errors, watch.strangers) == ([], [])
    context.close()


def test_an_inspection_of_hostile_tokens_is_drawn_and_asks_and_runs_nothing(
    chromium: Browser, watch: Watch, tmp_path: Path
):
    save_hostile(tmp_path / "hostile.html", 400)
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    watch.follow_requests(context, "file://")
    page = context.new_page()
    watch.follow(page)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto((tmp_path / "hostile.html").as_uri())
    page.wait_for_function(READY)
    assert page.locator(".embviz-output").count() == 2
    assert page.locator("td img, td script").count() == 0
    assert (dialogs, watch.errors, watch.strangers) == ([], [], [])
    context.close()
