"""The report on a run: one row per matrix beside its walks, from a run or checkpoints, and refusals."""

import numpy as np
import pytest
import torch

from embviz.cli import main
from embviz.runs import Run
from embviz.training import AdamW, train
from embviz.trajectories import Layout, Recipe, read_checkpoints, reports, run_report, weight_path
from embviz.trajectories.phases import Clustering

HOSTILE = "<img src=x onerror=alert(1)>"
FLAT = Recipe(autoencoder=None, layout=Layout("pca"), clustering=Clustering(10))


def two_places(n=60, seed=0):
    """Snapshots that jump once, far, in the middle: two phases, whatever draws them."""
    rng = np.random.default_rng(seed)
    middle = np.where(np.arange(n)[:, None] < n // 2, 0.0, 40.0)
    return (middle + rng.normal(size=(n, 8))).astype(np.float32)


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(reports, "_recipe_for", lambda n: FLAT)


@pytest.fixture
def checkpoints(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for step, row in enumerate(two_places()):
        tensors = {HOSTILE: torch.tensor(row).view(2, 4), "still": torch.ones(3, 3), "bias": torch.ones(4)}
        torch.save(tensors, folder / f"step{step}.pt")
    return folder


def test_a_jump_has_two_phases_and_a_walk_with_that_step_in_it_has_them_too():
    path = weight_path("query", two_places(), np.arange(60))
    report = run_report({"query": path}, recipe=FLAT, n_walks=2)
    row = report.table.iloc[0]
    assert (row["n_phases"], row["walk_phases"], row["n_snapshots"]) == (2, 2, 60)
    assert row["seeds_agree"] == 1  # principal components know no seed
    assert "each other: 0 of 1." in report.sentence
    assert "random walk too" in report.limits


def test_a_run_that_comes_back_to_where_it_began_is_drawn_far_from_its_walks():
    turn = np.linspace(0, 2 * np.pi, 60)
    loop = np.pad(np.stack([np.cos(turn), np.sin(turn)], axis=1), ((0, 0), (0, 200)))
    report = run_report({"query": weight_path("query", loop, np.arange(60))}, recipe=FLAT, n_walks=2)
    row = report.table.iloc[0]
    assert row["from_walks"] > 10 * row["among_walks"]
    assert "each other: 1 of 1." in report.sentence


def test_a_run_and_its_checkpoints_give_the_same_report(tmp_path, made):
    model, (folder, kept) = torch.nn.Linear(4, 2, bias=False), (tmp_path / "run", tmp_path / "kept")
    kept.mkdir()
    with Run.open(folder) as run:
        for step, row in enumerate(two_places(), start=1):
            model.weight.data = torch.tensor(row).view(2, 4)
            run.append(step, model, {"loss": 1 / step} if step % 2 else {})
            torch.save(model.state_dict(), kept / f"{step}.pt")
    path = read_checkpoints(folder)["weight"]
    np.testing.assert_allclose(path.losses[:3], [1, (1 + 1 / 3) / 2, 1 / 3])
    with pytest.raises(ValueError, match="no tensor is called 'wieght': there are weight"):
        read_checkpoints(folder, "wieght")
    np.testing.assert_array_equal(path.weights, read_checkpoints(kept)["weight"].weights)
    with pytest.raises(ValueError, match="is a run, which has steps and losses"):
        read_checkpoints(folder, steps=[1, 2, 3])
    recorded, read = run_report(folder), run_report(kept)
    shared = ["tensor", "n_phases", "from_walks", "seeds_agree"]
    assert recorded.table[shared].equals(read.table[shared])
    assert recorded.table["loss_p"].notna().all()
    assert read.table["loss_p"].isna().all()


def test_what_the_training_loop_stored_can_be_traced(tmp_path):
    model = torch.nn.Linear(4, 3)

    def losses(step):
        return (model(torch.ones(4)) - step).square().mean()

    with Run.open(tmp_path / "run") as run:
        measure = {"measure": lambda step: {"loss": losses(step).item()}, "run": run}
        for _ in train(model, losses, AdamW(0.1), n_steps=30, snapshot_at=1, **measure):
            pass
    recipe = Recipe(autoencoder=None, layout=Layout("pca"), clustering=Clustering(3, 3))
    report = run_report(tmp_path / "run", recipe=recipe, n_walks=2)
    assert report.table[["tensor", "n_snapshots"]].to_numpy().tolist() == [["weight", 31]]
    assert report.table["loss_p"].notna().all()


@pytest.mark.parametrize("n", [12, 21])
def test_few_snapshots_with_losses_are_measured_too(n):
    path = weight_path("query", two_places(n), np.arange(n), np.linspace(3, 1, n) ** 2)
    recipe = Recipe(autoencoder=None, layout=Layout("pca"), clustering=Clustering(3, 3))
    assert run_report({"query": path}, recipe=recipe, n_walks=1).table["loss_p"].notna().all()


def test_the_command_prints_a_table_and_writes_a_page_in_which_no_name_runs(
    checkpoints, made, tmp_path, capsys
):
    page = tmp_path / "out.html"
    assert main(["trace", str(checkpoints), "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "What may not be concluded" in printed
    assert "Never moved: still." in printed
    assert "steps: 0; 1; 2; 3; 4; 5; ...; 57; 58; 59\n" in printed
    assert "bias" not in printed  # no matrix
    written = page.read_text(encoding="utf-8")
    assert HOSTILE not in written
    assert "What may not be concluded" in written


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{run}x"], "there is no file or folder"),
        (["{run}", "--tensor", "*.attn.*"], "no tensor is called '*.attn.*': there are"),
        (["{run}", "--tensor", "still"], "still: never moved"),
        (["{few}"], "4 snapshots are too few to trace a run by: take 12 at least"),
    ],
)
def test_what_cannot_be_traced_is_one_line(checkpoints, tmp_path, capsys, arguments, said):
    few = tmp_path / "few"
    few.mkdir()
    for step in range(4):
        (few / f"{step}.pt").write_bytes((checkpoints / f"step{step}.pt").read_bytes())
    assert main(["trace", *(one.format(run=checkpoints, few=few) for one in arguments)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert said in error


def test_a_missing_library_is_named_before_anything_is_read(checkpoints, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "hdbscan", None)
    assert main(["trace", str(checkpoints)]) == 1
    assert 'tracing a run needs hdbscan: pip install "embviz[trajectories]"' in capsys.readouterr().err
