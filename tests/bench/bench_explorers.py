"""From a key press on a slider to pixels: static page and JupyterLab, p50 and p95."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.book.browser import measure_latency, running_chromium, served
from tests.book.conftest import BOOK, build
from tests.book.jupyterlab import open_notebook, run_all, running_lab

CHAPTER = "how_to_read"
SLIDER = ".embviz input[type=range]"
N_MOVES = 60


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
