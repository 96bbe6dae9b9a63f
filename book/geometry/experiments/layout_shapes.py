"""One run's bottlenecks under five layouts: is a matrix' shape the embedding's whatever draws it?

The paper names PyMDE and no setting of it. Here what the autoencoder made of a run, which is stored, is laid
out anew, with seeds that no stored drawing has; so is the walk like each path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.geometry.experiments import trajectory_runs
from book.geometry.experiments.trajectory_drawings import DATA
from book.geometry.experiments.trajectory_recordings import EMBEDDING, PARAMETERS, TrajectoryRun
from book.ledger import findings
from book.ledger.cells import Cell, experiment, missing, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Part
from embviz.metrics import procrustes_disparity
from embviz.trajectories.traces import Layout, lay_out

WALK = "random walk 0"
LAYERS = (1, 3, 5)  # the first, the middle and the last
FRESH = (100, 101, 102)  # seeds of layouts; stored drawings have those of their runs
REPEATS = "runs"  # layouts of one run are no repetitions: their spread is shown, and counts as one


@dataclass(frozen=True)
class LaidOut:
    """Some matrices of a run whose bottlenecks are stored, with the seed of their layouts."""

    run: TrajectoryRun
    others: tuple[int, ...]  # seeds of independent runs, whose drawings are stored
    seed: int
    layers: tuple[int, ...] = LAYERS
    neighbors: tuple[int, ...] = (5, 15, 30)  # of PyMDE, whose own default for 1,001 points is 5
    umap: bool = True

    @property
    def layouts(self) -> dict[str, Layout]:
        """By name."""
        found = {f"PyMDE, {n} neighbours": Layout(n_neighbors=n) for n in self.neighbors}
        found |= {"UMAP": Layout("umap")} if self.umap else {}
        return found | {"principal components": Layout("pca")}


@experiment("geometry.layout_shapes")
def layout_shapes(config: LaidOut) -> pd.DataFrame:
    """Disparity of each matrix' layout to the embedding's, under each layout.

    Returns
    -------
    DataFrame
        layout, tensor, against and value. Disparities to the run's own embedding ("disparity"), to those of
        independent runs, the mean, where one is stored under that layout ("between_runs"), and of the
        matrix' walk to the embedding's walk ("walks").
    """
    rows = []
    for name, layout in config.layouts.items():
        planes = {path: _planes(config, layout, path) for path in (DATA, WALK)}
        embeddings = list(_independent(config, layout))
        for tensor, plane in planes[DATA].items():
            if tensor == EMBEDDING:
                continue
            found = {
                "disparity": procrustes_disparity(plane, planes[DATA][EMBEDDING]),
                "walks": procrustes_disparity(planes[WALK][tensor], planes[WALK][EMBEDDING]),
            }
            if embeddings:
                between = [procrustes_disparity(plane[kept], other) for kept, other in embeddings]
                found["between_runs"] = float(np.mean(between))
            rows += [(name, tensor, against, value) for against, value in found.items()]
    return pd.DataFrame(rows, columns=["layout", "tensor", "against", "value"])


def _planes(config: LaidOut, layout: Layout, path: str) -> dict[str, np.ndarray]:
    """The layouts of the embedding and of the matrices, (S, 2) each."""
    matrices = [f"{kind} {layer}" for kind in PARAMETERS for layer in config.layers]
    found = {}
    for tensor in (EMBEDDING, *matrices):
        _, places = trajectory_runs.code(config.run, tensor, path=path)
        found[tensor] = lay_out(places, layout, seed=config.seed)
    return found


def _independent(config: LaidOut, layout: Layout) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Independent runs' layouts of their embeddings, and which snapshots they have."""
    if layout.method == "pca":  # stored ones are of the weights
        return
    steps, _ = trajectory_runs.code(config.run, EMBEDDING)
    for seed in config.others:
        other = dataclasses.replace(config.run, seed=seed)
        table = trajectory_runs.drawings(other)
        known = table[(table["method"] == layout.method) & (table["path"] == DATA)]["n_neighbors"]
        if layout.n_neighbors in set(known):
            drawn = trajectory_runs.layout(
                other, EMBEDDING, method=layout.method, n_neighbors=layout.n_neighbors
            )
            yield np.isin(steps, drawn["step"]), drawn[["x", "y"]].to_numpy(dtype=float)


# --- what decides -----------------------------------------------------------------------------------


def cells(preset: str) -> list[Cell]:
    """The first run's bottlenecks, and their layouts under each fresh seed; none of the quick preset."""
    if preset == "quick":
        return []
    first, *others = trajectory_runs.story_runs(preset)
    seeds = tuple(run.seed for run in others)
    return [
        *trajectory_runs.code_cells(first),
        *(layout_shapes.cell(LaidOut(first, seeds, seed)) for seed in FRESH),
    ]


def shapes(preset: str) -> pd.DataFrame:
    """The columns of :func:`layout_shapes`, and seed; empty until all fresh seeds are stored."""
    own = cells(preset)[-len(FRESH) :]
    if missing(own):
        return pd.DataFrame(columns=["layout", "tensor", "against", "value", "seed"])
    return pd.concat([table_of(cell).assign(seed=cell.config.seed) for cell in own], ignore_index=True)


def over_layouts(table: pd.DataFrame, corpus: str = "") -> dict[str, Finding]:
    """Means over matrices and layouts of one run; the intervals are over the seeds of its layouts."""
    wide = table.pivot(index=["seed", "layout", "tensor"], columns="against", values="value")
    means = wide.groupby("seed")[["disparity", "walks"]].mean()
    drawn = wide.dropna().groupby("seed")[["disparity", "between_runs"]].mean()
    values = {
        "disparity_layouts": means["disparity"],
        "against_walks_layouts": means["disparity"] / means["walks"],
        "against_runs_layouts": drawn["disparity"] / drawn["between_runs"],
    }
    controls = {"random_walk": float(means["walks"].mean())}
    found = {
        name: findings.over_seeds(
            series.to_numpy(),
            repeats=REPEATS,
            controls=controls if name == "disparity_layouts" else None,
            corpus=corpus,
            within=(0.0, 1.0) if name == "disparity_layouts" else (0.0, np.inf),
        )
        for name, series in values.items()
    }
    return {name: dataclasses.replace(one, n_seeds=1) for name, one in found.items()}


def _measured(preset: str) -> dict[str, Finding]:
    corpus = trajectory_runs.story_runs(preset)[0].source.corpus
    return over_layouts(shapes(preset), corpus)


PART = Part(cells, _measured)
