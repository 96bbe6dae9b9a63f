"""Answers to a page, computed where cells are computed: on the kernel's main thread, between two cells.

JupyterLab sends a widget's messages over a subshell, a thread beside the one that runs cells. A measurement
there would draw from the same generators as a running cell, and `Kernel > Interrupt` would not reach it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

PATIENCE = 0.05  # seconds after which a cell is taken to be running


def answer_between_cells(answer: Callable[[], None]) -> None:
    """Call `answer` on the main thread: at once if this is it, else when no cell is running.

    An interrupt of the kernel raises ``KeyboardInterrupt`` inside `answer`, which is to tell the page.
    Outside a Jupyter kernel `answer` is called at once.
    """
    loop = None if threading.current_thread() is threading.main_thread() else _main_loop()
    if loop is None:
        _interruptible(answer)
        return
    started, ended = threading.Event(), threading.Event()

    def run() -> None:
        started.set()
        try:
            _interruptible(answer)
        finally:
            ended.set()

    loop.add_callback(run)
    # what is printed meanwhile reaches the page, as in an Output widget, until this returns; while a cell
    # runs, other widgets must not wait for it
    if started.wait(PATIENCE):
        ended.wait()


def _main_loop() -> Any:
    """The event loop of the kernel's main thread (tornado's); None outside a kernel."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    kernel = getattr(get_ipython(), "kernel", None)
    return getattr(kernel, "io_loop", None)


def _interruptible(answer: Callable[[], None]) -> None:
    """Call `answer` with SIGINT raising inside it, and nowhere else: between cells the kernel ignores it."""
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        answer()
        return
    inside = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if inside:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        answer()
        inside = False
    except KeyboardInterrupt:  # after the answer was sent: there is nothing left to stop
        inside = False
    finally:
        signal.signal(signal.SIGINT, before)
