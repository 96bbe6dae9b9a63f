"""Processes: a killed sweep takes its workers along, and a cell in work is left to whoever is at it."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from embviz import cli
from embviz.ledger import cells, holders, studies
from embviz.ledger.studies import Study

PATIENCE = 300  # seconds on a busy machine; workers end within one, and would work for 3,000


@dataclasses.dataclass(frozen=True)
class Sleep:
    seconds: float
    seed: int = 0


@cells.experiment("testing.sleep")
def sleep(config):
    Path(cells.results_folder(), f"worker-{os.getpid()}").touch()
    time.sleep(config.seconds)
    return pd.DataFrame({"seconds": [config.seconds]})


pytestmark = pytest.mark.usefixtures("results")

SWEEP = """
import sys
from embviz.ledger import cells
from tests.ledger.test_holders import Sleep, sleep
cells.run([sleep.cell(Sleep(3_000, seed)) for seed in range(2)], n_jobs=int(sys.argv[1]), progress=False)
"""


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def sweep(results):
    """Starts a sweep of two cells that take long; gives it and its workers' numbers once they work."""
    started = []

    def start(n_jobs):
        process = subprocess.Popen([sys.executable, "-c", SWEEP, str(n_jobs)])
        started.append(process)
        wait_for(lambda: len(list(results.glob("worker-*"))) == n_jobs)
        return process, [int(path.name.partition("-")[2]) for path in results.glob("worker-*")]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_killed_sweep_takes_its_workers_along(sweep):
    process, workers = sweep(2)
    assert process.pid not in workers
    assert all(map(runs, workers))
    process.send_signal(signal.SIGKILL)
    process.wait()
    cell = sleep.cell(Sleep(3_000))
    wait_for(lambda: not any(map(runs, workers)) and holders.holder(cell.key) is None)
    with holders.held(cell.key, by=1) as ours:  # and the next sweep goes on
        assert ours


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_rerun_leaves_a_cell_in_work_to_its_process_and_says_whose_it_is(
    sweep, monkeypatch, capsys, n_jobs
):
    process, _ = sweep(n_jobs)
    todo = [sleep.cell(Sleep(3_000, seed)) for seed in range(n_jobs)]
    assert cells.run(todo, n_jobs=1, progress=False) == []
    monkeypatch.setattr(cli, "_claim_ids", lambda wanted: ["made.claim"])
    study = Study(lambda preset: todo, lambda preset: {})
    monkeypatch.setattr(studies, "find_study", lambda claim_id: study)
    assert cli.main(["run", "made", "--jobs", "1"]) == 1
    said = re.findall(
        rf"(\d) of them .* being computed by process {process.pid} since 20", capsys.readouterr().out
    )
    assert sum(map(int, said)) == n_jobs  # begun in one second, or in two


def test_a_cell_is_free_again_when_its_process_is_done_with_it_or_failed(results):
    cell = sleep.cell(Sleep(0))
    with holders.held(cell.key, by=7) as ours, holders.held(cell.key, by=8) as theirs:
        assert ours
        assert not theirs
        assert holders.holder(cell.key).startswith("process 7 since ")
    assert holders.holder(cell.key) is None
    with pytest.raises(RuntimeError), holders.held(cell.key, by=7):
        raise RuntimeError
    assert len(cells.run([cell], n_jobs=1, progress=False)) == 1
    assert not list(results.glob("cache/held/*"))


def test_where_nothing_can_be_locked_cells_are_computed_all_the_same(results, monkeypatch):
    (results / "file").touch()
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(results / "file"))
    cell = sleep.cell(Sleep(0))
    assert holders.holder(cell.key) is None
    assert len(cells.run([cell], n_jobs=1, progress=False)) == 1


LAB = """
import sys
from embviz import cli
sys.exit(cli.main(["lab", "--no-browser", "--in-place", "--project", sys.argv[1]]))
"""


def test_what_ends_embviz_lab_ends_jupyterlab(tmp_path):
    for folder in ("data/claims", "book", "state"):
        (tmp_path / folder).mkdir(parents=True)
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "state")}
    environment["JUPYTER_RUNTIME_DIR"] = str(tmp_path / "state")
    (tmp_path / "state" / "jupyter_server_config.json").write_text('{"ServerApp": {"allow_root": true}}')
    with subprocess.Popen(
        [sys.executable, "-c", LAB, str(tmp_path)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: list((tmp_path / "state").glob("jpserver-*.json")))
        (file,) = (tmp_path / "state").glob("jpserver-*.json")
        assert file.name == f"jpserver-{process.pid}.json"  # the server is the process itself
        process.terminate()
        process.wait(timeout=PATIENCE)
