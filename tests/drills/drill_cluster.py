"""Sweeps on a dask cluster of two processes that share no folder with the caller, one of them killed."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from book.ledger import cells
from tests.book.ledger.tiny_sweeps import Tiny, failing, tiny, two_threads

distributed = pytest.importorskip("distributed", reason="dask is an extra")
pytestmark = pytest.mark.filterwarnings("ignore")  # dask's own


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def cluster(tmp_path):
    """Two worker processes with results and caches of their own."""
    names = {"EMBVIZ_RESULTS_DIR": str(tmp_path / "away"), "EMBVIZ_CACHE_DIR": str(tmp_path / "cache")}
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, env=names)
    with made as cluster:
        yield cluster


def test_a_sweep_on_a_cluster_gives_the_bits_of_one_at_home(cluster, monkeypatch, tmp_path):
    wanted = [tiny.cell(Tiny(seed)) for seed in range(6)] + [
        two_threads.cell(Tiny(seed)) for seed in range(3)
    ]
    with cells.connected(cluster.scheduler_address):
        written = cells.run(wanted, progress=False)
    assert sorted(written) == sorted(cell.path for cell in wanted)
    tables = [cells.table_of(cell) for cell in wanted]
    assert os.getpid() not in {table["process"][0] for table in tables}
    assert not (tmp_path / "away").exists()
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "home"))
    cells.run(wanted, n_jobs=1, progress=False)
    for cell, away in zip(wanted, tables, strict=True):
        assert cells.table_of(cell)["value"].tolist() == away["value"].tolist()


def test_what_fails_away_is_named_and_the_rest_is_stored(cluster):
    wanted = [failing.cell(Tiny(seed)) for seed in range(5)]
    with (
        cells.connected(cluster.scheduler_address),
        pytest.raises(cells.FailedCellsError, match="2 cells failed, 3 were"),
    ):
        cells.run(wanted, progress=False)
    assert [cell.stored() for cell in wanted] == [True, False, True, False, True]


def test_a_killed_worker_costs_nothing_but_its_cell_begun_again(cluster, results):
    wanted = [tiny.cell(Tiny(seed, seconds=0.5)) for seed in range(12)]
    victim = next(iter(cluster.workers.values())).pid

    def kill_once_work_has_begun():
        while not list(results.rglob("*.parquet")):
            time.sleep(0.05)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_once_work_has_begun)
    killer.start()
    with cells.connected(cluster.scheduler_address):
        cells.run(wanted, progress=False)
    killer.join()
    assert all(cell.stored() for cell in wanted)
    assert np.unique([cells.table_of(cell)["process"][0] for cell in wanted]).size >= 2
