"""Results that a chapter makes on the spot where nothing larger is stored, kept apart from stored ones."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator

from embviz.ledger import cells
from embviz.ledger.cells import Cell

RESULTS_VARIABLE = "EMBVIZ_RESULTS_DIR"


@contextlib.contextmanager
def made_here(wanted: Iterable[Cell]) -> Iterator[None]:
    """Within the block, results are read from a folder of this process, where `wanted` are computed first.

    The folder is deleted when the process ends; what is stored elsewhere isn't seen within the block.
    """
    folder = _folder_of(tuple(wanted))
    with _results_in(folder):
        yield


@functools.cache
def _folder_of(wanted: tuple[Cell, ...]) -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _results_in(folder):
        cells.run(wanted, n_jobs=1, progress=False)
    return folder


@contextlib.contextmanager
def _results_in(folder: str) -> Iterator[None]:
    before = os.environ.get(RESULTS_VARIABLE)
    os.environ[RESULTS_VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(RESULTS_VARIABLE)
        if before is not None:
            os.environ[RESULTS_VARIABLE] = before
