"""Encoders side by side against the same encoders of PyTorch's layers, one at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from book.members import Member
from book.tying.experiments.exor_runs import SIZES
from book.tying.models import stacked
from book.tying.models.encoders import Encoder, EncoderConfig
from book.tying.models.stacked import StackedEncoder
from embviz.training.loop import AdamW, train

MEMBERS = [Member(3, True), Member(0, False), Member(0, True), Member(5, False)]  # tied first, then mixed

SMALL = {kind: size for (kind, name), size in SIZES.items() if name == "small"}
SMALL_CONFIGS = pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)


def made_batch(config: EncoderConfig, n_members: int, n: int = 6, seed: int = 0) -> tuple[Tensor, ...]:
    """Tokens (R, B, T), places (R, B) and targets (R, B), another batch for each member."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(config.vocab_size, (n_members, n, config.length), generator=generator)
    places = torch.randint(config.length, (n_members, n), generator=generator)
    return tokens, places, torch.randint(config.vocab_size, (n_members, n), generator=generator)


def at_places(x: Tensor, places: Tensor) -> Tensor:
    """Rows of x (B, T, ...) at places (B,)."""
    return x[torch.arange(len(places)), places]


def single_loss(single: Encoder, tokens: Tensor, places: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(at_places(single(tokens), places), targets)


def single_attention(single: Encoder, tokens: Tensor, places: Tensor) -> Tensor:
    """Weights (B, T) that nn.MultiheadAttention of the last layer gives the tokens, from the places."""
    x = torch.nn.functional.embedding(tokens, single.input_embedding)
    x = x if single.position is None else x + single.position
    *earlier, last = single.body.layers
    for layer in earlier:
        x = layer(x)
    return at_places(last.self_attn(x, x, x, need_weights=True)[1], places)


def own_arrays(stack: StackedEncoder, index: int, arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """A member's part of arrays (R, ...) named as `stack.weights`; a tied one has no output of its own."""
    member, untied = stack.members[index], [m for m in stack.members if not m.tied]
    own = {name: array[index] for name, array in arrays.items() if name != "free_output"}
    return own if member.tied else {**own, "free_output": arrays["free_output"][untied.index(member)]}


def gradients(stack: StackedEncoder) -> dict[str, Tensor]:
    return {name: array.grad for name, array in stack.weights.items()}


# --- side by side against one at a time -------------------------------------------------------------


def assert_equals_the_singles(config: EncoderConfig, members: list[Member], seed: int = 0):
    """Encodings, logits, attention, losses and gradients of every member, in double precision."""
    tolerance = {"rtol": 1e-9, "atol": 1e-11}  # sums of some hundred terms in another order
    stack = StackedEncoder(config, members).double()
    tokens, places, targets = made_batch(config, len(members), seed=seed)
    encoded, losses = stack(tokens, places), stack.losses(tokens, places, targets)
    losses.sum().backward()
    for r, member in enumerate(members):
        single = Encoder(config, tied=member.tied, seed=member.seed).double()
        encodings = at_places(single.encode(tokens[r]), places[r])
        torch.testing.assert_close(encoded.encodings[r], encodings, **tolerance)
        torch.testing.assert_close(encoded.logits[r], at_places(single(tokens[r]), places[r]), **tolerance)
        if config.architecture == "transformer":
            attention = single_attention(single, tokens[r], places[r])
            torch.testing.assert_close(encoded.attention[r], attention, **tolerance)
        loss = single_loss(single, tokens[r], places[r], targets[r])
        torch.testing.assert_close(losses[r], loss, **tolerance)
        loss.backward()
        own = own_arrays(stack, r, gradients(stack))
        assert set(own) == {name for name, _ in single.named_parameters()}
        for name, parameter in single.named_parameters():
            torch.testing.assert_close(
                own[name], parameter.grad, **tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )


@settings(max_examples=25)
@given(
    st.builds(
        EncoderConfig,
        architecture=st.sampled_from(["transformer", "lstm", "mixer"]),
        n_layers=st.integers(1, 3),
        embedding_dim=st.integers(2, 5),  # a layer norm of one coordinate divides rounding by rounding
        hidden_dim=st.integers(1, 5),
        token_dim=st.integers(1, 5),
        vocab_size=st.integers(1, 9),
        length=st.integers(1, 9),
        positions=st.booleans(),
        rank=st.integers(0, 2),
    ),
    st.lists(st.builds(Member, st.integers(0, 9), st.booleans()), min_size=1, max_size=3, unique=True),
    st.integers(0, 2**32 - 1),
)
def test_it_holds_for_any_shape(config, members, seed):
    assert_equals_the_singles(config, members, seed=seed)


# --- training ---------------------------------------------------------------------------------------

N_STEPS = 30
# the rate turns within the test; the paper's other settings
OPTIMIZER = AdamW(5e-3, 1e-4, half_period=20, weight_decay=0.1, eps=1e-12)


def trained_stack(config: EncoderConfig, members: list[Member], rows: list[int]) -> StackedEncoder:
    """Members trained side by side, each on the batches of its row."""
    stack = StackedEncoder(config, members).double()

    def losses(step: int) -> Tensor:
        batch = made_batch(config, len(MEMBERS), n=20, seed=step)
        return stack.losses(*(part[rows] for part in batch))

    for _ in train(stack, losses, OPTIMIZER, n_steps=N_STEPS, snapshot_at=N_STEPS):
        pass
    return stack


def trained_plainly(config: EncoderConfig, row: int) -> Encoder:
    """One model in a loop of PyTorch's own parts."""
    single = Encoder(config, tied=MEMBERS[row].tied, seed=MEMBERS[row].seed).double()
    adam = torch.optim.AdamW(single.parameters(), lr=5e-3, eps=1e-12, weight_decay=0.1, foreach=False)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=20, eta_min=1e-4)
    for step in range(N_STEPS):
        adam.zero_grad()
        batch = made_batch(config, len(MEMBERS), n=20, seed=step)
        single_loss(single, *(part[row] for part in batch)).backward()
        adam.step()
        schedule.step()
    return single


def without_key_bias(name: str, array: Tensor) -> Tensor:
    """It changes no attention weight: rounding is all its gradient, which Adam's division makes large."""
    dim = len(array) // 3
    return array[[*range(dim), *range(2 * dim, 3 * dim)]] if name.endswith("in_proj_bias") else array


@SMALL_CONFIGS
def test_members_trained_side_by_side_end_where_each_ends_by_itself(config):
    # Adam divides by the size of the gradient, so rounding of small gradients shows
    tolerance = {"rtol": 1e-7, "atol": 1e-8}
    stack = trained_stack(config, MEMBERS, [0, 1, 2, 3])
    for r, member in enumerate(MEMBERS[:2]):  # one tied, one not
        ours, alone = stack.member(r).double(), trained_stack(config, [member], [r])
        start = Encoder(config, tied=member.tied, seed=member.seed).double()
        assert (ours.input_embedding - start.input_embedding).abs().max() > 1e-3
        for name, array in trained_plainly(config, r).state_dict().items():
            for other in (alone.weights[name][0].detach(), ours.state_dict()[name]):
                torch.testing.assert_close(
                    without_key_bias(name, other), without_key_bias(name, array), **tolerance
                )


# --- the LSTM's own backward pass -------------------------------------------------------------------


def made_scan(n_steps: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Gate inputs (R, 4 H, T, B) and state weights (R, 4 H, H) of 2 members, H = 3, B = 2."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(2, 12, n_steps, 2, dtype=torch.float64, generator=generator)
    w_state = torch.randn(2, 12, 3, dtype=torch.float64, generator=generator)
    return steps.requires_grad_(), w_state.requires_grad_()


@pytest.mark.parametrize("n_steps", [1, 5])
def test_the_lstms_backward_pass_is_the_derivative_of_its_forward_pass(n_steps):
    assert torch.autograd.gradcheck(stacked._LSTMScan.apply, made_scan(n_steps))


def test_a_second_derivative_of_the_lstm_is_refused_rather_than_wrong():
    steps, w_state = made_scan(3)
    hidden = stacked._LSTMScan.apply(steps, w_state)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.autograd.grad(hidden.sum(), steps, create_graph=True)
