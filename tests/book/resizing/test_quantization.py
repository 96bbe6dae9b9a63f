"""The stored runs that the chapter on rounding shows, by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

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


def test_kurtoses_have_what_is_expected_beside_what_is_found(stored):
    table = chapter.kurtoses("quick")
    assert set(table["series"]) == set(chapter.POINTS)
    assert (table[table["series"] == "rotated"].groupby("name")["seed"].nunique() == 2).all()
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
