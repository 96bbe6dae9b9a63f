"""The front page's one picture that no form draws: two paths below each other, the second a control."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from embviz.labels import is_control
from embviz.view import panels, theme

WIDTH, HEIGHT = 300, theme.HEIGHTS["short"]
SPAN = 2.3  # in the paths' RMS radii, half of the height


def two_paths(paths: pd.DataFrame) -> alt.ConcatChart:
    """Two layouts in one scale, with their first and last points.

    Parameters
    ----------
    paths : DataFrame
        One row per point: path, step, x, y, with RMS radius 1.
    """
    return panels(
        {str(name): _panel(part, str(name)) for name, part in paths.groupby("path", sort=False)}, columns=1
    )


def _panel(path: pd.DataFrame, name: str) -> alt.LayerChart:
    across = SPAN * WIDTH / HEIGHT
    place = {
        "x": alt.X("x:Q", axis=None).scale(domain=[-across, across]),
        "y": alt.Y("y:Q", axis=None).scale(domain=[-SPAN, SPAN]),
    }
    look: dict[str, Any] = {"color": theme.CATEGORIES[0]}
    if is_control(name):
        look = {"color": theme.NULL_COLOUR, "strokeDash": theme.NULL_DASH}
    line = alt.Chart(path).mark_line(**look).encode(**place, order="step:Q")
    ends = alt.Chart(path.sort_values("step").iloc[[0, -1]]).mark_point(
        filled=True, size=theme.SIZES["mark"], opacity=1
    )
    ends = ends.encode(**place, color=alt.value(theme.CATEGORIES[1]))
    chart = alt.layer(line, ends).properties(width=WIDTH, height=HEIGHT, description=name)
    assert isinstance(chart, alt.LayerChart)
    return chart
