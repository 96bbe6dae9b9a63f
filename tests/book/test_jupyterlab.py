"""JupyterLab: a chapter is run, its widgets moved and interrupted; a saved notebook is opened again."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, Page

from book.ledger.copies import copy_chapters
from book.view.blocks import fill_notebook
from embviz.view.pages import MIME
from tests.book.browser import Watch, tab
from tests.book.conftest import BOOK
from tests.book.jupyterlab import open_notebook, run_all, running_lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SOLUTIONS = """
```{dropdown} Solutions
A folded solution, as {cite:t}`assylbekov2019` has it.
```
"""
EXPLORER = """
import time
import altair as alt
import numpy as np
import pandas as pd
from embviz.view import Explorer, Player, Range, embedding_map

def measure(n):
    if n == 3:
        raise MemoryError("n = 3 needs 9 TB: <b>choose</b> fewer")
    time.sleep(60 * (n == 4))
    return pd.DataFrame({"x": [n]})

def draw(data):
    return alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[-300, 300]))

Explorer(
    measure, {"n": Range(0, 4, 1, "n", initial=1)}, draw, title="An explorer", caption="Made.",
    grid=pd.DataFrame({"n": range(5), "x": range(5)}),
)
"""
MAP = """
embedding_map(
    np.random.default_rng(0).normal(size=(30, 4)), [f"word{place}" for place in range(30)],
    title="A map", caption="Made.",
)
"""
PLAYER = """
def run():
    for step in range(0, 1000, 10):
        yield pd.DataFrame({"frame": step, "x": [step, -step]})
        if step == 200:
            raise MemoryError("more than 200 steps: <b>choose</b> fewer")

Player(
    pd.concat([frame for frame, _ in zip(run(), range(3))]), draw,
    title="A player", caption="Made.", live=run,
)
"""
FIGURES = (EXPLORER, MAP, PLAYER)
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
STORED = ".jp-RenderedVegaCommon5 .vega-embed"
SAVE = "window.jupyterapp.commands.execute('docmanager:save')"
WITHOUT_A_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
TRUSTED = "window.jupyterapp.shell.currentWidget.content.model.cells.get(0).trusted"
INTERRUPTS = {
    "interface": lambda page: page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    ),
    "menu": lambda page: page.evaluate("window.jupyterapp.commands.execute('notebook:interrupt-kernel')"),
    "button": lambda page: page.locator("[data-jp-item-name='interrupt'] jp-button").click(),
}


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab's address and its folder: a chapter with a stored picture, and `mine.ipynb` without."""
    book, folder, state = (tmp_path_factory.mktemp(name) for name in ("book", "chapters", "state"))
    cells = [nbformat.v4.new_code_cell(source) for source in FIGURES]
    mine = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    nbformat.write(mine, folder / "mine.ipynb")
    *definitions, explorer = ast.parse(EXPLORER).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(definitions, []), "mine", "exec"), names)
    twin = {MIME: eval(ast.unparse(explorer), names).static_spec(), "text/plain": "<explorer>"}
    mine.cells[0].outputs = [nbformat.v4.new_output("display_data", data=twin)]
    mine.cells.insert(0, nbformat.v4.new_markdown_cell(SOLUTIONS))
    nbformat.write(mine, book / "chapter.ipynb")
    shutil.copy(BOOK / "references.bib", book)
    (book / "_toc.yml").write_text("root: chapter\n", encoding="utf-8")
    copy_chapters(book, folder, fill_notebook)  # as `python -m book lab` does
    with running_lab(folder, state) as address:
        yield address, folder


@pytest.fixture(scope="module", params=["chapter.ipynb"])
def page(
    request: pytest.FixtureRequest, lab: tuple[str, Path], chromium: Browser, watch: Watch
) -> Iterator[Page]:
    """A notebook that JupyterLab opened in a window of its own, not yet run."""
    with tab(chromium, lab[0], watch, viewport={"width": 1280, "height": 2400}) as page:
        page.set_default_timeout(90_000)  # a kernel imports for a while on a busy machine
        open_notebook(page, lab[0], request.param)
        yield page
        assert watch.strangers == []


@pytest.fixture(scope="module")
def ran(page: Page) -> Page:
    """The same with all of its cells run, and saved."""
    run_all(page)
    page.locator(".embviz").nth(len(FIGURES) - 1).wait_for()
    page.evaluate(SAVE)
    return page


IN_MINE = pytest.mark.parametrize("page", ["mine.ipynb"], indirect=True)


def wait_for_row(page: Page, condition: str) -> None:
    """Wait until the first drawn row of the explorer meets a condition in JavaScript."""
    find = "document.querySelector(`.embviz[aria-label='An explorer']`)"
    page.wait_for_function(f"((row) => {condition})({find}.parentElement.view.data('measured')[0])")


def test_a_chapter_shows_its_twin_and_folded_solutions_before_any_cell_is_run(page):
    page.locator(".jp-RenderedVegaCommon5 input[type=range]").first.wait_for()
    assert page.locator(".embviz").count() == 0
    fold = page.locator(".jp-Notebook details:has(summary:has-text('Solutions'))")
    solution = fold.get_by_text("A folded solution")
    assert not solution.is_visible()
    fold.locator("summary").click()
    solution.wait_for()
    assert "{cite" not in fold.text_content()
    assert "as assylbekov2019 has it" in fold.text_content()


def test_no_extension_can_be_installed_from_the_page(page):
    config = json.loads(page.locator("#jupyter-config-data").text_content())
    assert config["extensionManager"]["name"] == "read-only"
    assert not config["extensionManager"]["can_install"]


def test_a_moved_control_is_measured_and_a_failure_is_told_while_the_last_good_frame_stays(ran):
    explorer = ran.locator(".embviz[aria-label='An explorer']")
    slider, chart = explorer.locator("input[type=range]"), explorer.locator(".embviz-chart")
    slider.fill("2")
    wait_for_row(ran, "row.n === 2")
    good = chart.inner_html()
    slider.fill("3")
    status = explorer.locator(".embviz-status.embviz-wrong")
    status.wait_for()
    assert status.text_content() == (
        "MemoryError: n = 3 needs 9 TB: <b>choose</b> fewer (measured by measure at n=3). "
        "Choose another value, or mend the function and run its cell again."
    )
    assert chart.inner_html() == good
    slider.fill("0")
    wait_for_row(ran, "row.n === 0")
    assert chart.inner_html() != good
    assert explorer.locator(".embviz-status").text_content() == ""


def test_play_computes_in_the_kernel_and_a_failure_is_told(ran):
    player = ran.locator(".embviz[aria-label='A player']")
    slider = player.locator(".embviz-player [type=range]")
    slider.wait_for()
    player.locator("[data-act=play]").click()
    wrong = player.locator(".embviz-status.embviz-wrong")
    wrong.wait_for()
    assert wrong.text_content() == "MemoryError: more than 200 steps: <b>choose</b> fewer"
    assert player.locator(".embviz-step").inner_text() == "step 200"
    assert slider.get_attribute("max") == "20"
    slider.focus()
    ran.keyboard.press("ArrowLeft")  # JupyterLab would take it
    player.locator(".embviz-step:text-is('step 190')").wait_for()


def test_an_interrupt_stops_a_measurement_at_every_move(ran):
    explorer = ran.locator(".embviz[aria-label='An explorer']")
    for interrupt in INTERRUPTS.values():
        explorer.locator("input[type=range]").fill("4")
        explorer.locator(".embviz-status:text-is('measuring …')").wait_for()
        interrupt(ran)
        explorer.locator(".embviz-status:has-text('The kernel was interrupted')").wait_for()
        explorer.locator("input[type=range]").fill("0")
        explorer.locator(".embviz-status:text-is('')").wait_for(state="attached")
        wait_for_row(ran, "row.n === 0")


# --- a notebook that was run, saved and opened again ----------------------------------------------------


def errors(page: Page) -> list[str]:
    return page.locator(".jp-OutputArea-output:has-text('Error displaying widget')").all_inner_texts()


@IN_MINE
def test_widgets_are_live_in_a_page_that_is_loaded_again_and_pictures_in_a_fresh_kernel(ran, lab):
    open_notebook(ran, lab[0], "mine.ipynb")
    ran.locator(".embviz").nth(len(FIGURES) - 1).wait_for()
    ran.locator(".embviz[aria-label='An explorer'] input[type=range]").fill("2")
    wait_for_row(ran, "row.n === 2")
    assert ran.locator(STORED).count() == 0
    ran.evaluate(WITHOUT_A_KERNEL)
    open_notebook(ran, lab[0], "mine.ipynb")  # JupyterLab starts another kernel, which has no models
    ran.locator(STORED).nth(len(FIGURES) - 1).wait_for()
    ran.wait_for_function("!document.body.innerText.includes('Loading widget')")
    assert errors(ran) == []
    assert ran.locator(".embviz").count() == 0


@IN_MINE
@pytest.mark.parametrize("trusted", [True, False])
def test_a_saved_notebook_shows_its_figures_without_a_kernel(ran, lab, trusted):
    address, folder = lab
    notebook = nbformat.read(folder / "mine.ipynb", as_version=4)
    notebook.metadata.kernelspec |= {"name": "none_here", "display_name": "Not installed"}
    notebook.cells[0].metadata.tags = [str(trusted)]  # a signature is of the content: each has its own
    name = f"trusted_{trusted}"
    nbformat.write(notebook, folder / f"{name}.ipynb")
    if trusted:
        NotebookNotary().sign(notebook)
    ran.goto(f"{address}lab/workspaces/{name}/tree/{name}.ipynb")
    ran.locator(STORED).nth(len(FIGURES) - 1).wait_for()
    assert errors(ran) == []
    assert ran.evaluate(TRUSTED) is trusted
