"""A trajectory as a layout: a training run, its phases, and the loss beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data
from embviz.view.forms import panels

NOISE = -1  # the phase of what is in none
BESIDE = theme.SQUARE - 20  # side of a plane beside another one: the axes of the losses below need room


def plot_path(
    data: Data,
    x: str,
    y: str,
    *,
    order: str,
    phase: str | None = None,
    loss: str | None = None,
    limits: tuple[float, float] | None = None,
    seed_text: str | None = None,
    tooltip: tuple[str, ...] = (),
    order_title: str | None = None,
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
    order : str
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
    how: dict[str, Any] = {"order": order, "phase": phase, "loss": loss, "limits": limits, "tooltip": tooltip}
    how |= {"words": theme.title(order) if order_title is None else order_title}
    how["loss_key"] = by is None or not isinstance(data, pd.DataFrame)  # the plane above has it already
    how |= {"side": theme.SQUARE, "loss_height": theme.SQUARE}
    if by is not None and loss is not None:
        how |= {"side": BESIDE, "loss_height": theme.HEIGHTS["short"]}
    if by is None:
        parts = _parts(data, x, y, seed_text=seed_text, **how)
        return parts[0] if loss is None else panels(parts)
    charts.check_columns(data, numbers=[], words=[by])
    if not by_names:
        raise ValueError(f"name the kinds of {by!r} that stand side by side (by_names=...)")
    known = isinstance(data, pd.DataFrame)
    kinds = []
    called = by_names if isinstance(by_names, Mapping) else {name: name for name in by_names}
    for kind, name in called.items():
        parts = _parts(data[data[by] == kind] if known else data, x, y, seed_text=name, **how)
        # an explorer's data can't be split, so the page filters it
        only = f"datum[{by!r}] === {json.dumps(kind)}"
        kinds.append(parts if known else [part.transform_filter(only) for part in parts])
    rows = [part for row in zip(*kinds, strict=True) for part in row]  # planes, and below them losses
    return panels(rows, columns=len(by_names), same_legend=not known)


def _parts(
    data: Data,
    x: str,
    y: str,
    *,
    order: str,
    phase: str | None,
    loss: str | None,
    limits: tuple[float, float] | None,
    tooltip: tuple[str, ...],
    words: str,
    seed_text: str | None,
    loss_key: bool,
    side: int,
    loss_height: int,
) -> list[alt.LayerChart]:
    """The plane, and where there is a loss its curve, with a legend of its own or without."""
    data = charts.check_columns(data, numbers=[x, y, order, phase, loss], more=tooltip)
    scales = _square(data, x, y, limits)
    plane = {
        "x": alt.X(f"{x}:Q", scale=scales[0], axis=theme.layout_axis(x)),
        "y": alt.Y(f"{y}:Q", scale=scales[1], axis=theme.layout_axis(y)),
    }
    shown = charts.tooltips([order, phase, loss, *tooltip], data, [order, *([loss] if loss else [])])
    line = alt.Chart().mark_line(
        strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"], color=theme.INK, clip=True
    )
    layers = [
        line.encode(order=f"{order}:Q", **plane),
        *_points(plane, order, phase, words, shown),
    ]
    if phase is not None:
        layers.append(_numbers(plane, order, phase))
    if seed_text is not None:
        corner = alt.Chart(alt.Data(values=[{"words": seed_text}])).mark_text(
            align="left", baseline="top", fontSize=theme.TEXT["small"]
        )
        layers.append(corner.encode(x=alt.value(4), y=alt.value(4), text="words:N"))
    drawing = charts.pack_layers(data, layers).properties(
        width=side,
        height=side,
        description=f"path over {words}",
    )
    if loss is None:
        return [drawing]
    curve = {
        "x": charts.position(alt.X, order, scale=charts.tight_scale("linear"), words=words),
        "y": charts.position(alt.Y, loss, scale=charts.make_scale("linear")),
    }
    beside = charts.pack_layers(data, _points(curve, order, phase, words, shown, key=loss_key))
    beside = charts.fill_width(beside, f"{theme.title(loss)} over {words}", loss_height)
    return [drawing, beside]


def _square(data: Data, x: str, y: str, limits: tuple[float, float] | None) -> list[alt.Scale]:
    """Of a plane that is a square about all points, or between the ends given."""
    if limits is not None:
        return [alt.Scale(domain=list(limits), nice=False)] * 2
    middles, spans = _about(data, x, y)
    half = max(spans) / 2 or 1.0
    return [alt.Scale(domain=[middle - half, middle + half], nice=False) for middle in middles]


def _about(data: Data, x: str, y: str) -> tuple[list[float], list[float]]:
    """The middle of all points and how far they reach, some room included, across and up."""
    if not isinstance(data, pd.DataFrame):
        raise ValueError(
            "give the ends of both axes (limits=...): an explorer's data are not known in advance"
        )
    lows, highs = data[[x, y]].min(), data[[x, y]].max()
    middles = [float((lows[field] + highs[field]) / 2) for field in (x, y)]
    return middles, [1.08 * float(highs[field] - lows[field]) for field in (x, y)]


def _points(
    place: dict[str, Any],
    order: str,
    phase: str | None,
    words: str,
    shown: list[alt.Tooltip],
    *,
    key: bool = True,
) -> list[alt.Chart]:
    """Points coloured by their order; or by their cluster, with a shape too, and those in none as crosses."""
    size = theme.SIZES["small"]
    # viridis begins nearly as dark as a dark page
    outline: dict[str, Any] = {"stroke": theme.INK, "strokeWidth": theme.WIDTHS["outline"]}
    if phase is None:
        legend = alt.Legend(title=words, gradientLength=theme.GRADIENT) if key else None
        colour = alt.Color(f"{order}:Q", scale=theme.sequential_scale(), legend=legend)
        points = alt.Chart().mark_point(size=size, clip=True, **outline)
        return [points.encode(color=colour, tooltip=shown, **place)]
    # one mark for all points: of two marks, one may be empty and then has no ends to give its axes
    none = f"datum[{phase!r}] == {NOISE}"
    colour, shape = theme.cluster_styles(phase)
    points = alt.Chart().mark_point(size=size, clip=True, **outline)
    thin, outlined = alt.value(theme.WIDTHS["seed"]), alt.value(theme.WIDTHS["outline"])
    return [
        points.encode(
            color=alt.condition(none, alt.value("transparent"), colour),
            shape=alt.condition(none, alt.value("cross"), shape),
            strokeWidth=alt.condition(none, thin, outlined),
            tooltip=shown,
            **place,
        )
    ]


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
