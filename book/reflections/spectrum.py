"""What the chapter on the spectrum measures and draws: PMI's eigenvalues, their mirror image, their nulls."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import threadpoolctl
from numpy.typing import ArrayLike

from book.reflections.counting_words import embedded_counts
from book.reflections.experiments.spectrum import spectrum_cells, spectrum_statistics
from embviz import metrics
from embviz.ledger.cells import load
from embviz.ledger.studies import PRESETS, find_study
from embviz.view import charts, theme
from embviz.words import cooccurrence, spectra

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
RIDGE_HEIGHT = 74  # pixels a row


# --- stored spectra ---------------------------------------------------------------------------------


def stored_spectra(preset: str) -> pd.DataFrame:
    """Eigenvalues of the stored study: columns `window`, `matrix` and `eigenvalue` (nats), among others."""
    return load(spectrum_cells(preset))


def spectrum_bins(eigenvalues: pd.DataFrame, *, n_bins: int = 80, inside: float = 0.99) -> pd.DataFrame:
    """Histogram with mirror image of one spectrum, over the limits that hold most of it.

    Parameters
    ----------
    eigenvalues : DataFrame
        Rows of :func:`stored_spectra`, of one window and matrix.
    n_bins : int, default 80
        Must be even.
    inside : float, default 0.99
        Share of the eigenvalues, by absolute value, that the limits hold.

    Returns
    -------
    DataFrame as from :func:`embviz.view.charts.mirrored_bins`; shares are of all eigenvalues

    Raises
    ------
    ValueError
        If the rows are of more than one spectrum.
    """
    if len(eigenvalues[["window", "matrix"]].drop_duplicates()) != 1:
        raise ValueError("rows of one window and one matrix are needed: filter the table first")
    values = eigenvalues["eigenvalue"].to_numpy(dtype=float)
    return _bins_within(values, float(np.quantile(np.abs(values), inside)), n_bins).round(6)


def _bins_within(values: np.ndarray, limit: float, n_bins: int) -> pd.DataFrame:
    """Mirrored histogram over -limit..limit (above 0), shares of all values.

    Half of the exact zeros count on each side, since a zero is its own mirror image.
    """
    kept = values[np.abs(values) <= limit]
    table = charts.mirrored_bins(np.append(kept, limit), n_bins=n_bins)  # the limit sets the edges
    count = table["count"].to_numpy(dtype=float)
    count[-1] -= 1
    half_of_zeros = (kept == 0).sum() / 2
    count[n_bins // 2] -= half_of_zeros
    count[n_bins // 2 - 1] += half_of_zeros
    share = count / values.size
    return table.assign(count=count, share=share, mirrored=share[::-1])


def ridge_table(
    eigenvalues: pd.DataFrame, matrices: Sequence[str], *, limit: float = 3.0, n_bins: int = 60
) -> pd.DataFrame:
    """Histograms of several spectra of one window, each in its own root mean square, to lay over another.

    Parameters
    ----------
    eigenvalues : DataFrame
        Rows of :func:`stored_spectra`, of one window.
    matrices : sequence of str
        Keys of MATRICES, from top to bottom.
    limit : float, default 3, in root mean squares
        What lies farther out isn't drawn; it stays in the total.
    n_bins : int, default 60

    Returns
    -------
    DataFrame
        `name`, `row` (from 0), `left`, `right` (root mean squares), `height` and `mirrored` (densities
        over the row's largest), one row a bin and matrix.

    Raises
    ------
    ValueError
        If a matrix has no rows, or the table holds several windows.
    """
    if eigenvalues["window"].nunique() != 1:
        raise ValueError("eigenvalues of one window are needed: filter the table first")
    parts = []
    for row, matrix in enumerate(matrices):
        values = eigenvalues.loc[eigenvalues["matrix"] == matrix, "eigenvalue"].to_numpy(dtype=float)
        if values.size == 0:
            raise ValueError(
                f"no eigenvalues of {matrix!r}: there are {sorted(eigenvalues['matrix'].unique())}"
            )
        bins = _bins_within(values / np.sqrt(np.mean(values**2)), limit, n_bins)
        top = bins["share"].max()
        part = {"name": MATRICES[matrix], "row": row, "left": bins["left"], "right": bins["right"]}
        parts.append(
            pd.DataFrame({**part, "height": bins["share"] / top, "mirrored": bins["mirrored"] / top})
        )
    return pd.concat(parts, ignore_index=True).round(4)


def semicircle_ridges(table: pd.DataFrame, *, n_points: int = 81) -> pd.DataFrame:
    """Wigner's semicircle of unit mean square for each row of :func:`ridge_table`, in the row's own scale.

    The scale comes from the areas: both curves cover the same share of eigenvalues, 1, but for what lies
    beyond the histogram's limits.

    Returns
    -------
    DataFrame with `name`, `row`, `x` (root mean squares) and `height`
    """
    x = np.linspace(-2, 2, n_points)
    parts = []
    for (name, row), bins in table.groupby(["name", "row"], sort=False):
        area = (bins["height"] * (bins["right"] - bins["left"])).sum()
        height = np.sqrt(np.maximum(4 - x**2, 0)) / (2 * np.pi) * area
        parts.append(pd.DataFrame({"name": name, "row": row, "x": x, "height": height}))
    return pd.concat(parts, ignore_index=True).round(4)


def plot_ridges(table: pd.DataFrame, curve: pd.DataFrame | None = None) -> alt.LayerChart:
    """Spectra of :func:`ridge_table` one above the other, each with its mirror image, or with `curve`.

    Parameters
    ----------
    table : DataFrame from :func:`ridge_table`
    curve : DataFrame from :func:`semicircle_ridges`, optional
        Drawn instead of the mirror images.
    """
    n_rows = int(table["row"].max()) + 1
    y = alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[0.95 - n_rows, 1.0], nice=False))
    lifted = alt.Chart(table).transform_calculate(
        base="-datum.row", top="0.85 * datum.height - datum.row", mirror="0.85 * datum.mirrored - datum.row"
    )
    x = alt.X("left:Q", axis=theme.axis("eigenvalue_rms"))
    bars = lifted.mark_area(interpolate="step-after", opacity=0.8).encode(
        x=x, y=y, y2="base:Q", detail="row:N", color=alt.ColorDatum("spectrum", type="nominal")
    )
    other: alt.Chart
    if curve is None:
        other = _outline(lifted, "left:Q", "mirror:Q", "its mirror image")
    else:
        raised = alt.Chart(curve).transform_calculate(top="0.85 * datum.height - datum.row")
        other = _outline(raised, "x:Q", "top:Q", "semicircle")
    names = (
        alt.Chart(table.drop_duplicates("row")[["name", "row"]])
        .transform_calculate(top="0.62 - datum.row")
        .mark_text(align="left", baseline="bottom")
        .encode(x=alt.value(4), y="top:Q", text="name:N")
    )
    return alt.LayerChart(layer=[bars, other, names]).properties(
        width="container", height=RIDGE_HEIGHT * n_rows
    )


def _outline(chart: alt.Chart, x: str, y: str, name: str) -> alt.Chart:
    mark = alt.MarkDef(
        type="line",
        interpolate="step-after" if y == "mirror:Q" else "linear",
        strokeDash=list(theme.DASHES[1]),
    )
    outline = chart.encode(x=x, y=y, detail="row:N", color=alt.ColorDatum(name, type="nominal"))
    outline.mark = mark
    return outline


def mean_bound(values: ArrayLike) -> float:
    """Least mirror distance that the mean alone allows: 2 |mean| / s.d.

    A sample and its mirror image have means that lie 2 |mean| apart, and mass can't be moved by less.
    """
    values = np.asarray(values, dtype=float)
    return float(2 * abs(values.mean()) / values.std())


def named_statistics(preset: str) -> pd.DataFrame:
    """Symmetry and shape of every stored spectrum of a preset, indexed by window, for a reader's eye."""
    table = spectrum_statistics(preset)
    spectra_of = stored_spectra(preset).groupby(["window", "matrix"])["eigenvalue"]
    bounds = [
        mean_bound(spectra_of.get_group(key)) for key in zip(table["window"], table["matrix"], strict=True)
    ]
    table = table.assign(mean_bound=bounds, matrix=table["matrix"].map(MATRICES))
    words = {
        "matrix": "matrix",
        "positive_share": "share positive",
        "mirror_distance": "mirror distance",
        "mean_bound": "2 |mean| / s.d.",
        "skewness": "skewness",
        "kurtosis": "kurtosis",
        "ks_semicircle": "distance to semicircle",
    }
    return table.set_index("window")[list(words)].rename(columns=words).round(3)


def stored_readings() -> pd.DataFrame:
    """PMI beside positive PMI and the shuffled tokens at every preset that is stored: corpora, windows.

    Returns
    -------
    DataFrame
        Indexed by corpus, words and window: the share of positive eigenvalues and the skewness of PMI,
        and the mirror distance (in standard deviations) of PMI, positive PMI and PMI of shuffled tokens.
    """
    study = find_study("reflections.spectrum_symmetry")
    tables = [spectrum_statistics(preset) for preset in PRESETS if study.complete(preset)]
    if not tables:
        raise ValueError(
            "no spectrum is stored: run `embviz run reflections.spectrum_symmetry --preset quick`"
        )
    table = pd.concat(tables).rename(columns={"n": "words"})
    wide = table.pivot(index=["corpus", "words", "window"], columns="matrix")
    columns = {
        "share positive": wide["positive_share", "pmi"],
        "skewness": wide["skewness", "pmi"],
        "mirror distance": wide["mirror_distance", "pmi"],
        "of positive PMI": wide["mirror_distance", "ppmi"],
        "of shuffled tokens": wide["mirror_distance", "shuffled"],
    }
    return pd.DataFrame(columns).sort_index(level="words").round(3)


# --- the explorer -----------------------------------------------------------------------------------


def measured_spectrum(
    window: int, threshold: int, n_negative: float, smoothing: float, clipped: bool, shuffled: bool
) -> pd.DataFrame:
    """Spectrum of one member of the PMI family on the embedded corpus, beside its mirror image.

    Parameters
    ----------
    window : int, in places to each side
    threshold : int, in tokens
        Rarer words leave holes.
    n_negative : float, at least 1
        k; log k is taken off every pair that met.
    smoothing : float, in counts
        Added to every pair's count; above 0, every pair has met.
    clipped : bool
        Put entries below 0 to 0.
    shuffled : bool
        Count the shuffled tokens instead of the text.

    Returns
    -------
    DataFrame
        `left` and `right` (nats), `share`, `mirrored`, one row a bin, and `note`, short lines about the
        whole spectrum in the first row, empty in the others.
    """
    counts = embedded_counts(window, threshold, shuffled).toarray()
    matrix = cooccurrence.shifted_pmi(
        counts, n_negative=n_negative, positive=clipped, smoothing=smoothing
    )  # (V, V)
    # rounded, since what is 0 comes out as 1e-15 or -1e-15, by machine; float64, so no bin hangs on it
    with _threads().limit(limits=1):  # so small a matrix takes two threads longer than one
        values = spectra.eigenvalues(matrix, dtype="float64").round(9)
    limit = float(f"{np.quantile(np.abs(values), 0.97):.1e}") or 1.0  # two digits: the same everywhere
    bins = _bins_within(values, limit, 40)[["left", "right", "share", "mirrored"]]
    return bins.assign(note=[_note(values, limit), *[""] * (len(bins) - 1)])


@functools.cache
def _threads() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


def _note(values: np.ndarray, limit: float) -> str:
    if not values.any():
        return f"{len(values)} words\nnothing is left:\nall entries are 0"
    lines = [
        f"{len(values)} words",
        f"{metrics.positive_share(values):.0%} positive",
        f"mirror distance {metrics.mirror_distance(values):.2f}",
        f"{int((np.abs(values) > limit).sum())} farther out",
    ]
    return "\n".join(lines)


def plot_measured_spectrum(data: charts.Data) -> alt.LayerChart:
    """Bars, mirror image and note of :func:`measured_spectrum`."""
    chart = charts.plot_mirrored_spectrum(data, "pmi_eigenvalue")
    note = (
        alt.Chart(data)
        .transform_filter("datum.note !== ''")
        .mark_text(align="left", baseline="top", lineBreak="\n", fontSize=11)
        .encode(x=alt.value(4), y=alt.value(4), text="note:N")
    )
    return alt.LayerChart(layer=[chart, note]).properties(width="container", height=theme.HEIGHT)


# --- diagonal and trace -----------------------------------------------------------------------------


def diagonal_table(windows: Sequence[int], min_count: int) -> pd.DataFrame:
    """How a word's meetings with itself set the mean eigenvalue, on the embedded corpus.

    Parameters
    ----------
    windows : sequence of int, in places to each side
    min_count : int, in tokens

    Returns
    -------
    DataFrame
        Indexed by window: share of words that met themselves, mean diagonal entry, mean eigenvalue and
        standard deviation of the eigenvalues, in nats.
    """
    rows = {}
    for window in windows:
        matrix = cooccurrence.pmi(embedded_counts(window, min_count).toarray())
        values = spectra.eigenvalues(matrix, dtype="float64")
        diagonal = matrix.diagonal()
        rows[window] = {
            "words that met themselves": (diagonal != 0).mean(),
            "mean diagonal entry": diagonal.mean(),
            "mean eigenvalue": values.mean(),
            "s.d. of eigenvalues": values.std(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("window").round(3)


# --- large vocabularies -----------------------------------------------------------------------------


def stochastic_density(
    window: int, min_count: int, *, n_probes: int, n_steps: int, limit: float, bandwidth: float, seed: int = 0
) -> pd.DataFrame:
    """Spectral density of sparse PMI on the embedded corpus from products with random vectors alone.

    Parameters
    ----------
    window, min_count
        As for :func:`book.reflections.counting_words.embedded_counts`.
    n_probes, n_steps, seed
        As for :func:`embviz.words.spectra.spectral_density`.
    limit, bandwidth : float, in nats
        The grid's ends and the smoothing's standard deviation.

    Returns
    -------
    DataFrame with `eigenvalue` (nats), `density` (share a nat), `low` and `high`, two standard errors away
    """
    matrix = cooccurrence.pmi(embedded_counts(window, min_count))
    grid = np.linspace(-limit, limit, 161)
    found = spectra.spectral_density(
        matrix, n_probes=n_probes, n_steps=n_steps, seed=seed, bandwidth=bandwidth, grid=grid
    )
    band = 2 * found.standard_error
    columns = {"density": found.density, "low": found.density - band, "high": found.density + band}
    return pd.DataFrame({"eigenvalue": grid, **columns}).round(5)


def exact_density(window: int, min_count: int, *, limit: float, n_bins: int = 60) -> pd.DataFrame:
    """Histogram of all eigenvalues of the same matrix: `left`, `right` (nats), `density` (share a nat)."""
    matrix = cooccurrence.pmi(embedded_counts(window, min_count))
    values = spectra.eigenvalues(matrix, dtype="float64")
    bins = charts.bin_counts(values, n_bins=n_bins, limits=(-limit, limit))
    return bins.assign(density=bins["share"] * n_bins / (2 * limit))[["left", "right", "density"]].round(6)


def plot_densities(exact: pd.DataFrame, stochastic: pd.DataFrame) -> alt.LayerChart:
    """Exact histogram as bars, the stochastic density over it as a line with its band of error."""
    bars = charts.plot_histogram(exact, "pmi_eigenvalue", value="density").encode(
        color=alt.ColorDatum("all eigenvalues", type="nominal"), tooltip=alt.value(None)
    )
    place = {"x": "eigenvalue:Q", "color": alt.ColorDatum("from products with vectors", type="nominal")}
    band = alt.Chart(stochastic).mark_area(opacity=0.35).encode(y="low:Q", y2="high:Q", **place)
    line = alt.Chart(stochastic).mark_line(strokeWidth=1.5).encode(y="density:Q", **place)
    return alt.LayerChart(layer=[bars, band, line]).properties(width="container", height=theme.HEIGHT)
