"""The chapter on attention without queries: pairs, restricted means, sentences, charts of what is stored."""

import statistics

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry import no_query as chapter
from book.geometry.experiments import queries, steering
from embviz.ledger import cells
from embviz.ledger.cells import Cell, Experiment
from embviz.models.transformer import Transformer
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled

LIMIT = steering.LIMITS["quick"]
# epochs to 99%, to 95%, to memorize by seed; None where it never happens
MADE = {
    "with queries": [(9, 8, 4), (None, 10, 5)],
    "without queries": [(6, 5, 4), (7, 7, 6)],
    "without keys": [(8, 8, 4)],
    "near-Nyquist": [(4, 3, 2), (5, 4, 2)],
    "near-Nyquist, without queries": [(2, 2, 1), (4, 4, 1)],
}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """Made-up runs, stored where the quick ones belong; of some kinds only."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    clear()
    for name, times in MADE.items():
        for cell, events in zip(chapter.cells_of(name, "quick"), times, strict=False):
            store(cell, *events)
    yield
    clear()


def clear() -> None:
    chapter._pair_times.cache_clear()
    chapter.steered._table.cache_clear()


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


def test_only_stored_runs_are_found_and_each_is_counted():
    assert {name: len(own) for name, own in chapter.found(chapter.RUNS).items()} == {
        name: len(times) for name, times in MADE.items()
    }
    assert chapter.seeds_note(["with queries", "frozen queries"]).startswith(
        "Seeds: with queries 2, frozen queries 0; batches of 64 pairs, at most 12 epochs"
    )
    assert chapter.others() == [name for name in MADE if name != "with queries"]
    with pytest.raises(ValueError, match="no run 'Q': choose one of with queries"):
        chapter.cells_of("Q", "quick")


def test_the_cells_are_those_of_the_claims():
    wanted = {cell.key for cell in (*queries._query_cells("paper"), *queries._both_cells("paper"))}
    assert {cell.key for name in chapter.RUNS for cell in chapter.cells_of(name, "paper")} == wanted


def test_pairs_are_of_one_seed_and_leave_out_seeds_that_one_run_lacks():
    table = chapter.pairs()
    assert table[["grok_with", "grok_without"]].to_numpy().tolist() == [[9, 6], [LIMIT, 7]]
    assert table["grokked_with"].tolist() == [True, False]
    assert chapter.pairs(0.95)["grok_with"].tolist() == [8, 10]
    assert chapter.pairs(names=("with queries", "without keys")).index.tolist() == [0]


def test_the_table_has_the_means_up_to_the_limit_and_counts_runs_that_never_grok():
    table = chapter.table_8()
    assert table.loc["with queries", "mean up to the limit"] == f"{(9 + LIMIT) / 2:.0f}"
    assert table.loc["with queries", "never"] == 1
    assert table.loc["with queries", "to grok, paper"] == 782
    slow = statistics.mean([100 * (1 - 6 / 9), 100 * (1 - 7 / LIMIT)])
    assert table.loc["without queries", "speed-up %"] == f"{slow:.1f}"
    assert table.loc["frozen queries", ["to grok", "mean up to the limit"]].tolist() == ["not measured"] * 2


def test_sentences_say_what_slow_loops_give():
    assert chapter.pair_finding().startswith(
        "Without queries runs grok sooner in 2 of 2 pairs; mean difference -4 epochs"
    )
    ratio = statistics.mean([4 / 4, 6 / 5])
    assert f"without queries over with: {ratio:.2f} on average" in chapter.memorization_finding()
    assert chapter.control_finding(["with queries", "without keys"]) == (
        "Median epochs to grok: without keys 8, with queries 10"  # of 9 and 12, to even
    )
    share = statistics.mean([2 / min(3, 5), 4 / min(4, 7)])
    assert chapter.both_finding(0.95).startswith(f"Both together need {share:.2f} of the epochs")
    first, second = (chapter.times([name]) for name in chapter.PAIR)
    assert f"p = {queries.logrank_p(first, second):.2g}, 2 and 2 seeds" in chapter.logrank_finding()


def test_a_chapter_without_its_runs_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "none"))
    store(chapter.cells_of("with queries", "quick")[0], 9, 8, 4)
    for said in (
        chapter.pair_finding(),
        chapter.memorization_finding(),
        chapter.logrank_finding(),
        chapter.both_finding(),
        chapter.control_finding(["without keys"]),
    ):
        assert "not measured" in said
    assert chapter.others() == ["with queries"]
    assert set(chapter.accuracies()["run"]) == {"with queries"}
    assert chapter.given_up(LIMIT, 0.99)["run"].unique().tolist() == ["with queries"]
    compiled(chapter.plot_runs(chapter.TOGETHER))


def test_the_restricted_mean_is_the_area_under_the_curve():
    for limit in (5, 8, LIMIT):
        table = chapter.given_up(limit, 0.99)
        for _, curve in table.groupby("run"):
            ends = [*curve["epoch"].iloc[1:], limit]
            widths = np.diff([*curve["epoch"], limit])
            assert max(ends) == limit
            assert curve["mean"].iloc[0] == pytest.approx(float(widths @ curve["waiting"]))


def test_a_run_that_grokked_after_the_limit_is_censored_at_it():
    table = chapter.cut(chapter.times(["with queries"]), 8)
    assert table[["grok", "grokked"]].to_numpy().tolist() == [[8, False], [8, False]]
    untouched = chapter.times(["with queries"])
    pd.testing.assert_frame_equal(chapter.cut(untouched, LIMIT), untouched, check_dtype=False)


def test_a_missing_query_projection_is_a_square_matrix_less_in_each_layer():
    learned = chapter.parameter_table()["parameters that learn"].str.replace(",", "").astype(int)
    whole = learned["with queries"]
    for name in ("without queries", "without keys", "frozen queries"):
        assert whole - learned[name] == 2 * 128**2
    assert learned["queries start as identity"] == whole


def test_both_runs_of_a_pair_start_from_the_same_weights_but_for_the_projection_that_is_gone():
    whole = dict(Transformer(chapter.RUNS["with queries"].shape, seed=3).named_parameters())
    for name in ("without queries", "without keys"):
        weights = dict(Transformer(chapter.RUNS[name].shape, seed=3).named_parameters())
        gone = {key.split(".")[-2] for key in whole.keys() - weights.keys()}
        assert gone == {"query" if name == "without queries" else "key"}
        assert all(torch.equal(weight, whole[key]) for key, weight in weights.items())


def test_all_charts_and_explorers_compile():
    compiled(chapter.plot_runs(chapter.ATTENTIONS))
    compiled(chapter.plot_runs(chapter.TOGETHER, 0.95))
    grids = {
        chapter.plot_accuracies: (
            {"other": Choice(chapter.others(), "o"), "which": Choice(["validation", "training"], "w")},
            chapter.accuracies(),
        ),
        chapter.plot_pairs: (
            {
                "moment": Choice(["grok", "memorize"], "e"),
                "threshold": Choice(list(chapter.THRESHOLDS), "t"),
            },
            chapter.pair_grid(),
        ),
    }
    for draw, (controls, grid) in grids.items():
        compiled(Explorer(None, controls, draw, title="t", caption="c", grid=grid))
    controls = {"limit": Range(4, 12, 4, "l"), "threshold": Choice(list(chapter.THRESHOLDS), "t")}
    compiled(Explorer(chapter.given_up, controls, chapter.plot_given_up, title="t", caption="c"))


def test_the_drawn_pairs_hold_every_time_and_mark_the_censored():
    grid = chapter.pair_grid()
    own = grid[(grid["threshold"] == 0.99) & (grid["moment"] == "grok") & (grid["run"] == "with queries")]
    assert own[["epochs", "reached"]].to_numpy().tolist() == [[9, True], [LIMIT, False]]
    assert set(grid["moment"]) == {"grok", "memorize"}
