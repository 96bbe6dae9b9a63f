"""The chapters on EXor: sweeps, and the frames of their players."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.tying import exor_accuracy
from book.tying import exor_charts as chapter
from book.tying.experiments import exor_runs, spellings
from book.tying.languages.exor import SYMBOLS


@pytest.mark.parametrize(
    ("text", "message"), [("1A 0C ?", "'0C' is no symbol"), ("1A ? E", "tokens must be")]
)
def test_strings_that_are_none_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        exor_accuracy.read_string(text)


def test_a_sweep_of_the_paper_s_coin_is_the_paper_s_run_at_another_rate(monkeypatch):
    sweep = spellings.Sweep(0.1, n_steps=20, n_seeds=1, learning_rate=5e-3)
    run = exor_runs.EXorRun(n_steps=20, n_seeds=1, learning_rate=5e-3)
    session = exor_runs.prepare(run)
    session.optimizer = dataclasses.replace(session.optimizer, half_period=20)
    monkeypatch.setattr(exor_runs, "prepare", lambda config: session)
    swept, stored = spellings.exor_sweep.function(sweep), exor_runs.exor.function(run)
    keys = ["seed", "tied", "step", "quantity"]
    both = swept.merge(stored, on=keys, suffixes=("", "_stored"))
    assert len(both) == len(swept)
    np.testing.assert_array_equal(both["value"], both["value_stored"])


def made_plane(S=3, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(S, len(SYMBOLS), 2))


def test_every_frame_is_centred_on_its_bits_and_scaled_by_their_spread():
    plane = made_plane()
    curves = pd.DataFrame({"accuracy": np.linspace(0, 0.7, len(plane)), "loss_gap": 0.5})
    table = chapter.plane_frames({"input": plane, "output": 2 * plane}, range(len(plane)), curves)
    for frame, rows in table.groupby("frame"):
        bits = plane[frame, :4] - plane[frame, :4].mean(axis=0)
        spread = np.sqrt((bits**2).sum(axis=1).mean())
        shown = rows[["x_input", "y_input"]].to_numpy()[:4]
        np.testing.assert_allclose(shown, np.clip(bits / spread, -chapter.EDGE, chapter.EDGE))


def test_the_principal_plane_keeps_as_much_of_the_last_step_as_any_and_follows_no_rotation_or_shift():
    rng = np.random.default_rng(0)
    weights, turn = rng.normal(size=(5, 7, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    plane = chapter.principal_plane(weights)
    scatter = np.cov(weights[-1].T, bias=True)
    assert (plane[-1] ** 2).sum() / 7 == pytest.approx(np.sort(np.linalg.eigvalsh(scatter))[-2:].sum())
    assert plane[-1].mean(axis=0) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(chapter.principal_plane(weights @ turn + 5.0), plane, atol=1e-9)


def test_turning_a_plane_back_finds_the_frame_before():
    plane = made_plane(1)
    turn = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
    for turned in (plane @ turn, plane @ turn * [1, -1]):
        np.testing.assert_allclose(chapter.turned_to(turned, plane), plane, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_live_frames_fit_the_recording_and_show_the_runs_start(tied):
    live = chapter.live_frames(0.3, tied, every=5)
    first, second = next(live), next(live)
    live.close()
    assert [frame["frame"].unique().tolist() for frame in (first, second)] == [[0], [5]]
    assert set(first.columns) == set(chapter.sweep_frames([0.5, 0.1]).columns) - {"p_0a", "tied"}
    assert np.isfinite(second.select_dtypes("number")).all(axis=None)
    if tied:  # one matrix in both planes
        np.testing.assert_array_equal(second[["x_input", "y_input"]], second[["x_output", "y_output"]])
