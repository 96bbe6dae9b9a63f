"""The language-model loop: known cases, exact resumption, refusals."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from book.reflections.lstm import LSTMConfig, LSTMLanguageModel
from book.reflections.lstm_training import (
    LanguageModelTraining,
    arrange_columns,
    bfloat16_on_cpu,
    evaluate_perplexity,
    language_model_perplexity,
    train_language_model,
)

MODEL = LSTMConfig(vocab_size=12, embedding_dim=8, tying="signs")
TRAINING = LanguageModelTraining(
    n_epochs=3, batch_size=4, n_steps_back=7, learning_rate=5.0, eval_batch_size=2
)

HALF = pytest.mark.skipif(not bfloat16_on_cpu(), reason="this processor has no bfloat16 LSTM")


@dataclass
class Text:
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    vocabulary: list[str]


def make_text(vocab_size=12, n_train=600, seed=0):
    """A text in which each word is followed by its successor nine times in ten."""
    generator = np.random.default_rng(seed)

    def chain(length):
        steps = np.where(generator.random(length) < 0.9, 1, generator.integers(0, vocab_size, length))
        return (np.cumsum(steps) % vocab_size).astype(np.uint16)

    return Text(chain(n_train), chain(200), chain(200), [f"w{i}" for i in range(vocab_size)])


def without_seconds(table):
    return table.drop(columns="seconds")


@pytest.mark.parametrize("n_steps", [1, 4, 100])
def test_perplexity_is_that_of_one_word_at_a_time(n_steps):
    model = LSTMLanguageModel(MODEL, seed=0).train()  # dropout must not count
    columns = arrange_columns(torch.from_numpy(make_text().valid[:50].astype(np.int64)), 2)
    model.eval()
    total = 0.0
    for column in columns.t():
        state = model.initial_state(1)
        for word, following in itertools.pairwise(column):
            logits, state = model(word.view(1, 1), state)
            total -= torch.log_softmax(logits[0, 0], 0)[following].item()
    model.train()
    expected = math.exp(total / ((len(columns) - 1) * 2))
    assert evaluate_perplexity(model, columns, n_steps) == pytest.approx(expected, rel=1e-5)  # float32
    assert model.training


def test_an_epoch_is_clipped_gradient_descent_that_carries_the_state_but_not_its_gradient():
    text = make_text(n_train=4 * 17)
    model_config, config = replace(MODEL, dropout=0.0), replace(TRAINING, n_epochs=1, max_grad_norm=0.05)
    model, peer = (LSTMLanguageModel(model_config, seed=0) for _ in range(2))
    list(train_language_model(model, text, config, seed=0))

    columns = arrange_columns(torch.from_numpy(text.train.astype(np.int64)), 4)
    optimizer, state = torch.optim.SGD(peer.parameters(), lr=5.0), peer.initial_state(4)
    for start, stop in ((0, 7), (7, 14), (14, 16)):  # 7 steps back, and what is left
        optimizer.zero_grad()
        logits, state = peer(columns[start:stop], (state[0].detach(), state[1].detach()))
        targets = columns[start + 1 : stop + 1]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        assert torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.05) > 0.05
        optimizer.step()
    for ours, theirs in zip(model.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)  # float32


def test_the_rate_is_divided_after_each_epoch_that_does_not_better_the_best():
    table = language_model_perplexity(
        make_text(), MODEL, replace(TRAINING, n_epochs=10, learning_rate=30.0, max_grad_norm=3.0), seed=0
    )
    rate, best = 30.0, math.inf
    for row in table.itertuples():
        assert row.learning_rate == rate
        if row.valid_perplexity < best:
            best = row.valid_perplexity
        else:
            rate /= 4.0
    assert rate < 30.0, "the case must hold at least one annealing"
    at_best = table.test_perplexity[table.valid_perplexity.idxmin()]
    assert table.test_perplexity.iloc[-1] == at_best


def test_a_fixed_plan_divides_the_rate_after_its_flat_epochs():
    config = replace(TRAINING, n_epochs=5, annealing=2.0, n_flat_epochs=3)
    table = language_model_perplexity(make_text(n_train=60), MODEL, config, seed=0)
    assert table.learning_rate.tolist() == [5.0, 5.0, 5.0, 2.5, 1.25]


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=HALF)])
def test_a_run_stopped_between_epochs_resumes_to_the_same_bits(tmp_path, precision):
    text, config = make_text(), replace(TRAINING, precision=precision)
    whole = language_model_perplexity(text, MODEL, config, seed=0, checkpoint=tmp_path / "whole.safetensors")
    model = LSTMLanguageModel(MODEL, seed=0)
    loop = train_language_model(model, text, config, seed=0)
    first = next(loop)
    loop.close()
    rest = list(train_language_model(model, text, config, seed=0, done=[first]))
    resumed = pd.DataFrame([first, *rest])
    pd.testing.assert_frame_equal(without_seconds(whole), without_seconds(resumed), check_exact=True)
    again = language_model_perplexity(text, MODEL, config, seed=0, checkpoint=tmp_path / "whole.safetensors")
    pd.testing.assert_frame_equal(whole, again, check_exact=True)  # read back, nothing trained


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path, config = tmp_path / "run.safetensors", replace(TRAINING, n_epochs=1)
    language_model_perplexity(make_text(), MODEL, config, seed=0, checkpoint=path)
    with pytest.raises(ValueError, match=r"run.safetensors belongs to a run with other model, seed, data"):
        language_model_perplexity(
            make_text(seed=1), replace(MODEL, dropout=0.5), config, seed=1, checkpoint=path
        )


def test_a_checkpoint_cut_short_is_refused(tmp_path):
    path, config = tmp_path / "run.safetensors", replace(TRAINING, n_epochs=1)
    language_model_perplexity(make_text(), MODEL, config, seed=0, checkpoint=path)
    whole = path.read_bytes()
    for keep in (0, 5, 100, -1):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match=r"is not a whole checkpoint .* move it away to start again"):
            language_model_perplexity(make_text(), MODEL, config, seed=0, checkpoint=path)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_step_and_seed():
    model = LSTMLanguageModel(MODEL, seed=0)
    with torch.no_grad():
        model.bias[3] = math.nan
    with pytest.raises(FloatingPointError, match="at step 0 of epoch 1, seed 7: lower the learning rate"):
        next(train_language_model(model, make_text(), TRAINING, seed=7))
