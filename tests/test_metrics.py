"""Angles, agreement, symmetry and shape against slow loops and cases known in closed form."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from embviz import metrics

SAMPLES = arrays(float, st.integers(3, 40), elements=st.floats(-100, 100).map(lambda v: round(v, 3)))
SPREAD = SAMPLES.filter(lambda values: np.ptp(values) > 0.1)  # statistics of a constant are refused


def made_rows(n: int = 30, D: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D))


def made_rotation(D: int, seed: int = 0) -> np.ndarray:
    Q, R = np.linalg.qr(made_rows(D, D, seed))
    return Q * np.sign(np.diag(R))  # without the signs it would not be uniform over rotations


# --- definitions ------------------------------------------------------------------------------------


def test_cosines_follow_their_definition_and_those_of_a_zero_row_are_zero():
    x, y = made_rows(), made_rows(seed=1)
    slow = [sum(a * b) / math.sqrt(sum(a * a) * sum(b * b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(metrics.cosines(x, y), slow)
    assert metrics.cosines([[0.0, 0.0]], [[1.0, 2.0]])[0] == 0
    tables = np.stack([x, y])
    pairs = [
        [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in itertools.combinations(rows, 2)] for rows in tables
    ]
    np.testing.assert_allclose(metrics.mean_cosine(tables), np.mean(pairs, axis=1))


def test_no_map_with_orthonormal_columns_or_rows_brings_rows_nearer_than_the_procrustes_map():
    for D, E in ((6, 6), (4, 6), (6, 4)):
        x, y = made_rows(D=D), made_rows(D=E, seed=1)
        Q = metrics.procrustes_map(x, y)
        np.testing.assert_allclose(Q.T @ Q if E >= D else Q @ Q.T, np.eye(min(D, E)), atol=1e-12)
        other = np.linalg.qr(Q + 0.1 * made_rows(E, D, seed=2))[0] if E >= D else Q[::-1]
        assert np.linalg.norm(x - y @ Q) < np.linalg.norm(x - y @ other)


def slow_angles(x):
    """Angles of all pairs of rows."""
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(x, 2)]
    return np.arccos(cosines)


def test_pairwise_distances_follow_their_definitions():
    x, pairs = made_rows(12), np.triu_indices(12, 1)
    slow = [np.linalg.norm(a - b) for a, b in itertools.combinations(x, 2)]
    np.testing.assert_allclose(metrics.pairwise_distances(x)[pairs], slow)
    found = metrics.pairwise_distances(x, metric="cosine")
    np.testing.assert_allclose(found[pairs], 1 - np.cos(slow_angles(x)), atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_circulant_score_is_the_median_over_rows_of_the_kernel_paper():
    matrix = made_rows(9, 9)
    scores = []
    for i in range(9):
        rolled = np.array([matrix[0][(j - i) % 9] for j in range(9)])
        scores.append(matrix[i] @ rolled / np.linalg.norm(matrix[i]) / np.linalg.norm(rolled))
    assert metrics.circulant_score(matrix) == pytest.approx(np.median(scores))


@given(SPREAD)
def test_measures_of_a_sample_follow_their_definitions(values):
    standard = (values - values.mean()) / values.std()
    assert metrics.kurtosis(values) == pytest.approx((standard**4).mean(), rel=1e-6)
    mirrored = stats.wasserstein_distance(values, -values) / values.std()
    assert metrics.mirror_distance(values) == pytest.approx(mirrored, abs=1e-9)


# --- known cases ------------------------------------------------------------------------------------


def test_a_circulant_matrix_scores_one_in_its_own_direction_only():
    first = made_rows(1, 31)[0]
    circulant = np.array([np.roll(first, i) for i in range(31)])
    assert metrics.circulant_score(circulant) == pytest.approx(1)
    assert metrics.circulant_score(circulant[:, ::-1]) < 0.5
    assert metrics.circulant_score(np.eye(31)) == pytest.approx(1)  # the identity is circulant


def test_a_sample_on_one_side_lies_twice_its_mean_from_its_mirror_image():
    values = np.array([1.0, 2.0, 6.0])
    assert metrics.mirror_distance(values) == pytest.approx(2 * 3 / values.std())
    assert metrics.positive_share(values) == 1
    assert metrics.positive_share([-1.0, 0.0, 0.0, 1.0]) == 0.25


def test_the_bootstrap_interval_of_a_mean_matches_the_normal_one():
    values = np.random.default_rng(0).normal(3, 2, size=400)
    low, high = metrics.bootstrap_interval(values, seed=1)
    half = 1.96 * values.std() / 20
    # 2,000 resamples place each end within a few percent of the half width
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert (low, high) == metrics.bootstrap_interval(values, seed=1)
    assert (low, high) != metrics.bootstrap_interval(values, seed=2)


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: metrics.kurtosis([2.0, 2.0]), "without spread"),
        (lambda: metrics.cosines(np.ones((4, 2)), np.ones((3, 2))), "two arrays of the same shape"),
        (lambda: metrics.procrustes_disparity(np.ones((3, 2)), made_rows(3, 2)), "unique points"),
        (lambda: metrics.bootstrap_interval([1.0], seed=0), "one value has no interval"),
        (lambda: metrics.pairwise_distances(made_rows(3), metric="manhattan"), 'use "euclidean" or "cosine"'),
        (lambda: metrics.nearest_neighbors(made_rows(3), 3), "3 rows have at most 2 neighbours each, not 3"),
        (lambda: metrics.nearest_neighbors([[0.0, 0.0], [1.0, 0.0]], 1, metric="cosine"), "all zeros"),
        (lambda: metrics.neighbors_kept([[1, 2]], [[1]]), "don't match"),
    ],
)
def test_a_question_without_an_answer_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


# --- neighbours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearest_rows_are_those_of_a_sorted_list_of_all(metric):
    x = made_rows(40)
    ids, distances = metrics.nearest_neighbors(x, 5, metric=metric)
    every = metrics.pairwise_distances(x, metric=metric)
    for row in range(40):
        slow = sorted((every[row, other], other) for other in range(40) if other != row)[:5]
        assert ids[row].tolist() == [other for _, other in slow]
        # rows are told apart at a millionth of the longest
        np.testing.assert_allclose(distances[row], [far for far, _ in slow], atol=1e-5)
    some = [31, 2, 7]
    np.testing.assert_array_equal(metrics.nearest_neighbors(x, 5, asked=some, metric=metric)[0], ids[some])


def test_neighbours_are_the_same_in_blocks_turned_and_moved():
    x = made_rows(1100, D=3)
    ids, _ = metrics.nearest_neighbors(x, 4)
    turned, _ = metrics.nearest_neighbors(x @ made_rotation(3) + 7, 4)
    np.testing.assert_array_equal(ids, turned)
    every = metrics.pairwise_distances(x)
    np.fill_diagonal(every, np.inf)
    np.testing.assert_array_equal(ids[:, 0], every.argmin(axis=1))
    equal, distances = metrics.nearest_neighbors(np.zeros((5, 2)), 3)  # by their number
    assert equal.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2]]
    assert not distances.any()


def test_a_drawing_of_noise_keeps_neighbours_as_chance_does():
    true, shown = (metrics.nearest_neighbors(made_rows(500, seed=seed), 8)[0] for seed in (0, 1))
    kept = metrics.neighbors_kept(true, shown)
    assert abs(kept.mean() - 8 / 499) < 4 * kept.std() / math.sqrt(500)
    assert (metrics.neighbors_kept(true, true[:, ::-1]) == 1).all()
