"""Johnson-Lindenstrauss maps: entries and moments, inverses, what each family may not be asked."""

import itertools
import math

import numpy as np
import pytest
import scipy.linalg
from scipy import stats

from embviz import projections
from embviz.projections import FAMILIES, draw

SIZES = [(6, 16), (16, 16), (24, 16)]  # m below, at and above d
D = 16


def vectors(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def allowed(sizes):
    """Families with the sizes that they allow."""
    return [(f, m, d) for f in FAMILIES for m, d in sizes if m <= projections.largest_width(f, d)]


# --- the definition ---------------------------------------------------------------------------------


def test_a_map_applies_its_matrix_to_every_vector():
    x = vectors(12, D).reshape(3, 4, D)
    for family in FAMILIES:
        found = draw(family, 6, D, seed=1)
        assert found.matrix.shape == found.shape == (6, D)
        slow = [[found.matrix @ v for v in row] for row in x]
        np.testing.assert_allclose(found.apply(x), slow, atol=1e-13)  # sums of 16 in another order


@pytest.mark.parametrize("width", [1, 2, 8, 16, 32, 512])
def test_the_fast_transform_is_the_matrix_of_sylvester(width):
    x = vectors(3, width)
    slow = x @ scipy.linalg.hadamard(width)
    np.testing.assert_allclose(projections.walsh_hadamard(x), slow, atol=1e-12)  # sums of up to 512


def test_a_hadamard_map_is_rows_of_the_transform_with_signed_columns():
    found = draw("hadamard", 5, 12, seed=3)
    operator = found.operator
    for i, j in itertools.product(range(5), range(12)):
        common_bits = int(operator.rows[i] & j).bit_count()
        sign = operator.signs[j] * (-1) ** common_bits
        assert found.matrix[i, j] == pytest.approx(sign / math.sqrt(5), abs=1e-15)
    assert len(set(operator.rows.tolist())) == 5


def test_entries_have_the_values_and_shares_of_their_family():
    m, d = 200, 300
    normal = draw("gaussian", m, d, seed=0).matrix * math.sqrt(m)
    assert stats.kstest(normal.ravel(), "norm").pvalue > 0.001
    signs = draw("rademacher", m, d, seed=0).matrix * math.sqrt(m)
    np.testing.assert_allclose(np.abs(signs), 1, rtol=1e-14)
    assert abs(signs.mean()) < 4 / math.sqrt(m * d)
    sparse = draw("sparse", m, d, seed=0).matrix
    share = np.mean(sparse != 0)
    assert share == pytest.approx(1 / 3, abs=4 * math.sqrt(2 / 9 / (m * d)))
    np.testing.assert_allclose(np.abs(sparse[sparse != 0]), math.sqrt(3 / m), rtol=1e-14)


@pytest.mark.parametrize(("family", "m", "d"), allowed(SIZES))
def test_the_pseudo_inverse_is_moores_and_penroses(family, m, d):
    found = draw(family, m, d, seed=4)
    inverse = found.pseudo_inverse()
    assert inverse.shape == (d, m)
    # relative to the pseudo-inverse's own size; square random maps are badly conditioned, squared by the Gram
    np.testing.assert_allclose(inverse, np.linalg.pinv(found.matrix), atol=1e-9 * np.abs(inverse).max())
    own = found.matrix @ inverse if m <= d else inverse @ found.matrix
    np.testing.assert_allclose(own, np.eye(min(m, d)), atol=1e-9)


# --- known cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "m", "d"), allowed([*SIZES, (5, 12)]))  # 12: a Hadamard map pads
def test_lengths_are_kept_on_average_in_isometric_scaling(family, m, d):
    dense, sparse = vectors(1, d, seed=8)[0], np.eye(d)[2]
    x = np.stack([dense / np.linalg.norm(dense), sparse])
    squares = np.array([(draw(family, m, d, seed=[9, i]).apply(x) ** 2).sum(1) for i in range(1500)])
    error = squares.std(axis=0) / math.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - 1) <= 4 * error + 1e-12).all()


def test_unit_scaling_is_the_isometric_map_without_its_factor():
    for family, m, d in allowed(SIZES):
        isometric, unit = draw(family, m, d, seed=5), draw(family, m, d, seed=5, scaling="unit")
        assert unit.scale == pytest.approx(1)
        assert isometric.scale == pytest.approx(math.sqrt(max(m, d) / m))
        np.testing.assert_allclose(isometric.matrix, unit.matrix * isometric.scale, rtol=1e-12)


def test_squared_lengths_spread_as_each_familys_closed_form_has_it():
    m, d, n_draws = 6, D, 4000
    x = np.zeros(d)
    x[:3] = (0.6, 0.64, 0.48)  # length 1, fourth powers matter
    fourth = (x**4).sum()
    expected = {
        "gaussian": 2 / m,
        "rademacher": 2 / m * (1 - fourth),
        "sparse": 2 / m,  # entries of kurtosis 3, as a normal's
        "orthonormal": 2 * (d - m) / (m * (d + 2)),  # d / m times a beta(m / 2, (d - m) / 2)
        "hadamard": 2 / m * (1 - fourth) * (d - m) / (d - 1),  # sampled without replacement
    }
    for family, variance in expected.items():
        squares = [(draw(family, m, d, seed=[1, i]).apply(x) ** 2).sum() for i in range(n_draws)]
        # a variance of 4,000 draws has a standard error of 2 to 4%, more for heavy tails
        assert np.var(squares) == pytest.approx(variance, rel=0.16), family


def test_orthonormal_maps_are_orthonormal_and_their_pseudo_inverse_is_the_transpose():
    for m, d in SIZES:
        found = draw("orthonormal", m, d, seed=0, scaling="unit")
        assert found.is_orthonormal
        np.testing.assert_allclose(found.pseudo_inverse(), found.matrix.T, atol=1e-12)
    assert draw("hadamard", 6, 16, seed=0, scaling="unit").is_orthonormal
    assert not draw("hadamard", 6, 12, seed=0, scaling="unit").is_orthonormal  # cut columns
    assert not draw("orthonormal", 6, 16, seed=0).is_orthonormal  # scaled
    assert not draw("gaussian", 6, 16, seed=0, scaling="unit").is_orthonormal


def test_random_rotations_are_uniform_not_those_of_one_sign():
    first = np.array([draw("orthonormal", 3, 3, seed=[2, i]).matrix for i in range(2000)])
    # without the correction of signs the diagonal would be biased
    assert np.abs(first.mean(axis=0)).max() < 4 / math.sqrt(3 * 2000)


def test_principal_directions_keep_what_the_singular_values_say():
    x = vectors(30, 8) * np.geomspace(4, 0.1, 8)
    values = np.linalg.svd(x, compute_uv=False)
    for m in (1, 3, 8):
        found = projections.pca(x, m)
        assert found.is_orthonormal
        assert (found.apply(x) ** 2).sum() == pytest.approx((values[:m] ** 2).sum(), rel=1e-12)
    full = projections.pca(x[:3], 8)  # completed to a basis
    assert full.is_orthonormal
    np.testing.assert_allclose(full.apply(x[:3])[:, 3:], 0, atol=1e-12)


def test_coordinates_are_chosen_once_below_d_and_scaled_and_a_permutation_turns_some_signs():
    found = projections.coordinates(5, D, 3)
    assert found.scale == pytest.approx(math.sqrt(D / 5))
    assert sorted(np.count_nonzero(found.matrix, axis=0), reverse=True)[:6] == [1, 1, 1, 1, 1, 0]
    assert (np.count_nonzero(projections.coordinates(40, D, 3).matrix, axis=1) == 1).all()
    means = np.mean([(projections.coordinates(40, D, i).apply(np.arange(D)) ** 2).sum() for i in range(400)])
    assert means == pytest.approx((np.arange(D) ** 2).sum(), rel=0.03)  # a standard error of 0.7%
    T = projections.signed_permutation(D, 0).matrix
    assert (np.count_nonzero(T, axis=0) == 1).all()
    assert (np.count_nonzero(T, axis=1) == 1).all()
    assert sorted(set(T[T != 0])) == [-1.0, 1.0]
    assert not np.array_equal(np.abs(T), np.eye(D))


# --- symmetries -------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_map_and_another_seed_another():
    for family in FAMILIES:
        first = draw(family, 6, D, seed=3).matrix
        np.testing.assert_array_equal(first, draw(family, 6, D, seed=np.random.default_rng(3)).matrix)
        assert not np.array_equal(first, draw(family, 6, D, seed=4).matrix)


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: draw("cauchy", 2, 4, seed=0), "no family 'cauchy': choose one of gaussian"),
        (lambda: draw("gaussian", 2, 4, seed=0, scaling="natural"), "use 'isometric' or 'unit'"),
        (lambda: draw("gaussian", 0, 4, seed=0), "4 coordinates to 0: both must be at least 1"),
        (lambda: draw("hadamard", 17, 12, seed=0), r"has 16 \(d padded to a power of two\), fewer than 17"),
        (lambda: projections.pca(vectors(9, 4), 5), "5 principal directions of 4 coordinates: m can be 4"),
        (lambda: projections.walsh_hadamard(np.ones((2, 12))), "number must be a power of two"),
        (lambda: draw("gaussian", 2, 4, seed=0).apply(np.ones((3, 5))), "for a map of 4 coordinates to 2"),
    ],
)
def test_what_no_map_can_do_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_a_map_of_ones_own_has_its_root_mean_square_row_as_scale_and_no_inverse_without_full_rank():
    found = projections.Projection.from_matrix([[3.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert found.scale == pytest.approx(math.sqrt(5))
    np.testing.assert_allclose(found.pseudo_inverse(), [[1 / 3, 0], [0, 0], [0, 1]], atol=1e-15)
    T = np.ones((3, 5))
    T[0] = 2.0
    for matrix in (T, T.T):
        with pytest.raises(ValueError, match="has rank 1, not 3"):
            projections.Projection.from_matrix(matrix).pseudo_inverse()
