"""The transformer against slow loops, its counts, its shortcut to the last position, and side by side."""

import dataclasses
import itertools
import math
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from book.transformer import (
    Attending,
    Norm,
    Positions,
    StackedTransformers,
    Transformer,
    TransformerConfig,
    n_parameters,
)

SMALL = TransformerConfig(n_symbols=11, length=5, embedding_dim=12, n_layers=2, n_heads=3, mlp_dim=20)
FLOAT64 = {"rtol": 1e-10, "atol": 1e-12}  # sums of some dozen terms in another order
FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}  # the same, 9 digits fewer
CONFIGS = [
    dataclasses.replace(
        SMALL,
        attention=attention,
        norm=norm,
        positions=positions,
        tied=i % 2 == 0,
        biases=i % 3 == 0,
        activation="gelu" if i % 7 else "relu",
    )
    for i, (attention, norm, positions) in enumerate(
        itertools.product(get_args(Attending), get_args(Norm), get_args(Positions))
    )
]


EVERY_OPTION = pytest.mark.parametrize(  # each value of each option, though not with each of the others
    "config",
    CONFIGS[::5],
    ids=[f"{c.attention}-{c.norm}-{c.positions}-{c.tied}-{c.biases}" for c in CONFIGS[::5]],
)


def changed(**options) -> TransformerConfig:
    return dataclasses.replace(SMALL, **options)


def made_tokens(config: TransformerConfig, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(config.n_symbols, (*shape, config.length), generator=generator)


def livened(model: Transformer) -> Transformer:
    """With biases and norms that aren't at their start, in float64."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model.double()


# --- the definition ---------------------------------------------------------------------------------


def slow_logits(model: Transformer, tokens: list[int]) -> Tensor:
    """Logits (T, V) of one string, a position and a head at a time."""
    config, weights = model.config, model.state_dict()
    dim, width = config.embedding_dim, config.embedding_dim // config.n_heads

    def mapped(name: str, x: Tensor) -> Tensor:
        if f"{name}.weight" not in weights:
            return x
        return weights[f"{name}.weight"] @ x + weights.get(f"{name}.bias", torch.zeros(()))

    def normed(name: str, x: Tensor) -> Tensor:
        if f"{name}.weight" not in weights:
            return x
        return layer_norm(x, (dim,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    stream = [weights["embedding"][token] for token in tokens]
    if "position" in weights:
        stream = [x + weights["position"][place] for place, x in enumerate(stream)]
    act = torch.nn.functional.gelu if config.activation == "gelu" else torch.relu
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        hidden = [normed(f"{block}.before.0", x) for x in stream]
        after = []
        for here, x in enumerate(stream):
            read = torch.zeros(dim, dtype=x.dtype)
            for head in range(config.n_heads):
                part = slice(head * width, (head + 1) * width)
                query = mapped(f"{block}.attention.query", hidden[here])[part]
                query = query / 2 if config.attention in ("half_no_q", "half_standard") else query
                seen = range(here + 1)
                scores = [
                    query @ mapped(f"{block}.attention.key", hidden[s])[part] / math.sqrt(width) for s in seen
                ]
                shares = torch.stack(scores).softmax(0)
                for s in seen:
                    read[part] += shares[s] * mapped(f"{block}.attention.value", hidden[s])[part]
            x = normed(f"{block}.after.0", x + mapped(f"{block}.attention.out", read))
            up = act(mapped(f"{block}.up", normed(f"{block}.before.1", x)))
            after.append(normed(f"{block}.after.1", x + mapped(f"{block}.down", up)))
        stream = after
    head_weight = weights["embedding"] if config.tied else weights["free_head"]
    return torch.stack([head_weight @ normed("norm", x) for x in stream])


@EVERY_OPTION
def test_logits_are_those_of_slow_loops_over_positions_and_heads(config):
    model, tokens = livened(Transformer(config, seed=3)), made_tokens(config, 2)
    slow = torch.stack([slow_logits(model, string.tolist()) for string in tokens])
    torch.testing.assert_close(model(tokens), slow, **FLOAT64)


# --- counts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attention", "n_layers", "length", "published"),
    [
        ("standard", 4, 256, 3_346_944),
        ("no_q", 4, 256, 3_084_800),
        ("standard", 5, 512, 4_199_936),
        ("no_q", 5, 512, 3_872_256),
    ],
)
def test_parameter_counts_are_the_papers_to_the_unit(attention, n_layers, length, published):
    config = TransformerConfig(256, length, 256, n_layers, 4, 1024, attention)
    assert n_parameters(Transformer(config, seed=0)) == published


def test_no_k_and_a_frozen_query_train_as_many_parameters_as_no_q():
    counts = {
        attention: n_parameters(Transformer(changed(attention=attention), seed=0))
        for attention in get_args(Attending)
    }
    assert counts["no_q"] == counts["no_k"] == counts["frozen_q"]
    assert counts["standard"] == counts["identity_q"] == counts["no_q"] + 2 * 12**2


def test_a_tied_head_is_the_embedding_and_is_counted_once():
    tied = Transformer(changed(tied=True), seed=0)
    assert tied.head is tied.embedding
    assert n_parameters(Transformer(SMALL, seed=0)) - n_parameters(tied) == 11 * 12


# --- symmetries -------------------------------------------------------------------------------------


@EVERY_OPTION
def test_last_is_the_last_position_of_forward_with_its_gradients(config):
    model, tokens = livened(Transformer(config, seed=0)), made_tokens(config, 4)
    whole, short = model(tokens)[:, -1], model.last(tokens)
    torch.testing.assert_close(short, whole, **FLOAT64)
    parameters = list(model.parameters())
    for one, other in zip(
        torch.autograd.grad(short.sin().sum(), parameters, allow_unused=True),
        torch.autograd.grad(whole.sin().sum(), parameters, allow_unused=True),
        strict=True,
    ):
        assert one is not None
        torch.testing.assert_close(one, other, **FLOAT64)


def test_shorter_strings_are_the_beginnings_of_longer_ones():
    model, tokens = livened(Transformer(SMALL, seed=0)), made_tokens(SMALL, 3)
    torch.testing.assert_close(model(tokens[:, :2]), model(tokens)[:, :2], **FLOAT64)
    torch.testing.assert_close(model.last(tokens[:, :1]), model(tokens)[:, 0], **FLOAT64)


def test_identity_queries_start_as_no_queries_and_then_learn():
    with_map = Transformer(changed(attention="identity_q"), seed=2)
    without = Transformer(changed(attention="no_q"), seed=2)
    tokens = made_tokens(SMALL, 3)
    torch.testing.assert_close(with_map(tokens), without(tokens), **FLOAT32)
    with_map(tokens).sin().sum().backward()
    assert with_map.blocks[0].attention.query.weight.grad.abs().max() > 0


# --- the start --------------------------------------------------------------------------------------


def test_keys_of_low_rank_start_as_the_hidden_state_and_stay_that_near():
    config = changed(attention="no_q", key_rank=2)
    model = Transformer(config, seed=0)
    key = model.blocks[0].attention.key
    x = torch.randn(2, 3, SMALL.embedding_dim, generator=torch.Generator().manual_seed(0))
    assert torch.equal(key(x), x)
    tokens = torch.arange(SMALL.length)[None] % SMALL.n_symbols
    for _ in range(3):  # the first update leaves the narrow map alone: the wide one is zero
        model(tokens).square().mean().backward()
        with torch.no_grad():
            for parameter in key.parameters():
                parameter -= parameter.grad
    change = key(torch.eye(SMALL.embedding_dim)).detach() - torch.eye(SMALL.embedding_dim)
    singular = torch.linalg.svdvals(change)
    assert singular[1] > 1e-4 * singular[0]
    assert singular[2] < 1e-5 * singular[0]  # rounding of the identity, added and taken away


def test_a_learned_multiple_of_the_hidden_state_starts_where_it_is_told_and_is_trained():
    low = changed(attention="no_q", key_rank=2)
    model = Transformer(dataclasses.replace(low, key_multiple=-2.5), seed=0)
    key, tokens = model.blocks[0].attention.key, made_tokens(SMALL, 1)
    x = torch.randn(2, 3, SMALL.embedding_dim, generator=torch.Generator().manual_seed(0))
    assert torch.equal(key(x), -2.5 * x)
    model(tokens).square().mean().backward()
    assert key.multiple.grad != 0
    with torch.no_grad():
        key.multiple.fill_(3.0)
        key.widen.weight.normal_(generator=torch.Generator().manual_seed(1))
    expected = 3 * x + x @ key.narrow.weight.mT @ key.widen.weight.mT
    torch.testing.assert_close(key(x), expected, **FLOAT32)
    fixed, learned = Transformer(low, seed=0), Transformer(dataclasses.replace(low, key_multiple=1.0), seed=0)
    assert torch.equal(fixed(tokens), learned(tokens))  # all other weights are those of the fixed one
    assert n_parameters(learned) - n_parameters(fixed) == SMALL.n_layers


def test_models_of_one_seed_share_every_weight_that_both_have():
    states = [
        Transformer(changed(attention=attention, tied=tied, n_layers=n), seed=5).state_dict()
        for attention, tied, n in (("standard", False, 3), ("no_q", True, 2), ("frozen_q", False, 2))
    ]
    shared = set(states[1]) & set(states[0])
    assert "blocks.1.attention.key.weight" in shared
    for name in shared:
        torch.testing.assert_close(states[0][name], states[1][name], rtol=0, atol=0)
    name = "blocks.0.attention.query.weight"
    torch.testing.assert_close(states[0][name], states[2][name], rtol=0, atol=0)


def test_a_frozen_query_stays_out_of_the_parameters_and_in_the_state():
    model = Transformer(changed(attention="frozen_q"), seed=0)
    name = "blocks.0.attention.query.weight"
    assert name in model.state_dict()
    assert name not in dict(model.named_parameters())


def test_a_model_uses_and_changes_no_global_random_state():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    one = Transformer(SMALL, seed=7)
    torch.testing.assert_close(torch.random.get_rng_state(), before, rtol=0, atol=0)
    torch.manual_seed(1)
    other = Transformer(SMALL, seed=7)
    for name, array in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], array, rtol=0, atol=0)
    assert not torch.equal(one.embedding, Transformer(SMALL, seed=8).embedding)


@pytest.mark.parametrize(
    ("start", "name", "spread"),
    [
        ("pytorch", "embedding", 1.0),
        ("pytorch", "position", 1.0),
        ("pytorch", "free_head", 1 / math.sqrt(3 * 64)),  # uniform in +-1/sqrt(64)
        ("pytorch", "blocks.0.down.weight", 1 / math.sqrt(3 * 256)),
        ("scaled", "embedding", 1 / 8),
        ("scaled", "free_head", 1 / math.sqrt(500)),
        ("scaled", "blocks.0.down.weight", 1 / 8),
        ("small", "embedding", 0.02),
        ("small", "blocks.0.up.weight", 0.02),
        ("small", "blocks.0.attention.out.weight", 0.02 / 2),  # two layers add four parts to the stream
        ("small", "blocks.0.down.weight", 0.02 / 2),
    ],
)
def test_weights_start_with_the_spread_that_is_documented(start, name, spread):
    config = TransformerConfig(500, 100, 64, 2, 4, 256, start=start)
    array = Transformer(config, seed=0).state_dict()[name]
    # at least 4,096 numbers: a standard error of 1%
    np.testing.assert_allclose(array.std(), spread, rtol=0.05)
    assert abs(array.mean()) < 0.1 * spread


def test_the_embeddings_spread_can_be_chosen_and_changes_no_other_array():
    plain, chosen = (Transformer(changed(embedding_sd=sd), seed=0).state_dict() for sd in (0.0, 0.1))
    for name, array in plain.items():
        scale = 0.1 if name in ("embedding", "position") else 1.0  # "pytorch" starts those at N(0, 1)
        torch.testing.assert_close(chosen[name], scale * array, **FLOAT32)


def test_sines_turn_by_wavelengths_from_two_pi_up():
    rows = Transformer(changed(positions="sines"), seed=0).position
    assert rows.shape == (5, 12)
    for place in range(5):
        assert rows[place, 0] == pytest.approx(math.sin(place), abs=1e-6)
        assert rows[place, 1] == pytest.approx(math.cos(place), abs=1e-6)
        assert rows[place, 4] == pytest.approx(math.sin(place / 10_000 ** (4 / 12)), abs=1e-6)


# --- side by side -----------------------------------------------------------------------------------


@EVERY_OPTION
def test_members_side_by_side_give_the_numbers_and_gradients_of_separate_models(config):
    singles = [Transformer(config, seed=seed) for seed in (4, 0, 9)]
    stacked, tokens = StackedTransformers(singles), made_tokens(config, 3, 4)
    separate = torch.stack([single(own) for single, own in zip(singles, tokens, strict=True)])
    together = stacked.each(Transformer.forward, tokens)
    torch.testing.assert_close(together, separate, **FLOAT32)
    torch.testing.assert_close(stacked.each(Transformer.last, tokens), separate[:, :, -1], **FLOAT32)
    together.sin().sum().backward()
    separate.sin().sum().backward()
    gradients = {name.replace("/", "."): array.grad for name, array in stacked.arrays.items()}
    for name, _ in singles[0].named_parameters():
        own = torch.stack([dict(single.named_parameters())[name].grad for single in singles])
        torch.testing.assert_close(gradients[name], own, rtol=1e-3, atol=1e-4)  # sums of float32 sums


def test_stacked_weights_train_without_touching_the_models_they_came_from():
    single = Transformer(SMALL, seed=0)
    before = single.embedding.detach().clone()
    stacked = StackedTransformers([single, Transformer(SMALL, seed=1)])
    with torch.no_grad():
        stacked.weights["embedding"].zero_()
    torch.testing.assert_close(single.embedding.detach(), before, rtol=0, atol=0)


# --- refusals ---------------------------------------------------------------------------------------


def test_an_option_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match=r"attention is 'other': choose one of .*, "):
        changed(attention="other")
