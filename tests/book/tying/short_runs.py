"""Cells of EXor's chapters after a few steps, for tests that read stored results."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment

N_STEPS = 10


@contextlib.contextmanager
def stored_briefly(folder: Path, longer: Sequence[Cell], cached: Sequence[Any]) -> Iterator[None]:
    """What a few steps give in `folder`, as results of cells with more; `cached` functions forget them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        patch.setenv("EMBVIZ_CACHE_DIR", str(folder / "cache"))
        for cell in longer:
            store_short(cell)
        for function in cached:
            function.cache_clear()
        yield
    for function in cached:
        function.cache_clear()


def store_short(cell: Cell) -> None:
    """What a few steps give, as the result of a cell that has more."""
    table = _short_table(cell.experiment.function, dataclasses.replace(cell.config, n_steps=N_STEPS))
    short = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(short, cell.config))


@functools.cache
def _short_table(function: Callable[[Any], pd.DataFrame], config: Any) -> pd.DataFrame:
    return function(config)  # trained once for all files of a process
