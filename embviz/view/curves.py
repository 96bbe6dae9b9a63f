"""Curves: every seed thin and the mean thick, and the share that waits still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from scipy import special

from embviz.view import charts, theme
from embviz.view.charts import Data, Levels, Null, Scale

MADE = (  # columns of a survival curve
    *("came", "n", "n_came", "total", "gone", "at_risk", "step", "part", "logarithm", "variance"),
    *("waiting", "low", "high"),
)


def plot_curves(
    data: Data,
    x: str,
    y: str,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    seed: str | None = "seed",
    interval: bool | tuple[str, str] = True,
    scale: Scale = "linear",
    x_scale: Scale = "linear",
    limits: tuple[float, float] | None = None,
    x_limits: tuple[float, float] | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    published: Levels | pd.DataFrame | None = None,
    x_title: str | None = None,
    y_title: str | None = None,
    kind_title: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """Every seed as a thin line, their mean as a thick one, Student's 95% interval of the mean as a band.

    Mean and band are computed by the chart, so that an explorer's data need only hold the seeds' values.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns `x`, `y`, `kind` and `seed`, one row a measurement.
    x, y : str
        Columns of numbers; their axis titles come from ``embviz.labels``, or `x_title` and `y_title`.
    kind : str, optional
        Column of kinds, at most five and a null, told apart by colour and dash.
    names : sequence of str, optional
        The kinds in the order of their looks; by default as they come in a DataFrame.
    seed : str, optional
        Column of the repetitions; None where there is one row a point.
    interval : bool or pair of str, default True
        Whether the band is drawn; or the columns of its ends, where the table holds them.
    scale, x_scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
        Of `y` and of `x`.
    limits, x_limits : pair of float, optional
        Ends of the axes; what lies outside is cut off. By default all is shown.
    reference : number, or mapping of str to float, optional
        Levels in the unit of `y`, dashed, with their names.
    null : str, number, mapping or pair, optional
        The kind that is the control, drawn grey and dotted; or its level, named levels, or the ends of its
        range.
    published : number, mapping or DataFrame, optional
        The paper's values: levels, or crosses at the `x` and `y` of a table.
    height : str
        One of ``theme.HEIGHTS``.

    Raises
    ------
    ValueError
        If the table is empty, lacks a column, has a NaN or two rows for one seed; if an explorer's data comes
        without `names`, or there are more than five kinds.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 10, 0, 10], "accuracy": [0.1, 0.9, 0.2, 0.7], "seed": [0, 0, 1, 1]})
    >>> chart = plot_curves(table, "step", "accuracy", reference={"best possible": 0.95})
    """
    ends = () if isinstance(interval, bool) else interval
    data = charts.checked(data, numbers=[x, y, *ends], words=[kind], more=[seed] if seed else [])
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_repeats(data, [x, kind, seed], "name the column of repetitions (seed=...), or average them")
    for field, its_scale in ((x, x_scale), (y, scale)):
        charts.refuse_logarithms(data, field, its_scale)
    across = charts.placed(alt.X, x, scale=charts.tight(x_scale, x_limits), words=x_title)
    up = charts.placed(alt.Y, y, scale=charts.scaled(scale, limits), words=y_title)
    looks = _line_looks(kind, kinds, null, kind_title)
    layers = _seed_layers(across, up, looks, seed=seed, interval=interval)
    if isinstance(published, pd.DataFrame):
        layers += charts.levels(reference=reference, null=null)
        layers.append(_crosses(published, across, up))
    else:
        layers += charts.levels(reference=reference, null=null, published=published)
    chart = charts.layered(data, layers)
    return charts.finished(chart, f"{theme.title(y)} over {theme.title(x)}", theme.HEIGHTS[height])


def _crosses(table: pd.DataFrame, across: alt.X, up: alt.Y) -> alt.Chart:
    """The paper's values at their places, without a legend."""
    y = charts.column(up)
    rows = charts.checked(table, numbers=[y], more=[charts.column(across)]).to_dict("records")
    mark = alt.Chart(alt.Data(values=rows)).mark_point(
        shape=theme.PUBLISHED_SHAPE, size=theme.SIZES["mark"], color=theme.INK, clip=True
    )
    tooltip = alt.Tooltip(f"{y}:Q", title=theme.PUBLISHED, format=",.4~g")
    return mark.encode(x=across, y=up, tooltip=tooltip)


def _line_looks(
    kind: str | None, kinds: Sequence[str], null: Null | None, words: str | None
) -> dict[str, Any]:
    """Colour and dash of the kinds; none where there is one line."""
    if kind is None:
        return {}
    control = charts.null_kind(null, kinds)
    colour, dash = theme.line_styles(kind, kinds, null=control, words=words)
    return {"color": colour, "strokeDash": dash}


def _seed_layers(
    across: alt.X, up: alt.Y, looks: dict[str, Any], *, seed: str | None, interval: bool | tuple[str, str]
) -> list[alt.Chart]:
    """Band, thin lines and the thick one."""
    x, y = charts.column(across), charts.column(up)
    kinds = [charts.column(looks["color"])] if looks else []
    found = charts.over_seeds(y, [x, *kinds], interval=interval)
    names = {x: f"{x}:Q", **{kind: f"{kind}:N" for kind in kinds}}
    names |= {y: f"{found.centre}:Q", "seeds": f"{found.n_seeds}:Q"}
    tooltip = [
        alt.Tooltip(field, title=theme.title(name), format=",.4~g" if field.endswith(":Q") else alt.Undefined)
        for name, field in names.items()
    ]
    thick = found.chart.mark_line(strokeWidth=theme.WIDTHS["line"], clip=True).encode(
        x=across, y=charts.same_axis(up, found.centre), tooltip=tooltip, **looks
    )
    layers = []
    if interval and (seed or not isinstance(interval, bool)):
        band = found.chart.mark_area(opacity=theme.OPACITY["band"], clip=True)
        colour = {channel: look for channel, look in looks.items() if channel == "color"}
        layers.append(
            band.encode(x=across, y=charts.same_axis(up, found.low), y2=f"{found.high}:Q", **colour)
        )
    if seed:
        thin = alt.Chart().mark_line(
            strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"], clip=True
        )
        layers.append(thin.encode(x=across, y=up, detail=f"{seed}:N", **looks))
    return [*layers, thick]


def plot_survival(
    data: Data,
    time: str,
    *,
    event: str | None = None,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    limit: float | None = None,
    x_scale: Scale = "linear",
    start: float = 0.0,
    reference: Levels | None = None,
    y_title: str = "share that is not there yet",
) -> alt.LayerChart:
    """Share of the runs still waiting for an event, as Kaplan and Meier estimate it, with its 95% interval.

    The interval is that of log(-log share), undefined, and not drawn, where all runs or none are left.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a run.
    time : str
        Column: when the event came, or until when the run was watched.
    event : str, optional
        Column of booleans: False where the run was given up before; by default all events came.
    kind : str, optional
        Column of kinds, at most five.
    names : sequence of str, optional
        The kinds in the order of their looks.
    limit : float, optional
        Time at which watching stops: what comes later counts as given up there.
    x_scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
    start : float, default 0
        Where the curves begin; above 0 on a logarithmic axis.
    reference : number, or mapping of str to float, optional
        Shares, dashed.

    Raises
    ------
    ValueError
        If the table is empty, lacks a column or has a NaN; if a column has a name that the chart makes,
        such as "step"; if the curves begin at 0 or below on a logarithmic axis; if an explorer's data comes
        without `names`, or there are more than five kinds.

    Examples
    --------
    >>> table = pd.DataFrame({"epochs": [50, 80, 100], "grokked": [True, True, False]})
    >>> chart = plot_survival(table, "epochs", event="grokked")
    """
    if made := sorted(set(MADE) & {time, kind}):
        raise ValueError(f"column {made[0]!r} has the name of one that the chart makes: rename the column")
    data = charts.checked(data, numbers=[time], words=[kind], more=[event] if event else [])
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_logarithms(pd.DataFrame({"start": [start]}), "start", x_scale)
    looks = _line_looks(kind, kinds, None, None)
    across = charts.placed(
        alt.X, time, scale=charts.tight(x_scale, None if limit is None else (start, limit))
    )
    up = charts.placed(alt.Y, "waiting", scale=charts.scaled("linear", (0, 1)), words=y_title)
    share = _waiting(time, event, [kind] if kind else [], start, limit)
    fields = [time, kind, "waiting", "low", "high"]
    shown = share.encode(x=across, tooltip=charts.tooltips(fields, data, [time, "waiting", "low", "high"]))
    stepped: dict[str, Any] = {"interpolate": "step-after", "clip": True}
    line = shown.mark_line(strokeWidth=theme.WIDTHS["line"], **stepped).encode(y=up, **looks)
    band = shown.mark_area(opacity=theme.OPACITY["band"], **stepped).encode(
        y=charts.same_axis(up, "low"), y2="high:Q", **({"color": looks["color"]} if looks else {})
    )
    chart = charts.layered(data, [band, line, *charts.levels(reference=reference)])
    return charts.finished(chart, f"{y_title} over {theme.title(time)}", theme.HEIGHT)


def _waiting(time: str, event: str | None, kind: list[str], start: float, limit: float | None) -> alt.Chart:
    """Kaplan and Meier's estimate as a chart's own computation: waiting, low and high at each time."""
    stop = "1e300" if limit is None else repr(float(limit))
    came = "true" if event is None else f"datum[{event!r}]"
    at = f"datum[{time!r}]"
    groups: Any = kind or alt.Undefined
    z = float(special.ndtri(0.975))
    inside = "datum.waiting > 0 && datum.waiting < 1"
    off = f"exp({z:.6f} * sqrt(datum.variance) / -datum.logarithm)"
    return (
        alt.Chart()
        .transform_calculate(came=f"({came}) && {at} <= {stop} ? 1 : 0", **{time: f"min({at}, {stop})"})
        .transform_aggregate(n="count()", n_came="sum(came)", groupby=[time, *kind])
        .transform_impute("n", time, keyvals=[start], value=0, groupby=groups)
        .transform_joinaggregate(total="sum(n)", groupby=groups)
        .transform_window(gone="sum(n)", sort=[alt.SortField(time)], groupby=groups)
        .transform_calculate(at_risk="datum.total - datum.gone + datum.n", came="datum.n_came || 0")
        .transform_filter("datum.at_risk > 0")
        .transform_calculate(
            step="log(1 - datum.came / datum.at_risk)",
            part="datum.came / (datum.at_risk * max(datum.at_risk - datum.came, 1))",
        )
        .transform_window(
            logarithm="sum(step)", variance="sum(part)", sort=[alt.SortField(time)], groupby=groups
        )
        .transform_calculate(waiting="exp(datum.logarithm)")
        .transform_calculate(
            low=f"{inside} ? pow(datum.waiting, {off}) : datum.waiting",
            high=f"{inside} ? pow(datum.waiting, 1 / {off}) : datum.waiting",
        )
    )
