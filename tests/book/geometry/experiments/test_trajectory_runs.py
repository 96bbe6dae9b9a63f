"""Recorded runs, their drawings and what is said of them: against the pipeline, definitions, and refusals."""

import copy
import dataclasses
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import (
    trajectory_drawings,
    trajectory_findings,
    trajectory_recordings,
    trajectory_runs,
)
from book.geometry.experiments.trajectory_drawings import (
    DATA,
    OF_TENSOR,
    DrawnTensor,
    drawings_of_tensor,
    drawn,
    numbers_of,
)
from book.geometry.experiments.trajectory_findings import STUDIES
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    NO_Q,
    Pipeline,
    TrajectoryRun,
    recorded,
)
from book.language import draw_batch, load_streams, next_token_losses
from book.transformer import Transformer
from embviz.ledger import cells
from embviz.metrics import procrustes_disparity
from embviz.trajectories.nulls import measure
from embviz.trajectories.phases import Clustering, find_phases
from embviz.trajectories.traces import lay_out, trace
from embviz.trajectories.weight_paths import rotate, weight_path
from tests.tiny_runs import PIPELINE, SETTING, SOURCE, TINY, tiny_runs

JUDGED = {"method": "pymde", "n_neighbors": 8}


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectories")
    with tiny_runs(folder):
        yield folder


@pytest.fixture(scope="module")
def stored(folders):
    """All cells of the two studies of short stories; web text is drawn and judged as they are."""
    for name in ("geometry.trajectories_q", "geometry.trajectories_shape"):
        cells.run(STUDIES[name].preset_cells("quick"), n_jobs=1, progress=False)


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


def test_a_recording_is_made_once_for_all_pipelines_and_again_where_it_is_missing(folders, monkeypatch):
    first = recorded(TINY)
    with monkeypatch.context() as patch:
        patch.setattr(trajectory_recordings, "_record", None)  # a call would fail
        same = recorded(dataclasses.replace(TINY, pipeline=Pipeline()))
    assert same.folder == first.folder
    first.folder.rename(folders / "moved")
    again = recorded(TINY)
    assert again.folder == first.folder
    for name, numbers in first.tensors.items():
        np.testing.assert_array_equal(again.tensors[name], numbers)  # the same bits on one machine


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


def test_a_drawing_needs_its_recording_and_not_the_text(stored, monkeypatch):
    monkeypatch.setattr(trajectory_recordings, "load_streams", None)  # a call would fail
    table = drawings_of_tensor.function(DrawnTensor(TINY, "V 1"))
    assert table.attrs["data"] == {"embedded": load_streams(SOURCE).checksum}


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


def test_a_long_recording_is_thinned_evenly_and_its_measures_are_not(monkeypatch):
    whole = drawings_of_tensor.function(DrawnTensor(TINY, "embedding"))
    monkeypatch.setattr(trajectory_drawings, "KEPT", 20)
    thin = drawings_of_tensor.function(DrawnTensor(TINY, "embedding"))
    assert drawn(thin)["step"].unique().tolist() == list(range(0, 81, 4))
    pd.testing.assert_frame_equal(numbers_of(thin), numbers_of(whole))
    every = drawn(whole)
    kept = every[every["step"] % 4 == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(drawn(thin).reset_index(drop=True), kept)


def test_alternatives_are_measured_of_data_and_a_walk_and_without_extras_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not installed
    pipeline = dataclasses.replace(PIPELINE, neighbors=(8, 5), n_walks=1, alternatives=True)
    run = dataclasses.replace(TINY, pipeline=pipeline)
    table = numbers_of(drawings_of_tensor.function(DrawnTensor(run, "embedding")))
    judged = table[(table["method"] == "pymde") & (table["n_neighbors"] == 8)].set_index("path")
    assert judged.index.tolist() == [DATA, "random walk 0", "shuffled losses"]
    for name in ("stability", "held_out_prediction", "hmm_states"):
        assert judged.loc[[DATA, "random walk 0"], name].notna().all()
        assert np.isnan(judged.loc["shuffled losses", name])
    assert table["umap_agreement"].isna().all()
    assert "umap" not in set(table["method"])
    assert table[table["n_neighbors"] == 5]["stability"].isna().all()  # of the judged drawing alone


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


def test_a_stored_bottleneck_is_the_pipelines_and_draws_its_layout(stored):
    cells.run(trajectory_runs.code_cells(TINY), n_jobs=1, progress=False)
    recording = recorded(TINY)
    known = weight_path(
        "V 1", recording.tensors["blocks.0.attention.value.weight"], recording.steps, recording.losses
    )
    traced = trace(rotate(known), PIPELINE.recipe, seed=0)
    code = traced.encoded - traced.encoded.mean(axis=0)
    code /= np.sqrt((code**2).sum(axis=1).mean())
    steps, places = trajectory_runs.code(TINY, "V 1")
    assert steps.tolist() == recording.steps.tolist()
    np.testing.assert_allclose(places, code, atol=1 / 131_072)  # half a grain
    np.testing.assert_allclose(lay_out(places, PIPELINE.recipe.layout, seed=0), traced.layout, atol=1e-3)
    walk, again = (trajectory_runs.code(TINY, "V 1", path=f"random walk {i}")[1] for i in (0, 1))
    assert walk.shape == places.shape
    assert not len(again)  # the first walk alone
    assert trajectory_runs.code(TINY, "all")[1].shape == places.shape
    with pytest.raises(FileNotFoundError, match="not stored"):
        trajectory_runs.code(dataclasses.replace(TINY, seed=1), "embedding")


# --- reading ------------------------------------------------------------------------------------------


def test_what_is_asked_for_and_not_there_is_refused_with_what_is(stored):
    with pytest.raises(ValueError, match=r"seed 0 has no 'Q 2': there are Q 1, K 1"):
        trajectory_runs.layout(TINY, "Q 2")
    with pytest.raises(ValueError, match=r"no layout 'data umap 8': there are data pymde 8, data pca 0"):
        trajectory_runs.layout(TINY, "Q 1", method="umap")
    with pytest.raises(ValueError, match="two seeds at least"):  # nothing independent stands beside it
        trajectory_findings.shape_table([TINY])


# --- findings -----------------------------------------------------------------------------------------


def made_measures(values: dict[tuple[str, int, str], float]) -> pd.DataFrame:
    rows = [
        {"kind": kind, "layer": layer, "path": path, "n_phases": value, **JUDGED}
        for (kind, layer, path), value in values.items()
    ]
    return pd.DataFrame(rows)


def test_q_is_held_against_the_mean_of_the_others_over_layers_and_equal_kinds_have_no_order(monkeypatch):
    values = {("Q", 1, DATA): 5, ("Q", 2, DATA): 3, ("K", 1, DATA): 3, ("K", 2, DATA): 3}
    values |= {(kind, 1, DATA): value for kind, value in (("V", 2), ("MLP-up", 2), ("MLP-down", 1))}
    values |= {("Q", 1, "random walk 0"): 1, ("Q", 1, "random walk 1"): 2}
    monkeypatch.setattr(trajectory_runs, "measures", lambda run: made_measures(values))
    assert trajectory_findings.q_minus_others([TINY], "n_phases") == pytest.approx([4 - 2])
    assert trajectory_findings.order_agreement([TINY], "n_phases") == pytest.approx([1.0])
    walks = trajectory_findings.kinds_table([TINY], "n_phases", "random walk")
    assert walks["value"].tolist() == [1.5]
    values = {(kind, 1, DATA): 2.0 for kind in trajectory_recordings.PARAMETERS}
    assert trajectory_findings.order_agreement([TINY], "n_phases") == pytest.approx([0.0])


def test_a_shape_is_held_against_independent_embeddings_and_walks(stored):
    runs = trajectory_runs.story_runs("quick")
    table = trajectory_findings.shape_table(runs).set_index(["seed", "tensor"])
    planes = {
        (run.seed, path, name): trajectory_runs.layout(run, name, path=path)[["x", "y"]].to_numpy(float)
        for run in runs
        for name in ("V 1", "embedding")
        for path in (DATA, "random walk 0", "random walk 1")
    }
    row = table.loc[(0, "V 1")]
    assert row["disparity"] == procrustes_disparity(planes[0, DATA, "V 1"], planes[0, DATA, "embedding"])
    assert row["between_runs"] == procrustes_disparity(planes[0, DATA, "V 1"], planes[1, DATA, "embedding"])
    draws = [f"random walk {i}" for i in range(2)]
    walks = [procrustes_disparity(planes[0, walk, "V 1"], planes[0, walk, "embedding"]) for walk in draws]
    assert row["walks"] == pytest.approx(np.mean(walks))
    own = [procrustes_disparity(planes[0, DATA, "V 1"], planes[0, walk, "V 1"]) for walk in draws]
    assert row["own_walks"] == pytest.approx(np.mean(own))
    assert row["among_walks"] == procrustes_disparity(*(planes[0, walk, "V 1"] for walk in draws))
    left = (row["two_arms"] - row["two_arms_walks"]) / (1 - row["two_arms_walks"])
    assert row["two_arms_left"] == pytest.approx(left)
    matrix = trajectory_findings.disparity_matrix(runs[0])
    assert matrix.loc["V 1", "embedding"] == pytest.approx(row["disparity"])
    assert table.loc[(0, "embedding"), "disparity"] == pytest.approx(0, abs=1e-12)


def test_intervals_end_where_a_number_can_go_no_further(monkeypatch):
    """Student's interval of three shares, two of them 1, reaches beyond 1."""
    runs = [dataclasses.replace(TINY, seed=seed) for seed in range(3)]
    means = pd.DataFrame({"seed": [0, 1, 2], "tensor": "Q 1", "disparity": [0.001, 0.002, 0.09]})
    means = means.assign(between_runs=0.2, walks=0.2, two_arms_left=[1.0, 1.0, 0.8])
    monkeypatch.setattr(trajectory_findings, "shape_table", lambda runs: means)
    found = trajectory_findings.shape_findings(runs)
    for name in ("disparity", "against_runs", "against_walks"):
        assert found[name].low == 0, name
    assert found["two_arms_left"].high == 1
