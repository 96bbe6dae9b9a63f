"""The live face: a chapter run in JupyterLab, its controls moved, its mistakes told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from embviz.project import copy_chapters
from tests.book.browser import Watch, measure_latency
from tests.book.conftest import BOOK
from tests.book.jupyterlab import open_notebook, run_all, running_lab

pytestmark = pytest.mark.browser

MISTAKEN = """
import altair as alt
import pandas as pd
from embviz.view.explorers import Explorer, Range

def measure(n):
    if n > 2:
        raise MemoryError("n = 3 needs 9 TB: <b>choose</b> fewer")
    return pd.DataFrame({"x": [n]})

Explorer(
    measure, {"n": Range(0, 3, 1, "n", initial=1)},
    lambda data: alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[0, 4])),
    title="It refuses", caption="Made.",
    grid=pd.DataFrame({"n": [0, 1, 2, 3], "x": [0, 1, 2, 3]}),
)
"""

# Two tables from a function of the notebook, with a title that follows.
OWN = """
offset = 10

def shifted(n):
    points = pd.DataFrame({"x": range(n), "y": [offset + n] * n})
    return {"points": points, "level": pd.DataFrame({"height": [offset + n]})}

def draw(points, level):
    marks = alt.Chart(points).mark_point().encode(x="x:Q", y="y:Q")
    return alt.layer(marks, alt.Chart(level).mark_rule().encode(y="height:Q"))

Explorer(
    shifted, {"n": range(1, 5)}, draw,
    title=lambda level: f"Own: {{n}} points at {level['height'][0]}", caption="Made.",
)
"""


SOLUTIONS = """
```{dropdown} Solutions
A folded solution, as {cite:t}`assylbekov2019` has it.
```
"""

SLOW = """
import time

import altair as alt
import pandas as pd
from embviz.view import Explorer, Range

def sleepy(n):
    time.sleep(60 * (n > 1))
    return pd.DataFrame({"x": [n]})

Explorer(
    sleepy, {"n": Range(0, 2, 1)}, lambda data: alt.Chart(data).mark_point().encode(x="x:Q"),
    title="It sleeps", caption="Made.", grid=pd.DataFrame({"n": [0, 1, 2], "x": [0, 1, 2]}),
)
"""

DRAWS = """
import random, threading, time

import altair as alt
import pandas as pd
from embviz.view import Explorer, Range

main_thread = True

def draws(n):
    global main_thread
    main_thread &= threading.current_thread() is threading.main_thread()
    return pd.DataFrame({"x": [random.random()]})

Explorer(
    draws, {"n": Range(0, 8, 1)}, lambda data: alt.Chart(data).mark_point().encode(x="x:Q"),
    title="It draws", caption="Made.", grid=pd.DataFrame({"n": range(9), "x": range(9)}),
)
"""

SEEDED = """
random.seed(0)
total = 0.0
for _ in range(30):
    total += random.random()
    time.sleep(0.1)
print(total)
"""

# In the page: one more cell at the end, run.
RUN_CELL = """
async (source) => {
  const { commands, shell } = window.jupyterapp;
  const { model } = shell.currentWidget.content;
  model.sharedModel.addCell({cell_type: "code", source});
  shell.currentWidget.content.activeCellIndex = model.cells.length - 1;
  await commands.execute("notebook:run-cell");
}
"""

START_CELL = RUN_CELL.replace("await commands.execute", "commands.execute")
N_OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .flatMap((cell) => cell.outputs ?? []).length"""
LAST_OUTPUT = """() => [].concat(window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .flatMap((cell) => cell.outputs ?? []).at(-1).text ?? "").join("").trim()"""
RUN_AND_READ = f"""async (source) => {{
  await ({RUN_CELL})(`print(${{source}})`);
  return ({LAST_OUTPUT})();
}}"""

MAP = """
import numpy as np
from embviz.view import embedding_map

vectors = np.random.default_rng(0).normal(size=(30, 4))
words = ["<b>bold</b>", *(f"word{place}" for place in range(29))]
embedding_map(vectors, words, focus="word5", title="A live map", caption="Made.")
"""


RUN = """
from embviz.view.player import HISTORY, Player

def run():
    for step in range(0, 1000, 10):
        yield pd.DataFrame({"frame": step, "x": [step, -step], "loss": 1 / (step + 1)})
        if step == 200:
            raise MemoryError("more than 200 steps: <b>choose</b> fewer")

def draw(data):
    point = alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[-300, 300]))
    return point & alt.Chart(HISTORY).mark_line().encode(x="frame:Q", y="loss:Q")

Player(
    pd.concat([frame for frame, _ in zip(run(), range(3))]), draw,
    title="It computes", caption="Made.", live=run, curves=["loss"],
)
"""


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, chromium: Browser, watch: Watch) -> Iterator[Page]:
    """A chapter in JupyterLab, not yet run; cells at its end measure, and draw a map and a player."""
    book, folder, state = (tmp_path_factory.mktemp(name) for name in ("book", "chapters", "state"))
    chapter = nbformat.read(BOOK / "how_to_read.ipynb", as_version=4)
    chapter.cells += [nbformat.v4.new_code_cell(source) for source in (MISTAKEN, OWN, MAP, RUN)]
    chapter.cells.insert(0, nbformat.v4.new_markdown_cell(SOLUTIONS))
    nbformat.write(chapter, book / "chapter.ipynb")
    shutil.copy(BOOK / "references.bib", book)
    copy_chapters(book, folder)  # as `embviz lab` does
    with running_lab(folder, state) as address:
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        watch.follow_requests(context, address)
        page = context.new_page()
        page.set_default_timeout(90_000)  # a kernel imports for a while on a busy machine
        open_notebook(page, address, "chapter.ipynb")
        yield page
        context.close()


def drawing(page: Page, title: str) -> str:
    return page.locator(f".embviz[aria-label*='{title}'] .embviz-chart").inner_html()


def wait_for_row(page: Page, title: str, condition: str) -> None:
    """Wait until the first drawn row of an explorer meets a condition in JavaScript."""
    find = f"document.querySelector(`.embviz[aria-label*='{title}']`)"
    page.wait_for_function(f"((row) => {condition})({find}.parentElement.view.data('measured')[0])")


def test_a_chapter_shows_its_twin_before_any_cell_is_run(page):
    page.locator(".jp-RenderedVegaCommon5 input[type=range]").first.wait_for()
    assert page.locator(".embviz").count() == 0


def test_solutions_are_folded_and_citations_readable_as_on_the_books_pages(page):
    fold = page.locator(".jp-Notebook details:has(summary:has-text('Solutions'))")
    solution = fold.get_by_text("A folded solution")
    assert not solution.is_visible()
    fold.locator("summary").click()
    solution.wait_for()
    assert "{cite" not in fold.text_content()
    assert "as Assylbekov and Takhanov (2019) has it" in fold.text_content()


def test_no_extension_can_be_installed_from_the_page(page):
    config = json.loads(page.locator("#jupyter-config-data").text_content())
    assert config["extensionManager"]["name"] == "read-only"
    assert not config["extensionManager"]["can_install"]


def test_a_moved_control_is_measured_by_the_kernel(page, watch):
    run_all(page)
    page.locator(".embviz[aria-label*='mirror image']").wait_for()
    before = drawing(page, "mirror image")
    slider = ".embviz[aria-label*='mirror image'] input[type=range]"
    assert len(measure_latency(page, slider, n_moves=2)) == 2
    page.locator(slider).first.fill("25")
    wait_for_row(page, "mirror image", "row.dimension === 25")
    assert drawing(page, "mirror image") != before
    assert watch.strangers == []


def test_a_map_is_drawn_and_searched_without_the_kernel(page):
    shown = page.locator(".embviz[aria-label='A live map']")
    shown.locator("canvas").first.wait_for()
    assert shown.locator(".embviz-near b").text_content() == "word5"
    field = shown.get_by_label("find")
    field.fill("<b")
    field.press("Enter")
    page.wait_for_function(
        "document.querySelector(`.embviz[aria-label='A live map'] .embviz-near b`).textContent[0] === '<'"
    )
    assert shown.locator(".embviz-near button").count() == 8
    assert shown.locator(".embviz-near b b").count() == 0


def test_a_failed_measurement_is_told_and_the_last_good_frame_stays(page):
    explorer = page.locator(".embviz[aria-label='It refuses']")
    explorer.wait_for()
    slider = explorer.locator("input[type=range]")
    slider.fill("2")
    wait_for_row(page, "It refuses", "row.n === 2")
    good = drawing(page, "It refuses")
    slider.fill("3")
    status = explorer.locator(".embviz-status.embviz-wrong")
    status.wait_for()
    assert status.text_content() == (
        "MemoryError: n = 3 needs 9 TB: <b>choose</b> fewer (measured by measure at n=3). "
        "Choose another value, or mend the function and run its cell again."
    )
    assert drawing(page, "It refuses") == good
    slider.fill("0")
    wait_for_row(page, "It refuses", "row.n === 0")
    assert drawing(page, "It refuses") != good
    assert explorer.locator(".embviz-status").text_content() == ""


def test_tables_of_the_notebooks_function_follow_with_their_title(page):
    explorer = page.locator(".embviz[aria-label^='Own:']")
    explorer.wait_for()
    explorer.locator("input[type=range]").fill("4")
    page.locator(".embviz[aria-label='Own: 4 points at 14'] .mark-symbol.role-mark path").nth(3).wait_for()
    explorer.get_by_role("button", name="reset").click()
    page.locator(".embviz[aria-label='Own: 3 points at 13']").wait_for()


def test_play_computes_in_the_kernel_and_a_failure_is_told(page, watch):
    player = page.locator(".embviz[aria-label='It computes']")
    slider = player.locator(".embviz-player [type=range]")
    slider.wait_for()
    player.locator("[data-act=play]").click()
    wrong = player.locator(".embviz-status.embviz-wrong")
    wrong.wait_for()
    assert wrong.text_content() == "MemoryError: more than 200 steps: <b>choose</b> fewer"
    step = player.locator(".embviz-step")
    assert step.inner_text() == "step 200"
    assert slider.get_attribute("max") == "20"
    slider.focus()
    page.keyboard.press("ArrowLeft")  # JupyterLab would take it
    player.locator(".embviz-step:text-is('step 190')").wait_for()
    assert watch.strangers == []


INTERRUPTS = {
    "interface": lambda page: page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    ),
    "menu": lambda page: page.evaluate("window.jupyterapp.commands.execute('notebook:interrupt-kernel')"),
    "button": lambda page: page.locator("[data-jp-item-name='interrupt'] jp-button").click(),
}


def test_an_interrupt_stops_a_measurement_at_every_move(page):
    page.evaluate(RUN_CELL, SLOW)
    explorer = page.locator(".embviz[aria-label='It sleeps']")
    for interrupt in INTERRUPTS.values():
        explorer.locator("input[type=range]").fill("2")
        explorer.locator(".embviz-status:text-is('measuring …')").wait_for()
        interrupt(page)
        explorer.locator(".embviz-status:has-text('The kernel was interrupted')").wait_for(timeout=20_000)
        explorer.locator("input[type=range]").fill("0")
        explorer.locator(".embviz-status:text-is('')").wait_for(state="attached")
        wait_for_row(page, "It sleeps", "row.n === 0")


def test_a_moved_control_changes_no_number_of_a_running_cell(page):
    page.evaluate(RUN_CELL, DRAWS)
    explorer = page.locator(".embviz[aria-label='It draws']")
    slider = explorer.locator("input[type=range]")
    slider.fill("2")
    wait_for_row(page, "It draws", "row.n === 2")
    sums = []
    for moves in ([], [1, 3, 4, 5, 6, 7]):
        n_outputs = page.evaluate(N_OUTPUTS)
        page.evaluate(START_CELL, SEEDED)
        for value in moves:
            page.wait_for_timeout(250)
            slider.fill(str(value))
        page.wait_for_function(f"({N_OUTPUTS})() > {n_outputs}")
        sums.append(page.evaluate(LAST_OUTPUT))
    wait_for_row(page, "It draws", "row.n === 7")
    assert sums[0] == sums[1]
    assert page.evaluate(RUN_AND_READ, "main_thread") == "True"


LINKED = """
import altair as alt
import ipywidgets
import numpy as np
import pandas as pd
from embviz.view import Explorer, embedding_map

explorer = Explorer(
    lambda n: pd.DataFrame({"x": [n]}), {"n": range(10)},
    lambda data: alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[0, 9])),
    title="Linked at {n}",
)
slider = ipywidgets.IntSlider(4, 0, 9, description="linked")
ipywidgets.link((slider, "value"), (explorer, "value"), (lambda n: {"n": n}, lambda value: value["n"]))
told = ipywidgets.interactive_output(lambda state: print("n is", state["n"]), {"state": explorer})
words = [f"word{place}" for place in range(20)]
map_ = embedding_map(np.random.default_rng(0).normal(size=(20, 4)), words, title="In a box")
ipywidgets.VBox([ipywidgets.HBox([slider, told]), explorer, map_])
"""


def test_an_explorer_is_linked_with_widgets_in_a_box(page):
    page.evaluate(RUN_CELL, LINKED)
    page.locator(".embviz[aria-label='Linked at 4']").wait_for()
    own = page.locator(".embviz[aria-label^='Linked at'] input[type=range]")
    own.fill("7")
    page.locator(".widget-readout:text-is('7')").wait_for()
    page.get_by_text("n is 7").wait_for()
    page.evaluate(RUN_CELL, "slider.value = 2")
    page.locator(".embviz[aria-label='Linked at 2']").wait_for()
    assert own.input_value() == "2"
    page.evaluate(RUN_CELL, "map_.selected = ['word8']")
    page.locator(".embviz[aria-label='In a box'] .embviz-near b:text-is('word8')").wait_for()
    assert page.evaluate(RUN_AND_READ, "explorer.value, map_.selected") == "{'n': 2} ['word8']"


MULTIPLE = """
import altair as alt
import pandas as pd
from embviz.view import Explorer

def multiple(n):
    return pd.DataFrame({"x": [2 * n]})
"""
SHOW_MULTIPLE = """
Explorer(
    multiple, {"n": range(5)}, lambda data: alt.Chart(data).mark_point().encode(x="x:Q"),
    title="Multiple of {n}",
)
"""
# In the page: change a cell's text and run it again.
RUN_AGAIN = """
async ([before, after]) => {
  const { commands, shell } = window.jupyterapp;
  const { content } = shell.currentWidget;
  const { cells } = content.model.sharedModel;
  content.activeCellIndex = cells.findIndex((cell) => cell.getSource().includes(before));
  cells[content.activeCellIndex].setSource(cells[content.activeCellIndex].getSource().replace(before, after));
  await commands.execute("notebook:run-cell");
}
"""


def test_a_function_that_its_cell_defines_again_is_used_at_the_next_move(page):
    page.evaluate(RUN_CELL, MULTIPLE)
    page.evaluate(RUN_CELL, SHOW_MULTIPLE)
    explorer = page.locator(".embviz[aria-label^='Multiple of']")
    explorer.locator("input[type=range]").fill("3")
    wait_for_row(page, "Multiple of", "row.n === 3")
    page.evaluate(RUN_AGAIN, ["2 * n", "7 * n"])
    explorer.locator("input[type=range]").fill("4")
    wait_for_row(page, "Multiple of", "row.n === 4 && (row.x[0] === 28 || row.x === 28)")
    page.evaluate(RUN_AGAIN, ['"x": [7 * n]', '"z": [7 * n]'])
    explorer.locator("input[type=range]").fill("1")
    wrong = explorer.locator(".embviz-status.embviz-wrong")
    wrong.filter(has_text="multiple measured ['z'] at {'n': 1}, but ['x'] at first").wait_for()
    page.locator(".embviz[aria-label='Multiple of 4']").wait_for()  # the title stays with the drawing
