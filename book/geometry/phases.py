"""What the chapter on phases reads of stored runs, and what it lays out anew where there is a kernel."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pandas as pd

from book.geometry.experiments import trajectory_runs as runs
from book.geometry.experiments.trajectory_recordings import STANDARD, STORIES, TrajectoryRun
from embviz.trajectories.phases import NOISE, Clustering, find_phases
from embviz.trajectories.traces import lay_out
from embviz.view.text_titles import titled

PATHS = {"data": "training", "random walk 0": "random walk"}
N_POINTS = 80  # of a drawing that a page holds, about
LAYERS = (0, 1, 3, 5)  # that the explorers show; 0: the embedding, and all matrices as one path


@functools.cache
def shown_runs() -> dict[str, TrajectoryRun]:
    """Stored models with queries whose paths are shown, by name, stories first."""
    stored = {name: run for name, run in runs.stored_runs().items() if run.variant == STANDARD}
    return {name: run for name, run in stored.items() if run.text == STORIES} | stored


def first_run() -> TrajectoryRun:
    """The run of the explorers."""
    return next(iter(shown_runs().values()))


def of_stories() -> list[TrajectoryRun]:
    """All runs of short stories that are shown."""
    return [run for run in shown_runs().values() if run.text == STORIES]


def note(run: TrajectoryRun | None = None) -> str:
    """Data, sizes and seeds of a run, or of all, for a caption."""
    one = run or first_run()
    setting, n_runs = one.setting, len(of_stories())
    seeds = f"{n_runs} seeds" if run is None and n_runs > 1 else f"seed {one.seed}"
    return (
        f"Bytes of {titled(one.source)}; {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps:,} steps, a snapshot every {one.every}, a sketch of {one.sketch} numbers a "
        f"matrix; {seeds}."
    )


def thinned(table: pd.DataFrame, n: int = N_POINTS) -> pd.DataFrame:
    """Evenly spaced rows of one drawing, about n of them."""
    return table.iloc[:: max(1, len(table) // n)]


def _shown(run: TrajectoryRun) -> pd.DataFrame:
    """Drawings of the tensors that the explorers show, with the loss at each step."""
    table = runs.drawings(run)
    chosen = table[table["layer"].isin(LAYERS) & table["path"].isin(list(PATHS))]
    whole = chosen.assign(path=chosen["path"].map(PATHS)).merge(runs.losses(run), on="step")
    whole[["x", "y"]] = whole[["x", "y"]].astype(float).round(2)
    return whole.assign(loss=whole["loss"].round(3))


def tensors() -> list[str]:
    """Matrices that the explorers show, as they are called."""
    return list(dict.fromkeys(_shown(first_run())["tensor"]))


def explorer_grid() -> dict[str, pd.DataFrame]:
    """What `draw_anew` gives, of the first run's stored drawings, by its four arguments."""
    run = first_run()
    table = _shown(run).query("method == 'pymde'").rename(columns={"n_neighbors": "neighbors"})
    paths, found = [], []
    for where, own in table.groupby(["tensor", "path", "neighbors"], sort=False):
        for size in run.pipeline.sizes:
            names = ("tensor", "path", "neighbors", "size")
            key: dict[str, Any] = dict(zip(names, (*where, size), strict=True))
            drawn = own.assign(phase=own[f"phase_{size}"])
            paths.append(thinned(drawn)[["step", "loss", "x", "y", "phase"]].assign(**key))
            found.append({**key, **_told(drawn["phase"].to_numpy())})
    return {"drawn": pd.concat(paths, ignore_index=True), "found": pd.DataFrame(found)}


def draw_anew(tensor: str, path: str, neighbors: int, size: int) -> dict[str, pd.DataFrame]:
    """Lay a stored bottleneck of the first run out, and look for its phases: all snapshots, now.

    Returns
    -------
    dict
        `drawn`: `step`, `loss`, `x`, `y` and `phase` of the snapshots that a page draws; `found`, of all:
        `n_phases` and `noise`, the share in none.
    """
    run = first_run()
    key = next(known for known, words in PATHS.items() if words == path)
    steps, code = runs.code(run, tensor, path=key)
    layout = dataclasses.replace(run.pipeline.recipe.layout, n_neighbors=neighbors)
    plane = lay_out(code, layout, seed=run.seed)
    labels = find_phases(plane, Clustering(size)).labels
    plane = plane - plane.mean(axis=0)
    plane = plane / np.sqrt((plane**2).sum(axis=1).mean())
    table = pd.DataFrame({"step": steps, "x": plane[:, 0].round(2), "y": plane[:, 1].round(2)})
    table = table.assign(phase=labels).merge(runs.losses(run).round(3), on="step")
    kept = np.isin(steps, thinned(_shown(run).query("tensor == @tensor").drop_duplicates("step"))["step"])
    drawn = table.loc[kept, ["step", "loss", "x", "y", "phase"]].reset_index(drop=True)
    return {"drawn": drawn, "found": pd.DataFrame([_told(labels)])}


def _told(labels: np.ndarray) -> dict[str, float]:
    return {"n_phases": int(labels.max()) + 1, "noise": round(float(np.mean(labels == NOISE)), 3)}


def method_grid() -> pd.DataFrame:
    """Judged drawings of the first run by `drawn` and `tensor`: x, y, phases found in it, the judged ones."""
    run = first_run()
    names = {
        "pymde": "PyMDE of the bottleneck", "pca": "PCA of the weights", "umap": "UMAP of the bottleneck"
    }  # fmt: skip
    table, judged, parts = _shown(run).query("path == 'training'"), runs.labels(run), []
    for (tensor, method), own in table.groupby(["tensor", "method"], sort=False):
        part = thinned(own[own["n_neighbors"] == own["n_neighbors"].iloc[0]])
        labels = judged[str(tensor)].loc[part["step"]].to_numpy()
        parts.append(part.assign(judged=labels, drawn=names[str(method)]))
    return pd.concat(parts, ignore_index=True)[["drawn", "tensor", "step", "x", "y", "phase", "judged"]]
