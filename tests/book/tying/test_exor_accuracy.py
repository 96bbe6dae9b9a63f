"""The chapter on what tying costs: scores, stored models, strings, readings."""

import dataclasses
import itertools

import pytest

from book.tying import exor as chapter
from book.tying import exor_accuracy
from book.tying.experiments import exor, exor_runs
from book.tying.languages.exor import EXor
from embviz.ledger import cells
from tests.book.tying.short_runs import N_STEPS, stored_briefly

CACHED = (chapter.curves, exor_accuracy.stored_model)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    longer = [exor.cell_of(exor.MAIN, "quick")]
    with stored_briefly(tmp_path_factory.mktemp("results"), longer, CACHED):
        yield


def test_scores_are_means_over_the_last_tenth_of_training():
    table, scores = chapter.curves(), exor_accuracy.scores()
    assert scores.columns.tolist() == ["untied", "tied"]
    for seed, tied in itertools.product((0, 1), (False, True)):
        own = table[(table["seed"] == seed) & (table["tied"] == tied) & (table["step"] >= 9)]
        assert scores.loc[seed, chapter.TYINGS[tied]] == pytest.approx(own["accuracy"].mean())


def test_a_stored_model_answers_as_the_model_that_was_measured():
    table, _ = cells.read(exor.cell_of(exor.MAIN, "quick"))
    gauge = exor_runs.prepare(dataclasses.replace(exor.MAIN, n_seeds=1)).gauge
    for seed, tied in itertools.product((0, 1), (False, True)):
        guess = exor_accuracy.stored_model(seed, tied)(gauge.sample.numpy()).argmax(1)
        share = (guess == gauge.answers.numpy()).mean()
        rows = table[(table["seed"] == seed) & (table["tied"] == tied) & (table["step"] == N_STEPS)]
        stored = rows.loc[rows["quantity"] == "sampled_accuracy", "value"].item()
        assert share == pytest.approx(stored, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"), [("1A 0C ?", "'0C' is no symbol"), ("1A ? E", "tokens must be")]
)
def test_strings_that_are_none_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        exor_accuracy.read_string(text)


def test_readings_hold_what_is_stored_and_nothing_else():
    table = exor_accuracy.readings("quick")
    assert set(table["reading"]) == {"program"}  # the others are not stored
    means = table.groupby("quantity")["value"].mean()
    strings = EXor().strings()[:-1]
    gap = EXor().optimal_accuracy(strings) - exor_accuracy.scores()["tied"].mean()
    assert means["accuracy gap, tied"] == pytest.approx(gap)
    ends = chapter.distances(chapter.last(chapter.curves()))
    rows = ends[(ends["matrix"] == "tied") & (ends["pair"] == chapter.PAIRS["00"])]
    assert means["0A and 0B, tied"] == pytest.approx(rows["relative_distance"].mean())
    assert len(means) == 8


def test_the_reading_with_all_strings_is_held_against_their_best_accuracy(monkeypatch):
    cell = exor_accuracy.reading_cell("program", "quick")
    monkeypatch.setattr(exor_accuracy, "reading_cell", lambda reading, preset: cell)
    table = exor_accuracy.readings("quick")
    own = table[table["quantity"] == "accuracy gap, tied"].groupby("reading")["value"].mean()
    assert list(own.index) == sorted(exor_runs.READINGS)
    without_ones = EXor().optimal_accuracy(EXor().strings()[:-1])
    assert own["program"] - own["128 strings"] == pytest.approx(without_ones - EXor().optimal_accuracy())
