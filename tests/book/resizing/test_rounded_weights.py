"""Weights rounded to integers: slow loops, closed forms, symmetries, and what a model keeps."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from book.resizing import rounded_weights
from book.transformer import Transformer, TransformerConfig

BITS = (2, 3, 8)


def made(shape=(40, 30), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def tiny(**changed) -> Transformer:
    shape = {"n_symbols": 11, "length": 6, "embedding_dim": 8, "n_heads": 2, "mlp_dim": 16, "tied": True}
    return Transformer(TransformerConfig(**{**shape, **changed}), seed=0)


# --- definitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("per", ["tensor", "channel"])
def test_every_value_becomes_the_nearest_level_of_its_own_grid(bits, per):
    x = made((7, 9))
    found = rounded_weights.round_to_grid(x, bits, per)
    largest_code = 2 ** (bits - 1) - 1
    for i, row in enumerate(x):
        step = max(abs(v) for v in (row if per == "channel" else x.ravel())) / largest_code
        levels = [code * step for code in range(-largest_code, largest_code + 1)]
        for j, value in enumerate(row):
            nearest = min(levels, key=lambda level: abs(level - value))
            assert found.values[i, j] == pytest.approx(nearest, abs=1e-12)


def test_the_error_is_the_sum_of_squares_over_the_sum_of_squares():
    x = made((5, 6))
    rounded = rounded_weights.round_to_grid(x, 4, "channel").values
    slow = sum((a - b) ** 2 for a, b in zip(x.ravel(), rounded.ravel(), strict=True)) / sum(x.ravel() ** 2)
    assert rounded_weights.relative_error(x, 4, "channel") == pytest.approx(slow, rel=1e-12)


# --- closed forms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", BITS)
def test_the_error_of_evenly_spread_values_is_the_closed_form(bits):
    # midpoints of a fine division of -1..1, and the ends: the mean over them is the integral to 1 / n
    x = np.concatenate([(np.arange(400_000) + 0.5) / 200_000 - 1, [-1.0, 1.0]])
    found = rounded_weights.relative_error(x, bits)
    assert found == pytest.approx(1 / (4 * rounded_weights.n_levels(bits) ** 2), rel=2e-3)


def test_with_small_steps_the_error_is_the_squared_crest_factor_over_twelve_squared_levels():
    x = made((64, 64), seed=3) * np.exp(made((64, 1), seed=4))
    for per in ("tensor", "channel"):
        crest = rounded_weights.crest_factor(x, per)
        expected = crest**2 / 12 / rounded_weights.n_levels(10) ** 2
        assert rounded_weights.relative_error(x, 10, per) == pytest.approx(expected, rel=0.05)  # 4,096 values


def test_crest_factor_and_kurtosis_have_their_known_values():
    spike = np.zeros((4, 25))
    spike[1, 3] = -2.0
    assert rounded_weights.crest_factor(spike) == pytest.approx(10.0)  # sqrt(100)
    assert rounded_weights.crest_factor(spike, "channel") == pytest.approx(5.0)  # sqrt(25)
    assert rounded_weights.crest_factor([[1.0, -1.0]]) == 1.0
    even = (np.arange(100_000) + 0.5) / 50_000 - 1
    assert rounded_weights.excess_kurtosis(even) == pytest.approx(-1.2, abs=1e-6)
    assert rounded_weights.excess_kurtosis([[1.0, -1.0], [1.0, -1.0]]) == pytest.approx(-2.0)


def test_rotated_rows_have_the_expected_kurtosis_on_average():
    rng = np.random.default_rng(0)
    rows = rng.standard_t(3, size=(50, 12)) * np.exp(rng.normal(size=(50, 1)))
    found = []
    for _ in range(400):
        q, r = np.linalg.qr(rng.normal(size=(12, 12)))
        x = rows @ (q * np.sign(np.diag(r)))
        found.append((x**4).mean() / (x**2).mean() ** 2 - 3)
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(rounded_weights.rotated_kurtosis(rows), abs=4 * error)
    assert abs(np.mean(found)) > 20 * error  # so that 0 would not pass


# --- models -----------------------------------------------------------------------------------------


def test_matrices_are_rounded_and_gains_biases_and_the_original_are_left_alone():
    model = tiny(biases=True)
    with torch.no_grad():
        for array in model.parameters():
            array.add_(0.01)
    before = copy.deepcopy(model.state_dict())
    rounded = rounded_weights.quantize(model, 4, "channel").state_dict()
    for name, array in model.state_dict().items():
        assert torch.equal(array, before[name])
        if array.dim() == 1:
            assert torch.equal(rounded[name], array)
        else:
            wanted = rounded_weights.round_to_grid(array.double().numpy(), 4, "channel").values
            np.testing.assert_allclose(rounded[name], wanted, atol=1e-7)  # float32
            assert all(len(row.unique()) <= 15 for row in rounded[name])


def test_tied_weights_stay_tied_and_are_rounded_once():
    layers = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    layers[1].weight = layers[0].weight
    rounded = rounded_weights.quantize(layers, 3)
    assert rounded[1].weight is rounded[0].weight
    assert list(rounded_weights.matrices(layers)) == ["0.weight"]


def test_many_bits_leave_the_logits_and_few_change_them():
    model, tokens = tiny(), torch.arange(6)[None]
    exact = model(tokens)
    # 24 bits of the largest weight: float32's own rounding
    torch.testing.assert_close(rounded_weights.quantize(model, 24)(tokens), exact, atol=1e-5, rtol=1e-5)
    assert (rounded_weights.quantize(model, 2)(tokens) - exact).abs().max() > 0.05


def test_the_tables_name_every_matrix_and_agree_with_the_array_functions():
    model = tiny()
    table, errors = rounded_weights.weight_table(model), rounded_weights.error_table(model, 4, "channel")
    assert list(table["name"]) == list(errors["name"]) == list(rounded_weights.matrices(model))
    own = model.embedding.detach().double().numpy()
    row = table[table["name"] == "embedding"].iloc[0]
    assert row["excess_kurtosis"] == pytest.approx(rounded_weights.excess_kurtosis(own))
    assert row["crest_channel"] == pytest.approx(rounded_weights.crest_factor(own, "channel"))
    error = errors.loc[errors["name"] == "embedding", "relative_error"].item()
    assert error == pytest.approx(rounded_weights.relative_error(own, 4, "channel"))


# --- refusals ---------------------------------------------------------------------------------------


def test_models_that_cannot_be_rounded_are_refused_by_name():
    class Conv1D(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

    with pytest.raises(ValueError, match="0 is a Conv1D"):
        rounded_weights.quantize(nn.Sequential(Conv1D()), 4)
    with pytest.raises(ValueError, match="LayerNorm has no parameter"):
        rounded_weights.quantize(nn.LayerNorm(3), 4)
    model = tiny()
    with torch.no_grad():
        model.blocks[1].up.weight[0, 0] = math.inf
    with pytest.raises(ValueError, match=r"blocks\.1\.up\.weight: values has 1 NaN"):
        rounded_weights.quantize(model, 4)
