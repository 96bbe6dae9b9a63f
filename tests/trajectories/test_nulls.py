"""Nulls of trajectories: walks with a path's steps and momentum, their known shape, disparities."""

import numpy as np
import pandas as pd
import pytest
from scipy import spatial

from embviz.trajectories import nulls as trajectory_nulls
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.nulls import (
    disparities,
    measure,
    random_walk,
    shuffled_losses,
    step_correlations,
    through_nulls,
)
from embviz.trajectories.phases import Clustering, couple, path_steps
from embviz.trajectories.traces import Layout, Recipe, trace
from embviz.trajectories.weight_paths import WeightPath, cosine_share, rotate, weight_path
from tests.trajectories.conftest import noise

QUICK = Recipe(
    Autoencoder(bottleneck=3, hidden=8, n_epochs=20),
    Layout("pca"),
    Clustering(min_cluster_size=10, min_samples=3),
)


def momentum_path(n=80, dim=300, memory=0.7, seed=0):
    """Steps that forget a part of the one before, and shrink."""
    steps = [noise(dim, seed=seed)]
    for i in range(1, n - 1):
        steps.append(memory * steps[-1] + np.sqrt(1 - memory**2) * noise(dim, seed=1000 * (seed + 1) + i))
    lengths = np.linspace(2, 0.5, n - 1)[:, None]
    weights = np.concatenate([np.zeros((1, dim)), np.cumsum(lengths * np.array(steps), axis=0)])
    losses = np.exp(-np.arange(n) / 20) + 0.01 * noise(n, seed=seed + 7)
    return weight_path("query", weights, np.arange(n), losses)


# --- random walks -----------------------------------------------------------------------------------


def test_momentum_is_the_mean_cosine_of_steps():
    path = momentum_path(n=20, dim=30)
    moves = [path.weights[i + 1] - path.weights[i] for i in range(19)]
    for k, value in enumerate(step_correlations(path, 4)):
        cosines = [
            moves[i] @ moves[i + k] / np.linalg.norm(moves[i]) / np.linalg.norm(moves[i + k])
            for i in range(19 - k)
        ]
        assert np.isclose(value, sum(cosines) / 19)


@pytest.mark.parametrize("dim", [20, 300, 10**6])  # fewer weights than steps, more, many more
@pytest.mark.parametrize("n_lags", [1, 78])  # the last: at every lag there is
def test_a_walk_has_the_paths_step_lengths_and_momentum(dim, n_lags):
    path = momentum_path()
    path = WeightPath(path.name, path.steps, path.losses, path.weights, dim)
    walk = random_walk(path, seed=1, n_lags=n_lags)
    np.testing.assert_allclose(path_steps(walk.weights), path_steps(path.weights))
    assert walk.weights.shape == (80, min(79, dim))
    # sums of 79 cosines between vectors of `dim` entries, each known to 1 / sqrt(dim)
    expected = step_correlations(path, n_lags)
    np.testing.assert_allclose(step_correlations(walk, n_lags), expected, atol=3.5 / np.sqrt(79 * dim) + 0.02)
    np.testing.assert_array_equal(walk.losses, path.losses)


def test_a_walk_that_remembers_all_steps_keeps_a_drift_that_one_lag_forgets():
    drift = np.ones(400) / 20
    moves = drift + 1.5 * noise(100, 400) / 20  # each step has a part in one direction, for good
    path = weight_path("drifting", np.concatenate([[0 * drift], moves.cumsum(axis=0)]), range(101))
    far = {
        lags: np.linalg.norm(np.diff(random_walk(path, seed=0, n_lags=lags).weights[[0, 50]], axis=0))
        for lags in (1, 99)
    }
    own = np.linalg.norm(path.weights[50] - path.weights[0])
    assert far[1] < 0.4 * own
    assert far[99] > 0.6 * own


def slow_walk(moves, rng, memory):
    """Steps one after another: each remembers the one before and draws from the covariance of unit steps."""
    directions = moves / np.linalg.norm(moves, axis=1)[:, None]
    covariance = directions.T @ directions / len(directions)
    steps = []
    for length in np.linalg.norm(moves, axis=1):
        new = rng.multivariate_normal(np.zeros(moves.shape[1]), covariance)
        steps.append(memory * steps[-1] + np.sqrt(1 - memory**2) * new if steps else new)
        yield length * steps[-1] / np.linalg.norm(steps[-1])


def uneven_path(n=60):
    """Steps that are ten times as long in one direction of four as in another."""
    moves = noise(n, 4) * [1, 0.5, 0.2, 0.1]
    return weight_path("uneven", np.concatenate([np.zeros((1, 4)), moves.cumsum(axis=0)]), range(n + 1))


def test_a_walk_with_the_paths_step_covariance_is_distributed_as_one_drawn_step_by_step():
    path, rng = uneven_path(), np.random.default_rng(0)
    moves, memory = np.diff(path.weights, axis=0), step_correlations(path, 1)[1]
    walks = [random_walk(path, seed=seed, step_covariance=True) for seed in range(300)]
    fast = np.array([np.diff(walk.weights, axis=0) for walk in walks])
    slow = np.array([list(slow_walk(moves, rng, memory)) for _ in range(300)])
    np.testing.assert_allclose(np.linalg.norm(fast, axis=2), np.tile(path_steps(path.weights), (300, 1)))
    for lag in (0, 1, 2):
        products = [
            np.einsum("wsi,wsj->ij", own[:, : 60 - lag], own[:, lag:]) / (300 * (60 - lag))
            for own in (fast, slow)
        ]
        # means of some 18,000 products, each of about 0.5: errors of 0.004
        np.testing.assert_allclose(*products, atol=0.02)
    assert fast[..., 0].var() > 5 * fast[..., 3].var()
    isotropic = np.array([np.diff(random_walk(path, seed=seed).weights, axis=0) for seed in range(300)])
    assert isotropic[..., 0].var() == pytest.approx(isotropic[..., 3].var(), rel=0.2)


def test_step_covariance_leaves_no_direction_that_the_path_never_takes():
    flat = weight_path("flat", np.pad(momentum_path(dim=3).weights, ((0, 0), (0, 5))), range(80))
    walk = random_walk(flat, seed=0, step_covariance=True)
    assert (walk.weights[:, 3:] == 0).all()
    assert (np.ptp(walk.weights[:, :3], axis=0) > 0).all()
    np.testing.assert_allclose(path_steps(walk.weights), path_steps(flat.weights))
    line = weight_path("line", np.arange(40.0)[:, None] * np.ones(30), range(40), range(40))
    assert step_correlations(random_walk(line, seed=0, n_lags=2), 1)[1] > 0.9


def test_few_coordinates_are_distributed_as_a_walk_among_all_weights():
    rng = np.random.default_rng(0)
    drawn = [trajectory_nulls._gaussian_vectors(3, 7, rng) for _ in range(4000)]
    products = np.array([draw @ draw.T for draw in drawn])  # (4000, 3, 3), of 7-dimensional vectors
    # Wishart: mean 7, variances 14 on the diagonal and 7 off it; 4,000 draws: errors of .06, .5 and .2
    np.testing.assert_allclose(products.mean(axis=0), 7 * np.eye(3), atol=0.25)
    np.testing.assert_allclose(products.var(axis=0), 7 * (1 + np.eye(3)), atol=1.6)


def test_a_long_walk_in_many_dimensions_is_cosines_of_time():
    steps = np.tile([1.0, -1.0], 250)[:, None]  # of equal lengths
    path = WeightPath("even", np.arange(501), np.arange(501.0), np.cumsum([[0], *steps], axis=0), 10**7)
    walk = rotate(random_walk(path, seed=0, n_lags=0)).weights
    shares = (walk**2).sum(axis=0) / (walk**2).sum()
    expected = 6 / np.pi**2 / np.arange(1, 4) ** 2  # Antognini & Sohl-Dickstein (2018): .61, .15, .07
    np.testing.assert_allclose(shares[:3], expected, rtol=0.01)
    time = (np.arange(501) + 0.5) / 501
    for k in (1, 2):
        assert abs(np.corrcoef(walk[:, k - 1], np.cos(np.pi * k * time))[0, 1]) > 0.999
    assert cosine_share(walk[:, :2]) > 0.999  # the horseshoe
    assert np.isclose(cosine_share(walk), expected[:2].sum(), rtol=0.01)


def test_shuffled_losses_are_the_same_losses_on_the_same_weights():
    path = momentum_path()
    shuffled = shuffled_losses(path, seed=0)
    assert sorted(shuffled.losses) == sorted(path.losses)
    assert (shuffled.losses != path.losses).mean() > 0.9
    assert shuffled.weights is path.weights


# --- the same pipeline ------------------------------------------------------------------------------


def test_a_path_and_its_nulls_go_through_one_pipeline():
    path = momentum_path()
    compared = through_nulls(path, QUICK, seed=0, n_draws=2)
    table = compared.table
    assert table[["kind", "draw"]].to_numpy().tolist() == [
        ["data", 0],
        ["random walk", 0],
        ["random walk", 1],
        ["shuffled losses", 0],
        ["shuffled losses", 1],
    ]
    assert table["disparity"][0] < 1e-12
    assert (table["disparity"][1:3] > 1e-3).all()
    shape = compared.shape_left()
    assert (shape.low, shape.high) == (table["disparity"][1:3].min(), table["disparity"][1:3].max())
    layouts = [compared.traces[f"random walk {i}"].layout for i in range(2)]
    assert np.isclose(compared.shape_among().value, spatial.procrustes(*layouts)[2])
    np.testing.assert_array_equal(compared.traces["data 0"].layout, trace(path, QUICK, seed=0).layout)


def test_walks_with_the_paths_step_covariance_are_a_control_of_their_own():
    path, both = momentum_path(), "random walk, same step covariance"
    compared = through_nulls(path, QUICK, seed=0, n_draws=1, step_covariance=True, shuffled=False)
    assert compared.table["kind"].tolist() == ["data", "random walk", both]
    expected = rotate(random_walk(rotate(path), seed=0, step_covariance=True)).weights
    np.testing.assert_allclose(compared.traces[f"{both} 0"].path.weights, expected)


def test_a_walks_two_arms_leave_nothing_after_its_own_null():
    walk = random_walk(momentum_path(), seed=9)
    compared = through_nulls(walk, Recipe(None, Layout("pca"), QUICK.clustering), seed=0, n_draws=5)
    shares = compared.table["weight_cosine_share"].tolist()
    # of 80 snapshots of 300 weights: shares of walks differ by some hundredths
    assert abs(shares[0] - np.mean(shares[1:6])) < 0.1 * (1 - np.mean(shares[1:6]))
    assert compared.shape_left().value < 2 * compared.shape_among().value


def test_a_path_that_turns_back_keeps_its_shape_after_the_null():
    there = np.linspace(0, 20, 40)
    ring = np.stack([np.cos(2 * np.pi * there / 20), np.sin(2 * np.pi * there / 20)], axis=1)  # one round
    weights = np.pad(5 * ring, ((0, 0), (0, 98))) + 0.05 * noise(40, 100)
    path = weight_path("ring", weights, range(40), range(40))
    compared = through_nulls(path, Recipe(None, Layout("pca"), QUICK.clustering), seed=0)
    shares = compared.table["cosine_share"].tolist()
    assert shares[0] - np.mean(shares[1:4]) < -0.5 * (1 - np.mean(shares[1:4]))  # far fewer arms than a walk
    assert compared.shape_left().low > 3 * compared.shape_among().high


def test_a_constant_loss_has_no_shuffle():
    path = momentum_path()
    flat = WeightPath("flat", path.steps, np.ones(80), path.weights, 300)
    compared = through_nulls(flat, QUICK, seed=0, n_draws=1)
    assert compared.table["kind"].tolist() == ["data", "random walk"]
    assert compared.shape_among() is None
    assert pd.isna(compared.table["loss_p"][0])
    assert "the loss is 1 at every snapshot" in compared.table["notes"][0]
    even = WeightPath("even", path.steps, np.arange(80.0)[::-1], path.weights, 300)
    assert measure(trace(even, QUICK, seed=0))["loss_p"] is None  # its drops are all the same


def test_measures_are_those_of_the_parts():
    traced = trace(momentum_path(), QUICK, seed=0)
    row = measure(traced, n_permutations=19)
    assert row["n_phases"] == traced.phases.n_phases
    assert row["reconstruction"] == traced.behaviour.errors.reconstruction
    assert row["cosine_share"] == cosine_share(traced.layout)
    own = couple(path_steps(traced.layout), traced.path.losses, seed=0, block=19, n_permutations=19)
    assert (row["loss_correlation"], row["loss_lag"], row["loss_p"]) == (own.correlation, own.lag, own.p)
    without = measure(trace(momentum_path(), Recipe(None, Layout("pca"), QUICK.clustering), seed=0))
    assert without["reconstruction"] is None


# --- one shape or many ------------------------------------------------------------------------------


def test_disparities_agree_with_scipys_procrustes():
    paths = {name: noise(30, 2, seed=i).cumsum(axis=0) for i, name in enumerate("abc")}
    table = disparities(paths)
    for one in paths:
        for other in paths:
            *_, expected = spatial.procrustes(paths[one], paths[other])
            assert np.isclose(table.loc[one, other], expected, atol=1e-12)
    np.testing.assert_array_equal(table, table.T)


def test_turned_scaled_and_mirrored_copies_have_no_disparity_and_narrow_paths_get_zeros():
    path = noise(30, 2).cumsum(axis=0)
    turned = 5 * path @ [[0.6, 0.8], [0.8, -0.6]] + 3
    table = disparities({"path": path, "turned": turned, "wide": np.pad(turned, ((0, 0), (1, 0)))})
    assert np.abs(table.to_numpy()).max() < 1e-12


STILL = WeightPath("still", np.arange(5), np.ones(5), np.ones((5, 3)), 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_walk(STILL, seed=0), "still: nothing moved"),
        (lambda: disparities({"a": noise(30, 2), "b": noise(20, 2)}), "of the same shape"),
    ],
)
def test_what_has_no_walk_no_share_or_no_disparity_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
