"""Other readings of the trajectories' pipeline: what each changes, the batch's loss, and refusals."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import trajectory_readings as readings
from book.geometry.experiments.trajectory_readings import (
    BATCH,
    JUDGED,
    LONG_WALK,
    NUMBERS,
    OTHER,
    READINGS,
    TOGETHER,
    UNTOLD,
    WALK,
    ReadRun,
    trajectory_readings,
)
from book.geometry.experiments.trajectory_recordings import batch_losses, recorded
from embviz.models.transformer import Transformer
from embviz.training.language import draw_batch, load_streams, next_token_losses
from embviz.trajectories.nulls import step_correlations
from tests.tiny_runs import SOURCE, TINY, tiny_runs

OTHER_SEED = dataclasses.replace(TINY, seed=1)


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory):
    with tiny_runs(tmp_path_factory.mktemp("readings")):
        yield


def paths(reading):
    return readings._paths(ReadRun(TINY, reading, other=1))


def test_the_batchs_loss_is_that_of_the_batch_that_is_trained_on_next():
    model, streams = Transformer(TINY.shape(256), seed=0), load_streams(SOURCE)
    setting = TINY.setting
    batch = draw_batch(streams.train, seed=0, step=0, batch_size=setting.batch_size, length=setting.length)
    with torch.no_grad():
        expected = next_token_losses(model, batch).mean().item()
    found = batch_losses(TINY)
    assert len(found) == len(recorded(TINY).steps)
    assert found[0] == pytest.approx(expected, abs=2e-6)  # six digits are kept
    assert np.abs(found - recorded(TINY).losses).max() > 0.01


def test_a_reading_changes_the_losses_or_the_weights_and_nothing_else():
    own = paths(JUDGED)
    for reading, losses in ((BATCH, batch_losses(TINY)), (OTHER, recorded(OTHER_SEED).losses)):
        for one, path in zip(own, paths(reading), strict=True):
            np.testing.assert_array_equal(path.weights, one.weights)
            np.testing.assert_array_equal(path.losses, losses)
    for reading in (UNTOLD, TOGETHER):
        for one, path in zip(own, paths(reading), strict=True):
            np.testing.assert_array_equal(path.weights, one.weights)
    for one, walk in zip(own, paths(WALK), strict=True):
        np.testing.assert_array_equal(walk.losses, one.losses)
        assert walk.weights.shape != one.weights.shape or np.abs(walk.weights - one.weights).max() > 0


def test_walks_that_remember_all_steps_have_more_of_the_paths_momentum():
    n_lags = len(recorded(TINY).steps) - 2
    wanted = np.array([step_correlations(path, n_lags) for path in paths(JUDGED)])
    off = {
        reading: np.abs([step_correlations(walk, n_lags) for walk in paths(reading)] - wanted).mean()
        for reading in (WALK, LONG_WALK)
    }
    assert off[LONG_WALK] < 0.8 * off[WALK]


@pytest.mark.parametrize("reading", [UNTOLD, TOGETHER])
def test_a_cell_has_the_numbers_of_every_matrix(reading):
    table = trajectory_readings.function(ReadRun(TINY, reading, other=1))
    assert list(table["tensor"]) == [name for name in TINY.tensors if name != "all"]
    assert set(NUMBERS) < set(table.columns)
    assert table.notna().all().all()
    assert table.set_index("tensor").loc["embedding", "disparity"] == pytest.approx(0, abs=1e-12)
    assert table["transition_p"].between(0, 1).all()
    if reading == UNTOLD:  # nothing is read off but the mean
        np.testing.assert_allclose(table["prediction"], 1, atol=1e-5)


def test_only_seeds_whose_readings_are_all_stored_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert readings.stored("quick").empty
    every = readings.cells("quick")
    monkeypatch.setattr(readings, "missing", lambda cells: every[-1:])  # of the last seed
    monkeypatch.setattr(readings, "table_of", lambda cell: pd.DataFrame({"transition_p": [0.5]}))
    table = readings.stored("quick")
    assert list(table["reading"]) == list(READINGS)
    assert set(table["seed"]) == {0}


def test_an_unknown_reading_is_refused():
    with pytest.raises(ValueError, match="reading is 'mine': choose one of as judged"):
        ReadRun(TINY, "mine", other=1)
