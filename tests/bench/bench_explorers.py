"""From a key press on a slider to pixels: static page and JupyterLab, p50 and p95."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.book.browser import running_chromium, served
from tests.book.conftest import BOOK, build
from tests.book.jupyterlab import open_notebook, run_all, running_lab

CHAPTER = "how_to_read"
SLIDER = ".embviz input[type=range]"
N_MOVES = 60

# What readers wait for: from the key's own time stamp to the frame after the last change of the drawing.
LATENCY = """
(element) => new Promise((resolve) => {
  let pressed, drawn, timer;
  const drawing = element.closest(".embviz").querySelector(".embviz-chart");
  const finish = () => { observer.disconnect(); resolve(drawn === undefined ? null : drawn - pressed); };
  const observer = new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    drawn = performance.now(); clearTimeout(timer); timer = setTimeout(finish, 120);
  })));
  element.addEventListener("keydown", (event) => {
    pressed = event.timeStamp; timer = setTimeout(finish, 3000);
    observer.observe(drawing, {subtree: true, childList: true, attributes: true, characterData: true});
  }, {once: true});
})
"""


def measure_latency(page: Page, slider: str, *, n_moves: int = 40) -> list[float]:
    """Milliseconds from each arrow-key press on a slider to the frame after the last redraw.

    Parameters
    ----------
    page : Page
        With an explorer drawn on it, in the book or in JupyterLab.
    slider : str
        Selector of one range input of an explorer.
    n_moves : int, default 40
        Presses, back and forth, each after the last one's drawing has come to rest.

    Raises
    ------
    RuntimeError
        If a press changed nothing within 3 seconds.
    """
    element = page.locator(slider).first
    element.scroll_into_view_if_needed()
    element.focus()
    times = []
    for move in range(n_moves):
        handle = element.evaluate_handle(f"(element) => ({{ wait: ({LATENCY})(element) }})")
        page.keyboard.press("ArrowRight" if move % 8 < 4 else "ArrowLeft")
        took = handle.evaluate("(armed) => armed.wait")
        if took is None:
            raise RuntimeError(f"move {move} of {slider} changed nothing within 3 s")
        times.append(float(took))
    return times


@pytest.fixture(scope="module")
def chromium():
    with running_chromium() as browser:
        yield browser


def record(speed_table: Callable[..., None], face: str, times: list[float], bar: float) -> None:
    """Two rows: p95, which has the bar, beside p50 as what the reader usually waits."""
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    load = os.getloadavg()[0]
    print(f"{face}: p50 {p50:.0f} ms, p95 {p95:.0f} ms over {len(times)} moves, load {load:.1f}")
    speed_table(
        job=f"slider to pixels, {face}, p95",
        ours=p95,
        peer=p50,
        unit="ms",
        bar=f"at most {bar:.0f} ms",
        peer_name=f"p50 of the same run (load {load:.1f})",
    )


def test_static(chromium: Browser, tmp_path: Path, speed_table: Callable[..., None]) -> None:
    with served(build(BOOK, tmp_path)) as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}{CHAPTER}.html")
        page.wait_for_selector("[data-ready]")
        measure_latency(page, SLIDER, n_moves=5)  # the first frames compile
        times = measure_latency(page, SLIDER, n_moves=N_MOVES)
    record(speed_table, "static page", times, bar=60)


def test_live(chromium: Browser, tmp_path: Path, speed_table: Callable[..., None]) -> None:
    """The first slider of the chapter, run in JupyterLab."""
    chapters, state = tmp_path / "chapters", tmp_path / "state"
    chapters.mkdir()
    state.mkdir()
    name = Path(shutil.copy(BOOK / f"{CHAPTER}.ipynb", chapters)).name
    with running_lab(chapters, state) as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(180_000)
        open_notebook(page, address, name)
        run_all(page)
        page.wait_for_selector("[data-ready]")
        measure_latency(page, SLIDER, n_moves=5)
        times = measure_latency(page, SLIDER, n_moves=N_MOVES)
    record(speed_table, "JupyterLab", times, bar=100)
