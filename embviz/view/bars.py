"""Bars of a spectrum, or of a few categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data, Levels, Null, Scale


def plot_bars(
    data: Data,
    x: str,
    y: str,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    x_names: Sequence[str] | None = None,
    scale: Scale = "linear",
    limits: tuple[float, float] | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    x_title: str | None = None,
    y_title: str | None = None,
    kind_title: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """One bar per row: eigenvalues by rank, power by mode, counts by category.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a bar, without NaN.
    x : str
        Column of whole numbers (ranks, modes), each bar one wide; or of categories.
    y : str
        Column of numbers: the bars' ends. They begin at 0, on a logarithmic axis at its lower end.
    kind : str, optional
        Column told apart by colour, at most five kinds and a null; categories have them side by side.
    names, x_names : sequence of str, optional
        The kinds, and the categories, in order. An explorer's data needs them.
    scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
        Of `y`.
    limits : pair of float, optional
        Ends of the axis of `y`; an explorer's data needs them on a logarithmic axis.
    reference : number, or mapping of str to float, optional
        Levels in the unit of `y`, dashed, with their names.
    null : str, number, mapping or pair, optional
        The kind that is the control; or the column of what a control has at each bar, a grey line; or its
        level, named levels, or the ends of its range.
    height : str
        One of ``theme.HEIGHTS``.

    Examples
    --------
    >>> table = pd.DataFrame({"rank": [1, 2, 3], "eigenvalue": [9.0, 4.0, 1.0]})
    >>> chart = plot_bars(table, "rank", "eigenvalue", scale="log")
    """
    by_name = x_names is not None or charts.holds_words(data, x)
    control = null if isinstance(null, str) and isinstance(data, pd.DataFrame) and null in data else None
    numbers = [y, control, None if by_name else x]
    data = charts.check_columns(data, numbers=numbers, words=[kind, x if by_name else None])
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_repeats(
        data, [x, kind], "one bar would hide the other; name what tells them apart (kind=...)"
    )
    charts.refuse_logarithms(data, y, scale)
    limits, floor = _floor(data, y, scale, limits)
    looks: dict[str, Any] = {}
    if kind is not None:
        grey = None if control else charts.null_kind(null, kinds)
        looks["color"] = theme.point_styles(kind, kinds, null=grey, words=kind_title)[0]
    if by_name:
        base, place = _categories(x, charts.kind_names(data, x, x_names), kind, kinds, x_title)
    else:
        base, place = _ranks(x, charts.tight_scale("linear"), x_title)
    unbinned = place if by_name else place | {"x": charts.same_axis(place["x"], "left")}
    up = charts.position(alt.Y, y, scale=charts.make_scale(scale, limits, zero=True), words=y_title)
    shown = charts.tooltips([kind, x, y, control], data, [y, *([control] if control else [])])
    foot = {} if floor is None else {"y2": alt.datum(floor)}
    layers = [base.mark_bar(clip=True).encode(y=up, tooltip=shown, **place, **looks, **foot)]
    if control:
        layers.append(_ticks(base, by_name).encode(y=charts.same_axis(up, control), **unbinned))
    layers += charts.levels(reference=reference, null=None if control else null)
    words = f"{theme.title(y)} by {theme.title(x)}"
    return charts.fill_width(charts.pack_layers(data, layers), words, theme.HEIGHTS[height])


def _floor(
    data: Data, y: str, scale: Scale, limits: tuple[float, float] | None
) -> tuple[tuple[float, float] | None, float | None]:
    """Ends of the axis, and where bars begin on a logarithmic one, which has no 0."""
    if charts.make_scale(scale).to_dict().get("type") != "log":
        return limits, None
    if limits is None and not isinstance(data, pd.DataFrame):
        raise ValueError(
            "give the ends of the logarithmic axis (limits=...): an explorer's data are not known in advance"
        )
    if limits is None:
        limits = 10 ** math.floor(math.log10(data[y].min()) - 1e-9), 1.1 * float(data[y].max())
    return limits, limits[0]


def _ranks(x: str, scale: alt.Scale, words: str | None) -> tuple[alt.Chart, dict[str, Any]]:
    """Each bar one wide about its whole number."""
    base = alt.Chart().transform_calculate(left=f"datum[{x!r}] - 0.5", right=f"datum[{x!r}] + 0.5")
    axis = alt.Axis(title=words or theme.title(x), tickCount=6)
    return base, {"x": alt.X("left:Q", bin="binned", scale=scale, axis=axis), "x2": "right:Q"}


def _categories(
    x: str, names: Sequence[str], kind: str | None, kinds: Sequence[str], words: str | None
) -> tuple[alt.Chart, dict[str, Any]]:
    """A place a category, with the kinds side by side in it."""
    axis = alt.Axis(title=words or theme.title(x), labelAngle=0, ticks=False)
    place: dict[str, Any] = {"x": alt.X(f"{x}:N", scale=alt.Scale(domain=list(names)), axis=axis)}
    if kind is not None:
        place["xOffset"] = alt.XOffset(f"{kind}:N", scale=alt.Scale(domain=list(kinds)))
    return alt.Chart(), place


def _ticks(base: alt.Chart, by_name: bool) -> alt.Chart:
    """What a control has at each bar: a grey line across it."""
    thickness = theme.WIDTHS["step"]
    if by_name:
        return base.mark_tick(color=theme.NULL_COLOUR, thickness=thickness, clip=True)
    return base.mark_rule(color=theme.NULL_COLOUR, strokeWidth=thickness, clip=True)
