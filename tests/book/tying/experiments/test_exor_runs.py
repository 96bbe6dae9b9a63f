"""EXor's runs: what their tables hold, that they repeat to the bit, and the gauge against slow loops."""

import dataclasses
import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from book.members import Member
from book.tying.experiments.exor_runs import (
    READINGS,
    SYMBOL_SETS,
    EXorRun,
    Session,
    exor,
    load_model,
    prepare,
    used_pairs,
)
from book.tying.languages.exor import EVEN, MASK, ODD, EXor, EXorStream

TINY = EXorRun(n_steps=4, n_seeds=3, learning_rate=5e-2)
ARCHITECTURES = ("transformer", "lstm", "mixer")
pytestmark = pytest.mark.usefixtures("own_runs")


@functools.cache
def table_of(config: EXorRun) -> pd.DataFrame:
    """Computed once; in the cache folder of whichever test asks first."""
    return exor.function(config)


@functools.cache
def trained(config: EXorRun) -> Session:
    """The session of a run after its last step, in memory."""
    session = prepare(config)
    for _ in session.snapshots(snapshot_at=config.n_steps):
        pass
    return session


# --- a stored model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_stored_model_gives_the_logits_of_the_model_that_was_trained(architecture):
    config = EXorRun(architecture, n_steps=2, n_seeds=1)
    table, session = table_of(config), trained(config)
    contexts = session.gauge.contexts[:50]
    for index, member in enumerate(session.members):
        model = load_model(config, table, seed=member.seed, tied=member.tied)
        with torch.no_grad():
            expected = session.model.member(index).eval()(contexts)
            assert torch.equal(model(contexts), expected)
        assert (model.free_output is None) == member.tied
        assert not model.training


def test_a_model_that_the_table_does_not_keep_is_refused():
    kept = "whole models are kept of small runs, seeds 0 to 1, not of EXorRun"
    for config, table, seed in (
        (TINY, table_of(TINY), 2),
        (dataclasses.replace(TINY, size="medium"), table_of(TINY)[:0], 0),
    ):
        with pytest.raises(ValueError, match=kept):
            load_model(config, table, seed=seed, tied=True)


# --- preparation ------------------------------------------------------------------------------------


def test_the_pairs_in_use_are_the_spellings_of_a_bit_and_an_unrelated_pair():
    assert used_pairs(EXor()) == {"11": (2, 3), "00": (0, 1), "01": (0, 3)}
    assert used_pairs(SYMBOL_SETS["ones"]) == {"11": (2, 3), "01": (0, 3)}
    assert used_pairs(SYMBOL_SETS["zeros"]) == {"00": (0, 1), "01": (0, 2)}
    assert used_pairs(EXor(p_0a=0.0, p_1a=0.0)) == {"01": (1, 3)}  # the other spellings


def test_members_are_tied_and_untied_twins_of_each_seed_that_see_the_same_batches():
    session = prepare(TINY)
    expected = [Member(seed, tied) for seed in range(3) for tied in (False, True)]
    assert list(session.members) == expected
    stream = EXorStream(EXor(), session.train_strings)
    for step in (0, 255, 256, 3):  # over a block's end and back
        batch = session.batches.at(step)
        for row, member in enumerate(expected):
            drawn = stream.batches(member.seed, step // 256)
            for ours, theirs in zip(batch, drawn, strict=True):
                np.testing.assert_array_equal(ours[row], theirs[step % 256])


@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_changes_what_it_names_and_nothing_else(reading):
    session, plain = prepare(dataclasses.replace(TINY, reading=reading)), prepare(TINY)
    assert session.model.config.positions == (reading == "positions")
    assert len(session.held_out) == (14 if reading == "128 strings" else 13)
    tokens, places, targets = (torch.stack([session.batches.at(s)[i] for s in (0, 1)]) for i in range(3))
    tokens.scatter_(3, places[..., None], targets[..., None])
    assert torch.equal(tokens[0], tokens[1]) == reading.startswith("fixed")
    assert torch.equal(places[0], places[1]) == (reading == "fixed")
    assert session.optimizer == plain.optimizer
    for name, array in plain.model.weights.items():
        assert torch.equal(array, session.model.weights[name])


def test_the_papers_settings():
    session = prepare(EXorRun())
    assert session.n_steps == 150_000
    optimizer = session.optimizer
    assert (optimizer.learning_rate, optimizer.min_learning_rate) == (5e-4, pytest.approx(1e-5))
    assert (optimizer.half_period, optimizer.weight_decay, optimizer.eps) == (10_000, 0.1, 1e-12)
    assert len(session.train_strings) == 114
    assert len(session.members) == 10


# --- the gauge against slow loops -------------------------------------------------------------------


@functools.cache
def made_session(symbols: str = "both", architecture: str = "transformer") -> Session:
    """Members after two steps, in float64."""
    session = trained(EXorRun(architecture, symbols=symbols, n_steps=2, n_seeds=1, learning_rate=0.1))
    session.model.double()
    return session


@pytest.mark.parametrize("symbols", SYMBOL_SETS)
def test_scores_are_expectations_under_the_exact_distribution(symbols):
    session, task = made_session(symbols), SYMBOL_SETS[symbols]
    gauge = session.gauge
    with torch.no_grad():
        scores = {name: value.tolist() for name, value in gauge.scores().items()}
    held_out = {tuple(row) for row in session.held_out.tolist()}
    contexts = gauge.contexts.tolist()
    exact = task.conditional(gauge.contexts.numpy())
    for index in range(2):
        single = session.model.member(index).double()
        with torch.no_grad():
            every = torch.log_softmax(single(gauge.contexts), -1)
        sums: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for tokens, chances, rows in zip(contexts, exact.tolist(), every.tolist(), strict=True):
            place = tokens.index(MASK)
            bits = [symbol // 2 for symbol in tokens[:7]]
            bits[place] = 0
            bits[place] = (sum(bits) + (tokens[7] == ODD)) % 2
            logits = rows[place]
            gap = sum(p * (math.log(p) - q) for p, q in zip(chances, logits, strict=True) if p > 0)
            sums[tuple(bits) in held_out].append((chances[logits.index(max(logits))], gap))
        assert (len(sums[False]), len(sums[True])) == (2 * 7 * 114, 2 * 7 * 13)
        for name, parts in (("", (False, True)), ("train_", (False,)), ("held_", (True,))):
            accuracy, gap = np.mean([pair for part in parts for pair in sums[part]], axis=0)
            # the exact distribution is kept in float32
            assert scores[f"{name}accuracy"][index] == pytest.approx(accuracy, abs=1e-6)
            assert scores[f"{name}loss_gap"][index] == pytest.approx(gap, abs=1e-5)


@pytest.mark.parametrize("symbols", SYMBOL_SETS)
def test_the_best_guess_scores_the_optimum(symbols):
    session, task = made_session(symbols), SYMBOL_SETS[symbols]
    gauge, strings = session.gauge, np.concatenate([session.train_strings, session.held_out])
    accuracy = gauge._expected_accuracy(gauge.exact.log()[None])[0]
    assert float(accuracy.mean()) == pytest.approx(task.optimal_accuracy(strings), abs=1e-6)  # float32
    held = accuracy[~gauge.is_train].mean()
    assert float(held) == pytest.approx(task.optimal_accuracy(session.held_out), abs=1e-6)
    assert float(gauge.floor.mean()) == pytest.approx(task.optimal_loss(strings), abs=1e-6)


def test_the_sampled_accuracy_is_the_share_right_on_twelve_held_out_strings():
    session = made_session()
    gauge = session.gauge
    assert gauge.sample.shape == (12, 8)
    whole = gauge.sample.clone()
    whole[whole == MASK] = gauge.answers
    bits = {tuple(row) for row in (whole[:, :7] // 2).tolist()}
    assert bits == {tuple(row) for row in session.held_out[:12].tolist()}
    assert torch.equal(whole[:, 7], torch.where((whole[:, :7] // 2).sum(1) % 2 == 1, ODD, EVEN))
    with torch.no_grad():
        found = gauge.scores()["sampled_accuracy"].tolist()
        for index, share in enumerate(found):
            logits = session.model.member(index).double()(gauge.sample)
            rows = logits[torch.arange(12), (gauge.sample == MASK).int().argmax(1)]
            n_right = sum(
                row.index(max(row)) == a for row, a in zip(rows.tolist(), gauge.answers.tolist(), strict=True)
            )
            assert share == pytest.approx(n_right / 12, abs=1e-6)


def test_distances_norms_and_span_are_what_numpy_gives():
    session = made_session()
    gauge = session.gauge
    with torch.no_grad():
        found = {**gauge.distances(), "span": gauge.scores()["span"]}
    for index in range(2):
        single = session.model.member(index)
        for matrix in ("input", "output"):
            rows = getattr(single, f"{matrix}_embedding").detach().double().numpy()
            apart = {pair: np.linalg.norm(rows[u] - rows[v]) for pair, (u, v) in used_pairs(EXor()).items()}
            apart["unrelated"] = np.mean([np.linalg.norm(rows[u] - rows[v]) for u in (0, 1) for v in (2, 3)])
            apart["norm"] = np.mean([np.linalg.norm(row) for row in rows[:4]])
            for name, value in apart.items():
                assert float(found[f"{matrix}_{name}"][index]) == pytest.approx(value, rel=1e-6)
        with torch.no_grad():
            encodings = single.double().encode(gauge.contexts)
        places = (gauge.contexts == MASK).int().argmax(1)
        sizes = np.linalg.svd(encodings[torch.arange(len(places)), places].numpy(), compute_uv=False)
        assert float(found["span"][index]) == pytest.approx(sizes[-1] / sizes[0], rel=1e-5)


@pytest.mark.parametrize(("symbols", "bits"), [("ones", [0, 2, 3]), ("zeros", [0, 1, 2])])
def test_symbols_not_in_use_count_nowhere(symbols, bits):
    session = made_session(symbols)
    assert session.gauge.bits == bits
    with torch.no_grad():
        found = session.gauge.distances()
        rows = session.model.member(0).input_embedding.detach()
    expected = np.mean([float((rows[u] - rows[v]).norm()) for u in bits for v in bits if u < 2 <= v])
    assert float(found["input_unrelated"][0]) == pytest.approx(expected, rel=1e-6)
    absent = ({0, 1, 2, 3} - set(bits)).pop()
    for parts in (session.gauge.contexts, session.gauge.sample):
        assert not (parts == absent).any()


# --- Theorem 4.2 ------------------------------------------------------------------------------------


def swapped_contexts(task: EXor, u: int, v: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every masked string with u, the same with v at the place of its first u, and that place."""
    tokens, _ = task.contexts()
    tokens = tokens[(tokens == u).any(1)]  # 47,138 of 57,344 in the paper's task
    places = (tokens == u).argmax(1)
    swapped = tokens.copy()
    swapped[np.arange(len(tokens)), places] = v
    return tokens, swapped, places


def spectral_norms(rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows[tokens], ord=2, axis=(1, 2))


@pytest.mark.parametrize("symbols", SYMBOL_SETS)
def test_the_bound_is_the_least_over_every_spelled_string(symbols):
    session, task = made_session(symbols), SYMBOL_SETS[symbols]
    with torch.no_grad():
        found = session.gauge.bounds()
    for index, (name, (u, v)) in enumerate(used_pairs(task).items()):
        member = index % 2  # each would do
        tokens, swapped, _ = swapped_contexts(task, u, v)
        rows = session.model.input_embedding[member].detach().numpy()
        larger = np.maximum(spectral_norms(rows, tokens), spectral_norms(rows, swapped))
        assert float(found[f"bound_{name}"][member]) == pytest.approx(2 * larger.min(), rel=1e-12)


def test_the_tight_bound_is_equation_37_with_the_attention_of_pytorchs_layer():
    session = made_session()
    with torch.no_grad():
        found = session.gauge.bounds()
    for index in range(2):
        single = session.model.member(index).double()
        rows = single.input_embedding.detach().numpy()

        def attention(tokens, single=single):
            x = torch.nn.functional.embedding(
                torch.from_numpy(tokens.astype(np.int64)), single.input_embedding
            )
            with torch.no_grad():
                weights = single.body.layers[0].self_attn(x, x, x)[1].numpy()
            return weights[np.arange(len(tokens)), (tokens == MASK).argmax(1)]  # from the mask, (n, T)

        for name, (u, v) in used_pairs(EXor()).items():
            tokens, swapped, places = swapped_contexts(EXor(), u, v)
            here = tokens[:, 2] == MASK  # where it stands does not matter without positions
            tokens, swapped, places = tokens[here], swapped[here], places[here]
            a_u, a_v, n = attention(tokens), attention(swapped), np.arange(len(tokens))
            change = np.linalg.norm(a_v - a_u, axis=1)
            one = change * spectral_norms(rows, tokens) / a_v[n, places]
            other = change * spectral_norms(rows, swapped) / a_u[n, places]
            least = np.minimum(one, other).min()
            assert float(found[f"tight_{name}"][index]) == pytest.approx(least, rel=1e-9)


def bounds_of(rows: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Distances and bounds of an input embedding (V, D), whatever it is."""
    session = made_session("both", "lstm")  # no attention to compute
    with torch.no_grad():
        session.model.arrays["input_embedding"].copy_(torch.from_numpy(rows).expand(2, -1, -1))
        bounds, distances = session.gauge.bounds(), session.gauge.distances()
    pairs = ("11", "00", "01")
    assert set(bounds) == {f"bound_{pair}" for pair in pairs}, "a tight bound without attention"
    return (
        {pair: float(distances[f"input_{pair}"][0]) for pair in pairs},
        {pair: float(bounds[f"bound_{pair}"][0]) for pair in pairs},
    )


@settings(max_examples=60)
@given(arrays(np.float64, (7, 4), elements=st.floats(-1e3, 1e3)))
def test_no_embedding_whatsoever_exceeds_the_bound_of_theorem_4_2(rows):
    # |u - v| <= |u| + |v|, and a matrix is at least as long as each of its rows: no training is needed
    distances, bounds = bounds_of(rows)
    for pair, distance in distances.items():
        assert distance <= bounds[pair] * (1 + 1e-12) + 1e-300  # float64 rounding


def test_the_bound_is_reached_by_opposite_embeddings_and_all_else_zero():
    rows = np.zeros((7, 4))
    rows[2], rows[3] = [3, 0, 4, 0], [-3, 0, -4, 0]
    distances, bounds = bounds_of(rows)
    assert distances["11"] == pytest.approx(10)
    assert bounds["11"] == pytest.approx(10)
