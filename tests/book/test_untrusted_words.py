"""Words of a vocabulary may be markup, quotes, emoji, right-to-left or broken lines: always shown as text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import nbformat
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from embviz.view import theme
from embviz.view.explorers import Choice, Explorer
from embviz.view.pictures import WIDGET
from tests.book.browser import Watch, served
from tests.book.conftest import BOOK, build
from tests.book.test_pages import settle

pytestmark = pytest.mark.browser

WORDS = [
    "<script>window.hurt = 1</script>",
    "</script><img src=x onerror='window.hurt = 2'>",
    "\"quoted\" & 'quoted'",
    "🦉 owl",
    "שלום",
    "two\nlines",
    "<b>bold</b>",
    "{{ hurt }} ${hurt}",
]
IMAGE = "https://elsewhere.invalid/picture.png"


def named(chosen: str) -> pd.DataFrame:
    return pd.DataFrame({"word": [chosen], "image": [IMAGE], "score": [float(len(chosen))]})


def draw(data: alt.NamedData) -> alt.Chart:
    whole = alt.Axis(title=theme.title("word"), labelLimit=0)
    look = {"x": alt.X("score:Q", axis=theme.axis("score")), "y": alt.Y("word:N", axis=whole)}
    return alt.Chart(data).mark_bar(height=20).encode(**look, tooltip=["word:N", "image:N", "score:Q"])


def cell(*outputs: dict) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(
        "shown", outputs=[nbformat.v4.new_output("display_data", data=data) for data in outputs]
    )


def explorer() -> Explorer:
    words = Choice(WORDS, WORDS[0], format=lambda word: f"{word}!")
    return Explorer(named, {"chosen": words}, draw, title=WORDS[1], caption=WORDS[0])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, vendored: None) -> Path:
    """A book of one page, with the real book's settings, full of such words."""
    source = tmp_path_factory.mktemp("words")
    shutil.copytree(BOOK / "ext", source / "ext", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(BOOK / "assets", source / "assets")
    for name in ("_config.yml", "references.bib"):
        shutil.copy(BOOK / name, source)
    (source / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    table = pd.DataFrame({"word": WORDS * 3, "score": range(len(WORDS) * 3)})
    bundle = {key: value for key, value in explorer()._repr_mimebundle_().items() if key != WIDGET}
    html = {"text/html": table.to_html(), "text/plain": "table"}
    cells = [nbformat.v4.new_markdown_cell("# Words"), cell(bundle, bundle, html)]
    metadata = {"language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.write(notebook, source / "index.ipynb")
    return build(source, tmp_path_factory.mktemp("built"))


@pytest.fixture
def page(chromium: Browser, pages: Path) -> Iterator[Page]:
    watch = Watch()
    with served(pages) as address:
        context = chromium.new_context(viewport={"width": 1280, "height": 1600})
        watch.stop_strangers(context, address)
        page = context.new_page()
        watch.follow(page)
        page.goto(f"{address}index.html")
        settle(page)
        yield page
        assert page.evaluate("window.hurt") is None
        assert watch.errors == []
        assert watch.strangers == []
        context.close()


def test_a_page_cannot_be_ended_from_inside_its_data(pages):
    html = (pages / "index.html").read_text(encoding="utf-8")
    start = html.index('<script type="application/json">') + len('<script type="application/json">')
    stored = json.loads(html[start : html.index("</script>", start)])
    assert [row["word"][0] for row in stored["data"]["values"]] == WORDS


def test_titles_captions_and_controls_show_words_as_text(page):
    assert page.locator(".embviz-title").first.text_content() == WORDS[1]
    assert page.locator(".embviz-caption").first.text_content() == WORDS[0]
    assert page.locator(".embviz select").first.locator("option").all_text_contents() == [
        f"{word}!" for word in WORDS
    ]
    assert page.locator(".embviz script, .embviz img, .embviz b").count() == 0


def test_a_chosen_word_is_drawn_as_text(page):
    for index, word in enumerate(WORDS):
        page.locator(".embviz select").first.select_option(index=index)
        page.evaluate("document.querySelector('.embviz-output').view.runAsync().then(() => true)")
        assert word in page.locator(".embviz-chart").first.locator("svg text").all_text_contents()


def test_a_tooltip_shows_words_as_text_and_fetches_no_image(page):
    page.locator(".embviz select").first.select_option(index=1)
    page.locator(".embviz-chart").first.locator(".mark-rect path").first.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert tip.locator("td.value").all_text_contents()[:2] == [WORDS[1], IMAGE]
    assert tip.locator("img, script").count() == 0


def test_two_explorers_of_one_control_name_move_apart(page):
    page.locator(".embviz select").first.select_option(index=2)
    assert [one.input_value() for one in page.locator(".embviz select").all()] == [WORDS[2], WORDS[0]]


def test_a_long_table_shows_words_as_text_and_can_be_searched(page):
    box = page.locator(".datatable-input")
    box.wait_for()
    page.wait_for_selector("table.datatable-table tbody tr")
    cells = page.locator("table.datatable-table tbody td").all_inner_texts()
    assert WORDS[0] in cells
    assert page.locator("table.datatable-table :is(script, img, b)").count() == 0
    box.fill("owl")
    page.wait_for_function("document.querySelectorAll('table.datatable-table tbody tr').length === 3")
