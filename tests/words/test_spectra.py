"""Spectra against numpy's eigenvalues and known laws; nulls against what they must keep and destroy."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse, stats

from embviz import metrics
from embviz.words import spectra
from embviz.words.spectra import (
    configuration_model,
    eigenvalues,
    permute_entries,
    semicircle,
    shuffle_tokens,
    spectral_density,
    truncated_eigen,
)


def made_matrix(n: int = 120, seed: int = 0, density: float = 1.0) -> np.ndarray:
    """Symmetric, with rows of very different size as word statistics have."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(size=n))
    matrix = rng.normal(size=(n, n)) * np.sqrt(np.outer(sizes, sizes)) * (rng.random((n, n)) < density)
    return np.triu(matrix) + np.triu(matrix, 1).T


def made_counts(n: int = 60, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.poisson(0.3, size=(n, n)))
    return sparse.csr_array(upper + np.triu(upper, 1).T)


# --- all eigenvalues --------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["torch's", "scipy's"])
@pytest.mark.parametrize("n", [1, 2, 7, 600])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 4e-6), ("float64", 2e-13)])
def test_eigenvalues_of_dense_and_sparse_are_those_of_numpy(monkeypatch, solver, n, dtype, tolerance):
    matrix = made_matrix(n, density=0.5).astype(dtype)
    before, expected = matrix.copy(), np.linalg.eigvalsh(matrix.astype(float))
    if solver == "scipy's":
        monkeypatch.setattr(spectra, "installed", lambda name: False)
    for given_as in (matrix, sparse.csr_array(matrix), np.asfortranarray(matrix)):
        values = eigenvalues(given_as, dtype=dtype)
        assert values.dtype == dtype
        # backward error of the solver: a few roundings of the largest eigenvalue
        assert np.abs(values - expected).max() <= tolerance * (1 + np.abs(expected).max())
    np.testing.assert_array_equal(matrix, before)
    assert (spectra._dense_bytes(9_000, "float32") > 2 * 4 * 9_000**2) == (solver == "torch's")


def test_counts_and_matrices_of_zeros_have_eigenvalues_too():
    counts = made_counts()
    np.testing.assert_allclose(eigenvalues(counts), np.linalg.eigvalsh(counts.toarray()), atol=1e-5)
    np.testing.assert_array_equal(eigenvalues(sparse.csr_array((4, 4))), np.zeros(4))


FEW = made_matrix(20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eigenvalues(np.zeros((0, 0))), r"matrix is empty: its shape is \(0, 0\)"),
        (lambda: eigenvalues(FEW, dtype="float16"), "dtype is 'float16'"),
        (lambda: truncated_eigen(FEW, 0, seed=0), "n_components is 0: a 20 x 20 matrix has 1 to 20"),
        (lambda: truncated_eigen(FEW, 21, seed=0), "n_components is 21: a 20 x 20 matrix has 1 to 20"),
        (lambda: spectral_density(FEW, n_probes=1, seed=0), "n_probes is 1 and n_steps 80: error bars"),
        (lambda: spectral_density(FEW, bandwidth=0.0, seed=0), "bandwidth is 0"),
        (lambda: permute_entries(FEW * 1e300, seed=0), r"matrix goes .* it must be"),  # its squares overflow
        (lambda: semicircle(3, variance=-1.0, seed=0), "variance at least 0"),
    ],
)
def test_what_has_no_spectrum_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_matrix_that_does_not_fit_is_refused_with_its_size_and_the_alternatives(monkeypatch):
    monkeypatch.setattr("embviz.memory.NEVER_REFUSED", 0)
    assert spectra._dense_bytes(29_145, "float32") < 8e9
    needed = spectra._dense_bytes(200, "float32")
    monkeypatch.setattr("embviz.memory.available_memory", lambda: needed - 1)
    with pytest.raises(
        MemoryError, match=r"200 x 200 float32 .*spectral_density.*truncated_eigen.*threshold"
    ):
        eigenvalues(made_matrix(200))
    monkeypatch.setattr("embviz.memory.available_memory", lambda: needed)
    eigenvalues(made_matrix(200))
    monkeypatch.setattr("embviz.memory.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"Lanczos steps for 20 rows.*n_steps"):
        spectral_density(FEW, seed=0)


DOES_IT_FIT = [
    eigenvalues,
    lambda matrix: truncated_eigen(matrix, 1, seed=0),
    lambda matrix: spectral_density(matrix, seed=0),
    lambda matrix: permute_entries(matrix, seed=0),
    lambda matrix: configuration_model(matrix, seed=0),
]


@pytest.mark.parametrize("measure", DOES_IT_FIT)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_matrices_that_are_not_symmetric_and_square_are_refused(measure, kind):
    matrix = made_matrix(30)
    with pytest.raises(ValueError, match="must be square"):
        measure(kind(matrix[:, :20]))
    matrix[4, 7] += 0.01 * np.abs(matrix).max()
    with pytest.raises(ValueError, match="not symmetric"):
        measure(kind(matrix))


def test_the_rounding_of_float32_is_not_taken_for_asymmetry():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(700, 50)).astype(np.float32), rng.random(50).astype(np.float32)
    matrix = (rows * weights) @ rows.T
    assert not np.array_equal(matrix, matrix.T)
    eigenvalues(matrix)


# --- leading eigenvalues ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_leading_eigenvalues_are_sorted_by_magnitude_with_signed_orthonormal_vectors(kind):
    matrix = made_matrix(100)
    values, vectors = truncated_eigen(kind(matrix), 9, seed=3)
    every = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(values, every[np.argsort(-np.abs(every))][:9])
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(9), atol=1e-10)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(9)] > 0).all()


def test_one_start_gives_the_same_bits_and_another_the_same_answer():
    matrix = sparse.csr_array(made_matrix(100, density=0.2))
    first, again, other = (truncated_eigen(matrix, 5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[1], again[1])
    np.testing.assert_allclose(first[1], other[1], atol=1e-8)
    vector = made_matrix(50)[:, :1]  # of rank one: an invariant subspace at once, and a new start is drawn
    first, again = (truncated_eigen(vector @ vector.T, 4, seed=0) for _ in range(2))
    np.testing.assert_array_equal(first[1], again[1])


def test_up_to_all_eigenpairs_can_be_asked_for():
    matrix = made_matrix(20)
    for n_components in (6, 7, 19, 20):  # the iteration, then the dense solver
        values, vectors = truncated_eigen(sparse.csr_array(matrix), n_components, seed=0)
        assert vectors.shape == (20, n_components)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-9)
        assert (np.diff(np.abs(values)) <= 0).all()


# --- density ----------------------------------------------------------------------------------------


def test_gauss_rules_reproduce_the_moments_that_their_probe_sees():
    matrix = made_matrix(40) / 10
    probe = np.random.default_rng(0).normal(size=40)
    probe /= np.linalg.norm(probe)
    (rule,) = spectra._lanczos_quadrature(matrix, probe[None], 6)
    for power in range(12):  # 2 * 6 - 1 is the last exact one
        seen = probe @ np.linalg.matrix_power(matrix, power) @ probe
        assert rule.weights @ rule.nodes**power == pytest.approx(seen, rel=1e-8)


def test_the_full_number_of_steps_finds_the_eigenvalues_themselves():
    matrix = made_matrix(30)
    (rule,) = spectra._lanczos_quadrature(matrix, np.full((1, 30), 30**-0.5), 30)
    np.testing.assert_allclose(rule.nodes, np.linalg.eigvalsh(matrix), atol=1e-9)
    assert rule.exact


def test_eigenvalues_found_early_are_not_found_twice():
    # without full orthogonality an outlying eigenvalue comes back as a ghost after a few dozen steps
    matrix = np.diag(np.concatenate([np.linspace(-1, 1, 299), [50.0]]))
    (rule,) = spectra._lanczos_quadrature(matrix, np.full((1, 300), 300**-0.5), 120)
    assert (rule.nodes > 2).sum() == 1
    assert rule.weights[rule.nodes > 2] == pytest.approx(1 / 300, rel=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_density_agrees_with_dense_eigenvalues_within_its_error_bars(kind):
    matrix = made_matrix(500, density=0.1)
    values = np.linalg.eigvalsh(matrix)
    found = spectral_density(kind(matrix), n_probes=24, n_steps=100, seed=0)
    exact = stats.norm.pdf((found.grid[:, None] - values) / found.bandwidth).mean(axis=1) / found.bandwidth
    cumulative = np.searchsorted(values, found.grid, side="right") / 500
    where = (cumulative > 0.02) & (cumulative < 0.98)
    # neighbouring points share their error: the whole curve may lie two or three standard errors off
    assert np.median(np.abs(found.density - exact)[where] / found.standard_error[where]) < 2
    assert (np.abs(found.density - exact)[where] < 5 * found.standard_error[where]).mean() > 0.98
    assert (
        np.abs(found.cumulative - cumulative)[where] < 4.5 * found.cumulative_standard_error[where]
    ).mean() > 0.98
    assert found.positive_share == pytest.approx(
        (values > 0).mean(), abs=3.5 * found.positive_share_standard_error
    )
    moments = [(values**k).mean() for k in range(5)]
    errors = 4 * found.moments_standard_error + 1e-12  # the zeroth, the sum of the weights, has no error
    np.testing.assert_array_less(np.abs(found.moments - moments), errors)
    assert np.trapezoid(found.density, found.grid) == pytest.approx(1, abs=1e-3)


def test_standard_errors_are_as_large_as_the_spread_over_seeds():
    matrix = made_matrix(200, density=0.2)
    runs = [spectral_density(matrix, n_probes=8, n_steps=40, seed=seed) for seed in range(40)]
    shares = np.array([run.positive_share for run in runs])
    claimed = np.sqrt(np.mean([run.positive_share_standard_error**2 for run in runs]))
    # the ratio of two spreads, 40 and 280 degrees of freedom: 0.75 to 1.3 in 99 of 100
    assert 0.7 < shares.std(ddof=1) / claimed < 1.35
    exact = (np.linalg.eigvalsh(matrix) > 0).mean()
    assert abs(shares.mean() - exact) < 4 * claimed / np.sqrt(40) + 0.002  # 40 steps resolve 0.002


def test_a_diagonal_matrix_of_three_values_is_found_exactly_as_each_probe_sees_it():
    values = np.repeat([-2.0, 1.0, 5.0], [30, 50, 20])
    found = spectral_density(
        sparse.diags_array(values).tocsr(), n_steps=30, seed=0, grid=np.array([-2.5, -1, 2, 6])
    )
    # signs see each eigenvalue of a diagonal matrix with exactly equal weight
    np.testing.assert_allclose(found.cumulative, [0, 0.3, 0.8, 1], atol=1e-12)
    np.testing.assert_allclose(found.moments, [(values**k).mean() for k in range(5)])
    np.testing.assert_allclose(found.moments_standard_error, 0, atol=1e-12)
    assert found.positive_share == pytest.approx(0.7)
    assert found.positive_share_resolution == 0


def test_the_bandwidth_is_half_the_mean_distance_of_neighbouring_nodes_by_their_weight():
    found = spectral_density(np.diag([0.0, 1.0, 2.0, 3.0]), n_probes=2, n_steps=4, seed=0)
    # four nodes of weight 1/4: a gap counts with the mean weight of its ends
    assert found.bandwidth == pytest.approx((3 / 4) / 2)


def test_the_share_up_to_an_eigenvalue_counts_it_and_the_resolution_is_half_of_what_could_be_moved():
    known = spectra.Quadrature(np.array([-1.0, 1.0]), np.array([0.25, 0.75]), exact=True)
    assert spectra._cumulative(known, np.array([-1.5, -1.0, 0.0, 1.0])).tolist() == [0, 0.25, 0.25, 1]
    guessed = spectra.Quadrature(
        np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.3, 0.4]), exact=False
    )
    assert spectra._unplaced(guessed) == pytest.approx(0.5)  # both nodes beside 0 may lie on either side
    assert spectra._summarize([guessed] * 2, None, None).positive_share_resolution == pytest.approx(0.25)


def test_the_density_of_a_gaussian_matrix_is_the_semicircle():
    n = 1000
    radius = 2 * np.sqrt(n)
    grid = np.linspace(-0.9, 0.9, 19) * radius
    matrix = semicircle(n, variance=1.0, seed=0)
    found = spectral_density(matrix, n_probes=16, n_steps=40, seed=1, grid=grid, bandwidth=0.05 * radius)
    law = stats.semicircular(scale=radius)
    # the Gaussian of a fortieth of the span flattens the arch by less than a percent of its height
    flattened = 0.01 * law.pdf(0)
    np.testing.assert_array_less(np.abs(found.density - law.pdf(grid)), 4 * found.standard_error + flattened)
    assert (4 * found.standard_error < 0.25 * law.pdf(0)).all()  # error bars that say something
    np.testing.assert_allclose(found.cumulative, law.cdf(grid), atol=0.03)
    assert found.moments[2] == pytest.approx(n, rel=0.02)
    assert found.moments[4] == pytest.approx(2 * n**2, rel=0.05)


def test_float32_is_kept_and_agrees_with_float64():
    matrix = sparse.csr_array(made_matrix(200, density=0.2))
    grid = np.linspace(-20, 20, 41)
    options = {"n_probes": 9, "n_steps": 60, "seed": 0, "grid": grid, "bandwidth": 1.0}
    one, other = spectral_density(matrix, **options), spectral_density(matrix.astype(np.float32), **options)
    np.testing.assert_allclose(one.density, other.density, atol=1e-5)


def test_the_same_seed_gives_the_same_bits():
    matrix = sparse.csr_array(made_matrix(100, density=0.3))
    first, again, other = (spectral_density(matrix, n_steps=20, seed=seed) for seed in (1, 1, 2))
    for field in dataclasses.fields(first):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
    assert other.positive_share != first.positive_share


# --- nulls ------------------------------------------------------------------------------------------


def test_shuffled_tokens_are_the_same_tokens_in_another_order():
    ids = np.random.default_rng(0).integers(0, 50, size=500).astype(np.uint8)
    shuffled = shuffle_tokens(ids, seed=1)
    assert shuffled.dtype == np.uint8
    np.testing.assert_array_equal(np.sort(shuffled), np.sort(ids))
    assert (shuffled != ids).any()
    np.testing.assert_array_equal(shuffled, shuffle_tokens(ids, seed=1))
    assert (shuffled != shuffle_tokens(ids, seed=2)).any()
    # pairs of neighbours that are alike are as rare as in a random order: 500 / 50 of them
    assert abs(int((shuffled[1:] == shuffled[:-1]).sum()) - 10) < 15


def test_a_gaussian_matrix_has_its_variance_and_fills_the_semicircle():
    matrix = semicircle(900, variance=2.5, seed=0)  # more rows than a block
    np.testing.assert_array_equal(matrix, matrix.T)
    assert matrix.dtype == np.float32
    assert matrix.var() == pytest.approx(2.5, rel=0.02)  # 400,000 entries: 0.2 percent is one sd
    values = eigenvalues(matrix)
    assert stats.kstest(values, stats.semicircular(scale=2 * np.sqrt(900 * 2.5)).cdf).statistic < 0.01
    assert metrics.kurtosis(values) == pytest.approx(2, abs=0.03)
    assert np.abs(values).max() == pytest.approx(2 * np.sqrt(900 * 2.5), rel=0.03)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_permuted_entries_are_the_same_values_in_other_places(kind):
    matrix = made_matrix(700, density=0.3).astype(np.float32)  # more rows than a block
    permuted = permute_entries(kind(matrix), seed=0)
    upper = np.triu_indices(700)
    np.testing.assert_array_equal(np.sort(permuted[upper]), np.sort(matrix[upper]))
    np.testing.assert_array_equal(permuted, permuted.T)
    np.testing.assert_array_equal(permuted, permute_entries(matrix, seed=0))
    assert np.corrcoef(permuted[upper], matrix[upper])[0, 1] == pytest.approx(0, abs=0.01)


def test_entries_are_permuted_with_one_and_a_half_float32_copies():
    import tracemalloc

    matrix = sparse.csr_array(made_matrix(800, density=0.01))
    tracemalloc.start()
    permute_entries(matrix, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # one triangle, the result, and a block of 512 float64 rows with its few shadows
    assert peak < 800 * 800 * 4 * 1.5 + 3 * 512 * 800 * 8


@pytest.mark.parametrize("kind", [sparse.csr_array, lambda matrix: matrix.toarray()])
def test_the_configuration_model_keeps_every_degree(kind):
    rng = np.random.default_rng(0)
    pattern = np.triu(rng.random((300, 300)) < np.minimum(1, np.outer(*2 * [rng.pareto(1, size=300) / 3])), 1)
    matrix = sparse.csr_array((pattern + pattern.T) * 2.5)
    graph = configuration_model(kind(matrix), seed=1)
    assert isinstance(graph, sparse.csr_array)
    assert (graph != graph.T).nnz == 0
    assert not graph.diagonal().any()
    assert set(graph.data) == {1.0}
    np.testing.assert_array_equal(graph.sum(axis=0), np.diff(matrix.indptr))
    assert np.diff(matrix.indptr).max() > 250  # hubs that meet nearly all others keep their degree too
    assert (graph != configuration_model(matrix, seed=1)).nnz == 0
    assert (graph != configuration_model(matrix, seed=2)).nnz > 0


def test_the_diagonal_and_stored_zeros_are_no_edges():
    matrix = sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    assert configuration_model(matrix, seed=0).nnz == 0
    zeros = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    zeros.data[:] = 0
    assert configuration_model(zeros, seed=0).nnz == 0


B = np.array([[6.0, -2, -4], [-2, 6, -3], [-4, -3, -4]])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_copies", [8, 200])
def test_repeated_eigenvalues_keep_all_their_copies(kind, n_copies):
    matrix = kind(np.kron(np.eye(n_copies), B))
    right = np.linalg.eigvalsh(B)
    right = np.repeat(right[np.argsort(-np.abs(right))], n_copies)
    for seed in range(5):
        values, vectors = truncated_eigen(matrix, 15, seed=seed)
        np.testing.assert_allclose(values, right[:15], rtol=1e-9)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(15), atol=1e-9)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-8)


@pytest.mark.parametrize("n", [6, 700])
def test_the_zero_matrix_has_zero_eigenvalues(n):
    values, vectors = truncated_eigen(np.zeros((n, n)), 2, seed=0)
    np.testing.assert_array_equal(values, 0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(2))


@pytest.mark.parametrize(("dtype", "scale", "rtol"), [("float64", 1e-30, 1e-9), ("float32", 1e-12, 1e-4)])
def test_eigenvalues_do_not_depend_on_the_scale(dtype, scale, rtol):
    half = np.random.default_rng(0).normal(size=(600, 600))
    matrix = ((half + half.T) * scale).astype(dtype)
    right = np.linalg.eigvalsh((half + half.T).astype(np.float64)) * scale
    right = right[np.argsort(-np.abs(right))][:5]
    np.testing.assert_allclose(truncated_eigen(matrix, 5, seed=0)[0], right, rtol=rtol)
