"""Paths read from checkpoints: of Trainer's folders and of files, in order, with losses, and refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embviz.runs import Sketch
from embviz.trajectories import Recipe, checkpoints, read_checkpoints, trace
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.checkpoints import steps_of
from embviz.trajectories.nulls import measure
from embviz.trajectories.phases import Clustering
from embviz.trajectories.traces import Layout

STEPS = [50, 100, 1000, 200]


def weights(step):
    draw = torch.Generator().manual_seed(step)
    return {
        "h.0.attn.weight": step * torch.ones(3, 4) + torch.randn(3, 4, generator=draw),
        "h.0.mlp.weight": torch.randn(5, 3, generator=draw),
        "scale": torch.ones(()),
    }


@pytest.fixture
def run(tmp_path):
    """Folders as Trainer leaves them, the last with the log of all."""
    history = [{"step": step, "loss": 100 / step} for step in (50, 150, 1000)]
    for step in STEPS:
        folder = tmp_path / "run" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        save_file(weights(step), folder / "model.safetensors")
        log = {"log_history": [*history, {"step": 1000, "eval_loss": 3.0}]}
        (folder / "trainer_state.json").write_text(json.dumps(log), encoding="utf-8")
    (tmp_path / "run" / "README.md").write_text("no checkpoint", encoding="utf-8")
    return tmp_path / "run"


@pytest.fixture
def files(tmp_path):
    for step in STEPS:
        torch.save(weights(step), tmp_path / f"model_v2_step{step:05}.pt")
    return [tmp_path / f"model_v2_step{step:05}.pt" for step in STEPS]


@pytest.mark.parametrize("how", ["folder", "pattern", "paths"])
def test_checkpoints_come_in_order_with_the_logged_losses(run, how):
    source = {"folder": run, "pattern": f"{run}/checkpoint-*", "paths": list(run.glob("checkpoint-*"))}[how]
    paths = read_checkpoints(source)
    assert list(paths) == ["h.0.attn.weight", "h.0.mlp.weight"]
    path = paths["h.0.attn.weight"]
    assert path.steps.tolist() == sorted(STEPS)
    np.testing.assert_array_equal(
        path.weights, [weights(step)["h.0.attn.weight"].numpy().ravel() for step in sorted(STEPS)]
    )
    between = 2 + (100 - 50) / (150 - 50) * (100 / 150 - 2)
    np.testing.assert_allclose(path.losses[[0, 1, 3]], [2, between, 0.1])


@pytest.mark.parametrize("folder", ["run [v1]", "a*"])
def test_a_folder_that_is_there_is_meant_by_its_name_whatever_signs_are_in_it(run, folder):
    run = run.rename(run.with_name(folder))
    (run.parent / "run v" / "checkpoint-7").mkdir(parents=True)  # what patterns would mean
    (run.parent / "ab" / "checkpoint-7").mkdir(parents=True)
    for source in (run, str(run), f"{run}/checkpoint-*", f"{run}/*-[125]0*"):
        assert list(read_checkpoints(source)["h.0.attn.weight"].steps) == sorted(STEPS)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_checkpoints(f"{run}/step*")


@pytest.mark.parametrize("together", [1, 20])
def test_a_sketch_is_the_recorders_however_many_maps_are_in_memory(files, monkeypatch, together):
    monkeypatch.setattr(checkpoints, "TOGETHER", together)
    paths = read_checkpoints(files, sketch=4)
    for name in ("h.0.attn.weight", "h.0.mlp.weight"):
        project = Sketch(4).projection(name, weights(50)[name].shape)
        expected = [project(weights(step)[name]).numpy() for step in sorted(STEPS)]
        np.testing.assert_array_equal(paths[name].weights, expected)


def test_files_without_a_log_have_no_losses_unless_they_are_given(files):
    pattern = str(files[0].with_name("model_v2_step*.pt"))
    assert np.isnan(read_checkpoints(pattern, "*mlp*")["h.0.mlp.weight"].losses).all()
    given = read_checkpoints(files, "*mlp*", losses=[4, 3, 1, 2])["h.0.mlp.weight"]
    assert given.losses.tolist() == [4, 3, 2, 1]  # in the order of the files before
    by_step = read_checkpoints(files, "*mlp*", losses={50: 4, 100: 3, 200: 2, 1000: 1})["h.0.mlp.weight"]
    assert by_step.losses.tolist() == [4, 3, 2, 1]
    named = read_checkpoints(files, "*mlp*", steps=[1, 2, 4, 3])["h.0.mlp.weight"]
    assert named.steps.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(named.weights, given.weights)


def test_a_path_without_losses_is_traced_by_its_weights_alone(tmp_path):
    rng = np.random.default_rng(0)
    for step in range(60):
        place = np.zeros(20) if step < 30 else np.full(20, 9.0)
        torch.save({"w": torch.tensor(place + rng.normal(size=20))}, tmp_path / f"{step}.pt")
    path = read_checkpoints(tmp_path)["w"]
    recipe = Recipe(
        Autoencoder(bottleneck=2, hidden=8, n_epochs=20),
        Layout("pca"),
        Clustering(min_cluster_size=10, min_samples=3),
    )
    traced = trace(path, recipe, seed=0)
    assert traced.phases.n_phases == 2
    assert traced.behaviour.errors.prediction is None
    assert traced.notes == ("no loss was told: there is no prediction, only reconstruction",)
    assert measure(traced)["loss_correlation"] is None


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda run, files: read_checkpoints(run / "none*"), "there is no file or folder"),
        (lambda run, files: read_checkpoints(files[:2]), "2 checkpoints of .* are too few for a path"),
        (
            lambda run, files: read_checkpoints(run, ["*mlp*", "h.0.atn"]),
            "called 'h.0.atn': there are h.0.attn",
        ),
        (
            lambda run, files: read_checkpoints(files, steps=[1, 2]),
            r"4 checkpoints: give as many steps \(2",
        ),
        (lambda run, files: read_checkpoints(files, losses=[1.0, 2.0]), "4 checkpoints: give as many"),
        (
            lambda run, files: read_checkpoints([*files, stored(run, "step9999.pt", mlp=torch.ones(2, 2))]),
            r"step9999\.pt.*'h\.0\.mlp\.weight' has shape \(2, 2\), in .* it has \(5, 3\)",
        ),
        (
            lambda run, files: read_checkpoints([stored(run, f"{name}.pt") for name in ("a", "b", "c")]),
            "cannot be told from a, b, c: give steps=",
        ),
        (lambda run, files: read_checkpoints(with_log(run, "[]")), "is no log of Trainer's"),
    ],
)
def test_what_makes_no_path_is_refused_with_what_to_do(run, files, read, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(run, files)


def stored(folder, name, mlp=None):
    """A checkpoint of this name, its second matrix as given."""
    torch.save(weights(9) | ({} if mlp is None else {"h.0.mlp.weight": mlp}), folder / name)
    return folder / name


def with_log(run, log):
    (run / "checkpoint-1000" / "trainer_state.json").write_text(log, encoding="utf-8")
    return run


def test_losses_that_the_log_does_not_reach_are_unknown_and_said(run):
    with_log(run, '{"log_history": [{"step": 100, "loss": 2.0}, {"step": 1000, "loss": 1.0}]}')
    with pytest.warns(UserWarning, match=r"logs losses from step 100 to 1000.*\(50\): no loss is used"):
        found = read_checkpoints(run, "*mlp*")["h.0.mlp.weight"]
    assert not found.has_losses


def test_a_function_tells_the_steps(files):
    found = read_checkpoints(files, "*mlp*", steps=lambda path: 7 + int(path.stem[-5:]))
    assert found["h.0.mlp.weight"].steps.tolist() == [step + 7 for step in sorted(STEPS)]


# --- steps ------------------------------------------------------------------------------------------


READ = {
    "Lightning, with the loss in the name": (
        ["epoch=0-step=100-val_loss=2.50.ckpt", "epoch=1-step=200-val_loss=1.75.ckpt"],
        [100, 200],
    ),
    "Trainer": (["checkpoint-500", "checkpoint-1000"], [500, 1000]),
    "global step before step": (["step1-global_step300", "step2-global_step600"], [300, 600]),
    "thousands": (["model_step_5k.pt", "model_step_2.5k.pt"], [5000, 2500]),
    "powers": (["step1e3.pt", "step2e3.pt"], [1000, 2000]),
    "the number that differs": (["gpt2-124m-b8-10.pt", "gpt2-124m-b8-20.pt"], [10, 20]),
    "iterations": (["iter_0001000", "iter_0002000"], [1000, 2000]),
    "a plain number": (["7.safetensors", "8.safetensors"], [7, 8]),
}


@pytest.mark.parametrize("kind", READ)
def test_steps_are_read_from_names(kind):
    names, steps = READ[kind]
    assert steps_of([Path(name) for name in names]) == steps


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a1-b5", "a2-b7", "a3-b9"], "cannot be told from a1-b5, a2-b7, a3-b9: give steps="),
        (["first.pt", "last.pt"], "cannot be told from first, last"),
        (["step=100-a.pt", "step=100-b.pt"], "different whole numbers.*step=100-a: 100, step=100-b: 100"),
        (["step_0.5.pt", "step_1.pt"], "different whole numbers, and the names say step_0.5: 0.5"),
        (["lr0.1-loss2.5", "lr0.2-loss1.5"], "cannot be told"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_names(names, message):
    with pytest.raises(ValueError, match=message):
        steps_of([Path(name) for name in names])


def test_trainers_own_state_tells_the_step_where_names_do_not(tmp_path):
    for name, step in {"best-3-1": 40, "last-2-9": 60}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(f'{{"global_step": {step}}}', encoding="utf-8")
    assert steps_of(sorted(tmp_path.iterdir())) == [40, 60]
