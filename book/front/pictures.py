"""The front page's one picture that no form draws: two paths that grow beside each other."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from embviz.labels import is_control
from embviz.view import theme
from embviz.view.player import BACKGROUND, Player

SIDE = 280  # pixels of a square
SPAN = [-2.3, 2.3]  # in the paths' RMS radii


def two_paths(paths: pd.DataFrame, *, title: str, caption: str) -> Player:
    """Two layouts side by side, played from their first step to their last; shown at the last.

    Parameters
    ----------
    paths : DataFrame
        One row per point: path, step, x, y, with RMS radius 1; two paths of the same steps.
    """
    frames = paths.rename(columns={"step": "frame"}).sort_values("frame", kind="stable")
    names = list(dict.fromkeys(paths["path"]))

    def draw(data: alt.NamedData) -> alt.HConcatChart:
        return alt.hconcat(*(_panel(data, name) for name in names))

    last = int(frames["frame"].max())
    return Player(frames, draw, title=title, caption=caption, initial=last, background=paths, digits=3)


def _panel(data: alt.NamedData, name: str) -> alt.LayerChart:
    own = f"datum.path == {name!r}"
    line = alt.Chart(BACKGROUND).transform_filter(f"{own} && datum.step <= frame")
    place = {
        "x": alt.X("x:Q", axis=None).scale(domain=SPAN),
        "y": alt.Y("y:Q", axis=None).scale(domain=SPAN),
    }
    look: dict[str, Any] = {"color": theme.CATEGORIES[0]}
    if is_control(name):
        look = {"color": theme.NULL_COLOUR, "strokeDash": theme.NULL_DASH}
    path = line.mark_line(**look).encode(**place, order="step:Q")
    head = alt.Chart(data).transform_filter(own).mark_point(filled=True, size=80, opacity=1)
    head = head.encode(**place, color=alt.value(theme.CATEGORIES[1]))
    words = alt.Title(name, fontSize=theme.TEXT["normal"], fontWeight="normal")
    chart = alt.layer(path, head).properties(width=SIDE, height=SIDE, title=words)
    assert isinstance(chart, alt.LayerChart)
    return chart
