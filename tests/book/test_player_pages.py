"""A player in a static page: played, paused, stepped and scrubbed as a reader would, with no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.book.browser import settle, tab
from tests.made_player import EVERY

pytestmark = pytest.mark.browser

STEP = "document.querySelector('.embviz-output').view.signal('frame')"


@pytest.fixture
def page(chromium: Browser, made_pages: Path) -> Iterator[Page]:
    with tab(chromium, "file://") as page:
        yield show(page, made_pages)


def show(page: Page, made_pages: Path) -> Page:
    """The page from the file system, its players drawn."""
    page.goto(f"{made_pages.as_uri()}/players.html")
    settle(page)
    return page


def part(page: Page, name: str) -> Locator:
    """One part of the first player's bar."""
    return page.locator(".embviz-player").first.locator(name)


def step(page: Page) -> int:
    return int(page.evaluate(STEP))


def test_play_goes_on_and_pause_stops_step_shows_one_more_and_the_slider_any_frame(page):
    page.clock.install()
    page.clock.run_for(5_000)
    assert step(page) == 0  # nothing plays by itself
    before = page.locator(".embviz-chart").first.inner_html()
    for place in (1, 2):
        part(page, "[data-act=step]").click()
        page.wait_for_function(f"{STEP} === {place * EVERY}")
    assert part(page, ".embviz-step").inner_text() == "step 40"
    assert page.locator(".embviz-chart").first.inner_html() != before
    part(page, "[aria-label=Play]").click()
    page.wait_for_function(f"{STEP} >= {5 * EVERY}")
    part(page, "[aria-label=Pause]").click()
    at, slider = step(page), part(page, "[type=range]")
    page.clock.run_for(5_000)
    assert step(page) == at
    assert slider.input_value() == str(at // EVERY)
    slider.fill("149")
    page.wait_for_function(f"{STEP} === {149 * EVERY}")
    assert slider.get_attribute("aria-valuetext") == "step 2,980"


def test_the_keyboard_alone_plays_and_scrubs(page):
    part(page, "[aria-label='frames a second']").select_option("2")  # time to look on a busy machine
    slider = part(page, "[type=range]")
    slider.evaluate("(one) => one.scrollIntoView({behavior: 'instant', block: 'center'})")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"{STEP} === {EVERY}")
    top = page.evaluate("scrollY")
    page.keyboard.press("Space")
    page.wait_for_function(f"{STEP} >= {3 * EVERY}")
    page.keyboard.press("Space")
    assert part(page, "[data-act=play]").get_attribute("aria-label") == "Play"
    page.keyboard.press("End")
    page.wait_for_function(f"{STEP} === {149 * EVERY}")
    assert page.evaluate("scrollY") == top


def test_a_control_changes_the_run_and_not_the_time(page):
    part(page, "[type=range]").fill("100")
    page.wait_for_function(f"{STEP} === {100 * EVERY}")
    before = page.locator(".embviz-chart").first.inner_html()
    assert page.locator(".embviz-title").first.inner_text().endswith("tied: yes")
    page.locator(".embviz-controls input").first.uncheck()
    page.wait_for_function(
        "(before) => document.querySelector('.embviz-chart').innerHTML !== before", arg=before
    )
    assert step(page) == 100 * EVERY
    assert page.locator(".embviz-title").first.inner_text().endswith("tied: no")
    page.locator(".embviz-player [type=range]").nth(1).fill("1")
    assert page.evaluate("probes.stuckControls(true)") == []


def test_two_players_of_one_page_play_apart_each_from_its_own_frame(page):
    second = "document.querySelectorAll('.embviz-output')[1].view.signal('frame')"
    slider = page.locator(".embviz-player [type=range]").nth(1)
    assert [page.evaluate(second), slider.input_value()] == [2 * EVERY, "2"]
    page.locator(".embviz-player").nth(1).locator("[data-act=restart]").click()
    page.wait_for_function(f"{second} === 0")
    page.locator(".embviz-player").nth(1).locator("[data-act=step]").click()
    page.wait_for_function(f"{second} === {EVERY}")
    assert step(page) == 0


def test_on_a_phone_nothing_is_cut_and_who_wants_little_motion_gets_the_slowest_speed(chromium, made_pages):
    phone = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
    with tab(chromium, "file://", **phone, reduced_motion="reduce") as page:
        show(page, made_pages)
        assert part(page, "[aria-label='frames a second']").input_value() == "2"
        assert page.evaluate("probes.cutOnPhone()") == []
        cut = (
            "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className)"
        )
        assert page.locator(".embviz-chart").evaluate_all(cut) == []
