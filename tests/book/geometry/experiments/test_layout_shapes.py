"""One run's bottlenecks under several layouts: disparities, what they are held against, what decides."""

import functools

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import layout_shapes, trajectory_runs
from book.geometry.experiments.layout_shapes import FRESH, LaidOut
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


def test_each_matrix_is_held_against_the_embedding_its_walks_and_other_runs_under_every_layout(
    monkeypatch,
):
    monkeypatch.setattr(layout_shapes, "Layout", functools.partial(Layout, max_iter=20))
    config = LaidOut(RUN, (1, 2), 100, layers=(1,), neighbors=(5, 7), umap=False)
    table = layout_shapes.layout_shapes.function(config)
    assert np.isfinite(table["value"]).all()  # as a cell must be
    assert table["layout"].unique().tolist() == [
        "PyMDE, 5 neighbours",
        "PyMDE, 7 neighbours",
        "principal components",
    ]
    named = table.set_index(["against", "layout", "tensor"])["value"]
    assert named["disparity"].xs("Q 1", level="tensor").max() < 1e-9
    assert named["disparity"].xs("K 1", level="tensor").min() > 1e-3
    assert set(named["between_runs"].index.get_level_values("layout")) == {"PyMDE, 7 neighbours"}
    walks = [lay_out(places(name, "random walk 0"), Layout("pca"), seed=100) for name in ("V 1", "embedding")]
    assert named["walks", "principal components", "V 1"] == pytest.approx(procrustes_disparity(*walks))


def test_layouts_of_one_run_have_an_interval_and_count_as_one_run():
    rows = []
    for seed in (1, 2, 3):
        known = {
            "a": {"disparity": 0.1 * seed, "between_runs": 0.4, "walks": 0.2},
            "b": {"disparity": 0.3 * seed, "walks": 0.4},
        }
        rows += [(seed, layout, "Q 1", *one) for layout, own in known.items() for one in own.items()]
    table = pd.DataFrame(rows, columns=["seed", "layout", "tensor", "against", "value"])
    found = layout_shapes.over_layouts(table)
    assert found["disparity_layouts"].value == pytest.approx(0.4)
    assert found["disparity_layouts"].controls["random_walk"] == pytest.approx(0.3)
    assert found["against_runs_layouts"].value == pytest.approx(0.2 / 0.4)  # where both are known
    assert {(one.n_seeds, one.repeats) for one in found.values()} == {(1, "runs")}
    assert found["disparity_layouts"].low < 0.4 < found["disparity_layouts"].high
    assert not any(one.decides for one in found.values())


def test_seeds_of_layouts_are_none_of_the_runs():
    assert not set(FRESH) & {run.seed for run in trajectory_runs.story_runs("laptop")}
