"""Even strings: contexts against all strings, the exact loss against a plain model, what judges claims."""

import collections
import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from book.tying.experiments import parity
from book.tying.experiments.parity import EvenRun, EvenSession, SteeperRun, WarmedUp
from book.tying.languages import EXor, even_language, masked_contexts
from book.tying.models.encoders import Encoder
from embviz.training.loop import AdamW, train

SMALL = EvenRun(n_seeds=2, first_seed=7, embedding_dim=4, hidden_dim=8, n_steps=12, warm_up=4)
NAMES = ("0A", "0B", "1A", "1B")


@pytest.fixture(scope="module")
def even():
    return even_language(EXor(8, p_0a=0.1))


# --- the task ---------------------------------------------------------------------------------------------


def counted(p_0a: float) -> dict[tuple[str, ...], collections.Counter]:
    """By masked string up to order, how often each symbol is hidden: a loop over all 256 strings."""
    share = {"0A": p_0a, "0B": 1 - p_0a, "1A": 0.5, "1B": 0.5}
    found: dict[tuple[str, ...], collections.Counter] = collections.defaultdict(collections.Counter)
    for bits in itertools.product("01", repeat=8):
        if bits.count("1") % 2:
            continue
        for place in range(8):
            others = bits[:place] + bits[place + 1 :]
            for letters in itertools.product("AB", repeat=7):
                spelled = [bit + letter for bit, letter in zip(others, letters, strict=True)]
                weight = math.prod(share[symbol] for symbol in spelled) / (128 * 8)
                for letter in "AB":
                    hidden = bits[place] + letter
                    found[tuple(sorted(spelled))][hidden] += weight * share[hidden]
    return found


def test_contexts_are_those_of_all_256_strings():
    tokens, probability, answers = parity.even_contexts(EXor(8, p_0a=0.1))
    expected = counted(0.1)
    assert (tokens[:, -1] == 4).all()  # the mask is last
    assert probability.sum() == pytest.approx(1)
    assert len(tokens) == len(expected)
    for row, weight, answer in zip(tokens, probability, answers, strict=True):
        hidden = expected[tuple(NAMES[token] for token in row[:-1])]
        joint = [*(hidden[name] for name in NAMES), 0.0]
        np.testing.assert_allclose(weight * answer, joint, atol=1e-12)


def test_of_256_strings_the_128_with_an_even_number_of_ones_are_in_the_language(even):
    bits = {tuple(even.symbols[token][0] for token in row) for row in even.tokens}
    every = set(itertools.product("01", repeat=8))
    assert bits == {string for string in every if string.count("1") % 2 == 0}
    assert even.maskable == tuple(range(8))


# --- models -----------------------------------------------------------------------------------------------


def test_the_exact_loss_is_that_of_a_plain_model_over_every_ordered_string(even):
    session = EvenSession(dataclasses.replace(SMALL, p_0a=0.1))
    tokens, probability, answers = map(torch.from_numpy, masked_contexts(even))
    place = (tokens == 4).long().argmax(1)
    got = session.losses(0).detach()
    for index, member in enumerate(session.members):
        model = session.model.member(index)
        with torch.no_grad():
            logits = model(tokens)[torch.arange(len(tokens)), place]
        each = -(answers * logits.log_softmax(-1)).sum(-1)
        assert float(got[index]) == pytest.approx(float(probability @ each), rel=1e-5), member


def test_the_loss_is_measured_above_that_of_the_exact_distribution():
    session = EvenSession(dataclasses.replace(SMALL, p_0a=0.1))
    entropy = -sum(p * math.log(p) for p in (0.1, 0.9)) / 2 + math.log(2) / 2
    with torch.no_grad():
        measured = session.measure(0)
        gaps = session.losses(0) - entropy
    assert measured["loss_gap"] == pytest.approx(gaps.tolist(), abs=1e-5)
    assert min(measured["loss_gap"]) > 0
    assert max(measured["accuracy"]) <= EXor(8, p_0a=0.1).optimal_accuracy() + 1e-6


@pytest.mark.parametrize(("kind", "factor"), [(EvenRun, 1), (SteeperRun, 4)])
def test_models_start_as_any_encoder_of_their_seed_but_for_the_mask_and_the_first_layer(kind, factor):
    session = EvenSession(kind(n_seeds=2, first_seed=7, embedding_dim=4, hidden_dim=8))
    for index, member in enumerate(session.members):
        assert member.seed in (7, 8)
        plain = Encoder(session.model.config, tied=member.tied, seed=member.seed).state_dict()
        for name, array in session.model.member(index).state_dict().items():
            if name == "input_embedding":
                assert not array[4].any()
                array, plain[name] = array[:4], plain[name][:4]
            assert torch.equal(array, plain[name] * (factor if "linear1" in name else 1)), name


def test_embeddings_decay_as_adamw_decays_them_and_at_their_own_strength():
    shape = {"n_seeds": 1, "embedding_dim": 4, "hidden_dim": 8, "n_steps": 3, "warm_up": 1, "p_0a": 1.0}
    session = EvenSession(EvenRun(**shape, weight_decay=0.5))
    by_hand = EvenSession(EvenRun(**shape, weight_decay=0.5))
    for _ in session.snapshots(snapshot_at=3):
        pass
    rate = {"learning_rate": 3e-3, "min_learning_rate": 3e-3 / 50, "half_period": 3}
    for _ in train(by_hand.model, by_hand.losses, AdamW(**rate, weight_decay=0.5), n_steps=3, snapshot_at=3):
        pass
    for name, array in session.model.weights.items():
        torch.testing.assert_close(array, by_hand.model.weights[name], rtol=1e-4, atol=1e-6)
    stronger = EvenSession(SteeperRun(**shape))
    assert (stronger.config.weight_decay, stronger.config.embedding_decay) == (0.1, 1.97)


def test_one_spelling_of_zero_leaves_three_symbols_and_two_pairs():
    session = EvenSession(dataclasses.replace(SMALL, p_0a=1.0))
    assert session.pairs == {"11": (1, 2), "01": (0, 2)}
    assert session.model.config.vocab_size == 4


def test_the_rate_rises_linearly_and_then_follows_the_cosine():
    shape = {"learning_rate": 1e-2, "min_learning_rate": 1e-3, "half_period": 100}
    warmed, plain = WarmedUp(**shape, warm_up=10), AdamW(**shape)
    assert warmed.rate(0) == pytest.approx(plain.rate(0) / 10)
    assert warmed.rate(4) == pytest.approx(plain.rate(4) / 2)
    assert [warmed.rate(step) for step in (9, 50, 99)] == [plain.rate(step) for step in (9, 50, 99)]
