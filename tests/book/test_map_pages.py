"""Maps of embeddings in a static page: pointed at, searched, zoomed and switched as a reader would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from tests.book.browser import settle, tab
from tests.book.made_pages import AWKWARD, WORDS, vectors

pytestmark = pytest.mark.browser
WINDOW = {"width": 1280, "height": 1000}
NAMES = {"first": (0, 0), "second": (0, 1), "states": (2, 0), "control": (2, 1)}


def show(page: Page, made_pages: Path) -> Page:
    """The page of maps, each map under its name."""
    page.goto(f"{made_pages.as_uri()}/maps.html")
    settle(page)
    for name, (output, panel) in NAMES.items():
        found = f"document.querySelectorAll('.embviz-output')[{output}].maps.maps[{panel}]"
        page.evaluate(f"globalThis.{name} = {found}; 0")
    return page


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[Page]:
    """Changes of a view come at once here: who wants little motion sees none of what lies between."""
    with tab(chromium, "file://", viewport=WINDOW, reduced_motion="reduce") as page:
        yield page


@pytest.fixture
def page(window: Page, made_pages: Path) -> Iterator[Page]:
    yield show(window, made_pages)
    assert window.evaluate("window.hurt") is None
    assert window.locator(".embviz :is(script, img, b script)").count() == 0


def drawn(page: Page) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("probes.frame()")


def place_in_page(page: Page, word: str) -> tuple[float, float]:
    """Where a word's point lies in the window, the first map scrolled into view."""
    page.evaluate("first.canvas.scrollIntoView({behavior: 'instant', block: 'center'})")
    find = "(word) => { const box = first.canvas.getBoundingClientRect(); "
    find += "const [x, y] = first.screen(first.data.index.get(word)); "
    x, y = page.evaluate(f"{find} return [box.left + x, box.top + y]; }}", word)
    return x, y


def search(page: Page, text: str, output: int = 0) -> None:
    field = page.get_by_label("find").nth(output)
    field.fill(text)
    field.press("Enter")
    drawn(page)


def told(page: Page, output: int = 0) -> str:
    """What stands beside the search box."""
    return page.locator(".embviz-found").nth(output).text_content()


def near(page: Page, panel: int = 0) -> list[str]:
    return page.locator(".embviz-near").nth(panel).locator("button").all_text_contents()


def slow_neighbors(table: np.ndarray, word: str) -> list[tuple[str, float]]:
    """The eight nearest by cosine, one pair at a time."""
    own = table[WORDS.index(word)]
    far = [
        (1 - float(own @ other) / float(np.linalg.norm(own) * np.linalg.norm(other)), name)
        for name, other in zip(WORDS, table, strict=True)
        if name != word
    ]
    return [(name, distance) for distance, name in sorted(far)[:8]]


def said(seed: int, word: str) -> list[str]:
    return [f"{name} {distance:#.2g}" for name, distance in slow_neighbors(vectors(seed), word)]


def test_pointing_at_a_word_shows_its_true_neighbours_on_both_maps_and_its_name_in_the_search_box(page):
    box, begun = page.get_by_label("find").first, "word7"
    for word in (begun, "word3", "word120"):
        if word != begun:
            page.evaluate("first.view.scale = first.fitted * 30; 0")  # no other point within reach
            page.evaluate("(word) => first.centre(first.data.index.get(word))", word)
            drawn(page)
            page.mouse.move(*place_in_page(page, word))
        page.wait_for_function("(word) => first.data.words[first.pointed] === word", arg=word)
        assert [near(page), near(page, 1)] == [said(0, word), said(1, word)]
        assert box.input_value() == word
    page.mouse.move(5, 5)
    page.wait_for_function("first.data.words[first.pointed] === 'word7'")
    assert box.input_value() == begun


OVERLAPS = """
() => first.labels.flatMap((a, at) => first.labels.slice(at + 1)
  .filter((b) => a.left < b.right && b.left < a.right && Math.abs(a.y - b.y) < 14)
  .map((b) => [a.word, b.word]))
"""


def test_search_brings_a_word_to_the_middle_and_all_its_neighbours_in_sight_with_their_names(page):
    for word in ("word3", "word200"):
        search(page, word)
        for seed, name in enumerate(("first", "second")):
            x, y = page.evaluate(f"{name}.screen({name}.data.index.get('{word}'))")
            assert abs(x - page.evaluate(f"{name}.width / 2")) < 1
            assert abs(y - page.evaluate(f"{name}.height / 2")) < 1
            names = {other for other, _ in slow_neighbors(vectors(seed), word)}
            assert names <= set(page.evaluate(f"{name}.labels.map(({{ word }}) => word)"))
            assert page.evaluate(OVERLAPS) == []
    nearest = slow_neighbors(vectors(0), "word200")[0][0]
    assert page.locator(".embviz-status").first.text_content().startswith(f"word200: {nearest}, ")
    page.locator(".embviz-near").first.locator("button").first.focus()
    page.keyboard.press("Enter")  # walks to the nearest
    page.wait_for_function("(word) => first.data.words[first.pointed] === word", arg=nearest)


def test_search_takes_a_beginning_and_words_of_any_kind_and_says_when_there_is_nothing(page):
    search(page, "WORD39")
    assert page.evaluate("first.data.words[first.pointed]") == "word39"
    for word in AWKWARD:
        search(page, word.split("\n")[0])  # a field of one line cannot hold two
        assert page.locator(".embviz-near b").first.text_content() == word
        assert near(page) == said(0, word)
    search(page, "zebra")
    assert told(page) == "None of the 400 words has “zebra” in it."
    assert near(page) == []
    page.get_by_label("find").first.fill("word1")
    offered = page.locator(".embviz datalist").first.locator("option")
    assert offered.evaluate_all("(all) => all.map((one) => one.value)")[:3] == ["word1", "word10", "word11"]


def test_the_wheel_scrolls_the_page_until_the_map_is_chosen(page):
    x, y = place_in_page(page, "word7")
    page.mouse.move(x, y)
    before, top = page.evaluate("[first.view.scale, scrollY]")
    hinted = page.evaluate_handle("probes.willSay('.embviz-status', 'Click the map')")
    scrolled = page.evaluate_handle("probes.willScroll()")
    page.mouse.wheel(0, 120)
    assert hinted.evaluate("(one) => one.wait")
    assert scrolled.evaluate("(one) => one.wait")  # the page has come to rest: Chromium scrolls it smoothly
    assert page.evaluate("first.view.scale") == before
    assert page.evaluate("scrollY") > top
    x, y = place_in_page(page, "word7")
    page.mouse.click(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_function("(before) => first.view.scale > 1.5 * before", arg=before)
    drawn(page)
    after = place_in_page(page, "word7")
    assert np.hypot(after[0] - x, after[1] - y) < 2  # the point under the cursor stays there


def test_dragging_and_the_arrow_keys_move_the_map_and_zero_shows_all(page):
    x, y = place_in_page(page, "word7")
    box = page.locator(".embviz-map canvas").first.bounding_box()
    start = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + 30, start[1] + 20, steps=4)
    page.mouse.up()
    moved = place_in_page(page, "word7")
    assert moved == pytest.approx((x + 30, y + 20), abs=2)
    page.evaluate("first.canvas.focus()")
    page.keyboard.press("ArrowRight")
    assert place_in_page(page, "word7")[0] == pytest.approx(moved[0] - 40, abs=1)
    page.keyboard.press("0")
    assert place_in_page(page, "word7") == pytest.approx((x, y), abs=1)


def test_the_first_view_leaves_outliers_out_and_zero_shows_them(page):
    page.evaluate("globalThis.large = document.querySelectorAll('.embviz-output')[1].maps.maps[0]; 0")
    outside = page.evaluate("large.group.outside")
    assert 0 < outside <= 0.02 * 5_000
    button = page.get_by_title("key 0").nth(1)
    assert button.text_content() == f"{outside} outside (0)"
    for key, text, all_in_sight in (("0", "first view (0)", True), ("0", f"{outside} outside (0)", False)):
        page.evaluate("large.canvas.focus()")
        page.keyboard.press(key)
        drawn(page)
        assert (page.evaluate("large.inSight.length") == 5_000) == all_in_sight
        assert button.text_content() == text


def test_the_switch_shows_the_other_embedding(page):
    page.get_by_label("context vectors").first.check()
    drawn(page)
    assert near(page) == said(10, "word7")
    assert page.evaluate("first.places.x[20] === first.data.shows[1].x[20]")


def test_colours_have_a_legend_and_a_browser_without_webgl_draws_the_same(page, chromium, made_pages):
    colour, legend = page.get_by_label("colour by").first, page.locator(".embviz-legend").first
    pictures = []
    for column, told in (
        ("kind", "even 200odd 200"),  # shown at first: the first column that was given
        ("nothing", ""),
        ("neighbours kept", "08 of 8 nearest are among the 8 nearest on the map too"),
    ):
        assert column != "kind" or colour.locator("option:checked").text_content() == column
        colour.select_option(column)
        drawn(page)
        assert legend.text_content() == told
        pictures.append(page.evaluate("first.canvas.toDataURL()"))
    assert len(set(pictures)) == 3
    with tab(chromium, "file://", viewport=WINDOW, reduced_motion="reduce") as other:
        other.add_init_script(
            "const get = HTMLCanvasElement.prototype.getContext;"
            "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
            " return kind === '2d' ? get.call(this, kind, ...rest) : null; };"
        )
        show(other, made_pages)
        drawn(other)
        assert other.evaluate("first.canvas.toDataURL()") == pictures[0]


def test_words_stand_out_from_a_light_and_a_dark_page(page):
    for scheme, colour in (("dark", "#56b4e9"), ("light", "#0072b2")):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        page.wait_for_function(f"first.looks().looks[0][0].toLowerCase() === '{colour}'")
        assert page.evaluate("probes.faintWords()") == []
        assert page.evaluate("first.ink === getComputedStyle(document.querySelector('.embviz')).color")
        is_dark = page.evaluate("first.ground.match(/\\d+/g).slice(0, 3).every((one) => one < 100)")
        assert is_dark == (scheme == "dark")


def test_nothing_is_cut_on_a_phone_and_a_finger_points_also_after_a_view_that_turns(chromium, made_pages):
    phone = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
    with tab(chromium, "file://", **phone) as page:
        show(page, made_pages)
        assert page.evaluate("probes.cutOnPhone()") == []
        page.evaluate("first.centre(first.data.index.get('word50')); 0")
        page.wait_for_function(
            "Math.abs(first.screen(first.data.index.get('word50'))[0] - first.width / 2) < 1"
        )
        drawn(page)
        page.touchscreen.tap(*place_in_page(page, "word50"))
        page.wait_for_function("first.data.words[first.pointed] === 'word50'")


# --- a word picked in several states: of the panels its own are the fourth and the fifth ----------------


def slide(page: Page, key: str) -> None:
    page.get_by_label("update").focus()
    page.keyboard.press(key)
    drawn(page)


def test_a_slider_moves_a_map_its_null_and_the_title_and_leaves_the_axes(page):
    figure = page.locator(".embviz").nth(2)
    assert figure.locator(".embviz-title").text_content() == "Title of step 1"
    assert near(page, 3) == said(21, "word7")
    sizes = [page.evaluate(f"[{name}.width, {name}.height, {name}.radius]") for name in ("states", "control")]
    assert sizes[0] == sizes[1]  # what is compared
    assert page.locator(".embviz-map-name").nth(3).text_content() == "drawn"
    frame = page.evaluate("JSON.stringify(states.view)")
    slide(page, "ArrowRight")
    assert figure.locator(".embviz-title").text_content() == "Title of step 2"
    assert figure.get_attribute("aria-label") == "Title of step 2"
    assert figure.locator("label output").text_content() == "step 2"
    assert page.get_by_label("update").get_attribute("aria-valuetext") == "step 2"
    assert [near(page, 3), near(page, 4)] == [said(22, "word7"), said(30, "word7")]
    assert page.evaluate("[states.show, control.show]") == [2, 2]
    assert page.evaluate("JSON.stringify(states.view)") == frame
    slide(page, "Home")
    assert near(page, 3) == said(20, "word7")


def test_a_typed_word_is_picked_without_moving_the_axes_and_its_kept_neighbours_are_counted_and_bold(page):
    view = page.evaluate("JSON.stringify(states.view)")
    for word in ("word50", *AWKWARD[:4]):
        search(page, word, 2)
        assert page.locator(".embviz-near").nth(3).locator("b").text_content() == word
        end = {name for name, _ in slow_neighbors(vectors(22), word)}
        for key, seed in (("Home", 20), ("End", 22)):
            slide(page, key)
            held = [name for name, _ in slow_neighbors(vectors(seed), word) if name in end]
            head = page.locator(".embviz-near").nth(3).locator("small").first.text_content()
            assert f"; {len(held)} are among the 8 nearest at the end (bold)" in head
            bold = page.locator(".embviz-near").nth(3).locator("button[data-held=true]")
            assert [text.rsplit(" ", 1)[0] for text in bold.all_text_contents()] == held
    assert page.evaluate("JSON.stringify(states.view)") == view
    search(page, "zebra", 2)
    assert told(page, 2) == "None of the 400 words has “zebra” in it."
    assert near(page, 3) == near(page, 4) == []
