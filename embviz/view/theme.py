"""One look for every chart: colours everybody can tell apart, axis titles with units, text as the page's.

Importing this module registers the theme and the renderer with Altair, and turns both on, so that charts show
without a network. A renderer that was chosen before stays, except in a folder of a Jupyter Book.
``alt.theme.enable("default")`` and ``alt.renderers.enable("default")`` turn both off again.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import altair as alt

from embviz.labels import is_control, title
from embviz.view.pages import MIME, portable
from embviz.view.pictures import in_book, with_image

# SVG and canvas both resolve this to the page's text colour, so that charts follow light and dark.
INK = "currentColor"
FAINT = "rgba(128, 128, 128, 0.35)"

# Okabe and Ito's blue, vermilion, green and purple, then ink (black on white, white on black). All
# pairs stay apart under protan, deutan and tritan vision; shape or dash goes with them all the same.
CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", INK)
# On a dark page the first two are faint where transparent: explorer.css and maps.js replace them.
ON_DARK = {"#0072B2": "#56B4E9", "#D55E00": "#E66100"}
# Clusters, of which there may be many: six colours like Okabe and Ito's, the light ones darker so that they
# stand out from a white page, and five shapes.
CLUSTERS = ("#0072B2", "#B37400", "#009E73", "#CC79A7", "#D55E00", "#8C8C00")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
# Viridis in nine steps, from little to much, for what Vega doesn't draw.
RAMP = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 4))

# What the paper says, and what a control gives: never a kind's colour.
PUBLISHED = "published"
PUBLISHED_SHAPE = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"  # a cross, lying
# Several controls of one chart share the grey and differ by dots or shape.
NULL_COLOUR, NULL_DASH = "#808080", (2, 2)
NULL_DASHES = (NULL_DASH, (1, 4), (4, 2, 1, 2))
NULL_SHAPES = ("triangle-down", "triangle-left", "triangle-right")

# Marks by what they stand for. Heights in pixels, `row` a row of a strip; sizes in square pixels; line
# widths in pixels; opacities where many marks lie over each other.
HEIGHTS = {
    "row": 26,
    "half_row": 17,
    "ridge": 44,
    "wide_ridge": 74,
    "low": 130,
    "short": 190,
    "plot": 260,
    "tall": 340,
}
HEIGHT = HEIGHTS["plot"]
SQUARE = 290  # side of a layout, as wide as a phone allows
GRADIENT = 160  # pixels, length of a colour legend
AXIS_ROOM = 60  # pixels beside a panel for its axis
PADDING = 8  # pixels between the outermost marks and the ends of a logarithmic axis
SIZES = {"dot": 16, "small": 30, "mark": 50, "large": 90}
WIDTHS = {
    "outline": 0.4,
    "seed": 0.8,
    "rule": 1.2,
    "step": 1.5,
    "line": 2.5,
    "interval": 2.5,
    "tick": 3,
    "tick_length": 15,
}
OPACITY = {"seed": 0.35, "mark": 0.75, "band": 0.18, "area": 0.5, "rule": 0.8}
TEXT = {"small": 11, "normal": 12}  # pixels
# A bare notebook shows title and caption inside the drawing.
TITLE_WIDTH, CAPTION_WIDTH = 80, 100  # characters a line


def axis(field: str, *, tick_count: int | None = None) -> alt.Axis:
    """Axis with the field's title and about so many ticks: ``alt.X("pmi:Q", axis=axis("pmi"))``."""
    return alt.Axis(title=title(field), tickCount=alt.Undefined if tick_count is None else tick_count)


def layout_axis(field: str) -> alt.Axis:
    """Axis of a layout coordinate: it has no unit, so neither ticks nor numbers nor grid are drawn."""
    return alt.Axis(title=title(field), ticks=False, labels=False, grid=False)


def line_styles(
    field: str, names: Sequence[str], *, null: str | None = None, words: str | None = None
) -> tuple[alt.Color, alt.StrokeDash]:
    """Colour and dash for up to five kinds of line, each kind told apart by both.

    Parameters
    ----------
    field : str
        Column of kinds.
    names : sequence of str
        The kinds, in the order of their looks.
    null : str, optional
        The kind that is a control: grey and dotted, the last one of the legend. So are kinds that their
        name calls one (``embviz.labels.is_control``), such as a baseline or a random walk.
    words : str, optional
        Title of the legend; by default the field's.
    """
    lines: dict[str, Any] = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": WIDTHS["line"]}
    key = alt.Legend(title=title(field) if words is None else words or None, **lines)
    control = _controls(names, null, [list(dash) for dash in NULL_DASHES])
    colours, dashes = _category_scales(names, (CATEGORIES, [list(dash) for dash in DASHES]), control)
    return alt.Color(f"{field}:N", scale=colours, legend=key), alt.StrokeDash(
        f"{field}:N", scale=dashes, legend=key
    )


def point_styles(
    field: str,
    names: Sequence[str],
    *,
    null: str | None = None,
    published: bool = False,
    words: str | None = None,
) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape for up to five kinds of point, each kind told apart by both.

    Parameters are those of :func:`line_styles`; with `published` the legend also has the paper's mark, under
    :data:`PUBLISHED`.
    """
    key = alt.Legend(title=title(field) if words is None else words or None, symbolOpacity=1)
    more = _controls(names, null, NULL_SHAPES)
    more |= {PUBLISHED: (INK, PUBLISHED_SHAPE)} if published else {}
    colours, shapes = _category_scales(names, (CATEGORIES, SHAPES), more)
    return alt.Color(f"{field}:N", scale=colours, legend=key), alt.Shape(
        f"{field}:N", scale=shapes, legend=key
    )


def cluster_styles(field: str) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of clusters 0, 1, ...: thirty that differ, none of them a step of a ramp.

    There is no legend: a chart writes a cluster's number where the cluster is.
    """
    n = len(CLUSTERS) * len(SHAPES)
    looks = [
        alt.Scale(domain=list(range(n)), range=[look[place % len(look)] for place in range(n)])
        for look in (CLUSTERS, SHAPES)
    ]
    return alt.Color(f"{field}:N", scale=looks[0], legend=None), alt.Shape(
        f"{field}:N", scale=looks[1], legend=None
    )


def _controls(names: Sequence[str], null: str | None, looks: Sequence[Any]) -> dict[str, tuple[str, Any]]:
    """The grey look of each control, by its name; a chart of controls alone has kinds like any other."""
    controls = [name for name in names if name != null and is_control(name)]
    controls = controls if len(controls) < len(names) else []
    every = [*controls, *([] if null is None else [null])]
    return {name: (NULL_COLOUR, looks[place % len(looks)]) for place, name in enumerate(every)}


def _category_scales(
    names: Sequence[str], looks: tuple[Sequence[Any], Sequence[Any]], more: Mapping[str, tuple[Any, Any]]
) -> list[alt.Scale]:
    """One scale a look: the kinds by their place, then those whose look is fixed."""
    names = [name for name in names if name not in more]
    if len(names) > len(CATEGORIES):
        raise ValueError(
            f"{len(names)} kinds in one chart, but only {len(CATEGORIES)} looks that everybody can tell "
            "apart: split the chart, or draw the one that matters thick and the rest as one kind"
        )
    return [
        alt.Scale(
            domain=[*names, *more],
            range=[*look[: len(names)], *(fixed[place] for fixed in more.values())],
        )
        for place, look in enumerate(looks)
    ]


def sequential_scale(limits: tuple[float, float] | None = None) -> alt.Scale:
    """Viridis, for amounts from little to much, with ends if given."""
    ends: dict[str, Any] = {} if limits is None else {"domain": list(limits), "clamp": True}
    return alt.Scale(scheme="viridis", **ends)


def signed_scale(limit: float) -> alt.Scale:
    """Blue to orange with white at zero, from minus to plus `limit`."""
    return alt.Scale(scheme="blueorange", domain=[-limit, limit], domainMid=0, clamp=True)


AnyChart = TypeVar("AnyChart", bound=alt.TopLevelMixin)


def captioned(chart: AnyChart, *, finding: str = "", caption: str = "") -> AnyChart:
    """The same chart with its finding as title and its caption below.

    Parameters
    ----------
    chart : Altair chart of any kind
        The outermost one: inside a layer or a row the caption would be lost.
    finding : str, optional
        The title, and what a screen reader says of the chart: what to see, in one sentence.
    caption : str, optional
        Data, seeds and interval. The book and the explorers set it as text under the chart, where it
        wraps; a bare notebook shows it as subtitle.
    """
    heading = alt.Title(
        text=textwrap.wrap(finding, TITLE_WIDTH), subtitle=textwrap.wrap(caption, CAPTION_WIDTH)
    )
    meta = getattr(chart, "usermeta", alt.Undefined)
    known = meta.get("embviz", {}) if isinstance(meta, dict) else {}
    said = {"title": heading} if finding or caption else {}
    titled: AnyChart = chart.properties(  # type: ignore[attr-defined]
        **said,
        **({"description": finding} if finding else {}),
        usermeta={"embviz": {**known, "title": finding, "caption": caption}},
    )
    return titled


@alt.theme.register("embviz", enable=True)
def embviz_theme() -> alt.theme.ThemeConfig:
    """The theme, as Altair asks for it."""
    ink = {"labelColor": INK, "titleColor": INK}
    config = {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"continuousHeight": HEIGHT, "discreteHeight": HEIGHT, "stroke": FAINT},
        "title": {
            "color": INK,
            "subtitleColor": INK,
            "anchor": "start",
            "fontSize": 14,
            "subtitleFontSize": 12,
            "offset": 10,
        },
        "axis": {
            **ink,
            "domainColor": INK,
            "tickColor": INK,
            "gridColor": FAINT,
            "labelFontSize": 11,
            "labelSeparation": 4,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "header": {**ink, "labelFontSize": 12, "titleFontSize": 12},
        "legend": {
            **ink,
            "orient": "top",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 260,
            "titleLimit": 400,
            "titleOrient": "left",
        },
        "range": {
            "category": list(CATEGORIES),
            "symbol": list(SHAPES),
            "diverging": {"scheme": "blueorange"},
            "heatmap": {"scheme": "viridis"},
            "ramp": {"scheme": "viridis"},
        },
        "mark": {"color": CATEGORIES[0]},
        "text": {"color": INK, "fontSize": 12},
        "rule": {"color": INK},
        "tick": {"color": INK},
        "line": {"strokeWidth": 2},
        "point": {"filled": True, "size": 45},
    }
    return {"config": config}  # type: ignore[typeddict-item]


def mime_bundle(spec: dict[str, Any], **_: Any) -> dict[str, Any]:
    """What a chart shows as: a specification that JupyterLab, the book and nbval all read, and plain text.

    Altair's own renderer names a mime type that nbformat refuses.
    """
    meta = spec.get("usermeta", {}).get("embviz", {})
    text = f"<chart: {meta['title']}>" if "title" in meta else "<chart>"
    return with_image({MIME: portable(spec), "text/plain": text})


alt.renderers.register("embviz", mime_bundle)
if in_book() or alt.renderers.active in ("", "default"):  # which loads its scripts from the network
    alt.renderers.enable("embviz")
