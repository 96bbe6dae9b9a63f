"""EXor's claims: which pairs of spellings close up, in which matrix, and what tying does to accuracy.

Source: tying paper, section 5 and appendices C.1-C.6.
"""

from __future__ import annotations

import dataclasses

from embviz.cells import Cell
from embviz.experiments.tying.exor_runs import EXorRun, exor

MAIN, ONES, ZEROS = EXorRun(n_seeds=20), EXorRun(symbols="ones"), EXorRun(symbols="zeros")
LARGER = EXorRun(size="medium")
LSTM, MIXER = EXorRun("lstm"), EXorRun("mixer")
BIGGER_LSTM, BIGGER_MIXER = EXorRun("lstm", "medium"), EXorRun("mixer", "medium")


def at_preset(run: EXorRun, preset: str) -> EXorRun:
    """A paper-sized run as far as a preset takes it.

    The schedule doesn't depend on the number of steps: a `laptop` run is the beginning of the paper's.
    """
    if preset == "paper":
        return run
    if preset == "laptop":
        if (run.architecture, run.size) == ("lstm", "medium"):
            return dataclasses.replace(run, n_steps=15_000, n_seeds=2)
        return dataclasses.replace(run, n_steps=30_000, n_seeds=5)
    n_steps = 1_500 if run.size == "small" else 60
    return dataclasses.replace(run, n_steps=n_steps, n_seeds=2, learning_rate=5e-3)


def cell_of(run: EXorRun, preset: str) -> Cell:
    """The cell of a run at a preset."""
    return exor.cell(at_preset(run, preset))
