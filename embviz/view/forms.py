"""Forms: the strip, the scatter, bars, heat maps, and panels of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Along, Axis, Data, Levels, Null, as_axis
from embviz.view.pages import NOTEBOOK_WIDTH


def plot_strip(
    data: Data,
    value: Along,
    kind: str,
    *,
    by: str | None = None,
    names: Sequence[str] | None = None,
    by_names: Sequence[str] | None = None,
    seed: str | None = "seed",
    centre: str = "mean",
    interval: bool | tuple[str, str] = True,
    event: str | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    published: Levels | pd.DataFrame | None = None,
    tooltip: Sequence[str] = (),
    by_title: str | None = None,
) -> alt.LayerChart:
    """One row per kind, a mark each seed; a tick at their mean, a bar along its Student's 95% interval.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a measurement, without NaN.
    value : str or Axis
        Column of numbers, along the horizontal axis.
    kind : str
        Column whose values are the rows, as many as you like.
    by : str, optional
        Column told apart by colour and shape: at most five kinds and a null, which stand below each
        other where a row has several.
    names, by_names : sequence of str, optional
        Values of `kind` and of `by`, in order; by default as they come. A row without a mark stays.
    seed : str, optional
        Column of the repetitions, one mark each in a row; None where there is one row a mark.
    centre : {"mean", "median"}
        Where the tick stands. A median has no interval here.
    interval : bool or pair of str, default True
        Whether the bar is drawn; or the columns of its ends, where the table holds them.
    event : str, optional
        Column of booleans: False where the true value lies beyond (a run that was given up), an open mark.
    reference : number, or mapping of str to float, optional
        Upright dashed lines with their names.
    null : str, number, mapping or pair, optional
        The kind of `by` that is the control, in grey; or its level, named levels, or the ends of its range.
    published : number, mapping of str to float, or DataFrame, optional
        The paper's value of each row, a lying cross, or a table of such with columns `kind`, `value` and
        perhaps `by`; a bare number is a line through all.
    tooltip : sequence of str
        Further columns to show on hovering.

    Examples
    --------
    >>> table = pd.DataFrame({"run": ["a", "a", "b"], "grok": [57, 63, 782], "seed": [0, 1, 0]})
    >>> chart = plot_strip(table, Axis("grok", "log"), "run", published={"a": 57, "b": 782})
    """
    across, ends = as_axis(value), () if isinstance(interval, bool) else interval
    value = across.column
    extra = [field for field in (seed, event, *tooltip) if field]
    data = charts.check_columns(data, numbers=[value, *ends], words=[kind, by], more=extra)
    rows, colours = charts.kind_names(data, kind, names), charts.kind_names(data, by, by_names)
    charts.refuse_logarithms(data, across)
    if interval is True and centre == "mean" and seed:
        charts.refuse_repeats(data, [kind, by, seed], "average them first, or leave the interval out")
    crosses = _published_rows(published, rows, kind, value, by)
    looks = charts.mark_looks(
        by, colours, null, words=by_title, one=theme.title(seed or "value"), paper=crosses is not None
    )
    place: dict[str, Any] = {
        "x": charts.position(alt.X, across, charts.make_scale(across)),
        "y": alt.Y(f"{kind}:N", scale=alt.Scale(domain=rows), axis=alt.Axis(title=None, ticks=False)),
    }
    # a row that has several of `by`, as an explorer's data may, has a part for each
    apart = by is not None and (
        not isinstance(data, pd.DataFrame) or bool((data.groupby(kind)[by].nunique() > 1).any())
    )
    if apart:
        place["yOffset"] = alt.YOffset(f"{by}:N", scale=alt.Scale(domain=colours))
    level = published if isinstance(published, int | float) else None
    layers = charts.levels(reference=reference, null=null, published=level, upright=True)
    if seed or ends:
        interval = interval if centre == "mean" else False
        layers += _bars(place, by, looks, centre=centre, interval=interval)
    shown = charts.tooltips([kind, by, *extra, value, *ends], data, [value, *ends])
    layers += charts.marks(place, looks, event, shown)
    if crosses is not None:
        layers.append(charts.crosses(crosses, place, looks))
    step = theme.HEIGHTS["half_row"] * (len(colours) + 1) if apart else theme.HEIGHTS["row"]
    words = f"{theme.title(value)} of each {theme.title(kind)}"
    return charts.fill_width(charts.pack_layers(data, layers), words, step * len(rows))


def _published_rows(
    published: Levels | pd.DataFrame | None, rows: Sequence[str], kind: str, value: str, by: str | None
) -> pd.DataFrame | None:
    """The paper's values as a table, if they are given by row."""
    if isinstance(published, Mapping):
        published = pd.DataFrame({kind: list(published), value: list(map(float, published.values()))})
    if not isinstance(published, pd.DataFrame):
        return None
    if strange := [name for name in published[kind].astype(str) if name not in rows]:
        raise ValueError(f"published names {strange[0]!r}, which is none of the rows: {', '.join(rows)}")
    return charts.check_columns(published, numbers=[value], words=[kind, by if by in published else None])


def _bars(
    place: dict[str, Any],
    by: str | None,
    looks: dict[str, Any],
    *,
    centre: str,
    interval: bool | tuple[str, str],
) -> list[alt.Chart]:
    """The interval as a bar and the centre as a tick, in the page's ink or their kind's colour."""
    value, kind = charts.column(place["x"]), charts.column(place["y"])
    groups = [kind] if by is None else [kind, by]
    found = charts.over_seeds(value, groups, centre=centre, interval=interval)
    colour = {} if by is None else {"color": looks["color"]}
    numbers = {centre: f"{found.centre}:Q"}
    numbers |= {"low": f"{found.low}:Q", "high": f"{found.high}:Q"} if interval else {}
    tooltip = [alt.Tooltip(f"{field}:N", title=theme.title(field)) for field in groups]
    tooltip += [alt.Tooltip(field, title=name, format=",.4~g") for name, field in numbers.items()]
    elsewhere = {channel: where for channel, where in place.items() if channel != "x"}
    base = found.chart.encode(tooltip=tooltip, **colour, **elsewhere)
    tick = base.mark_tick(thickness=theme.WIDTHS["tick"], size=theme.WIDTHS["tick_length"], clip=True)
    tick = tick.encode(x=charts.same_axis(place["x"], found.centre))
    if not interval:
        return [tick]
    rule = base.mark_rule(strokeWidth=theme.WIDTHS["interval"], opacity=theme.OPACITY["rule"], clip=True)
    rule = rule.encode(x=charts.same_axis(place["x"], found.low), x2=f"{found.high}:Q")
    return [rule, tick]


def plot_scatter(
    data: Data,
    x: Along,
    y: Along,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    label: str | None = None,
    equals: bool = False,
    event: str | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    published: pd.DataFrame | None = None,
    tooltip: Sequence[str] = (),
    size: str = "mark",
    kind_title: str | None = None,
    square: bool = False,
) -> alt.LayerChart:
    """A mark each row at two of its numbers, with the line of equals if they share a unit.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a mark, without NaN.
    x, y : str or Axis
        Columns of numbers.
    kind : str, optional
        Column told apart by colour and shape: at most five kinds and a null.
    names : sequence of str, optional
        The kinds in the order of their looks; an explorer's data needs them.
    label : str, optional
        Column of words written beside the marks.
    equals : bool, default False
        Draw the line where `x` and `y` are equal; both axes then have the same ends: the limits of one, which
        an explorer's data needs.
    event : str, optional
        Column of booleans: False where the true `y` lies beyond (a run that was given up), an open mark.
    reference : number, or mapping of str to float, optional
        Levels in the unit of `y`, dashed, with their names.
    null : str, number, mapping or pair, optional
        The kind that is the control, in grey; or its level, named levels, or the ends of its range.
    published : DataFrame, optional
        The paper's values, lying crosses: columns `x` and `y`.
    tooltip : sequence of str
        Further columns to show on hovering.
    size : str
        One of ``theme.SIZES``.
    square : bool, default False
        Draw a square instead: with the same ends of both axes, a circle is round.

    Examples
    --------
    >>> table = pd.DataFrame({"memorize": [9, 38, 451], "grok": [57, 97, 782], "run": ["a", "b", "c"]})
    >>> chart = plot_scatter(table, Axis("memorize", "log"), Axis("grok", "log"), kind="run", equals=True)
    """
    x, y = as_axis(x), as_axis(y)
    extra = [field for field in (label, event, *tooltip) if field]
    data = charts.check_columns(data, numbers=[x.column, y.column], words=[kind], more=extra)
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_logarithms(data, x, y)
    if equals:
        limits = y.limits or x.limits or _common(data, [x.column, y.column], published)
        x, y = dataclasses.replace(x, limits=limits), dataclasses.replace(y, limits=limits)
    across = charts.position(alt.X, x, charts.make_scale(x))
    up = charts.position(alt.Y, y, charts.make_scale(y))
    looks = charts.mark_looks(kind, kinds, null, words=kind_title, one="mark", paper=published is not None)
    layers = charts.levels(reference=reference, null=null)
    if equals:
        ends = [{x.column: at, y.column: at} for at in limits]
        line = alt.Chart(alt.Data(values=ends)).mark_line(
            strokeDash=list(theme.DASHES[1]), color=theme.INK, strokeWidth=theme.WIDTHS["rule"], clip=True
        )
        layers.append(line.encode(x=across, y=up))
    shown = charts.tooltips([kind, *extra, x.column, y.column], data, [x.column, y.column])
    layers += charts.marks({"x": across, "y": up}, looks, event, shown, size=size, beyond="triangle-up")
    if label is not None:
        text = alt.Chart().mark_text(
            align="left", baseline="middle", dx=6, fontSize=theme.TEXT["small"], clip=True
        )
        layers.append(text.encode(x=across, y=up, text=f"{label}:N"))
    if published is not None:
        table = charts.check_columns(published, numbers=[x.column, y.column])
        layers.append(charts.crosses(table, {"x": across, "y": up}, looks))
    words = f"{theme.title(y.column)} against {theme.title(x.column)}"
    chart = charts.fill_width(charts.pack_layers(data, layers), words, theme.HEIGHT)
    return chart.properties(width=theme.SQUARE, height=theme.SQUARE) if square else chart


def _common(data: Data, fields: list[str], published: pd.DataFrame | None) -> tuple[float, float]:
    """Ends that both axes have, a little beyond the smallest and the largest value."""
    if not isinstance(data, pd.DataFrame):
        raise ValueError(
            "give the ends of both axes (limits=...): an explorer's data are not known in advance"
        )
    values = pd.concat([data[fields], *([] if published is None else [published[fields]])])
    low, high = float(values.min().min()), float(values.max().max())
    if low > 0 and high > 10 * low:
        return low / 1.2, high * 1.2
    margin = 0.04 * (high - low or 1.0)
    return low - margin, high + margin


def plot_bars(
    data: Data,
    x: Along,
    y: Along,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    x_names: Sequence[str] | None = None,
    null: Null | None = None,
    kind_title: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """One bar per row: eigenvalues by rank, power by mode, counts by category.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a bar, without NaN.
    x : str or Axis
        Column of whole numbers (ranks, modes), each bar one wide; or of categories. Of an axis its title
        counts.
    y : str or Axis
        Column of numbers: the bars' ends. They begin at 0, on a logarithmic axis at its lower limit, which an
        explorer's data needs.
    kind : str, optional
        Column told apart by colour, at most five kinds and a null; categories have them side by side.
    names, x_names : sequence of str, optional
        The kinds, and the categories, in order. An explorer's data needs them.
    null : str, number, mapping or pair, optional
        The kind that is the control; or the column of what a control has at each bar, a grey line; or its
        level, named levels, or the ends of its range.
    height : str
        One of ``theme.HEIGHTS``.

    Examples
    --------
    >>> table = pd.DataFrame({"rank": [1, 2, 3], "eigenvalue": [9.0, 4.0, 1.0]})
    >>> chart = plot_bars(table, "rank", Axis("eigenvalue", "log"))
    """
    across, up = as_axis(x), as_axis(y)
    x, y = across.column, up.column
    by_name = x_names is not None or (
        isinstance(data, pd.DataFrame) and x in data and not pd.api.types.is_numeric_dtype(data[x])
    )
    control = null if isinstance(null, str) and isinstance(data, pd.DataFrame) and null in data else None
    numbers = [y, control, None if by_name else x]
    data = charts.check_columns(data, numbers=numbers, words=[kind, x if by_name else None])
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_repeats(
        data, [x, kind], "one bar would hide the other; name what tells them apart (kind=...)"
    )
    charts.refuse_logarithms(data, up)
    foot: dict[str, Any] = {}
    if charts.make_scale(up).to_dict().get("type") == "log":  # bars begin at its end: it has no 0
        ends = up.limits or _log_ends(data, y)
        up, foot = dataclasses.replace(up, limits=ends), {"y2": alt.datum(ends[0])}
    looks: dict[str, Any] = {}
    if kind is not None:
        grey = None if control else charts.null_kind(null, kinds)
        looks["color"] = theme.point_styles(kind, kinds, null=grey, words=kind_title)[0]
    if by_name:
        axis = alt.Axis(title=across.words, labelAngle=0, ticks=False)
        domain = charts.kind_names(data, x, x_names)
        base = alt.Chart()
        place: dict[str, Any] = {"x": alt.X(f"{x}:N", scale=alt.Scale(domain=domain), axis=axis)}
        if kind is not None:
            place["xOffset"] = alt.XOffset(f"{kind}:N", scale=alt.Scale(domain=kinds))
    else:  # each bar one wide about its whole number
        base = alt.Chart().transform_calculate(left=f"datum[{x!r}] - 0.5", right=f"datum[{x!r}] + 0.5")
        axis = alt.Axis(title=across.words, tickCount=6)
        tight = charts.tight_scale(Axis(x))
        place = {"x": alt.X("left:Q", bin="binned", scale=tight, axis=axis), "x2": "right:Q"}
    unbinned = place if by_name else place | {"x": charts.same_axis(place["x"], "left")}
    height_of = charts.position(alt.Y, up, charts.make_scale(up, zero=True))
    shown = charts.tooltips([kind, x, y, control], data, [y, *([control] if control else [])])
    layers = [base.mark_bar(clip=True).encode(y=height_of, tooltip=shown, **place, **looks, **foot)]
    if control:  # what it has at each bar: a grey line across
        line: dict[str, Any] = {"color": theme.NULL_COLOUR, "clip": True}
        tick = base.mark_tick(thickness=theme.WIDTHS["step"], **line)
        rule = base.mark_rule(strokeWidth=theme.WIDTHS["step"], **line)
        layers.append((tick if by_name else rule).encode(y=charts.same_axis(height_of, control), **unbinned))
    layers += charts.levels(reference=None, null=None if control else null)
    words = f"{theme.title(y)} by {theme.title(x)}"
    return charts.fill_width(charts.pack_layers(data, layers), words, theme.HEIGHTS[height])


def _log_ends(data: Data, y: str) -> tuple[float, float]:
    """Ends of a logarithmic axis: the power of ten below the smallest bar, and a little above the largest."""
    if not isinstance(data, pd.DataFrame):
        raise ValueError(
            "give the ends of the logarithmic axis (limits=...): an explorer's data are not known in advance"
        )
    return 10 ** math.floor(math.log10(data[y].min()) - 1e-9), 1.1 * float(data[y].max())


def plot_heat_map(
    data: Data,
    x: Along,
    y: Along,
    value: Along,
    *,
    signed: bool = False,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
    labels: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """One cell per row, coloured by a number: from little to much, or from blue through white at 0 to orange.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a cell, without NaN.
    x, y : str or Axis
        Columns whose values are the columns and rows of the map, numbers in their order. Of an axis its title
        counts.
    value : str or Axis
        Column of numbers, coloured between its limits if it has some; what lies outside has the end's colour.
        An explorer's data needs them for `signed` and `labels`.
    signed : bool, default False
        Centre the colours on 0, with equal ends.
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
    across, up, colour_of = as_axis(x), as_axis(y), as_axis(value)
    x, y, value, words = across.column, up.column, colour_of.column, colour_of.words
    data = charts.check_columns(data, numbers=[value], more=[x, y])
    charts.refuse_repeats(data, [x, y], "a cell shows one number: average first, or choose")
    low, high = _ends(data, colour_of, signed=signed, wanted=signed or labels is not None)
    ends = None if colour_of.limits is None else (low, high)
    colour = alt.Color(
        f"{value}:Q",
        scale=theme.signed_scale(high) if signed else theme.sequential_scale(ends),
        legend=alt.Legend(title=words or None, gradientLength=theme.GRADIENT),
    )
    place = {"x": _side(alt.X, across, x_names), "y": _side(alt.Y, up, y_names)}
    titles = {axis.column: axis.title for axis in (across, up, colour_of)}
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


def _ends(data: Data, value: Axis, *, signed: bool, wanted: bool) -> tuple[float, float]:
    """Ends of the colours, equal about 0 if signed."""
    limits = value.limits
    if limits is None and isinstance(data, pd.DataFrame):
        limits = float(data[value.column].min()), float(data[value.column].max())
    if limits is None:
        if wanted:
            raise ValueError(
                "give the ends of the colours (limits=...): an explorer's data are not known in advance"
            )
        return 0.0, 1.0
    reach = max(map(abs, limits)) or 1.0
    return (-reach, reach) if signed else limits


def _side(channel: type[charts.Channel], side: Axis, names: Sequence[str] | None) -> charts.Channel:
    axis = alt.Axis(title=side.words, ticks=False, labelOverlap=True, labelAngle=0)
    return channel(f"{side.column}:O", sort=list(names) if names is not None else "ascending", axis=axis)


Form: TypeAlias = alt.Chart | alt.LayerChart


def panels(
    charts: Mapping[str, Form] | Sequence[Form],
    *,
    columns: int = 2,
    same_axes: bool = False,
    same_legend: bool = True,
) -> alt.ConcatChart:
    """Charts beside each other, `columns` in a row; on a narrow page all below each other.

    Panels as wide as the page share it; those with a width of their own, such as the square of a path, keep
    it. A form over a column is a panel for each of its values::

        panels({name: plot_curves(part, "step", "loss") for name, part in table.groupby("matrix")})

    and in an explorer, whose data nobody can split, a filter of each::

        {name: plot_curves(data, "step", "loss").transform_filter(alt.datum.matrix == name) for name in names}

    Parameters
    ----------
    charts : mapping of str to chart, or sequence of charts
        The panels in their order; names are written above them.
    columns : int, default 2
        Panels in a row on a wide page.
    same_axes : bool, default False
        Give all the same ends of their axes, so that panels compare.
    same_legend : bool, default True
        One legend for all. Without, each panel has its own colours.

    Examples
    --------
    >>> import pandas as pd
    >>> from embviz.view import plot_bars
    >>> table = pd.DataFrame({"rank": [1, 2], "eigenvalue": [4.0, 1.0]})
    >>> chart = panels({name: plot_bars(table, "rank", "eigenvalue") for name in ("words", "shuffled")})
    """
    named = dict(charts) if isinstance(charts, Mapping) else dict(enumerate(charts))
    if not named:
        raise ValueError("no panels: give at least one chart")
    width = NOTEBOOK_WIDTH // columns - theme.AXIS_ROOM
    parts, n_fluid = [], 0
    for name, chart in named.items():
        fluid = chart.width == "container"
        n_fluid += fluid
        words = alt.Title(str(name), fontSize=theme.TEXT["normal"], fontWeight="normal", offset=4)
        part = chart.properties(width=width) if fluid else chart
        parts.append(part.properties(title=words) if isinstance(charts, Mapping) else part)
    together = alt.concat(*parts, columns=columns)
    together = together.resolve_scale(
        **{axis: "shared" if same_axes else "independent" for axis in ("x", "y")},
        **{look: "shared" if same_legend else "independent" for look in ("color", "shape", "strokeDash")},
    )
    spoken = "; ".join(str(chart.description) for chart in named.values())
    in_a_row = min(n_fluid, columns if n_fluid == len(named) else columns - 1)
    meta = {"embviz": {"panels": {"width": width, "fluid": in_a_row}}}
    whole: alt.ConcatChart = together.properties(usermeta=meta, description=spoken)
    return whole
