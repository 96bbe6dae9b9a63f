"""Base models that are carried to other widths: their tables, their rounding, what is read of them."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
import torch

from book.language import TextConfig, windows
from book.resizing.decoder import DecoderConfig
from book.resizing.experiments import bases
from book.resizing.experiments.bases import (
    Base,
    BaseRun,
    base_weights,
    calibration,
    held_out_loss,
    load,
    model_of,
)

TINY = BaseRun(
    TextConfig("embedded", n_documents=40, n_held_out=1),
    DecoderConfig(1, 16, 8, 2, 2, mlp_dim=16),
    bases.training(6, 4, 16, 1e-2),
    n_scores=2,
)

pytestmark = pytest.mark.usefixtures("own_runs")


@functools.cache
def table_of(run: BaseRun) -> pd.DataFrame:
    """Computed once; in the cache folder of whichever test asks first."""
    return base_weights.function(run)


def loaded(run: BaseRun = TINY) -> Base:
    return load(run)


def test_stored_weights_have_eight_significant_bits_and_the_score_is_theirs():
    found = loaded()
    for array in found.model.state_dict().values():
        torch.testing.assert_close(array, array.bfloat16().float(), rtol=0, atol=0)
    assert held_out_loss(found.model, found) == pytest.approx(
        found.log_perplexity, rel=1e-6
    )  # stored float32
    before = found.scores["log_perplexity"].iloc[-1]
    assert 0 < abs(found.log_perplexity - before) < 0.01  # rounding at 2^-9 costs little, but not nothing
    assert found.steps == 6
    assert not found.model.training


def test_the_loss_is_the_mean_over_held_out_tokens_of_log_probabilities():
    found = loaded()
    held = torch.from_numpy(found.streams.held_out.ids.astype(np.int64))
    length = found.length
    with torch.no_grad():  # every token from its own window, one at a time
        total = 0.0
        starts, _, fresh = windows(len(held) - 1, length)
        for start, counted in zip(starts, fresh, strict=True):
            tokens = held[start : start + length + 1]
            logs = found.model(tokens[None, :-1])[0].log_softmax(-1)
            total -= float(logs[torch.arange(length), tokens[1:]][torch.from_numpy(counted)].sum())
    assert total / (len(held) - 1) == pytest.approx(found.log_perplexity, rel=1e-5)  # float32 sums


def test_weights_of_another_model_are_refused_by_the_parameters_name():
    shape = dataclasses.replace(TINY.shape, mlp_dim=32)
    with pytest.raises(
        ValueError, match=r"blocks\.0\.up\.weight of the model has 256 numbers, the table 128"
    ):
        model_of(shape, table_of(TINY))
    with pytest.raises(ValueError, match=r"free_head of the model has 2048 numbers, the table none"):
        model_of(dataclasses.replace(TINY.shape, tied=False), table_of(TINY))


def test_calibration_states_are_rows_of_the_residual_stream_on_training_text():
    found = loaded()
    drawn = calibration(found, 40, seed=3)
    assert drawn.shape == (40, 8)
    assert drawn.dtype == np.float64
    np.testing.assert_array_equal(drawn, calibration(found, 40, seed=3))
    assert not np.array_equal(drawn, calibration(found, 40, seed=4))
    tokens = bases.draw_batch(
        found.streams.train, seed=3, step=0, batch_size=bases.BATCH, length=found.length
    )
    with torch.no_grad():
        states = torch.stack(found.model.states(tokens[:, :-1])).double().numpy()  # (L + 1, B, T, D)
    gaps = np.abs(states.reshape(-1, 8)[:, None] - drawn).max(-1)  # (states, 40)
    nearest = gaps.argmin(0)
    np.testing.assert_array_equal(gaps[nearest, np.arange(40)], 0.0)
    assert set(nearest // (states.shape[1] * states.shape[2])) == {0, 1, 2}  # every layer
    with pytest.raises(ValueError, match="n = 0"):
        calibration(found, 0)


def test_base_models_come_first_until_all_that_starts_from_them_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    made = [base_weights.cell(dataclasses.replace(TINY, seed=seed)) for seed in (1, 2)]  # stand for ports
    first = base_weights.cell(TINY)
    assert bases.with_bases([TINY, TINY], made) == [first, *made]
    for cell in made:
        assert bases.with_bases([TINY], made) == [first, *made]
        cell.path.parent.mkdir(parents=True, exist_ok=True)
        cell.path.touch()
    assert bases.with_bases([TINY], made) == made
