import dataclasses
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

from book.ledger import cells
from embviz import runs as stored_runs
from embviz.storage import BusyRunError


@dataclasses.dataclass(frozen=True)
class Squares:
    n: int
    seed: int = 0
    names: tuple[str, ...] = ("a",)


@cells.experiment("testing.squares", version=2)
def squares(config):
    time.sleep(0.02)
    rng = np.random.default_rng(config.seed)
    return pd.DataFrame(
        {"square": np.arange(config.n) ** 2, "noise": rng.random(config.n), "word": ["<b>ü"] * config.n}
    )


@cells.experiment("testing.broken")
def broken(config):
    return pd.DataFrame({"fine": [1, 2], "value": [0.5, (np.nan, np.inf, -np.inf)[config.n]]})


@cells.experiment("testing.reader")
def reader(config):
    """Finds the model of seed 0 busy until it is stored, as when another process trains it."""
    if config.seed and cells.missing([reader.cell(dataclasses.replace(config, seed=0))]):
        raise BusyRunError("being written")
    return pd.DataFrame({"value": [float(config.seed)]})


@cells.experiment("testing.counting")
def counting(config):
    """Counts to n, a state a step, and stops where it is told."""
    with cells.training_run(counting.cell(config), {"digits": "0123"}) as (run, slices):
        step, tensors = run.load_state() or (0, {"sum": torch.zeros(1)})
        while step < config.n:
            step += 1
            tensors = {"sum": tensors["sum"] + step}
            run.save_state(step, tensors)
            if os.environ.get("STOP_AT") == str(step):
                raise KeyboardInterrupt
    table = pd.DataFrame({"sum": tensors["sum"].numpy()})
    table.attrs |= {"data": {"digits": "0123"}, "slices": slices}
    return table


pytestmark = pytest.mark.usefixtures("results")


def test_a_stored_table_reads_back_equal_with_its_provenance():
    cell = squares.cell(Squares(4))
    cells.compute(cell)
    table, provenance = cells.read(cell)
    pd.testing.assert_frame_equal(table, squares.function(Squares(4)))
    assert provenance["config"] == {"n": 4, "seed": 0, "names": ["a"]}
    promised = {"packages", "device", "wall_seconds", "peak_memory_bytes", "date", "code"}
    assert promised <= set(provenance)
    loaded = cells.load([cell])  # the configuration before the results
    assert list(loaded.columns) == ["n", "seed", "names", "square", "noise", "word"]
    assert loaded["n"].tolist() == [4] * 4


def test_the_key_changes_with_the_configuration_and_the_version_and_nothing_else():
    key = squares.cell(Squares(4)).key
    assert key == squares.cell(Squares(4)).key
    assert key != squares.cell(Squares(5)).key
    assert key != dataclasses.replace(squares, version=3).cell(Squares(4)).key


def test_a_result_read_twice_is_verified_once_and_nobody_writes_into_it():
    cell = squares.cell(Squares(4))
    cells.compute(cell)
    first, _ = cells.read(cell)
    first.iloc[0, 0] = -1
    first["more"] = 1
    again, _ = cells.read(cell)
    pd.testing.assert_frame_equal(again, squares.function(Squares(4)))


def test_a_sweep_computes_only_what_is_missing():
    sweep = [squares.cell(Squares(n)) for n in (1, 2, 3)]
    cells.compute(sweep[1])
    before = sweep[1].path.stat().st_mtime_ns
    written = cells.run([*sweep, sweep[0]], n_jobs=2, progress=False)
    assert sorted(written) == sorted([sweep[0].path, sweep[2].path])
    assert sweep[1].path.stat().st_mtime_ns == before
    assert cells.run(sweep, progress=False) == []


def test_any_number_of_workers_gives_the_same_table():
    sweep = [squares.cell(Squares(3, seed)) for seed in range(4)]
    cells.run(sweep, n_jobs=1, progress=False)
    one = cells.load(sweep)
    for cell in sweep:
        cell.path.unlink()
    cells.run(sweep, n_jobs=3, progress=False)
    pd.testing.assert_frame_equal(cells.load(sweep), one)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["NaN", "infinity", "minus infinity"])
def test_neither_nan_nor_an_infinity_is_ever_stored(which):
    cell = broken.cell(Squares(which))
    with pytest.raises(ValueError, match="gave NaN or infinity"):
        cells.compute(cell)
    assert not cell.stored()


def cut_to(length):
    def harm(path, other):
        path.write_bytes(path.read_bytes()[:length])

    return harm


def of_another_cell(path, other):
    other.rename(path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut_to(0), "cut short or altered"),
        (cut_to(100), "cut short or altered"),
        (cut_to(-1), "cut short or altered"),
        (of_another_cell, "holds the result of"),
    ],
)
def test_a_damaged_result_is_refused_and_kept(harm, message):
    cell, other = squares.cell(Squares(3)), squares.cell(Squares(2))
    harm(cells.compute(cell), cells.compute(other))
    with pytest.raises(cells.DamagedResultError, match=message):
        cells.read(cell)
    assert cell.path.exists()


def test_any_single_altered_byte_of_a_table_is_refused_or_harmless():
    cell = squares.cell(Squares(30))
    path = cells.compute(cell)
    whole, (expected, _) = path.read_bytes(), cells.read(cell)
    n_pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")  # the rest describes the file
    for at in random.Random(0).sample(range(n_pages), 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        try:
            table, _ = cells.read(cell)
        except cells.DamagedResultError:
            continue
        pd.testing.assert_frame_equal(table, expected)


def _write_many_times(folder, n):
    os.environ["EMBVIZ_RESULTS_DIR"] = folder
    for _ in range(n):
        cells.compute(squares.cell(Squares(40)))


@pytest.mark.slow
def test_two_runs_writing_the_same_cell_at_once_leave_a_whole_file(results):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many_times, args=(str(results), 15)) for _ in range(2)]
    for writer in writers:
        writer.start()
    cell = squares.cell(Squares(40))
    while any(writer.is_alive() for writer in writers):
        if cell.stored():
            cells.read(cell)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert [path.name for path in cell.path.parent.iterdir()] == [cell.path.name]


SWEEP = """
import os, random, signal, time
from book.ledger import cells
from tests.book.ledger.test_cells import Squares, squares

sweep, chance, n_kills = [squares.cell(Squares(20, seed)) for seed in range(25)], random.Random(1), 0
while cells.missing(sweep):
    child = os.fork()  # libraries are imported once
    if child == 0:
        cells.run(sweep, n_jobs=1, progress=False)
        os._exit(0)
    time.sleep(chance.uniform(0, 0.3) * (1 + n_kills / 10))  # on a busy machine it must advance too
    os.kill(child, signal.SIGKILL)
    n_kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
print(n_kills)
"""


@pytest.mark.slow
def test_a_sweep_killed_at_random_moments_resumes_to_the_same_results():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SWEEP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
    for seed in range(25):
        table, _ = cells.read(squares.cell(Squares(20, seed)))
        pd.testing.assert_frame_equal(table, squares.function(Squares(20, seed)))


# --- cells that are stopped ---------------------------------------------------------------------------


def test_a_cell_that_was_stopped_goes_on_and_its_provenance_lists_the_slices(results, monkeypatch):
    cell = counting.cell(Squares(6))
    for stop in ("2", "5"):
        monkeypatch.setenv("STOP_AT", stop)
        with pytest.raises(KeyboardInterrupt):
            cells.run([cell], n_jobs=1, progress=False)
    monkeypatch.delenv("STOP_AT")
    assert cells.run([cell], n_jobs=1, progress=False) == [cell.path]
    table, provenance = cells.read(cell)
    assert table["sum"].tolist() == [21.0]
    assert len(provenance["slices"]) == 3
    assert all({"date", "device", "torch", "seconds"} == set(one) for one in provenance["slices"])
    assert cells.table_of(counting.cell(Squares(4)))["sum"].tolist() == [10.0]  # is not stored
    assert list((results / "cache" / "runs").iterdir()) == []
    monkeypatch.setenv("STOP_AT", "1")
    with pytest.raises(KeyboardInterrupt):
        cells.run([counting.cell(Squares(3))], n_jobs=1, progress=False)
    other = cells.training_run(counting.cell(Squares(3)), {"digits": "9"})
    with pytest.raises(ValueError, match="another configuration"), other:
        pass


def test_a_cell_that_another_process_is_computing_is_left_to_it(results):
    cell = counting.cell(Squares(3))
    with cells.training_run(cell, {"digits": "0123"}):
        assert cells.run([cell], n_jobs=1, progress=False) == []
        with pytest.raises(BusyRunError, match="being written"):
            cells.compute(cell)


KILLED = """
import os, signal, sys
from book.ledger import cells
from tests.book.ledger.test_cells import Squares, counting
moment = sys.argv[1]
if moment == "before":
    cells.pq.write_table = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
else:
    cells._delete_run = lambda cell: os.kill(os.getpid(), signal.SIGKILL)
cells.compute(counting.cell(Squares(6)))
"""


@pytest.mark.parametrize(("moment", "n_slices"), [("before", 2), ("after", 1)])
def test_a_kill_around_storing_loses_no_step_and_leaves_no_run(results, moment, n_slices):
    cell, runs = counting.cell(Squares(6)), results / "cache" / "runs"
    killed = subprocess.run([sys.executable, "-c", KILLED, moment])
    assert killed.returncode == -signal.SIGKILL
    assert cell.stored() == (moment == "after")
    with stored_runs.read_run(runs / cell.key) as run:
        assert run.load_state()[0] == 6  # all that was counted
    cells.run([cell], n_jobs=1, progress=False)
    table, provenance = cells.read(cell)
    assert table["sum"].tolist() == [21.0]
    assert len(provenance["slices"]) == n_slices
    assert list(runs.iterdir()) == []


def test_a_cell_that_finds_its_model_busy_is_run_once_more_and_then_left():
    alone = [reader.cell(Squares(1, seed)) for seed in (1, 2)]  # nobody trains their model
    assert cells.run(alone, n_jobs=1, progress=False) == []
    readers = [reader.cell(Squares(1, seed)) for seed in (1, 2, 0)]
    assert len(cells.run(readers, n_jobs=1, progress=False)) == 3
    assert not cells.missing(readers)


def test_where_only_what_is_stored_counts_nothing_is_computed(results):
    stored, other = squares.cell(Squares(3)), squares.cell(Squares(4, seed=977))
    cells.compute(stored)
    with cells.stored_alone():
        assert len(cells.table_of(stored))
        with pytest.raises(FileNotFoundError, match="python -m book run"):
            cells.table_of(other)
    assert len(cells.table_of(other))
