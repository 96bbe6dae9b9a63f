"""Numbers about arrays: angles, involutions, the symmetry and shape of a distribution."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.size == 0:
        raise ValueError(f"{what} is empty")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} holds NaN or infinity: find out where it comes from before measuring")
    return values


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of each row of `first` with the same row of `second`; shape (N,). A zero row gives 0."""
    first, second = _finite(first, "first"), _finite(second, "second")
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("nd,nd->n", first, second)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def involution_error(matrix: np.ndarray) -> float:
    """|Q^2 - I|_F / sqrt(d) of a square matrix; 0 for a reflection, about sqrt(2) for a random rotation."""
    matrix = _finite(matrix, "matrix")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an involution is a square matrix, not of shape {matrix.shape}")
    return float(np.linalg.norm(matrix @ matrix - np.eye(len(matrix))) / math.sqrt(len(matrix)))


def positive_share(values: np.ndarray) -> float:
    """Share of values above zero."""
    return float((_finite(values, "values") > 0).mean())


def mirror_distance(values: np.ndarray) -> float:
    """Wasserstein-1 distance between a sample and its mirror image around 0, in standard deviations."""
    values = _finite(values, "values")
    return float(stats.wasserstein_distance(values, -values) / values.std())


def skewness(values: np.ndarray) -> float:
    """Third standardized central moment."""
    return float(stats.skew(_finite(values, "values")))


def kurtosis(values: np.ndarray) -> float:
    """Fourth standardized central moment: 3 for a Gaussian, 2 for a semicircle."""
    return float(stats.kurtosis(_finite(values, "values"), fisher=False))


def semicircle_distance(values: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance to the centred semicircle whose variance is the sample's mean square."""
    values = _finite(values, "values")
    radius = 2 * math.sqrt(float((values**2).mean()))
    return float(stats.kstest(values, stats.semicircular(scale=radius).cdf).statistic)
