"""Two processes at one sweep, and at one run: what one has, the other leaves to it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from embviz.ledger import cells
from embviz.pausing import BusyRunError
from embviz.runs import Run, read_run
from tests.ledger.test_holders import Sleep, results

__all__ = ["results"]

SWEEP = """
from embviz.ledger import cells
from tests.drills.drill_two_at_once import sweep
cells.run(sweep(), n_jobs=2, progress=False)
"""
RECORD = """
import sys, time, torch
from embviz.runs import Run
with Run.open(sys.argv[1]) as run:
    run.append(1, torch.nn.Linear(10, 10))
    print("stored", flush=True)
    sys.stdin.readline()
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


def test_a_run_has_one_writer_and_any_number_of_readers(tmp_path):
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", RECORD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "stored\n"
        assert read_run(folder).steps == [1]
        with pytest.raises(BusyRunError, match=f"being written by process {process.pid}: end it"):
            Run.open(folder)
        process.kill()
    assert read_run(folder).steps == [1]
