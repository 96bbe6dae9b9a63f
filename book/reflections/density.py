"""The density of a large matrix's eigenvalues, with error bars, from matrix-vector products alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse, stats


class SpectralDensity(NamedTuple):
    """Distribution of eigenvalues on a grid of G points, with the standard errors of its random vectors."""

    grid: np.ndarray  # (G,) in units of the matrix
    density: np.ndarray  # (G,) share of eigenvalues per unit, each spread by a Gaussian
    standard_error: np.ndarray  # (G,)


def spectral_density(
    matrix: np.ndarray | sparse.csr_array,
    *,
    n_probes: int,
    n_steps: int,
    seed: int,
    grid: np.ndarray,
    bandwidth: float,
) -> SpectralDensity:
    """Distribution of a symmetric matrix's eigenvalues by stochastic Lanczos quadrature.

    Each random vector of signs sees every eigenvalue with about equal weight; a Lanczos run from it gives
    the nodes and weights that reproduce its first ``2 n_steps - 1`` moments exactly.

    Parameters
    ----------
    matrix : array or sparse array, shape (V, V)
        Symmetric.
    n_probes : int
        Random vectors, at least 2; the standard errors fall as ``n_probes ** -0.5``.
    n_steps : int
        Lanczos steps; the resolution is about the spectrum's span over `n_steps`.
    grid : array, shape (G,)
    bandwidth : float
        Standard deviation of the Gaussian that spreads each node, in the matrix's unit.

    Source
    ------
    Ubaru, Chen & Saad (2017), Fast estimation of tr(f(A)) via stochastic Lanczos quadrature; Lin, Saad &
    Yang (2016), Approximating spectral densities of large matrices.
    """
    densities = []  # of each probe, (G,)
    n = matrix.shape[0]
    for stream in np.random.SeedSequence(seed).spawn(n_probes):
        signs = 2.0 * np.random.default_rng(stream).integers(0, 2, n, dtype=np.int8) - 1
        nodes, weights = lanczos_quadrature(matrix, signs / np.sqrt(n), min(n_steps, n))
        densities.append(stats.norm.pdf(grid[:, None], nodes, bandwidth) @ weights)
    error = np.std(densities, axis=0, ddof=1) / np.sqrt(n_probes)
    return SpectralDensity(grid, np.mean(densities, axis=0), error)


def lanczos_quadrature(
    matrix: np.ndarray | sparse.csr_array, probe: np.ndarray, n_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss quadrature of the spectrum as the unit vector `probe` (V,) sees it: K nodes and K weights.

    The basis is kept orthogonal in full, so that no eigenvalue is counted twice.
    """
    basis = probe[None]  # (steps so far, V)
    diagonal, beside = [], []
    tolerance = 10 * np.finfo(float).eps * np.sqrt(len(probe))
    for _ in range(n_steps):
        product = matrix @ basis[-1]
        scale = np.linalg.norm(product)
        diagonal.append(basis[-1] @ product)
        product = product - (basis @ product) @ basis
        beside.append(np.linalg.norm(product))
        if beside[-1] <= tolerance * scale:  # the probe's space is exhausted: the nodes are eigenvalues
            break
        basis = np.vstack([basis, product / beside[-1]])
    off = np.diag(beside[:-1], 1)
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + off + off.T)
    return nodes, vectors[0] ** 2
