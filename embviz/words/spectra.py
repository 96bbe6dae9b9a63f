"""Eigenvalues of symmetric matrices, their density, and random matrices to hold them against.

Three ways, by size: :func:`eigenvalues` gives all of them and needs V x V numbers; :func:`truncated_eigen`
gives the leading ones with their vectors; :func:`spectral_density` gives the shape of the whole spectrum,
with error bars, from nothing but matrix-vector products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from embviz.arrays import checked, checked_matrix, whole
from embviz.imports import installed
from embviz.memory import require_memory
from embviz.words.cooccurrence_numba import switch_edges

Matrix: TypeAlias = np.ndarray | sparse.csr_array

ASYMMETRY = 1e-5  # of the largest entry times sqrt(V): above the rounding of float32, below a wrong entry
DENSE_ROWS = 500  # up to so many rows all eigenpairs are computed: it takes a tenth of a second
PLAIN_SCALES = (1e-3, 1e6)  # largest entries with which the iteration's absolute tolerance does no harm
BLOCK_ROWS = 512  # rows handled together where a second V x V array would not fit
LARGEST_FLOAT32 = 1e15  # entries whose squares, and sums of them, stay finite in float32
PROBES_AT_ONCE = 8  # rows of 8 numbers fill a cache line when the sparse product gathers them


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
    ValueError
        If the matrix is empty, not square, not symmetric, or holds NaN or infinity.
    MemoryError
        If the dense copies would not fit, before they are made.

    Examples
    --------
    >>> eigenvalues(np.array([[2.0, 1.0], [1.0, 2.0]])).round(3)
    array([1., 3.], dtype=float32)
    """
    matrix = _symmetric(matrix, LARGEST_FLOAT32 if _real_dtype(dtype).itemsize == 4 else math.inf)
    n = matrix.shape[0]
    require_memory(
        _dense_bytes(n, dtype),
        what=f"finding all eigenvalues of a {n:,} x {n:,} {dtype} matrix",
        instead="spectral_density gives their density with error bars, truncated_eigen the largest, and a "
        "higher threshold a smaller vocabulary",
    )
    dense = _dense_copy(matrix, dtype)
    if not installed("torch"):  # its transpose is in Fortran's order: no copy is made
        return linalg.eigvalsh(dense.T, driver="evd", overwrite_a=True, check_finite=False)
    import torch

    return torch.linalg.eigvalsh(torch.from_numpy(dense)).numpy()


def _dense_bytes(n: int, dtype: str) -> int:
    copies = 2 if installed("torch") else 1  # torch's solver takes one of its own
    # beside the copies a block of rows twice: for the checks, and as the solver's workspace
    return (copies * n + 2 * BLOCK_ROWS) * n * _real_dtype(dtype).itemsize


def _dense_copy(matrix: Matrix, dtype: str) -> np.ndarray:
    dense = np.empty(matrix.shape, dtype=dtype)
    if isinstance(matrix, np.ndarray):
        dense[:] = matrix
        return dense
    rows = sparse.csr_array(matrix)
    for start in range(0, len(dense), BLOCK_ROWS):  # no second copy of all stored entries in `dtype`
        dense[start : start + BLOCK_ROWS] = rows[start : start + BLOCK_ROWS].toarray()
    return dense


def _real_dtype(dtype: str) -> np.dtype:
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype is {dtype!r}: use "float32" or "float64"')
    return np.dtype(dtype)


def _symmetric(matrix: Matrix, largest: float = math.inf) -> Matrix:
    """A finite, real, symmetric matrix, checked without a second copy of it; sparse ones as csr_array."""
    matrix = checked_matrix(matrix, "matrix", low=-largest, high=largest)
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
        Symmetric and finite; only matrix-vector products are taken.
    n_components : int
        K, from 1 to V. From a third of V on, and in matrices of up to 500 rows, all eigenpairs are computed
        and the leading ones kept. Elsewhere the matrix without the eigenpairs found is searched for one that
        the iteration has missed, as it can where eigenvalues are repeated.
    seed : int
        Of the solver's start.

    Returns
    -------
    values : array, shape (K,)
        By falling magnitude, signs kept.
    vectors : array, shape (V, K)
        Orthonormal columns; the largest entry of each (in magnitude) is positive.

    Raises
    ------
    ValueError
        If `n_components` is out of range, or the matrix is not symmetric and finite.
    MemoryError
        If the solver's arrays would not fit, before they are made.
    """
    matrix = _symmetric(matrix)
    n = matrix.shape[0]
    if not 1 <= n_components <= n:
        raise ValueError(f"n_components is {n_components}: a {n} x {n} matrix has 1 to {n} eigenpairs")
    scale = _largest(matrix)
    if scale == 0:
        return np.zeros(n_components), np.eye(n, n_components)
    scale = 1.0 if PLAIN_SCALES[0] <= scale <= PLAIN_SCALES[1] else scale
    dense = (
        3 * n_components >= n or n <= DENSE_ROWS
    )  # the iteration would keep a basis of 2 K vectors, almost all of the space
    _require_room(48 * n * (n if dense else n_components), f"{n_components:,} eigenpairs of {n:,} rows")
    if dense:
        full = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        full = _floating(full)
        values, vectors = np.linalg.eigh(full if scale == 1 else full / scale)
    else:
        matrix = _floating(matrix)
        scaled = matrix if scale == 1 else matrix / scale
        values, vectors = _leading(scaled, n_components, np.random.default_rng(seed))
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


def _require_room(n_bytes: int, what: str) -> None:
    instead = "take fewer (n_components below a third of V), or keep fewer words (a higher min_count)"
    require_memory(n_bytes, what=what, instead=instead)


def _floating(matrix: Matrix) -> Matrix:
    return matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)


# --- density of eigenvalues -------------------------------------------------------------------------


@dataclass(frozen=True)
class SpectralDensity:
    """Distribution of eigenvalues on a grid of G points, with the standard errors of its random probes."""

    grid: np.ndarray  # (G,) in units of the matrix
    density: np.ndarray  # (G,) share of eigenvalues per unit, each spread by a Gaussian of sd `bandwidth`
    standard_error: np.ndarray  # (G,) of the density
    cumulative: np.ndarray  # (G,) share of eigenvalues up to a grid point, not spread
    cumulative_standard_error: np.ndarray  # (G,)
    moments: np.ndarray  # (5,) means of the eigenvalues' powers 0..4, not spread
    moments_standard_error: np.ndarray  # (5,)
    positive_share: float  # share above 0: one minus the cumulative at 0
    positive_share_standard_error: float
    positive_share_resolution: float  # worst case of the quadrature's own error, beside the standard error
    bandwidth: float  # in units of the matrix


def spectral_density(
    matrix: Matrix,
    *,
    n_probes: int = 16,
    n_steps: int = 80,
    seed: int,
    grid: np.ndarray | None = None,
    bandwidth: float | None = None,
) -> SpectralDensity:
    """Distribution of a symmetric matrix's eigenvalues by stochastic Lanczos quadrature.

    Each random vector of signs sees every eigenvalue with about equal weight; a Lanczos run from it gives
    the `n_steps` nodes and weights that reproduce its first ``2 n_steps - 1`` moments exactly. Densities
    are averages over probes. Bases are kept orthogonal in full, so that no eigenvalue is counted twice.

    Parameters
    ----------
    matrix : array or sparse array, shape (V, V)
        Symmetric and finite; only products with blocks of vectors are taken. float32 is kept.
    n_probes : int
        Random vectors, at least 2; the standard errors fall as ``n_probes ** -0.5``.
    n_steps : int
        Lanczos steps (capped at V); the resolution is about the spectrum's span over `n_steps`.
    seed : int
        Of the probes.
    grid : array, shape (G,), optional
        Ascending; without it, equally spaced over the spectrum, two points a `bandwidth` (5,000 at most).
    bandwidth : float, optional
        Of the Gaussian that spreads each node, in the matrix's unit. Without it, half the mean distance
        between neighbouring nodes, nodes weighing by the eigenvalues that they stand for.

    Returns
    -------
    SpectralDensity
        Its standard errors tell of the probes' chance alone: not of the spreading, nor of details that
        `n_steps` nodes cannot resolve.

    Raises
    ------
    ValueError
        If the matrix is not symmetric and finite, or an option is out of range.
    MemoryError
        If ``8 n_steps V`` numbers (the bases of the probes that run together) would not fit.

    Source
    ------
    Ubaru, Chen & Saad (2017), Fast estimation of tr(f(A)) via stochastic Lanczos quadrature; Lin, Saad &
    Yang (2016), Approximating spectral densities of large matrices.
    """
    matrix = _symmetric(matrix)
    grid = None if grid is None else checked(grid, "grid", 1)
    if n_probes < 2 or n_steps < 2:
        raise ValueError(f"n_probes is {n_probes} and n_steps {n_steps}: error bars need at least 2 of each")
    if bandwidth is not None and not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth is {bandwidth}: it must be above 0")
    matrix, n = _floating(matrix), matrix.shape[0]
    n_steps = min(n_steps, n)
    require_memory(
        min(n_probes, PROBES_AT_ONCE) * (n_steps + 4) * n * matrix.dtype.itemsize,
        what=f"{n_steps} Lanczos steps for {n:,} rows",
        instead="take fewer steps (n_steps)",
    )
    streams = np.random.SeedSequence(seed).spawn(n_probes)  # a probe's draw depends on no other
    rules: list[Quadrature] = []
    for first in range(0, n_probes, PROBES_AT_ONCE):
        block = streams[first : first + PROBES_AT_ONCE]
        signs = [2.0 * np.random.default_rng(stream).integers(0, 2, n, dtype=np.int8) - 1 for stream in block]
        rules += _lanczos_quadrature(matrix, np.array(signs) / math.sqrt(n), n_steps)
    return _summarize(rules, grid, bandwidth)


@dataclass(frozen=True)
class Quadrature:
    """Nodes and weights that stand for the spectrum as one probe sees it."""

    nodes: np.ndarray  # (K,) ascending
    weights: np.ndarray  # (K,) summing to 1
    exact: bool  # the nodes are eigenvalues: the probe's Krylov space was exhausted


def _lanczos_quadrature(matrix: Matrix, probes: np.ndarray, n_steps: int) -> list[Quadrature]:
    """Gauss quadrature of each of the unit vectors `probes`, shape (P, V)."""
    P, n = probes.shape
    basis = np.zeros((P, n_steps, n), dtype=matrix.dtype)
    basis[:, 0] = probes
    diagonal, beside = np.zeros((P, n_steps)), np.zeros((P, n_steps))
    tolerance = 10 * np.finfo(matrix.dtype).eps * np.sqrt(n)
    for step in range(n_steps):
        product = np.ascontiguousarray((matrix @ np.ascontiguousarray(basis[:, step].T)).T)  # (P, V)
        for p in range(P):
            scale = np.linalg.norm(product[p])
            diagonal[p, step] = _orthogonalize(product[p], basis[p, : step + 1])
            norm = np.linalg.norm(product[p])
            if norm > tolerance * scale and step + 1 < n_steps:
                beside[p, step] = norm
                basis[p, step + 1] = product[p] / norm
            # else the basis stays zero from here on, and so do all later coefficients
    return [_gauss_rule(diagonal[p], beside[p, :-1], n) for p in range(P)]


def _orthogonalize(vector: np.ndarray, basis: np.ndarray) -> float:
    """Take the rows of `basis` out of `vector`, in place; returns its overlap with the last of them.

    The last two are taken out first: but for rounding they are all that there is to take, and what is left
    is then small enough for one pass over the whole basis to remove the rounding too.
    """
    recent = basis[-2:]
    overlaps = recent @ vector
    vector -= overlaps @ recent
    rest = basis @ vector
    vector -= rest @ basis
    return float(overlaps[-1] + rest[-1])


def _gauss_rule(diagonal: np.ndarray, beside: np.ndarray, n: int) -> Quadrature:
    stops = np.flatnonzero(beside == 0)
    size = int(stops[0]) + 1 if stops.size else len(diagonal)
    tridiagonal = np.diag(diagonal[:size])
    tridiagonal += np.diag(beside[: size - 1], 1) + np.diag(beside[: size - 1], -1)
    nodes, vectors = np.linalg.eigh(tridiagonal)
    weights = vectors[0] ** 2
    return Quadrature(nodes, weights / weights.sum(), exact=size < len(diagonal) or size == n)


def _summarize(rules: list[Quadrature], grid: np.ndarray | None, bandwidth: float | None) -> SpectralDensity:
    if bandwidth is None:
        bandwidth = float(np.mean([_mean_gap(rule) for rule in rules])) / 2
    nodes = np.concatenate([rule.nodes for rule in rules])
    low, high = float(nodes.min()), float(nodes.max())
    bandwidth = bandwidth or max(abs(low), abs(high), 1.0) * 1e-3  # a single eigenvalue has no gaps
    if grid is None:
        n_points = int(np.clip(np.ceil(2 * (high - low) / bandwidth) + 17, 201, 5_000))
        grid = np.linspace(low - 4 * bandwidth, high + 4 * bandwidth, n_points)
    powers = np.arange(5)[:, None]
    below, below_error = _over_probes([_cumulative(rule, np.zeros(1)) for rule in rules])
    return SpectralDensity(
        grid,
        *_over_probes([_broadened(rule, grid, bandwidth) for rule in rules]),
        *_over_probes([_cumulative(rule, grid) for rule in rules]),
        *_over_probes([(rule.nodes**powers) @ rule.weights for rule in rules]),
        positive_share=float(1 - below[0]),
        positive_share_standard_error=float(below_error[0]),
        positive_share_resolution=float(np.mean([_unplaced(rule) for rule in rules]) / 2),
        bandwidth=bandwidth,
    )


def _over_probes(values: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    stacked = np.stack(values)  # (P, G)
    return stacked.mean(axis=0), stacked.std(axis=0, ddof=1) / np.sqrt(len(values))


def _mean_gap(rule: Quadrature) -> float:
    gaps = np.diff(rule.nodes)
    return float((gaps * (rule.weights[:-1] + rule.weights[1:])).sum() / 2)


def _broadened(rule: Quadrature, grid: np.ndarray, bandwidth: float) -> np.ndarray:
    distance = (grid[:, None] - rule.nodes) / bandwidth  # (G, K)
    return np.exp(-(distance**2) / 2) @ rule.weights / (bandwidth * math.sqrt(2 * math.pi))


def _cumulative(rule: Quadrature, grid: np.ndarray) -> np.ndarray:
    """Share of eigenvalues up to each point of `grid`.

    At a node the true share lies between the weights before it and those up to it (the inequalities of
    Chebyshev, Markov and Stieltjes); we take the middle, and a straight line between nodes.
    """
    upto = np.cumsum(rule.weights)
    if rule.exact:
        return np.concatenate([[0.0], upto])[np.searchsorted(rule.nodes, grid, side="right")]
    return np.interp(grid, rule.nodes, upto - rule.weights / 2, left=0.0, right=1.0)


def _unplaced(rule: Quadrature) -> float:
    """Width of the range of shares below 0 that the rule's moments allow."""
    if rule.exact:
        return 0.0
    right = np.searchsorted(rule.nodes, 0.0)
    return float(rule.weights[max(right - 1, 0) : right + 1].sum())


# --- nulls ------------------------------------------------------------------------------------------


def shuffle_tokens(ids: np.ndarray, *, seed: int) -> np.ndarray:
    """The same tokens in random order: a text with its word counts, and no context.

    Parameters
    ----------
    ids : array, shape (N,)
        Token ids; holes move like any token.
    seed : int
        Of the permutation.

    Returns
    -------
    array, shape (N,), of the same type

    Raises
    ------
    ValueError
        If `ids` is no list of integers.
    """
    return np.random.default_rng(seed).permutation(checked(ids, "ids", 1, kind="integer"))


def semicircle(n: int, *, variance: float, seed: int) -> np.ndarray:
    """Symmetric matrix of independent Gaussian entries, whose eigenvalues fill Wigner's semicircle.

    Parameters
    ----------
    n : int
        V, rows.
    variance : float
        Of every entry, in squared units of the matrix; the semicircle's radius is
        ``2 * sqrt(n * variance)``.
    seed : int
        Of the draw.

    Returns
    -------
    float32 array, shape (V, V)

    Raises
    ------
    ValueError
        If `n` is below 1, or `variance` negative.
    MemoryError
        If the matrix would not fit.

    Source
    ------
    Wigner (1958), On the distribution of the roots of certain symmetric matrices.
    """
    if n < 1 or not variance >= 0:
        raise ValueError(f"n must be at least 1 and variance at least 0, not {n} and {variance}")
    require_memory(
        4 * int(n) * (int(n) + BLOCK_ROWS), what=f"a random {n:,} x {n:,} matrix", instead="take a smaller n"
    )
    entries = np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32)
    entries *= np.float32(variance**0.5)
    return _mirror_upper(entries)


def permute_entries(matrix: Matrix, *, seed: int) -> np.ndarray:
    """The entries on and above the diagonal in random places, mirrored: the values without the structure.

    Parameters
    ----------
    matrix : array or sparse array, shape (V, V)
        Symmetric and finite; its lower triangle is not looked at.
    seed : int
        Of the permutation.

    Returns
    -------
    float32 array, shape (V, V)
        Made with V x (V + 1) / 2 float32 numbers beside it.

    Raises
    ------
    ValueError
        If the matrix is not symmetric and finite.
    MemoryError
        If both would not fit.
    """
    matrix = _symmetric(matrix, LARGEST_FLOAT32)
    n = matrix.shape[0]
    require_memory(8 * n * n, what=f"a permuted {n:,} x {n:,} matrix", instead="keep fewer words")
    rows = sparse.csr_array(matrix) if sparse.issparse(matrix) else matrix
    starts = np.concatenate([[0], np.cumsum(np.arange(n, 0, -1))])  # row i keeps n - i entries
    upper = np.empty(starts[-1], dtype=np.float32)
    for first in range(0, n, BLOCK_ROWS):
        block = rows[first : first + BLOCK_ROWS]
        for i, row in enumerate(block.toarray() if isinstance(block, sparse.csr_array) else block, first):
            upper[starts[i] : starts[i + 1]] = row[i:]
    np.random.default_rng(seed).shuffle(upper)
    result = np.empty((n, n), dtype=np.float32)
    for i in range(n):
        result[i, i:] = upper[starts[i] : starts[i + 1]]
    return _mirror_upper(result)


def _mirror_upper(square: np.ndarray) -> np.ndarray:
    """Write the upper triangle over the lower one, in place."""
    for start in range(0, len(square), BLOCK_ROWS):
        stop = start + BLOCK_ROWS
        corner = np.triu(square[start:stop, start:stop])
        square[start:stop, start:stop] = corner + np.triu(corner, 1).T
        square[stop:, start:stop] = square[start:stop, stop:].T
    return square


SWITCHES = 10  # tried for each edge


def configuration_model(
    matrix: Matrix,
    *,
    seed: int,
) -> sparse.csr_array:
    """A random graph in which every node has as many neighbours as in `matrix`.

    Starts from the graph of the nonzero entries off the diagonal, and lets random pairs of edges exchange
    partners; loops and repeated edges never arise, so all degrees stay exact.

    Parameters
    ----------
    matrix : dense or sparse array, shape (V, V), symmetric
    seed : int

    Returns
    -------
    csr_array, shape (V, V), float64, of ones, symmetric, zero diagonal

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
    matrix = _symmetric(matrix)
    whole(seed, "seed", 0, 2**62)
    n = matrix.shape[0]
    require_memory(n * n // 8, what=f"the neighbours of {n:,} nodes as bits", instead="keep fewer words")
    edges = sparse.triu(sparse.coo_array(matrix), k=1)
    edges.eliminate_zeros()
    heads, tails = (np.array(ends, dtype=np.int64) for ends in edges.coords)
    switch_edges(heads, tails, n, SWITCHES * len(heads), seed)
    where = np.concatenate([heads, tails]), np.concatenate([tails, heads])
    return sparse.csr_array(sparse.coo_array((np.ones(2 * len(heads)), where), shape=(n, n)))
