"""The LSTM language model against slow loops, and the three ways of tying."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book.reflections.lstm import LSTMConfig, LSTMLanguageModel, linear_cross_entropy


def small_model(tying="plain", *, seed=0, dropout=0.0, dtype=torch.float64, **config):
    config = {"vocab_size": 11, "embedding_dim": 6, "n_layers": 2, **config}
    return LSTMLanguageModel(LSTMConfig(dropout=dropout, tying=tying, **config), seed=seed).to(dtype)


def draw_tokens(model, shape=(5, 3), seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens, targets = torch.randint(0, model.config.vocab_size, (2, *shape), generator=generator)
    return tokens, targets


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def slow_logits(model, tokens):
    """Logits (T, B, V) by loops over columns, time and layers, from the LSTM's equations."""
    weights = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    table, signs, bias = weights["embedding"], weights["signs"], weights["bias"]
    decoder = weights.get("free_decoder", table @ np.diag(signs))  # E diag(q)
    n_steps, n_columns = tokens.shape
    logits = np.empty((n_steps, n_columns, len(table)))
    for column in range(n_columns):
        hidden = np.zeros((model.config.n_layers, table.shape[1]))
        cell = np.zeros_like(hidden)
        for step in range(n_steps):
            x = table[tokens[step, column]]
            for layer in range(model.config.n_layers):
                gates = sum(
                    weights[f"lstm.weight_{kind}_l{layer}"] @ vector + weights[f"lstm.bias_{kind}_l{layer}"]
                    for kind, vector in (("ih", x), ("hh", hidden[layer]))
                )
                let_in, forget, candidate, let_out = np.split(gates, 4)
                cell[layer] = sigmoid(forget) * cell[layer] + sigmoid(let_in) * np.tanh(candidate)
                x = hidden[layer] = sigmoid(let_out) * np.tanh(cell[layer])
            logits[step, column] = decoder @ x + bias
    return logits


@pytest.mark.parametrize("tying", ["none", "plain", "signs"])
def test_logits_are_those_of_slow_loops(tying):
    model = small_model(tying)
    torch.nn.init.normal_(model.bias, generator=torch.Generator().manual_seed(1))
    tokens, _ = draw_tokens(model)
    logits, _ = model(tokens, model.initial_state(3))
    np.testing.assert_allclose(logits.detach().numpy(), slow_logits(model, tokens.numpy()), atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 70),
    vocab=st.integers(2, 30),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_the_fused_loss_and_its_gradients_are_those_of_autograd(n, vocab, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        (torch.randn(shape, generator=generator) * scale).requires_grad_()
        for shape in ((n, 4), (vocab, 4), (vocab,))
    )
    targets = torch.randint(0, vocab, (n,), generator=generator)
    plain = torch.nn.functional.cross_entropy(hidden @ weight.t() + bias, targets)
    fused = linear_cross_entropy(hidden, weight, bias, targets)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-5)  # float32
    for ours, theirs in zip(
        torch.autograd.grad(3.0 * fused, (hidden, weight, bias)),
        torch.autograd.grad(3.0 * plain, (hidden, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * scale)  # sums of up to 70 float32


def test_the_fused_loss_in_bfloat16_is_within_the_rounding_of_eight_bits():
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(200, 16, generator=generator), torch.randn(50, 16, generator=generator)
    targets, bias = torch.randint(0, 50, (200,), generator=generator), torch.zeros(50)
    exact = linear_cross_entropy(hidden, weight, bias, targets)
    rounded = linear_cross_entropy(hidden.bfloat16(), weight, bias, targets)
    assert rounded.dtype == torch.float32
    assert abs(rounded - exact) / exact < 2**-8


@pytest.mark.parametrize("tying", ["none", "plain", "signs"])
def test_the_loss_is_the_mean_cross_entropy_of_the_logits(tying):
    model = small_model(tying, dtype=torch.float32)
    tokens, targets = draw_tokens(model)
    logits, _ = model(tokens, model.initial_state(3))
    loss, _ = model.loss(tokens, targets, model.initial_state(3))
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("tying", ["plain", "signs"])
def test_the_one_table_gets_the_gradients_of_both_its_roles(tying):
    model = small_model(tying)
    tokens, targets = draw_tokens(model)

    def loss(reading, writing):
        hidden, _ = model.lstm(reading[tokens], model.initial_state(3))
        logits = hidden @ (writing @ torch.diag(model.signs)).t() + model.bias
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    reading, writing = (model.embedding.detach().clone().requires_grad_() for _ in range(2))
    by_role = torch.autograd.grad(loss(reading, writing), (reading, writing))
    assert all(gradient.abs().max() > 1e-4 for gradient in by_role)
    logits, _ = model(tokens, model.initial_state(3))
    both = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    (of_the_table,) = torch.autograd.grad(both, model.embedding)
    torch.testing.assert_close(of_the_table, by_role[0] + by_role[1], rtol=1e-10, atol=1e-12)


def test_models_of_one_seed_share_their_first_weights_whatever_the_tying():
    plain, signed, free = (small_model(tying).state_dict() for tying in ("plain", "signs", "none"))
    for name in plain.keys() - {"signs"}:
        assert torch.equal(plain[name], signed[name])
        assert torch.equal(plain[name], free[name])


def test_signs_come_from_the_seed_and_are_balanced():
    signs = torch.stack([small_model("signs", seed=seed, embedding_dim=200).signs for seed in range(20)])
    assert torch.equal(signs[0], small_model("signs", seed=0, embedding_dim=200).signs.double())
    assert set(signs.flatten().tolist()) == {-1.0, 1.0}
    assert not torch.equal(signs[0], signs[1])
    assert abs(signs.mean()) < 4 / math.sqrt(signs.numel())  # four standard errors of fair coins
