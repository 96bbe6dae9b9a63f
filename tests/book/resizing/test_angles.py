"""The four measures of a map against slow loops, closed forms, and what Gaussian maps give."""

import itertools
import math

import numpy as np
import pytest

from book.resizing import angles


def slow_angles(x):
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(x, 2)]
    return np.arccos(cosines)


def test_measures_follow_their_definitions():
    rng = np.random.default_rng(0)
    x, y, image = rng.normal(size=(15, 6)), rng.normal(size=(15, 4)), rng.normal(size=(15, 6))
    before, after = slow_angles(x), slow_angles(y)
    assert angles.concordance(x, y) == pytest.approx(np.corrcoef(np.cos(before), np.cos(after))[0, 1])
    assert angles.angular_error(x, y) == pytest.approx(np.abs(before - after).mean())
    slow = [a @ b / math.sqrt((a @ a) * (b @ b)) for a, b in zip(x, image, strict=True)]
    assert angles.feature_alignment(x, image) == pytest.approx(np.mean(slow), abs=1e-14)


def test_kurtosis_shift_of_one_hot_entries_spread_evenly_is_that_of_their_closed_forms():
    n = 64
    p = 1 / n
    closed = (1 - 3 * p * (1 - p)) / (p * (1 - p))  # of a coin with probability p, whatever its values
    shift = angles.kurtosis_shift(np.eye(n)[0], np.resize([1.0, -1.0], n))
    assert shift == pytest.approx(1 - closed, rel=1e-12)


def test_the_angular_error_of_independent_directions_is_a_third_of_a_half_turn_in_the_plane():
    assert angles.random_angular_error(2, 2) == pytest.approx(math.pi / 3, abs=1e-10)
    assert angles.random_angular_error(3, 3) == pytest.approx(math.pi / 4, abs=1e-10)
    # in many dimensions both angles are normal around a right angle
    expected = math.sqrt(2 / math.pi * (1 / 2000 + 1 / 5000))
    assert angles.random_angular_error(2000, 5000) == pytest.approx(expected, rel=1e-3)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(600, 5)), rng.normal(size=(600, 9))
    # 179,700 pairs, hardly dependent: a standard error of 0.1%
    assert angles.angular_error(x, y) == pytest.approx(angles.random_angular_error(5, 9), rel=0.006)


def test_expected_error_and_concordance_of_a_gaussian_map_are_what_maps_give():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 3))  # of three dimensions, so that angles of all sizes are there
    maps = [rng.normal(size=(3, 50)) for _ in range(200)]
    errors = [angles.angular_error(x, x @ T) for T in maps]
    concordances = [angles.concordance(x, x @ T) for T in maps]
    # a standard error of 2%: six numbers decide all pairs of a draw
    assert np.mean(errors) == pytest.approx(angles.expected_angular_error(x, 50), rel=0.06)
    # with sin(a)^2 in place of its square this would be off by 0.0037
    assert np.mean(concordances) == pytest.approx(angles.expected_concordance(x, 50), abs=0.0015)
