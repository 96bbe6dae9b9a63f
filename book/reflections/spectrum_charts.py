"""What the chapter on the spectrum bins: one spectrum inside its limits, and several in their own scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from embviz.view import mirrored_bins

# The matrices of the stored study, as the chapter calls them.
MATRICES = {
    "pmi": "PMI",
    "ppmi": "positive PMI",
    "shifted": "shifted by log 5, clipped",
    "shuffled": "PMI, tokens shuffled",
    "permuted": "PMI, entries permuted",
    "configuration": "random graph, same degrees",
    "gaussian": "Gaussian matrix",
}


def bins_inside(
    eigenvalues: ArrayLike, inside: float = 0.99, *, n_bins: int = 80, limit: float | None = None
) -> pd.DataFrame:
    """Histogram with mirror image over the limits that hold most of a spectrum, or over given ones.

    Parameters
    ----------
    eigenvalues : array of float, shape (n,)
    inside : float, default 0.99
        Share of the eigenvalues, by magnitude, that the limits hold.
    n_bins : int, default 80
        Must be even.
    limit : float, optional
        End of the bins instead, such as to keep an axis from one spectrum to the next.

    Returns
    -------
    DataFrame as from :func:`embviz.view.mirrored_bins`; shares are of all eigenvalues
    """
    values = np.asarray(eigenvalues, dtype=float)
    if limit is None:
        limit = float(f"{np.quantile(np.abs(values), inside):.1e}") or 1.0  # two digits: the same everywhere
    return _bins_within(values, limit, n_bins).round(6)


def _bins_within(values: np.ndarray, limit: float, n_bins: int) -> pd.DataFrame:
    """Half of the exact zeros count on each side, since a zero is its own mirror image."""
    kept = values[np.abs(values) <= limit]
    count = mirrored_bins(kept, n_bins=n_bins, reach=limit)["count"].to_numpy(dtype=float)
    half_of_zeros = (kept == 0).sum() / 2
    count[n_bins // 2] -= half_of_zeros
    count[n_bins // 2 - 1] += half_of_zeros
    edges = np.linspace(-limit, limit, n_bins + 1)
    share = count / values.size
    bins = {"left": edges[:-1], "right": edges[1:], "count": count, "share": share}
    return pd.DataFrame({**bins, "mirrored": share[::-1]})


def ridge_table(
    eigenvalues: pd.DataFrame, matrices: Sequence[str], *, limit: float = 3.0, n_bins: int = 60
) -> pd.DataFrame:
    """Histograms of several spectra of one window, each in its own root mean square.

    Parameters
    ----------
    eigenvalues : DataFrame
        Columns `window`, `matrix` and `eigenvalue`, of one window.
    matrices : sequence of str
        Keys of MATRICES, from top to bottom.
    limit : float, default 3, in root mean squares
        What lies farther out isn't drawn; it stays in the total.
    n_bins : int, default 60

    Returns
    -------
    DataFrame
        `name`, `eigenvalue_rms` (a bin's middle), and over the row's largest bin `height`, `mirrored`, and
        `semicircle` (Wigner's, of the same mean square and area); one row a bin and matrix.

    Raises
    ------
    ValueError
        If a matrix has no rows, or the table holds several windows.
    """
    if eigenvalues["window"].nunique() != 1:
        raise ValueError("eigenvalues of one window are needed: filter the table first")
    parts = []
    for matrix in matrices:
        values = eigenvalues.loc[eigenvalues["matrix"] == matrix, "eigenvalue"].to_numpy(dtype=float)
        if values.size == 0:
            known = sorted(eigenvalues["matrix"].unique())
            raise ValueError(f"no eigenvalues of {matrix!r}: there are {known}")
        bins = _bins_within(values / np.sqrt(np.mean(values**2)), limit, n_bins)
        middle = (bins["left"] + bins["right"]) / 2
        density = np.sqrt(np.maximum(4 - middle**2, 0)) / (2 * np.pi)  # a unit mean square reaches to 2
        top = bins["share"].max()
        heights = {
            "height": bins["share"] / top,
            "mirrored": bins["mirrored"] / top,
            "semicircle": density * (2 * limit / n_bins) * bins["share"].sum() / top,
        }
        parts.append(pd.DataFrame({"name": MATRICES[matrix], "eigenvalue_rms": middle, **heights}))
    return pd.concat(parts, ignore_index=True).round(4)
