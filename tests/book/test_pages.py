"""Every page of the book, read as a reader would: light and dark, wide and narrow, with no network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, Page

from embviz import ledger
from tests.book.browser import Watch
from tests.book.conftest import BOOK

pytestmark = pytest.mark.browser


def page_names() -> list[str]:
    """Every page that the table of contents names."""

    def walk(entry: object) -> list[str]:
        if isinstance(entry, list):
            return [name for item in entry for name in walk(item)]
        if isinstance(entry, dict):
            own = [entry[key] for key in ("root", "file") if key in entry]
            return own + [name for value in entry.values() for name in walk(value)]
        return []

    return walk(yaml.safe_load((BOOK / "_toc.yml").read_text()))


Shown = tuple[Page, Watch]


def opened(context: BrowserContext, watch: Watch, site: str, name: str) -> Page:
    """A new tab with a page, see :func:`show`."""
    page = context.new_page()
    watch.follow(page)
    watch.follow_requests(page, site)
    show(page, site, name)
    return page


def show(page: Page, site: str, name: str) -> None:
    """Go to a page, open its folded sections, and wait until charts are drawn and formulas set."""
    page.goto(f"{site}{name}.html")
    page.evaluate("document.querySelectorAll('details.ev-depth').forEach((fold) => fold.open = true)")
    settle(page)


@pytest.fixture(scope="module")
def tab(chromium: Browser, site: str) -> Iterator[Shown]:
    """One tab of a desktop, whose process keeps the scripts that pages share; and what it does."""
    context = chromium.new_context()
    page, watch = context.new_page(), Watch()
    watch.follow(page)
    watch.follow_requests(page, site)
    yield page, watch
    context.close()


@pytest.fixture(scope="module")
def desktop(tab: Shown, site: str, request: pytest.FixtureRequest) -> Shown:
    """A page of the book and what it did, opened once for all tests that look at it.

    pytest sorts tests by the parameters of a module's fixtures: those of one page follow each other.
    """
    page, watch = tab
    watch.errors.clear()
    watch.strangers.clear()
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    show(page, site, request.param)
    return tab


def on(*names: str) -> pytest.MarkDecorator:
    """Run a test on these pages as a desktop shows them."""
    return pytest.mark.parametrize("desktop", names, indirect=True)


def settle(page: Page) -> None:
    page.wait_for_function(
        "[...document.querySelectorAll('.embviz-output')].every((one) => one.dataset.ready)", timeout=60_000
    )
    page.evaluate("window.MathJax?.startup?.promise?.then(() => true) ?? true")


# In the page: give each control each of its values until the drawing changes; name those that never do.
STUCK_CONTROLS = """
async () => {
  const stuck = [];
  for (const output of document.querySelectorAll(".embviz-output")) {
    const drawing = () => output.querySelector(".embviz-chart").innerHTML;
    const inputs = [...output.querySelectorAll(".embviz-controls input, .embviz-controls select")];
    const names = [...new Set(inputs.map((input) => input.name))];
    for (const name of names) {
      const before = drawing();
      let moved = false;
      const first = output.view.signal(name);
      for (const input of inputs.filter((one) => one.name === name)) {
        for (const value of others(input)) {
          if (moved) break;
          set(input, value);
          await output.view.runAsync();
          moved = drawing() !== before;
        }
      }
      if (!moved) stuck.push(name);
      await output.view.signal(name, first).runAsync();
    }
  }
  return stuck;
  function others(input) {
    if (input.type === "range") return [input.min, input.max];
    if (input.tagName === "SELECT") return [...input.options].map((_, index) => index);
    return [true, false];
  }
  function set(input, value) {
    if (input.type === "range") input.value = value;
    else if (input.tagName === "SELECT") input.selectedIndex = value;
    else input.checked = value;
    input.dispatchEvent(new Event("input", {bubbles: true}));
    input.dispatchEvent(new Event("change", {bubbles: true}));
  }
}
"""

# In the page: how far a colour stands out from the ground of an element.
CONTRAST = """
  const parts = (colour) => (colour.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const grounds = new Map();
  const ground = (element) => {
    if (element === null) return [255, 255, 255];
    if (!grounds.has(element)) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      grounds.set(element, colour.length < 4 || colour[3] > 0.5 ? colour : ground(element.parentElement));
    }
    return grounds.get(element);
  };
  const contrast = (colour, element) => {
    const [a, b] = [light(parts(colour)), light(ground(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
"""

# In the page: words of a chart or near it that stand out less than 3:1 from the page's ground, but for
# numbers in the cells of a heat map, which repeat what the cells say and lie on their colours.
FAINT_WORDS = f"""
() => {{{CONTRAST}
  const words = document.querySelectorAll(
    ".embviz text:not([aria-hidden=true] *), .embviz-title, .embviz-caption, .embviz label, .bd-content p");
  return [...words].filter((one) => one.textContent.trim()).map((one) => {{
    const style = getComputedStyle(one);
    return [contrast(one.tagName === "text" ? style.fill : style.color, one), one.textContent.slice(0, 40)];
  }}).filter(([ratio]) => ratio < 3);
}}
"""

# In the page: outputs that do not lie on the ground of what is around them.
ON_ANOTHER_GROUND = f"""
() => {{{CONTRAST}
  const differs = (one) => `${{ground(one)}}` !== `${{ground(one.closest("details, .cell"))}}`;
  return [...document.querySelectorAll(".cell .text_html")].filter(differs).map((one) => one.innerText);
}}
"""

# In the page: marks neither of whose colours, of area and of outline, is 3:1 from the page's ground. Where a
# legend grades a colour, cells touch each other.
FAINT_MARKS = f"""
() => {{{CONTRAST}
  const drawn = (mark, kind) => {{
    const style = getComputedStyle(mark);
    const seen = parts(style[kind])[3] !== 0 && Number(style.opacity) * Number(style[kind + "Opacity"]) > 0;
    if (style[kind] === "none" || !seen || (kind === "stroke" && style.strokeWidth === "0px")) return [];
    return [style[kind]];
  }};
  const found = new Set();
  const ratios = new Map();
  const ratio = (colour, chart) => {{
    const key = `${{colour}} on ${{ground(chart)}}`;
    if (!ratios.has(key)) ratios.set(key, contrast(colour, chart));
    return ratios.get(key);
  }};
  for (const chart of document.querySelectorAll(".embviz-output")) {{
    const graded = chart.querySelector(".role-legend-gradient");
    const groups = ".role-mark:not(.mark-text, .mark-group), .role-legend-symbol";
    for (const group of chart.querySelectorAll(groups)) {{
      if (graded && group.matches(".mark-rect")) continue;
      for (const mark of group.querySelectorAll("path, line, rect, circle")) {{
        const box = mark.getBBox();
        if (box.width + box.height === 0) continue;
        const colours = ["fill", "stroke"].flatMap((kind) => drawn(mark, kind));
        if (!colours.length || Math.max(...colours.map((one) => ratio(one, chart))) >= 3) continue;
        found.add(`${{chart.innerText.slice(0, 40)}}: ${{colours}}`);
      }}
    }}
  }}
  return [...found];
}}
"""


# In the page: code, figures, equations and tables that go on beyond the column, and by how many pixels.
CUT = """
() => {
  const edge = document.querySelector("article").getBoundingClientRect().right;
  const found = [];
  for (const one of document.querySelectorAll(".bd-content div.highlight pre")) {
    const over = one.scrollWidth - one.clientWidth;
    if (over > 2) found.push([over, one.innerText.slice(0, 60)]);
  }
  for (const one of document.querySelectorAll(".bd-content :is(.embviz-output, img, table)")) {
    const over = one.getBoundingClientRect().right - edge;
    if (over > 2) found.push([Math.round(over), one.innerText.slice(0, 60)]);
  }
  for (const one of document.querySelectorAll(".bd-content :is(mjx-container[display=true], .cell_output)")) {
    const over = one.scrollWidth - one.clientWidth;
    if (over > 2) found.push([over, one.textContent.trim().slice(0, 60)]);
  }
  return found;
}
"""

# In the page: wait until the charts fill their boxes, whose widths have changed.
CHARTS_FOLLOW = """
async () => {
  const charts = [...document.querySelectorAll(".embviz-output")].filter((one) => one.view);
  for (let round = 0; round < 3; round++) {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    await Promise.all(charts.map((one) => one.view.runAsync()));
  }
}
"""

# In the page: words in which markup shows that should have been drawn: dollar signs, backticks, asterisks.
RAW_MARKUP = """
() => {
  const found = [];
  const article = document.querySelector(".bd-content article");
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("pre, code, script, style, mjx-container, .math, kbd, textarea")) continue;
    const hit = node.textContent.match(/.{0,25}(`|\\$[^\\s$][^$]*\\$|\\*\\*).{0,25}/);
    if (hit) found.push(hit[0]);
  }
  return found;
}
"""

# In the page: pictures that are wider than the screen, and how wide.
WIDER_THAN_SCREEN = """
() => [...document.querySelectorAll(".bd-content :is(.embviz-output svg, .embviz-output canvas, img)")]
  .map((one) => [Math.round(one.getBoundingClientRect().width), one.closest("div")?.innerText.slice(0, 60)])
  .filter(([width]) => width > innerWidth)
"""

# labels are shorter where a page is opened on a phone: front page, tables, long labels, a player; the page of
# forms has its own tests
OPENED_ON_A_PHONE = ["index", "results", "tying/exor", "geometry/phases"]

TALLEST = 12_000  # pixels at 1280, the deeper sections folded; the list of all forms may be longer


@on(*page_names())
def test_a_page_opens_without_errors_asks_no_other_host_sets_every_formula_and_cuts_nothing(desktop):
    page, watch = desktop
    assert watch.errors == []
    assert watch.strangers == []
    written = page.locator(".bd-content :is(span.math, div.math)").count()
    assert page.locator(".bd-content mjx-container").count() >= written
    assert page.locator("[data-mjx-error], mjx-merror").count() == 0
    assert page.evaluate(CUT) == []


PROSE = [name for name in page_names() if not name.startswith("reference/")]


HEIGHT_WHEN_FOLDED = """
() => {
  const folds = [...document.querySelectorAll("details.ev-depth")];
  folds.forEach((fold) => fold.open = false);
  const height = document.documentElement.scrollHeight;
  folds.forEach((fold) => fold.open = true);
  return height;
}
"""


@on(*PROSE)
def test_no_markup_shows_and_no_page_is_taller_than_a_reader_scrolls(desktop):
    page, _ = desktop
    assert page.evaluate(RAW_MARKUP) == []
    assert page.evaluate(HEIGHT_WHEN_FOLDED) <= (18_000 if page.url.endswith("/forms.html") else TALLEST)


def test_a_folded_section_opens_where_a_link_leads_and_draws_its_charts_then(context, watch, site):
    page = context.new_page()
    watch.follow(page)
    page.goto(f"{site}kernel/formulas.html")
    fold = page.locator("section#do-trained-embeddings-follow-pmi > details.ev-depth")
    chart = fold.locator(".embviz-output").first
    assert fold.get_attribute("open") is None
    assert chart.get_attribute("data-ready") is None
    page.goto(f"{site}kernel/formulas.html#do-trained-embeddings-follow-pmi")
    chart.locator("svg").first.wait_for()
    assert fold.get_attribute("open") is not None
    assert chart.locator("svg").first.bounding_box()["width"] > 300
    page.locator(".ev-open-all").click()
    assert page.locator("details.ev-depth:not([open])").count() == 0
    page.locator(".ev-open-all", has_text="fold the sections again").click()
    assert page.locator("details.ev-depth[open]").count() == 0
    assert watch.errors == []


def test_the_front_page_weighs_less_than_two_megabytes_and_shows_no_bar_of_code(pages: Path):
    assert (pages / "index.html").stat().st_size < 2_000_000
    assert "Show code cell source" not in (pages / "index.html").read_text(encoding="utf-8")


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


@on(*page_names())
def test_every_control_moves_its_chart(desktop):
    page, watch = desktop
    assert page.evaluate(STUCK_CONTROLS) == []
    assert watch.errors == []


def resize(page: Page, width: int, height: int = 900) -> None:
    """Give the window another size, and wait until the charts are drawn anew."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(CHARTS_FOLLOW)


def assert_nothing_is_cut_on_a_phone(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # a chart of fixed width may scroll in its box; one that fills its box must not
    assert page.evaluate(WIDER_THAN_SCREEN) == []
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText)"
    assert page.locator(".embviz-chart.fit-x, .embviz-controls").evaluate_all(cut) == []


@pytest.mark.parametrize("name", OPENED_ON_A_PHONE)
def test_nothing_is_cut_on_a_phone(chromium, watch, site, name):
    context = chromium.new_context(viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)
    assert_nothing_is_cut_on_a_phone(opened(context, watch, site, name))
    context.close()


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


# In the page: ask another host for a script, a picture, data and a frame; what the browser refused.
ASK_ELSEWHERE = """
async () => {
  const refused = new Set();
  document.addEventListener("securitypolicyviolation", (event) => refused.add(event.effectiveDirective));
  const add = (tag, source) => document.head.appendChild(Object.assign(document.createElement(tag), source));
  add("script", {src: "https://elsewhere.invalid/a.js"});
  add("link", {rel: "stylesheet", href: "https://elsewhere.invalid/a.css"});
  document.body.appendChild(Object.assign(new Image(), {src: "https://elsewhere.invalid/a.png"}));
  document.body.appendChild(Object.assign(document.createElement("iframe"), {src: "https://elsewhere.invalid/"}));
  await fetch("https://elsewhere.invalid/a.json").catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 300));
  return [...refused].sort();
}
"""


def test_a_page_that_asks_another_host_is_refused_by_the_browser(context, watch, site):
    page = context.new_page()
    page.goto(f"{site}search.html")
    refused = page.evaluate(ASK_ELSEWHERE)
    assert refused == ["connect-src", "frame-src", "img-src", "script-src-elem", "style-src-elem"]
    assert watch.strangers == []  # not even tried


def test_the_book_opens_from_the_file_system(chromium: Browser, watch: Watch, pages: Path):
    context = chromium.new_context()
    watch.follow_requests(context, "file://")
    page = opened(context, watch, f"{pages.as_uri()}/", "how_to_read")
    assert page.evaluate(STUCK_CONTROLS) == []
    assert watch.errors == []
    assert watch.strangers == []
    context.close()


def test_the_book_can_be_searched(context, watch, site):
    page = context.new_page()
    watch.follow(page)
    page.goto(f"{site}search.html?q=keyboard")
    page.wait_for_selector("#search-results li a", timeout=10_000)
    assert "How to read this book" in page.locator("#search-results li").all_inner_texts()[0]
    assert watch.errors == []
    assert watch.strangers == []


def test_a_citation_leads_to_its_reference(context, watch, site):
    page = opened(context, watch, site, "how_to_read")
    page.locator("a[href*='bibliography.html#']").first.click()
    page.wait_for_url("**/bibliography.html#*")
    target = page.url.rsplit("#", 1)[1]
    assert "Assylbekov" in page.locator(f"[id='{target}']").inner_text()


def test_the_front_page_leads_to_a_paper_s_chapters_and_to_the_claims_behind_its_answer(context, watch, site):
    page = opened(context, watch, site, "index")
    page.locator(".ev-pin a", has_text="Tying").click()
    page.wait_for_url("**/tying/*.html")
    page.go_back()
    page.locator(".ev-paper-list small a", has_text="not reproduced").first.click()
    page.wait_for_url("**#reflections.half_reflected")
    assert watch.errors == []


@on("index")
def test_the_path_of_the_papers_runs_across_a_wide_page_and_down_a_phone(desktop):
    page, watch = desktop
    for width, down in ((390, True), (1280, False)):
        page.set_viewport_size({"width": width, "height": 800})
        boxes = [stage.bounding_box() for stage in page.locator(".ev-stage").all()]
        assert len(boxes) == 8
        axis, other = ("y", "x") if down else ("x", "y")
        places = [box[axis] for box in boxes]
        assert places == sorted(places)
        assert places[-1] - places[0] > 8 * 40
        assert max(box[other] for box in boxes) - min(box[other] for box in boxes) < 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watch.errors == []


@on("index")
def test_on_the_front_page_a_word_has_related_neighbours_until_the_switch_is_turned(desktop):
    page, watch = desktop
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
    assert watch.errors == []


@on("index")
def test_the_first_screen_of_the_front_page_has_its_buttons_and_a_map_as_wide_as_the_window(desktop):
    page, _ = desktop
    for width, least in ((1280, 0.7), (390, 0.85)):
        page.set_viewport_size({"width": width, "height": 800})
        page.reload()
        page.locator(".tag_hero canvas").first.wait_for()
        canvas = page.locator(".tag_hero canvas").first.bounding_box()
        assert canvas["y"] + canvas["height"] <= 800
        assert canvas["width"] > least * width
        links = [link.bounding_box() for link in page.locator("h1 + p + p a").all()]
        assert len(links) == 3
        assert all(link["y"] + link["height"] < canvas["y"] for link in links)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 800})


def test_the_ledger_is_read_by_keyboard_filtered_and_linked_to(context, watch, site):
    page = opened(context, watch, site, "geometry/grokking")
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
    again = context.new_page()
    again.goto(page.url)  # the filter stands in the address
    assert again.locator(".ev-claims details:visible").count() == shown.count()
    show(page, site, "ledger")
    page.get_by_label("paper").select_option("tying")
    page.get_by_label("scale").select_option("smaller")
    rows = shown.evaluate_all("(all) => all.map((one) => [one.dataset.paper, one.dataset.scale])")
    assert {tuple(row) for row in rows} == {("tying", "smaller")}
    assert page.locator("section#kernel").is_hidden()
    assert watch.errors == []


def test_chapters_hold_no_table_and_no_revision_of_a_claim(pages: Path):
    for item in ledger.entries():
        html = (pages / f"{item.claim.chapter}.html").read_text(encoding="utf-8")
        assert "Revised on" not in html, item.claim.chapter
        assert f'class="ev-claim" id="{item.claim.id}"' in html.replace("'", '"'), item.claim.id


@on("how_to_read")
def test_the_keyboard_alone_reaches_and_moves_a_slider(desktop):
    page, _ = desktop
    page.locator(".embviz input[type=radio]:checked").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "range"
    before = page.evaluate("document.activeElement.value")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.value") != before


# --- the last tests of a page: they leave it dark and narrow, and the next page is opened light and wide ---


@on(*page_names())
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_marks_stand_out_from_the_page(desktop, scheme):
    page, _ = desktop
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
    assert page.evaluate(FAINT_WORDS) == []
    assert page.evaluate(FAINT_MARKS) == []
    assert page.evaluate(ON_ANOTHER_GROUND) == []


@on(*page_names())
def test_nothing_is_cut_in_a_window_as_narrow_as_a_phone(desktop):
    page, _ = desktop
    resize(page, 390)
    assert_nothing_is_cut_on_a_phone(page)


@on("reflections/spectrum", "tying/exor", "geometry/phases")
def test_on_paper_nothing_is_cut_and_no_button_shows(desktop):
    page, _ = desktop
    page.emulate_media(media="print", color_scheme="light")
    resize(page, 720, 1050)  # A4 with its margins
    assert page.evaluate(CUT) == []
    shown = """(all) => all.filter((one) => one.checkVisibility({visibilityProperty: true}))
      .map((one) => one.outerHTML)"""
    assert page.locator("button").evaluate_all(shown) == []
