"""Recorded weights laid out and measured: the pipeline of section 4.1 of the geometry paper, with controls.

Weights are read through sketches, so a walk like a path takes its steps among as many numbers as a sketch
has. A cell is a tensor in one run; it stores what a reader looks at.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.metrics import adjusted_rand_score

from book.geometry.experiments.trajectory_recordings import (
    JOINT,
    SIDE_BY_SIDE,
    Pipeline,
    Recording,
    TrajectoryRun,
    data_of,
    kind_of,
    recorded,
)
from book.geometry.markov import markov_states
from book.ledger.cells import experiment
from embviz.trajectories.autoencoders import encode, held_out_errors
from embviz.trajectories.nulls import measure, random_walk, shuffled_losses
from embviz.trajectories.phases import (
    Clustering,
    couple,
    find_phases,
    path_steps,
    phase_grid,
    transition_activity,
)
from embviz.trajectories.traces import Layout, Trace, lay_out, trace
from embviz.trajectories.weight_paths import WeightPath, join, rotate, weight_path

DATA, SHUFFLED = "data", "shuffled losses"
TREND = 51  # snapshots of the running median that is taken off movement and drops of the loss
KEPT = 500  # snapshots of a drawing that are stored, about
GRAIN = 512  # a layout of RMS radius 1 is stored in multiples of 1 / 512
FINE = 65_536  # and a bottleneck, whose nearest snapshots are to be told apart, in these

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
class DrawnTensor:
    """One tensor in one run: "Q 1", the embedding, or all of them as one path."""

    run: TrajectoryRun
    tensor: str


@dataclass(frozen=True, eq=False)
class _Drawing:
    path: str  # data, a null's draw
    method: str
    n_neighbors: int  # 0 where the method has none
    traced: Trace


@experiment("geometry.trajectory_drawings", version=2)
def drawings_of_tensor(config: DrawnTensor) -> pd.DataFrame:
    """Lay out and measure one tensor, and its controls.

    Returns
    -------
    DataFrame
        Of each drawing, named by path, method and n_neighbors, rows of two kinds. A kept snapshot: its
        `measure` is empty, step, x and y (centred, RMS radius 1, in multiples of 1 / 512), and a column of
        labels for each smallest phase. A number: `measure` is its name, as in :func:`_numbers`, and of the
        judged drawing one of :data:`OF_TENSOR`, as far as it was measured; the number is in `value`.
    """
    run, recording = config.run, recorded(config.run)
    path = rotate(_path(run, config.tensor, recording))
    known = SIDE_BY_SIDE if config.tensor == JOINT else run.parameters(kind_of(config.tensor))[config.tensor]
    distortion = recording.distortion.set_index("tensor").loc[known, ["median", "q95", "worst"]]
    found = distortion.dropna()
    errors = {
        f"distortion_{name}": value
        for name, value in zip(found.index, found.to_numpy(dtype=float), strict=True)
    }
    table = _of_path(path, run, errors)
    table.attrs["data"] = data_of(run, recording)
    return table


def _path(run: TrajectoryRun, tensor: str, recording: Recording) -> WeightPath:
    kind = kind_of(tensor)
    paths = {
        name: weight_path(name, recording.tensors[known], recording.steps, recording.losses)
        for name, known in run.parameters(kind).items()
        if tensor in (name, JOINT)
    }
    return join([rotate(path) for path in paths.values()], JOINT) if kind == JOINT else paths[tensor]


def _of_path(path: WeightPath, run: TrajectoryRun, known: Mapping[str, float]) -> pd.DataFrame:
    """Layouts of a path and its controls, as one table."""
    pipeline, parts = run.pipeline, []
    for name, one in _with_nulls(path, run):
        first = name in (DATA, _walk(0))
        traced = trace(one, pipeline.recipe, seed=run.seed)
        drawings = list(_drawings(name, traced, pipeline, varied=first))
        of_tensor = _alternatives(drawings, pipeline) if first else {}
        if name == DATA:
            of_tensor = {**of_tensor, **known}
        parts += [_as_table(one, pipeline, {} if i else of_tensor) for i, one in enumerate(drawings)]
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
    """What other settings and methods say of the path that the first of its layouts shows."""
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
    states = markov_states(judged.path.weights, seed=judged.seed)
    return found | {
        "hmm_states": float(len(np.unique(states))),
        "hmm_agreement": adjusted_rand_score(labels, states),
    }


def _stability(drawings: list[_Drawing], pipeline: Pipeline) -> dict[str, float]:
    judged = drawings[0].traced
    layouts = {str(one.n_neighbors): one.traced.layout for one in drawings if one.method == "pymde"}
    repelled = dataclasses.replace(judged.recipe.layout, repulsive=2.0)
    layouts["repulsive"] = lay_out(judged.encoded, repelled, seed=judged.seed)
    clusterings = [Clustering(size, least) for size in pipeline.sizes for least in (5, 15)]
    grid = phase_grid(layouts, clusterings, validity=False)
    return {"stability": grid.stability or 0.0, "n_settings_without": float(grid.n_without)}


def _numbers(traced: Trace, n_permutations: int) -> dict[str, float]:
    """Measures of one layout, all of them numbers, by the conventions of :func:`measures`."""
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
        numbers |= coupled(name, one, traced, n_permutations)
    return numbers


def coupled(name: str, activity: np.ndarray, traced: Trace, n_permutations: int) -> dict[str, float]:
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


def _as_table(drawing: _Drawing, pipeline: Pipeline, of_tensor: Mapping[str, float]) -> pd.DataFrame:
    """Snapshots, and then numbers: a column for each number would take more than all snapshots."""
    traced = drawing.traced
    kept = slice(None, None, max(1, len(traced.path.steps) // KEPT))
    plane = traced.layout - traced.layout.mean(axis=0)
    plane = np.round(GRAIN * plane / math.sqrt((plane**2).sum(axis=1).mean()))[kept]
    snapshots = pd.DataFrame({"step": traced.path.steps[kept], "x": plane[:, 0], "y": plane[:, 1]})
    for size in pipeline.sizes:
        same = size == traced.recipe.clustering.min_cluster_size
        phases = traced.phases if same else find_phases(traced.layout, Clustering(size))
        snapshots[f"phase_{size}"] = phases.labels[kept]
    snapshots = snapshots.astype(np.int32).assign(measure="", value=np.float32(0))
    values = {**_numbers(traced, pipeline.n_permutations), **of_tensor}
    numbers = pd.DataFrame({"measure": list(values), "value": np.array([*values.values()], np.float32)})
    numbers = numbers.reindex(columns=snapshots.columns, fill_value=0).astype(snapshots.dtypes)
    table = pd.concat([snapshots, numbers], ignore_index=True)
    return table.assign(path=drawing.path, method=drawing.method, n_neighbors=drawing.n_neighbors)


def drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Snapshots in a table of :func:`drawings_of_tensor`, x and y as numbers of RMS radius 1."""
    own = table[table["measure"] == ""].drop(columns=["measure", "value"])
    return own.assign(**{axis: (own[axis] / GRAIN).astype(np.float32) for axis in ("x", "y")})


def numbers_of(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers in it: path, method, n_neighbors, and one column per measure, NaN where one is missing.

    In tables of several tensors the columns tensor, kind and layer come first.
    """
    where = ("tensor", "kind", "layer", "path", "method", "n_neighbors")
    names = [name for name in where if name in table]
    own = table[table["measure"] != ""]
    wide = own.pivot(index=names, columns="measure", values="value")
    order = pd.MultiIndex.from_frame(own[names].drop_duplicates())
    columns = [*(name for name in own["measure"].unique() if name not in OF_TENSOR), *OF_TENSOR]
    return wide.reindex(index=order, columns=columns).rename_axis(columns=None).reset_index()


# --- codes ------------------------------------------------------------------------------------------


@experiment("geometry.trajectory_codes", version=2)
def codes_of_tensor(config: DrawnTensor) -> pd.DataFrame:
    """Bottlenecks of a tensor, and of a random walk: what a reader can lay out again.

    Returns
    -------
    DataFrame
        One row per snapshot, all of them: path, as in :func:`drawings_of_tensor`, step, and for each
        coordinate of the bottleneck, centred, of RMS radius 1, how far it moved since the snapshot before, in
        multiples of 1 / 65536: `moved_0` and so on. In the first row that is its place. A layout of the
        rounded bottleneck is near that of the exact one, and not the same.
    """
    run, recording, parts = config.run, recorded(config.run), []
    path = rotate(_path(run, config.tensor, recording))
    for null, one in itertools.islice(_with_nulls(path, run), 2):  # data, the first walk
        code = encode(one, run.pipeline.recipe.autoencoder, seed=run.seed).bottleneck.astype(float)
        code -= code.mean(axis=0)
        places = np.round(FINE * code / math.sqrt((code**2).sum(axis=1).mean()))
        moved = np.diff(places, axis=0, prepend=0)  # packed as float32, which holds them, 28 kB a tensor
        names = [f"moved_{i}" for i in range(moved.shape[1])]
        table = pd.DataFrame(moved.astype(np.float32), columns=names)
        parts.append(table.assign(path=null, step=one.steps.astype(np.int32)))
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = data_of(run, recording)
    return table


def places_of(moved: pd.DataFrame) -> np.ndarray:
    """Bottleneck (S, E) of one path, of RMS radius 1, from its rows of :func:`codes_of_tensor`."""
    columns = [column for column in moved.columns if column.startswith("moved_")]
    return moved[columns].to_numpy(dtype=float).cumsum(axis=0) / FINE
