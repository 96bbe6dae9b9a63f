"""The chapter on rounding: bins and words of a grid, costs from stored tables, planted outliers by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import quantization as chapter
from book.resizing.experiments import quantized
from embviz.models import quantization

LEVELS = {"none": 1.0, "rotation": 0.5, "permutation": 1.0}
PARTS = ("embedding", "free_head", "blocks.0.attention.out.weight", "blocks.1.up.weight")


def made(run: quantized.QuantizedRun) -> pd.DataFrame:
    """Costs of 0.1 a bit below nine, halved by a rotation; a hundredth more for each seed."""
    level = LEVELS[run.treatment]
    rows = [("log_perplexity", "", 0, "", 2.0)]
    for bits, per in itertools.product(quantized.BITS, ("tensor", "channel")):
        cost = level * (9 - bits) / 10 / (1 if per == "tensor" else 2) + run.seed / 100
        rows.append(("log_perplexity", "", bits, per, 2.0 + cost))
        for part in PARTS:
            crest = 6 * level
            rows.append(
                ("relative_error", part, bits, per, 1.1 * crest**2 / 12 / quantization.n_levels(bits) ** 2)
            )
    for part in PARTS:
        rows += [("excess_kurtosis", part, 0, "", 4 * level), ("expected_kurtosis", part, 0, "", 1.9)]
        rows += [(f"crest_{per}", part, 0, "", 6 * level) for per in ("tensor", "channel")]
    for layer in "012":
        rows += [("hidden_kurtosis", layer, 0, "", 8 * level), ("hidden_expected", layer, 0, "", 3.0)]
    return pd.DataFrame(rows, columns=["quantity", "part", "bits", "per", "value"])


@pytest.fixture
def stored(monkeypatch):
    """Made tables in place of stored ones."""
    monkeypatch.setattr(chapter, "table_of", lambda cell: made(cell.config))
    for function in (chapter.costs, chapter.kurtoses, chapter.errors):
        function.cache_clear()
    yield
    for function in (chapter.costs, chapter.kurtoses, chapter.errors):
        function.cache_clear()


def test_costs_are_losses_less_the_unrounded_one(stored):
    table = chapter.costs("quick")
    own = table[(table["basis"] == "rotated") & (table["bits"] == 4) & (table["per"] == "a scale a matrix")]
    assert own.set_index("seed")["rounding_cost"].tolist() == pytest.approx([0.25, 0.26])
    assert chapter.cost_words("quick", "none", 4, "tensor") == "whole model, 4 bits: +0.5000 nats a token"
    assert "not measured" in chapter.cost_words("quick", "none", 7, "tensor")


def test_the_table_and_the_finding_hold_means_over_seeds(stored):
    row = chapter.rescue_table("quick").loc[4]
    assert row.tolist() == ["0.5000", "0.2550", "0.2500", "0.1300"]
    assert "0.5000 as trained and 0.2550 rotated (a scale a matrix)" in chapter.costs_finding("quick")


def test_kurtoses_have_what_is_expected_beside_what_is_found(stored):
    table = chapter.kurtoses("quick")
    assert set(table["series"]) == set(chapter.POINTS)
    assert (table[table["series"] == "rotated"].groupby("name")["seed"].nunique() == 2).all()
    assert chapter.kurtosis_finding("quick") == (
        "Mean excess kurtosis: weights +4.00 as trained, +2.00 rotated, +1.90 expected; "
        "hidden states +8.00 as trained, +4.00 rotated, +3.00 expected"
    )
    assert {
        "attention out, layer 1",
        "MLP in, layer 2",
        "token embeddings",
        "embedded tokens",
        "after layer 2",
    } < set(table["name"])


def test_errors_are_held_against_crest_factors(stored):
    table = chapter.errors("quick")
    np.testing.assert_allclose(table["squared_error"] / table["predicted_error"], 1.1)
    assert chapter.errors_finding("quick") == (
        "Four bits, a scale a matrix: errors are 1.10 to 1.10 times what the crest factor predicts, and "
        "lower in 4 of 4 matrices when rotated"
    )


def test_charts_can_be_drawn(stored):
    drawn = (
        chapter.plot_costs("quick"),
        chapter.plot_kurtosis(chapter.kurtoses("quick")),
        chapter.plot_errors(chapter.errors("quick")),
        chapter.plot_planted(chapter.planted(2, 4, "tensor")),
    )
    assert all(chart.to_dict() for chart in drawn)


def test_a_matrix_is_drawn_over_its_own_levels(stored, monkeypatch):
    class Model:
        pass

    weights = np.random.default_rng(0).normal(size=(30, 20))
    monkeypatch.setattr(chapter, "model", lambda preset, treatment: Model())
    monkeypatch.setattr(
        chapter.quantization, "matrices", lambda model: {"embedding": torch.from_numpy(weights)}
    )
    for per in ("tensor", "channel"):
        table = chapter.on_the_grid("quick", "embedding", "none", per, 4)
        assert table["share_of_weights"].sum() == pytest.approx(1)
        largest = np.abs(weights).max(axis=None if per == "tensor" else 1, keepdims=True)
        slow = ((weights / largest > table["left"].iloc[-1]).sum()) / weights.size
        assert table["share_of_weights"].iloc[-1] == pytest.approx(slow)
        assert f"{quantization.relative_error(weights, 4, per):.2%}" in table["error"].iloc[0]
        assert (table["error"].iloc[1:] == "").all()
    assert f"{quantization.crest_factor(weights, 'channel'):.1f}" in table["kurtosis"].iloc[0]


def test_the_error_of_outputs_is_the_expectation_over_inputs():
    rng = np.random.default_rng(1)
    weights, spread = rng.normal(size=(6, 4)), np.array([1.0, 2.0, 0.5, 1.0])
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    inputs = turn @ np.diag(spread**2) @ turn.T
    x = rng.normal(size=(200_000, 4)) * spread @ turn.T
    rounded = quantization.round_to_grid(weights, 3).values
    slow = ((x @ (weights - rounded).T) ** 2).sum() / ((x @ weights.T) ** 2).sum()
    assert chapter.output_error(weights, inputs, 3, "tensor") == pytest.approx(
        slow, rel=0.02
    )  # 200,000 draws


def test_a_planted_coordinate_leaves_the_outputs_and_a_rotation_helps_against_it():
    (weights, inputs), (turned, rotated_inputs) = chapter._planted(8.0)
    (plain, plain_inputs), _ = chapter._planted(1.0)
    power = [
        np.trace(w @ c @ w.T) for w, c in ((weights, inputs), (turned, rotated_inputs), (plain, plain_inputs))
    ]
    assert power == pytest.approx([power[0]] * 3)
    for per in ("tensor", "channel"):
        table = chapter.planted(8, 6, per)
        found = table[table["column_factor"] == 8].set_index("series")["output_error"]
        assert found["rotated"] < found["as planted"] / 4
        alike = table[table["column_factor"] == 1].set_index("series")["output_error"]
        assert alike["rotated"] == pytest.approx(alike["as planted"], rel=0.1)


def test_a_factor_between_the_drawn_ones_is_measured_too():
    assert 3 in set(chapter.planted(3, 4, "tensor")["column_factor"])
