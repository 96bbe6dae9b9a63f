"""The scatter: two numbers of each row against each other, and the line where they are equal."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from embviz.view import charts, theme
from embviz.view.charts import Data, Levels, Null, Scale


def plot_scatter(
    data: Data,
    x: str,
    y: str,
    *,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    label: str | None = None,
    equals: bool = False,
    event: str | None = None,
    scale: Scale = "linear",
    x_scale: Scale | None = None,
    limits: tuple[float, float] | None = None,
    x_limits: tuple[float, float] | None = None,
    reference: Levels | None = None,
    null: Null | None = None,
    published: pd.DataFrame | None = None,
    tooltip: Sequence[str] = (),
    size: str = "mark",
    x_title: str | None = None,
    y_title: str | None = None,
    kind_title: str | None = None,
    square: bool = False,
) -> alt.LayerChart:
    """A mark each row at two of its numbers, with the line of equals if they share a unit.

    Parameters
    ----------
    data : DataFrame, or the data of an explorer
        One row a mark, without NaN.
    x, y : str
        Columns of numbers.
    kind : str, optional
        Column told apart by colour and shape: at most five kinds and a null.
    names : sequence of str, optional
        The kinds in the order of their looks; an explorer's data needs them.
    label : str, optional
        Column of words written beside the marks.
    equals : bool, default False
        Draw the line where `x` and `y` are equal; both axes then have the same ends and scale.
    event : str, optional
        Column of booleans: False where the true `y` lies beyond (a run that was given up), an open mark.
    scale, x_scale : {"linear", "log", "symlog", "sqrt"} or a scale of Altair's
        Of `y` and of `x`; by default `x` has that of `y`.
    limits, x_limits : pair of float, optional
        Ends of the axes. With `equals` both axes have those of `limits`, which an explorer's data needs.
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
    >>> chart = plot_scatter(table, "memorize", "grok", kind="run", equals=True, scale="log")
    """
    x_scale = scale if x_scale is None else x_scale
    extra = [field for field in (label, event, *tooltip) if field]
    data = charts.check_columns(data, numbers=[x, y], words=[kind], more=extra)
    kinds = charts.kind_names(data, kind, names)
    for field, its_scale in ((x, x_scale), (y, scale)):
        charts.refuse_logarithms(data, field, its_scale)
    if equals:
        limits = x_limits = _common(data, [x, y], limits, published)
    across = charts.position(alt.X, x, scale=charts.make_scale(x_scale, x_limits), words=x_title)
    up = charts.position(alt.Y, y, scale=charts.make_scale(scale, limits), words=y_title)
    looks = charts.mark_looks(kind, kinds, null, words=kind_title, one="mark", paper=published is not None)
    layers = charts.levels(reference=reference, null=null)
    if equals and limits is not None:
        layers.append(_equals(limits, across, up))
    shown = charts.tooltips([kind, *extra, x, y], data, [x, y])
    layers += charts.marks({"x": across, "y": up}, looks, event, shown, size=size, beyond="triangle-up")
    if label is not None:
        text = alt.Chart().mark_text(
            align="left", baseline="middle", dx=6, fontSize=theme.TEXT["small"], clip=True
        )
        layers.append(text.encode(x=across, y=up, text=f"{label}:N"))
    if published is not None:
        table = charts.check_columns(published, numbers=[x, y])
        layers.append(charts.crosses(table, {"x": across, "y": up}, looks))
    words = f"{theme.title(y)} against {theme.title(x)}"
    chart = charts.fill_width(charts.pack_layers(data, layers), words, theme.HEIGHT)
    return chart.properties(width=theme.SQUARE, height=theme.SQUARE) if square else chart


def _common(
    data: Data, fields: list[str], limits: tuple[float, float] | None, published: pd.DataFrame | None
) -> tuple[float, float]:
    """Ends that both axes have, a little beyond the smallest and the largest value."""
    if limits is not None:
        return limits
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


def _equals(limits: tuple[float, float], across: alt.X, up: alt.Y) -> alt.Chart:
    ends = [{charts.column(across): at, charts.column(up): at} for at in limits]
    line = alt.Chart(alt.Data(values=ends)).mark_line(
        strokeDash=list(theme.DASHES[1]), color=theme.INK, strokeWidth=theme.WIDTHS["rule"], clip=True
    )
    return line.encode(x=across, y=up)
