"""Paths of weights: rotations that lose nothing, tensors side by side, cosines of time, refusals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from embviz.trajectories import weight_paths
from embviz.trajectories.weight_paths import WeightPath, cosine_share, join, rotate, weight_path

# distances come back from squares: relative to the largest, half the digits of float64 are left
HALF = 1e-7


def path_of(weights, *, name="query", losses=None):
    n = len(weights)
    return weight_path(name, weights, 10 * np.arange(n), np.linspace(3, 1, n) if losses is None else losses)


def walk(n, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dim)).cumsum(axis=0)


# --- rotation ---------------------------------------------------------------------------------------


@given(st.integers(3, 12), st.integers(1, 30), st.integers(0, 10**6))
def test_a_rotation_keeps_every_distance(n, dim, seed):
    weights = walk(n, dim, seed)
    rotated = rotate(path_of(weights)).weights
    assert rotated.shape[1] <= min(n - 1, dim)
    np.testing.assert_allclose(pdist(rotated), pdist(weights), rtol=0, atol=HALF * pdist(weights).max())


@pytest.mark.parametrize("dim", [7, 200])
def test_rotated_coordinates_are_those_of_a_singular_value_decomposition(dim):
    weights = walk(20, dim)
    left, scales, _ = np.linalg.svd(weights - weights.mean(axis=0), full_matrices=False)
    expected = (left * scales)[:, : min(dim, 19)]
    rotated = rotate(path_of(weights)).weights
    signs = np.sign((expected * rotated).sum(axis=0))
    np.testing.assert_allclose(rotated, expected * signs, atol=HALF * scales[0])
    assert (rotated.max(axis=0) >= -rotated.min(axis=0)).all()  # the larger side is positive


def test_tensors_wider_than_a_chunk_are_summed_over_chunks(monkeypatch):
    weights = walk(9, 50)
    whole = rotate(path_of(weights)).weights
    monkeypatch.setattr(weight_paths, "CHUNK", 7)
    rotated = rotate(path_of(weights))
    np.testing.assert_allclose(rotated.weights, whole, atol=1e-10)
    assert rotated.n_weights == 50  # as before it was rotated, which is done once
    assert rotate(rotated) is rotated


# --- input ------------------------------------------------------------------------------------------


def test_snapshots_of_tensors_matrices_and_half_precision_are_flattened():
    tensors = [torch.full((2, 3), float(step), dtype=torch.bfloat16) for step in range(4)]
    path = path_of(tensors)
    assert path.weights.shape == (4, 6)
    assert path.weights[3].tolist() == [3.0] * 6
    np.testing.assert_array_equal(path_of(np.arange(24).reshape(4, 2, 3)).weights[1], np.arange(6, 12))


def test_losses_may_be_unknown_and_that_of_step_0_is_that_of_the_first_update():
    for unknown in (None, [math.nan] * 3):
        path = weight_path("query", walk(3, 6), [0, 10, 20], unknown)
        assert np.isnan(path.losses).all()
        assert not path.has_losses
        assert not join([path, path]).has_losses
    path = path_of(walk(3, 6), losses=[math.nan, 2, 1])
    assert path.losses.tolist() == [2, 2, 1]
    assert path.has_losses


# --- side by side -----------------------------------------------------------------------------------


def test_joined_tensors_move_equally_far():
    small, large = path_of(walk(9, 5), name="small"), path_of(100 * walk(9, 7, seed=1), name="large")
    joined = join([small, large])
    assert joined.weights.shape == (9, 12)
    assert joined.n_weights == 12
    for columns in (joined.weights[:, :5], joined.weights[:, 5:]):
        assert np.isclose(((columns - columns.mean(axis=0)) ** 2).sum() / 9, 1)
    assert WeightPath("", np.arange(3), np.ones(3), np.array([[0.0], [3.0], [6.0]]), 1).total == 6


def test_joining_rotated_tensors_gives_the_distances_of_joined_ones():
    paths = [path_of(walk(9, 30, seed)) for seed in range(3)]
    whole, rotated = join(paths).weights, join([rotate(path) for path in paths]).weights
    np.testing.assert_allclose(pdist(rotated), pdist(whole), rtol=HALF)


# --- cosines of time --------------------------------------------------------------------------------


@given(st.integers(4, 20), st.integers(1, 5), st.integers(0, 10**6))
def test_the_cosine_share_is_that_of_a_regression_on_two_cosines(n, dim, seed):
    points = np.random.default_rng(seed).standard_normal((n, dim))
    time = [(i + 0.5) / n for i in range(n)]
    waves = np.array([[1, math.cos(math.pi * t), math.cos(2 * math.pi * t)] for t in time])
    left = points - waves @ np.linalg.lstsq(waves, points, rcond=None)[0]
    expected = 1 - (left**2).sum() / ((points - points.mean(axis=0)) ** 2).sum()
    assert np.isclose(cosine_share(points), expected, atol=1e-10)


def told(n=3, steps=(0, 1, 2), losses=(1, 1, 1)):
    return weight_path("query", walk(n, 4), steps, losses)


STILL = np.full((5, 4), 0.1, dtype=np.float32)  # 0.1 isn't a float: its mean differs by rounding
SHAPES = [np.zeros((2, 3)), np.ones((2, 3)), np.zeros((3, 2))]
HOLE = np.where(np.arange(30).reshape(5, 6) == 19, np.nan, walk(5, 6))
OTHER = weight_path("key", walk(9, 5), np.arange(9), np.ones(9))
FROZEN = path_of(np.ones((9, 5)), name="frozen")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rotate(path_of(STILL)), r"query: all 5 snapshots are the same.*at rate 0 not even decay"),
        (lambda: path_of(SHAPES), "same shape"),  # NumPy's own
        (lambda: path_of(HOLE), r"query: snapshots has 1 NaN or infinite value\(s\), the first at \[3, 1\]"),
        (lambda: told(steps=[0, 1]), "3 snapshots, 2 steps, 3 losses: give one of each"),
        (lambda: told(2, [0, 1], [1, 1]), "three snapshots or more, at increasing steps"),
        (lambda: told(steps=[0, 1, 1]), r"three snapshots or more, at increasing steps, got \[0 1 1\]"),
        (lambda: told(steps=[5, 10, 20], losses=[math.nan, 2, 1]), "1 NaN"),
        (lambda: join([path_of(walk(9, 5)), OTHER]), "key and query differ in steps or losses"),
        (lambda: join([path_of(walk(9, 5)), FROZEN]), "frozen never moved"),
        (lambda: cosine_share(np.ones((5, 2))), "has no shape"),
    ],
)
def test_what_makes_no_path_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
