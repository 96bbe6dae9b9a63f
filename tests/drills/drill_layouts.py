"""Layouts by libraries that compile for a minute: approximate neighbours, and UMAP."""

import numpy as np
import pytest
import torch

from embviz.metrics import nearest_neighbors, neighbors_kept
from embviz.trajectories import traces
from embviz.trajectories.traces import Layout, lay_out

pytestmark = pytest.mark.usefixtures("one_thread")


def test_many_points_are_laid_out_by_approximate_neighbours_nearly_as_by_exact_ones(monkeypatch):
    centers = 4 * np.random.default_rng(0).standard_normal((20, 8))
    points = np.repeat(centers, 20, axis=0) + np.random.default_rng(1).standard_normal((400, 8))
    layout = Layout(n_neighbors=8, max_iter=60)
    exact = lay_out(points, layout, seed=0)
    near, _ = traces._pairs(traces._nearest(points, 8))
    monkeypatch.setattr(traces, "ALL_PAIRS", 100)
    found = lay_out(points, layout, seed=0)
    np.testing.assert_array_equal(lay_out(points, layout, seed=0), found)
    rows = traces._nearly_nearest(points, 8, 0)
    assert rows.shape == (400, 8)
    assert (rows != np.arange(400)[:, None]).all()
    nearly = traces._pairs(rows)[0] @ [400, 1]
    assert np.isin(near @ [400, 1], nearly).mean() > 0.95
    kept = [
        neighbors_kept(nearest_neighbors(points, 8)[0], nearest_neighbors(plane, 8)[0]).mean()
        for plane in (exact, found)
    ]
    assert kept[1] > kept[0] - 0.05


@pytest.mark.filterwarnings("default")  # the library's own
def test_umap_lays_out_and_leaves_the_number_of_threads():
    points = np.random.default_rng(0).standard_normal((40, 3))
    assert lay_out(points, Layout("umap", n_neighbors=5), seed=0).shape == (40, 2)
    assert torch.get_num_threads() == 1
