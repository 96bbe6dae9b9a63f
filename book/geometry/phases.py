"""What the chapter on phases measures and draws: clusters of snapshots, trees, settings, alternatives."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt
import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from book.geometry.experiments import trajectory_findings as found
from book.geometry.experiments import trajectory_runs as runs
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    JOINT,
    KINDS,
    PARAMETERS,
    STANDARD,
    STORIES,
    TrajectoryRun,
)
from embviz.ledger.cells import missing
from embviz.ledger.made_here import made_here
from embviz.trajectories.phases import NOISE, Clustering, Phases, find_phases, visits
from embviz.trajectories.traces import lay_out
from embviz.view import charts, theme
from embviz.view.explorers import Choice, Measure, Range, Value
from embviz.view.text_titles import titled

Read = TypeVar("Read")
PATHS = {"data": "training", "random walk 0": "random walk"}
N_POINTS = 80  # of a drawing that a page holds, about: with 27 tensors it weighs 1.5 MB
N_MEMBERS = 24  # steps of which a page holds the memberships, about
SIDE, NARROW = 290, 250  # pixels: panels one above another, and side by side
NOT_MEASURED = "not measured"


# --- what is at hand ------------------------------------------------------------------------------------


@functools.cache
def shown_runs() -> dict[str, TrajectoryRun]:
    """Models with queries whose paths are shown, by name, stories first: all that are stored, or a quick one.

    The quick one is made here, and shown too where of the stored ones none has read stories.
    """
    stored = {name: run for name, run in runs.stored_runs().items() if run.variant == STANDARD}
    of_stories = {name: run for name, run in stored.items() if run.text == STORIES}
    return of_stories | stored if of_stories else {(quick := runs.story_runs("quick")[0]).name: quick}


def is_stored() -> bool:
    """Whether the runs shown are stored ones; else nothing is judged by them."""
    return first_run() != runs.story_runs("quick")[0]


def _reading(function: Callable[..., Read], *arguments: Any, **named: Any) -> Read:
    """What a function reads of stored results, or of the quick run's."""
    if is_stored():
        return function(*arguments, **named)
    quick = first_run()
    wanted = [*runs.cells_of(quick), *runs.code_cells(quick), *runs.cells_of(runs.decay_run("quick"))]
    with made_here(wanted):
        return function(*arguments, **named)


def first_run() -> TrajectoryRun:
    """The run of the large explorer."""
    return next(iter(shown_runs().values()))


def of_stories() -> list[TrajectoryRun]:
    """All runs of short stories that are shown."""
    return [run for run in shown_runs().values() if run.text == STORIES]


def note(run: TrajectoryRun | None = None) -> str:
    """Data, sizes and seeds of a run, or of all, for a caption."""
    one = run or first_run()
    setting = one.setting
    n_seeds = f"seed {one.seed}"
    if run is None and len(of_stories()) > 1:
        n_seeds = f"{len(of_stories())} seeds"
    quick = "" if is_stored() else " A quick run made in this chapter, on which nothing is judged."
    return (
        f"Bytes of {titled(one.source)}; {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps:,} steps, a snapshot every {one.every}, a sketch of {one.sketch} numbers a "
        f"matrix; {n_seeds}.{quick}"
    )


def tensors(run: TrajectoryRun | None = None) -> list[str]:
    """Matrices of a run, as they are called."""
    return list(dict.fromkeys(_drawings(run or first_run())["tensor"]))


def _drawings(run: TrajectoryRun) -> pd.DataFrame:
    return _reading(runs.drawings, run)


def _losses(run: TrajectoryRun) -> pd.DataFrame:
    return _reading(runs.losses, run)


def thinned(table: pd.DataFrame, n: int = N_POINTS) -> pd.DataFrame:
    """Evenly spaced rows of one drawing, about n of them."""
    return table.iloc[:: max(1, len(table) // n)]


# --- the large explorer ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OfDrawing:
    """A control that a kernel measures, and of which a stored drawing holds all values side by side."""

    control: Choice

    @property
    def label(self) -> str:
        """The control's."""
        return self.control.label

    @property
    def values(self) -> Sequence[Any]:
        """One: more would be other rows."""
        return [self.initial]

    @property
    def initial(self) -> Any:
        """The control's."""
        return self.control.initial

    def binding(self, *, live: bool) -> dict[str, Any]:
        """The control's."""
        return self.control.binding(live=live)

    def matches(self, name: str) -> str:
        """True for every row."""
        return "true"

    def read(self, sent: object) -> Value:
        """The control's: a kernel measures it."""
        return self.control.read(sent)


def neighbors_shown() -> Choice:
    """Neighbours of PyMDE: stored layouts in the book, any number live."""
    live = range(3, min(60, _n_snapshots() // 4) + 1)
    return Choice(neighbors(), "neighbours in the layout", live_values=live)


def sizes_shown() -> OfDrawing:
    """Least sizes of a phase: stored ones in the book, any number live."""
    live = range(4, min(100, _n_snapshots() // 2) + 1)
    return OfDrawing(Choice(sizes(), "least phase (snapshots)", live_values=live))


def _n_snapshots() -> int:
    """Of the first run, all of them; drawings keep fewer."""
    return len(_losses(first_run()))


def sizes() -> list[int]:
    """Least sizes of a phase, the judged one first."""
    return list(first_run().pipeline.sizes)


def neighbors() -> list[int]:
    """Neighbours of PyMDE, the judged number first."""
    return list(first_run().pipeline.neighbors)


def steps_shown() -> Range:
    """A slider over the steps that a page holds."""
    steps = thinned(_losses_of_drawing(first_run()))["step"].to_numpy()
    gap = int(steps[1] - steps[0])
    last = int(steps[0] + gap * ((steps[-1] - steps[0]) // gap))
    return Range(int(steps[0]), last, gap, "step", initial=int(steps[len(steps) // 4]))


def _losses_of_drawing(run: TrajectoryRun) -> pd.DataFrame:
    """Losses at the snapshots that drawings keep."""
    table = _drawings(run)
    steps = np.sort(table["step"].unique())
    losses = _losses(run)
    return losses[losses["step"].isin(steps)].reset_index(drop=True)


def explorer_grid() -> pd.DataFrame:
    """Drawings of the first run by `tensor`, `neighbors` and `path`, for controls over what else they hold.

    Returns
    -------
    DataFrame
        `x`, `y`, `step`, `loss`, and a column of phases for each least size: `phase_25` and so on.
    """
    run = first_run()
    table = _drawings(run)
    table = table[(table["method"] == "pymde") & table["path"].isin(list(PATHS))]
    losses = _losses(run).set_index("step")["loss"].round(3)
    parts = []
    for _, own in table.groupby(["tensor", "n_neighbors", "path"], sort=False):
        part = thinned(own)
        parts.append(part.assign(loss=losses.loc[part["step"]].to_numpy()))
    whole = pd.concat(parts, ignore_index=True).rename(columns={"n_neighbors": "neighbors"})
    kept = ["x", "y", "step", "loss", *(f"phase_{size}" for size in sizes())]
    whole = whole.assign(
        path=whole["path"].map(PATHS),
        x=whole["x"].astype(float).round(2),
        y=whole["y"].astype(float).round(2),
    )
    return whole[["tensor", "neighbors", "path", *kept]].assign(size=sizes()[0])


def live_drawing() -> Measure | None:
    """What measures the large explorer where there is a kernel; None while no bottlenecks are stored."""
    run = first_run()
    return draw_anew if not is_stored() or not missing(runs.code_cells(run)) else None


def draw_anew(tensor: str, path: str, neighbors: int, size: int) -> pd.DataFrame:
    """Lay a stored bottleneck of the first run out, and look for its phases: all snapshots, now.

    Returns
    -------
    DataFrame
        `x`, `y`, `step`, `loss` and `phase` of the snapshots that a page draws; and of all: `n_phases`,
        `noise_share`, `validity` (DBCV in words), and `largest_split`, the most snapshots that
        any cut of the tree takes off.
    """
    steps, plane = _laid_out(tensor, path, neighbors)
    phases = _found(tensor, path, neighbors, size)
    drawn = thinned(_losses_of_drawing(first_run()))
    kept = np.isin(steps, drawn["step"])
    x, y = plane[kept].round(2).T
    return pd.DataFrame(
        {
            "x": x,
            "y": y,
            "step": steps[kept],
            "loss": drawn["loss"].round(3).to_numpy(),
            "phase": phases.labels[kept],
            **_told(phases),
        }
    )


def _told(phases: Phases) -> dict[str, Any]:
    """What a clustering found, for one line above it."""
    return {
        "n_phases": phases.n_phases,
        "noise_share": round(phases.noise, 3),
        "validity": "needs two" if phases.dbcv is None else f"{phases.dbcv:.2f}",
        "largest_split": phases.largest_split,
    }


@functools.lru_cache(maxsize=64)  # a control that only looks at a drawing needs neither a second time
def _found(tensor: str, path: str, n_neighbors: int, size: int) -> Phases:
    return find_phases(_laid_out(tensor, path, n_neighbors)[1], Clustering(size))


@functools.lru_cache(maxsize=64)
def _laid_out(tensor: str, path: str, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps (S,) and layout (S, 2) of RMS radius 1."""
    key = next(known for known, words in PATHS.items() if words == path)
    steps, code = _reading(runs.code, first_run(), tensor, path=key)
    return steps, _plane_of(code, n_neighbors)


def _plane_of(code: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Layout (S, 2) of a bottleneck, RMS radius 1."""
    run = first_run()
    layout = dataclasses.replace(run.pipeline.recipe.layout, n_neighbors=n_neighbors)
    plane = lay_out(code, layout, seed=run.seed)
    plane -= plane.mean(axis=0)
    scaled: np.ndarray = plane / np.sqrt((plane**2).sum(axis=1).mean())
    return scaled


FOUND = (  # in the book phases are counted among the snapshots drawn; a kernel tells more
    "!isValid(datum.n_phases) ? datum.last + 1 + ' phases' : "
    "datum.n_phases === 0 ? 'all noise: any cut takes off ' + datum.largest_split + ' at most' : "
    "datum.n_phases + ' phases, ' + format(datum.noise_share, '.0%') + ' in none; DBCV ' + datum.validity"
)


def plot_explorer(data: charts.Data) -> alt.VConcatChart:
    """A drawing and the loss, coloured by phase; a ring at the step chosen; either marks part of both."""
    gap = steps_shown().step
    named = (
        alt.Chart(data)
        .transform_calculate(phase="isValid(datum.phase) ? datum.phase : datum['phase_' + size]")
        .transform_calculate(look="datum.phase % 5", here=f"abs(datum.step - at) < {gap / 2}")
    )
    brush = alt.selection_interval(name="marked", encodings=["x"])
    region = alt.selection_interval(name="region", encodings=["x", "y"])
    plane = _phase_layers(named, _plane_place(), brush & region)
    plane[0] = plane[0].add_params(region)
    words = (
        named.transform_aggregate(
            last="max(phase)",
            n_phases="min(n_phases)",
            noise_share="min(noise_share)",
            validity="min(validity)",
            largest_split="min(largest_split)",
        )
        .transform_calculate(words=f"({FOUND}) + '; least ' + size")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(4), y=alt.value(11), text="words:N")
    )
    curve = {
        "x": alt.X("step:Q", axis=theme.axis("step", tick_count=4)),
        "y": alt.Y("loss:Q", axis=theme.axis("loss", tick_count=4), scale=alt.Scale(zero=False)),
    }
    loss = _phase_layers(named, curve, brush & region)
    loss[0] = loss[0].add_params(brush)
    rule = (
        named.transform_filter("datum.here")
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x=alt.X("step:Q"))
    )
    chart: alt.VConcatChart = alt.vconcat(
        alt.LayerChart(layer=[*plane, words]).properties(width=SIDE, height=SIDE),
        alt.LayerChart(layer=[*loss, rule]).properties(width=SIDE, height=120),
        spacing=12,
    )
    return chart


def _plane_place() -> dict[str, Any]:
    scale = alt.Scale(domain=[-2.1, 2.1], nice=False)
    return {
        "x": alt.X("x:Q", axis=theme.layout_axis("layout_x"), scale=scale),
        "y": alt.Y("y:Q", axis=theme.layout_axis("layout_y"), scale=scale),
    }


def _phase_layers(named: alt.Chart, place: dict[str, Any], marked: Any = None) -> list[alt.Chart]:
    """Noise as small crosses, phases by colour in the order of time and by shape, a ring where `here`."""
    on = alt.value(1) if marked is None else alt.when(marked).then(alt.value(1)).otherwise(alt.value(0.12))
    tooltip = ["step:Q", "phase:Q", alt.Tooltip("loss:Q", format=".3f")]
    noise = named.transform_filter(f"datum.phase === {NOISE}").mark_point(
        shape="cross", size=40, filled=False, color=theme.INK, strokeWidth=0.8, clip=True
    )
    inside = named.transform_filter(f"datum.phase !== {NOISE}").mark_point(size=34, clip=True)
    looks = alt.Scale(domain=list(range(5)), range=list(theme.SHAPES))
    ring = named.transform_filter("datum.here").mark_point(
        shape="circle", size=190, filled=False, color=theme.CATEGORIES[1], strokeWidth=2.5, clip=True
    )
    return [
        noise.encode(**place, opacity=on, tooltip=tooltip),
        inside.encode(
            **place,
            color=alt.Color("phase:Q", scale=theme.sequential_scale(), legend=None),
            shape=alt.Shape("look:N", scale=looks, legend=None),
            opacity=on,
            tooltip=tooltip,
        ),
        ring.encode(**place),
    ]


# --- an optimizer with nothing to learn from ------------------------------------------------------------

DECAYING = "decay alone"


def _decay_run() -> TrajectoryRun | None:
    """The run without gradients, None where stored runs have none beside them."""
    if not is_stored():
        return runs.decay_run("quick")
    stored = (run for run in runs.stored_runs().values() if run.variant == DECAY)
    return next((run for run in stored if run.setting == first_run().setting), None)


def _beside() -> dict[str, tuple[TrajectoryRun, str]]:
    """What is drawn side by side, all matrices as one path: the run and the path, by words."""
    shown = {words: (first_run(), path) for path, words in PATHS.items()}
    decaying = _decay_run()
    return shown if decaying is None else {**shown, DECAYING: (decaying, "data")}


def beside_grid() -> pd.DataFrame:
    """Judged drawings of all matrices as one path: shown, step, loss, x, y, phase."""
    parts = []
    for words, (run, path) in _beside().items():
        part = thinned(_reading(runs.layout, run, JOINT, path=path))
        parts.append(part.assign(shown=words, loss=part["loss"].round(3)))
    return pd.concat(parts, ignore_index=True)[["shown", "step", "loss", "x", "y", "phase"]]


def plot_beside() -> alt.HConcatChart:
    """A drawing each, and the loss at its snapshots below, coloured by phase."""
    grid = beside_grid()
    scale = alt.Scale(domain=[float(grid["loss"].min()), float(grid["loss"].max())])
    steps = alt.Scale(domain=[0, int(grid["step"].max())])
    panels: list[alt.VConcatChart] = []
    for words, own in grid.groupby("shown", sort=False):
        base = alt.Chart(own).transform_calculate(look="datum.phase % 5")
        place = {name: one.axis(None) for name, one in _plane_place().items()}
        height = None if panels else theme.axis("loss", tick_count=3)
        curve = {
            "x": alt.X("step:Q", axis=theme.axis("step", tick_count=3), scale=steps),
            "y": alt.Y("loss:Q", axis=height, scale=scale),
        }
        name = (
            alt.Chart(alt.Data(values=[{"words": f"{words}: {own['phase'].max() + 1} phases"}]))
            .mark_text(align="left", fontSize=11)
            .encode(x=alt.value(4), y=alt.value(9), text="words:N")
        )
        drawing = alt.LayerChart(layer=[*_phase_layers(base, place)[:2], name])  # no ring
        loss = alt.LayerChart(layer=_phase_layers(base, curve)[:2])
        panels.append(
            alt.vconcat(drawing.properties(width=165, height=140), loss.properties(width=165, height=80))
        )
    chart: alt.HConcatChart = alt.hconcat(*panels)
    return chart


def beside_table() -> pd.DataFrame:
    """Numbers of the judged drawings of all matrices as one path: a row each."""
    columns = {
        "n_phases": ("phases", ".0f"),
        "dbcv": ("separation (DBCV)", ".2f"),
        "layout_sharpness": ("sharpness of the drawing", ".2f"),
        "weight_cosine_share": ("two cosines in the weights", ".2f"),
        "loss_correlation": ("movement with drops of the loss", ".2f"),
    }
    rows = {}
    for words, (run, path) in _beside().items():
        table = _reading(runs.measures, run)
        judged = (table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])
        own = table[judged & (table["tensor"] == JOINT) & (table["path"] == path)].iloc[0]
        rows[words] = {name: f"{own[column]:{spec}}" for column, (name, spec) in columns.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("all matrices as one path")


def beside_finding() -> str:
    """How many phases each has, and which of them learned anything."""
    counts = beside_table()["phases"]
    told = ", ".join(f"{count} in {words}" for words, count in counts.items())
    return f"Phases found: {told}; only the first has learned anything"


# --- the twins of Figures 2 and 6 to 9 ------------------------------------------------------------------


def figure_runs() -> list[str]:
    """Names of the runs in the figure of layers: the first of each text, and a second of stories."""
    by_text: dict[str, list[str]] = {}
    for name, run in shown_runs().items():
        by_text.setdefault(run.text, []).append(name)
    return [name for text, names in by_text.items() for name in names[: 2 if text == STORIES else 1]]


def layer_grid() -> pd.DataFrame:
    """Drawings of all layers under the judged setting, by `run`, `kind` and `path`: layer, x, y, phase."""
    parts = []
    for name in figure_runs():
        run = shown_runs()[name]
        table = _drawings(run)
        judged = (table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])
        chosen = table[judged & table["kind"].isin(list(PARAMETERS)) & table["path"].isin(list(PATHS))]
        for _, own in chosen.groupby(["tensor", "path"], sort=False):
            parts.append(thinned(own).assign(run=name))
    whole = pd.concat(parts, ignore_index=True)
    whole = whole.assign(path=whole["path"].map(PATHS), x=whole["x"].round(2), y=whole["y"].round(2))
    return whole[["run", "kind", "path", "layer", "x", "y", "phase"]].astype({"x": float, "y": float})


def plot_layers(data: charts.Data) -> alt.VConcatChart:
    """A panel a layer, each drawing coloured by phase, in rows of three."""
    layers = list(range(1, max(run.setting.n_layers for run in shown_runs().values()) + 1))
    parts = [layers[first : first + 3] for first in range(0, len(layers), 3)]
    rows = [alt.hconcat(*(_layer(data, layer) for layer in part)) for part in parts]
    chart: alt.VConcatChart = alt.vconcat(*rows, spacing=8)
    return chart


def _layer(data: charts.Data, layer: int) -> alt.LayerChart:
    base = (
        alt.Chart(data)
        .transform_filter(f"datum.layer === {layer}")
        .transform_calculate(look="datum.phase % 5")
    )
    place = _plane_place()
    place = {name: encoding.axis(None) for name, encoding in place.items()}
    noise = (
        base.transform_filter(f"datum.phase === {NOISE}")
        .mark_point(shape="cross", size=30, filled=False, color=theme.INK, strokeWidth=0.8, clip=True)
        .encode(**place)
    )
    points = (
        base.transform_filter(f"datum.phase !== {NOISE}")
        .mark_point(size=22, clip=True)
        .encode(
            **place,
            color=alt.Color("phase:Q", scale=theme.sequential_scale(), legend=None),
            shape=alt.Shape(
                "look:N",
                scale=alt.Scale(domain=list(range(5)), range=list(theme.SHAPES)),
                legend=None,
            ),
        )
    )
    words = (
        base.transform_aggregate(layer="min(layer)", last="max(phase)")
        .transform_calculate(words="'layer ' + datum.layer + ': ' + (datum.last + 1) + ' phases'")
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(4), y=alt.value(9), text="words:N")
    )
    return alt.LayerChart(layer=[noise, points, words]).properties(width=175, height=150)


# --- kinds beside each other ----------------------------------------------------------------------------

MEASURES = {
    "n_phases": "phases",
    "dbcv": "separation (DBCV)",
    "layout_sharpness": "sharpness of the drawing",
    "noise": "share in no phase",
    "stability": "stability over settings",
}


def kinds_grid() -> pd.DataFrame:
    """Measures of every matrix of the runs of stories, and of its walks' mean, by `measure`.

    Returns
    -------
    DataFrame
        `measure` (in words), `kind`, `path`, `seed`, `layer`, `value`.
    """
    parts = []
    for column, words in MEASURES.items():
        for path in ("data", "random walk"):
            table = _reading(found.kinds_table, of_stories(), column, path)
            parts.append(table.assign(measure=words, path="training" if path == "data" else path))
    whole = pd.concat(parts, ignore_index=True)
    return whole[["measure", "kind", "path", "seed", "layer", "value"]]


def measures_shown() -> list[str]:
    """Measures that are known of every path shown."""
    return list(dict.fromkeys(kinds_grid()["measure"]))


def plot_kinds(data: charts.Data) -> alt.LayerChart:
    """A column a kind, a mark a seed and layer, training beside its walks; bars at the means."""
    names = list(PATHS.values())
    colour, shape = theme.point_styles("path_kind", names)
    key = alt.Legend(title=None)
    place = {
        "x": alt.X("kind:N", sort=list(KINDS), axis=alt.Axis(title=None, labelAngle=0)),
        "xOffset": alt.XOffset("path_kind:N", sort=names),
    }
    base = alt.Chart(data).transform_calculate(path_kind="datum.path")
    points = base.mark_point(size=30, opacity=0.7).encode(
        y=alt.Y("value:Q", axis=theme.axis("measured"), scale=alt.Scale(zero=False)),
        color=colour.legend(key),
        shape=shape.legend(key),
        tooltip=["kind:N", "path_kind:N", "seed:N", "layer:N", alt.Tooltip("value:Q", format=".2f")],
        **place,
    )
    means = base.mark_tick(thickness=3, size=16).encode(y="mean(value):Q", color=colour.legend(key), **place)
    return alt.LayerChart(layer=[points, means]).properties(width="container", height=240)


def kinds_table() -> pd.DataFrame:
    """Means over layers and seeds, kind by kind, each with the mean of its walks in brackets."""
    grid = kinds_grid()
    means = grid.groupby(["measure", "path", "kind"])["value"].mean()
    rows: dict[str, dict[str, str]] = {}
    for kind in dict.fromkeys(grid["kind"]):
        rows[str(kind)] = {}
        for words in MEASURES.values():
            own = means.get((words, "training", kind))
            null = means.get((words, "random walk", kind))
            text = NOT_MEASURED if own is None else f"{own:.2f}"
            rows[str(kind)][words] = text if null is None else f"{text} ({null:.2f})"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")


def q_finding() -> str:
    """Phases, separation and sharpness of Q less the others', and the same of their walks, in words."""
    parts = []
    for column, words, spec in (
        ("n_phases", "phases", "+.1f"),
        ("dbcv", "separation", "+.2f"),
        ("layout_sharpness", "sharpness", "+.2f"),
    ):
        own, null = (
            float(_reading(found.q_minus_others, of_stories(), column, path).mean())
            for path in ("data", "random walk")
        )
        parts.append(f"{words} {own:{spec}}, of random walks {null:{spec}}")
    return f"Q less K, V and MLPs: {'; '.join(parts)}"


def drops_table() -> pd.DataFrame:
    """Do movement and transitions go with drops of the loss? Means by kind; walks in brackets."""
    columns = {
        "movement, as it is": "loss_correlation",
        "movement, slow trend taken off": "detrended_correlation",
        "transitions, slow trend taken off": "transition_correlation",
    }
    rows: dict[str, dict[str, str]] = {}
    for words, column in columns.items():
        by_path = [
            _reading(found.kinds_table, of_stories(), column, path).groupby("kind")["value"].mean()
            for path in ("data", "random walk")
        ]
        for kind in KINDS:
            own, null = (float(values[kind]) for values in by_path)
            rows.setdefault(kind, {})[words] = f"{own:.2f} ({null:.2f})"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")


def drops_finding() -> str:
    """What taking the trend off does to movement's correlation with drops: means over all paths' kinds."""
    table = drops_table()
    pairs = table.map(lambda text: [float(part.strip("()")) for part in text.split()])
    (own, null), (own_off, null_off) = (
        np.array(pairs[column].tolist()).mean(axis=0) for column in table.columns[:2]
    )
    before, after = f"{own:.2f}", f"{own_off:.2f}"
    done = "leaves it at" if before == after else "raises it to" if own_off > own else "lowers it to"
    return (
        f"Movement in the drawing and drops of the loss: {before} as they are ({null:.2f} in random walks); "
        f"taking the slow trend off {done} {after} ({null_off:.2f})"
    )


# --- the bottleneck and the sketch ----------------------------------------------------------------------

ERRORS = {
    "weights not reconstructed": "reconstruction",
    "of held-out snapshots": "held_out_reconstruction",
    "loss not predicted": "prediction",
    "of held-out ones": "held_out_prediction",
}
DISTORTIONS = {"distances off by (median)": "distortion_median", "at worst": "distortion_worst"}


def bottleneck_table() -> pd.DataFrame:
    """What a bottleneck loses, and how far sketched distances are off: means by kind, walks in brackets.

    Shares of the variance of sketched weights and of the loss; relative errors of distances.
    """
    rows: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for words, column in ERRORS.items():
        by_path = [_means(column, path) for path in ("data", "random walk")]
        for kind in KINDS:
            own, null = (values.get(kind) for values in by_path)
            text = NOT_MEASURED if own is None else f"{own:.3f}"
            rows[kind][words] = text if null is None else f"{text} ({null:.3f})"
    for words, column in DISTORTIONS.items():
        values = _means(column, "data")
        for kind in KINDS:
            rows[kind][words] = f"{values[kind]:.1%}" if kind in values else NOT_MEASURED
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")


def _means(column: str, path: str) -> pd.Series:
    """Of the runs of stories, by kind; without those of which it isn't measured."""
    table = _reading(found.kinds_table, of_stories(), column, path)
    return table.groupby("kind")["value"].mean()


# --- the tree -------------------------------------------------------------------------------------------

TREE_TENSORS = ("Q 1", "embedding")


def tree_sizes() -> Choice:
    """Least sizes of a phase, as far as the kept snapshots allow: some in the book, any number live."""
    n = len(_losses_of_drawing(first_run()))
    sizes = [size for size in (5, 10, 20, 40, 60) if size <= n // 2]
    live = range(5, sizes[-1] + 1)
    return Choice(sizes, "least phase (snapshots kept)", initial=10, live_values=live)


def tree(tensor: str, path: str, size: int) -> dict[str, pd.DataFrame]:
    """HDBSCAN of a stored drawing: the condensed tree, and the soft membership of its phases.

    Returns
    -------
    dict of str to DataFrame
        `clusters` found on the way: `left` and `right` (as wide as its snapshots), `appears` and `gone`
        (1 / distance). `phases`, the chosen ones: the same, and `phase`. `memberships`: at `step`, until
        `next_step`, of `phase`, from `low` to `high` of the memberships stacked. `told`: one row, as in
        :func:`draw_anew`.
    """
    table = _drawings(first_run())
    key = next(known for known, words in PATHS.items() if words == path)
    judged = (table["method"] == "pymde") & (table["n_neighbors"] == neighbors()[0])
    own = table[judged & (table["tensor"] == tensor) & (table["path"] == key)]
    phases = find_phases(own[["x", "y"]].to_numpy(dtype=float), Clustering(size))
    places = np.arange(len(own))[:: max(1, len(own) // N_MEMBERS)]
    boxes = _tree_rows(phases.condensed_tree, phases.labels)
    chosen = boxes["phase"] != NOISE
    return {
        "clusters": boxes[~chosen].drop(columns="phase"),
        "phases": boxes[chosen],
        "memberships": _member_rows(phases.membership, own["step"], places),
        "told": pd.DataFrame([_told(phases)]),
    }


def _tree_rows(condensed: pd.DataFrame, labels: np.ndarray) -> pd.DataFrame:
    """Rectangles of the condensed tree: children beside each other inside their parent's width."""
    rows: list[tuple[float, float, float, float, int]] = []
    n = len(labels)
    clusters = condensed[condensed["child_size"] > 1]
    waiting = [(int(condensed["parent"].min()), 0.0, float(n), 0.0)]
    while waiting:
        cluster, left, width, born = waiting.pop()
        own = condensed[condensed["parent"] == cluster]
        gone = float(own["lambda_val"].max()) if len(own) else born
        rows.append((left, left + width, born, min(gone, 1e6), _chosen(condensed, cluster, labels)))
        place = left
        own_clusters = clusters.loc[clusters["parent"] == cluster, ["child", "child_size", "lambda_val"]]
        for child, size, level in own_clusters.to_numpy(dtype=float).tolist():
            waiting.append((int(child), place, size, level))
            place += size
    return pd.DataFrame(rows, columns=["left", "right", "appears", "gone", "phase"])


def _chosen(condensed: pd.DataFrame, cluster: int, labels: np.ndarray) -> int:
    """The phase that a cluster of the tree became, that of all snapshots below it; -1 where it is none."""
    below, members = [cluster], set[int]()
    while below:
        own = condensed[condensed["parent"] == below.pop()]
        members |= set(own.loc[own["child_size"] == 1, "child"].astype(int))
        below += own.loc[own["child_size"] > 1, "child"].astype(int).tolist()
    phase = int(labels[min(members)]) if members else NOISE
    return phase if phase != NOISE and set(np.flatnonzero(labels == phase)) == members else NOISE


def _member_rows(membership: np.ndarray, steps: pd.Series, places: np.ndarray) -> pd.DataFrame:
    stacked = np.cumsum(membership[places], axis=1)
    kept = steps.to_numpy()
    gap = int(kept[places[1]] - kept[places[0]])
    rows = []
    for row, place in enumerate(places):
        below = 0.0
        for phase in range(membership.shape[1]):
            above = float(stacked[row, phase])
            if above - below > 0.01:
                step = int(kept[place])
                rows.append((step, step + gap, round(below, 3), round(above, 3), phase))
            below = above
    return pd.DataFrame(rows, columns=["step", "next_step", "low", "high", "phase"])


def plot_tree(
    clusters: charts.Data, phases: charts.Data, memberships: charts.Data, told: charts.Data
) -> alt.HConcatChart:
    """The condensed tree, chosen clusters coloured; and memberships over the steps, stacked."""
    colour = alt.Color("phase:Q", scale=theme.sequential_scale(), legend=None)
    density = alt.Scale(type="symlog", reverse=True)
    place = {
        "x": alt.X("left:Q", axis=theme.axis("snapshots"), scale=alt.Scale(nice=False)),
        "x2": "right:Q",
        "y": alt.Y("appears:Q", axis=theme.axis("density_level", tick_count=4), scale=density),
        "y2": "gone:Q",
    }
    others = alt.Chart(clusters).mark_rect(
        fillOpacity=0.08, fill=theme.INK, stroke=theme.INK, strokeWidth=0.8
    )
    chosen = alt.Chart(phases).mark_rect(stroke=theme.INK, strokeWidth=0.8)
    words = (
        alt.Chart(told)
        .transform_calculate(words=FOUND)
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(4), y=alt.value(-8), text="words:N")
    )
    members = (
        alt.Chart(memberships)
        .mark_rect()
        .encode(
            x=alt.X("step:Q", axis=theme.axis("step", tick_count=4), scale=alt.Scale(nice=False)),
            x2="next_step:Q",
            y=alt.Y("low:Q", axis=theme.axis("membership"), scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=colour,
        )
    )
    left = alt.LayerChart(layer=[others.encode(**place), chosen.encode(**place, color=colour), words])
    chart: alt.HConcatChart = alt.hconcat(
        left.properties(width=NARROW, height=200), members.properties(width=NARROW, height=200)
    )
    return chart


# --- settings -------------------------------------------------------------------------------------------


def settings_of(tensor: str, path: str) -> dict[str, np.ndarray]:
    """Labels of a path's kept snapshots under every setting that is stored, by the setting's name."""
    table = _drawings(first_run())
    key = next(known for known, words in PATHS.items() if words == path)
    own = table[(table["tensor"] == tensor) & (table["path"] == key) & (table["method"] == "pymde")]
    return {
        f"{n_neighbors}, {size}": part[f"phase_{size}"].to_numpy()
        for n_neighbors, part in own.groupby("n_neighbors")
        for size in sorted(sizes())
    }


def setting_names() -> list[str]:
    """Settings that are stored: neighbours, least phase."""
    return list(settings_of(tensors()[0], "training"))


@functools.cache
def settings_grid() -> pd.DataFrame:
    """Adjusted Rand indices between all settings, by `tensor` and `path`; not to be changed in place.

    Returns
    -------
    DataFrame
        `one`, `other` (places in :func:`setting_names`), `rand`, `n_phases` of the first, and `stability`,
        the mean over pairs of different settings.
    """
    parts = []
    for tensor, path in itertools.product(tensors(), PATHS.values()):
        labels = list(settings_of(tensor, path).values())
        rand = {  # the same both ways, and 1 with itself
            (i, j): round(float(adjusted_rand_score(labels[i], labels[j])), 2)
            for i, j in itertools.combinations(range(len(labels)), 2)
        }
        rows = [
            (i, j, 1.0 if i == j else rand[min(i, j), max(i, j)], labels[i].max() + 1)
            for i, j in itertools.product(range(len(labels)), repeat=2)
        ]
        table = pd.DataFrame(rows, columns=["one", "other", "rand", "n_phases"])
        others = table.loc[table["one"] != table["other"], "rand"]
        mean = float(others.mean()) if len(others) else 1.0  # one setting agrees with itself
        parts.append(table.assign(tensor=tensor, path=path, stability=round(mean, 3)))
    return pd.concat(parts, ignore_index=True)


def plot_settings(data: charts.Data) -> alt.LayerChart:
    """The agreement of settings as a square, the number of phases in its diagonal."""
    place = {
        "x": alt.X("first:N", sort=None, axis=alt.Axis(title=theme.title("setting"), labelAngle=-60)),
        "y": alt.Y("second:N", sort=None, axis=alt.Axis(title=None)),
    }
    names = json.dumps(setting_names())
    named = alt.Chart(data).transform_calculate(first=f"{names}[datum.one]", second=f"{names}[datum.other]")
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    squares = (
        named.transform_filter("datum.one !== datum.other")
        .mark_rect()
        .encode(
            **place,
            color=alt.Color("rand:Q", scale=scale, legend=theme.legend("rand")),
            tooltip=["first:N", "second:N", "rand:Q", "n_phases:Q"],
        )
    )
    counts = (
        named.transform_filter("datum.one === datum.other")
        .mark_text(fontSize=12, color=theme.INK)
        .encode(**place, text="n_phases:Q")
    )
    words = (
        alt.Chart(data)
        .transform_aggregate(stability="min(stability)")
        .transform_calculate(words="'mean agreement ' + format(datum.stability, '.2f')")
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(0), y=alt.value(-8), text="words:N")
    )
    return alt.LayerChart(layer=[squares, counts, words]).properties(width=300, height=300)


def range_finding() -> str:
    """Least and most phases of one path over the stored settings, of the path where they differ most."""
    grid = settings_grid()
    own = grid[(grid["path"] == "training") & (grid["one"] == grid["other"])]
    ends = own.groupby("tensor", sort=False)["n_phases"].agg(["min", "max", "count"])
    if ends["count"].max() < 2:
        return "One setting is at hand: how many phases another would find is not known here"
    tensor = str((ends["max"] - ends["min"]).idxmax())
    least, most = ends.loc[tensor, ["min", "max"]]
    return f"The same path of {tensor} has {least} phases or {most}, as the setting has it"


def settings_finding() -> str:
    """Mean agreement over settings of training's phases and of walks', over all matrices of the run."""
    means = settings_grid().drop_duplicates(["tensor", "path"]).groupby("path")["stability"].mean()
    return (
        f"Mean adjusted Rand index between settings: {means['training']:.2f} for training, "
        f"{means['random walk']:.2f} for random walks"
    )


def rounding_finding() -> str:
    """Adjusted Rand index of phases with those of a rounded bottleneck, means over two matrices."""
    if live_drawing() is None:
        return "What rounding changes is not known here: no bottlenecks are stored"
    told = []
    for path, words in PATHS.items():
        agreed = []
        for tensor in TREE_TENSORS:
            _, code = _reading(runs.code, first_run(), tensor, path=path)
            rounded = find_phases(_plane_of(code.round(3), neighbors()[0]), Clustering(sizes()[0]))
            exact = _found(tensor, words, neighbors()[0], sizes()[0])
            agreed.append(adjusted_rand_score(exact.labels, rounded.labels))
        told.append(f"{np.mean(agreed):.2f} for {words}")
    return f"Agreement when the bottleneck is rounded to a thousandth of its radius: {', '.join(told)}"


def intervals_finding() -> str:
    """How many phases of the judged drawings, of all runs shown, are one interval of time, noise left out."""
    told = []
    for path, words in PATHS.items():
        n_phases = n_intervals = 0
        for run in shown_runs().values():
            for _, own in _reading(runs.labels, run, path=path).items():
                stays = visits(own, own.index).groupby("phase").size()
                n_phases, n_intervals = n_phases + len(stays), n_intervals + int((stays == 1).sum())
        told.append(f"{n_intervals:,} of {n_phases:,} phases in {words}")
    return f"One interval of time, but for noise: {' and '.join(told)}"


# --- alternatives ---------------------------------------------------------------------------------------


def methods() -> dict[str, str]:
    """Ways to draw that every matrix of the first run has, by name."""
    table = _drawings(first_run()).query("path == 'data'")
    names = {
        "pymde": "PyMDE of the bottleneck",
        "pca": "PCA of the weights",
        "umap": "UMAP of the bottleneck",
    }
    n_tensors = table["tensor"].nunique()
    have = table.groupby("method")["tensor"].nunique()
    return {method: words for method, words in names.items() if have.get(method, 0) == n_tensors}


def method_grid() -> pd.DataFrame:
    """Drawings of the first run by `drawn` and `tensor`: x, y, phases found in it, and the judged ones."""
    run = first_run()
    table = _drawings(run).query("path == 'data'")
    judged = _reading(runs.labels, run)
    parts = []
    for (tensor, method), own in table.groupby(["tensor", "method"], sort=False):
        if method not in methods():
            continue
        first = own[own["n_neighbors"] == own["n_neighbors"].iloc[0]]
        part = thinned(first)
        names = judged[str(tensor)].loc[part["step"]].to_numpy()
        parts.append(part.assign(judged=names, drawn=methods()[str(method)]))
    whole = pd.concat(parts, ignore_index=True)
    whole = whole.assign(x=whole["x"].astype(float).round(2), y=whole["y"].astype(float).round(2))
    return whole[["drawn", "tensor", "x", "y", "phase", "judged"]]


def plot_methods(data: charts.Data) -> alt.HConcatChart:
    """One drawing twice: coloured by the phases found in it, and by those of the judged one."""
    chart: alt.HConcatChart = alt.hconcat(
        _coloured(data, "phase", "its own phases"), _coloured(data, "judged", "phases of PyMDE")
    )
    return chart


def _coloured(data: charts.Data, column: str, words: str) -> alt.LayerChart:
    base = alt.Chart(data).transform_calculate(shown_phase=f"datum.{column}", look=f"datum.{column} % 5")
    place = _plane_place()
    noise = (
        base.transform_filter(f"datum.shown_phase === {NOISE}")
        .mark_point(shape="cross", size=40, filled=False, color=theme.INK, strokeWidth=0.8, clip=True)
        .encode(**place)
    )
    looks = alt.Scale(domain=list(range(5)), range=list(theme.SHAPES))
    points = (
        base.transform_filter(f"datum.shown_phase !== {NOISE}")
        .mark_point(size=30, clip=True)
        .encode(
            **place,
            color=alt.Color("shown_phase:Q", scale=theme.sequential_scale(), legend=None),
            shape=alt.Shape("look:N", scale=looks, legend=None),
        )
    )
    name = (
        alt.Chart(alt.Data(values=[{"words": words}]))
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(5), y=alt.value(11), text="words:N")
    )
    return alt.LayerChart(layer=[noise, points, name]).properties(width=NARROW, height=220)


def alternatives_table() -> pd.DataFrame:
    """How far other methods find the judged phases: means over layers and seeds, by kind."""
    rows: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    flat = pd.concat([_pca_agreement(run) for run in of_stories()])
    for kind in KINDS:
        own = flat.loc[flat["kind"] == kind, "rand"]
        rows[kind]["PCA, agreement"] = f"{own.mean():.2f}" if len(own) else NOT_MEASURED
    for words, column, spec in (
        ("UMAP, agreement", "umap_agreement", ".2f"),
        ("hidden Markov model, agreement", "hmm_agreement", ".2f"),
        ("its states", "hmm_states", ".1f"),
    ):
        table = _reading(found.kinds_table, of_stories(), column)
        for kind in KINDS:
            values = table.loc[table["kind"] == kind, "value"]
            rows[kind][words] = f"{values.mean():{spec}}" if len(values) else NOT_MEASURED
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")


def _pca_agreement(run: TrajectoryRun) -> pd.DataFrame:
    """Adjusted Rand index of PCA's phases with the judged ones: a row a tensor, with its kind."""
    judged = _reading(runs.labels, run)
    flat = _reading(runs.labels, run, method="pca")
    kinds = _drawings(run).drop_duplicates("tensor").set_index("tensor")["kind"]
    rows = [
        (kinds[str(tensor)], adjusted_rand_score(judged[tensor], flat[tensor])) for tensor in judged.columns
    ]
    return pd.DataFrame(rows, columns=["kind", "rand"])
