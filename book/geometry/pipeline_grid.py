"""All weight matrices of a run as a grid of layouts beside random walks, played step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from embviz.view import theme
from embviz.view.paths import NOISE, plot_path
from embviz.view.player import BACKGROUND, Player

SIDE, BESIDE = 600, 290  # pixels: of a grid, and of a layout of the chosen matrix
HEADER = 0.3  # of a cell: room for the names of rows and columns
FILL = 0.43  # half of a layout, in cells
N_POINTS = 80  # of a layout that a page holds, about
FRAME = 0.2  # pixels: the line about a matrix that is not chosen
ENDS = (("left", "column", "-"), ("right", "column", "+"), ("top", "row", "-"), ("bottom", "row", "+"))
COLUMNS = ["step", "x", "y", "phase", "matrix", "kind", "loss"]
PICKED = "picked"  # the Vega parameter with the chosen matrix


def grid_player(table: pd.DataFrame, *, initial: str, caption: str) -> Player:
    """Layouts of all matrices of a run as a grid, the controls' grids below, one matrix large; played.

    A matrix whose name has a number, such as ``"Q 1"``, stands in the column of that number and in the row of
    the rest of its name; the others stand beside, in a column of their own. A click on a matrix, or the list
    above the chart, shows it large with its loss. Points are coloured by cluster; those in none are faint.

    Parameters
    ----------
    table : DataFrame
        Rows of the tables of :func:`embviz.trajectories.trace`, with `matrix` and `kind` ("training" first),
        the same kinds and steps for all matrices. About eighty snapshots of each are drawn.
    initial : str
        The matrix that is large at first.
    caption : str
    """
    matrices, kinds = list(dict.fromkeys(table["matrix"])), list(dict.fromkeys(table["kind"]))
    paths = table.groupby(["kind", "matrix"], sort=False)
    n_phases = (paths["phase"].max() + 1).groupby("kind", sort=False).mean()
    shown = pd.concat([_drawn(path) for _, path in paths], ignore_index=True)
    steps = sorted(set(shown["step"]))
    return Player(
        pd.DataFrame({"frame": steps}),
        lambda _: _plotted(grid_places(matrices), kinds, initial),
        title=f"Clusters found on average: {', '.join(f'{kind} {n_phases[kind]:.1f}' for kind in kinds)}",
        caption=caption,
        initial=steps[-1],
        background=shown[COLUMNS],
        digits=3,
    )


def grid_places(names: Sequence[str]) -> pd.DataFrame:
    """Where each matrix stands: `matrix`, `row`, `column`, `kind`, and `number`, -1 where it has none."""
    split = [name.rpartition(" ") for name in names]
    kinds = list(dict.fromkeys(kind for kind, _, _ in split if kind))
    numbers = sorted({int(number) for kind, _, number in split if kind})
    alone = [name for name, (kind, _, _) in zip(names, split, strict=True) if not kind]
    rows = []
    for name, (kind, _, number) in zip(names, split, strict=True):
        if kind:
            rows.append((name, kinds.index(kind), numbers.index(int(number)) + 1, kind, int(number)))
        else:
            rows.append((name, alone.index(name), 0, name, -1))
    return pd.DataFrame(rows, columns=["matrix", "row", "column", "kind", "number"])


def _drawn(path: pd.DataFrame) -> pd.DataFrame:
    """Some snapshots of a layout, whose longer side reaches from -1 to 1."""
    plane = path[["x", "y"]]
    low, high = plane.min(), plane.max()
    half = float((high - low).max()) / 2 or 1.0
    centred = (plane - (low + high) / 2) / half
    return path.assign(x=centred["x"], y=centred["y"])[
        (len(path) - 1) % (every := max(1, len(path) // N_POINTS)) :: every
    ]


def _plotted(places: pd.DataFrame, kinds: Sequence[str], chosen: str) -> alt.VConcatChart:
    """The kinds' grids, and below them the chosen matrix."""
    picked = alt.selection_point(
        name=PICKED,
        fields=["matrix"],
        value=[{"matrix": chosen}],
        bind=alt.binding_select(options=list(places["matrix"]), name="matrix"),
        on="click",
        clear=False,
    )
    views = [f"cells_{place}" for place in range(len(kinds))]
    grids = [_grid(places, kind, picked, view) for kind, view in zip(kinds, views, strict=True)]
    large = plot_path(
        BACKGROUND,
        "x",
        "y",
        order="step",
        phase="phase",
        loss="loss",
        limits=(-1.1, 1.1),
        by="kind",
        by_names=kinds,
    )
    parts = [
        part.transform_filter(picked).transform_filter("datum.step <= frame").properties(data=BACKGROUND)
        for part in large.concat
    ]
    # panels of the same widths stand below each other, no wider than the grids in all
    side = min(BESIDE, SIDE // len(kinds) - 10)
    parts = [
        part.properties(width=side, height=side if n < len(kinds) else 130) for n, part in enumerate(parts)
    ]
    rows = [alt.hconcat(*parts[start : start + len(kinds)]) for start in range(0, len(parts), len(kinds))]
    whole: alt.VConcatChart = _apart(alt.vconcat(*map(_apart, (*grids, *rows)), spacing=14))
    # one choice for a click in any grid
    selection: Any = picked.param
    whole.params = [alt.TopLevelSelectionParameter(**selection.to_dict(), views=views)]
    return whole


def _apart(chart: Any) -> Any:
    return chart.resolve_scale(color="independent", shape="independent")


def _grid(places: pd.DataFrame, kind: str, picked: alt.Parameter, view: str) -> alt.LayerChart:
    """One kind's layouts: their paths faint, their points so far coloured by cluster."""
    n_rows, n_columns = int(places["row"].max()) + 1, int(places["column"].max()) + 1
    tall = (n_columns + HEADER) / (n_rows + HEADER)  # a cell's height over its width, in a square panel
    scales = {
        "x": alt.Scale(domain=[-0.5 - HEADER, n_columns - 0.5], nice=False),
        "y": alt.Scale(domain=[n_rows - 0.5, -0.5 - HEADER], nice=False),
    }
    half = {"column": FILL * min(1.0, tall), "row": -FILL * min(1.0, 1 / tall)}
    middle = {way: dict(zip(places["matrix"], places[way].tolist(), strict=True)) for way in half}
    shown = (
        alt.Chart(BACKGROUND)
        .transform_filter(alt.datum.kind == kind)
        .transform_calculate(
            across=f"({json.dumps(middle['column'])})[datum.matrix] + {half['column']:.4g} * datum.x",
            up=f"({json.dumps(middle['row'])})[datum.matrix] + {half['row']:.4g} * datum.y",
        )
    )
    line = shown.mark_line(strokeWidth=theme.WIDTHS["seed"], opacity=theme.OPACITY["seed"], color=theme.INK)
    colour, shape = theme.cluster_styles("phase")
    points = shown.transform_filter("datum.step <= frame").mark_point(
        size=theme.SIZES["dot"], filled=True, opacity=1
    )
    in_none = f"datum.phase == {NOISE}"
    layers = [
        line.encode(detail="matrix:N", order="step:Q", **_at(scales, "across", "up")),
        points.encode(
            color=alt.condition(in_none, alt.value(theme.FAINT), colour),
            shape=shape,
            **_at(scales, "across", "up"),
        ),
        *_names(places, scales),
        _boxes(places, scales, picked).properties(name=view),
    ]
    numbers = places.loc[places["number"] >= 0, "number"]
    columns = f"columns are layers {numbers.min()} to {numbers.max()}"
    grid: Any = alt.layer(*layers)
    whole: alt.LayerChart = grid.properties(
        width=SIDE,
        height=SIDE,
        view=alt.ViewBackground(stroke=None),
        title=alt.Title(f"{kind}; {columns}", fontSize=theme.TEXT["normal"], fontWeight="normal", offset=4),
        description=f"layouts of {len(places)} matrices, {kind}",
    )
    return whole


def _boxes(places: pd.DataFrame, scales: Mapping[str, alt.Scale], picked: alt.Parameter) -> alt.Chart:
    """The cells, which a click picks; the picked one has a thicker frame."""
    boxes: alt.Chart = (
        alt.Chart(_rows(places))
        .transform_calculate(**{end: f"datum.{way} {sign} 0.5" for end, way, sign in ENDS})
        .mark_rect(fillOpacity=0, stroke=theme.INK, cursor="pointer")
        .encode(
            **_at(scales, "left", "top"),
            x2="right:Q",
            y2="bottom:Q",
            strokeWidth=alt.condition(picked, alt.value(theme.WIDTHS["line"]), alt.value(FRAME)),
            tooltip=alt.Tooltip("matrix:N", title="matrix"),
        )
    )
    return boxes


def _names(places: pd.DataFrame, scales: Mapping[str, alt.Scale]) -> list[alt.Chart]:
    """Numbers above the columns, kinds beside the rows, and names above what has no number."""
    of_layers, alone = places[places["number"] >= 0], places[places["number"] < 0]
    edge = -0.5 - HEADER / 2
    rows = of_layers.drop_duplicates("row").assign(column=edge)
    columns = of_layers.drop_duplicates("column").assign(row=edge)
    beside = alone.assign(row=alone["row"] + edge, column=-0.5 - HEADER)
    parts: list[tuple[pd.DataFrame, str, dict[str, Any]]] = [
        (rows, "kind", {"angle": 270}),
        (columns, "number", {}),
        (beside, "kind", {"align": "left"}),
    ]
    return [
        alt.Chart(_rows(table))
        .mark_text(fontSize=theme.TEXT["small"], baseline="middle", **how)
        .encode(text=f"{words}:N", **_at(scales, "column", "row"))
        for table, words, how in parts
    ]


def _rows(table: pd.DataFrame) -> alt.Data:
    return alt.Data(values=table.to_dict("records"))


def _at(scales: Mapping[str, alt.Scale], across: str, up: str) -> dict[str, Any]:
    """Positions in a grid, without axes."""
    return {
        "x": alt.X(f"{across}:Q", scale=scales["x"], axis=None),
        "y": alt.Y(f"{up}:Q", scale=scales["y"], axis=None),
    }
