"""MiniGPTs side by side against one slow model of PyTorch's layers, rotations in loops; dropout; refusals."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from book.kernel import minigpt
from book.kernel.minigpt import (
    Masks,
    Member,
    MiniGPTConfig,
    StackedMiniGPT,
    dropout_masks,
)

CONFIG = MiniGPTConfig(vocab_size=11, embedding_dim=16, n_layers=2, n_heads=2, length=6, dropout=0.25)
MEMBERS = [Member(3), Member(0, tied=False), Member(0), Member(5, tied=False)]  # mixed on purpose
MIXED = MEMBERS[:2]  # for what takes long
FLOAT64 = {"rtol": 1e-9, "atol": 1e-11}  # sums of some hundred terms in another order


def made_tokens(config: MiniGPTConfig, n_members: int, n_rows: int = 2, extra: int = 1) -> Tensor:
    """Tokens (R, B, T + 1), another batch for each member."""
    generator = torch.Generator().manual_seed(7)
    size = (n_members, n_rows, config.length + extra)
    return torch.randint(config.vocab_size, size, generator=generator)


def test_an_output_bias_is_added_to_the_logits_and_is_0_at_first():
    biased = minigpt.BiasedGPTConfig(**dataclasses.asdict(CONFIG))
    plain, model = StackedMiniGPT(CONFIG, MIXED), StackedMiniGPT(biased, MIXED)
    tokens = made_tokens(CONFIG, len(MIXED), extra=0)
    assert torch.equal(model(tokens), plain(tokens))
    shift = torch.arange(len(MIXED) * CONFIG.vocab_size).view(len(MIXED), 1, 1, -1) / 7
    with torch.no_grad():
        model.weights["output.bias"].copy_(shift[:, 0, 0])
    torch.testing.assert_close(model(tokens), plain(tokens) + shift)


# --- the slow model -----------------------------------------------------------------------------------


class Slow(nn.Module):
    """One member: nn.Linear, nn.LayerNorm, loops over heads and places, rotations as complex numbers."""

    def __init__(self, stack: StackedMiniGPT, index: int) -> None:
        super().__init__()
        self.config = config = stack.config
        dim = config.embedding_dim
        own = {name: array[index].detach() for name, array in stack.weights.items() if name != "free_head"}
        self.embedding = nn.Parameter(own["embedding"].clone())
        self.free = None if stack.members[index].tied else nn.Parameter(stack.head[index].detach().clone())
        self.layers = nn.ModuleDict()
        sizes = {"attention": (dim, 3 * dim), "out": (dim, dim), "up": (dim, 4 * dim), "down": (4 * dim, dim)}
        for name in {name.rpartition(".")[0] for name in own} - {""}:
            kind = name.rpartition(".")[2]
            layer = nn.LayerNorm(dim) if kind not in sizes else nn.Linear(*sizes[kind])
            layer = layer.to(own["embedding"].dtype)
            layer.load_state_dict({part: own[f"{name}.{part}"] for part in ("weight", "bias")})
            self.layers[name.replace(".", "/")] = layer

    def layer(self, name: str) -> nn.Module:
        return self.layers[name.replace(".", "/")]

    def turn(self, vector: Tensor, place: int) -> Tensor:
        """One head's vector (D / H,) turned pair by pair."""
        rates = 10_000 ** -(torch.arange(0, len(vector), 2, dtype=vector.dtype) / len(vector))
        numbers = torch.complex(vector[::2], vector[1::2]) * torch.exp(1j * place * rates)
        return torch.stack([numbers.real, numbers.imag], 1).flatten()

    def attend(self, layer: int, x: Tensor, mask: Tensor) -> Tensor:
        """x (T, D) of one sequence; mask (H, T, T)."""
        dim, n_heads = self.config.embedding_dim, self.config.n_heads
        width = dim // n_heads
        queries, keys, values = self.layer(f"blocks.{layer}.attention")(x).split(dim, 1)
        read = []
        for head in range(n_heads):
            part = slice(head * width, (head + 1) * width)
            query, key = (
                torch.stack([self.turn(row, t) for t, row in enumerate(rows[:, part])])
                for rows in (queries, keys)
            )
            heads = []
            for t in range(len(x)):
                weights = (key[: t + 1] @ query[t] / math.sqrt(width)).softmax(0) * mask[head, t, : t + 1]
                heads.append(weights @ values[: t + 1, part])
            read.append(torch.stack(heads))
        return self.layer(f"blocks.{layer}.out")(torch.cat(read, 1))

    def forward(self, tokens: Tensor, masks: Masks) -> Tensor:
        """Logits (T, V) of one sequence (T,), with its own part of the masks (no R, no B)."""
        x = self.embedding[tokens] * masks.embedding
        for layer in range(self.config.n_layers):
            name = f"blocks.{layer}."
            branch = self.attend(layer, self.layer(name + "norm1")(x), masks.attention[layer])
            x = x + branch * masks.branches[layer, 0]
            wide = nn.functional.gelu(self.layer(name + "up")(self.layer(name + "norm2")(x)))
            x = x + self.layer(name + "down")(wide) * masks.branches[layer, 1]
        head = self.embedding if self.free is None else self.free
        return self.layer("norm")(x) @ head.T


def own_masks(masks: Masks, config: MiniGPTConfig, member: int, row: int) -> Masks:
    """The part of one sequence of one member."""
    heads = masks.attention.unflatten(2, (-1, config.n_heads))  # (L, R, B, H, T, T)
    return Masks(masks.embedding[member, row], heads[:, member, row], masks.branches[:, :, member, row])


def slow_loss(slow: Slow, tokens: Tensor, masks: Masks, member: int) -> Tensor:
    """Of one member's sequences (B, T + 1)."""
    losses = [
        nn.functional.cross_entropy(slow(row[:-1], own_masks(masks, slow.config, member, i)), row[1:])
        for i, row in enumerate(tokens)
    ]
    return torch.stack(losses).mean()


def assert_equals_the_slow_model(config: MiniGPTConfig, members: list[Member], step: int | None) -> None:
    """Losses and gradients of every member, in double precision."""
    stack = StackedMiniGPT(config, members).double()
    tokens = made_tokens(config, len(members))
    masks = dropout_masks(config, members, step or 0, 2, config.length)
    if step is None:
        masks = Masks(*(torch.ones_like(part) for part in dataclasses.astuple(masks)))
    losses = stack.losses(tokens, step)
    losses.sum().backward()
    untied = [index for index, member in enumerate(members) if not member.tied]
    for index, member in enumerate(members):
        slow = Slow(stack, index)
        loss = slow_loss(slow, tokens[index], masks, index)
        loss.backward()
        torch.testing.assert_close(losses[index], loss, **FLOAT64)
        found = {name: array.grad[index] for name, array in stack.weights.items() if name != "free_head"}
        torch.testing.assert_close(found.pop("embedding"), slow.embedding.grad, **FLOAT64)
        if not member.tied:
            free = stack.weights["free_head"].grad[untied.index(index)]
            torch.testing.assert_close(free, slow.free.grad, **FLOAT64)
        for name, grad in found.items():
            layer, _, part = name.rpartition(".")
            torch.testing.assert_close(grad, getattr(slow.layer(layer), part).grad, **FLOAT64)


@settings(max_examples=12)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 4),
    st.lists(st.builds(Member, st.integers(0, 9), st.booleans()), min_size=1, max_size=2, unique=True),
    st.sampled_from(["pytorch", "small"]),
    st.sampled_from([None, 2]),  # without dropout, and with it
)
def test_a_member_and_its_gradients_are_those_of_a_slow_model_of_pytorchs_layers(
    n_layers, n_heads, pairs, length, members, start, step
):
    # from 4 coordinates on: a layer norm of two divides rounding by rounding
    dim = 2 * n_heads * pairs * (1 + (n_heads * pairs == 1))
    config = MiniGPTConfig(5, dim, n_layers, n_heads, length, start=start)
    assert_equals_the_slow_model(config, members, step)


# --- side by side -------------------------------------------------------------------------------------


def test_members_that_take_turns_compute_what_they_compute_at_once():
    """A GPU reads all members at once, a CPU one after the other."""
    stack, tokens = StackedMiniGPT(CONFIG, MEMBERS).double(), made_tokens(CONFIG, len(MEMBERS), extra=0)
    masks = dropout_masks(CONFIG, MEMBERS, 5, 2, 6)
    arrays = {**stack.weights, "head": stack.head}
    for some in (None, masks):
        torch.testing.assert_close(stack._read(arrays, tokens, some), stack(tokens, masks=some), **FLOAT64)


def test_a_tied_member_shares_all_it_has_with_its_untied_twin_and_seeds_share_nothing():
    stack = StackedMiniGPT(CONFIG, [Member(0), Member(0, tied=False), Member(1)])
    for name, array in stack.weights.items():
        if name == "free_head":
            continue
        assert torch.equal(array[0], array[1])
        assert ("norm" in name) == torch.equal(array[0], array[2])
    assert torch.equal(stack.head[0], stack.embedding[0])
    assert not torch.equal(stack.head[1], stack.embedding[1])


# --- dropout ------------------------------------------------------------------------------------------


def test_masks_follow_from_seed_and_step_alone():
    together = dropout_masks(CONFIG, MEMBERS, 9, 2, 6)
    alone = dropout_masks(CONFIG, [Member(5)], 9, 2, 6)  # the tied twin of the last
    later, other = dropout_masks(CONFIG, [Member(5)], 10, 2, 6), dropout_masks(CONFIG, [Member(6)], 9, 2, 6)
    for name, axis in (("embedding", 0), ("attention", 1), ("branches", 2)):
        own = getattr(together, name).select(axis, 3)
        assert torch.equal(own, getattr(alone, name).select(axis, 0))
        for masks in (later, other):
            assert not torch.equal(own, getattr(masks, name).select(axis, 0))


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_takes_its_share_and_keeps_the_mean(dropout):
    config = dataclasses.replace(CONFIG, dropout=dropout, embedding_dim=64, length=40)
    masks = dropout_masks(config, [Member(0), Member(1)], 0, 16, 40)
    for part in dataclasses.astuple(masks):
        # 82,000 decisions at least: five standard deviations of their mean are below 0.009
        assert (part == 0).float().mean().item() == pytest.approx(dropout, abs=0.009)
        assert part.mean().item() == pytest.approx(1, abs=0.02)
        assert len(part.unique()) == 2
    # exactly unbiased for the probability in use, however it was rounded
    assert part.max().item() * (1 - config.dropped / 65_536) == pytest.approx(1, rel=1e-6)


def test_no_two_parts_share_their_masks():
    masks = dropout_masks(dataclasses.replace(CONFIG, dropout=0.5), [Member(0), Member(1)], 0, 2, 6)
    rows = torch.cat([part.flatten(1) for part in (masks.embedding, *masks.branches.flatten(0, 1))])
    squares = masks.attention.flatten(0, 1).flatten(1)
    for flat in (rows, squares):
        assert len(flat.unique(dim=0)) == len(flat)


def test_without_a_step_or_without_dropout_nothing_is_dropped(monkeypatch):
    stack, tokens = StackedMiniGPT(CONFIG, MEMBERS), made_tokens(CONFIG, 4)
    sober = StackedMiniGPT(dataclasses.replace(CONFIG, dropout=0.0), MEMBERS)
    assert torch.equal(stack.losses(tokens), sober.losses(tokens))
    assert not torch.equal(stack.losses(tokens, 1), stack.losses(tokens))
    monkeypatch.delattr(minigpt, "dropout_masks")
    assert torch.equal(sober.losses(tokens, 1), sober.losses(tokens))


# --- the start ----------------------------------------------------------------------------------------


def test_weights_start_as_pytorchs_layers_do_or_small():
    shape = MiniGPTConfig(vocab_size=100)
    ours = StackedMiniGPT(shape, [Member(0, tied=False)]).weights
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = {"blocks.1.up": nn.Linear(64, 256), "blocks.0.down": nn.Linear(256, 64)}
        theirs = {"embedding": nn.Embedding(100, 64).weight, "free_head": nn.Linear(64, 100).weight}
    theirs |= {
        f"{name}.{part}": getattr(layer, part)
        for name, layer in layers.items()
        for part in ("weight", "bias")
    }
    for name, array in theirs.items():
        # of 64 numbers at least: a spread is known to a tenth, doubled
        assert ours[name].std().item() == pytest.approx(array.std().item(), rel=0.2), name
    small = StackedMiniGPT(dataclasses.replace(shape, start="small"), [Member(0)]).weights
    assert small["embedding"].std().item() == pytest.approx(0.02, rel=0.05)
    assert small["blocks.1.up.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert small["blocks.1.down.weight"].std().item() == pytest.approx(0.01, rel=0.05)
    assert all(not array.any() for name, array in small.items() if name.endswith("bias"))
