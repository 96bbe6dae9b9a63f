"""Eigenvalues of symmetric matrices, and random texts to hold them against.

Two ways, by size: :func:`eigenvalues` gives all of them and needs V x V numbers; `truncated_eigen`
gives the leading ones with their vectors.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from embviz.arrays import check_array, check_matrix
from embviz.imports import installed
from embviz.memory import require_memory

Matrix: TypeAlias = np.ndarray | sparse.csr_array

ASYMMETRY = 1e-5  # of the largest entry times sqrt(V): above the rounding of float32, below a wrong entry
DENSE_ROWS = 500  # up to so many rows all eigenpairs are computed: it takes a tenth of a second
PLAIN_SCALES = (1e-3, 1e6)  # largest entries with which the iteration's absolute tolerance does no harm
BLOCK_ROWS = 512  # rows handled together where a second V x V array would not fit
LARGEST_FLOAT32 = 1e15  # entries whose squares, and sums of them, stay finite in float32


# --- all eigenvalues --------------------------------------------------------------------------------


def eigenvalues(matrix: Matrix, *, dtype: str = "float32") -> np.ndarray:
    """All eigenvalues of a symmetric matrix.

    By torch's LAPACK where torch is installed, else by scipy's: the same up to rounding, in as much time at
    V = 2,000 and 1.4 times as much from 4,000 on (one thread, float32).

    Parameters
    ----------
    matrix : array or sparse array, shape (V, V)
        Symmetric and finite. It is copied into a dense array of `dtype`, of which torch's solver makes a
        second one, and not changed.
    dtype : str
        "float32" (default: half the memory and time; eigenvalues good to about 1e-6 of the largest) or
        "float64".

    Returns
    -------
    array, shape (V,)
        Ascending, in the matrix's unit (nats for PMI).

    Raises
    ------
    MemoryError
        If the dense copies would not fit, before they are made.

    Examples
    --------
    >>> eigenvalues(np.array([[2.0, 1.0], [1.0, 2.0]])).round(3)
    array([1., 3.], dtype=float32)
    """
    matrix = _symmetric(matrix, LARGEST_FLOAT32 if np.dtype(dtype).itemsize == 4 else math.inf)
    n = matrix.shape[0]
    require_memory(
        _dense_bytes(n, dtype),
        what=f"finding all eigenvalues of a {n:,} x {n:,} {dtype} matrix",
        instead="truncated_eigen gives the largest, and a higher threshold a smaller vocabulary",
    )
    dense = np.empty((n, n), dtype=dtype)
    for start in range(0, n, BLOCK_ROWS):  # no second copy of all stored entries in `dtype`
        rows = matrix[start : start + BLOCK_ROWS]
        dense[start : start + BLOCK_ROWS] = rows if isinstance(rows, np.ndarray) else rows.toarray()
    if not installed("torch"):  # its transpose is in Fortran's order: no copy is made
        return linalg.eigvalsh(dense.T, driver="evd", overwrite_a=True, check_finite=False)
    import torch

    return torch.linalg.eigvalsh(torch.from_numpy(dense)).numpy()


def _dense_bytes(n: int, dtype: str) -> int:
    copies = 2 if installed("torch") else 1  # torch's solver takes one of its own
    # beside the copies a block of rows twice: for the checks, and as the solver's workspace
    return (copies * n + 2 * BLOCK_ROWS) * n * np.dtype(dtype).itemsize


def _symmetric(matrix: Matrix, largest: float = math.inf) -> Matrix:
    """A finite, real, symmetric matrix, checked without a second copy of it; sparse ones as csr_array."""
    matrix = check_matrix(matrix, "matrix", low=-largest, high=largest)
    highest = _largest(matrix)
    n = matrix.shape[0]
    # a random vector meets every entry: (A - A') x is zero for symmetric A, and almost surely not otherwise
    probe = np.random.default_rng(0).standard_normal((n, 1))[:, 0]
    difference = np.zeros(n)
    for start in range(0, n, BLOCK_ROWS):  # in blocks: numpy would turn all of a float32 matrix into float64
        rows = slice(start, start + BLOCK_ROWS)
        difference[rows] += matrix[rows] @ probe
        difference -= matrix[rows].T @ probe[rows]
    asymmetry = float(np.abs(difference).max())
    if asymmetry > ASYMMETRY * highest * np.sqrt(n):
        raise ValueError(
            f"the matrix is not symmetric (its two triangles differ by about {asymmetry:.2g}, the largest"
            f" entry is {highest:.2g}): symmetrize it, (A + A.T) / 2, if that is what you mean"
        )
    return matrix


# --- leading eigenvalues ----------------------------------------------------------------------------


def truncated_eigen(matrix: Matrix, n_components: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues by magnitude, and their vectors.

    Parameters
    ----------
    matrix : array or sparse array, shape (V, V)
        Symmetric and finite.
    n_components : int
        K, from 1 to V. From a third of V on, and in matrices of up to 500 rows, all eigenpairs are
        computed. Elsewhere only matrix-vector products are taken, and the matrix without the eigenpairs
        found is searched for one that the iteration has missed, as it can where eigenvalues are repeated.
    seed : int
        Of the solver's start.

    Returns
    -------
    values : array, shape (K,)
        By falling magnitude, signs kept.
    vectors : array, shape (V, K)
        Orthonormal columns; the largest entry of each (in magnitude) is positive.
    """
    matrix = _symmetric(matrix)
    n = matrix.shape[0]
    if not 1 <= n_components <= n:
        raise ValueError(f"n_components is {n_components}: a {n} x {n} matrix has 1 to {n} eigenpairs")
    scale = _largest(matrix)
    if scale == 0:
        return np.zeros(n_components), np.eye(n, n_components)
    if matrix.dtype.kind != "f" or not PLAIN_SCALES[0] <= scale <= PLAIN_SCALES[1]:
        matrix = matrix / scale
    else:
        scale = 1.0
    # where K is large, the iteration would keep a basis of 2 K vectors, almost all of the space
    if 3 * n_components >= n or n <= DENSE_ROWS:
        values, vectors = np.linalg.eigh(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
    else:
        values, vectors = _leading(matrix, n_components, np.random.default_rng(seed))
    values = values * scale
    order = np.argsort(-np.abs(values), kind="stable")[:n_components]
    values, vectors = values[order], vectors[:, order]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_components)])
    return values, vectors * signs


def _largest(matrix: Matrix) -> float:
    """The largest entry in magnitude."""
    entries = np.asarray(matrix.data if sparse.issparse(matrix) else matrix)
    return max(float(entries.max()), -float(entries.min())) if entries.size else 0.0


def _leading(matrix: Matrix, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenpairs of a matrix, repeated eigenvalues with all their copies.

    One start vector meets one direction of each eigenspace, and further copies show by rounding alone, often
    but not always. What is left once the found pairs are taken out tells whether one was missed.
    """
    values, vectors = eigsh(matrix, k=k, which="LM", v0=rng.standard_normal(matrix.shape[0]), rng=rng)
    slack = 1e3 * np.finfo(values.dtype).eps
    for _ in range(k):
        known, basis = values, vectors

        def rest(x: np.ndarray, known: np.ndarray = known, basis: np.ndarray = basis) -> np.ndarray:
            return matrix @ x - basis @ (known * (basis.T @ x))

        left = LinearOperator(matrix.shape, matvec=rest, dtype=values.dtype)
        start = rng.standard_normal(matrix.shape[0])
        value, vector = eigsh(left, k=1, which="LM", v0=start - basis @ (basis.T @ start), rng=rng)
        least = int(np.abs(values).argmin())
        if abs(value[0]) <= abs(values[least]) + slack * np.abs(values).max():
            break
        vector = vector[:, 0] - basis @ (basis.T @ vector[:, 0])
        values[least], vectors[:, least] = value[0], vector / np.linalg.norm(vector)
    residuals = matrix @ vectors - vectors * values
    if np.linalg.norm(residuals, axis=0).max() <= slack * np.abs(values).max():
        return values, vectors
    # among repeated eigenvalues the iteration may stop early: a step of Rayleigh and Ritz with the residuals
    basis = np.linalg.qr(np.hstack([vectors, residuals]))[0]
    values, mix = np.linalg.eigh(basis.T @ (matrix @ basis))
    kept = np.argsort(-np.abs(values), kind="stable")[:k]
    return values[kept], basis @ mix[:, kept]


# --- nulls ------------------------------------------------------------------------------------------


def shuffle_tokens(ids: np.ndarray, *, seed: int) -> np.ndarray:
    """The same tokens (N,) in random order: a text with its word counts, and no context.

    Holes move like any token.
    """
    return np.random.default_rng(seed).permutation(check_array(ids, "ids", 1, kind="integer"))
