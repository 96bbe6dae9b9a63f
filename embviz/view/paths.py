"""The path in the plane: a layout of a training run, its phases, and the loss beside it."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data
from embviz.view.multiples import panels

NOISE = -1  # the phase of what is in none
SLOT = "look"


def plot_path(
    data: Data,
    x: str,
    y: str,
    *,
    order: str,
    phase: str | None = None,
    loss: str | None = None,
    loss_scale: str = "linear",
    limits: tuple[float, float] | None = None,
    seed_text: str | None = None,
    tooltip: tuple[str, ...] = (),
    x_title: str | None = None,
    y_title: str | None = None,
    order_title: str | None = None,
    order_limits: tuple[float, float] | None = None,
) -> alt.LayerChart | alt.ConcatChart:
    """Points of a layout joined in their order, coloured by it or by phase; the loss beside, coloured alike.

    Layout coordinates have no unit: the plane is a square without ticks, equal in both directions.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a point.
    x, y : str
        Columns of layout coordinates.
    order : str
        Column of numbers along the path, such as the step.
    phase : str, optional
        Column of phases: whole numbers from 0 in their order in time, -1 in none. They are told apart by
        colour and shape; points in none are small crosses.
    loss : str, optional
        Column of numbers drawn over `order` beside the plane, or below it on a narrow page.
    loss_scale : {"linear", "log", "symlog", "sqrt"}
    limits : pair of float, optional
        Ends of both axes of the plane; by default a square about all points.
    seed_text : str, optional
        Written into the plane: which seed, or run, this is.
    tooltip : sequence of str
        Further columns to show on hovering.
    order_limits : pair of float, optional
        Ends of `order`, in colours and along the axis; by default those of the data. A player has none at
        first, and a path without noise has none of its crosses.

    Raises
    ------
    ValueError
        If the table is empty, lacks a column or has a NaN; if an explorer's data comes without `limits`.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 1, 2], "u": [0, 1, 2], "v": [0, 1, 0], "loss": [3.0, 2.0, 1.0]})
    >>> chart = plot_path(table, "u", "v", order="step", loss="loss", seed_text="seed 0")
    """
    data = charts.checked(data, numbers=[x, y, order, phase, loss], more=tooltip)
    across, up = _square(data, x, y, limits)
    plane = {
        "x": alt.X(
            f"{x}:Q", scale=alt.Scale(domain=across, nice=False), axis=_blank(x_title or theme.title(x))
        ),
        "y": alt.Y(f"{y}:Q", scale=alt.Scale(domain=up, nice=False), axis=_blank(y_title or theme.title(y))),
    }
    words = theme.title(order) if order_title is None else order_title
    known = phase is not None and isinstance(data, pd.DataFrame)
    phases = sorted(set(data[phase]) - {NOISE})[:: 1 + data[phase].nunique() // 8] if known else None
    shown = charts.tooltips([order, phase, loss, *tooltip], data, [order, *([loss] if loss else [])])
    line = alt.Chart().mark_line(
        strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"], color=theme.INK, clip=True
    )
    layers = [
        line.encode(order=f"{order}:Q", **plane),
        *_points(plane, order, phase, words, shown, phases, order_limits),
    ]
    if seed_text is not None:
        corner = alt.Chart(alt.Data(values=[{"words": seed_text}])).mark_text(
            align="left", baseline="top", fontSize=theme.TEXT["small"]
        )
        layers.append(corner.encode(x=alt.value(4), y=alt.value(4), text="words:N"))
    side = theme.SQUARE
    drawing = charts.layered(data, layers).properties(
        width=side, height=side, description=f"path over {words}"
    )
    if loss is None:
        return drawing
    ends = None  # a layer without rows, as of a path without noise, has none of its own
    if order_limits and isinstance(data, pd.DataFrame):
        ends = float(data[loss].min()), float(data[loss].max())
    curve = {
        "x": charts.placed(alt.X, order, scale=charts.tight("linear", order_limits), words=words),
        "y": charts.placed(alt.Y, loss, scale=charts.scaled(loss_scale, ends)),
    }
    beside = charts.layered(data, _points(curve, order, phase, words, shown, phases, order_limits))
    beside = charts.finished(beside, f"{theme.title(loss)} over {words}", side)
    return panels([drawing, beside])


def _square(
    data: Data, x: str, y: str, limits: tuple[float, float] | None
) -> tuple[list[float], list[float]]:
    """Ends of both axes: a square about all points, or as given."""
    if limits is not None:
        return list(limits), list(limits)
    if not isinstance(data, pd.DataFrame):
        raise ValueError("give the ends of the plane (limits=...): an explorer's data can't be looked into")
    lows, highs = data[[x, y]].min(), data[[x, y]].max()
    half = 0.54 * float((highs - lows).max()) or 1.0
    middle = (lows + highs) / 2
    across, up = ([float(middle[field] - half), float(middle[field] + half)] for field in (x, y))
    return across, up


def _blank(words: str) -> alt.Axis:
    return alt.Axis(title=words, ticks=False, labels=False, grid=False)


def _points(
    place: dict[str, Any],
    order: str,
    phase: str | None,
    words: str,
    shown: list[alt.Tooltip],
    phases: list[int] | None,
    order_limits: tuple[float, float] | None,
) -> list[alt.Chart]:
    """Points coloured by their order; or by their phase, with a shape too, and those in none as crosses."""
    size = theme.SIZES["small"]
    # viridis begins nearly as dark as a dark page
    outline: dict[str, Any] = {"stroke": theme.INK, "strokeWidth": theme.WIDTHS["outline"]}
    if phase is None:
        key = alt.Legend(title=words, gradientLength=theme.GRADIENT)
        scale = theme.sequential_scale()
        if order_limits:  # a player begins without rows, from which no ends can be read
            scale.domain = list(order_limits)
        colour = alt.Color(f"{order}:Q", scale=scale, legend=key)
        points = alt.Chart().mark_point(size=size, clip=True, **outline)
        return [points.encode(color=colour, tooltip=shown, **place)]
    n_shapes = len(theme.SHAPES)
    base = alt.Chart().transform_calculate(**{SLOT: f"datum[{phase!r}] % {n_shapes}"})
    none = base.transform_filter(f"datum[{phase!r}] == {NOISE}").mark_point(
        shape="cross", size=size, filled=False, color=theme.INK, strokeWidth=theme.WIDTHS["seed"], clip=True
    )
    inside = base.transform_filter(f"datum[{phase!r}] != {NOISE}").mark_point(size=size, clip=True, **outline)
    ticks = alt.Undefined if phases is None else phases  # a gradient's own fall between two phases
    key = alt.Legend(title=theme.title(phase), gradientLength=theme.GRADIENT, format="d", values=ticks)
    colour = alt.Color(f"{phase}:Q", scale=theme.sequential_scale(), legend=key)
    slots = alt.Scale(domain=list(range(n_shapes)), range=list(theme.SHAPES))
    shape = alt.Shape(f"{SLOT}:N", scale=slots, legend=None)
    return [
        none.encode(tooltip=shown, **place),
        inside.encode(color=colour, shape=shape, tooltip=shown, **place),
    ]
