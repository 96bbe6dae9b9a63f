"""Growing: what the map keeps, what training does with new directions, and how savings are counted."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing.decoder import Decoder, DecoderConfig
from book.resizing.experiments import bases, growing

SMALL = dataclasses.replace(growing.narrow_base("quick"), training=bases.training(6, 4, 16, 1e-2))


def of(how: str, width: int = 32, seed: int = 0) -> growing.GrowRun:
    return growing.GrowRun(dataclasses.replace(SMALL, seed=seed), how, width, n_scores=3)


@pytest.fixture(scope="module")
def tables():
    return {how: growing.growing.function(of(how)) for how in growing.HOWS}


# --- the cell ---------------------------------------------------------------------------------------


def test_exact_maps_keep_logits_to_rounding_and_gaussian_columns_do_not(tables):
    errors = {
        how: growing.curve(tables["orthogonal"], 32, f"logit_error_{how}").iloc[0]
        for how in ("orthogonal", "zeros")
    }
    assert max(errors.values()) < 1e-12  # float64
    assert growing.curve(tables["orthogonal"], 32, "logit_error_gaussian").iloc[0] > 0.01


def test_appended_zeros_are_never_used_and_orthogonal_columns_are_left(tables):
    outside = {how: growing.curve(tables[how], 32, "outside") for how in ("orthogonal", "zeros", "fresh")}
    # no gradient reaches a coordinate that is 0 in all that writes it and all that reads it
    np.testing.assert_allclose(outside["zeros"], 0, atol=1e-6)
    # Adam's steps are by coordinate, and leave any subspace that is not spanned by coordinates
    assert outside["orthogonal"].loc[0] == pytest.approx(0, abs=1e-6)
    assert outside["orthogonal"].iloc[-1] > 1e-3
    assert outside["fresh"].loc[0] == pytest.approx(0, abs=1e-6)
    assert outside["fresh"].iloc[-1] > 1e-6


def test_the_share_outside_is_measured_against_the_basis():
    model = Decoder(DecoderConfig(256, 8, 8, 1, 2, mlp_dim=8), seed=0)
    tokens = torch.arange(8)[None]
    basis = torch.linalg.qr(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)))[0]
    states = torch.stack(model.states(tokens)).detach().flatten(0, -2)
    slow = sum(float((row - basis @ (basis.T @ row)).square().sum()) for row in states)
    assert growing.outside_share(model, tokens, basis) == pytest.approx(
        slow / float(states.square().sum()), rel=1e-4
    )
    assert growing.outside_share(model, tokens, torch.eye(8)) == pytest.approx(0, abs=1e-6)


def test_products_are_those_of_every_map():
    shape = DecoderConfig(10, 6, 8, 2, 2, head_dim=3, mlp_dim=5)
    model = Decoder(shape, seed=0)
    maps = sum(
        array.numel()
        for name, array in model.named_parameters()
        if name.startswith("blocks") and array.dim() == 2
    )
    attention = 2 * 2 * 6 * 6  # two layers, scores and sums, 6 places, 6 coordinates of heads
    assert growing.products_a_token(shape) == maps + attention + 8 * 10


def test_steps_to_a_loss_are_none_at_that_loss_and_endless_where_it_is_never_reached():
    for losses, expected in (([1.0, 2.0], 0), ([3.0, 2.0], math.inf)):
        assert growing.steps_to(pd.Series(losses, index=[0, 6]), 1.0) == expected
