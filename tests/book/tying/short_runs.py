"""Cells of EXor's chapters after a few steps, for tests that read stored results."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from book.tying import exor as chapter
from book.tying.experiments import exor, spellings
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment

N_STEPS = 10


@contextlib.contextmanager
def stored_briefly(folder: Path, cached: Sequence[Any]) -> Iterator[None]:
    """Real cells of a few steps in `folder`, where the quick ones belong; `cached` functions forget them."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # models this small are ten times slower on two
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder))
        patch.setenv("EMBVIZ_CACHE_DIR", str(folder / "cache"))
        for run in chapter.TASKS.values():
            store_short(exor.cell_of(run, "quick"))
        for cell in spellings.sweep_cells("quick"):
            store_short(cell)
        for function in cached:
            function.cache_clear()
        yield
    for function in cached:
        function.cache_clear()
    torch.set_num_threads(n_threads)


def store_short(cell: Cell) -> None:
    """What a few steps give, as the result of a cell that has more."""
    table = cell.experiment.function(dataclasses.replace(cell.config, n_steps=N_STEPS))
    short = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(short, cell.config))
