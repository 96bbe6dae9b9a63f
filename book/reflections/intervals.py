"""Scores of word tests with their intervals, side by side by model."""

from __future__ import annotations

import altair as alt
import pandas as pd

from embviz.view import theme


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
