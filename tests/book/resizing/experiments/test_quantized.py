"""Rotated and rounded: the function is kept by a rotation, everything by the null, and figures by hand."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import rounded_weights, rules
from book.resizing.decoder import Decoder, DecoderConfig
from book.resizing.experiments import bases, quantized

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


def test_a_signed_permutation_changes_no_rounding_and_a_rotation_changes_all(tables):
    plain, null, rotated = (
        value(tables[how], quantity="relative_error") for how in ("none", "permutation", "rotation")
    )
    np.testing.assert_allclose(null, plain, rtol=1e-6)
    assert (np.abs(rotated / plain - 1) > 1e-3).mean() > 0.9


def test_the_residual_axis_is_last_whatever_the_sizes():
    model = rules.fold(Decoder(DecoderConfig(8, 8, 8, 1, 2, mlp_dim=8), seed=0))
    found = quantized.along_stream(model)
    np.testing.assert_array_equal(
        found["blocks.0.down.weight"].T, model.blocks[0].down.weight.detach().numpy()
    )
    np.testing.assert_array_equal(found["blocks.0.up.weight"], model.blocks[0].up.weight.detach().numpy())
    assert set(found) == set(rounded_weights.matrices(model))


def test_folding_gives_a_model_that_belongs_to_no_basis():
    folded, tokens = quantized.folded(BASE), torch.arange(32)[None]
    rotated = quantized.treated(folded, "rotation", 3)
    error = rules.logit_error(rotated(tokens), folded(tokens))
    assert error < 1e-5
