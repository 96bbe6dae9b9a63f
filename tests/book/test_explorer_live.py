"""A live explorer on a page: several tables, finer values, the title, reset, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import altair as alt
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from embviz.view.explorers import Choice, Explorer, Range
from tests.book.browser import Watch, tab, until
from tests.book.widget_page import Ask, kernel_of, show_widget

pytestmark = pytest.mark.browser

INHERITED = ["constructor", "toString", "__proto__", "valueOf"]


def measure(n: int, power: int) -> dict[str, pd.DataFrame]:
    points = pd.DataFrame({"x": range(n), "y": [float(x**power) for x in range(n)]})
    return {"points": points, "level": pd.DataFrame({"height": [float(power)]})}


def draw(points: alt.NamedData, level: alt.NamedData) -> alt.LayerChart:
    shown = alt.Chart(points).mark_point().encode(x="x:Q", y="y:Q").transform_filter("datum.y <= most")
    return alt.layer(shown, alt.Chart(level).mark_rule().encode(y="height:Q"))


def draw_x(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x="x:Q")


def make_explorer() -> Explorer:
    return Explorer(
        measure,
        {"n": Range(2, 6, 2, initial=4, live_step=1), "power": Choice([1, 3], live_values=[1, 2, 3])},
        draw,
        title=lambda points: f"With n = {{n}} the largest is {points['y'].max():g}",
        caption="Made.",
        view_controls={"most": Range(0, 100, 50, initial=100)},
        tries={"many, cubed": {"n": 6, "power": 3}, "low": {"most": 0}},
    )


@pytest.fixture
def shown(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Shows an explorer's live face; what the page asks is written into a list."""
    with tab(chromium, "about:", viewport={"width": 900, "height": 700}) as page:

        def show(made: Explorer, asked: list[dict] | None = None, ask: Ask | None = None) -> Page:
            return show_widget(page, made, ask or kernel_of(made.widget, [] if asked is None else asked))

        yield show


def names(page: Page, name: str, then: str) -> None:
    """Wait until a table of the chart meets a condition."""
    page.wait_for_function(f"((rows) => {then})(document.querySelector('#el').view.data('{name}'))")


def title(page: Page) -> str:
    return page.locator(".embviz-title").inner_text()


def n_points(page: Page) -> int:
    return page.locator(".mark-symbol.role-mark path").count()


def test_every_table_follows_and_so_does_the_title_and_what_only_the_drawing_uses_is_not_measured(
    shown,
):
    asked: list[dict] = []
    page = shown(make_explorer(), asked)
    assert (title(page), n_points(page)) == ("With n = 4 the largest is 3", 4)
    page.locator("input[name=n]").fill("5")  # between the steps of the page without a kernel
    names(page, "points", "rows[0].n === 5")
    page.get_by_label("2", exact=True).check()  # a value that only a kernel has
    names(page, "level", "rows[0].power === 2")
    page.locator(".embviz-title:text-is('With n = 5 the largest is 16')").wait_for()
    assert n_points(page) == 5
    assert page.locator("figure").get_attribute("aria-label") == "With n = 5 the largest is 16"
    page.locator("input[name=most]").fill("0")
    page.wait_for_function("document.querySelectorAll('.mark-symbol.role-mark path').length === 1")
    assert [one["values"] for one in asked] == [{"n": 5, "power": 1}, {"n": 5, "power": 2}]


def test_a_state_to_try_sets_its_controls_and_leaves_the_others_and_reset_brings_all_back(shown):
    asked: list[dict] = []
    page = shown(make_explorer(), asked)
    reset, most = page.get_by_role("button", name="reset"), page.locator("input[name=most]")
    assert not reset.is_visible()
    page.get_by_role("button", name="many, cubed").click()
    names(page, "points", "rows[0].n === 6 && rows[0].power === 3")
    assert page.locator("input[name=n]").input_value() == "6"
    assert page.get_by_label("3", exact=True).is_checked()
    assert most.input_value() == "100"
    assert asked[-1]["values"] == {"n": 6, "power": 3}
    page.get_by_role("button", name="low").press("Enter")
    page.wait_for_function("document.querySelectorAll('.mark-symbol.role-mark path').length === 1")
    assert page.locator("input[name=n]").input_value() == "6"
    reset.click()
    names(page, "points", "rows[0].n === 4 && rows[0].power === 1")
    assert (page.locator("input[name=n]").input_value(), most.input_value()) == ("4", "100")
    page.locator(".embviz-title:text-is('With n = 4 the largest is 3')").wait_for()
    assert not reset.is_visible()


def bars(chosen: str) -> pd.DataFrame:
    return pd.DataFrame({"word": [chosen, "of"], "times": [1.0, 2.0]})


def draw_bars(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_bar().encode(x="word:N", y="sum(times):Q", color="word:N")


def test_words_that_every_object_inherits_are_drawn_like_others(shown):
    asked: list[dict] = []
    words = Choice([*INHERITED, "of all"])
    page = shown(Explorer(bars, {"chosen": words}, draw_bars, title="{chosen}", caption="Made."), asked)
    for word in ["of all", *INHERITED]:
        page.locator("select").select_option(label=word)
        page.locator(f".embviz-title:text-is('{word}')").wait_for()
        names(page, "measured", f"rows[0].chosen.endsWith('{word}')")
        assert page.locator(".mark-rect.role-mark path").count() == 2
        labels = page.locator(".role-axis-label text").all_text_contents()
        assert any(label.strip("\u2060") == word for label in labels)
    assert [one["values"]["chosen"] for one in asked] == ["of all", *INHERITED]


def test_what_breaks_while_drawing_is_told(chromium):
    def broken(data: alt.NamedData) -> alt.Chart:
        return alt.Chart(data).mark_point().encode(x="x:Q").transform_calculate(y="datum.word.missing.length")

    made = Explorer(lambda n: pd.DataFrame({"x": [float(n)], "word": ["a"]}), {"n": range(3)}, broken)
    with tab(chromium, "about:", Watch()) as page:  # Vega writes an error on the console
        status = show_widget(page, made, kernel_of(made, [])).locator(".embviz-status.embviz-wrong")
        status.filter(has_text="This chart could not be drawn").wait_for()


def test_a_page_without_an_answer_asks_again_after_its_time(shown):
    asked: list[dict] = []
    page = shown(make_explorer(), ask=lambda message: asked.append(message))

    def move(n: int) -> None:
        page.locator("input[name=n]").fill(str(n))
        page.evaluate("document.querySelector('#el').view.runAsync().then(() => true)")

    page.clock.install()
    move(2)
    until(page, lambda: len(asked) == 1)
    move(6)  # waits for the first answer
    page.clock.run_for(1_000)
    assert page.locator(".embviz-status").inner_text() == "measuring …"
    page.clock.run_for(20_000)
    assert page.locator(".embviz-status").inner_text().startswith("no answer yet: the kernel is busy")
    until(page, lambda: len(asked) == 2)
    page.clock.run_for(25_000)
    move(3)
    until(page, lambda: len(asked) == 3)
    assert [one["values"]["n"] for one in asked] == [2, 6, 3]


def test_an_interrupt_and_an_error_are_told_as_text_and_the_next_move_measures(shown):
    errors = {1: MemoryError("9 TB: <b>choose</b> fewer"), 2: KeyboardInterrupt()}

    def fail(n: int) -> pd.DataFrame:
        if n in errors:
            raise errors[n]
        return pd.DataFrame({"x": [float(n)]})

    page = shown(Explorer(fail, {"n": Range(0, 2, 1, initial=0)}, draw_x, title="t", caption="c"))
    for n, told in (
        (2, "The kernel was interrupted: move a control, or start again."),
        (1, "MemoryError: 9 TB: <b>choose</b> fewer (measured by fail at n=1). Choose another value, or"),
    ):
        page.locator("input[name=n]").fill(str(n))
        page.locator(".embviz-status.embviz-wrong").filter(has_text=told).wait_for()
        page.locator("input[name=n]").fill("0")
        names(page, "measured", "rows[0].n === 0")
        assert page.locator(".embviz-status").inner_text() == ""


def test_a_view_shows_the_value_and_tells_each_move_and_a_value_that_is_set_moves_its_controls(shown):
    made, asked = make_explorer(), []
    made.value = {"n": 6, "power": 3}
    seen: list[dict] = []
    made.observe(lambda change: seen.append(change.new), "value")
    page = shown(made, asked)
    names(page, "points", "rows[0].n === 6 && rows[0].power === 3")
    assert page.locator("input[name=n]").input_value() == "6"
    page.locator(".embviz-title:text-is('With n = 6 the largest is 125')").wait_for()
    page.locator("input[name=n]").fill("5")
    page.locator("input[name=most]").fill("50")  # what only the drawing uses is told too
    names(page, "points", "rows[0].n === 5")
    assert made.value == {"n": 5, "power": 3, "most": 50}
    assert seen == [{"n": 5, "power": 3, "most": 100}, {"n": 5, "power": 3, "most": 50}]
    page.evaluate("receive('value', {n: 3, power: 1, most: 0})")
    names(page, "points", "rows[0].n === 3 && rows[0].power === 1")
    assert page.locator("input[name=n]").input_value() == "3"
    assert page.get_by_label("1", exact=True).is_checked()
    assert page.locator("input[name=most]").input_value() == "0"
    page.locator(".embviz-title:text-is('With n = 3 the largest is 2')").wait_for()
    assert asked[-1]["values"] == {"n": 3, "power": 1}


def test_an_explorer_of_stored_results_looks_like_the_others_and_asks_the_kernel_nothing(shown):
    grid = pd.DataFrame({"n": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    made = Explorer(None, {"n": range(1, 4)}, draw_x, title="Stored at {n}", grid=grid)
    asked: list[dict] = []
    page = shown(made, asked)
    page.locator("input[name=n]").fill("3")
    page.locator(".embviz-title:text-is('Stored at 3')").wait_for()
    until(page, lambda: made.value == {"n": 3})
    page.evaluate("receive('value', {n: 1})")
    page.locator(".embviz-title:text-is('Stored at 1')").wait_for()
    assert asked == []
    assert page.locator(".embviz-caption").inner_text() == "The controls choose among stored results."


def test_a_gap_shows_its_message_on_a_page_without_a_kernel(chromium, tmp_path):
    def draw_between(data: alt.NamedData) -> alt.Chart:
        return alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[-1, 1]))

    controls = {"n": Range(0, 3, 1, initial=0)}
    made = Explorer(lambda n: pd.DataFrame({"x": [1.0 / (n - 2)]}), controls, draw_between, caption="Made.")
    made.save(tmp_path / "gap.html")
    with tab(chromium, "file://") as page:
        page.goto((tmp_path / "gap.html").as_uri())
        page.locator("input[name=n]").fill("2")
        page.get_by_text("Nothing was measured here. ZeroDivisionError: float division by zero").wait_for()
        assert n_points(page) == 0
        page.locator("input[name=n]").fill("3")
        page.locator(".embviz-status:text-is('')").wait_for(state="attached")
        assert n_points(page) == 1
