"""One run's bottlenecks under several layouts: disparities, what they are held against, what decides."""

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import layout_shapes, trajectory_runs
from book.geometry.experiments.layout_shapes import FRESH, LaidOut
from book.geometry.experiments.trajectory_findings import STUDIES
from embviz.metrics import procrustes_disparity
from embviz.trajectories.traces import Layout, lay_out

S = 40
STEPS = np.arange(0, 2 * S, 2)
RUN = trajectory_runs.stories("laptop")


def places(tensor, path):
    """The embedding's path and Q's are one; every other tensor and every walk has its own."""
    name = "embedding" if (tensor, path) == ("Q 1", "data") else tensor
    rng = np.random.default_rng([len(path), *map(ord, name)])
    return rng.standard_normal((S, 8)).cumsum(axis=0)


@pytest.fixture(autouse=True)
def stored(monkeypatch):
    drawn = pd.DataFrame({"step": STEPS[::2], "x": np.arange(S // 2) ** 1.5, "y": np.arange(S // 2)})
    known = pd.DataFrame({"method": ["pymde"], "path": ["data"], "n_neighbors": [7]})
    monkeypatch.setattr(
        trajectory_runs, "code", lambda run, tensor, path="data": (STEPS, places(tensor, path))
    )
    monkeypatch.setattr(trajectory_runs, "drawings", lambda run: known)
    monkeypatch.setattr(trajectory_runs, "layout", lambda run, tensor, **_: drawn)


def test_each_matrix_is_held_against_the_embedding_its_walks_and_other_runs_under_every_layout():
    config = LaidOut(RUN, (1, 2), 100, layers=(1,), neighbors=(5, 7), umap=False)
    table = layout_shapes.layout_shapes.function(config)
    assert table["layout"].unique().tolist() == [
        "PyMDE, 5 neighbours",
        "PyMDE, 7 neighbours",
        "principal components",
    ]
    same = table[table["tensor"] == "Q 1"]
    assert same["disparity"].max() < 1e-9
    assert table[table["tensor"] == "K 1"]["disparity"].min() > 1e-3
    assert table.groupby("layout")["between_runs"].count()["PyMDE, 7 neighbours"] == 5
    assert table["between_runs"].count() == 5  # of other layouts no other run is stored
    walks = [lay_out(places(name, "random walk 0"), Layout("pca"), seed=100) for name in ("V 1", "embedding")]
    flat = table.set_index(["layout", "tensor"]).loc[("principal components", "V 1"), "walks"]
    assert flat == pytest.approx(procrustes_disparity(*walks))


def test_means_over_layouts_and_matrices_are_repeated_over_seeds_of_the_layouts():
    rows = [(seed, "a", 0.1 * seed, 0.4, 0.2) for seed in (1, 2, 3)] + [
        (seed, "b", 0.3 * seed, np.nan, 0.4) for seed in (1, 2, 3)
    ]
    table = pd.DataFrame(rows, columns=["seed", "layout", "disparity", "between_runs", "walks"])
    found = layout_shapes.over_layouts(table)
    assert found["disparity_layouts"].value == pytest.approx(0.4)
    assert found["disparity_layouts"].nulls["random_walk"] == pytest.approx(0.3)
    assert found["against_runs_layouts"].value == pytest.approx(0.2 / 0.4)  # where both are known
    assert {one.repeats for one in found.values()} == {layout_shapes.REPEATS}


def test_seeds_of_layouts_are_none_of_the_runs_and_no_verdict_waits_for_them():
    own = layout_shapes.cells("laptop")
    assert [cell.config.seed for cell in own[-3:]] == list(FRESH)
    assert not set(FRESH) & {run.seed for run in trajectory_runs.story_runs("laptop")}
    assert layout_shapes.cells("quick") == []
    (part,) = STUDIES["geometry.trajectories_shape"].parts
    assert part.cells("laptop") == own
