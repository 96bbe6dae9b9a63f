"""Recorded runs and their drawings, against the pipeline."""

import copy
import dataclasses
import itertools
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from book.geometry.experiments import (
    trajectory_drawings,
    trajectory_recordings,
    trajectory_runs,
)
from book.geometry.experiments.steering_language import Setting
from book.geometry.experiments.trajectory_drawings import (
    DATA,
    OF_TENSOR,
    DrawnTensor,
    drawings_of_tensor,
    drawn,
    numbers_of,
)
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    NO_Q,
    Pipeline,
    TrajectoryRun,
    recorded,
)
from book.language import TextConfig, draw_batch, load_streams, next_token_losses
from book.ledger import cells
from book.transformer import Transformer
from embviz.metrics import procrustes_disparity
from embviz.runs import Run, Sketch
from embviz.trajectories.nulls import measure
from embviz.trajectories.phases import Clustering, find_phases
from embviz.trajectories.traces import trace
from embviz.trajectories.weight_paths import rotate, weight_path

SETTING = Setting(8, 1, 2, 16, 8, 2, 80, 1e-2)
PIPELINE = Pipeline((8,), (8, 5), n_walks=2, n_epochs=3, max_iter=5, n_permutations=5, alternatives=False)
SOURCE = TextConfig("embedded", n_documents=40, n_held_out=1)
TINY = TrajectoryRun(SOURCE, setting=SETTING, sketch=32, pipeline=PIPELINE)


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory):
    """Nothing stored and nothing begun."""
    folder = tmp_path_factory.mktemp("trajectories")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(folder / "results"))
        for module in (trajectory_recordings, cells):
            patch.setattr(module, "cache_folder", lambda: folder / "cache")
        yield


@pytest.fixture(scope="module")
def stored(folders):
    """The drawings of one run."""
    cells.run(trajectory_runs.cells_of(TINY), n_jobs=1, progress=False)


# --- recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["quick", "laptop"])
def test_the_tensors_of_a_kind_are_the_models_the_joint_path_has_them_all_and_without_q_there_is_none(preset):
    run = TINY if preset == "quick" else TrajectoryRun(SOURCE)
    with torch.device("meta"):
        known = dict(Transformer(run.shape(256), seed=0).named_parameters())
    every = run.parameters("all")
    assert set(every.values()) <= set(known)
    assert len(every) == 5 * run.setting.n_layers + 1
    assert {name: known for kind in run.kinds[:-1] for name, known in run.parameters(kind).items()} == every
    without = dataclasses.replace(run, variant=NO_Q)
    assert "Q" not in without.kinds
    assert not any("query" in name for name in without.parameters("all").values())
    assert dataclasses.replace(run, variant=DECAY).kinds == ("all",)  # a single path


def test_a_recording_has_the_weights_and_the_loss_of_the_same_sequences_from_before_the_first_update():
    recording = recorded(TINY)
    assert recording.steps.tolist() == list(range(0, 81, 2))
    model, streams = Transformer(TINY.shape(256), seed=0), load_streams(SOURCE)
    sample = draw_batch(streams.train, seed=1_000_003, step=0, batch_size=2, length=8)
    with torch.no_grad():
        loss = next_token_losses(model, sample).mean().item()
    assert recording.losses[0] == pytest.approx(loss, rel=1e-6)  # float32
    assert recording.losses[-1] < recording.losses[0]
    project = recording.run.sketch.projection("embedding", (256, 8))
    assert recording.tensors["embedding"][0] == pytest.approx(project(model.embedding).detach().numpy())


def test_the_distortion_is_that_of_loops_over_pairs_of_full_snapshots(tmp_path):
    generator, kept = torch.Generator().manual_seed(0), []
    weights = {"embedding": torch.zeros(40, 20), "bias": torch.zeros(20), "still": torch.ones(40, 20)}
    with Run.open(tmp_path / "run", sketch=30) as run:
        for step in range(1, 21):
            for name in ("embedding", "bias"):
                weights[name] = weights[name] + torch.randn(weights[name].shape, generator=generator)
            run.append(step, weights)
            kept.append(dict(weights))
    table = trajectory_recordings.distortion(run).set_index("tensor")
    project, errors, together = Sketch(30).projection("embedding", (40, 20)), [], []
    for a, b in itertools.combinations([1, 2, 4, 5, 16, 17], 2):
        away = {name: kept[a - 1][name] - kept[b - 1][name] for name in weights}
        true, sketched = float(away["embedding"].norm()), float(project(away["embedding"]).norm())
        errors.append(abs(sketched / true - 1))
        bias = float(away["bias"].square().sum())
        together.append(abs(math.sqrt((sketched**2 + bias) / (true**2 + bias)) - 1))
    # sketches are float32 and distances differences of them
    np.testing.assert_allclose(table.loc["embedding"], np.quantile(errors, [0.5, 0.95, 1]), rtol=1e-3)
    np.testing.assert_allclose(table.loc["(all)"], np.quantile(together, [0.5, 0.95, 1]), rtol=1e-3)
    assert table.loc["bias", "worst"] == 0
    assert table.loc["still"].isna().all()  # it never moved


def test_a_recording_that_broke_off_is_not_taken_for_a_whole_one(monkeypatch):
    run = dataclasses.replace(TINY, seed=7)
    with monkeypatch.context() as patch:
        patch.setattr(trajectory_recordings, "score", None)  # fails after all snapshots
        with pytest.raises(TypeError):
            recorded(run)
    assert not trajectory_recordings._folder(run).is_dir()
    assert len(recorded(run).steps) == 41  # over what was left


def test_several_workers_make_a_recording_once(monkeypatch):
    run, train, made = dataclasses.replace(TINY, seed=8), trajectory_recordings._train, []

    def counted(run, *rest):
        made.append(run)
        time.sleep(0.2)  # the others come meanwhile
        train(run, *rest)

    monkeypatch.setattr(trajectory_recordings, "_train", counted)
    with ThreadPoolExecutor(3) as pool:
        recordings = list(pool.map(recorded, [run] * 3))
    assert len(made) == 1
    assert len({recording.folder for recording in recordings}) == 1


def test_an_optimizer_with_nothing_to_learn_from_shrinks_all_tensors_alike():
    recording = recorded(dataclasses.replace(TINY, variant=DECAY))
    rates = [SETTING.training.optimizer.rate(step) for step in range(80)]
    shrunk = np.cumprod([1.0, *(1 - 0.1 * np.array(rates))])[::2]
    for numbers in recording.tensors.values():
        # float32 adds up 80 roundings
        np.testing.assert_allclose(numbers, shrunk[:, None] * numbers[0], rtol=1e-4, atol=1e-6)
    assert np.ptp(recording.losses) > 0


# --- drawings -----------------------------------------------------------------------------------------


def test_a_cell_holds_what_the_pipeline_makes_of_the_recording(stored):
    recording = recorded(TINY)
    path = weight_path(
        "K 1", recording.tensors["blocks.0.attention.key.weight"], recording.steps, recording.losses
    )
    traced = trace(rotate(path), PIPELINE.recipe, seed=0)
    drawn = trajectory_runs.layout(TINY, "K 1")
    plane = traced.layout - traced.layout.mean(axis=0)
    plane /= np.sqrt((plane**2).sum(axis=1).mean())
    np.testing.assert_allclose(drawn[["x", "y"]], plane, atol=1 / 1024)  # half a grain
    assert drawn["phase"].tolist() == drawn["phase_8"].tolist() == traced.phases.labels.tolist()
    assert drawn["phase_5"].tolist() == find_phases(traced.layout, Clustering(5)).labels.tolist()
    assert drawn["loss"].tolist() == pytest.approx(recording.losses.tolist(), rel=1e-6)
    measures = trajectory_runs.measures(TINY)
    row = measures[(measures[["tensor", "path", "method"]] == ["K 1", DATA, "pymde"]).all(axis=1)].iloc[0]
    assert set(OF_TENSOR).isdisjoint(measures.columns)
    expected = measure(traced, n_permutations=5)
    for name in ("n_phases", "noise", "sharpness", "layout_sharpness", "cosine_share", "reconstruction"):
        assert row[name] == pytest.approx(expected[name], rel=1e-5), name  # stored as float32


def test_walks_have_their_tensors_step_lengths_and_no_two_tensors_share_one(stored):
    measures = trajectory_runs.measures(TINY)
    for _, own in measures[measures["method"] == "pymde"].groupby("tensor"):
        assert own["sharpness"].max() == pytest.approx(own["sharpness"].min(), rel=1e-3)  # float32
    walks = [trajectory_runs.layout(TINY, name, path="random walk 0") for name in ("Q 1", "K 1", "embedding")]
    walks += [trajectory_runs.layout(TINY, "Q 1", path="random walk 1")]
    for one, other in itertools.combinations(walks, 2):
        assert procrustes_disparity(one[["x", "y"]], other[["x", "y"]]) > 0.01


def test_a_constant_loss_and_noise_alone_give_a_cell_of_numbers(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not installed
    still = copy.copy(recorded(TINY))
    still.__dict__["losses"] = np.ones(len(still.steps))
    monkeypatch.setattr(trajectory_drawings, "recorded", lambda run: still)
    pipeline = dataclasses.replace(PIPELINE, neighbors=(8, 5), sizes=(20,), n_walks=1, alternatives=True)
    stored = drawings_of_tensor.function(DrawnTensor(dataclasses.replace(TINY, pipeline=pipeline), "K 1"))
    assert np.isfinite(stored.select_dtypes("number").to_numpy()).all()
    table = numbers_of(stored)
    assert (table["prediction"] == 1).all()  # a loss without variance has none to predict
    for name in ("loss", "detrended", "transition"):
        assert (table[[f"{name}_correlation", f"{name}_lag", f"{name}_p"]] == [0, 0, 1]).all(axis=None)
    alone = table[table["n_phases"] == 0]
    assert len(alone)
    assert (alone[["dbcv", "noise", "n_transitions"]] == [-1, 1, 0]).all(axis=None)
    names = ["path", "method", "n_neighbors"]
    assert (drawn(stored).merge(alone[names], on=names)["phase_20"] == -1).all()
