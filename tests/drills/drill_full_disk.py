"""A disk of one megabyte fills while a cell, a notebook, a run are written. Only root can mount it."""

import contextlib
import errno
import os
import subprocess

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

from book import execute
from book.ledger import cells
from embviz.runs import Run, read_run
from tests.book.ledger.test_cells import Squares


@cells.experiment("testing.noise")
def noise(config):
    return pd.DataFrame({"x": np.random.default_rng(config.seed).normal(size=20_000)})


@pytest.fixture
def disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).returncode
    ):
        pytest.skip("only root can mount a small disk: a full one was NOT tried")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(disk):
    """Leave no block free; gives the file that takes them."""
    path = disk / "filler"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)
    return path


def test_a_cell_that_finds_no_room_is_said_and_computed_when_there_is(disk, tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(disk))
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    first, *rest = (noise.cell(Squares(1, seed)) for seed in range(9))
    cells.compute(first)
    with pytest.raises(OSError, match=r"\.parquet") as refusal:
        cells.run(rest, n_jobs=1, progress=False)
    assert refusal.value.errno == errno.ENOSPC
    stored = [cell for cell in (first, *rest) if cell.stored()]
    assert 0 < len(stored) < 9
    for cell in stored:
        cells.read(cell)
    assert not [path for path in disk.rglob(".*") if path.is_file()]
    stored[0].path.unlink()  # room for another
    assert len(cells.run([cells.missing(rest)[0]], n_jobs=1, progress=False)) == 1


def test_a_notebook_keeps_its_old_content_when_there_is_no_room_for_the_new(disk):
    path = disk / "chapter.ipynb"
    cell = nbformat.v4.new_code_cell('print("x" * 30_000)')
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    before = path.read_bytes()
    filler = fill(disk)
    with pytest.raises(OSError, match="No space left"):
        execute.store(path, timeout=300)
    assert path.read_bytes() == before
    filler.unlink()
    execute.store(path, timeout=300)
    assert b"xxx" in path.read_bytes()


def test_a_run_keeps_what_it_has_and_goes_on(disk):
    model = torch.nn.Linear(100, 100)
    filler = None
    with Run.open(disk / "run") as run:
        for step in range(1, 6):
            if step == 4:
                filler = fill(disk)
                with pytest.raises(OSError, match=r"No space left on device: .*/run/"):
                    run.append(step, model)
                filler.unlink()
            run.append(step, model)
    assert filler is not None
    assert read_run(disk / "run").steps == [1, 2, 3, 4, 5]
