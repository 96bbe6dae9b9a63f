"""Eigenvalues of symmetric matrices, and random matrices to hold them against."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import eigsh

Matrix = np.ndarray | sparse.csr_array


def eigenvalues(matrix: Matrix, *, dtype: str = "float32") -> np.ndarray:
    """All eigenvalues of a symmetric matrix, ascending; shape (V,)."""
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    return torch.linalg.eigvalsh(torch.from_numpy(np.asarray(dense, dtype=dtype))).numpy()


def truncated_eigen(matrix: Matrix, n_components: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues by magnitude, and their vectors (V, K), signs fixed."""
    start = np.random.default_rng(seed).standard_normal(matrix.shape[0])
    values, vectors = eigsh(matrix, k=n_components, which="LM", v0=start)
    order = np.argsort(-np.abs(values))
    values, vectors = values[order], vectors[:, order]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_components)])
    return values, vectors * signs


def shuffle_tokens(ids: np.ndarray, *, seed: int) -> np.ndarray:
    """The same tokens in random order."""
    return np.random.default_rng(seed).permutation(ids)


def semicircle(n: int, *, variance: float, seed: int) -> np.ndarray:
    """Symmetric Gaussian matrix whose entries have the given variance off the diagonal; float32."""
    half = np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32) * np.float32(variance**0.5)
    return np.triu(half) + np.triu(half, 1).T


def permute_entries(matrix: Matrix, *, seed: int) -> np.ndarray:
    """The entries on and above the diagonal in random places, mirrored."""
    dense = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
    upper = np.triu_indices(len(dense))
    result = np.zeros(dense.shape, dtype=np.float32)
    result[upper] = np.random.default_rng(seed).permutation(dense[upper])
    return result + np.triu(result, 1).T


def configuration_model(matrix: Matrix, *, seed: int) -> sparse.csr_array:
    """Adjacency of a random graph with the degrees of the matrix's nonzero pattern.

    Ends of edges are matched at random; loops and repeated edges are dropped.
    """
    degrees = np.diff(sparse.csr_array(matrix).indptr)
    ends = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(degrees)), degrees))
    ends = ends[: len(ends) // 2 * 2].reshape(-1, 2)
    ends = ends[ends[:, 0] != ends[:, 1]]
    n = len(degrees)
    graph = sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n)).tocsr()
    graph = graph + graph.T
    graph.data[:] = 1.0
    return graph
