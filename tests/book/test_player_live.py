"""A live player: a page that asks a real player for frames, without JupyterLab."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import altair as alt
import pandas as pd
import pytest
from playwright.sync_api import Browser, Locator, Page

from embviz.view.explorers import Choice
from embviz.view.player import NOTE, Number, Numbers, Player
from tests.book.browser import tab, until
from tests.book.widget_page import Ask, kernel_of, show_widget
from tests.made_player import EVERY, frame_of, make_player, train

pytestmark = pytest.mark.browser

STEP = "document.querySelector('#el').view.signal('frame')"


@pytest.fixture
def shown(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Shows a player's widget on an empty page; what the page asks is written into a list."""
    with tab(chromium, "about:", viewport={"width": 900, "height": 700}) as page:

        def show(made: Player, asked: list[dict] | None = None, ask: Ask | None = None) -> Page:
            return show_widget(page, made, ask or kernel_of(made.widget, [] if asked is None else asked))

        yield show


def part(page: Page, name: str) -> Locator:
    return page.locator(f".embviz-player {name}")


def press(page: Page, act: str) -> None:
    part(page, f"[data-act={act}]").click()


def status(page: Page) -> Locator:
    return page.locator(".embviz-status")


def kept(page: Page) -> list[int]:
    """Steps of the frames that the chart holds."""
    return page.evaluate("document.querySelector('#el').view.data('measured').map((row) => row.frame)")


def test_nothing_is_asked_until_play_and_the_run_s_end_is_told(shown):
    asked: list[dict] = []
    page = shown(make_player(5, live=train), asked)
    assert part(page, ".embviz-step").inner_text() == "step 0, recorded"
    assert asked == []
    press(page, "play")
    status(page).filter(has_text="The run has ended; all its frames (5) are kept.").wait_for()
    part(page, "[aria-label=Play]").wait_for()
    assert kept(page) == [EVERY * place for place in range(5)]
    assert len(asked) == 6
    assert page.evaluate(STEP) == 4 * EVERY
    part(page, "[type=range]").fill("1")
    page.wait_for_function(f"{STEP} === {EVERY}")
    assert len(asked) == 6


def test_a_kernel_that_never_answers_leaves_the_buttons_free(shown):
    asked: list[dict] = []
    page = shown(make_player(5, live=train), ask=lambda message: asked.append(message))
    page.clock.install()
    press(page, "play")
    page.clock.run_for(19_000)
    assert part(page, "[aria-label=Pause]").count() == 1
    page.clock.run_for(2_000)
    assert status(page).inner_text().startswith("no answer yet: the kernel is busy")
    assert part(page, "[aria-label=Play]").count() == 1
    press(page, "restart")  # another run: another question when it is played
    press(page, "play")
    until(page, lambda: len(asked) == 2)
    assert [one["run"] for one in asked] == [1, 2]


def endless(tied: bool) -> Iterator[pd.DataFrame]:
    for place in range(10_000):
        yield frame_of(place, tied)


def test_step_asks_for_one_frame_play_for_more_and_who_pauses_or_leaves_asks_no_more(shown):
    asked: list[dict] = []
    page = shown(make_player(5, live=endless), asked)
    page.clock.install()
    for place in range(3):
        press(page, "step")
        part(page, f".embviz-step:text-is('step {place * EVERY}')").wait_for()
    part(page, "[type=range]").fill("0")
    press(page, "step")  # from an earlier frame it shows what it has
    page.wait_for_function(f"{STEP} === {EVERY}")
    assert len(asked) == 3
    press(page, "play")
    page.wait_for_function(f"{STEP} >= {6 * EVERY}")
    press(page, "pause")
    until(page, lambda: len(kept(page)) == len(asked))  # one may have been under way
    n_asked = len(asked)
    page.clock.run_for(5_000)
    assert len(asked) == n_asked > 3
    assert kept(page) == [EVERY * place for place in range(n_asked)]
    press(page, "play")
    until(page, lambda: len(asked) > n_asked)
    page.evaluate("leave()")
    page.clock.run_for(100)  # one may have been under way
    n_asked = len(asked)
    page.clock.run_for(5_000)
    assert len(asked) == n_asked


def test_begun_anew_and_after_a_moved_control_another_run_starts_when_it_is_played(shown):
    asked: list[dict] = []
    page = shown(make_player(5, live=endless), asked)
    press(page, "step")
    part(page, ".embviz-step:text-is('step 0')").wait_for()
    press(page, "step")
    page.wait_for_function(f"{STEP} === {EVERY}")
    part(page, "[aria-label='Begin anew']").click()
    page.wait_for_function(f"{STEP} === 0")
    part(page, ".embviz-step:text-is('step 0')").wait_for()
    assert kept(page) == [0]
    assert [(message["run"], message["seen"]) for message in asked] == [(1, 0), (1, 1), (2, 0)]
    page.locator(".embviz-controls input").uncheck()
    part(page, ".embviz-step:text-is('step 0, recorded')").wait_for()
    assert len(asked) == 3
    press(page, "step")
    part(page, ".embviz-step:text-is('step 0')").wait_for()
    assert [message["values"]["tied"] for message in asked] == [True, True, True, False]
    assert page.evaluate("document.querySelector('#el').view.data('measured')[0].tied") is False


def test_an_error_is_told_as_text_and_the_last_frame_stays(shown):
    def fails(tied: bool) -> Iterator[pd.DataFrame]:
        yield frame_of(0, tied)
        yield frame_of(1, tied)
        raise MemoryError("step 40 needs 9 TB: <b>choose</b> fewer")

    page = shown(make_player(5, live=fails))
    press(page, "play")
    page.locator(".embviz-status.embviz-wrong").wait_for()
    assert status(page).text_content() == "MemoryError: step 40 needs 9 TB: <b>choose</b> fewer"
    part(page, "[aria-label=Play]").wait_for()
    assert page.evaluate(STEP) == EVERY
    assert kept(page) == [0, EVERY]
    part(page, "[type=range]").fill("0")
    page.wait_for_function(f"{STEP} === 0")
    part(page, "[aria-label='Begin anew']").click()
    part(page, ".embviz-step:text-is('step 0')").wait_for()
    assert status(page).text_content() == ""


def bars(start: int, picked: str) -> Iterator[pd.DataFrame]:
    """Frames of five bars, the second with a note; they end after three."""
    for step in range(3):
        frame = pd.DataFrame({"frame": step, "number": range(5), "high": start + step, "kept": picked})
        if step == 1:
            frame.attrs[NOTE] = "<b>half</b>"
        yield frame


def bar_player() -> Player:
    """Two recordings of bars to click at; live, a number and a set of numbers are chosen."""
    recorded = [pd.concat(list(bars(1, kept))[:2]).assign(run=kept) for kept in ("1", "3")]

    def draw(data: alt.NamedData) -> alt.Chart:
        x, y = alt.X("number:O"), alt.Y("high:Q").scale(domain=[0, 9])
        return alt.Chart(data).mark_bar().encode(x=x, y=y).properties(width=300, height=120)

    return Player(
        pd.concat(recorded), draw, title="Bars", caption="Made.", curves=["kept"], live=bars,
        controls={"run": Choice(["1", "3"], "recording")},
        live_controls={
            "start": Number(1, 5, "start", initial=2),
            "picked": Numbers("picked", "4", click="number", recorded="kept"),
        },
    )  # fmt: skip


def press_bar(page: Page, number: int) -> None:
    page.locator(".mark-rect.role-mark path").nth(number).click()


def shown_controls(page: Page) -> list[str]:
    return [box.get_attribute("name") for box in page.locator(".embviz-controls input:visible").all()]


def test_live_runs_have_their_own_controls_and_a_click_picks_a_number(shown):
    asked: list[dict] = []
    page = shown(bar_player(), asked)
    assert shown_controls(page) == ["start", "picked"]
    press_bar(page, 2)
    page.wait_for_function("document.querySelector('[name=picked]').value === '2 4'")
    press_bar(page, 4)
    page.wait_for_function("document.querySelector('[name=picked]').value === '2'")
    page.locator("[name=start]").fill("5")
    page.wait_for_function("document.querySelector('#el').view.signal('start') == 5")
    press(page, "play")
    status(page).filter(has_text="<b>half</b> The run has ended; all its frames (3) are kept.").wait_for()
    assert asked[0]["values"] == {"start": "5", "picked": "2"}
    assert page.evaluate("document.querySelector('#el').view.data('measured')[0].high") == [5] * 5
    page.locator("[name=start]").fill("17")
    page.wait_for_function("document.querySelector('#el').view.signal('start') == 17")
    press(page, "step")
    status(page).filter(has_text="start: 17 is outside 1 to 5").wait_for()


def test_where_nothing_is_computed_a_click_finds_the_recording_with_a_number(shown):
    page = shown(bar_player())
    part(page, "[aria-label='which frames']").select_option("recorded")
    page.locator("[name=run]").first.wait_for(state="visible")
    assert shown_controls(page) == ["run", "run"]
    press_bar(page, 3)
    page.wait_for_function("document.querySelector('#el').view.signal('run') === '3'")
    assert page.locator("[name=run]").nth(1).is_checked()
    press_bar(page, 2)
    status(page).filter(has_text="No recording with 2").wait_for()
    assert page.evaluate("document.querySelector('#el').view.signal('run')") == "3"


def test_a_recording_alone_shows_the_step_that_is_set_and_tells_its_own_until_the_end(shown):
    made = make_player(5)
    made.step = EVERY
    steps: list[int] = []
    made.observe(lambda change: steps.append(change.new), "step")
    page = shown(made)
    page.wait_for_function(f"{STEP} === {EVERY}")
    assert part(page, "[aria-label='which frames']").count() == 0
    press(page, "step")
    page.wait_for_function(f"{STEP} === {2 * EVERY}")
    page.evaluate(f"receive('step', {EVERY})")
    page.wait_for_function(f"{STEP} === {EVERY}")
    assert part(page, ".embviz-step").inner_text() == f"step {EVERY}"
    press(page, "play")
    page.wait_for_function(f"{STEP} === {4 * EVERY}")
    part(page, "[aria-label=Play]").wait_for()
    assert (made.step, steps[0], steps[-1]) == (4 * EVERY, 2 * EVERY, 4 * EVERY)
