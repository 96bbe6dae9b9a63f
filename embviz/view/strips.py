"""The strip: one row per kind, a mark each seed, a bar for their mean and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data, Levels, Null, Scale


def plot_strip(
    data: Data,
    value: str,
    kind: str,
    *,
    by: str | None = None,
    names: Sequence[str] | None = None,
    by_names: Sequence[str] | None = None,
    seed: str | None = "seed",
    centre: str = "mean",
    interval: bool | tuple[str, str] = True,
    event: str | None = None,
    scale: Scale = "linear",
    limits: tuple[float, float] | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    published: Levels | pd.DataFrame | None = None,
    tooltip: Sequence[str] = (),
    x_title: str | None = None,
    by_title: str | None = None,
) -> alt.LayerChart:
    """One row per kind, a mark each seed; a tick at their mean, a bar along its Student's 95% interval.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a measurement, without NaN.
    value : str
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
    scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
    limits : pair of float, optional
        Ends of the axis.
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
    >>> chart = plot_strip(table, "grok", "run", scale="log", published={"a": 57, "b": 782})
    """
    ends = () if isinstance(interval, bool) else interval
    extra = [field for field in (seed, event, *tooltip) if field]
    data = charts.check_columns(data, numbers=[value, *ends], words=[kind, by], more=extra)
    rows, colours = charts.kind_names(data, kind, names), charts.kind_names(data, by, by_names)
    charts.refuse_logarithms(data, value, scale)
    if interval is True and centre == "mean" and seed:
        charts.refuse_repeats(data, [kind, by, seed], "average them first, or leave the interval out")
    crosses = _published_rows(published, rows, kind, value, by)
    looks = charts.mark_looks(
        by, colours, null, words=by_title, one=theme.title(seed or "value"), paper=crosses is not None
    )
    place: dict[str, Any] = {
        "x": charts.position(alt.X, value, scale=charts.make_scale(scale, limits), words=x_title),
        "y": alt.Y(f"{kind}:N", scale=alt.Scale(domain=rows), axis=alt.Axis(title=None, ticks=False)),
    }
    apart = by is not None and charts.several_in_one(data, kind, by)
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
    tick = found.chart.mark_tick(
        thickness=theme.WIDTHS["tick"], size=theme.WIDTHS["tick_length"], clip=True
    ).encode(x=charts.same_axis(place["x"], found.centre), tooltip=tooltip, **colour, **elsewhere)
    if not interval:
        return [tick]
    rule = found.chart.mark_rule(
        strokeWidth=theme.WIDTHS["interval"], opacity=theme.OPACITY["rule"], clip=True
    ).encode(
        x=charts.same_axis(place["x"], found.low),
        x2=f"{found.high}:Q",
        tooltip=tooltip,
        **colour,
        **elsewhere,
    )
    return [rule, tick]
