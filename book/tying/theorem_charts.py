"""The two theorems: runs of three kinds as one table, and movable 2-D pictures."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import altair as alt
import pandas as pd

from book.ledger.cells import read
from book.tying.exor_charts import last
from book.tying.experiments import exor, theorems
from book.tying.experiments.exor_runs import load_model
from book.tying.models.encoders import Encoder
from embviz.view import theme

RUNS = {
    "weight decay": (exor.MAIN, exor.FRESH_MAIN),
    "no weight decay": (theorems.NO_DECAY, theorems.FRESH_NO_DECAY),
    "no decay, 3 of 4 dimensions": (theorems.RANK_3, theorems.FRESH_RANK_3),
}
MANY = {"no weight decay": theorems.MANY, "no decay, 3 of 4 dimensions": theorems.MANY_RANK_3}
PAIRS = {"11": "1A and 1B", "00": "0A and 0B", "01": "0A and 1B, unrelated"}
LEAST_GAP = 1e-5  # loss above the optimum, nats: what is lower is float32's noise


@functools.cache
def runs(*, tied: bool = False) -> pd.DataFrame:
    """All stored runs of the three kinds, tied or not: `run`, seed, step and a column for each quantity."""
    parts = []
    for name, (first, fresh) in RUNS.items():
        tables = [exor.curves(first)]
        if exor.cell_of(fresh).stored():
            tables.append(exor.curves(fresh))
        parts.append(pd.concat(tables).assign(run=name))
    table = pd.concat(parts, ignore_index=True)
    table = table[table["tied"] == tied]
    return table.assign(loss_gap=table["loss_gap"].clip(lower=LEAST_GAP))


def ends() -> pd.DataFrame:
    """The last step of all untied runs, with the many seeds of which nothing else is kept."""
    parts = [last(runs())]
    for name, run in MANY.items():
        cell = theorems.ends_of(run)
        if cell.stored():
            table = read(cell)[0]
            ratio = table["output_11"] / table["output_01"]
            gap = table["loss_gap"].clip(lower=LEAST_GAP)
            parts.append(
                table.assign(run=name, step=cell.config.n_steps, relative_output_11=ratio, loss_gap=gap)
            )
    return pd.concat(parts, join="inner", ignore_index=True)


def about(table: pd.DataFrame) -> str:
    """Data, seeds and steps of some of :func:`runs`, for a caption."""
    counts = table.groupby("run", sort=False)["seed"].nunique()
    seeds = (
        ", ".join(f"{name}: {n}" for name, n in counts.items()) if len(counts) > 1 else str(counts.iloc[0])
    )
    return f"EXor, transformer, d = 4, {table['step'].max():,} steps; seeds {seeds}."


@functools.cache
def stored(run: str, seed: int) -> Encoder:
    """The untied model of a kind of run and a seed, 0 or 1, as it was after its last step."""
    cell = exor.cell_of(RUNS[run][0])
    return load_model(cell.config, read(cell)[0], seed=seed, tied=False).double()


def plot_plane(
    names: Sequence[str], *, beside: Mapping[str, tuple[int, int]] = MappingProxyType({}), reach: float = 1.6
) -> Callable[..., alt.LayerChart]:
    """Drawing function of an explorer: named arrows from the origin, over an area.

    Parameters
    ----------
    names : sequence of str
        What the arrows are called, in the order of their colours.
    beside : mapping of str to a pair of int
        Where a name stands, pixels right and down of its arrow's head, if not above it.
    reach : float
        From the middle of the square to its sides.

    Returns
    -------
    function of two tables
        ``arrows`` with columns `name`, `x`, `y`; ``area`` with `order`, `x`, `y`, the corners in turn.
    """
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    place = {channel: kind(f"{channel}:Q", scale=scale, axis=theme.layout_axis(f"{name} coordinate"))
             for channel, kind, name in (("x", alt.X, "first"), ("y", alt.Y, "second"))}  # fmt: skip
    colour = alt.Color(
        "name:N", scale=alt.Scale(domain=list(names), range=list(theme.CATEGORIES[: len(names)])), legend=None
    )

    def draw(arrows: alt.NamedData, area: alt.NamedData) -> alt.LayerChart:
        own = alt.Chart(arrows).transform_calculate(zero="0", turn="90 - atan2(datum.y, datum.x) * 180 / PI")
        line = own.mark_rule(strokeWidth=theme.WIDTHS["line"], clip=True)
        ends = own.mark_point(shape="triangle", filled=True, size=theme.SIZES["mark"] * 2, clip=True)
        shifts = {"dx": "0", "dy": "-12"}
        for name, (dx, dy) in beside.items():
            here = f"datum.name === {json.dumps(name)} ? "
            shifts = {"dx": f"{here}{dx} : {shifts['dx']}", "dy": f"{here}{dy} : {shifts['dy']}"}
        words = own.mark_text(
            fontSize=theme.TEXT["normal"] + 1,
            dx=alt.ExprRef(shifts["dx"]),
            dy=alt.ExprRef(shifts["dy"]),
        )
        outline = alt.Chart(area).mark_line(
            strokeWidth=theme.WIDTHS["line"], color=theme.INK, strokeDash=list(theme.DASHES[1]), clip=True
        )
        layers = [
            outline.encode(order="order:Q", **place),
            line.encode(
                x=alt.X("zero:Q", scale=scale),
                y=alt.Y("zero:Q", scale=scale),
                x2="x:Q",
                y2="y:Q",
                color=colour,
            ),
            ends.encode(angle=alt.Angle("turn:Q", scale=None), color=colour, **place),
            words.encode(text="name:N", **place),
        ]
        return alt.LayerChart(layer=layers).properties(width=theme.SQUARE, height=theme.SQUARE)

    return draw
