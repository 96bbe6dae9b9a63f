"""Recorded weights drawn and measured: the pipeline of section 4.1 of the geometry paper, and its nulls.

Weights are read through sketches, so a walk like a path takes its steps among as many numbers as a sketch
has. A cell is a kind of matrix in one run; it stores what a reader looks at.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import zlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.metrics import adjusted_rand_score

from embviz.autoencoders import encode, held_out_errors
from embviz.cells import experiment
from embviz.experiments.geometry.trajectory_recordings import JOINT, Pipeline, TrajectoryRun, recorded
from embviz.language import load_streams
from embviz.phases import (
    Clustering,
    couple,
    find_phases,
    hidden_markov_phases,
    path_steps,
    phase_grid,
    transition_activity,
    weight_statistics,
)
from embviz.recorder import ALL, Recording
from embviz.trajectories import Layout, Trace, lay_out, trace
from embviz.trajectory_nulls import measure, random_walk, shuffled_losses
from embviz.weight_paths import WeightPath, join, rotate, weight_path

DATA, SHUFFLED = "data", "shuffled losses"
TREND = 51  # snapshots of the running median that is taken off movement and drops of the loss
KEPT = 500  # snapshots of a drawing that are stored, about
GRAIN = 512  # a layout of RMS radius 1 is stored in multiples of 1 / 512
FINE = 65_536  # and a bottleneck, whose nearest snapshots are to be told apart, in these
ABSENT = -9.0  # in a cell, whose numbers are finite, of what was not measured

OF_TENSOR = [  # measures of a path, not of one of its drawings
    "held_out_reconstruction",
    "held_out_prediction",
    "stability",
    "n_settings_without",
    "hmm_states",
    "hmm_agreement",
    "umap_agreement",
    "distortion_median",
    "distortion_q95",
    "distortion_worst",
]


@dataclass(frozen=True)
class TensorGroup:
    """All layers of one kind of matrix in one run."""

    run: TrajectoryRun
    kind: str


@dataclass(frozen=True, eq=False)
class _Drawing:
    path: str  # data, a null's draw
    method: str
    n_neighbors: int  # 0 where the method has none
    traced: Trace


@experiment("geometry.trajectory_drawings")
def drawings_of_kind(config: TensorGroup) -> pd.DataFrame:
    """Draw and measure the tensors of one kind, and their nulls.

    Returns
    -------
    DataFrame
        A row a kept snapshot of a drawing: layer (from 1; 0 for the embedding and for all tensors), path,
        method, n_neighbors, step, x and y (centred, RMS radius 1), a column of labels for each smallest
        phase; the drawing's measures, the same in all its rows, as in :func:`measures`; those of its tensor
        in the rows of the judged drawing, -9 elsewhere.
    """
    run, recording = config.run, recorded(config.run)
    distortion = recording.distortion.set_index("tensor")[["median", "q95", "worst"]]
    parts = []
    for layer, (name, path) in enumerate(_paths(run, config.kind, recording), start=1):
        known = ALL if config.kind == JOINT else run.parameters(config.kind)[name]
        errors = distortion.loc[known].rename(index=lambda quantile: f"distortion_{quantile}").fillna(ABSENT)
        table = _of_path(rotate(path), run, errors.astype(float).to_dict())
        parts.append(table.assign(layer=0 if name == config.kind else layer))
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {run.source.corpus: load_streams(run.source).checksum}
    narrow = {"layer": np.int8, "n_neighbors": np.int16, "step": np.int32}
    return table.astype(narrow)


def _paths(run: TrajectoryRun, kind: str, recording: Recording) -> Iterator[tuple[str, WeightPath]]:
    paths = {
        name: weight_path(name, recording.tensors[known], recording.steps, recording.losses)
        for name, known in run.parameters(kind).items()
    }
    if kind == JOINT:
        yield JOINT, join([rotate(path) for path in paths.values()], JOINT)
    else:
        yield from paths.items()


def _of_path(path: WeightPath, run: TrajectoryRun, known: Mapping[Hashable, float]) -> pd.DataFrame:
    """Drawings of a path and its nulls, as one table."""
    pipeline, parts = run.pipeline, []
    for name, one in _with_nulls(path, run):
        first = name in (DATA, _walk(0))
        traced = trace(one, pipeline.recipe, seed=run.seed)
        drawings = list(_drawings(name, traced, pipeline, varied=first))
        found = _alternatives(drawings, pipeline) if first else {}
        for i, drawing in enumerate(drawings):
            of_tensor = dict.fromkeys(OF_TENSOR, ABSENT) | (found if i == 0 else {})
            if i == 0 and name == DATA:
                of_tensor |= {str(column): value for column, value in known.items()}
            parts.append(_as_table(drawing, pipeline, of_tensor))
    return pd.concat(parts, ignore_index=True)


def _with_nulls(path: WeightPath, run: TrajectoryRun) -> Iterator[tuple[str, WeightPath]]:
    """Draws differ from tensor to tensor: walks of one draw would resemble each other."""
    key = [run.seed, zlib.crc32(path.name.encode())]
    yield DATA, path
    for i in range(run.pipeline.n_walks):
        yield _walk(i), rotate(random_walk(path, seed=np.random.default_rng([*key, i])))
    if run.pipeline.alternatives:
        yield SHUFFLED, shuffled_losses(path, seed=np.random.default_rng([*key, 99]))


def _walk(draw: int) -> str:
    return f"random walk {draw}"


def _drawings(name: str, traced: Trace, pipeline: Pipeline, *, varied: bool) -> Iterator[_Drawing]:
    judged = traced.recipe.layout
    yield _Drawing(name, "pymde", judged.n_neighbors, traced)
    if name == DATA:
        yield _Drawing(name, "pca", 0, _drawn_anew(traced, Layout("pca"), traced.path.weights))
    if not varied:
        return
    for n_neighbors in pipeline.neighbors[1:]:
        layout = dataclasses.replace(judged, n_neighbors=n_neighbors)
        yield _Drawing(name, "pymde", n_neighbors, _drawn_anew(traced, layout, traced.encoded))
    if name == DATA and pipeline.alternatives:
        try:
            umap = _drawn_anew(traced, Layout("umap", judged.n_neighbors), traced.encoded)
        except ImportError:  # an extra
            return
        yield _Drawing(name, "umap", judged.n_neighbors, umap)


def _drawn_anew(traced: Trace, layout: Layout, points: np.ndarray) -> Trace:
    plane = lay_out(points, layout, seed=traced.seed)
    phases = find_phases(plane, traced.recipe.clustering)
    return dataclasses.replace(
        traced, layout=plane, phases=phases, recipe=dataclasses.replace(traced.recipe, layout=layout)
    )


# --- measures ---------------------------------------------------------------------------------------


def _alternatives(drawings: list[_Drawing], pipeline: Pipeline) -> dict[str, float]:
    """What other settings and methods say of the path that the first of its drawings shows."""
    judged = drawings[0].traced
    labels = judged.phases.labels
    found = _stability(drawings, pipeline) if len(pipeline.neighbors) > 1 else {}
    if not pipeline.alternatives:
        return found
    block = max(1, min(20, len(judged.path.steps) // 10))
    errors = held_out_errors(judged.path, judged.recipe.autoencoder, seed=judged.seed, block=block)
    found |= {
        "held_out_reconstruction": errors.reconstruction,
        "held_out_prediction": 1.0 if errors.prediction is None else errors.prediction,
    }
    for drawing in drawings:
        if drawing.method == "umap":
            found["umap_agreement"] = adjusted_rand_score(labels, drawing.traced.phases.labels)
    # of the simple statistics those that distances tell: sketched weights keep no other
    statistics = weight_statistics(judged.path.weights)[["from_start", "moved"]]
    try:
        states, _ = hidden_markov_phases(statistics, seed=judged.seed, n_starts=1)
    except ImportError:  # an extra
        return found
    return found | {
        "hmm_states": float(len(np.unique(states))),
        "hmm_agreement": adjusted_rand_score(labels, states),
    }


def _stability(drawings: list[_Drawing], pipeline: Pipeline) -> dict[str, float]:
    judged = drawings[0].traced
    layouts = {str(one.n_neighbors): one.traced.layout for one in drawings if one.method == "pymde"}
    repelled = dataclasses.replace(judged.recipe.layout, repulsive=2.0)
    layouts["repulsive"] = lay_out(judged.encoded, repelled, seed=judged.seed)
    grid = phase_grid(layouts, [Clustering(size, least) for size in pipeline.sizes for least in (5, 15)])
    return {"stability": grid.stability or 0.0, "n_settings_without": float(grid.n_without)}


def _numbers(traced: Trace, n_permutations: int) -> dict[str, float]:
    """Measures of one drawing, all of them numbers: the conventions are those of :func:`measures`."""
    found = measure(traced, seed=traced.seed, n_permutations=n_permutations)
    missing = {"prediction": 1.0, "dbcv": -1.0, "loss_correlation": 0.0, "loss_lag": 0.0, "loss_p": 1.0}
    numbers: dict[str, float] = {
        name: missing[name] if value is None else float(value)  # type: ignore[arg-type]
        for name, value in found.items()
        if name not in ("name", "notes")
    }
    moves = path_steps(traced.layout)
    activity = {
        "detrended": moves - ndimage.median_filter(moves, TREND, mode="nearest"),
        "transition": transition_activity(traced.phases.labels, traced.path.steps),
    }
    for name, one in activity.items():
        numbers |= _coupled(name, one, traced, n_permutations)
    return numbers


def _coupled(name: str, activity: np.ndarray, traced: Trace, n_permutations: int) -> dict[str, float]:
    """Activity beside drops of the loss that are free of their slow trend."""
    drops, n = -np.diff(traced.path.losses), len(activity)
    drops = drops - ndimage.median_filter(drops, TREND, mode="nearest")
    if np.ptp(activity) == 0 or np.ptp(drops) == 0:
        return {f"{name}_correlation": 0.0, f"{name}_lag": 0.0, f"{name}_p": 1.0}
    found = couple(
        activity,
        np.concatenate([[0.0], -drops.cumsum()]),
        seed=traced.seed,
        max_lag=min(10, (n - 1) // 2),
        block=min(20, n // 4),
        n_permutations=n_permutations,
    )
    return {f"{name}_correlation": found.correlation, f"{name}_lag": float(found.lag), f"{name}_p": found.p}


def _as_table(drawing: _Drawing, pipeline: Pipeline, of_tensor: dict[str, float]) -> pd.DataFrame:
    traced = drawing.traced
    kept = slice(None, None, max(1, len(traced.path.steps) // KEPT))
    plane = traced.layout - traced.layout.mean(axis=0)
    plane = np.round(GRAIN * plane / math.sqrt((plane**2).sum(axis=1).mean())) / GRAIN
    table = pd.DataFrame({"step": traced.path.steps[kept], "x": plane[kept, 0], "y": plane[kept, 1]})
    table = table.astype({"x": np.float32, "y": np.float32})
    table = table.assign(path=drawing.path, method=drawing.method, n_neighbors=drawing.n_neighbors)
    for size in pipeline.sizes:
        same = size == traced.recipe.clustering.min_cluster_size
        phases = traced.phases if same else find_phases(traced.layout, Clustering(size))
        table[f"phase_{size}"] = phases.labels[kept].astype(np.int16)
    values = {**_numbers(traced, pipeline.n_permutations), **of_tensor}
    return table.assign(**{name: np.float32(value) for name, value in values.items()})


# --- codes ------------------------------------------------------------------------------------------


@experiment("geometry.trajectory_codes")
def codes_of_kind(config: TensorGroup) -> pd.DataFrame:
    """Bottlenecks of the tensors of one kind, and of a walk like each: what a reader can lay out anew.

    Returns
    -------
    DataFrame
        A row a snapshot, all of them: layer and path, as in :func:`drawings_of_kind`, step, and for each
        coordinate of the bottleneck, centred, of RMS radius 1, how far it moved since the snapshot before,
        in multiples of 1 / 65536: `moved_0` and so on. In the first row that is its place. A layout of the
        rounded bottleneck is near that of the exact one, and not the same.
    """
    run, recording, parts = config.run, recorded(config.run), []
    for layer, (name, path) in enumerate(_paths(run, config.kind, recording), start=1):
        for null, one in itertools.islice(_with_nulls(rotate(path), run), 2):  # data, the first walk
            code = encode(one, run.pipeline.recipe.autoencoder, seed=run.seed).bottleneck.astype(float)
            code -= code.mean(axis=0)
            places = np.round(FINE * code / math.sqrt((code**2).sum(axis=1).mean()))
            moved = np.diff(places, axis=0, prepend=0)  # packed as float32, which holds them, 28 kB a tensor
            names = [f"moved_{i}" for i in range(moved.shape[1])]
            table = pd.DataFrame(moved.astype(np.float32), columns=names)
            own_layer = 0 if name == config.kind else layer
            parts.append(table.assign(layer=own_layer, path=null, step=one.steps))
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {run.source.corpus: load_streams(run.source).checksum}
    return table.astype({"layer": np.int8, "step": np.int32})


def places_of(moved: pd.DataFrame) -> np.ndarray:
    """Bottleneck (S, E) of one path, of RMS radius 1, from its rows of :func:`codes_of_kind`."""
    columns = [column for column in moved.columns if column.startswith("moved_")]
    return moved[columns].to_numpy(dtype=float).cumsum(axis=0) / FINE
