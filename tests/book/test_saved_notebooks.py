"""A notebook that was run, saved and opened again: its figures are there, with its kernel and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, Page

from tests.book.browser import Watch
from tests.book.jupyterlab import open_notebook, run_all, running_lab

pytestmark = pytest.mark.browser

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
N_FIGURES = 3
STORED = ".jp-RenderedVegaCommon5 .vega-embed"
SAVE = "window.jupyterapp.commands.execute('docmanager:save')"
WITHOUT_A_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
TRUSTED = "window.jupyterapp.shell.currentWidget.content.model.cells.get(0).trusted"


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab's address and its folder, with a notebook of an explorer, a map and a player."""
    folder, state = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("state")
    cells = [nbformat.v4.new_code_cell(source) for source in (EXPLORER, MAP, PLAYER)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "mine.ipynb")
    with running_lab(folder, state) as address:
        yield address, folder


@pytest.fixture(scope="module")
def page(lab: tuple[str, Path], chromium: Browser, watch: Watch) -> Iterator[Page]:
    """The notebook after all was run and saved, its widgets on the screen."""
    address, _ = lab
    context = chromium.new_context(viewport={"width": 1280, "height": 2400})
    watch.follow_requests(context, address)
    page = context.new_page()
    page.set_default_timeout(90_000)  # a kernel imports for a while on a busy machine
    open_notebook(page, address, "mine.ipynb")
    run_all(page)
    page.locator(".embviz").nth(N_FIGURES - 1).wait_for()
    page.evaluate(SAVE)
    yield page
    context.close()


def errors(page: Page) -> list[str]:
    return page.locator(".jp-OutputArea-output:has-text('Error displaying widget')").all_inner_texts()


def test_widgets_are_live_again_in_a_page_that_is_loaded_again(page, lab):
    open_notebook(page, lab[0], "mine.ipynb")
    page.locator(".embviz").nth(N_FIGURES - 1).wait_for()
    slider = page.locator(".embviz[aria-label='An explorer'] input[type=range]")
    slider.fill("4")
    page.locator(".embviz[aria-label='An explorer'] .mark-symbol.role-mark path").nth(3).wait_for()
    assert page.locator(STORED).count() == 0


def test_a_saved_notebook_shows_its_figures_in_a_fresh_kernel(page, lab, watch):
    page.evaluate(WITHOUT_A_KERNEL)
    open_notebook(page, lab[0], "mine.ipynb")  # JupyterLab starts another kernel, which has no models
    page.locator(STORED).nth(N_FIGURES - 1).wait_for()
    assert errors(page) == []
    assert page.locator(".embviz").count() == 0
    assert page.get_by_text("Loading widget").count() == 0
    assert watch.strangers == []


def test_the_pictures_are_live_after_the_cells_are_run_again(page):
    run_all(page)
    page.locator(".embviz").nth(N_FIGURES - 1).wait_for()
    page.wait_for_function(f"document.querySelectorAll('{STORED}').length === 0")
    page.evaluate(SAVE)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_saved_notebook_shows_its_figures_without_a_kernel(page, lab, trusted):
    address, folder = lab
    saved = nbformat.read(folder / "mine.ipynb", as_version=4)
    saved.metadata.kernelspec = {"name": "none_here", "display_name": "Not installed", "language": "python"}
    saved.cells[0].metadata.tags = [str(trusted)]  # a signature is of the content: each has its own
    name = f"trusted_{trusted}"
    nbformat.write(saved, folder / f"{name}.ipynb")
    if trusted:
        NotebookNotary().sign(saved)
    page.goto(f"{address}lab/workspaces/{name}/tree/{name}.ipynb")
    page.locator(STORED).nth(N_FIGURES - 1).wait_for()
    assert errors(page) == []
    assert page.evaluate(TRUSTED) is trusted
