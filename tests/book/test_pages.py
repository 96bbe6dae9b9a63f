"""Every page of the book, read as a reader would: light and dark, wide and narrow, with no network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page

from book import ledger
from tests.book.browser import DESKTOP, Watch, settle, tab
from tests.book.conftest import BOOK

pytestmark = pytest.mark.browser
TOC = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))


def page_names(entry: object = TOC) -> list[str]:
    """Every page that the table of contents names."""
    if isinstance(entry, list):
        return [name for item in entry for name in page_names(item)]
    if isinstance(entry, dict):
        own = [entry[key] for key in ("root", "file") if key in entry]
        return own + [name for value in entry.values() for name in page_names(value)]
    return []


PRINTED = ["reflections/spectrum", "tying/exor", "geometry/phases"]
OPENED_ON_A_PHONE = ["index", "results", "tying/exor"]  # labels are shorter where a page is opened on a phone
TALLEST = 12_000  # pixels at 1280, the deeper sections folded; the list of all forms may be longer
Shown = tuple[Page, Watch]


@pytest.fixture(scope="module")
def desktop(chromium: Browser, site: str) -> Iterator[Shown]:
    """One tab for all pages, whose process keeps the scripts that they share; and what it does."""
    watch = Watch()
    with tab(chromium, site, watch) as page:
        yield page, watch


def show(page: Page, site: str, name: str) -> None:
    """Go to a page, open its folded sections, and wait until charts are drawn and formulas set."""
    page.goto(f"{site}{name}.html")
    page.evaluate("probes.openFolds()")
    settle(page)


def resize(page: Page, width: int, height: int = 900) -> None:
    """Give the window another size, and wait until the charts are drawn anew."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("probes.chartsFollow()")


@pytest.mark.parametrize("name", page_names())
def test_a_page_has_no_error_and_nothing_faint_or_cut_light_dark_and_narrow(desktop, site, name):
    page, watch = desktop
    watch.errors.clear()
    watch.strangers.clear()
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size(DESKTOP)
    show(page, site, name)
    is_prose = not name.startswith("reference/")
    found = {"wide": page.evaluate("(is_prose) => probes.wrong(is_prose)", is_prose)}
    found["stuck controls"] = page.evaluate("probes.stuckControls(false)")
    found["light"] = page.evaluate("probes.faint()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    found["dark"] = page.evaluate("probes.faint()")
    height = page.evaluate("probes.heightFolded()")
    resize(page, 390)
    found["narrow"] = page.evaluate("probes.cutOnPhone()")
    if name in PRINTED:
        page.emulate_media(media="print", color_scheme="light")
        resize(page, 720, 1050)  # A4 with its margins
        found["printed"] = page.evaluate("probes.cut()")
        shown = "(all) => all.filter((one) => one.checkVisibility({visibilityProperty: true})).length"
        assert page.locator("button").evaluate_all(shown) == 0
    assert {where: faults for where, faults in found.items() if faults} == {}
    assert watch.faults == []
    assert height <= (18_000 if name == "forms" else TALLEST) or not is_prose


@pytest.mark.slow
@pytest.mark.parametrize("name", page_names())
def test_every_control_moves_its_chart(desktop, site, name):
    page, watch = desktop
    watch.errors.clear()
    show(page, site, name)
    assert page.evaluate("probes.stuckControls(true)") == []
    assert watch.errors == []


def test_nothing_is_cut_on_a_phone(chromium, site):
    with tab(chromium, site, viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True) as page:
        for name in OPENED_ON_A_PHONE:
            show(page, site, name)
            assert page.evaluate("probes.cutOnPhone()") == [], name


# --- what the files of pages hold -----------------------------------------------------------------------


def test_every_link_between_pages_leads_somewhere(pages: Path):
    kept: dict[Path, set[str]] = {}

    def places(page: Path) -> set[str]:
        if page not in kept:
            kept[page] = set(re.findall(r"\bid=[\"']?([^\"'\s>]+)", page.read_text(encoding="utf-8")))
        return kept[page]

    broken = []
    for page in (pages / f"{name}.html" for name in page_names()):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\bhref=[\"']([^\"']+)[\"']", text) + re.findall(r'"link":\s*"([^"]+)"', text)
        for link in set(map(unescape, links)):
            path, _, place = link.partition("#")
            target = (page.parent / path.split("?")[0]).resolve() if path else page
            if re.match(r"\w+:|#$", link):
                continue
            if not target.exists() or (place and target.suffix == ".html" and place not in places(target)):
                broken.append((page.stem, link))
    assert broken == []


def test_a_page_names_no_script_or_style_of_another_host_and_begins_with_the_policy_that_allows_none(
    pages: Path,
):
    for name in page_names():
        html = (pages / f"{name}.html").read_text(encoding="utf-8")
        linked = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"", html)
        assert [address for address in linked if re.match(r"(https?:)?//", address)] == [], name
        assert "require.js" not in html, name
        assert "jupyter-widgets" not in html, name
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)"', html)
        first = re.search(r"<(?:script|link|style|img)\b", html)
        assert policy.start() < first.start(), name
        assert not re.search(r"https?:|//|[*]", policy[1]), name
        assert "default-src 'self'" in policy[1], name


def test_chapters_hold_the_lines_of_their_claims_and_no_revision(pages: Path):
    for item in ledger.entries():
        html = (pages / f"{item.claim.chapter}.html").read_text(encoding="utf-8")
        assert "<b>Revised</b>" not in html, item.claim.chapter
        assert f'class="ev-claim" id="{item.claim.id}"' in html.replace("'", '"'), item.claim.id


def test_the_front_page_weighs_less_than_two_megabytes_and_the_side_bar_numbers_the_chapters(pages: Path):
    html = (pages / "index.html").read_text(encoding="utf-8")
    assert len(html.encode()) < 2_000_000
    assert "Show code cell source" not in html
    html = (pages / "introduction.html").read_text(encoding="utf-8")
    listed = re.findall(r'<a class="(?:current )?reference internal" href="[^"]*">(\d+)\. [^<]', html)
    n_chapters = sum(len(part["chapters"]) for part in TOC["parts"] if part.get("numbered"))
    assert [*dict.fromkeys(map(int, listed))] == list(range(1, n_chapters + 1))


# --- single pages ---------------------------------------------------------------------------------------

# In the page: ask another host for a script, a style, a picture, data and a frame.
ASK_ELSEWHERE = """
() => {
  globalThis.refused = new Set();
  document.addEventListener("securitypolicyviolation", (event) => refused.add(event.effectiveDirective));
  const add = (tag, source) => document.body.appendChild(Object.assign(document.createElement(tag), source));
  add("script", {src: "https://elsewhere.invalid/a.js"});
  add("link", {rel: "stylesheet", href: "https://elsewhere.invalid/a.css"});
  add("img", {src: "https://elsewhere.invalid/a.png"});
  add("iframe", {src: "https://elsewhere.invalid/"});
  fetch("https://elsewhere.invalid/a.json").catch(() => {});
}
"""


def test_the_book_can_be_searched_and_a_page_that_asks_another_host_is_refused_by_the_browser(chromium, site):
    watch = Watch()
    with tab(chromium, site, watch) as page:
        page.goto(f"{site}search.html?q=grokking")
        page.locator("#search-results li a", has_text="What is grokking?").first.wait_for()
        assert watch.errors == []
        page.evaluate(ASK_ELSEWHERE)
        page.wait_for_function("refused.size === 5")
        refused = ["connect-src", "frame-src", "img-src", "script-src-elem", "style-src-elem"]
        assert page.evaluate("[...refused].sort()") == refused
    assert watch.strangers == []  # not even tried


def test_the_book_opens_from_the_file_system(chromium, pages: Path):
    with tab(chromium, "file://") as page:
        show(page, f"{pages.as_uri()}/", "introduction")


def test_the_front_page_leads_to_a_paper_s_chapters_and_to_the_claims_behind_its_answer(chromium, site):
    with tab(chromium, site) as page:
        page.goto(f"{site}index.html")
        page.locator(".ev-pin a", has_text="Tying").click()
        page.wait_for_url("**/tying/*.html")
        page.go_back()
        page.locator(".ev-paper-list small a", has_text="not reproduced").first.click()
        page.wait_for_url("**#reflections.half_reflected")


@pytest.mark.parametrize(("width", "least"), [(1280, 0.7), (390, 0.85)])
def test_the_front_page_begins_with_buttons_and_a_wide_map_and_has_the_path_of_the_papers(
    chromium, site, width, least
):
    with tab(chromium, site, viewport={"width": width, "height": 800}) as page:
        page.goto(f"{site}index.html")
        page.locator(".tag_hero canvas[role=img]").first.wait_for()
        canvas = page.locator(".tag_hero canvas[role=img]").first.bounding_box()
        assert canvas["y"] + canvas["height"] <= 800
        assert canvas["width"] > least * width
        links = [link.bounding_box() for link in page.locator("h1 + p + p a").all()]
        assert len(links) == 3
        assert all(link["y"] + link["height"] < canvas["y"] for link in links)
        boxes = [stage.bounding_box() for stage in page.locator(".ev-stage").all()]
        assert len(boxes) == 8
        along, across = ("y", "x") if width == 390 else ("x", "y")  # down a phone
        places = [box[along] for box in boxes]
        assert places == sorted(places)
        assert places[-1] - places[0] > 8 * 40
        assert max(box[across] for box in boxes) - min(box[across] for box in boxes) < 2


def test_on_the_front_page_a_word_has_related_neighbours_until_the_switch_is_turned(chromium, site):
    with tab(chromium, site) as page:
        show(page, site, "index")
        hero = page.locator(".tag_hero")
        field = hero.get_by_label("find")
        field.fill("france")
        field.press("Enter")
        found, titles = [], []
        for state in ("trained", "untrained"):
            hero.get_by_label(state, exact=True).check()
            titles.append(hero.locator(".embviz-title").inner_text())
            found.append({one.split()[0] for one in hero.locator(".embviz-near button").all_text_contents()})
    assert {"spain", "italy"} <= found[0]
    assert not {"spain", "italy"} & found[1]
    assert titles[0] != titles[1]


def test_the_ledger_is_read_by_keyboard_filtered_and_linked_to(chromium, site):
    with tab(chromium, site) as page:
        show(page, site, "geometry/grokking")
        page.locator("p.ev-claim a").first.click()
        page.wait_for_url("**/ledger.html#geometry.*")
        assert page.locator("details[open] table").first.is_visible()
        mark = page.locator(".ev-matrix td a").first
        mark.focus()
        page.keyboard.press("Enter")
        claim = mark.get_attribute("href")[1:]
        assert page.locator(f"[id='{claim}'][open] table").is_visible()
        shown = page.locator(".ev-claims details:visible")
        page.get_by_label("verdict").select_option("not specific")
        verdicts = shown.evaluate_all("(all) => all.map((one) => one.dataset.verdict)")
        assert set(verdicts) == {"not specific"}
        page.get_by_label("words").fill("circulant")
        assert 0 < shown.count() < len(verdicts)
        n_shown = shown.count()
        page.reload()  # the filter stands in the address
        assert shown.count() == n_shown
        page.goto(f"{site}ledger.html")
        page.get_by_label("paper").select_option("tying")
        page.get_by_label("scale").select_option("smaller")
        rows = shown.evaluate_all("(all) => all.map((one) => [one.dataset.paper, one.dataset.scale])")
        assert {tuple(row) for row in rows} == {("tying", "smaller")}
        assert page.locator("section#kernel").is_hidden()


# --- a made page ----------------------------------------------------------------------------------------


def test_a_folded_section_opens_where_a_link_leads_and_draws_its_charts_then(chromium, made_pages):
    address = f"{made_pages.as_uri()}/folds.html"
    with tab(chromium, "file://") as page:
        page.goto(address)
        fold = page.locator("section#deeper > details.ev-depth")
        chart = fold.locator(".embviz-output").first
        page.locator(".embviz-output[data-ready]").first.wait_for()  # of the chart above the fold
        assert fold.get_attribute("open") is None
        assert chart.get_attribute("data-ready") is None
        page.goto(f"{address}#deeper")
        chart.locator("svg").first.wait_for()
        assert fold.get_attribute("open") is not None
        assert chart.locator("svg").first.bounding_box()["width"] > 300
        page.locator(".ev-open-all").click()
        assert page.locator("details.ev-depth:not([open])").count() == 0
        page.locator(".ev-open-all", has_text="fold the sections again").click()
        assert page.locator("details.ev-depth[open]").count() == 0


def test_the_keyboard_alone_reaches_and_moves_a_slider(chromium, made_pages):
    with tab(chromium, "file://") as page:
        page.goto(f"{made_pages.as_uri()}/folds.html")
        page.locator(".embviz input[type=radio]:checked").first.focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.type") == "range"
        before = page.evaluate("document.activeElement.value")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.value") != before
