"""Runs whose weights are drawn, at each preset, and what is stored of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from book.geometry.experiments import language_models
from book.geometry.experiments.steering_language import Setting
from book.geometry.experiments.trajectory_drawings import (
    DATA,
    OF_TENSOR,
    DrawnTensor,
    codes_of_tensor,
    drawings_of_tensor,
    drawn,
    numbers_of,
    places_of,
)
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    NO_Q,
    PAPER,
    STANDARD,
    STORIES,
    WEB,
    Pipeline,
    TrajectoryRun,
    kind_of,
    layer_of,
    recordings,
    without_pipeline,
)
from book.language import TextConfig
from book.ledger import studies
from book.ledger.cells import Cell, read
from book.ledger.places import results_folder
from embviz.trajectories.phases import NOISE, Clustering, find_phases
from embviz.trajectories.traces import lay_out

WHERE = ["tensor", "kind", "layer", "path", "method", "n_neighbors"]  # what names a drawing

N_SEEDS = {"quick": 2, "laptop": 5, "paper": 3}
N_NO_Q_SEEDS = {"quick": 2, "laptop": 2, "paper": 3}
QUICK = Setting(16, 2, 2, 32, 16, 2, 160, 1e-2)
QUICK_PIPELINE = Pipeline(
    (10,), (10, 6), n_walks=2, n_epochs=30, max_iter=30, n_permutations=99, alternatives=False
)


def stories(preset: str) -> TrajectoryRun:
    """A model of short stories."""
    if preset == "quick":
        source = TextConfig("embedded", n_documents=200, n_held_out=2)
        return TrajectoryRun(source, setting=QUICK, sketch=64, pipeline=QUICK_PIPELINE)
    if preset == "laptop":
        return TrajectoryRun(TextConfig("tinystories_5mb", n_held_out=50))
    return TrajectoryRun(language_models.stories(preset).text, setting=PAPER, every=5)


def web(preset: str) -> TrajectoryRun:
    """The same of English Wikipedia, which stands in for FineWeb, without the alternatives."""
    run = stories(preset)
    if preset == "quick":
        source = TextConfig("embedded", n_documents=300, n_held_out=2)
    else:
        source = language_models.web(preset).text
    return dataclasses.replace(run, source=source, text=WEB, pipeline=_lean(run))


def _lean(run: TrajectoryRun) -> Pipeline:
    return dataclasses.replace(run.pipeline, neighbors=run.pipeline.neighbors[:1], alternatives=False)


def _of_seeds(run: TrajectoryRun, n_seeds: int) -> list[TrajectoryRun]:
    return [dataclasses.replace(run, seed=seed) for seed in range(n_seeds)]


def story_runs(preset: str = "laptop") -> list[TrajectoryRun]:
    """Figures 2 and 6 to 9, seed by seed."""
    return _of_seeds(stories(preset), N_SEEDS[preset])


def no_query_runs(preset: str) -> list[TrajectoryRun]:
    """The same without a query projection."""
    run = stories(preset)
    run = dataclasses.replace(run, variant=NO_Q, pipeline=_lean(run))
    return _of_seeds(run, N_NO_Q_SEEDS[preset])


def web_runs(preset: str) -> list[TrajectoryRun]:
    """The same on web text."""
    return _of_seeds(web(preset), N_SEEDS[preset])


def decay_run(preset: str) -> TrajectoryRun:
    """A run whose optimizer has nothing to learn from."""
    run = stories(preset)
    return dataclasses.replace(run, variant=DECAY, pipeline=_lean(run))


def cells_of(run: TrajectoryRun) -> list[Cell]:
    """The recording first, and then its layouts, tensor by tensor."""
    drawn_tensors = [drawings_of_tensor.cell(DrawnTensor(run, tensor)) for tensor in run.tensors]
    return [recordings.cell(without_pipeline(run)), *drawn_tensors]


def code_cells(run: TrajectoryRun) -> list[Cell]:
    """Bottlenecks of a run, tensor by tensor, for whoever wants to lay them out again."""
    return [codes_of_tensor.cell(DrawnTensor(run, tensor)) for tensor in run.tensors]


def largest(runs_of: Callable[[str], list[TrajectoryRun]] = story_runs) -> str | None:
    """The largest preset whose runs are all stored, or None."""
    return studies.largest_stored(lambda preset: [cell for run in runs_of(preset) for cell in cells_of(run)])


def stored_runs() -> dict[str, TrajectoryRun]:
    """Runs by name; of each sort the runs of the largest preset that has them all stored."""
    found: list[TrajectoryRun] = []
    for runs_of in (story_runs, no_query_runs, web_runs, lambda preset: [decay_run(preset)]):
        if preset := largest(runs_of):
            found += runs_of(preset)
    return {run.name: run for run in found}


# --- reading ----------------------------------------------------------------------------------------


def losses(run: TrajectoryRun) -> pd.DataFrame:
    """The loss at every snapshot: step, loss (nats a token, of the same training sequences throughout).

    Raises
    ------
    FileNotFoundError
        If it is not stored.
    """
    return _read(recordings.cell(without_pipeline(run)))[["step", "loss"]]


def drawings(run: TrajectoryRun) -> pd.DataFrame:
    """All layouts of a run, one row per kept snapshot; read once, not to be changed in place.

    Returns
    -------
    DataFrame
        tensor ("Q 1", ..., "embedding", "all"), kind, layer (0: embedding, all), path ("data", "random walk
        0", ..., "shuffled losses"), method ("pymde" and "umap" of the bottleneck, "pca" of the weights),
        n_neighbors (0: none); step, x and y (centred, RMS radius 1), phase (judged; -1 is noise), and
        phase_15 and so on, by the smallest size of a phase.
    """
    return _drawings_once(run, results_folder())


def layout(
    run: TrajectoryRun,
    tensor: str,
    *,
    path: str = DATA,
    method: str = "pymde",
    n_neighbors: int | None = None,
) -> pd.DataFrame:
    """One layout: step, loss, x, y and labels; the judged one by default.

    Raises
    ------
    ValueError
        If there is no such drawing: names those of the tensor, or the tensors.
    """
    table = drawings(run)
    if n_neighbors is None:
        n_neighbors = 0 if method == "pca" else run.pipeline.neighbors[0]
    own = table[table["tensor"] == tensor]
    if own.empty:
        raise ValueError(f"{run.name} has no {tensor!r}: there are {', '.join(table['tensor'].unique())}")
    chosen = own[(own["path"] == path) & (own["method"] == method) & (own["n_neighbors"] == n_neighbors)]
    if chosen.empty:
        known = [" ".join(map(str, row)) for row in own[WHERE[3:]].drop_duplicates().itertuples(index=False)]
        asked = f"{path} {method} {n_neighbors}"
        raise ValueError(f"{run.name}: {tensor} has no layout {asked!r}: there are {', '.join(known)}")
    return chosen.drop(columns=WHERE).merge(losses(run), on="step")


def code(run: TrajectoryRun, tensor: str, *, path: str = DATA) -> tuple[np.ndarray, np.ndarray]:
    """Steps (S,) and bottleneck (S, E) of one tensor, or of its first walk, all snapshots; RMS radius 1.

    Raises
    ------
    FileNotFoundError
        If it is not stored: ``book.ledger.cells.run(trajectory_runs.code_cells(run))`` computes it.
    """
    table = _read(codes_of_tensor.cell(DrawnTensor(run, tensor)))
    own = table[table["path"] == path]
    return own["step"].to_numpy(), places_of(own)


def labels(
    run: TrajectoryRun,
    *,
    path: str = DATA,
    method: str = "pymde",
    n_neighbors: int | None = None,
    size: int = 0,
) -> pd.DataFrame:
    """Phases of all tensors side by side: a row per step, a column per tensor; `size` 0: the judged one."""
    table = drawings(run)
    if n_neighbors is None:
        n_neighbors = 0 if method == "pca" else run.pipeline.neighbors[0]
    same = (table["path"] == path) & (table["method"] == method) & (table["n_neighbors"] == n_neighbors)
    column = f"phase_{size}" if size else "phase"
    return table[same].pivot(index="step", columns="tensor", values=column)[table["tensor"].unique()]


def measures(run: TrajectoryRun) -> pd.DataFrame:
    """Numbers of every layout, of all snapshots of it.

    Returns
    -------
    DataFrame
        What names the drawing, as in :func:`drawings`, and the columns of
        :func:`embviz.trajectories.nulls.measure`; dbcv is -1 where there are fewer than two phases. Besides
        loss_correlation, lag and p of the layout's steps with drops of the loss there are `detrended_`
        ones, a running median of 51 snapshots taken off both, and `transition_` ones, of transitions
        between phases with the same drops: 0, 0 and 1 where there is no transition.
    """
    return _numbers(run).drop(columns=OF_TENSOR)


def tensor_measures(run: TrajectoryRun) -> pd.DataFrame:
    """Numbers of a path that none of its layouts has alone; NaN where one is missing.

    Returns
    -------
    DataFrame
        tensor, kind, layer, path; held_out_reconstruction and held_out_prediction, of autoencoders that
        even or odd blocks of 20 snapshots were held out from, pooled; stability, the mean adjusted Rand
        index over settings of PyMDE and HDBSCAN, and in how many of them all was noise; hmm_states,
        hmm_agreement and umap_agreement, adjusted Rand indices with the judged phases; the sketch's
        distortion.
    """
    table = _numbers(run)
    judged = table[(table["method"] == "pymde") & (table["n_neighbors"] == run.pipeline.neighbors[0])]
    return judged[[*WHERE[:4], *OF_TENSOR]].reset_index(drop=True)


@functools.lru_cache(maxsize=16)
def _drawings_once(run: TrajectoryRun, folder: Path) -> pd.DataFrame:
    table = _of_tensors(run, drawn)
    sizes = [f"phase_{size}" for size in run.pipeline.sizes]
    return table[[*WHERE, "step", "x", "y", *sizes]].assign(phase=table[sizes[0]])


@functools.lru_cache(maxsize=16)
def _numbers_once(run: TrajectoryRun, folder: Path) -> pd.DataFrame:
    table = _of_tensors(run, numbers_of)
    return table[[*WHERE, *(column for column in table.columns if column not in WHERE)]]


def _numbers(run: TrajectoryRun) -> pd.DataFrame:
    """One row per layout."""
    return _numbers_once(run, results_folder())


def _of_tensors(run: TrajectoryRun, read_off: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """One part of what is stored of a run's layouts."""
    parts = [
        _read(drawings_of_tensor.cell(DrawnTensor(run, tensor))).assign(
            tensor=tensor, kind=kind_of(tensor), layer=layer_of(tensor)
        )
        for tensor in run.tensors
    ]
    return read_off(pd.concat(parts, ignore_index=True)).reset_index(drop=True)


def _read(cell: Cell) -> pd.DataFrame:
    return _read_once(cell, cell.path)


@functools.lru_cache(maxsize=512)
def _read_once(cell: Cell, path: Path) -> pd.DataFrame:
    table, _ = read(cell)
    return table


# --- what the chapter on phases shows -------------------------------------------------------------------

PATHS = {"data": "training", "random walk 0": "random walk"}
N_POINTS = 80  # of a drawing that a page holds, about
LAYERS = (0, 1, 3, 5)  # that the explorers show; 0: the embedding, and all matrices as one path


@functools.cache
def shown_runs() -> dict[str, TrajectoryRun]:
    """Stored models with queries whose paths are shown, by name, stories first."""
    stored = {name: run for name, run in stored_runs().items() if run.variant == STANDARD}
    return {name: run for name, run in stored.items() if run.text == STORIES} | stored


def first_run() -> TrajectoryRun:
    """The run of the explorers."""
    return next(iter(shown_runs().values()))


def of_stories() -> list[TrajectoryRun]:
    """All runs of short stories that are shown."""
    return [run for run in shown_runs().values() if run.text == STORIES]


def thinned(table: pd.DataFrame, n: int = N_POINTS) -> pd.DataFrame:
    """Evenly spaced rows of one layout, about n of them."""
    return table.iloc[:: max(1, len(table) // n)]


def shown_drawings(run: TrajectoryRun) -> pd.DataFrame:
    """Layouts of the tensors that the explorers show, with the loss at each step."""
    table = drawings(run)
    chosen = table[table["layer"].isin(LAYERS) & table["path"].isin(list(PATHS))]
    whole = chosen.assign(path=chosen["path"].map(PATHS)).merge(losses(run), on="step")
    whole[["x", "y"]] = whole[["x", "y"]].astype(float).round(2)
    return whole.assign(loss=whole["loss"].round(3))


def tensors() -> list[str]:
    """Matrices that the explorers show, as they are called."""
    return list(dict.fromkeys(shown_drawings(first_run())["tensor"]))


def explorer_grid() -> dict[str, pd.DataFrame]:
    """What `draw_anew` gives, of the first run's stored layouts, by tensor, path, neighbors and size."""
    run = first_run()
    table = shown_drawings(run).query("method == 'pymde'").rename(columns={"n_neighbors": "neighbors"})
    paths, numbers = [], []
    for where, own in table.groupby(["tensor", "path", "neighbors"], sort=False):
        for size in run.pipeline.sizes:
            names = ("tensor", "path", "neighbors", "size")
            key: dict[str, Any] = dict(zip(names, (*where, size), strict=True))
            drawn = own.assign(phase=own[f"phase_{size}"])
            paths.append(thinned(drawn)[["step", "loss", "x", "y", "phase"]].assign(**key))
            numbers.append({**key, **_phase_numbers(drawn["phase"].to_numpy())})
    return {"drawn": pd.concat(paths, ignore_index=True), "found": pd.DataFrame(numbers)}


def draw_anew(
    tensor: str,
    path: str,
    neighbors: int,
    clustering: Clustering,
    *,
    seed: int | None = None,
) -> dict[str, pd.DataFrame]:
    """Lay a stored bottleneck of the first run out, and look for its phases: all snapshots, now.

    The last layouts are kept, so that another clustering is drawn at once. Its distances are in the unit of
    the picture: snapshots have a root mean square distance of 1 from their centre.

    Parameters
    ----------
    seed : int, optional
        Of the layout; by default the run's.

    Returns
    -------
    dict
        `drawn`: `step`, `loss`, `x`, `y` and `phase` of the snapshots that a page draws; `found`, of all:
        `n_phases` and `noise`, the share in none.
    """
    plane, table, kept = _laid_out(tensor, path, neighbors, first_run().seed if seed is None else seed)
    phases = find_phases(plane, clustering).labels
    drawn = table.assign(phase=phases)[kept].reset_index(drop=True)
    return {"drawn": drawn, "found": pd.DataFrame([_phase_numbers(phases)])}


@functools.lru_cache(maxsize=64)
def _laid_out(
    tensor: str, path: str, neighbors: int, seed: int
) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """A layout (S, 2) of RMS radius 1, what is drawn of it, and which snapshots a page draws."""
    run = first_run()
    key = next(known for known, words in PATHS.items() if words == path)
    steps, bottleneck = code(run, tensor, path=key)
    layout = dataclasses.replace(run.pipeline.recipe.layout, n_neighbors=neighbors)
    plane = lay_out(bottleneck, layout, seed=seed)
    plane = plane - plane.mean(axis=0)
    plane = plane / np.sqrt((plane**2).sum(axis=1).mean())
    table = pd.DataFrame({"step": steps, "x": plane[:, 0].round(2), "y": plane[:, 1].round(2)})
    table = table.merge(losses(run).round(3), on="step")[["step", "loss", "x", "y"]]
    kept = np.isin(
        steps, thinned(shown_drawings(run).query("tensor == @tensor").drop_duplicates("step"))["step"]
    )
    return plane, table, kept


def _phase_numbers(phases: np.ndarray) -> dict[str, float]:
    return {"n_phases": int(phases.max()) + 1, "noise": round(float(np.mean(phases == NOISE)), 3)}
