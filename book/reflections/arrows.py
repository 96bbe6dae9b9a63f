"""Arrows from the origin: vectors of two coordinates, drawn as vectors."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from embviz.view import charts, theme
from embviz.view.charts import Axis, Data, Levels

ANGLE = "turned"  # degrees clockwise from upright: where a head points


def plot_arrows(
    data: Data,
    x: str,
    y: str,
    *,
    kind: str,
    names: Sequence[str],
    limit: float,
    x_title: str,
    y_title: str,
    label: str | None = None,
    reference: Levels | None = None,
) -> alt.LayerChart:
    """An arrow each row, from the origin to `x` and `y`, in a square where angles are true.

    Both axes reach from minus to plus `limit`. Kinds are told apart by colour and dash; `label` is a column
    of words written at the heads; `reference` is a dashed level, such as the axis of a reflection.
    """
    data = charts.check_columns(data, numbers=[x, y], words=[kind], more=[label] if label else [])
    ends = charts.make_scale(Axis(x, limits=(-limit, limit)))
    across = charts.position(alt.X, Axis(x, title=x_title), ends)
    up = charts.position(alt.Y, Axis(y, title=y_title), ends)
    colour, dash = theme.line_styles(kind, charts.kind_names(data, kind, names), words=None)
    shown = charts.tooltips([kind, label, x, y], data, [x, y])
    base = alt.Chart().transform_calculate(**{ANGLE: f"atan2(datum[{x!r}], datum[{y!r}]) * 180 / PI"})
    base = base.encode(x=across, y=up, tooltip=shown, color=colour)
    shafts = base.mark_rule(strokeWidth=theme.WIDTHS["step"], clip=True).encode(
        x2=alt.datum(0), y2=alt.datum(0), strokeDash=dash
    )
    heads = base.mark_point(
        shape="triangle-up", filled=True, size=theme.SIZES["mark"], opacity=1, clip=True
    ).encode(angle=alt.Angle(f"{ANGLE}:Q", scale=None, legend=None))
    layers = [*charts.levels(reference=reference), shafts, heads]
    if label is not None:
        layers += [_names(base, label, x, rightward) for rightward in (True, False)]
    words = f"Arrows from the origin: {theme.title(y)} against {theme.title(x)}"
    chart = charts.fill_width(charts.pack_layers(data, layers), words, theme.SQUARE)
    square: alt.LayerChart = chart.properties(width=theme.SQUARE)
    return square


def _names(base: alt.Chart, label: str, x: str, rightward: bool) -> alt.Chart:
    """Names beyond the heads of arrows to the right, or to the left."""
    side = f"datum[{x!r}] {'>=' if rightward else '<'} 0"
    text = base.transform_filter(side).mark_text(
        align="left" if rightward else "right",
        baseline="middle",
        dx=7 if rightward else -7,
        fontSize=theme.TEXT["small"],
        clip=True,
    )
    return text.encode(text=f"{label}:N")
