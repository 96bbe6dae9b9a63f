"""Training whose last digits are rounded away: the same run on processors that add up differently."""

import copy

import numpy as np
import torch
from torch import nn

from book.rounding import round_training
from embviz.training import AdamW, train


def small_model(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def trained(model: nn.Module, order: list[int], *, rounded: bool) -> np.ndarray:
    """Weights after 300 steps at a rate high enough for chaos; `order` is that of the sums."""
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)[order]
    y = torch.sin(5 * x.sum(1, keepdim=True))
    after_backward = round_training(model) if rounded else None
    run = train(
        model.double(),
        lambda step: ((model(x) - y) ** 2).mean(),
        AdamW(0.3, weight_decay=0.1, eps=1e-12),
        n_steps=300,
        snapshot_at=300,
        after_backward=after_backward,
    )
    last = list(run)[-1].weights
    return np.concatenate([weight.numpy().ravel() for weight in last.values()])


def test_sums_in_another_order_lead_to_the_same_weights():
    model, order = small_model(), list(range(50))
    one = trained(copy.deepcopy(model), order, rounded=True)
    other = trained(copy.deepcopy(model), order[::-1], rounded=True)
    # the update itself may round otherwise, and nothing amplifies that: some units of the last place
    np.testing.assert_allclose(one, other, atol=1e-13)
    plain = trained(copy.deepcopy(model), order, rounded=False)
    shuffled = trained(copy.deepcopy(model), order[::-1], rounded=False)
    assert np.abs(plain - shuffled).max() > 1e-10  # without rounding the sixteenth digit grows


def test_beginnings_that_differ_in_the_seventh_digit_become_equal():
    one, other = small_model(), small_model()
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1 + 1e-7)
    before = [weight.detach().clone() for weight in one.parameters()]
    for model in (one, other):
        round_training(model)
    for weight, twin, first in zip(one.parameters(), other.parameters(), before, strict=True):
        assert torch.equal(weight, twin)
        assert (weight - first).abs().max() <= first.abs().max() / 128 / 2  # half a step


def test_weights_that_are_all_zero_or_all_one_stay():
    model = nn.LayerNorm(4)
    round_training(model)
    assert model.weight.tolist() == [1.0] * 4
    assert model.bias.tolist() == [0.0] * 4
