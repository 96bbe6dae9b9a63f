"""Panels: small multiples, or two forms side by side, that stand below each other on a narrow page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import altair as alt

from embviz.view import theme
from embviz.view.pages import NOTEBOOK_WIDTH

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
