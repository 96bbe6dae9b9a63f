"""Ten thousand cells in one folder, on this disk and on one that takes 5 ms for each file it is asked for."""

import os
import shutil
import sys
import time

import pytest

from book.ledger import cells
from tests.book.ledger.conftest import results
from tests.book.ledger.test_cells import Squares, squares

__all__ = ["results"]

N_CELLS = 10_000


@pytest.fixture
def many(results):
    """Cells of one experiment, all stored but one; the files are copies of one."""
    sweep = [squares.cell(Squares(n)) for n in range(N_CELLS)]
    cells.compute(sweep[0])
    for cell in sweep[1:-1]:
        shutil.copyfile(sweep[0].path, cell.path)
    return sweep


def seconds(job, *arguments):
    start = time.perf_counter()
    found = job(*arguments)
    return time.perf_counter() - start, found


def test_missing_and_storing_take_no_longer_than_a_look_at_each_file(many, record_property):
    look, _ = seconds(lambda: [os.path.exists(cell.path) for cell in many])
    took, missing = seconds(cells.missing, many)
    assert missing == [many[-1]]
    one, _ = seconds(cells.run, [many[-1]])
    print(f"\n{N_CELLS:,} cells: missing {took:.2f} s, one more {one:.2f} s")
    assert took < 10 * look + 1
    assert one < 20


@pytest.fixture
def slow(monkeypatch):
    """Results lie on a disk that takes 5 ms for each question; gives the list of what it was asked."""
    asked, true_stat = [], os.stat

    def answer(path):
        if on and isinstance(path, str | os.PathLike) and str(path).endswith(".parquet"):
            asked.append(str(path))
            time.sleep(0.005)

    def slow_stat(path, *arguments, **how):
        answer(path)
        return true_stat(path, *arguments, **how)

    on = [True]
    monkeypatch.setattr(os, "stat", slow_stat)
    sys.addaudithook(lambda event, arguments: answer(arguments[0]) if event == "open" else None)
    yield asked
    on.clear()  # a hook can't be taken away


def test_a_slow_disk_is_asked_once_for_each_file(many, slow):
    took, _ = seconds(cells.missing, many[:1000])
    print(f"\nmissing on a slow disk: {took:.1f} s, {len(slow):,} questions about {len(set(slow)):,} files")
    assert len(slow) == len(set(slow))
