"""Eigenvalues of symmetric matrices, exact and stochastic, and random matrices to hold them against."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
import torch

from embviz.cooccurrence import asymmetry
from embviz.memory import require_memory
from embviz.spectra_numba import switch_edges

Matrix = np.ndarray | scipy.sparse.csr_array

COPIES = 2.1  # of a matrix in memory at the peak: ours, torch's, and its workspace (measured at n = 6,000)
CALIBRATION_SIZE = 1000  # a fraction of a second
PROBES_AT_ONCE = 8  # columns of one sparse product: a cache line of float64


# --- exact ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DenseEstimate:
    """What all eigenvalues of a dense symmetric matrix would take. Estimates, not promises."""

    n_bytes: int  # at the peak, the matrix itself included
    seconds: float  # on this machine with its threads as they are now


def estimate_dense(n: int, dtype: str = "float32") -> DenseEstimate:
    """Memory and time of :func:`eigenvalues` for an (n, n) matrix.

    The time is scaled, as n^3, from one small matrix that is timed at the first call; other load on the
    machine makes it wrong by as much.
    """
    n_bytes = int(COPIES * np.dtype(dtype).itemsize * n**2)
    return DenseEstimate(n_bytes, _calibration_seconds(dtype) * (n / CALIBRATION_SIZE) ** 3)


@functools.cache
def _calibration_seconds(dtype: str) -> float:
    matrix = torch.from_numpy(semicircle(CALIBRATION_SIZE, variance=1.0, seed=0).astype(dtype))
    times = []
    for _ in range(3):  # the fastest of three: other load makes the others slower
        began = time.perf_counter()
        torch.linalg.eigvalsh(matrix)
        times.append(time.perf_counter() - began)
    return min(times)


def eigenvalues(
    matrix: Matrix, *, dtype: Literal["float32", "float64"] = "float32", max_memory: int | None = None
) -> np.ndarray:
    """All eigenvalues of a symmetric matrix.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V)
    dtype : "float32" or "float64"
        Of the computation; float32 errs by a few 1e-6 of the largest eigenvalue, in half the memory.
    max_memory : int, optional, in bytes
        Limit for this call; by default what is available.

    Returns
    -------
    array, shape (V,), ascending, of type `dtype`, in units of the matrix

    Raises
    ------
    ValueError
        If the matrix is not square, symmetric and finite.
    MemoryError
        If it would not fit, with the size, the time, and what to do instead.
    """
    _check_symmetric(matrix)
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype is {dtype!r}: use "float32" or "float64"')
    _refuse_unless_dense_fits(matrix.shape[0], dtype, max_memory)
    if not isinstance(matrix, np.ndarray):
        matrix = matrix.astype(dtype).toarray()
    # LAPACK's divide and conquer as torch calls it; scipy's drivers took 1.5 (evd) to 4 times (evr) its time
    dense = torch.from_numpy(np.ascontiguousarray(matrix, dtype=dtype))
    return torch.linalg.eigvalsh(dense).numpy()


def _refuse_unless_dense_fits(n: int, dtype: str, max_memory: int | None) -> None:
    n_bytes = int(COPIES * np.dtype(dtype).itemsize * n**2)
    try:
        require_memory(n_bytes, what="", instead="", max_memory=max_memory)
    except MemoryError:
        hours = estimate_dense(n, dtype).seconds / 3600
        require_memory(
            n_bytes,
            what=f"finding all eigenvalues of a {n:,} x {n:,} {dtype} matrix (about {hours:.2g} hours)",
            instead="spectral_density gives their density with error bars, truncated_eigen the largest",
            max_memory=max_memory,
        )


def _check_symmetric(matrix: Matrix) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"the matrix has shape {matrix.shape}: only a square one has eigenvalues")
    stored = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)
    if not np.isfinite(stored).all():
        n_bad = int((~np.isfinite(stored)).sum())
        raise ValueError(f"the matrix has {n_bad} NaN or infinite value(s): find where they come from")
    row, column = asymmetry(matrix)
    if row >= 0:
        raise ValueError(
            f"the matrix is not symmetric: entries ({row}, {column}) and ({column}, {row}) differ, "
            f"and its eigenvalues need not be real"
        )


# --- the largest ------------------------------------------------------------------------------------


def truncated_eigen(matrix: Matrix, n_components: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenpairs that are largest in absolute value.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    n_components : int, 1..V
        K.
    seed : int
        Of the solver's start; the result depends on it by rounding alone.

    Returns
    -------
    values : array, shape (K,), by falling absolute value
    vectors : array, shape (V, K), orthonormal columns, each one's largest entry positive

    Raises
    ------
    ValueError
        If the matrix is not square, symmetric and finite, or K is out of range.

    Source
    ------
    Lanczos with implicit restarts, as in ARPACK.
    """
    _check_symmetric(matrix)
    n = matrix.shape[0]
    if not 1 <= n_components <= n:
        raise ValueError(f"n_components is {n_components}: a {n} x {n} matrix has 1 to {n} eigenpairs")
    if 3 * n_components >= n:  # ARPACK would keep a basis of 2 K vectors, almost all of the space
        dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        values, vectors = scipy.linalg.eigh(dense.astype(float))
    else:
        rng = np.random.default_rng(seed)
        start = rng.uniform(-1, 1, n)
        values, vectors = scipy.sparse.linalg.eigsh(
            matrix.astype(float), k=n_components, which="LM", v0=start, rng=rng
        )
    order = np.argsort(-np.abs(values), kind="stable")[:n_components]
    values, vectors = values[order], vectors[:, order]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return values, vectors * np.sign(largest)


# --- a density from products with vectors -----------------------------------------------------------


@dataclass(frozen=True)
class SpectralDensity:
    """A smoothed spectrum on a grid of G points, with the standard errors of its random probes."""

    grid: np.ndarray  # (G,) in units of the matrix
    density: np.ndarray  # (G,) share of eigenvalues per unit
    standard_error: np.ndarray  # (G,) of the density
    cumulative: np.ndarray  # (G,) share of eigenvalues up to a grid point
    cumulative_standard_error: np.ndarray  # (G,)
    moments: np.ndarray  # (5,) means of the eigenvalues' powers 0..4, not smoothed
    moments_standard_error: np.ndarray  # (5,)
    bandwidth: float  # standard deviation of the Gaussian in place of each node


def spectral_density(
    matrix: Matrix,
    *,
    n_probes: int = 16,
    n_steps: int = 80,
    seed: int,
    bandwidth: float | None = None,
    grid: np.ndarray | None = None,
) -> SpectralDensity:
    """Density of the eigenvalues by stochastic Lanczos quadrature, without a dense matrix.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    n_probes : int, at least 2
        Random sign vectors; standard errors fall with their square root.
    n_steps : int
        Lanczos steps a probe, fully reorthogonalized: nodes of the quadrature, so resolution.
    seed : int
    bandwidth : float, in units of the matrix, optional
        By default the mean distance of neighbouring nodes, each weighted by its mass.
    grid : array, shape (G,), ascending, optional
        By default fine enough for the bandwidth, over the whole spectrum.

    Returns
    -------
    SpectralDensity
        Its standard errors tell of the probes' chance alone: not of the smoothing, nor of details that
        `n_steps` nodes can't resolve.

    Raises
    ------
    ValueError
        If the matrix is not square, symmetric and finite, or there are fewer than 2 probes or 2 steps.
    MemoryError
        If the Lanczos vectors would not fit.

    Source
    ------
    Lin, Saad & Yang (2016), Approximating spectral densities of large matrices, section 3.2; Golub &
    Welsch (1969).
    """
    _check_symmetric(matrix)
    if n_probes < 2 or n_steps < 2:
        raise ValueError(f"n_probes is {n_probes} and n_steps {n_steps}: error bars need at least 2 of each")
    n_steps = min(n_steps, matrix.shape[0])
    nodes, weights = _quadrature(matrix, n_probes, n_steps, seed)  # (probes, steps) each
    if bandwidth is None:
        bandwidth = _mean_gap(nodes, weights)
    if grid is None:
        low, high = nodes[weights > 0].min() - 4 * bandwidth, nodes[weights > 0].max() + 4 * bandwidth
        grid = np.linspace(low, high, int(np.clip(3 * (high - low) / bandwidth, 200, 5000)))
    # one probe at a time: (G, steps) kernels
    kernels = [((grid[:, None] - theta) / bandwidth, w) for theta, w in zip(nodes, weights, strict=True)]
    densities = np.array([np.exp(-(z**2) / 2) @ w for z, w in kernels]) / (bandwidth * math.sqrt(2 * math.pi))
    cumulatives = np.array([scipy.special.ndtr(z) @ w for z, w in kernels])
    powers = (nodes[..., None] ** np.arange(5) * weights[..., None]).sum(axis=1)  # (probes, 5)
    columns = [x for sample in (densities, cumulatives, powers) for x in _mean_and_error(sample)]
    return SpectralDensity(grid, *columns, float(bandwidth))


def _mean_and_error(per_probe: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return per_probe.mean(axis=0), per_probe.std(axis=0, ddof=1) / math.sqrt(len(per_probe))


def _mean_gap(nodes: np.ndarray, weights: np.ndarray) -> float:
    gaps = np.diff(nodes, axis=1)  # nodes ascend in each probe
    shares = (weights[:, 1:] + weights[:, :-1]) / 2
    gap = float((gaps * shares).sum() / max(shares.sum(), np.finfo(float).tiny))
    return gap if gap > 0 else float(max(np.abs(nodes).max(), 1.0)) * 1e-3  # one eigenvalue only


def _quadrature(matrix: Matrix, n_probes: int, n_steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights of each probe's spectral measure; each probe's weights add up to 1."""
    n = matrix.shape[0]
    at_once = min(PROBES_AT_ONCE, n_probes)
    require_memory(
        8 * n * at_once * (n_steps + 4),
        what=f"{n_steps} Lanczos vectors of length {n:,} for {at_once} probes at once",
        instead="use fewer steps",
    )
    streams = np.random.SeedSequence(seed).spawn(n_probes)  # a probe's draw depends on no other
    nodes, weights = np.empty((n_probes, n_steps)), np.empty((n_probes, n_steps))
    for first in range(0, n_probes, at_once):
        block = [
            np.random.default_rng(stream).integers(0, 2, n) for stream in streams[first : first + at_once]
        ]
        diagonals, off_diagonals = _lanczos(matrix, 2.0 * np.array(block) - 1, n_steps)
        for k, (diagonal, off) in enumerate(zip(diagonals, off_diagonals, strict=True), start=first):
            nodes[k], vectors = scipy.linalg.eigh_tridiagonal(diagonal, off)
            weights[k] = vectors[0] ** 2
    return nodes, weights


def _lanczos(matrix: Matrix, starts: np.ndarray, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Diagonals (P, steps) and off-diagonals (P, steps - 1) of the tridiagonal forms of P start vectors.

    A start whose Krylov space is exhausted goes on with zeros, which carry no weight.
    """
    n_starts, n = starts.shape
    basis = np.zeros((n_starts, n_steps, n))
    basis[:, 0] = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    diagonals, off_diagonals = np.zeros((n_starts, n_steps)), np.zeros((n_starts, n_steps - 1))
    scale = np.zeros(n_starts)
    for step in range(n_steps):
        product = np.ascontiguousarray((matrix @ np.ascontiguousarray(basis[:, step].T)).T)  # (P, n)
        diagonals[:, step] = np.einsum("pn,pn->p", product, basis[:, step])
        if step == n_steps - 1:
            break
        scale = np.maximum(scale, np.linalg.norm(product, axis=1))
        for vectors, rest in zip(basis[:, : step + 1], product, strict=True):
            for _ in range(2):  # twice is enough: the second pass removes what rounding left
                rest -= vectors.T @ (vectors @ rest)
        norms = np.linalg.norm(product, axis=1)
        norms[norms <= 1e-10 * scale] = 0
        off_diagonals[:, step] = norms
        basis[:, step + 1] = product / np.where(norms > 0, norms, np.inf)[:, None]
    return diagonals, off_diagonals


def trace_moments(matrix: Matrix, *, max_power: int = 4, max_memory: int | None = None) -> np.ndarray:
    """Exact means of the eigenvalues' powers 0..max_power, from traces of powers of the matrix.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    max_power : int, 0..4
        Powers 3 and 4 multiply the matrix by itself, in blocks of rows.
    max_memory : int, optional, in bytes
        Limit for those blocks; by default what is available.

    Returns
    -------
    array, shape (max_power + 1,); entry k in units of the matrix to the power k

    Raises
    ------
    ValueError
        If the matrix is not square, symmetric and finite, or the power is out of range.
    """
    _check_symmetric(matrix)
    if not 0 <= max_power <= 4:
        raise ValueError(f"max_power is {max_power}: use 0 to 4")
    n = matrix.shape[0]
    matrix = matrix.astype(float)
    traces = np.array([n, matrix.diagonal().sum(), 0.0, 0.0, 0.0])
    traces[2] = np.sum(_stored(matrix) ** 2)
    if max_power > 2:
        step = max(1, min(n, 2**24 // n))  # rows at a time
        require_memory(
            24 * step * n, what="blocks of a squared matrix", instead="use max_power 2", max_memory=max_memory
        )
        for first in range(0, n, step):
            rows = matrix[first : first + step]
            square = rows @ matrix
            traces[3] += _stored(square * rows).sum()
            traces[4] += np.sum(_stored(square) ** 2)
    return traces[: max_power + 1] / n


def _stored(matrix: Matrix) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)


# --- nulls ------------------------------------------------------------------------------------------


def semicircle(n: int, *, variance: float, seed: int) -> np.ndarray:
    """Symmetric Gaussian matrix, whose eigenvalues follow Wigner's semicircle as n grows.

    Parameters
    ----------
    n : int
    variance : float, above 0
        Of the entries off the diagonal; those on it have twice that (the Gaussian orthogonal ensemble).
        The semicircle then ends at +-2 sqrt(n variance).
    seed : int

    Returns
    -------
    float32 array, shape (n, n)

    Raises
    ------
    MemoryError
        If it would not fit.
    """
    if n < 1 or not 0 < variance < np.inf:
        raise ValueError(f"n is {n} and variance {variance}: both must be above 0")
    require_memory(4 * n * n, what=f"a {n:,} x {n:,} float32 matrix", instead="use a smaller n")
    matrix = np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32)
    matrix *= np.float32(math.sqrt(variance))
    matrix[np.diag_indices(n)] *= np.float32(math.sqrt(2))
    for first in range(0, n, 512):  # mirror the upper triangle in blocks, without a second matrix
        last = min(first + 512, n)
        block = matrix[first:last, first:last]
        block[np.tril_indices(last - first, -1)] = block.T[np.tril_indices(last - first, -1)]
        matrix[last:, first:last] = matrix[first:last, last:].T
    return matrix


def permute_entries(matrix: Matrix, *, seed: int) -> Matrix:
    """The same entries in random places, symmetric: those off the diagonal, zeros too, and those on it apart.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    seed : int

    Returns
    -------
    array of the same kind, shape (V, V)
    """
    _check_symmetric(matrix)
    rng = np.random.default_rng(seed)
    n = matrix.shape[0]
    upper = scipy.sparse.triu(scipy.sparse.coo_array(matrix), k=1)
    n_pairs = n * (n - 1) // 2
    rows, columns = _pair_of(_distinct(n_pairs, upper.nnz, rng))
    values = rng.permutation(upper.data)
    result = _symmetric(rows, columns, values, rng.permutation(matrix.diagonal()))
    return result.toarray() if isinstance(matrix, np.ndarray) else result


def _distinct(n_all: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` distinct numbers below `n_all`, in any order."""
    if 3 * n > n_all:
        return rng.choice(n_all, n, replace=False, shuffle=False)
    drawn = np.unique(rng.integers(n_all, size=n + n // 4))  # few repeats: draw anew until there are enough
    while len(drawn) < n:
        drawn = np.union1d(drawn, rng.integers(n_all, size=n))
    return rng.permutation(drawn)[:n]


def _pair_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, column), row > column, of pairs numbered (1, 0), (2, 0), (2, 1), (3, 0), ..."""
    rows = ((1 + np.sqrt(1 + 8.0 * codes)) // 2).astype(np.int64)
    rows -= rows * (rows - 1) // 2 > codes  # the root's rounding
    rows += rows * (rows + 1) // 2 <= codes
    return rows, codes - rows * (rows - 1) // 2


def _symmetric(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, diagonal: np.ndarray
) -> scipy.sparse.csr_array:
    n = len(diagonal)
    on = np.flatnonzero(diagonal)
    where = np.concatenate([rows, columns, on]), np.concatenate([columns, rows, on])
    return scipy.sparse.coo_array(
        (np.concatenate([values, values, diagonal[on]]), where), shape=(n, n)
    ).tocsr()


def configuration_model(
    matrix: Matrix,
    *,
    seed: int,
    weights: Literal["ones", "permuted"] = "ones",
    n_switches: int = 10,
) -> scipy.sparse.csr_array:
    """A random graph in which every node has as many neighbours as in `matrix`.

    Starts from the graph of the nonzero entries off the diagonal, and lets random pairs of edges exchange
    partners; loops and repeated edges never arise, so all degrees stay exact.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    seed : int
    weights : "ones" (the adjacency matrix) or "permuted" (the entries of `matrix`, on random edges)
    n_switches : int, default 10
        Exchanges tried for each edge.

    Returns
    -------
    csr_array, shape (V, V), float64, symmetric, zero diagonal

    Raises
    ------
    ValueError
        If the matrix is not square, symmetric and finite.
    MemoryError
        If V^2 bits would not fit.

    Source
    ------
    Edge switching: Maslov & Sneppen (2002).
    """
    _check_symmetric(matrix)
    if weights not in ("ones", "permuted"):
        raise ValueError(f'weights is {weights!r}: use "ones" or "permuted"')
    n = matrix.shape[0]
    require_memory(n * n // 8, what=f"the neighbours of {n:,} nodes as bits", instead="keep fewer words")
    edges = scipy.sparse.triu(scipy.sparse.coo_array(matrix), k=1)
    edges.eliminate_zeros()
    heads, tails = (np.array(ends, dtype=np.int64) for ends in edges.coords)
    switch_edges(heads, tails, n, n_switches * len(heads), seed)
    values = np.ones(len(heads))
    if weights == "permuted":
        values = np.random.default_rng(seed).permutation(edges.data).astype(float)
    return _symmetric(heads, tails, values, np.zeros(n))


def shuffle_tokens(ids: np.ndarray, *, seed: int) -> np.ndarray:
    """The same tokens, holes too, in random order, shape (N,): every word keeps its count."""
    return np.random.default_rng(seed).permutation(ids)
