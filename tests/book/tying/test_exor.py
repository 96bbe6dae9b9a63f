"""The chapters on EXor: tidy tables of stored cells, and players."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.tying import exor as chapter
from book.tying.experiments import exor, exor_runs, spellings
from book.tying.languages.exor import SYMBOLS, ZERO_A, ZERO_B, EXor
from tests.book.tying.short_runs import N_STEPS, stored_briefly

CACHED = (chapter.curves, chapter.sweep)


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    cells = [exor.cell_of(run, "quick") for run in chapter.TASKS.values()] + spellings.sweep_cells("quick")
    with stored_briefly(tmp_path_factory.mktemp("results"), cells, CACHED):
        yield


# --- from cells to tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "pair"), [("both pairs", "11"), ("only 0A and 0B", "00")])
@pytest.mark.parametrize("matrix", chapter.MATRICES)
def test_distances_are_those_of_the_stored_embeddings(task, pair, matrix):
    table = chapter.distances(chapter.last(chapter.curves(task)))
    end = table[(table["matrix"] == matrix) & (table["pair"] == chapter.PAIRS[pair])].set_index("seed")
    u, v = {"11": (2, 3), "00": (0, 1)}[pair]
    one = 2 if task == "only 0A and 0B" else 3  # which spelling of 1 there is
    for seed in chapter.TASKS[task].seeds[:2]:
        E = chapter.ends(task)[matrix, seed]
        distance = np.linalg.norm(E[u] - E[v])
        # cells hold single precision, about seven digits
        assert end.loc[seed, "distance"] == pytest.approx(distance, rel=1e-5)
        ratio = distance / np.linalg.norm(E[0] - E[one])
        assert end.loc[seed, "relative_distance"] == pytest.approx(ratio, rel=1e-5)


def test_a_pair_that_a_task_leaves_out_has_no_line():
    table = chapter.distances(chapter.curves("only 1A and 1B"))
    assert set(table["pair"]) == {chapter.PAIRS["11"], chapter.PAIRS["01"]}
    unrelated = table[table["pair"] == chapter.PAIRS["01"]]
    assert (unrelated["relative_distance"] == 1).all()


def test_a_task_without_a_stored_run_is_refused_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"run tying\.dh_fails --preset quick"):
        chapter.stored_preset("only 0A and 0B")
    with pytest.raises(FileNotFoundError, match="no sweep over probabilities of 0A is stored"):
        spellings.stored_preset()


def test_the_principal_plane_keeps_as_much_of_the_last_step_as_any_and_follows_no_rotation_or_shift():
    rng = np.random.default_rng(0)
    weights, turn = rng.normal(size=(5, 7, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    plane = chapter.principal_plane(weights)
    scatter = np.cov(weights[-1].T, bias=True)
    assert (plane[-1] ** 2).sum() / 7 == pytest.approx(np.sort(np.linalg.eigvalsh(scatter))[-2:].sum())
    assert plane[-1].mean(axis=0) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(chapter.principal_plane(weights @ turn + 5.0), plane, atol=1e-9)


# --- coins ----------------------------------------------------------------------------------------------


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


def test_the_rate_of_a_sweep_only_falls():
    optimizer = spellings.sweep_session(spellings.Sweep(n_steps=100, n_seeds=1)).optimizer
    rates = [optimizer.rate(step) for step in range(101)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(50 * rates[-1])  # as far as the paper's falls


def test_sweep_pictures_are_the_embeddings_whose_distances_the_curves_hold():
    table = spellings.sweep_curves("quick")
    assert sorted(table["p_0a"].unique()) == [0.1, 0.5]
    for (coin, tied, matrix), (steps, E) in spellings.sweep_pictures("quick").items():
        own = table[(table["p_0a"] == coin) & (table["tied"] == tied) & (table["seed"] == 0)]
        assert steps == own["step"].tolist() == list(range(N_STEPS + 1))
        distance = np.linalg.norm(E[:, ZERO_A] - E[:, ZERO_B], axis=1)
        np.testing.assert_allclose(own[f"{matrix}_00"], distance, rtol=1e-5)  # single precision
        unrelated = np.linalg.norm(E[:, 0] - E[:, 3], axis=1)
        np.testing.assert_allclose(own[f"relative_{matrix}_00"], distance / unrelated, rtol=1e-5)


# --- players and panels ---------------------------------------------------------------------------------


def made_plane(S=3, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(S, len(SYMBOLS), 2))


def frames_of(plane) -> pd.DataFrame:
    curves = pd.DataFrame({"accuracy": np.linspace(0, 0.7, len(plane)), "loss_gap": 0.5})
    return chapter.plane_frames({"input": plane, "output": 2 * plane}, range(len(plane)), curves)


def test_every_frame_is_centred_on_its_bits_and_scaled_by_their_spread():
    plane = made_plane()
    table = frames_of(plane)
    for frame, rows in table.groupby("frame"):
        bits = plane[frame, :4] - plane[frame, :4].mean(axis=0)
        spread = np.sqrt((bits**2).sum(axis=1).mean())
        shown = rows[["x_input", "y_input"]].to_numpy()[:4]
        np.testing.assert_allclose(shown, np.clip(bits / spread, -chapter.EDGE, chapter.EDGE))
    assert table[["x_input", "y_input"]].abs().to_numpy().max() <= chapter.EDGE


def test_turning_a_plane_back_finds_the_frame_before():
    plane = made_plane(1)
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for turned in (plane @ turn, plane @ turn * [1, -1]):
        np.testing.assert_allclose(chapter.turned_to(turned, plane), plane, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_live_frames_fit_the_recording_and_show_the_runs_start(tied):
    recording = chapter.sweep_frames([0.5, 0.1])
    live = chapter.live_frames(0.3, tied, every=5)
    first, second = next(live), next(live)
    live.close()
    assert [frame["frame"].unique().tolist() for frame in (first, second)] == [[0], [5]]
    assert set(first.columns) == set(recording.columns) - {"p_0a", "tied"}
    assert np.isfinite(second.select_dtypes("number")).all(axis=None)
    if tied:  # one matrix in both planes
        np.testing.assert_array_equal(second[["x_input", "y_input"]], second[["x_output", "y_output"]])


def test_recorded_frames_hold_each_run_s_own_curves():
    frames, table = chapter.recorded_frames(every=3), chapter.curves()
    own = frames[(frames["seed"] == 1) & frames["tied"] & (frames["symbol"] == "E")]
    expected = table[(table["seed"] == 1) & table["tied"]]
    expected = expected[expected["step"].isin([1, 4, 7, 10])]  # every third, counted from the last
    assert own["frame"].tolist() == expected["step"].tolist() == [1, 4, 7, 10]
    assert own["accuracy"].tolist() == expected["accuracy"].tolist()
