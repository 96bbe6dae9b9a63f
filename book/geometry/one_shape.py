"""What the chapter on shapes of trajectories measures and draws: how near drawings are to the embedding's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from book.geometry.experiments import trajectory_findings as found
from book.geometry.experiments import trajectory_runs as runs
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    EMBEDDING,
    JOINT,
    NO_Q,
    PARAMETERS,
    TrajectoryRun,
)
from embviz.ledger import findings
from embviz.ledger.findings import Finding
from embviz.ledger.made_here import made_here
from embviz.metrics import procrustes_disparity
from embviz.view import charts, theme
from embviz.view.text_titles import titled

Read = TypeVar("Read")
SHOWN = {
    "PyMDE": ("data", "pymde"),
    "principal components": ("data", "pca"),
    "random walks": ("random walk 0", "pymde"),
}
TRAINING, OTHER_RUN, WALKS = WHICH = ("the same run", "another run", "random walks")
TO_EMBEDDING, FLAT, ARMS, TO_WALKS = MEASURES = (
    "disparity to the embedding",
    "the same, of principal components",
    "two-arm share",
    "disparity to its own random walks",
)
N_POINTS = 40  # of a drawing that a page holds, at most
SIDE = 175  # pixels of a panel
INDEPENDENT = "another seed"


# --- what is at hand ------------------------------------------------------------------------------------


@functools.cache
def _stored_groups() -> dict[str, list[TrajectoryRun]]:
    """Stored runs by text and variant, those with a W_Q first; empty where none has one."""
    stored: dict[str, list[TrajectoryRun]] = {}
    for run in runs.stored_runs().values():
        if run.variant != DECAY:
            stored.setdefault(run.name.rpartition(", ")[0], []).append(run)
    with_q = {name: group for name, group in stored.items() if group[0].variant != NO_Q}
    return with_q | stored if with_q else {}


@functools.cache
def groups() -> dict[str, list[TrajectoryRun]]:
    """Runs whose paths are shown, by text and variant, two seeds or more; stored, or quick ones made here."""
    quick = runs.story_runs("quick")
    return _stored_groups() or {quick[0].name.rpartition(", ")[0]: quick}


def is_stored() -> bool:
    """Whether the runs shown are stored ones; else nothing is judged by them."""
    return bool(_stored_groups())


def reading(function: Callable[..., Read], *arguments: Any, **named: Any) -> Read:
    """What a function reads of stored results, or of the quick runs'."""
    if is_stored():
        return function(*arguments, **named)
    with made_here(cell for group in groups().values() for run in group for cell in runs.cells_of(run)):
        return function(*arguments, **named)


def first_group() -> list[TrajectoryRun]:
    """Runs of the first text, a seed each."""
    return next(iter(groups().values()))


def note(group: list[TrajectoryRun] | None = None) -> str:
    """Data, sizes and seeds, for a caption."""
    own = group or first_group()
    setting = own[0].setting
    seeds = f"{len(own)} seeds" if len(own) > 1 else f"seed {own[0].seed}"
    quick = "" if is_stored() else " Quick runs made in this chapter, on which nothing is judged."
    return (
        f"Text: {titled(own[0].source)}; {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps:,} steps, a sketch of {own[0].sketch} numbers a matrix; {seeds}.{quick}"
    )


@functools.cache
def plane(run: TrajectoryRun, tensor: str, shown: str = "PyMDE") -> np.ndarray:
    """A drawing of one tensor, (S, 2); `shown` is a key of SHOWN."""
    path, method = SHOWN[shown]
    table: pd.DataFrame = reading(runs.layout, run, tensor, path=path, method=method)
    return table[["x", "y"]].to_numpy(dtype=float)


@functools.cache
def steps(run: TrajectoryRun) -> np.ndarray:
    """Steps of a drawing's snapshots, (S,)."""
    table: pd.DataFrame = reading(runs.layout, run, EMBEDDING)
    return table["step"].to_numpy()


# --- one drawing laid on another --------------------------------------------------------------------------


def laid_on(points: ArrayLike, target: ArrayLike) -> np.ndarray:
    """Points (S, 2) shifted, scaled, turned and mirrored to lie as near the target as they can.

    What is left between the two, over the target's sum of squares about its mean, is their Procrustes
    disparity.
    """
    points, target = np.asarray(points, dtype=float), np.asarray(target, dtype=float)
    centre = target.mean(axis=0)
    moved, fixed = points - points.mean(axis=0), target - centre
    left, stretches, right = np.linalg.svd(moved.T @ fixed)
    laid: np.ndarray = moved @ left @ right * stretches.sum() / (moved**2).sum() + centre
    return laid


def thinned(n: int, most: int = N_POINTS) -> slice:
    """Of n snapshots evenly spaced ones, at most so many."""
    return slice(None, None, -(-n // most))


def overlay(points: np.ndarray, target: np.ndarray, when: np.ndarray) -> pd.DataFrame:
    """Two drawings of the same snapshots, the first laid on the second.

    Returns
    -------
    DataFrame
        `which` ("matrix", "embedding"), `x`, `y`, `step`, `disparity` (the same in all rows).
    """
    kept = thinned(len(points))
    parts = {"matrix": laid_on(points, target), "embedding": target}
    rows = [
        pd.DataFrame({"which": which, "x": part[kept, 0], "y": part[kept, 1], "step": when[kept]})
        for which, part in parts.items()
    ]
    whole = pd.concat(rows, ignore_index=True).round({"x": 2, "y": 2})
    return whole.assign(disparity=round(procrustes_disparity(points, target), 3))


# --- the twins of Figures 2 and 6 to 9 --------------------------------------------------------------------


def panel_runs() -> list[str]:
    """Names of the runs in the figure of layers: the first of each text, of models that have a W_Q."""
    return [group[0].name for group in groups().values() if group[0].variant != NO_Q]


def _run(name: str) -> TrajectoryRun:
    return next(run for group in groups().values() for run in group if run.name == name)


def panel_grid() -> pd.DataFrame:
    """Matrices' drawings laid on the embedding's, by `run`, `kind` and `shown`: the columns of overlay."""
    parts = []
    for name in panel_runs():
        run = _run(name)
        for kind in PARAMETERS:
            for shown in SHOWN:
                target, when = plane(run, EMBEDDING, shown), steps(run)
                for layer, tensor in enumerate(run.parameters(kind), start=1):
                    part = overlay(plane(run, tensor, shown), target, when)
                    parts.append(part.assign(run=name, kind=kind, shown=shown, layer=layer))
    return pd.concat(parts, ignore_index=True)


def plot_panels(data: charts.Data) -> alt.VConcatChart:
    """A panel a layer: the matrix coloured from dark to light in time, the embedding's as open circles."""
    n_layers = max(run.setting.n_layers for group in groups().values() for run in group)
    panels = [
        _panel(data, f"datum.layer === {layer}", f"'layer {layer}'") for layer in range(1, n_layers + 1)
    ]
    rows = [alt.hconcat(*panels[first : first + 3], spacing=8) for first in range(0, n_layers, 3)]
    chart: alt.VConcatChart = alt.vconcat(*rows, spacing=8)
    return chart


def _panel(data: charts.Data, chosen: str, called: str, side: int = SIDE) -> alt.LayerChart:
    """Two drawings upon each other, and their disparity."""
    base = alt.Chart(data).transform_filter(chosen)
    ends = alt.Scale(domain=[-2.4, 2.4], nice=False)
    place = {
        "x": alt.X("x:Q", axis=None, scale=ends),
        "y": alt.Y("y:Q", axis=None, scale=ends),
        "order": alt.Order("step:Q"),
        "tooltip": ["which:N", "step:Q"],
    }
    fixed = base.transform_filter("datum.which === 'embedding'")
    moved = base.transform_filter("datum.which === 'matrix'")
    words = (
        base.transform_aggregate(left="max(disparity)")
        .transform_calculate(words=f"{called} + ': ' + format(datum.left, '.2f')")
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(4), y=alt.value(9), text="words:N")
    )
    layers = [
        fixed.mark_line(strokeWidth=1, opacity=0.6, color=theme.INK, clip=True).encode(**place),
        fixed.mark_point(size=14, filled=False, color=theme.INK, strokeWidth=0.8, clip=True).encode(**place),
        moved.mark_line(strokeWidth=1, opacity=0.6, color=theme.CATEGORIES[0], clip=True).encode(**place),
        moved.mark_point(size=22, clip=True).encode(
            color=alt.Color("step:Q", scale=theme.sequential_scale(), legend=None), **place
        ),
        words,
    ]
    return alt.LayerChart(layer=layers).properties(width=side, height=side * 6 // 7)


# --- the Procrustes matrix --------------------------------------------------------------------------------

AGAINST = ("the same run", INDEPENDENT, "random walks")


def matrix_grid() -> pd.DataFrame:
    """Disparities between all tensors' drawings, by `group` and `against`: `row`, `column`, `disparity`."""
    parts = []
    for name, group in groups().items():
        squares = {
            AGAINST[0]: reading(found.disparity_matrix, group[0]),
            AGAINST[1]: reading(found.disparity_matrix, group[0], others=group[1]),
            AGAINST[2]: reading(found.disparity_matrix, group[0], path="random walk 0"),
        }
        for against, square in squares.items():
            long = (
                square.rename_axis("row").reset_index().melt("row", var_name="column", value_name="disparity")
            )
            parts.append(long.assign(group=name, against=against))
    return pd.concat(parts, ignore_index=True).round({"disparity": 3})


@functools.cache
def largest_disparity() -> float:
    """Upper end of the colours, the same for all choices."""
    return float(matrix_grid()["disparity"].max())


def plot_matrix(data: charts.Data) -> alt.Chart:
    """Disparity of every tensor's drawing to every other's; dark is near."""
    names = tensors()
    side = alt.Axis(title=None, labelFontSize=9, labelOverlap=False)
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("column:N", sort=names, axis=side),
            y=alt.Y("row:N", sort=names, axis=side),
            color=alt.Color(
                "disparity:Q",
                scale=alt.Scale(**theme.sequential_scale().to_dict(), domain=[0, largest_disparity()]),
                legend=theme.legend("disparity"),
            ),
            tooltip=["row:N", "column:N", alt.Tooltip("disparity:Q", format=".3f")],
        )
        .properties(width="container", height=16 * len(names))
    )


def tensors() -> list[str]:
    """Tensors of the first run, as they are called."""
    table: pd.DataFrame = reading(runs.drawings, first_group()[0])
    return list(dict.fromkeys(table["tensor"]))


# --- against the nulls ------------------------------------------------------------------------------------


@functools.cache
def shapes(group: str, method: str = "pymde") -> pd.DataFrame:
    """Of the matrices of a group of runs, what :func:`.trajectory_findings.shape_table` has."""
    table: pd.DataFrame = reading(found.shape_table, groups()[group], method)
    return table[~table["tensor"].isin((EMBEDDING, JOINT))]


def compared_grid() -> pd.DataFrame:
    """Every matrix beside its nulls, by `group` and `measure`.

    Returns
    -------
    DataFrame
        `kind`, `tensor`, `seed`, `which` (of WHICH), `value`.
    """
    columns = {
        TO_EMBEDDING: {TRAINING: "disparity", OTHER_RUN: "between_runs", WALKS: "walks"},
        FLAT: {TRAINING: "disparity", OTHER_RUN: "between_runs"},
        ARMS: {TRAINING: "two_arms", WALKS: "two_arms_walks"},
        TO_WALKS: {TRAINING: "own_walks", WALKS: "among_walks"},
    }
    parts = []
    for group in groups():
        for measure, by_which in columns.items():
            table = shapes(group, "pca" if measure == FLAT else "pymde")
            for which, column in by_which.items():
                part = table[["kind", "tensor", "seed"]].assign(
                    which=which, value=table[column].astype(float)
                )
                parts.append(part.assign(group=group, measure=measure))
    return pd.concat(parts, ignore_index=True)


def plot_compared(data: charts.Data) -> alt.LayerChart:
    """A column a kind, a mark a layer and seed; bars at means."""
    colour, shape = theme.point_styles("which", list(WHICH))
    key = alt.Legend(title=None)
    place = {
        "x": alt.X("kind:N", sort=list(PARAMETERS), axis=alt.Axis(title=None, labelAngle=0)),
        "xOffset": alt.XOffset("which:N", sort=list(WHICH)),
    }
    base = alt.Chart(data)
    points = base.mark_point(size=30, opacity=0.7).encode(
        y=alt.Y("value:Q", axis=theme.axis("measured")),
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["tensor:N", "seed:N", "which:N", alt.Tooltip("value:Q", format=".3f")],
        **place,
    )
    means = base.mark_tick(thickness=3, size=16).encode(y="mean(value):Q", color=colour.legend(key), **place)
    return alt.LayerChart(layer=[points, means]).properties(width="container", height=260)


def compared_table() -> pd.DataFrame:
    """Means over layers and seeds of the first group, kind by kind."""
    name = next(iter(groups()))
    named = {
        "disparity": "to the embedding",
        "between_runs": "to another run's",
        "walks": "between walks",
        "own_walks": "to its own walks",
        "among_walks": "among these",
        "two_arms": "two arms",
        "two_arms_walks": "of walks",
        "two_arms_left": "left after walks",
    }
    means = shapes(name).groupby("kind", sort=False)[list(named)].mean().astype(float).rename(columns=named)
    return means.map("{:.3f}".format).rename_axis("matrix")


def shape_finding() -> str:
    """How near matrices' drawings are to the embedding's, beside both nulls, true of the runs shown."""
    means = shapes(next(iter(groups())))[["disparity", "between_runs", "walks"]].mean()
    return (
        f"Disparity to the embedding of the same run is {means['disparity']:.2f}, of another run "
        f"{means['between_runs']:.2f}, and between random walks {means['walks']:.2f}"
    )


def arms_finding() -> str:
    """What is left of the two-arm figure after walks, true of the runs shown; intervals are over seeds."""
    table = shapes(next(iter(groups())))
    means = table.groupby("seed")[["two_arms", "two_arms_walks", "two_arms_left"]].mean()
    more = findings.over_seeds((means["two_arms"] - means["two_arms_walks"]).to_numpy(), within=(-1, 1))
    left = findings.over_seeds(means["two_arms_left"].to_numpy(), within=(-math.inf, 1))
    words = "more than" if more.low > 0 else "less than" if more.high < 0 else "as much as"
    return (
        f"Two cosines of time hold {table['two_arms'].mean():.0%} of a drawing, {words} the "
        f"{table['two_arms_walks'].mean():.0%} of a random walk's, as far as {more.n_seeds} seeds tell; left "
        f"after walks, a mean over matrices: {_with_interval(left)}"
    )


def against(group: str, null: str, kinds: Sequence[str] = tuple(PARAMETERS)) -> Finding:
    """Disparity to the embedding over that of a null, seed by seed as the ledger has it.

    Parameters
    ----------
    group : str
    null : "between_runs" or "walks"
    kinds : sequence of str
        Of the matrices whose mean is taken.
    """
    table = shapes(group)
    means = table[table["kind"].isin(kinds)].groupby("seed")[["disparity", null]].mean()
    return findings.over_seeds((means["disparity"] / means[null]).to_numpy(), within=(0, math.inf))


def verdict_finding() -> str:
    """Where the matrices stand between the nulls, in words that the intervals bear."""
    names = {"between_runs": "to another run's", "walks": "random walks are to each other"}
    said: dict[str, list[str]] = {}
    for null, name in names.items():
        ratio = against(next(iter(groups())), null)
        near = f"as near, as far as {ratio.n_seeds} seeds tell, as"
        words = "nearer than" if ratio.high < 1 else "farther than" if ratio.low > 1 else near
        said.setdefault(words, []).append(f"{name} (ratio {_with_interval(ratio)})")
    told = [f"{words} {f' and {words.split()[-1]} '.join(own)}" for words, own in said.items()]
    return f"To the embedding of their own run matrices are {', but '.join(told)}"


def _with_interval(ratio: Finding) -> str:
    return f"{ratio.value:.2f}, {ratio.low:.2f} to {ratio.high:.2f}"


def shared_kinds() -> list[str]:
    """Kinds of matrices that the models of all groups have: without W_Q there is no Q."""
    return [kind for kind in PARAMETERS if all(kind in group[0].kinds for group in groups().values())]


def group_table() -> pd.DataFrame:
    """A row a group of runs, over kinds that all have: disparity in the run, and its ratios to both nulls."""
    rows, kinds = {}, shared_kinds()
    for name, group in groups().items():
        drawn, flat = (shapes(name, method) for method in ("pymde", "pca"))
        means = [table.loc[table["kind"].isin(kinds), "disparity"].mean() for table in (drawn, flat)]
        rows[name] = {
            "seeds": str(len(group)),
            "to the embedding": f"{means[0]:.3f}",
            "/ another run's": _with_interval(against(name, "between_runs", kinds)),
            "/ between walks": _with_interval(against(name, "walks", kinds)),
            "principal components": f"{means[1]:.3f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(f"means over {', '.join(kinds)}")


# --- one clock --------------------------------------------------------------------------------------------

N_SHIFTS = 8  # besides none; the largest is two fifths of the run
PATHS = {"training": "PyMDE", "random walk": "random walks"}


def shifts() -> list[int]:
    """Shifts in steps, from none to two fifths of the run."""
    when = steps(first_group()[0])
    most = 2 * len(when) // 5
    places = [most * i // N_SHIFTS for i in range(N_SHIFTS + 1)]
    return [int(when[place] - when[0]) for place in dict.fromkeys(places)]


def shifted(kind: str, path: str, shift: int) -> pd.DataFrame:
    """A matrix of the first layer laid on the embedding as it was `shift` steps before, as in overlay."""
    run = first_group()[0]
    when = steps(run)
    late = int(np.searchsorted(when - when[0], shift))
    shown = PATHS[path]
    moved, fixed = plane(run, f"{kind} 1", shown)[late:], plane(run, EMBEDDING, shown)[: len(when) - late]
    return overlay(moved, fixed, when[: len(when) - late])


def reversed_disparity(path: str = "training") -> float:
    """Mean disparity of first-layer matrices, read backwards, to the embedding read forwards."""
    run, shown = first_group()[0], PATHS[path]
    fixed = plane(run, EMBEDDING, shown)
    return float(
        np.mean([procrustes_disparity(plane(run, f"{kind} 1", shown)[::-1], fixed) for kind in PARAMETERS])
    )


def plot_shifted(data: charts.Data) -> alt.LayerChart:
    """One panel of :func:`plot_panels`, larger."""
    return _panel(data, "true", "'disparity'", side=300)


def shift_finding() -> str:
    """What a shift in time does to the disparity, true of the first run."""
    first, last = (
        np.mean([shifted(kind, "training", shift)["disparity"].iloc[0] for kind in PARAMETERS])
        for shift in (0, shifts()[-1])
    )
    return (
        f"Two fifths of the run late, first-layer matrices have a disparity of {last:.2f} to the embedding, "
        f"instead of {first:.2f}"
    )
