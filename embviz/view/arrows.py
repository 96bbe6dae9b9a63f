"""Arrows from the origin: vectors of two coordinates, drawn as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data, Levels

ANGLE = "turned"  # degrees clockwise from upright: where a head points


def plot_arrows(
    data: Data,
    x: str,
    y: str,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    label: str | None = None,
    limit: float | None = None,
    reference: Levels | None = None,
    tooltip: Sequence[str] = (),
    x_title: str | None = None,
    y_title: str | None = None,
    kind_title: str | None = None,
) -> alt.LayerChart:
    """An arrow each row, from the origin to two of its numbers, in a square where angles are true.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row an arrow.
    x, y : str
        Columns of coordinates, in one unit.
    kind : str, optional
        Column told apart by colour and dash: at most five kinds.
    names : sequence of str, optional
        The kinds in the order of their looks.
    label : str, optional
        Column of words written at the heads; an empty one writes nothing.
    limit : float, optional
        Both axes reach from minus to plus this. By default a little beyond the largest coordinate.
    reference : number, or mapping of str to float, optional
        Levels in the unit of `y`, dashed, such as the axis of a reflection.
    tooltip : sequence of str
        Further columns to show on hovering.

    Raises
    ------
    ValueError
        If the table is empty, lacks a column or has a NaN; if an explorer's data comes without `limit`, or
        with a `kind` and without `names`; if there are more than five kinds, or a column is called "turned".

    Examples
    --------
    >>> table = pd.DataFrame({"first": [1.0, 1.0], "second": [0.5, -0.5], "vector": ["word", "context"]})
    >>> chart = plot_arrows(table, "first", "second", kind="vector")
    """
    if ANGLE in {x, y, kind, label, *tooltip}:
        raise ValueError(f"a column called {ANGLE!r} can't be drawn, since heads use the name: rename it")
    data = charts.checked(
        data, numbers=[x, y], words=[kind], more=[field for field in (label, *tooltip) if field]
    )
    kinds = charts.kind_names(data, kind, names)
    if limit is None:
        if not isinstance(data, pd.DataFrame):
            raise ValueError("give the ends of the axes (limit=...): an explorer's data are not known yet")
        limit = 1.15 * float(data[[x, y]].abs().max().max()) or 1.0
    ends = (-limit, limit)
    across = charts.placed(alt.X, x, scale=charts.scaled("linear", ends), words=x_title)
    up = charts.placed(alt.Y, y, scale=charts.scaled("linear", ends), words=y_title)
    colour: dict[str, Any] = {}
    dash: dict[str, Any] = {}
    if kind is not None:
        colour["color"], dash["strokeDash"] = theme.line_styles(kind, kinds, words=kind_title)
    shown = charts.tooltips([kind, label, x, y, *tooltip], data, [x, y])
    base = alt.Chart().transform_calculate(**{ANGLE: f"atan2(datum[{x!r}], datum[{y!r}]) * 180 / PI"})
    base = base.encode(x=across, y=up, tooltip=shown, **colour)
    origin: dict[str, Any] = {"x2": alt.datum(0), "y2": alt.datum(0)}
    shafts = base.mark_rule(strokeWidth=theme.WIDTHS["step"], clip=True).encode(**origin, **dash)
    heads = base.mark_point(
        shape="triangle-up", filled=True, size=theme.SIZES["mark"], opacity=1, clip=True
    ).encode(angle=alt.Angle(f"{ANGLE}:Q", scale=None, legend=None))
    layers = [*charts.levels(reference=reference), shafts, heads]
    if label is not None:
        layers += [_names(base, label, x, rightward) for rightward in (True, False)]
    words = f"Arrows from the origin: {theme.title(y)} against {theme.title(x)}"
    chart = charts.finished(charts.layered(data, layers), words, theme.SQUARE)
    square: alt.LayerChart = chart.properties(width=theme.SQUARE)
    return square


def _names(base: alt.Chart, label: str, x: str, rightward: bool) -> alt.Chart:
    """Names beyond the heads of arrows to the right, or to the left."""
    side = f"datum[{x!r}] {'>=' if rightward else '<'} 0"
    text = base.transform_filter(side).mark_text(
        align="left" if rightward else "right",
        baseline="middle",
        dx=7 if rightward else -7,
        fontSize=theme.TEXT["small"],
        clip=True,
    )
    return text.encode(text=f"{label}:N")
