"""Where a sweep is computed: on the reader's own backend too; failures are named. Dask: drill_cluster."""

import contextlib
import subprocess
import sys

import joblib
import pytest

from book.ledger import cells
from embviz.imports import MissingExtraError
from tests.book.ledger.tiny_sweeps import Tiny, failing, tiny, two_threads


def test_another_backend_sends_results_back_and_the_caller_stores_them(results, monkeypatch, tmp_path):
    wanted = [tiny.cell(Tiny(seed)) for seed in range(4)]
    wanted += [two_threads.cell(Tiny(seed)) for seed in range(2)]
    with joblib.parallel_config(backend="threading"):
        written = cells.run(wanted, n_jobs=2, progress=False)
    assert sorted(written) == sorted(cell.path for cell in wanted)
    away = [cells.table_of(cell)["value"].tolist() for cell in wanted]
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "home"))
    cells.run(wanted, n_jobs=1, progress=False)
    assert [cells.table_of(cell)["value"].tolist() for cell in wanted] == away


@pytest.mark.slow
def test_an_experiment_of_a_notebook_travels_by_value(results):
    code = """
import dataclasses, joblib, pandas as pd
from book.ledger import cells

@dataclasses.dataclass(frozen=True)
class Mine:
    seed: int

FACTOR = 3

@cells.experiment("mine.notebook")
def mine(config):
    return pd.DataFrame({"value": [FACTOR * config.seed]})

if __name__ == "__main__":
    wanted = [mine.cell(Mine(seed)) for seed in range(3)]
    cells.run(wanted, n_jobs=2, progress=False)
    print(cells.load(wanted)["value"].tolist())
"""
    script = results.parent / "script.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[0, 3, 6]", done.stderr


@pytest.mark.parametrize("where", ["here", "workers", "threading"])
def test_what_fails_is_named_by_its_configuration_and_the_rest_is_stored(where, results):
    wanted = [failing.cell(Tiny(seed)) for seed in range(5)]
    message = (
        r"2 cells failed, 3 were stored:\n  .*seed=1.*: ArithmeticError: 1 is odd .*\n  .*seed=3.*: Arith"
    )
    n_jobs = 1 if where == "here" else 2
    place = joblib.parallel_config(backend=where) if where == "threading" else contextlib.nullcontext()
    with place, pytest.raises(cells.FailedCellsError, match=message) as caught:
        cells.run(wanted, n_jobs=n_jobs, progress=False)
    assert [cell.stored() for cell in wanted] == [True, False, True, False, True]
    assert "tiny_sweeps.py, line " in str(caught.value)  # where it was raised


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(
            MissingExtraError, match=r'a sweep on a cluster needs distributed: pip install "embviz\[cluster'
        ),
        cells.connected("tcp://a:1"),
    ):
        pass


def test_an_experiment_needs_a_paper_and_a_name():
    with pytest.raises(ValueError, match=r"an experiment is called paper\.experiment, not"):
        cells.experiment("nodot")(lambda config: None)
