"""Rotated and rounded: the function is kept by a rotation, everything by the null, and figures by hand."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import rounded_weights
from book.resizing.experiments import bases, quantized
from embviz.models import resizing
from embviz.models.decoder import Decoder, DecoderConfig

BASE = dataclasses.replace(bases.base("quick"), training=bases.training(4, 4, 32, 1e-2), n_scores=1)


def of(treatment: str, seed: int = 0) -> quantized.QuantizedRun:
    return quantized.QuantizedRun(BASE, treatment, seed)


@pytest.fixture(scope="module")
def tables():
    return {how: quantized.quantized.function(of(how)) for how in quantized.TREATMENTS}


def value(table: pd.DataFrame, **chosen) -> np.ndarray:
    for column, wanted in chosen.items():
        table = table[table[column] == wanted]
    return table["value"].to_numpy()


def test_before_rounding_all_treatments_compute_the_same(tables):
    losses = [value(table, quantity="log_perplexity", bits=0).item() for table in tables.values()]
    # float32 arithmetic in another basis
    assert losses == pytest.approx([bases.load(BASE).log_perplexity] * 3, abs=1e-5)


def test_a_signed_permutation_changes_no_rounding_and_a_rotation_changes_all(tables):
    plain, null, rotated = (
        value(tables[how], quantity="relative_error") for how in ("none", "permutation", "rotation")
    )
    np.testing.assert_allclose(null, plain, rtol=1e-6)
    assert (np.abs(rotated / plain - 1) > 1e-3).mean() > 0.9


def test_a_rotation_leaves_about_the_kurtosis_that_lengths_of_rows_ask_for():
    table = quantized.quantized.function(of("rotation", 1))
    expected = value(table, quantity="expected_kurtosis")
    found = value(table, quantity="excess_kurtosis")
    # of 2,048 to 8,192 entries a matrix: standard errors of 0.05 to 0.2, more where rows differ in length
    np.testing.assert_allclose(found, expected, atol=0.8)
    assert abs((found - expected).mean()) < 0.2


def test_kurtosis_that_is_expected_does_not_depend_on_the_basis(tables):
    for quantity in ("expected_kurtosis", "hidden_expected"):
        plain, rotated = (value(tables[how], quantity=quantity) for how in ("none", "rotation"))
        np.testing.assert_allclose(rotated, plain, rtol=1e-3)  # float32 weights


def test_the_residual_axis_is_last_whatever_the_sizes():
    model = resizing.fold(Decoder(DecoderConfig(8, 8, 8, 1, 2, mlp_dim=8), seed=0))
    found = quantized.along_stream(model)
    np.testing.assert_array_equal(
        found["blocks.0.down.weight"].T, model.blocks[0].down.weight.detach().numpy()
    )
    np.testing.assert_array_equal(found["blocks.0.up.weight"], model.blocks[0].up.weight.detach().numpy())
    assert set(found) == set(rounded_weights.matrices(model))


def test_more_bits_cost_less_and_eight_cost_almost_nothing(tables):
    for per in ("tensor", "channel"):
        errors = [
            value(tables["none"], quantity="relative_error", bits=bits, per=per).mean()
            for bits in quantized.BITS
        ]
        assert errors == sorted(errors, reverse=True)
    exact = value(tables["none"], quantity="log_perplexity", bits=0).item()
    assert value(tables["none"], quantity="log_perplexity", bits=8, per="channel") == pytest.approx(
        exact, abs=0.01
    )


def test_concentration_is_the_largest_coordinates_share_in_units_of_an_even_one(tables):
    base = bases.load(BASE)
    states = quantized.hidden_states(quantized.treated(quantized.folded(BASE), "none", 0), base)
    energy = [
        max(sum(x * x for x in column) for column in layer.T) / (layer**2).sum() * layer.shape[1]
        for layer in states
    ]
    assert value(tables["none"], quantity="hidden_concentration") == pytest.approx(energy, rel=1e-6)


def test_folding_gives_a_model_that_belongs_to_no_basis():
    folded, tokens = quantized.folded(BASE), torch.arange(32)[None]
    rotated = quantized.treated(folded, "rotation", 3)
    error = resizing.logit_error(rotated(tokens), folded(tokens))
    assert error < 1e-5
