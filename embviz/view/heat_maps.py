"""Heat maps: a number in each cell of two columns."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data


def plot_heat_map(
    data: Data,
    x: str,
    y: str,
    value: str,
    *,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
    labels: str | None = None,
    x_title: str | None = None,
    y_title: str | None = None,
    value_title: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """One cell per row, coloured by a number: from little to much, or from blue through white at 0 to orange.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a cell, without NaN.
    x, y : str
        Columns whose values are the columns and rows of the map, numbers in their order.
    value : str
        Column of numbers.
    signed : bool, default False
        Centre the colours on 0, with equal ends.
    limits : pair of float, optional
        Ends of the colours; what lies outside has the end's. An explorer's data needs them for `signed` and
        `labels`.
    x_names, y_names : sequence of str, optional
        Values of `x` and of `y` in order, from the left and the top.
    labels : str, optional
        Write each value into its cell, in this d3 format, such as ``".2f"``; for maps of few cells.
    height : str
        One of ``theme.HEIGHTS``.

    Examples
    --------
    >>> table = pd.DataFrame({"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "pmi": [0.0, -3.0, 1.0, 0.0]})
    >>> chart = plot_heat_map(table, "column", "row", "pmi", signed=True)
    """
    data = charts.check_columns(data, numbers=[value], more=[x, y])
    charts.refuse_repeats(data, [x, y], "a cell shows one number: average first, or choose")
    low, high = _ends(data, value, limits, signed=signed, wanted=signed or labels is not None)
    colours = (
        theme.signed_scale(high)
        if signed
        else theme.sequential_scale(None if limits is None else (low, high))
    )
    words = theme.title(value) if value_title is None else value_title
    place = {
        "x": _side(alt.X, x, x_names, x_title),
        "y": _side(alt.Y, y, y_names, y_title),
    }
    colour = alt.Color(
        f"{value}:Q", scale=colours, legend=alt.Legend(title=words or None, gradientLength=theme.GRADIENT)
    )
    titles = {x: x_title, y: y_title, value: value_title}
    shown = charts.tooltips([x, y, value], data, [value], titles)
    layers = [alt.Chart().mark_rect().encode(color=colour, tooltip=shown, **place)]
    if labels is not None:
        inside = alt.Chart().mark_text(fontSize=theme.TEXT["small"], aria=False)  # cells say their number
        dark = f"abs(datum[{value!r}]) > {0.8 * high}" if signed else f"datum[{value!r}] < {(low + high) / 2}"
        ink = alt.condition(dark, alt.value("white"), alt.value("black"))
        layers.append(inside.encode(text=alt.Text(f"{value}:Q", format=labels), color=ink, **place))
    chart = charts.pack_layers(data, layers)
    return charts.fill_width(
        chart, f"{words} by {theme.title(x)} and {theme.title(y)}", theme.HEIGHTS[height]
    )


def _ends(
    data: Data, value: str, limits: tuple[float, float] | None, *, signed: bool, wanted: bool
) -> tuple[float, float]:
    """Ends of the colours, equal about 0 if signed."""
    if limits is None and isinstance(data, pd.DataFrame):
        limits = float(data[value].min()), float(data[value].max())
    if limits is None:
        if wanted:
            raise ValueError(
                "give the ends of the colours (limits=...): an explorer's data are not known in advance"
            )
        return 0.0, 1.0
    reach = max(map(abs, limits)) or 1.0
    return (-reach, reach) if signed else limits


def _side(
    channel: type[charts.Channel], field: str, names: Sequence[str] | None, words: str | None
) -> charts.Channel:
    axis = alt.Axis(
        title=theme.title(field) if words is None else words, ticks=False, labelOverlap=True, labelAngle=0
    )
    return channel(f"{field}:O", sort=list(names) if names is not None else "ascending", axis=axis)
