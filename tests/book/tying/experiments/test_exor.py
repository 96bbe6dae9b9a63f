"""EXor's fresh runs, whose seeds no first run had, and what the gauge adds for them."""

import numpy as np
import pandas as pd
import pytest
import torch

from book.members import Member
from book.tying.experiments import exor as study
from book.tying.experiments.exor_runs import EXorRun, FreshRun, prepare
from book.tying.experiments.spellings import FreshSweep, Sweep, sweep_session
from book.tying.languages.exor import MASK, ONE_A, ONE_B, ZERO_A, ZERO_B
from book.tying.models.encoders import Encoder

# --- fresh seeds ----------------------------------------------------------------------------------------


def test_a_fresh_seed_starts_as_a_first_one_would_and_trains_at_the_papers_rates():
    fresh = prepare(FreshRun(n_steps=4, n_seeds=1, first_seed=2))
    plain = prepare(EXorRun(n_steps=4, n_seeds=3))
    for name, array in fresh.model.weights.items():
        rows = slice(2, 3) if name == "free_output" else slice(4, 6)
        assert torch.equal(array, plain.model.weights[name][rows])
    assert fresh.optimizer == plain.optimizer


def test_the_programs_order_draws_both_embeddings_first_and_ties_them_afterwards():
    session = prepare(FreshRun(n_seeds=1, first_seed=42, drawn="program"))
    torch.manual_seed(42)
    read, answer = torch.nn.Embedding(7, 4), torch.nn.Embedding(7, 4)
    layer = torch.nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0, activation="gelu", batch_first=True)
    untied, tied = (session.model.member(index) for index in range(2))
    for model in (untied, tied):
        assert torch.equal(model.input_embedding, read.weight)
        for name, array in layer.state_dict().items():
            assert torch.equal(model.body.layers[0].state_dict()[name], array)
    assert torch.equal(untied.output_embedding, answer.weight)
    assert tied.free_output is None
    ours = Encoder(session.model.config, tied=True, seed=42)
    assert not torch.equal(tied.body.layers[0].linear1.weight, ours.body.layers[0].linear1.weight)


def test_a_fresh_sweep_is_the_first_one_with_other_seeds():
    fresh, first = sweep_session(FreshSweep(n_seeds=2)), sweep_session(Sweep(n_seeds=2))
    assert fresh.optimizer == first.optimizer
    assert fresh.members == tuple(Member(seed, tied) for seed in (8, 9) for tied in (False, True))


# --- apart ----------------------------------------------------------------------------------------------


def test_logit_gaps_are_means_over_the_contexts_that_ask_for_the_bit():
    session = prepare(FreshRun(n_steps=2, n_seeds=1))
    session.model.double()
    gauge = session.gauge
    with torch.no_grad():
        found = gauge.scores()
        for index in range(2):
            logits = session.model.member(index).double()(gauge.contexts)
            gaps: dict[str, list[float]] = {"00": [], "11": []}
            for tokens, rows, exact in zip(
                gauge.contexts.tolist(), logits.tolist(), gauge.exact.tolist(), strict=True
            ):
                row, (pair, a, b) = rows[tokens.index(MASK)], ("00", ZERO_A, ZERO_B)
                if exact[ONE_A] > 0:
                    pair, a, b = "11", ONE_A, ONE_B
                gaps[pair].append(row[b] - row[a])
            for pair, values in gaps.items():
                assert float(found[f"logit_{pair}"][index]) == pytest.approx(np.mean(values), abs=1e-6)


def test_the_loss_on_twelve_strings_is_their_mean_cross_entropy():
    session = prepare(FreshRun(n_steps=2, n_seeds=1))
    gauge = session.gauge
    with torch.no_grad():
        found = gauge.scores()["sampled_loss"][0]
        logits = session.model.member(0)(gauge.sample).log_softmax(-1)
    slow = [
        -float(rows[tokens.index(MASK)][answer])
        for tokens, rows, answer in zip(gauge.sample.tolist(), logits, gauge.answers.tolist(), strict=True)
    ]
    assert len(slow) == 12
    assert float(found) == pytest.approx(np.mean(slow), rel=1e-5)


# --- overfitting ----------------------------------------------------------------------------------------


def overfits(rise: float, *, from_step: int = 90, only_at: int | None = None) -> bool:
    """Whether a run overfits whose loss on the twelve strings is higher at the end of training."""
    steps = np.arange(0, 1001 if from_step > 100 else 101, 5)
    late = steps >= from_step if only_at is None else steps == only_at
    table = pd.DataFrame({"seed": 0, "tied": True, "step": steps, "sampled_loss": 1 + rise * late})
    table = table.assign(train_loss_gap=1 - steps / 200, relative_input_11=1.0, relative_output_11=1.0)
    return bool(study.overfitting(table)["overfits"].all())


def test_a_run_overfits_by_the_mean_of_its_last_tenth():
    assert not overfits(3.4 * study.RISE, only_at=100)  # 0.89 of the rise; the highest of them is 1.1
    assert not overfits(0.9 * study.RISE)
    assert overfits(1.5 * study.RISE, from_step=880)
    assert overfits(1.05 * study.RISE, from_step=880)  # from 0.5 on the mean would be a fifth of it
