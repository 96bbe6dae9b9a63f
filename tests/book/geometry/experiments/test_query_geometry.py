"""What a query projection does to the embedding: each measure beside its definition, and made-up findings."""

import numpy as np
import pytest
import torch

from book.geometry.experiments import query_geometry as geometry
from book.language import next_token_losses
from book.transformer import Transformer, TransformerConfig


def small_model(attention="standard", seed=0):
    shape = TransformerConfig(13, 6, 8, 2, 2, 12, attention, start="small")
    return Transformer(shape, seed=seed).double()


def batches(n, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(13, (3, 7), generator=draw) for _ in range(n)]


@pytest.mark.parametrize("attention", ["standard", "no_q"])
def test_without_its_part_a_gradient_is_that_of_a_model_whose_queries_are_fixed_numbers(attention):
    model, (tokens,) = small_model(attention), batches(1)
    with geometry.cut(model, "query"):
        rest = geometry.gradient(model, [tokens])
    fixed = [[] for _ in model.blocks]
    for block, kept in zip(model.blocks, fixed, strict=True):
        block.attention.query.register_forward_hook(lambda _, __, out, kept=kept: kept.append(out))
    model(tokens[:, :-1])
    numbers = [kept[0].detach() for kept in fixed]
    for block, number in zip(model.blocks, numbers, strict=True):
        block.attention.query = torch.nn.Module()
        block.attention.query.forward = lambda x, number=number: number
    expected = torch.autograd.grad(next_token_losses(model, tokens).mean(), model.embedding)[0]
    torch.testing.assert_close(rest, expected)


def test_parts_are_held_against_the_rest_and_hooks_are_removed():
    model, two = small_model(), batches(2)
    whole = geometry.gradient(model, two)
    with geometry.cut(model, "key"):
        rest = geometry.gradient(model, two)
    part = (whole - rest).flatten().numpy()
    expected = part @ rest.flatten().numpy() / np.linalg.norm(part) / rest.norm().item()
    assert geometry.gradient_parts(model, two)["through key"] == pytest.approx(expected)
    torch.testing.assert_close(geometry.gradient(model, two), whole)


def test_noise_is_variance_over_signal_without_bias():
    model, many = small_model(), batches(5)
    rows = np.array([geometry.gradient(model, [batch]).flatten().numpy() for batch in many])
    mean, variance = rows.mean(axis=0), rows.var(axis=0, ddof=1).sum()
    expected = variance / (mean @ mean - variance / 5)
    assert geometry.gradient_noise(model, many)["noise of embedding"] == pytest.approx(expected)


def test_cka_ignores_rotations_and_scales_and_a_random_order_has_almost_none():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((2000, 6)) * [5, 4, 3, 2, 1, 1])
    turned = 3 * x @ torch.linalg.qr(torch.from_numpy(rng.standard_normal((6, 6)))).Q + 7
    assert geometry.linear_cka(x, turned) == pytest.approx(1)
    assert geometry.linear_cka(x, x[torch.from_numpy(rng.permutation(2000))]) < 0.01
    centre = np.eye(40) - 1 / 40
    kernels = [centre @ (z @ z.T).numpy() @ centre for z in (x[:40], turned[:40] ** 2)]
    expected = (kernels[0] * kernels[1]).sum() / np.linalg.norm(kernels[0]) / np.linalg.norm(kernels[1])
    assert geometry.linear_cka(x[:40], turned[:40] ** 2) == pytest.approx(expected)


def test_leading_directions_overlap_fully_partly_and_not_at_all():
    eye = torch.eye(6, dtype=torch.double)
    spread = torch.cat([eye, -eye])  # centred
    x, y = (spread * torch.tensor(scale).double() for scale in ([9, 8, 7, 1, 2, 3], [1, 8, 9, 7, 2, 3]))
    assert geometry.leading_overlap(x, x, 3) == pytest.approx(1)
    assert geometry.leading_overlap(x, y, 3) == pytest.approx(2 / 3)
