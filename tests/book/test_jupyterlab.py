"""JupyterLab: a chapter is run, its controls moved, its mistakes told; a saved notebook is opened again."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary
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

SOLUTIONS = """
```{dropdown} Solutions
A folded solution, as {cite:t}`assylbekov2019` has it.
```
"""

SLOW = """
import time

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


EXPLORER = """
import altair as alt
import numpy as np
import pandas as pd
from embviz.view import Explorer, Player, embedding_map

Explorer(
    lambda n: pd.DataFrame({"x": range(n)}), {"n": range(1, 5)},
    lambda data: alt.Chart(data).mark_point().encode(x="x:Q"), title="An explorer", caption="Made.",
)
"""
MAP = """
embedding_map(
    np.random.default_rng(0).normal(size=(30, 4)), [f"word{place}" for place in range(30)],
    title="A map", caption="Made.",
)
"""
PLAYER = """
Player(
    pd.DataFrame({"frame": [0, 1, 2], "x": [0, 1, 2]}),
    lambda data: alt.Chart(data).mark_point().encode(x="x:Q"), title="A player", caption="Made.",
)
"""
FIGURES = (EXPLORER, MAP, PLAYER)
STORED = ".jp-RenderedVegaCommon5 .vega-embed"
SAVE = "window.jupyterapp.commands.execute('docmanager:save')"
WITHOUT_A_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
TRUSTED = "window.jupyterapp.shell.currentWidget.content.model.cells.get(0).trusted"


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab's address and its folder: a chapter, whose last cells measure and play, and `mine.ipynb`."""
    book, folder, state = (tmp_path_factory.mktemp(name) for name in ("book", "chapters", "state"))
    chapter = nbformat.read(BOOK / "how_to_read.ipynb", as_version=4)
    chapter.cells += [nbformat.v4.new_code_cell(source) for source in (MISTAKEN, RUN)]
    chapter.cells.insert(0, nbformat.v4.new_markdown_cell(SOLUTIONS))
    nbformat.write(chapter, book / "chapter.ipynb")
    shutil.copy(BOOK / "references.bib", book)
    copy_chapters(book, folder)  # as `embviz lab` does
    cells = [nbformat.v4.new_code_cell(source) for source in FIGURES]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "mine.ipynb")
    with running_lab(folder, state) as address:
        yield address, folder


@contextlib.contextmanager
def opened(chromium: Browser, watch: Watch, address: str, name: str, height: int) -> Iterator[Page]:
    """A notebook that JupyterLab opened in a window of its own."""
    context = chromium.new_context(viewport={"width": 1280, "height": height})
    watch.follow_requests(context, address)
    page = context.new_page()
    page.set_default_timeout(90_000)  # a kernel imports for a while on a busy machine
    open_notebook(page, address, name)
    yield page
    context.close()


@pytest.fixture(scope="module")
def page(lab: tuple[str, Path], chromium: Browser, watch: Watch) -> Iterator[Page]:
    """The chapter, not yet run."""
    with opened(chromium, watch, lab[0], "chapter.ipynb", 900) as page:
        yield page


@pytest.fixture(scope="module")
def ran(page: Page) -> Page:
    """The chapter with all of its cells run."""
    run_all(page)
    page.locator(".embviz[aria-label*='mirror image']").wait_for()
    return page


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


def test_a_moved_control_is_measured_by_the_kernel(ran, watch):
    before = drawing(ran, "mirror image")
    slider = ".embviz[aria-label*='mirror image'] input[type=range]"
    assert len(measure_latency(ran, slider, n_moves=2)) == 2
    ran.locator(slider).first.fill("25")
    wait_for_row(ran, "mirror image", "row.dimension === 25")
    assert drawing(ran, "mirror image") != before
    assert watch.strangers == []


def test_a_failed_measurement_is_told_and_the_last_good_frame_stays(ran):
    explorer = ran.locator(".embviz[aria-label='It refuses']")
    explorer.wait_for()
    slider = explorer.locator("input[type=range]")
    slider.fill("2")
    wait_for_row(ran, "It refuses", "row.n === 2")
    good = drawing(ran, "It refuses")
    slider.fill("3")
    status = explorer.locator(".embviz-status.embviz-wrong")
    status.wait_for()
    assert status.text_content() == (
        "MemoryError: n = 3 needs 9 TB: <b>choose</b> fewer (measured by measure at n=3). "
        "Choose another value, or mend the function and run its cell again."
    )
    assert drawing(ran, "It refuses") == good
    slider.fill("0")
    wait_for_row(ran, "It refuses", "row.n === 0")
    assert drawing(ran, "It refuses") != good
    assert explorer.locator(".embviz-status").text_content() == ""


def test_play_computes_in_the_kernel_and_a_failure_is_told(ran, watch):
    player = ran.locator(".embviz[aria-label='It computes']")
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
    ran.keyboard.press("ArrowLeft")  # JupyterLab would take it
    player.locator(".embviz-step:text-is('step 190')").wait_for()
    assert watch.strangers == []


INTERRUPTS = {
    "interface": lambda page: page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    ),
    "menu": lambda page: page.evaluate("window.jupyterapp.commands.execute('notebook:interrupt-kernel')"),
    "button": lambda page: page.locator("[data-jp-item-name='interrupt'] jp-button").click(),
}


def test_an_interrupt_stops_a_measurement_at_every_move(ran):
    ran.evaluate(RUN_CELL, SLOW)
    explorer = ran.locator(".embviz[aria-label='It sleeps']")
    for interrupt in INTERRUPTS.values():
        explorer.locator("input[type=range]").fill("2")
        explorer.locator(".embviz-status:text-is('measuring …')").wait_for()
        interrupt(ran)
        explorer.locator(".embviz-status:has-text('The kernel was interrupted')").wait_for(timeout=20_000)
        explorer.locator("input[type=range]").fill("0")
        explorer.locator(".embviz-status:text-is('')").wait_for(state="attached")
        wait_for_row(ran, "It sleeps", "row.n === 0")


def test_a_moved_control_changes_no_number_of_a_running_cell(ran):
    ran.evaluate(RUN_CELL, DRAWS)
    explorer = ran.locator(".embviz[aria-label='It draws']")
    slider = explorer.locator("input[type=range]")
    slider.fill("2")
    wait_for_row(ran, "It draws", "row.n === 2")
    sums = []
    for moves in ([], [1, 3, 4, 5, 6, 7]):
        n_outputs = ran.evaluate(N_OUTPUTS)
        ran.evaluate(START_CELL, SEEDED)
        for value in moves:
            ran.wait_for_timeout(250)
            slider.fill(str(value))
        ran.wait_for_function(f"({N_OUTPUTS})() > {n_outputs}")
        sums.append(ran.evaluate(LAST_OUTPUT))
    wait_for_row(ran, "It draws", "row.n === 7")
    assert sums[0] == sums[1]
    assert ran.evaluate(RUN_AND_READ, "main_thread") == "True"


LINKED = """
import ipywidgets
import numpy as np
from embviz.view import embedding_map

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


def test_an_explorer_is_linked_with_widgets_in_a_box(ran):
    ran.evaluate(RUN_CELL, LINKED)
    ran.locator(".embviz[aria-label='Linked at 4']").wait_for()
    own = ran.locator(".embviz[aria-label^='Linked at'] input[type=range]")
    own.fill("7")
    ran.locator(".widget-readout:text-is('7')").wait_for()
    ran.get_by_text("n is 7").wait_for()
    ran.evaluate(RUN_CELL, "slider.value = 2")
    ran.locator(".embviz[aria-label='Linked at 2']").wait_for()
    assert own.input_value() == "2"
    ran.evaluate(RUN_CELL, "map_.selected = ['word8']")
    ran.locator(".embviz[aria-label='In a box'] .embviz-near b:text-is('word8')").wait_for()
    assert ran.evaluate(RUN_AND_READ, "explorer.value, map_.selected") == "{'n': 2} ['word8']"


MULTIPLE = """
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


def test_a_function_that_its_cell_defines_again_is_used_at_the_next_move(ran):
    ran.evaluate(RUN_CELL, MULTIPLE)
    ran.evaluate(RUN_CELL, SHOW_MULTIPLE)
    ran.evaluate(RUN_AGAIN, ["2 * n", "7 * n"])
    ran.locator(".embviz[aria-label^='Multiple of'] input[type=range]").fill("4")
    wait_for_row(ran, "Multiple of", "row.n === 4 && (row.x[0] === 28 || row.x === 28)")


# --- a notebook that was run, saved and opened again ----------------------------------------------------


@pytest.fixture(scope="module")
def saved(lab: tuple[str, Path], chromium: Browser, watch: Watch) -> Iterator[Page]:
    """`mine.ipynb` after all was run and saved, its widgets on the screen."""
    with opened(chromium, watch, lab[0], "mine.ipynb", 2400) as page:
        run_all(page)
        page.locator(".embviz").nth(len(FIGURES) - 1).wait_for()
        page.evaluate(SAVE)
        yield page


def errors(page: Page) -> list[str]:
    return page.locator(".jp-OutputArea-output:has-text('Error displaying widget')").all_inner_texts()


def test_widgets_are_live_again_in_a_page_that_is_loaded_again(saved, lab):
    open_notebook(saved, lab[0], "mine.ipynb")
    saved.locator(".embviz").nth(len(FIGURES) - 1).wait_for()
    slider = saved.locator(".embviz[aria-label='An explorer'] input[type=range]")
    slider.fill("4")
    saved.locator(".embviz[aria-label='An explorer'] .mark-symbol.role-mark path").nth(3).wait_for()
    assert saved.locator(STORED).count() == 0


def test_a_saved_notebook_shows_its_figures_in_a_fresh_kernel(saved, lab, watch):
    saved.evaluate(WITHOUT_A_KERNEL)
    open_notebook(saved, lab[0], "mine.ipynb")  # JupyterLab starts another kernel, which has no models
    saved.locator(STORED).nth(len(FIGURES) - 1).wait_for()
    assert errors(saved) == []
    assert saved.locator(".embviz").count() == 0
    assert saved.get_by_text("Loading widget").count() == 0
    assert watch.strangers == []


def test_the_pictures_are_live_after_the_cells_are_run_again(saved):
    run_all(saved)
    saved.locator(".embviz").nth(len(FIGURES) - 1).wait_for()
    saved.wait_for_function(f"document.querySelectorAll('{STORED}').length === 0")
    saved.evaluate(SAVE)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_saved_notebook_shows_its_figures_without_a_kernel(saved, lab, trusted):
    address, folder = lab
    notebook = nbformat.read(folder / "mine.ipynb", as_version=4)
    notebook.metadata.kernelspec |= {"name": "none_here", "display_name": "Not installed"}
    notebook.cells[0].metadata.tags = [str(trusted)]  # a signature is of the content: each has its own
    name = f"trusted_{trusted}"
    nbformat.write(notebook, folder / f"{name}.ipynb")
    if trusted:
        NotebookNotary().sign(notebook)
    saved.goto(f"{address}lab/workspaces/{name}/tree/{name}.ipynb")
    saved.locator(STORED).nth(len(FIGURES) - 1).wait_for()
    assert errors(saved) == []
    assert saved.evaluate(TRUSTED) is trusted
