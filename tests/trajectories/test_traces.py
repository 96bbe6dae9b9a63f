"""Trajectories: PyMDE's own problem from our own start, planted phases, what is said and what is refused."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from embviz.imports import import_pymde
from embviz.metrics import nearest_neighbors, neighbors_kept
from embviz.trajectories import traces
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.phases import Clustering, transitions
from embviz.trajectories.traces import (
    Layout,
    Recipe,
    lay_out,
    principal_coordinates,
    trace,
    trace_together,
)
from embviz.trajectories.weight_paths import rotate, weight_path
from tests.trajectories.conftest import noise

QUICK = Recipe(
    Autoencoder(bottleneck=3, hidden=16, n_epochs=60),
    Layout(n_neighbors=8, max_iter=100),
    Clustering(min_cluster_size=20, min_samples=5),
)


def planted(n=50, losses=None):
    """Weights that tremble in one place, jump between step 490 and 500, and tremble in another."""
    places = np.repeat([[0.0], [30.0]], n, axis=0) * (np.arange(200) < 20)
    if losses is None:
        losses = np.repeat([3.0, 1.0], n) + 0.1 * noise(2 * n, seed=1)
    return weight_path("query", places + noise(2 * n, 200), 10 * np.arange(2 * n), losses)


# --- layouts ----------------------------------------------------------------------------------------


def test_neighbours_are_the_nearest_by_brute_force():
    points, expected = noise(30, 3), {}
    for i, row in enumerate(cdist(points, points)):
        for j in np.argsort(row)[1:5]:
            pair = (min(i, j), max(i, j))
            expected[pair] = expected.get(pair, 0) + 1
    pairs, weights = traces._pairs(traces._nearest(points, 4))
    found = {(int(i), int(j)): int(w) for (i, j), w in zip(pairs, weights, strict=True)}
    assert found == expected


def test_neighbours_and_repulsion_are_those_of_pymdes_own_recipe():
    points = noise(40, 3)
    pymde = import_pymde()
    problem = pymde.preserve_neighbors(torch.tensor(points), n_neighbors=6, init="random")
    function = problem.distortion_function
    near = problem.edges[function.pos_idx].numpy()
    pairs, weights = traces._pairs(traces._nearest(points, 6))
    order = np.lexsort((near[:, 1], near[:, 0]))
    np.testing.assert_array_equal(near[order], pairs)
    np.testing.assert_array_equal(function.attractive_penalty.weights.numpy()[order], weights)
    assert (~function.pos_idx).sum() == len(pairs)  # repulsive = 1
    assert isinstance(function.attractive_penalty, pymde.penalties.Log1p)
    assert isinstance(function.repulsive_penalty, pymde.penalties.Log)
    assert isinstance(problem.constraint, type(pymde.Centered()))


def test_a_layout_is_nearly_as_good_as_pymdes_own_on_pairs_it_did_not_push():
    points = noise(40, 5)
    pymde = import_pymde()
    torch.manual_seed(0)
    problem = pymde.preserve_neighbors(torch.tensor(points), n_neighbors=8, init="random")
    start = principal_coordinates(points)
    before, after = (
        problem.average_distortion(torch.tensor(each, dtype=torch.float32)).item()
        for each in (start / start.std(), lay_out(points, Layout(n_neighbors=8), seed=0))
    )
    own = problem.average_distortion(problem.embed()).item()
    assert after < own + 0.25 * (before - own)


def test_a_layout_depends_on_its_seed_alone_and_leaves_global_generators_alone():
    points, layout = noise(60, 5), Layout(n_neighbors=8, max_iter=40)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = lay_out(points, layout, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    np.testing.assert_array_equal(lay_out(points, layout, seed=3), first)
    assert np.abs(lay_out(points, layout, seed=4) - first).max() > 1e-3


def test_points_in_one_place_or_on_a_line_are_laid_out():
    twice = np.repeat(noise(20, 3), 2, axis=0)
    line = np.linspace(0, 1, 40)[:, None]
    for points in (twice, line):
        assert np.isfinite(lay_out(points, Layout(n_neighbors=5, max_iter=50), seed=0)).all()


class ExactDescent:
    """In pynndescent's place, which compiles for a minute: exact rows, with all that it may return.

    The real one: tests/drills/drill_layouts.py.
    """

    def __init__(self, points, n_neighbors, random_state, low_memory):
        rows = np.argsort(cdist(points, points), axis=1)[:, :n_neighbors]
        rows[0] = np.roll(rows[0], 1)  # the point itself is not the first
        rows[1, -1] = -1  # a neighbour was not found
        self.neighbor_graph = rows, None


def test_many_points_are_laid_out_by_the_neighbours_of_nearest_neighbour_descent(monkeypatch):
    points = np.repeat(4 * noise(10, 8), 15, axis=0) + noise(150, 8, seed=1)
    layout = Layout(n_neighbors=8, max_iter=60)
    exact = lay_out(points, layout, seed=0)
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=ExactDescent))
    monkeypatch.setattr(traces, "ALL_PAIRS", 100)
    rows = traces._nearly_nearest(points, 8, 0)
    expected = traces._nearest(points, 8)
    assert rows[1].tolist() == [*expected[1, :7], 1]  # itself in place of the one that was not found
    both = (np.sort(np.delete(each, 1, axis=0), axis=1) for each in (rows, expected))
    np.testing.assert_array_equal(*both)
    found = lay_out(points, layout, seed=0)
    np.testing.assert_array_equal(lay_out(points, layout, seed=0), found)
    nearest = nearest_neighbors(points, 8)[0]
    kept = [neighbors_kept(nearest, nearest_neighbors(each, 8)[0]).mean() for each in (exact, found)]
    assert kept[1] > kept[0] - 0.05


def test_distant_pairs_among_many_are_distinct_not_near_and_as_many_as_asked_for():
    near, _ = traces._pairs(traces._nearest(noise(60, 3), 5))
    far = traces._distant_among_many(near, 60, 1.5, np.random.default_rng(0))
    codes = far @ [60, 1]
    assert len(np.unique(codes)) == len(far) == round(1.5 * len(near))
    assert (far[:, 0] < far[:, 1]).all()
    assert not np.isin(codes, near @ [60, 1]).any()
    counts = np.bincount(far.ravel(), minlength=60)
    assert counts.min() > 0
    all_far = traces._distant_pairs(near, 60, 1.5, np.random.default_rng(0))
    assert abs(far.mean() - all_far.mean()) < 3  # neither leaves out early or late points


def test_principal_coordinates_are_turned_points_with_the_larger_side_positive():
    plane = noise(20, 2) * [3, 1]
    plane -= plane.mean(axis=0)
    found = lay_out(np.pad(plane, ((0, 0), (0, 3))), Layout("pca"), seed=0)
    np.testing.assert_allclose(cdist(found, found), cdist(plane, plane), atol=1e-12)
    assert found[:, 0].var() >= found[:, 1].var()
    assert (found.max(axis=0) > -found.min(axis=0)).all()
    assert (principal_coordinates(np.arange(5.0)[:, None])[:, 1] == 0).all()


def test_umap_is_given_the_layouts_settings_and_leaves_the_number_of_threads(monkeypatch):
    asked = {}

    class UMAP:  # the real one: tests/drills/drill_layouts.py
        def __init__(self, **options):
            asked.update(options)

        def fit_transform(self, points):
            torch.set_num_threads(2)  # as numba's threads do
            return points[:, :2]

    monkeypatch.setattr(traces, "import_umap", lambda: SimpleNamespace(UMAP=UMAP))
    points = noise(40, 3)
    np.testing.assert_array_equal(lay_out(points, Layout("umap", n_neighbors=5), seed=7), points[:, :2])
    assert (asked["n_neighbors"], asked["random_state"], asked["n_jobs"]) == (5, 7, 1)
    assert torch.get_num_threads() == 1  # more would change the last bits of what is computed next


# --- the pipeline -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clustered", ["layout", "bottleneck"])
def test_a_planted_jump_is_one_transition_between_two_phases(clustered):
    recipe = Recipe(QUICK.autoencoder, QUICK.layout, QUICK.clustering, clustered)
    traced = trace(planted(), recipe, seed=0)
    assert traced.phases.n_phases == 2
    # noise may lie between: the middle is within a few snapshots of the jump
    (step,) = transitions(traced.phases.labels, traced.path.steps)["step"]
    assert abs(step - 495) <= 30
    assert traced.layout.shape == (100, 2)
    assert traced.encoded.shape == (100, 3)
    assert traced.notes == ()


def test_paths_traced_together_are_laid_out_and_cut_each_by_itself():
    path = planted()
    one, copy = trace_together([path, path], QUICK, seed=0)
    np.testing.assert_array_equal(one.layout, copy.layout)
    # PyMDE's phases hang on its seed and on the processor, principal axes don't
    axes = Recipe(QUICK.autoencoder, Layout("pca"), QUICK.clustering)
    traced, _ = trace_together([path, path], axes, seed=0)
    assert len(transitions(traced.phases.labels, path.steps)) == 1
    (alone,) = trace_together([path], QUICK, seed=0)
    np.testing.assert_array_equal(alone.layout, trace(path, QUICK, seed=0).layout)
    plain = Recipe(None, Layout("pca"), QUICK.clustering)
    first, second = trace_together([path, planted(60)], plain, seed=0)  # without one they share nothing
    np.testing.assert_allclose(first.layout, rotate(path).weights[:, :2], atol=1e-6)
    assert (first.behaviour, first.phases.n_phases) == (None, 2)
    assert len(second.layout) == 120


def test_a_constant_loss_and_noise_alone_are_told():
    recipe = Recipe(QUICK.autoencoder, QUICK.layout, Clustering(min_cluster_size=50, min_samples=5))
    still = weight_path("query", noise(100, 50), range(100), np.ones(100))
    constant, all_noise = trace(still, recipe, seed=0).notes
    assert "the loss is 1 at every snapshot" in constant
    assert all_noise.startswith("all 100 snapshots are noise")


def test_a_run_that_only_decays_is_a_straight_path():
    weights = 0.99 ** np.arange(80)[:, None] * noise(1, 60)
    traced = trace(weight_path("query", weights, range(80), np.linspace(2, 1, 80)), QUICK, seed=0)
    assert traced.path.weights.shape == (80, 1)
    assert np.isfinite(traced.layout).all()


SHORT = weight_path("query", noise(12, 9), range(12), np.ones(12))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lay_out(noise(15, 3), seed=0), "15 snapshots are too few for 15 neighbours.*below 15"),
        (lambda: lay_out(np.ones((30, 3)), seed=0), "all points are the same"),
        (lambda: Layout("tsne"), 'use "pymde", "pca" or "umap"'),
        (lambda: trace(SHORT, seed=0), "query: 12 snapshots are too few for 15 neighbours"),
        (lambda: trace(SHORT, Recipe(layout=Layout("pca")), seed=0), "12 snapshots are too few for Clust"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_before_anything_is_trained(monkeypatch, call, message):
    monkeypatch.setattr("embviz.trajectories.traces.rotate", None)
    with pytest.raises(ValueError, match=message):
        call()
