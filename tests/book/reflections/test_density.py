"""The density of eigenvalues against numpy's eigenvalues and known laws."""

import numpy as np
import pytest
from scipy import sparse, stats

from book.reflections.density import lanczos_quadrature, spectral_density
from book.reflections.nulls import semicircle


def made_matrix(n, density=1.0):
    """Symmetric, with rows of very different size as word statistics have."""
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.normal(size=n))
    matrix = rng.normal(size=(n, n)) * np.sqrt(np.outer(sizes, sizes)) * (rng.random((n, n)) < density)
    return np.triu(matrix) + np.triu(matrix, 1).T


def test_gauss_rules_reproduce_the_moments_that_their_probe_sees():
    matrix = made_matrix(40) / 10
    probe = np.random.default_rng(0).normal(size=40)
    probe /= np.linalg.norm(probe)
    nodes, weights = lanczos_quadrature(matrix, probe, 6)
    for power in range(12):  # 2 * 6 - 1 is the last exact one
        seen = probe @ np.linalg.matrix_power(matrix, power) @ probe
        assert weights @ nodes**power == pytest.approx(seen, rel=1e-8)


def test_eigenvalues_are_found_all_once_and_exactly():
    matrix = made_matrix(30)
    nodes, _ = lanczos_quadrature(matrix, np.full(30, 30**-0.5), 30)
    np.testing.assert_allclose(nodes, np.linalg.eigvalsh(matrix), atol=1e-9)
    # without full orthogonality an outlying eigenvalue comes back as a ghost after a few dozen steps
    matrix = np.diag(np.concatenate([np.linspace(-1, 1, 299), [50.0]]))
    nodes, weights = lanczos_quadrature(matrix, np.full(300, 300**-0.5), 120)
    assert weights[nodes > 2] == pytest.approx([1 / 300], rel=1e-9)
    # three values: the probe's space is exhausted after three steps
    values = np.repeat([-2.0, 1.0, 5.0], [30, 50, 20])
    nodes, weights = lanczos_quadrature(sparse.diags_array(values).tocsr(), np.full(100, 0.1), 30)
    np.testing.assert_allclose(nodes, [-2, 1, 5])
    np.testing.assert_allclose(weights, [0.3, 0.5, 0.2])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_density_agrees_with_dense_eigenvalues_within_its_error_bars(kind):
    matrix = made_matrix(500, density=0.1)
    values = np.linalg.eigvalsh(matrix)
    grid = np.linspace(*np.quantile(values, [0.02, 0.98]), 300)
    width = np.ptp(grid) / 100
    found = spectral_density(kind(matrix), n_probes=24, n_steps=100, seed=0, grid=grid, bandwidth=width)
    off = np.abs(found.density - stats.norm.pdf(grid[:, None], values, width).mean(axis=1))
    # neighbouring points share their error: the whole curve may lie two or three standard errors off
    assert np.median(off / found.standard_error) < 2
    assert (off < 5 * found.standard_error).mean() > 0.98


def test_standard_errors_are_as_large_as_the_spread_over_seeds():
    matrix, options = made_matrix(200, density=0.2), {"grid": np.zeros(1), "bandwidth": 1.0}
    runs = [spectral_density(matrix, n_probes=8, n_steps=40, seed=seed, **options) for seed in range(40)]
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs]))
    # the ratio of two spreads, 40 and 280 degrees of freedom: 0.75 to 1.3 in 99 of 100
    assert 0.7 < np.std([run.density for run in runs], ddof=1) / claimed < 1.35


def test_the_density_of_a_gaussian_matrix_is_the_semicircle():
    radius = 2 * np.sqrt(1000)
    grid = np.linspace(-0.9, 0.9, 19) * radius
    matrix = semicircle(1000, variance=1.0, seed=0)
    found = spectral_density(matrix, n_probes=16, n_steps=40, seed=1, grid=grid, bandwidth=0.05 * radius)
    law = stats.semicircular(scale=radius)
    # the Gaussian of a fortieth of the span flattens the arch by less than a percent of its height
    flattened = 0.01 * law.pdf(0)
    np.testing.assert_array_less(np.abs(found.density - law.pdf(grid)), 4 * found.standard_error + flattened)
    assert (4 * found.standard_error < 0.25 * law.pdf(0)).all()  # error bars that say something
