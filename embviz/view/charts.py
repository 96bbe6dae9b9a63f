"""Charts of tidy tables.

A chart function takes a table (or the data an explorer draws) and returns an Altair chart; it computes
nothing. Encodings name their types, since an explorer's data has no values to guess them from. Widths are
``"container"``: as wide as the page, down to a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from embviz.view import theme

Data: TypeAlias = pd.DataFrame | alt.NamedData


def bin_counts(
    values: ArrayLike, *, n_bins: int = 60, limits: tuple[float, float] | None = None
) -> pd.DataFrame:
    """Histogram as a table, so that a chart holds the bins and not the values.

    Parameters
    ----------
    values : array of float, any shape
        Finite numbers.
    n_bins : int, default 60
        Bins of equal width.
    limits : pair of float, optional
        Ends of the first and last bin; values outside are left out of the bins but stay in the total of
        `share`. By default the smallest and largest value.

    Returns
    -------
    DataFrame with `left`, `right` (the unit of `values`), `count` and `share` (of all values), one row a bin

    Raises
    ------
    ValueError
        If there is no value, or one isn't finite.
    """
    flat = _finite_values(values)
    counts, edges = np.histogram(flat, bins=n_bins, range=limits)
    return _bin_table(counts, edges, flat.size)


def _finite_values(values: ArrayLike) -> NDArray[np.float64]:
    flat = np.asarray(values, dtype=np.float64).ravel()
    if flat.size == 0 or not np.isfinite(flat).all():
        raise ValueError(
            f"a histogram needs finite values: {flat.size} given, {np.isfinite(flat).sum()} finite"
        )
    return flat


def _bin_table(counts: NDArray[np.int64], edges: NDArray[np.float64], total: int) -> pd.DataFrame:
    return pd.DataFrame({"left": edges[:-1], "right": edges[1:], "count": counts, "share": counts / total})


def mirrored_bins(values: ArrayLike, *, n_bins: int = 60) -> pd.DataFrame:
    """Histogram over limits symmetric about zero, with the share of the mirrored bin beside each.

    Parameters
    ----------
    values : array of float
        Such as eigenvalues; a spectrum symmetric about zero has `share` equal to `mirrored` in every bin.
    n_bins : int, default 60
        Must be even, so that zero is a bin's edge and no bin mixes signs.

    Returns
    -------
    DataFrame with `left`, `right`, `count`, `share`, `mirrored`, one row a bin
    """
    if n_bins % 2:
        raise ValueError(f"{n_bins} bins: an even number is needed, so that zero is an edge")
    flat = _finite_values(values)
    half = np.linspace(0.0, float(np.abs(flat).max()) or 1.0, n_bins // 2 + 1)
    edges = np.concatenate([-half[:0:-1], half])  # exactly symmetric, with 0 itself among them
    counts, _ = np.histogram(flat, bins=edges)
    table = _bin_table(counts, edges, flat.size)
    return table.assign(mirrored=table["share"].to_numpy()[::-1])


def plot_histogram(data: Data, field: str, *, value: str = "share", height: int = theme.HEIGHT) -> alt.Chart:
    """Bars of a table from :func:`bin_counts`.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns `left`, `right` and `value`.
    field : str
        What was binned, for the axis title: a key of ``theme.LABELS``.
    value : {"share", "count", "eigenvalues"}, default "share"
        Column drawn as height.
    """
    return (
        alt.Chart(data)
        .mark_bar(binSpacing=0)
        .encode(
            x=alt.X("left:Q", axis=theme.axis(field), bin="binned"),
            x2="right:Q",
            y=alt.Y(f"{value}:Q", axis=theme.axis(value), stack=None),
            tooltip=[alt.Tooltip("left:Q", format=".4g"), alt.Tooltip("right:Q", format=".4g"), f"{value}:Q"],
        )
        .properties(width="container", height=height)
    )


def plot_mirrored_spectrum(data: Data, field: str = "eigenvalue") -> alt.LayerChart:
    """Spectrum as bars with its mirror image as a stepped line; where both agree, it's symmetric.

    Parameters
    ----------
    data : DataFrame from :func:`mirrored_bins`, or the data of an explorer over such tables
    field : str, default "eigenvalue"
        Axis title: a key of ``theme.LABELS``.
    """
    bars = plot_histogram(data, field).encode(color=alt.ColorDatum("spectrum", type="nominal"))
    mirror = (
        alt.Chart(data)
        .mark_line(interpolate="step-after", strokeDash=list(theme.DASHES[1]))
        .encode(x="left:Q", y="mirrored:Q", color=alt.ColorDatum("its mirror image", type="nominal"))
    )
    zero = (
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=list(theme.DASHES[2])).encode(x=alt.XDatum(0))
    )
    return alt.LayerChart(layer=[bars, mirror, zero]).properties(width="container", height=theme.HEIGHT)


def plot_seed_lines(
    table: pd.DataFrame, x: str, y: str, *, by: str, seed: str = "seed", height: int = theme.HEIGHT
) -> alt.LayerChart:
    """Every seed as a thin line, the mean over seeds as a thick one, for each kind in `by`.

    Parameters
    ----------
    table : DataFrame
        Columns `x`, `y`, `by` and `seed`, one row a measurement.
    x, y : str
        Columns, and keys of ``theme.LABELS``.
    by : str
        Column of kinds, at most five.
    """
    names = sorted(table[by].astype(str).unique())
    colour, dash = theme.line_styles(by, names)
    place = {"x": alt.X(f"{x}:Q", axis=theme.axis(x)), "color": colour, "strokeDash": dash}
    thin = (
        alt.Chart(table)
        .mark_line(strokeWidth=1, opacity=0.35)
        .encode(y=alt.Y(f"{y}:Q", axis=theme.axis(y)), detail=f"{seed}:N", **place)
    )
    thick = alt.Chart(table).mark_line(strokeWidth=3).encode(y=f"mean({y}):Q", **place)
    return alt.LayerChart(layer=[thin, thick]).properties(width="container", height=height)


def plot_intervals(
    table: pd.DataFrame, x: str, y: str, *, low: str, high: str, by: str, height: int = theme.HEIGHT
) -> alt.LayerChart:
    """Points with their intervals, kinds told apart by colour and shape.

    Parameters
    ----------
    table : DataFrame
        Columns `x` (a category), `y`, `low`, `high` (the unit of `y`) and `by`, one row a point.
    x, y, by : str
        Keys of ``theme.LABELS`` too.
    """
    names = list(dict.fromkeys(table[by].astype(str)))
    colour, shape = theme.point_styles(by, names)
    place = {
        "x": alt.X(f"{x}:N", axis=theme.axis(x), sort=None),
        "xOffset": alt.XOffset(f"{by}:N", sort=names),
    }
    bars = (
        alt.Chart(table)
        .mark_rule(strokeWidth=2)
        .encode(y=alt.Y(f"{low}:Q", axis=theme.axis(y)), y2=f"{high}:Q", color=colour, **place)
    )
    tooltip = [f"{x}:N", f"{by}:N", f"{y}:Q", f"{low}:Q", f"{high}:Q"]
    points = (
        alt.Chart(table)
        .mark_point(size=70)
        .encode(y=f"{y}:Q", color=colour, shape=shape, tooltip=tooltip, **place)
    )
    return alt.LayerChart(layer=[bars, points]).properties(width="container", height=height)


def plot_signed_matrix(matrix: ArrayLike, *, value: str, limit: float | None = None) -> alt.Chart:
    """Square matrix as cells from blue (negative) through white (zero) to orange.

    Parameters
    ----------
    matrix : array of float, shape (n, n), n at most 64
        Larger ones are a texture, not a chart: show a corner or a histogram.
    value : str
        What an entry is: a key of ``theme.LABELS``.
    limit : float, optional
        Ends of the scale; by default the largest magnitude.

    Raises
    ------
    ValueError
        If the matrix isn't square or has more than 64 rows.
    """
    entries = np.asarray(matrix, dtype=np.float64)
    n = entries.shape[0]
    if entries.shape != (n, n) or n > 64:
        raise ValueError(
            f"shape {entries.shape}: a square of at most 64 rows is drawn; show a corner instead"
        )
    rows, columns = np.indices((n, n))
    table = pd.DataFrame({"row": rows.ravel(), "column": columns.ravel(), "entry": entries.ravel()})
    reach = float(np.abs(entries).max(initial=0.0)) if limit is None else limit
    side = alt.Axis(title=None, labels=False, ticks=False)
    return (
        alt.Chart(table)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=side),
            y=alt.Y("row:O", axis=side),
            color=alt.Color("entry:Q", scale=theme.signed_scale(reach or 1.0), legend=theme.legend(value)),
            tooltip=["row:O", "column:O", alt.Tooltip("entry:Q", format=".3g")],
        )
        .properties(width=280, height=280)
    )


# --- curves over seeds, with Student's band --------------------------------------------------------------

# Student's 97.5% quantile by the number of seeds, for expressions of Vega. One seed has no interval; more
# than 40 get 40's, which is 3% too wide at most.
_QUANTILES = [0.0, 0.0, *(round(float(stats.t.ppf(0.975, n - 1)), 4) for n in range(2, 41))]


def plot_seed_curves(
    data: Data,
    y: str,
    *,
    by: str,
    names: Sequence[str] | None = None,
    x: str = "step",
    reference: Mapping[str, float] | None = None,
    limits: tuple[float, float] | None = None,
    height: int = theme.HEIGHT,
) -> alt.LayerChart:
    """Every seed as a thin line, their mean as a thick one, Student's 95% interval of the mean as a band.

    Mean and band are computed by the chart, so that an explorer's data need only hold the seeds' values.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns `x`, `y`, `by` and `seed`, one row a measurement.
    y : str
        Column, and a key of ``theme.LABELS``.
    by : str
        Column of kinds, at most five; a key of ``theme.LABELS``.
    names : sequence of str, optional
        The kinds in the order of their colours and dashes; by default as they come in a DataFrame.
    x : str, default "step"
        Column, and a key of ``theme.LABELS``.
    reference : mapping of str to float, optional
        Named levels, drawn as dashed lines across, in the unit of `y`.
    limits : pair of float, optional
        Ends of the vertical axis; what lies outside is cut off. By default all is shown.

    Raises
    ------
    ValueError
        If an explorer's data comes without `names`, or there are more than five kinds.
    """
    if names is None:
        if not isinstance(data, pd.DataFrame):
            raise ValueError("name the kinds (names=...): an explorer's data can't be looked into")
        names = list(dict.fromkeys(data[by].astype(str)))
    # lines in the legend, which else has the band's faint areas
    key = alt.Legend(title=theme.title(by), symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5)
    colour, dash = (style.legend(key) for style in theme.line_styles(by, list(names)))
    scale = alt.Scale(zero=False) if limits is None else alt.Scale(domain=list(limits), nice=False)
    across = alt.X(f"{x}:Q", axis=theme.axis(x, tick_count=6), scale=alt.Scale(nice=False))
    up = alt.Y(f"{y}:Q", axis=theme.axis(y), scale=scale)
    thin = (
        alt.Chart()
        .mark_line(strokeWidth=0.8, opacity=0.35, clip=True)
        .encode(x=across, y=up, color=colour, strokeDash=dash, detail="seed:N")
    )
    over_seeds = (
        alt.Chart()
        .transform_aggregate(
            centre=f"mean({y})", spread=f"stdev({y})", n_seeds=f"count({y})", groupby=[x, by]
        )
        .transform_calculate(
            half=student_half("n_seeds", "spread"),
            low="datum.centre - datum.half",
            high="datum.centre + datum.half",
        )
    )
    band = over_seeds.mark_area(opacity=0.18, clip=True).encode(
        x=across, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour
    )
    shown = {x: f"{x}:Q", by: f"{by}:N", "mean": "centre:Q", "low": "low:Q", "high": "high:Q"}
    tooltip = [
        alt.Tooltip(field, title=title, format=",.4~g") if field.endswith(":Q") else alt.Tooltip(field)
        for title, field in shown.items()
    ]
    thick = over_seeds.mark_line(strokeWidth=2.5, clip=True).encode(
        x=across, y="centre:Q", color=colour, strokeDash=dash, tooltip=tooltip
    )
    layers = [band, thin, thick, *_levels(reference or {})]
    return layered(data, layers).properties(width="container", height=height)


def layered(
    data: Data, layers: Sequence[alt.Chart], *, transforms: Sequence[Mapping[str, Any]] = (), digits: int = 4
) -> alt.LayerChart:
    """Layers over one data set, of which a page holds the columns as lists: a quarter of rows' size.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
    layers : sequence of charts
        Those without data of their own draw `data`.
    transforms : sequence of Vega-Lite transforms, optional
        Of `data`, before those of the layers.
    digits : int, default 4
        Significant digits kept of a DataFrame's floats.
    """
    before = list(transforms)
    source: alt.Data | alt.NamedData
    if isinstance(data, pd.DataFrame):
        source = alt.Data(values=[{str(name): _listed(data[name], digits) for name in data}])
        before.insert(0, {"flatten": [str(name) for name in data]})
    else:
        source = data
    return alt.LayerChart(data=source, transform=before or alt.Undefined, layer=list(layers))


def _listed(column: pd.Series, digits: int) -> list[Any]:
    """Plain values for JSON, floats rounded to significant digits, None for NaN."""
    if pd.api.types.is_float_dtype(column.dtype):
        return [None if np.isnan(value) else float(f"{value:.{digits}g}") for value in column]
    return column.tolist()


def student_half(n_seeds: str, spread: str) -> str:
    """Vega expression: half of Student's 95% interval of a mean, from fields with seeds and their s.d."""
    quantile = f"{_QUANTILES}[min(datum.{n_seeds}, {len(_QUANTILES) - 1})]"
    return f"datum.{n_seeds} < 2 ? 0 : {quantile} * datum.{spread} / sqrt(datum.{n_seeds})"


def _levels(reference: Mapping[str, float]) -> list[alt.Chart]:
    """A dashed line across at each named level, its name at the right end."""
    if not reference:
        return []
    rows = [{"level": level, "name": name} for name, level in reference.items()]
    base = alt.Chart(alt.Data(values=rows)).encode(y="level:Q")
    names = base.mark_text(align="right", baseline="bottom", dx=-3, dy=-2, fontSize=11)
    return [
        base.mark_rule(strokeDash=list(theme.DASHES[1]), opacity=0.8),
        names.encode(x=alt.value("width"), text="name:N"),
    ]
