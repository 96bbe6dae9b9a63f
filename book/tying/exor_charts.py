"""EXor, for two chapters: stored runs as tidy tables, and players of symbols while models learn."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.ledger.cells import read
from book.tying.experiments import exor, spellings
from book.tying.languages.exor import ONE_B, SYMBOLS
from embviz.view import Axis, charts, panels, plot_curves, theme
from embviz.view.player import HISTORY

# The tasks of sections 5, C.1 and C.2.
TASKS = {"both pairs": exor.MAIN, "only 1A and 1B": exor.ONES, "only 0A and 0B": exor.ZEROS}
MATRICES = ("untied input", "untied output", "tied")  # in the order of Figures 1a, 1b, 1c
TYINGS = ("untied", "tied")
PAIRS = {"11": "1A and 1B", "00": "0A and 0B", "01": "0A and 1B, unrelated"}
LEVELS = {"close": exor.CLOSE, "unrelated": 1.0}  # of a relative distance
EVERY = 5  # a curve shows one snapshot of so many


# --- stored runs as tables ------------------------------------------------------------------------------


def about(task: str = "both pairs") -> str:
    """Data, seeds and steps of a task's stored runs, for a caption."""
    run = TASKS[task]
    lines = "Thin: a seed; thick: their mean; band: its 95% interval."
    return f"EXor, {task}; seeds {run.seeds[0]} to {run.seeds[-1]}, {run.n_steps:,} steps. {lines}"


@functools.cache
def curves(task: str = "both pairs") -> pd.DataFrame:
    """:func:`book.tying.experiments.exor.curves` of a task's stored runs, with `tying` in words."""
    table = exor.curves(TASKS[task])
    return table.assign(tying=np.where(table["tied"], "tied", "untied"))


def thinned(table: pd.DataFrame, every: int = EVERY) -> pd.DataFrame:
    """Rows of every fifth snapshot, and of the last."""
    steps = np.unique(table["step"])
    return table[table["step"].isin({*steps[::every], steps[-1]})]


def last(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last step."""
    return table[table["step"] == table["step"].max()]


def distances(table: pd.DataFrame) -> pd.DataFrame:
    """Distances of pairs of symbols in each matrix, from :func:`curves` or :func:`sweep`, tidy.

    Returns
    -------
    DataFrame
        The table's `p_0a`, `seed`, `step`; `matrix` of MATRICES, `pair` of PAIRS, as far as the task has it;
        `distance`, Euclidean; `relative_distance`, over that of the unrelated pair.
    """
    parts = []
    for matrix, (pair, words) in itertools.product(MATRICES, PAIRS.items()):
        rows = table[table["tied"] == (matrix == "tied")]
        name = "output" if matrix == "untied output" else "input"
        if f"{name}_{pair}" in rows:
            part = rows[[key for key in ("p_0a", "seed", "step") if key in rows]].assign(matrix=matrix)
            part = part.assign(pair=words, distance=rows[f"{name}_{pair}"])
            parts.append(part.assign(relative_distance=part["distance"] / rows[f"{name}_01"]))
    return pd.concat(parts, ignore_index=True)


def ends(task: str = "both pairs") -> dict[tuple[str, int], np.ndarray]:
    """Embeddings (V, D) of all stored models of a task after the last step, by matrix and seed."""
    found = exor.embeddings(TASKS[task])
    return {
        ("tied" if tied else f"untied {side}", seed): rows
        for (seed, tied, side), rows in found.items()
        if not tied or side == "input"
    }


@functools.cache
def sweep(*, every_seed: bool = False) -> pd.DataFrame:
    """Curves of the stored sweep over probabilities of 0A: as :func:`curves`, with `p_0a` and `accuracy_gap`.

    Of the first seeds, or of every seed: the fresh ones too, which judge the claims.
    """
    kinds = (False, True) if every_seed else (False,)
    table = pd.concat([spellings.sweep_curves(fresh=fresh) for fresh in kinds], ignore_index=True)
    return table.assign(tying=np.where(table["tied"], "tied", "untied"))


def about_sweep(*, every_seed: bool = False) -> str:
    """Data, seeds and steps of the stored sweep, for a caption."""
    run = spellings.sweep_cells()[0].config
    n_seeds = sweep(every_seed=every_seed)["seed"].nunique()
    return (
        f"EXor with both pairs of spellings; {n_seeds} seeds for each probability of 0A, "
        f"{run.n_steps:,} steps, learning rate falling once from {run.learning_rate:g}. "
        "Thin: one seed; thick: the mean; band: its 95% interval."
    )


# --- forms, with what all figures of a distance share ---------------------------------------------------


def plot_pairs(data: charts.Data) -> alt.LayerChart:
    """Relative distances of 1A and 1B and of 0A and 0B over the steps."""
    names = [PAIRS["11"], PAIRS["00"]]
    return plot_curves(
        data,
        "step",
        Axis("relative_distance", limits=(0, 2)),
        kind="pair",
        names=names,
        reference=LEVELS,
    )


def plot_matrices(table: pd.DataFrame) -> alt.ConcatChart:
    """The panels of Figure 1: :func:`plot_pairs` of each matrix."""
    return panels({name: plot_pairs(table[table["matrix"] == name]) for name in MATRICES}, columns=3)


def plot_shown(data: charts.Data) -> alt.ConcatChart:
    """The same for an explorer, with the unrelated pair; its control `shown` chooses raw or relative."""
    words, names = "Euclidean, or relative", list(PAIRS.values())
    chart = plot_curves(
        data,
        "step",
        Axis("drawn", limits=(0, 4), title=words),
        kind="pair",
        names=names,
        null=names[-1],
    ).transform_calculate(drawn="shown === 'raw' ? datum.distance : datum.relative_distance")
    return panels(
        {name: chart.transform_filter(f"datum.matrix === '{name}'") for name in MATRICES}, columns=3
    )


# --- players --------------------------------------------------------------------------------------------

EDGE = 2.2  # of the square that shows an embedding, in root mean square distances of the four bit symbols
KINDS = ("0", "0", "1", "1", "E", "D", "?")  # a line joins symbols of one kind
# Where a symbol's name stands, pixels right and down, so that symbols in one place can be read.
BESIDE = {
    **{"0A": (-14, -11), "0B": (14, -11), "1A": (-14, -11), "1B": (14, -11)},
    **{"E": (-11, 15), "D": (11, 15), "?": (0, -14)},
}
CURVES = {"accuracy": "accuracy", "loss_gap": "loss above the optimum"}


def plane_frames(
    planes: Mapping[str, np.ndarray], steps: Sequence[int], curves: pd.DataFrame
) -> pd.DataFrame:
    """Frames of a player: symbols in two planes, each scaled so that its bits have the same spread.

    Parameters
    ----------
    planes : mapping of "input" and "output" to arrays, shape (S, V, 2)
        Coordinates of the 7 symbols at each step.
    steps : sequence of int, length S
    curves : DataFrame
        `accuracy` and `loss_gap` at each step, in order.

    Returns
    -------
    DataFrame
        `frame`, `symbol`, `kind`, `x_input`, `y_input`, `x_output`, `y_output`, in root mean square
        distances of 0A, 0B, 1A and 1B from their mean, which is at 0, cut off at EDGE; and the curves.
    """
    columns: dict[str, object] = {
        "frame": np.repeat(list(steps), len(SYMBOLS)),
        "symbol": np.tile(SYMBOLS, len(steps)),
        "kind": np.tile(KINDS, len(steps)),
    }
    for name, plane in planes.items():
        centred = plane - plane[:, : ONE_B + 1].mean(axis=1, keepdims=True)
        spread = np.sqrt((centred[:, : ONE_B + 1] ** 2).sum(axis=2).mean(axis=1))
        scaled = np.clip(centred / spread[:, None, None], -EDGE, EDGE)
        columns[f"x_{name}"], columns[f"y_{name}"] = scaled[..., 0].ravel(), scaled[..., 1].ravel()
    for name in CURVES:
        columns[name] = np.repeat(curves[name].to_numpy(float), len(SYMBOLS))
    return pd.DataFrame(columns)


def recorded_frames(*, every: int = 2) -> pd.DataFrame:
    """The stored runs of the main task's first two seeds, each in its own planes, by `seed` and `tied`."""
    table, _ = read(exor.cell_of(exor.MAIN))
    table = table[table["quantity"].str.match("(input|output)/") & (table["seed"] < 2)]
    parts = []
    for seed, tied in itertools.product((0, 1), (False, True)):
        rows = table[(table["seed"] == seed) & (table["tied"] == tied)]
        planes = {}
        for matrix in ("input", "output"):
            # a cell stores coordinates symbol by symbol, axis by axis
            own = rows[rows["quantity"].str.startswith(matrix)].sort_values("step", kind="stable")
            arrays = own["value"].to_numpy(float).reshape(-1, len(SYMBOLS), 4)
            planes[matrix] = principal_plane(arrays[::-1][::every][::-1])
        part = curves()[(curves()["seed"] == seed) & (curves()["tied"] == tied)]
        part = part.iloc[::-1].iloc[::every].iloc[::-1]
        parts.append(plane_frames(planes, part["step"].tolist(), part).assign(seed=seed, tied=tied))
    return pd.concat(parts, ignore_index=True)


def sweep_frames(chosen: Sequence[float]) -> pd.DataFrame:
    """The stored sweep's first seed for some probabilities of 0A, by `p_0a` and `tied`."""
    pictures, table = spellings.sweep_pictures(), sweep()
    parts = []
    for share, tied in itertools.product(chosen, (False, True)):
        planes = {name: principal_plane(pictures[share, tied, name][1]) for name in ("input", "output")}
        rows = table[(table["p_0a"] == share) & (table["tied"] == tied) & (table["seed"] == 0)]
        steps = pictures[share, tied, "input"][0]
        parts.append(plane_frames(planes, steps, rows).assign(p_0a=share, tied=tied))
    return pd.concat(parts, ignore_index=True)


def live_frames(p_0a: float, tied: bool, *, every: int = 100) -> Iterator[pd.DataFrame]:
    """Train in this kernel as the sweep does, and yield a frame every hundred steps.

    The end isn't known yet, so each frame has its own principal plane, turned to match the frame before.
    """
    live = spellings.sweep_session(spellings.Sweep(p_0a, n_seeds=1))
    before: dict[str, np.ndarray] = {}
    for snapshot in live.snapshots(snapshot_at=every):
        for name in ("input", "output"):
            plane = principal_plane(snapshot.weights[name][int(tied)][None].numpy())
            before[name] = turned_to(plane, before[name]) if name in before else plane
        measured = pd.DataFrame({name: [snapshot.metrics[name][int(tied)]] for name in CURVES})
        yield plane_frames(before, [snapshot.step], measured)


def principal_plane(weights: np.ndarray) -> np.ndarray:
    """Coordinates (S, V, 2) of a matrix's rows (S, V, D) over time, in the best plane for the last step.

    The plane is one for all steps, so that a picture of one step after the other doesn't turn: the first two
    principal components of the last step's rows, about their mean. Their signs make the coordinate largest in
    magnitude positive.

    >>> principal_plane(np.array([[[0, 0, 1], [5, 0, 1], [1, 1, 1], [1, -1, 1.0]]]))[0, 1].tolist()
    [3.25, 0.0]
    """
    weights = np.asarray(weights, dtype=float)
    mean = weights[-1].mean(axis=0)
    _, _, axes = np.linalg.svd(weights[-1] - mean, full_matrices=True)
    last = (weights[-1] - mean) @ axes[:2].T  # (V, 2)
    extreme = last[np.abs(last).argmax(axis=0), [0, 1]]
    return (weights - mean) @ (axes[:2] * np.where(extreme < 0, -1, 1)[:, None]).T


def turned_to(plane: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Points (..., V, 2) rotated or reflected about 0 to lie as near as possible to `before`."""
    left, _, right = np.linalg.svd(plane.reshape(-1, 2).T @ before.reshape(-1, 2))
    turned: np.ndarray = plane @ (left @ right)
    return turned


def plot_frames(n_steps: int) -> Callable[[alt.NamedData], alt.VConcatChart]:
    """Drawing function of a player: both planes, pairs joined, above the curves up to the step shown."""
    return functools.partial(_draw_frames, n_steps=n_steps)


def _draw_frames(data: alt.NamedData, *, n_steps: int) -> alt.VConcatChart:
    planes = alt.hconcat(_plane(data, "input"), _plane(data, "output"))
    return alt.vconcat(planes, _history(n_steps)).resolve_scale(color="independent", strokeDash="independent")


def _plane(data: alt.NamedData, name: str) -> alt.LayerChart:
    kinds = list(dict.fromkeys(KINDS))
    colours = alt.Scale(domain=kinds, range=[*theme.CATEGORIES[:2], *[theme.INK] * 3])
    colour = alt.Color("kind:N", scale=colours, legend=None)
    scale = alt.Scale(domain=[-EDGE - 0.15, EDGE + 0.15], nice=False)
    base = alt.Chart(data).encode(
        x=alt.X(f"x_{name}:Q", scale=scale, axis=theme.layout_axis("principal_1")),
        y=alt.Y(f"y_{name}:Q", scale=scale, axis=theme.layout_axis("principal_2")),
    )
    lines = base.mark_line(strokeWidth=3, opacity=theme.OPACITY["area"]).encode(detail="kind:N", color=colour)
    points = base.mark_point(size=theme.SIZES["large"]).encode(color=colour, tooltip=["symbol:N"])
    names = [
        base.transform_filter(f"datum.symbol === '{symbol}'")
        .mark_text(dx=dx, dy=dy, fontSize=theme.TEXT["normal"] + 1)
        .encode(text="symbol:N")
        for symbol, (dx, dy) in BESIDE.items()
    ]
    layers = alt.LayerChart(layer=[lines, points, *names])
    heading = alt.Title(f"{name} embedding", fontSize=theme.TEXT["normal"], offset=4)
    return layers.properties(width=theme.SQUARE, height=theme.SQUARE, title=heading)


def _history(n_steps: int) -> alt.LayerChart:
    """Accuracy and loss up to the frame shown."""
    colour, dash = theme.line_styles("quantity", list(CURVES.values()))
    key = alt.Legend(title=None, orient="top", symbolType="stroke")
    across = alt.Scale(domain=[0, n_steps], nice=False)
    curve = (
        alt.Chart(HISTORY)
        .transform_filter("datum.frame <= frame")
        .transform_fold(list(CURVES), as_=["which", "value"])
        .transform_calculate(quantity=f"{json.dumps(CURVES)}[datum.which]")
        .mark_line(clip=True)
        .encode(
            x=alt.X("frame:Q", axis=theme.axis("step", tick_count=4), scale=across),
            y=alt.Y("value:Q", axis=alt.Axis(title=None), scale=alt.Scale(domain=[0, 1.2], nice=False)),
            color=colour.legend(key),
            strokeDash=dash.legend(key),
        )
    )
    wide = 2 * theme.SQUARE + 20
    return alt.LayerChart(layer=[curve]).properties(width=wide, height=theme.HEIGHTS["low"])
