"""Where the embedding stands in a transformer: a diagram, tied or untied."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from embviz.view import theme

LEFT, RIGHT, JOINT = 0.03, 0.88, 0.95  # of boxes, and of the line that joins two: shares of the width
STEP, TALL = 2.0, 1.3  # from box to box, and of a box, in units of the vertical axis
KINDS = ("computation", "first table", "second table")


def boxes(words: list[str], *, tied: bool) -> pd.DataFrame:
    """The diagram's five boxes from top to bottom, a row each.

    Parameters
    ----------
    words : five str
        What stands in the boxes: token ids, input embedding, blocks, output embedding, probabilities.
    tied : bool
        Whether the output embedding is the input's table.

    Returns
    -------
    DataFrame
        words, kind, top, bottom, middle, below (the next box's top; its own bottom for the last), joined
        (1 where the box is joined with the other that shows the same table).
    """
    output = "first table" if tied else "second table"
    kind = ["computation", "first table", "computation", output, "computation"]
    top = pd.Series(range(len(kind))) * STEP
    table = pd.DataFrame({"words": words, "kind": kind, "top": top, "bottom": top + TALL})
    joined = (table["kind"] == "first table") & tied
    below = (table["top"] + STEP).where(table.index < len(kind) - 1, table["bottom"])
    return table.assign(middle=top + TALL / 2, below=below, joined=joined.astype(int))


def plot_transformer(data: alt.NamedData) -> alt.LayerChart:
    """Boxes below each other with arrows between them, and a line that joins a table with its second use."""
    across = alt.Scale(domain=[0, 1], nice=False)
    down = alt.Scale(domain=[0, 4 * STEP + TALL], nice=False, reverse=True)

    def x(share: float) -> alt.XDatum:
        return alt.XDatum(share, scale=across, axis=None)

    def y(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", scale=down, axis=None)

    middle = (LEFT + RIGHT) / 2
    plain, joined = alt.Chart(data), alt.Chart(data).transform_filter("datum.joined == 1")
    looks: dict[str, Any] = {"range": [theme.NULL_COLOUR, *theme.CATEGORIES[:2]]}
    kinds = alt.Scale(domain=list(KINDS), **looks)
    box = plain.mark_rect(cornerRadius=6, fillOpacity=theme.OPACITY["band"], strokeWidth=theme.WIDTHS["step"])
    arrow = plain.transform_filter("datum.below > datum.bottom")
    head = arrow.mark_point(
        shape="triangle-down", filled=True, size=theme.SIZES["mark"], color=theme.INK, yOffset=-4
    )
    blue: dict[str, Any] = {"color": theme.CATEGORIES[0], "strokeWidth": theme.WIDTHS["line"]}
    ends = joined.transform_aggregate(first="min(middle)", last="max(middle)")
    layers = [
        arrow.mark_rule(color=theme.INK).encode(x=x(middle), y=y("bottom"), y2="below:Q"),
        head.encode(x=x(middle), y=y("below"), opacity=alt.value(1)),
        box.encode(
            x=x(LEFT),
            x2=alt.X2Datum(RIGHT),
            y=y("top"),
            y2="bottom:Q",
            fill=alt.Fill("kind:N", scale=kinds, legend=None),
            stroke=alt.Stroke("kind:N", scale=kinds, legend=None),
        ),
        joined.mark_rule(**blue).encode(x=x(RIGHT), x2=alt.X2Datum(JOINT), y=y("middle")),
        ends.mark_rule(**blue).encode(x=x(JOINT), y=y("first"), y2="last:Q"),
        plain.mark_text(fontSize=theme.TEXT["normal"], color=theme.INK).encode(
            x=x(middle), y=y("middle"), text="words:N"
        ),
    ]
    spoken = "from top to bottom: token ids, input embedding, blocks, output embedding, probabilities"
    chart = alt.layer(*layers).properties(
        width="container", height=theme.HEIGHTS["tall"], description=spoken, view=alt.ViewConfig(stroke=None)
    )
    assert isinstance(chart, alt.LayerChart)
    return chart
