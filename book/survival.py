"""Survival curves: the share of runs that still wait for an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
from scipy import special

from embviz.view import charts, theme
from embviz.view.charts import Axis, Data, Levels, Scale


def plot_survival(
    data: Data,
    time: str,
    *,
    event: str,
    kind: str,
    names: Sequence[str] | None = None,
    limit: float | None = None,
    x_scale: Scale = "linear",
    start: float = 0.0,
    reference: Levels | None = None,
    y_title: str = "share that is not there yet",
) -> alt.LayerChart:
    """Share of the runs still waiting for an event, as Kaplan and Meier estimate it, with its 95% interval.

    The interval is that of log(-log share), undefined, and not drawn, where all runs or none are left. The
    chart computes both, so that an explorer's data need only hold the runs.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a run.
    time : str
        Column: when the event came, or until when the run was watched.
    event : str
        Column of booleans: False where the run was given up before.
    kind : str
        Column of kinds, at most five; `names` has their order.
    limit : float, optional
        Time at which watching stops: what comes later counts as given up there.
    start : float, default 0
        Where the curves begin; above 0 on a logarithmic axis.
    reference : number, or mapping of str to float, optional
        Shares, dashed.
    """
    data = charts.check_columns(data, numbers=[time], words=[kind], more=[event])
    colour, dash = theme.line_styles(kind, charts.kind_names(data, kind, names), words=None)
    over = Axis(time, x_scale, None if limit is None else (start, limit))
    waiting = Axis("waiting", limits=(0, 1), title=y_title)
    across = charts.position(alt.X, over, charts.tight_scale(over))
    up = charts.position(alt.Y, waiting, charts.make_scale(waiting))
    fields = [time, kind, "waiting", "low", "high"]
    shown = _waiting(time, event, kind, start, limit).encode(
        x=across, tooltip=charts.tooltips(fields, data, [time, "waiting", "low", "high"])
    )
    stepped: dict[str, Any] = {"interpolate": "step-after", "clip": True}
    line = shown.mark_line(strokeWidth=theme.WIDTHS["line"], **stepped).encode(
        y=up, color=colour, strokeDash=dash
    )
    band = shown.mark_area(opacity=theme.OPACITY["band"], **stepped).encode(
        y=charts.same_axis(up, "low"), y2="high:Q", color=colour
    )
    chart = charts.pack_layers(data, [band, line, *charts.levels(reference=reference)])
    return charts.fill_width(chart, f"{y_title} over {theme.title(time)}", theme.HEIGHT)


def _waiting(time: str, event: str, kind: str, start: float, limit: float | None) -> alt.Chart:
    """Kaplan and Meier's estimate as a chart's own computation: waiting, low and high at each time."""
    stop = "1e300" if limit is None else repr(float(limit))
    at = f"datum[{time!r}]"
    groups: Any = [kind]  # Altair asks for lists of its own kind
    z = float(special.ndtri(0.975))
    inside = "datum.waiting > 0 && datum.waiting < 1"
    off = f"exp({z:.6f} * sqrt(datum.variance) / -datum.logarithm)"
    return (
        alt.Chart()
        .transform_calculate(
            came=f"(datum[{event!r}]) && {at} <= {stop} ? 1 : 0", **{time: f"min({at}, {stop})"}
        )
        .transform_aggregate(n="count()", n_came="sum(came)", groupby=[time, kind])
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
