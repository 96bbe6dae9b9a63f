"""Distributions: bins as a table, a histogram with its mirror image, and ridges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from embviz.arrays import check_array
from embviz.view import charts, theme
from embviz.view.charts import Along, Data, Levels, Null

MEASURED, MIRRORED, CONTROL = "measured", "its mirror image", "control"


def plot_histogram(
    data: Data,
    x: Along,
    y: Along = "share",
    *,
    mirrored: bool = False,
    n_bins: int = 60,
    reference: Levels | None = None,
    null: Null | Sequence[float] | NDArray[np.float64] | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """Bars of a column's values, with the mirror image as a stepped line: where both agree, it is symmetric.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        A column `x` of numbers, without NaN; or bins, of :func:`~embviz.view.bin_counts` or
        :func:`~embviz.view.mirrored_bins`, as an explorer's data must be.
    x : str or Axis
        What is binned, between its limits if it has some.
    y : Axis, optional
        Of the bars' heights, such as ``Axis("share", limits=(0, 0.2))``, to keep it while an explorer's
        control moves.
    mirrored : bool, default False
        Draw the mirror image about zero too; bins are then symmetric and even in number.
    n_bins : int, default 60
    reference : number, or mapping of str to float, optional
        Upright lines with their names.
    null : array of float, str, number, mapping or pair, optional
        A control's values, binned alike, or the column of its heights in a table of bins: a grey stepped
        line. Or the control's level, named levels, or (a tuple) the ends of its range.
    height : str
        One of ``theme.HEIGHTS``.

    Examples
    --------
    >>> chart = plot_histogram(pd.DataFrame({"eigenvalue": [-2.0, 1.0, 2.0]}), "eigenvalue", mirrored=True)
    """
    x, y = charts.as_axis(x), charts.as_axis(y)
    control = None if null is None or isinstance(null, str | tuple | dict | int | float) else null
    steps = {MIRRORED: "mirrored"} if mirrored else {}
    if control is not None or isinstance(null, str):
        steps[CONTROL] = null if isinstance(null, str) else CONTROL
    if not isinstance(data, pd.DataFrame) or {"left", "right"} <= set(data):
        if control is not None:
            raise ValueError("the table holds bins: give the values, to be binned as the control's are")
        bins = charts.check_columns(data, numbers=["left", "right", "share", *steps.values()])
    else:
        values = charts.check_columns(data, numbers=[x.column])[x.column]
        bins = _bins_beside(values, control, mirrored=mirrored, n_bins=n_bins, limits=x.limits)
    across = alt.X(
        "left:Q", bin="binned", scale=alt.Scale(nice=False), axis=alt.Axis(title=x.words, tickCount=6)
    )
    ends = alt.Undefined if y.limits is None else alt.Scale(domain=list(y.limits), nice=False)
    up = alt.Y("share:Q", stack=None, scale=ends, axis=alt.Axis(title=y.words, tickCount=5))
    level = None if CONTROL in steps else null
    layers = [
        *_stepped_layers(across, up, steps),
        *charts.levels(reference=reference, null=level, upright=True),  # type: ignore[arg-type]
    ]
    if mirrored:
        layers += charts.levels(reference={"": 0.0}, upright=True)
    words = f"histogram of {theme.title(x.column)}"
    return charts.fill_width(charts.pack_layers(bins, layers), words, theme.HEIGHTS[height])


def _bins_beside(
    values: pd.Series, control: Any, *, mirrored: bool, n_bins: int, limits: tuple[float, float] | None
) -> pd.DataFrame:
    """Bins of the values, and the control's share of each."""
    control = None if control is None else check_array(control, "null").ravel()
    if mirrored:
        reach = np.concatenate([values, [] if control is None else control])
        bins = charts.mirrored_bins(values, n_bins=n_bins, reach=float(np.abs(reach).max()))
    else:
        bins = charts.bin_counts(values, n_bins=n_bins, limits=limits)
    if control is not None:
        edges = np.append(bins["left"], bins["right"].iloc[-1])
        bins[CONTROL] = np.histogram(control, bins=edges)[0] / control.size
    return bins


def _stepped_layers(across: alt.X, up: alt.Y, steps: dict[str, str]) -> list[alt.Chart]:
    """Bars, and a stepped line over them for each of `steps` (name to column)."""
    look = {
        MEASURED: (theme.CATEGORIES[0], theme.DASHES[0]),
        MIRRORED: (theme.CATEGORIES[1], theme.DASHES[1]),
        CONTROL: (theme.NULL_COLOUR, theme.NULL_DASH),
    }
    named = [MEASURED, *steps]
    scale = alt.Scale(domain=named, range=[look[name][0] for name in named])
    dashes = json.dumps({name: list(look[name][1]) for name in steps})
    key = alt.Legend(
        title=None,  # a square for the bars, a dash for each line
        symbolType={"expr": f"datum.value === '{MEASURED}' ? 'square' : 'stroke'"},
        symbolDash={"expr": f"{dashes}[datum.value] || []"},
        symbolStrokeWidth=theme.WIDTHS["line"],
    )
    colour = alt.Color(f"{charts.ROLE}:N", scale=scale, legend=key if steps else None)
    role = {name: {charts.ROLE: json.dumps(name)} for name in named}
    numbers = ["left", "right", "share", *steps.values()]
    shown = charts.tooltips(numbers, alt.NamedData(""), numbers, {"share": up["axis"]["title"]})
    cut = alt.Undefined if up["scale"] is alt.Undefined else True
    bars = alt.Chart().transform_calculate(**role[MEASURED]).mark_bar(binSpacing=0, clip=cut)
    layers = [bars.encode(x=across, x2="right:Q", y=up, color=colour, tooltip=shown)]
    for name, column in steps.items():
        dash, width = list(look[name][1]), theme.WIDTHS["step"]
        line = alt.Chart().transform_calculate(**role[name])
        line = line.mark_line(interpolate="step-after", strokeDash=dash, strokeWidth=width, clip=cut)
        layers.append(line.encode(x="left:Q", y=charts.same_axis(up, column), color=colour))
    return layers


def plot_ridges(
    data: Data,
    x: Along,
    row: str,
    height: str,
    *,
    names: Sequence[str] | None = None,
    null: str | None = None,
    overlap: float = 1.4,
    reference: Levels | None = None,
    step: str = "ridge",
) -> alt.LayerChart:
    """One curve per row over one horizontal axis, each on its own base line: distributions beside each other.

    Heights share one scale: the tallest ridge reaches `overlap` rows up.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a point of a curve, in the order of `x`, without NaN.
    x : str or Axis
        Column of numbers along the horizontal axis.
    height : str
        Column of heights from 0 up, such as densities.
    row : str
        Column whose values are the rows, from the top.
    names : sequence of str, optional
        The rows in order; by default as they come. An explorer's data needs them.
    null : str, optional
        Column of a control's heights, a grey dotted line over each ridge.
    overlap : float, default 1.4
        Rows that the tallest ridge covers.
    reference : number, or mapping of str to float, optional
        Upright lines with their names.
    step : str
        One of ``theme.HEIGHTS``: the height of a row.

    Examples
    --------
    >>> table = pd.DataFrame({"angle": [0, 90, 0, 90], "epoch": [1, 1, 2, 2], "density": [0, 1.0, 0.5, 0.5]})
    >>> chart = plot_ridges(table, "angle", "epoch", "density")
    """
    x, heights = charts.as_axis(x), [height, *([null] if null else [])]
    data = charts.check_columns(data, numbers=[x.column, *heights], words=[row])
    rows = charts.kind_names(data, row, names)
    if isinstance(data, pd.DataFrame) and (data[heights] < 0).any(axis=None):
        raise ValueError(f"column {height!r} has heights below 0: a ridge stands on its base line")
    lifted = {"base": f"{len(rows) - 1} - indexof({json.dumps(rows)}, datum[{row!r}])"}
    tops = {
        f"top{place}": f"datum.base + {overlap} * datum[{column!r}] / datum.tallest"
        for place, column in enumerate(heights)
    }
    base = alt.Chart().transform_joinaggregate(tallest=f"max({height})")
    base = base.transform_calculate(**lifted).transform_calculate(**tops)
    across = charts.position(alt.X, x, charts.tight_scale(x))
    # the rows' names at their base lines
    places, words = list(range(len(rows))), f"{json.dumps(list(rows)[::-1])}[datum.value]"
    axis = alt.Axis(title=None, values=places, labelExpr=words, ticks=False, domain=False)
    up = alt.Y("top0:Q", axis=axis, scale=alt.Scale(domain=[0, len(rows) - 1 + overlap], nice=False))
    shown = charts.tooltips([row, x.column, *heights], data, [x.column, *heights], {x.column: x.title})
    area = base.mark_area(
        opacity=theme.OPACITY["area"], clip=True, line={"strokeWidth": theme.WIDTHS["step"]}
    )
    layers = [area.encode(x=across, y=up, y2="base:Q", detail=f"{row}:N", tooltip=shown)]
    if null:
        line = base.mark_line(color=theme.NULL_COLOUR, strokeDash=list(theme.NULL_DASH), clip=True)
        layers.append(line.encode(x=across, y=charts.same_axis(up, "top1"), detail=f"{row}:N"))
    layers += charts.levels(reference=reference, upright=True)
    total = theme.HEIGHTS[step] * (len(rows) - 1 + overlap)
    words = f"{theme.title(height)} over {theme.title(x.column)}, for each {theme.title(row)}"
    return charts.fill_width(charts.pack_layers(data, layers), words, total)
