"""Spectra against numpy's eigenvalues and known laws; nulls against what they must keep and destroy."""

import numpy as np
import pytest
from scipy import sparse

from embviz.words import spectra
from embviz.words.spectra import (
    eigenvalues,
    shuffle_tokens,
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
        (lambda: truncated_eigen(FEW, 0, seed=0), "n_components is 0: a 20 x 20 matrix has 1 to 20"),
        (lambda: truncated_eigen(FEW, 21, seed=0), "n_components is 21: a 20 x 20 matrix has 1 to 20"),
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
    with pytest.raises(MemoryError, match=r"200 x 200 float32 .*truncated_eigen.*threshold"):
        eigenvalues(made_matrix(200))
    monkeypatch.setattr("embviz.memory.available_memory", lambda: needed)
    eigenvalues(made_matrix(200))


DOES_IT_FIT = [
    eigenvalues,
    lambda matrix: truncated_eigen(matrix, 1, seed=0),
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
