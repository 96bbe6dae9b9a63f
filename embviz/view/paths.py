"""A trajectory as a layout: a training run, its phases, and the loss beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Along, Axis, Data
from embviz.view.forms import panels

NOISE = -1  # the phase of what is in none
BESIDE = theme.SQUARE - 20  # side of a plane beside another one: the axes of the losses below need room


def plot_path(
    data: Data,
    x: str,
    y: str,
    *,
    order: Along,
    phase: str | None = None,
    loss: str | None = None,
    limits: tuple[float, float] | None = None,
    seed_text: str | None = None,
    tooltip: tuple[str, ...] = (),
    by: str | None = None,
    by_names: Sequence[str] | Mapping[Any, str] = (),
) -> alt.LayerChart | alt.ConcatChart:
    """Points of a layout joined in their order, coloured by it or by cluster; the loss beside, alike.

    Layout coordinates have no unit: the plane has no ticks, and is equal in both directions.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a point, without NaN.
    x, y : str
        Columns of layout coordinates.
    order : str or Axis
        Column of numbers along the path, such as the step.
    phase : str, optional
        Column of clusters: whole numbers from 0, -1 in none. Each has its own colour and shape, of thirty,
        and its number beside its middle point; points in none are small crosses.
    loss : str, optional
        Column of numbers drawn over `order` beside the plane; below it where the page is narrow.
    limits : pair of float, optional
        Ends of both axes of the plane; by default about all points. An explorer's data needs them.
    seed_text : str, optional
        Written into the plane: which seed, or run, this is.
    tooltip : sequence of str
        Further columns to show on hovering.
    by : str, optional
        Column of kinds, such as training and a random walk: each has a plane of its own, side by side, with
        its name in it and its loss below.
    by_names : sequence of str, or mapping of kind to str
        The kinds in order, needed with `by`; a mapping says what each is called, such as ``{0: "training"}``.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 1, 2], "u": [0, 1, 2], "v": [0, 1, 0], "loss": [3.0, 2.0, 1.0]})
    >>> chart = plot_path(table, "u", "v", order="step", loss="loss", seed_text="seed 0")
    """
    beside = by is not None and loss is not None
    how: dict[str, Any] = {
        "order": charts.as_axis(order),
        "phase": phase,
        "loss": loss,
        "limits": limits,
        "tooltip": tooltip,
        "side": BESIDE if beside else theme.SQUARE,
        "loss_height": theme.HEIGHTS["short"] if beside else theme.SQUARE,
        "key": by is None or not isinstance(data, pd.DataFrame),  # the plane above has it already
    }
    if by is None:
        parts = _parts(data, x, y, seed_text=seed_text, **how)
        return parts[0] if loss is None else panels(parts)
    charts.check_columns(data, numbers=[], words=[by])
    if not by_names:
        raise ValueError(f"name the kinds of {by!r} that stand side by side (by_names=...)")
    called = by_names if isinstance(by_names, Mapping) else {name: name for name in by_names}
    kinds = []
    for kind, name in called.items():
        if isinstance(data, pd.DataFrame):
            kinds.append(_parts(data[data[by] == kind], x, y, seed_text=name, **how))
        else:  # an explorer's data can't be split, so the page filters it
            only = f"datum[{by!r}] === {json.dumps(kind)}"
            parts = _parts(data, x, y, seed_text=name, **how)
            kinds.append([part.transform_filter(only) for part in parts])
    rows = [part for row in zip(*kinds, strict=True) for part in row]  # planes, and below them losses
    return panels(rows, columns=len(by_names), same_legend=not isinstance(data, pd.DataFrame))


def _parts(
    data: Data,
    x: str,
    y: str,
    *,
    order: Axis,
    phase: str | None,
    loss: str | None,
    limits: tuple[float, float] | None,
    tooltip: tuple[str, ...],
    seed_text: str | None,
    key: bool,
    side: int,
    loss_height: int,
) -> list[alt.LayerChart]:
    """The plane, and where there is a loss its curve, with a legend of its own or without."""
    data = charts.check_columns(data, numbers=[x, y, order.column, phase, loss], more=tooltip)
    plane = {
        field: channel(f"{name}:Q", scale=scale, axis=theme.layout_axis(name))
        for field, channel, name, scale in zip(
            "xy", (alt.X, alt.Y), (x, y), _square(data, x, y, limits), strict=True
        )
    }
    numbers = [order.column, *([loss] if loss else [])]
    shown = charts.tooltips([order.column, phase, loss, *tooltip], data, numbers)
    line = alt.Chart().mark_line(
        strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"], color=theme.INK, clip=True
    )
    layers = [line.encode(order=f"{order.column}:Q", **plane), _points(plane, order, phase, shown)]
    if phase is not None:
        layers.append(_numbers(plane, order.column, phase))
    if seed_text is not None:
        corner = alt.Chart(alt.Data(values=[{"words": seed_text}])).mark_text(
            align="left", baseline="top", fontSize=theme.TEXT["small"]
        )
        layers.append(corner.encode(x=alt.value(4), y=alt.value(4), text="words:N"))
    drawing = charts.pack_layers(data, layers)
    drawing = drawing.properties(width=side, height=side, description=f"path over {order.words}")
    if loss is None:
        return [drawing]
    up = Axis(loss)
    curve = {
        "x": charts.position(alt.X, order, charts.tight_scale(order)),
        "y": charts.position(alt.Y, up, charts.make_scale(up)),
    }
    beside = charts.pack_layers(data, [_points(curve, order, phase, shown, key=key)])
    return [drawing, charts.fill_width(beside, f"{up.words} over {order.words}", loss_height)]


def _square(data: Data, x: str, y: str, limits: tuple[float, float] | None) -> list[alt.Scale]:
    """Of a plane that is a square about all points, some room included, or between the ends given."""
    if limits is not None:
        return [alt.Scale(domain=list(limits), nice=False)] * 2
    if not isinstance(data, pd.DataFrame):
        raise ValueError(
            "give the ends of both axes (limits=...): an explorer's data are not known in advance"
        )
    lows, highs = data[[x, y]].min(), data[[x, y]].max()
    half = max(1.08 * float(highs[field] - lows[field]) for field in (x, y)) / 2 or 1.0
    middles = [float((lows[field] + highs[field]) / 2) for field in (x, y)]
    return [alt.Scale(domain=[middle - half, middle + half], nice=False) for middle in middles]


def _points(
    place: dict[str, Any], order: Axis, phase: str | None, shown: list[alt.Tooltip], *, key: bool = True
) -> alt.Chart:
    """Points coloured by their order; or by their cluster, with a shape too, and those in none as crosses."""
    # viridis begins nearly as dark as a dark page
    outline: dict[str, Any] = {"stroke": theme.INK, "strokeWidth": theme.WIDTHS["outline"]}
    points = alt.Chart().mark_point(size=theme.SIZES["small"], clip=True, **outline)
    points = points.encode(tooltip=shown, **place)
    if phase is None:
        legend = alt.Legend(title=order.words, gradientLength=theme.GRADIENT) if key else None
        colour = alt.Color(f"{order.column}:Q", scale=theme.sequential_scale(), legend=legend)
        return points.encode(color=colour)
    # one mark for all points: of two marks, one may be empty and then has no ends to give its axes
    none = f"datum[{phase!r}] == {NOISE}"
    colour, shape = theme.cluster_styles(phase)
    thin, outlined = alt.value(theme.WIDTHS["seed"]), alt.value(theme.WIDTHS["outline"])
    return points.encode(
        color=alt.condition(none, alt.value("transparent"), colour),
        shape=alt.condition(none, alt.value("cross"), shape),
        strokeWidth=alt.condition(none, thin, outlined),
    )


def _numbers(plane: dict[str, Any], order: str, phase: str) -> alt.Chart:
    """Each cluster's number, at the middle one of its points."""
    numbers = (
        alt.Chart()
        .transform_filter(f"datum[{phase!r}] != {NOISE}")
        .transform_window(place="row_number()", groupby=[phase], sort=[alt.SortField(order)])
        .transform_joinaggregate(n="count()", groupby=[phase])
        .transform_filter("datum.place == ceil(datum.n / 2)")
    )
    text = numbers.mark_text(
        fontSize=theme.TEXT["normal"], fontWeight="bold", color=theme.INK, align="left", dx=5, dy=-6
    )
    return text.encode(text=alt.Text(f"{phase}:Q", format="d"), **plane)
