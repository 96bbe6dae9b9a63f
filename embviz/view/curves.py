"""Curves: every seed thin and the mean thick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Along, Data, Levels, Null


def plot_curves(
    data: Data,
    x: Along,
    y: Along,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    seed: str | None = "seed",
    interval: bool | tuple[str, str] = True,
    reference: Levels | None = None,
    null: Null | None = None,
    published: Levels | pd.DataFrame | None = None,
    kind_title: str | None = None,
    height: str = "plot",
) -> alt.LayerChart:
    """Every seed as a thin line, their mean as a thick one, Student's 95% interval of the mean as a band.

    Mean and band are computed by the chart, so that an explorer's data need only hold the seeds' values.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        Columns `x`, `y`, `kind` and `seed`, one row a measurement, without NaN.
    x, y : str or Axis
        Columns of numbers.
    kind : str, optional
        Column of kinds, at most five and a null, told apart by colour and dash.
    names : sequence of str, optional
        The kinds in the order of their looks; by default as they come. An explorer's data needs them.
    seed : str, optional
        Column of the repetitions, one row each at a point; None where there is one row a point.
    interval : bool or pair of str, default True
        Whether the band is drawn; or the columns of its ends, where the table holds them.
    reference : number, or mapping of str to float, optional
        Levels in the unit of `y`, dashed, with their names.
    null : str, number, mapping or pair, optional
        The kind that is the control, drawn grey and dotted; or its level, named levels, or the ends of its
        range.
    published : number, mapping or DataFrame, optional
        The paper's values: levels, or crosses at the `x` and `y` of a table.
    height : str
        One of ``theme.HEIGHTS``.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 10, 0, 10], "accuracy": [0.1, 0.9, 0.2, 0.7], "seed": [0, 0, 1, 1]})
    >>> chart = plot_curves(table, "step", "accuracy", reference={"best possible": 0.95})
    """
    ends = () if isinstance(interval, bool) else interval
    x, y = charts.as_axis(x), charts.as_axis(y)
    numbers = [x.column, y.column, *ends]
    data = charts.check_columns(data, numbers=numbers, words=[kind], more=[seed] if seed else [])
    kinds = charts.kind_names(data, kind, names)
    charts.refuse_repeats(
        data, [x.column, kind, seed], "name the column of repetitions (seed=...), or average them"
    )
    charts.refuse_logarithms(data, x, y)
    across = charts.position(alt.X, x, charts.tight_scale(x))
    up = charts.position(alt.Y, y, charts.make_scale(y))
    looks: dict[str, Any] = {}
    if kind is not None:
        styles = theme.line_styles(kind, kinds, null=charts.null_kind(null, kinds), words=kind_title)
        looks = dict(zip(("color", "strokeDash"), styles, strict=True))
    layers = _seed_layers(across, up, looks, seed=seed, interval=interval)
    if isinstance(published, pd.DataFrame):
        rows = charts.check_columns(published, numbers=[y.column], more=[x.column]).to_dict("records")
        mark = alt.Chart(alt.Data(values=rows)).mark_point(
            shape=theme.PUBLISHED_SHAPE, size=theme.SIZES["mark"], color=theme.INK, clip=True
        )
        tooltip = alt.Tooltip(f"{y.column}:Q", title=theme.PUBLISHED, format=",.4~g")
        layers += charts.levels(reference=reference, null=null)
        layers.append(mark.encode(x=across, y=up, tooltip=tooltip))  # no legend
    else:
        layers += charts.levels(reference=reference, null=null, published=published)
    chart = charts.pack_layers(data, layers)
    return charts.fill_width(
        chart, f"{theme.title(y.column)} over {theme.title(x.column)}", theme.HEIGHTS[height]
    )


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
