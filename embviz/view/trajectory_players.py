"""All weight matrices of a run as a grid of layouts beside random walks, played step by step."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from embviz.view import theme
from embviz.view.paths import NOISE, plot_path
from embviz.view.player import BACKGROUND, Player

if TYPE_CHECKING:
    from embviz.trajectories.traces import Trace

SIDE, BESIDE = 600, 290  # pixels: of a grid, and of a layout of the chosen matrix
HEADER = 0.3  # of a cell: room for the names of rows and columns
FILL = 0.43  # half of a layout, in cells
N_POINTS = 80  # of a layout that a page holds, about
FRAME = 0.2  # pixels: the line about a matrix that is not chosen
ENDS = (("left", "column", "-"), ("right", "column", "+"), ("top", "row", "-"), ("bottom", "row", "+"))
COLUMNS = ["step", "x", "y", "phase", "matrix", "kind"]  # drawn, and the loss
PICKED = "picked"  # the Vega parameter with the chosen matrix


def trajectory_player(
    traces: Mapping[str, Mapping[str, Trace]] | pd.DataFrame, *, initial: str | None = None, caption: str = ""
) -> Player:
    """Layouts of all matrices of a run as a grid, the controls' grids below, one matrix large; played.

    A matrix whose name has a number, such as ``"Q 1"`` or ``"blocks.0.query.weight"``, stands in the column
    of that number and in the row of the rest of its name; the others stand beside, in a column of their own.
    A click on a matrix, or the list above the chart, shows it large with its loss. Points are coloured by
    cluster; those in none are faint.

    Parameters
    ----------
    traces : mapping of matrix to mapping of kind to Trace, or DataFrame
        As of :func:`embviz.trajectories.trace`: for each matrix the same kinds, such as "training" and
        "random walk", training first, all with the same steps; or the rows of their tables, with `matrix`
        and `kind`. About eighty snapshots of each are drawn.
    initial : str, optional
        The matrix that is large at first; by default the first.
    caption : str
        Data, model and seed.

    Raises
    ------
    ValueError
        If there is no matrix, `initial` is none of them, kinds differ between matrices, or steps do.

    Examples
    --------
    >>> from embviz.trajectories import Layout, Recipe, trace, weight_path
    >>> weights = np.random.default_rng(0).normal(size=(60, 4)).cumsum(axis=0)
    >>> recipe = Recipe(autoencoder=None, layout=Layout("pca"))
    >>> traces = {
    ...     name: {"training": trace(weight_path(name, weights, range(60)), recipe, seed=0)}
    ...     for name in ("embedding", "Q 1", "Q 2")
    ... }
    >>> trajectory_player(traces, caption="Made steps.")
    <player: Clusters found on average: training 0.0>
    """
    table = traces if isinstance(traces, pd.DataFrame) else _joined(traces)
    matrices, kinds = _checked(table)
    chosen = next(iter(matrices)) if initial is None else initial
    if chosen not in matrices:
        raise ValueError(f"{chosen!r} is to be shown first, and the matrices are {', '.join(matrices)}")
    paths = table.groupby(["kind", "matrix"], sort=False)
    n_phases = (paths["phase"].max() + 1).groupby("kind", sort=False).mean()
    found = ", ".join(f"{kind} {n_phases[kind]:.1f}" for kind in kinds)
    has_losses = "loss" in table and bool(table["loss"].notna().all())
    shown = pd.concat([_drawn(path) for _, path in paths], ignore_index=True)
    steps = sorted(set(shown["step"]))
    return Player(
        pd.DataFrame({"frame": steps}),
        lambda _: _plotted(grid_places(matrices), kinds, chosen, has_losses=has_losses),
        title=f"Clusters found on average: {found}",
        caption=caption,
        initial=steps[-1],
        background=shown[[*COLUMNS, "loss"]] if has_losses else shown[COLUMNS],
        digits=3,
    )


def grid_places(names: Sequence[str]) -> pd.DataFrame:
    """Where each matrix stands in a grid.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    DataFrame, one row a name
        `matrix`; `row` and `column`, whole numbers from 0, a column for each number in a name and one before
        them for names without; `kind`, the name without its number; `number`, or -1.
    """
    split = [_split(name) for name in names]
    kinds = list(dict.fromkeys(kind for kind, number in split if number >= 0))
    numbers = sorted({number for _, number in split if number >= 0})
    alone = [name for name, (_, number) in zip(names, split, strict=True) if number < 0]
    rows = []
    for name, (kind, number) in zip(names, split, strict=True):
        beside = number < 0
        row = alone.index(name) if beside else kinds.index(kind)
        column = 0 if beside else numbers.index(number) + bool(alone)
        rows.append({"matrix": name, "row": row, "column": column, "kind": kind, "number": number})
    return pd.DataFrame(rows)


def _split(name: str) -> tuple[str, int]:
    """A matrix's kind and its layer, -1 where it has none."""
    parts = [part for part in re.split(r"[.\s]+", name) if part != "weight"]
    place = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if place is None:
        return name, -1
    return " ".join(parts[place + 1 :] or parts[:place]), int(parts[place])


def _joined(traces: Mapping[str, Mapping[str, Trace]]) -> pd.DataFrame:
    tables = [
        trace.table.assign(matrix=name, kind=kind)
        for name, of_kinds in traces.items()
        for kind, trace in of_kinds.items()
    ]
    return pd.concat(tables) if tables else pd.DataFrame(columns=COLUMNS)


def _checked(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Matrices, and kinds, which are the same for all."""
    if not len(table):
        raise ValueError("there is no matrix to draw")
    matrices = list(dict.fromkeys(table["matrix"]))
    kinds: list[str] = []
    steps = np.empty(0)
    for name in matrices:
        own = dict(list(table[table["matrix"] == name].groupby("kind", sort=False)["step"]))
        if name == matrices[0]:
            kinds, steps = list(own), next(iter(own.values())).to_numpy()
        if list(own) != kinds:
            raise ValueError(f"{name} has {list(own)}, {matrices[0]} has {kinds}: trace the same for all")
        for kind, found in own.items():
            if not np.array_equal(found, steps):
                raise ValueError(
                    f"{kind} of {name} has other steps than {matrices[0]}: take the same snapshots"
                )
    return matrices, kinds


def _drawn(path: pd.DataFrame) -> pd.DataFrame:
    """Some snapshots of a layout, whose longer side reaches from -1 to 1."""
    plane = path[["x", "y"]]
    low, high = plane.min(), plane.max()
    half = float((high - low).max()) / 2 or 1.0
    centred = (plane - (low + high) / 2) / half
    return path.assign(x=centred["x"], y=centred["y"])[
        (len(path) - 1) % (every := max(1, len(path) // N_POINTS)) :: every
    ]


def _plotted(
    places: pd.DataFrame, kinds: Sequence[str], chosen: str, *, has_losses: bool
) -> alt.VConcatChart:
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
        loss="loss" if has_losses else None,
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
    columns = f"; columns are layers {numbers.min()} to {numbers.max()}" if len(numbers) else ""
    grid: Any = alt.layer(*layers)
    whole: alt.LayerChart = grid.properties(
        width=SIDE,
        height=SIDE,
        view=alt.ViewBackground(stroke=None),
        title=alt.Title(f"{kind}{columns}", fontSize=theme.TEXT["normal"], fontWeight="normal", offset=4),
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
        if len(table)
    ]


def _rows(table: pd.DataFrame) -> alt.Data:
    return alt.Data(values=table.to_dict("records"))


def _at(scales: Mapping[str, alt.Scale], across: str, up: str) -> dict[str, Any]:
    """Positions in a grid, without axes."""
    return {
        "x": alt.X(f"{across}:Q", scale=scales["x"], axis=None),
        "y": alt.Y(f"{up}:Q", scale=scales["y"], axis=None),
    }
