"""Two processes at one sweep, and at one recording: what one has, the other leaves to it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from embviz.ledger import cells
from embviz.pausing import BusyRunError
from embviz.training.recorder import Recorder, read_recording
from tests.ledger.test_holders import Sleep, results

__all__ = ["results"]

SWEEP = """
from embviz.ledger import cells
from tests.drills.drill_two_at_once import sweep
cells.run(sweep(), n_jobs=2, progress=False)
"""
RECORD = """
import sys, time, torch
from embviz.training.recorder import Recorder
with Recorder(torch.nn.Linear(10, 10), sys.argv[1]) as recorder:
    recorder.step()
    print("recorded", flush=True)
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


def test_a_recording_has_one_writer_and_any_number_of_readers(tmp_path):
    folder = tmp_path / "recording"
    with subprocess.Popen(
        [sys.executable, "-c", RECORD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "recorded\n"
        assert read_recording(folder).steps.tolist() == [1]
        with pytest.raises(BusyRunError, match=f"being written by process {process.pid}: end it"):
            Recorder(torch.nn.Linear(10, 10), folder, resume_at=1)
        process.kill()
    assert read_recording(folder).steps.tolist() == [1]
