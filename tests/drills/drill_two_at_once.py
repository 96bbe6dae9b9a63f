"""Two processes at one sweep: what one has, the other leaves to it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from embviz.ledger import cells
from tests.ledger.conftest import results
from tests.ledger.test_holders import Sleep

__all__ = ["results"]

SWEEP = """
from embviz.ledger import cells
from tests.drills.drill_two_at_once import sweep
cells.run(sweep(), n_jobs=2, progress=False)
"""


@cells.experiment("testing.counted")
def counted(config):
    with open(Path(cells.results_folder()) / "log", "a", encoding="utf-8") as log:
        log.write(f"{config.seed}\n")
    return pd.DataFrame({"seed": [config.seed]})


def sweep():
    return [counted.cell(Sleep(0.1, seed)) for seed in range(200)]


def test_no_cell_is_computed_twice_by_two_sweeps_at_once(results):
    processes = [subprocess.Popen([sys.executable, "-c", SWEEP]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert not cells.missing(sweep())
    computed = (results / "log").read_text(encoding="utf-8").split()
    assert sorted(computed, key=int) == [str(seed) for seed in range(200)]
    assert not list((results / "cache" / "held").iterdir())
