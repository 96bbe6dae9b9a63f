"""Results made on the spot: computed once, read within a block, and apart from stored ones."""

import dataclasses
import os

import pandas as pd
import pytest
import torch

from embviz.ledger.cells import Cell, experiment, read
from embviz.ledger.made_here import made_here


@dataclasses.dataclass(frozen=True)
class Number:
    n: int


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """An experiment that notes each time it is run, and no stored results."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "stored"))
    ran = []

    @experiment("test.made_here")
    def square(config: Number) -> pd.DataFrame:
        ran.append(config.n)
        return pd.DataFrame({"square": [config.n**2]})

    return square, ran


def test_cells_are_computed_once_and_read_within_the_block_alone(squares):
    square, ran = squares
    cell, threads = square.cell(Number(3)), torch.get_num_threads()
    for _ in range(2):
        with made_here([cell]):
            assert read(cell)[0]["square"].tolist() == [9]
        assert not cell.stored()
    assert ran == [3]
    assert torch.get_num_threads() == threads


def test_a_block_that_fails_leaves_results_where_they_were(squares):
    square, _ = squares
    before = os.environ["EMBVIZ_RESULTS_DIR"]
    with pytest.raises(KeyError), made_here([square.cell(Number(4))]):
        raise KeyError
    assert os.environ["EMBVIZ_RESULTS_DIR"] == before


def test_where_no_folder_was_named_none_is_afterwards(squares, monkeypatch):
    square, _ = squares
    monkeypatch.delenv("EMBVIZ_RESULTS_DIR")
    cell: Cell = square.cell(Number(5))
    with made_here([cell]):
        assert cell.stored()
    assert "EMBVIZ_RESULTS_DIR" not in os.environ
