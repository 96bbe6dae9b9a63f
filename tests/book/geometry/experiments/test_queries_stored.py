"""Stored runs as the chapter on attention without queries shows them: pairs and savings."""

import pandas as pd
import pytest
import torch

from book.geometry.experiments import queries, steering
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.models.transformer import Transformer, n_parameters

LIMIT = steering.LIMITS["quick"]
# epochs to 99%, to 95%, to memorize by seed; None where it never happens
MADE = {
    "with queries": [(9, 8, 4), (None, 10, 5)],
    "without queries": [(6, 5, 4), (7, 7, 6)],
    "without keys": [(8, 8, 4)],
    "near-Nyquist": [(4, 3, 2), (5, 4, 2)],
    "near-Nyquist, without queries": [(2, 2, 1), (4, 4, 1)],
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Made-up runs of the quick size, stored as if they were the paper's; of some kinds only."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setattr(steering, "SHOWN", "quick")
    for name, times in MADE.items():
        for cell, events in zip(steering.cells_of(queries.RUNS[name], "quick"), times, strict=False):
            store(cell, *events)


def store(cell: Cell, strict: int | None, grok: int | None, memorize: int | None) -> None:
    rows = []
    for epoch in range(LIMIT + 1):
        there = [event is not None and epoch >= event for event in (strict, grok, memorize)]
        validated = 1.0 if there[0] else 0.96 if there[1] else 0.3
        rows += [
            (cell.config.first_seed, epoch, "validation_accuracy", validated),
            (cell.config.first_seed, epoch, "train_accuracy", 1.0 if there[2] else 0.5),
        ]
    table = pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])
    made = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    cells.compute(Cell(made, cell.config))


def test_only_stored_runs_are_found(results):
    found = {name: len(own) for name, own in queries.stored(queries.RUNS).items()}
    assert found == {name: len(times) for name, times in MADE.items()}


def test_the_cells_are_those_of_the_claims():
    wanted = {
        cell.key
        for cell in (
            *queries.STUDIES["geometry.noq_grokking"].cells("paper"),
            *queries.STUDIES["geometry.open_combination"].cells("paper"),
        )
    }
    assert {cell.key for own in queries.stored(queries.RUNS).values() for cell in own} == wanted


def test_variants_are_shown_beside_the_runs_of_the_claim(results):
    name = "without queries, scores halved"
    store(steering.cells_of(queries.NAMED_VARIANTS[name], "quick")[0], 3, 3, 2)
    assert {key: len(own) for key, own in queries.stored(queries.NAMED_VARIANTS).items()} == {name: 1}
    assert queries.stored_times([name])["saved"].tolist() == [pytest.approx(100 * (1 - 3 / 9))]
    wanted = {cell.key for cells in queries.variant_cells("paper").values() for cell in cells}
    run_cells = {c.key for run in queries.NAMED_VARIANTS.values() for c in steering.cells_of(run, "paper", 3)}
    assert run_cells == wanted


def test_pairs_are_of_one_seed_and_say_whether_the_run_without_queries_got_there(results):
    strict = queries.pairs(0.99)
    assert strict[list(queries.PAIR)].to_numpy().tolist() == [[9, 6], [LIMIT, 7]]
    assert strict["reached"].tolist() == [True, True]
    assert queries.pairs(0.95)["with queries"].tolist() == [8, 10]
    assert queries.pairs(0.99, "memorize")[list(queries.PAIR)].to_numpy().tolist() == [[4, 4], [5, 6]]


def test_a_seed_that_one_run_of_a_pair_lacks_is_left_out(results, monkeypatch):
    monkeypatch.setattr(queries, "PAIR", ("with queries", "without keys"))
    monkeypatch.setattr(queries, "WITHOUT", "without keys")
    assert queries.pairs(0.99)["seed"].tolist() == [0]


def test_savings_are_on_the_run_with_queries_of_the_same_seed(results):
    table = queries.stored_times(["without queries", "without keys"]).set_index(["run", "seed"])
    assert table.loc[("without queries", 0), "saved"] == pytest.approx(100 * (1 - 6 / 9))
    assert table.loc[("without queries", 1), "saved"] == pytest.approx(100 * (1 - 7 / LIMIT))
    assert table.loc[("without keys", 0), "saved"] == pytest.approx(100 * (1 - 8 / 9))
    assert set(table.index.get_level_values("run")) == {"without queries", "without keys"}


def test_a_missing_query_projection_is_a_square_matrix_less_in_each_layer():
    learned = {
        name: n_parameters(Transformer(queries.RUNS[name].shape, seed=0)) for name in queries.ATTENTIONS
    }
    for name in ("without queries", "without keys", "frozen queries"):
        assert learned["with queries"] - learned[name] == 2 * 128**2
    assert learned["queries start as identity"] == learned["with queries"]


def test_both_runs_of_a_pair_start_from_the_same_weights_but_for_the_projection_that_is_gone():
    whole = dict(Transformer(queries.RUNS["with queries"].shape, seed=3).named_parameters())
    for name in ("without queries", "without keys"):
        weights = dict(Transformer(queries.RUNS[name].shape, seed=3).named_parameters())
        gone = {key.split(".")[-2] for key in whole.keys() - weights.keys()}
        assert gone == {"query" if name == "without queries" else "key"}
        assert all(torch.equal(weight, whole[key]) for key, weight in weights.items())
