"""Other readings of the pipeline of section 4.1, and other controls: do transitions still follow the loss?

The text has "a behavioral autoencoder" with a "training-loss prediction". So one may serve all matrices, and
the loss may be that of each update's own batch. Walks of the judged figures remember one step; here they
remember more. Small models, made for this: nothing is judged by them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.geometry.experiments import trajectory_runs
from book.geometry.experiments.steering_language import Setting
from book.geometry.experiments.trajectory_drawings import coupled
from book.geometry.experiments.trajectory_recordings import (
    EMBEDDING,
    JOINT,
    TrajectoryRun,
    batch_losses,
    data_of,
    kind_of,
    recorded,
)
from embviz.ledger.cells import Cell, experiment, missing, table_of
from embviz.metrics import procrustes_disparity
from embviz.trajectories.nulls import measure, random_walk
from embviz.trajectories.phases import transition_activity
from embviz.trajectories.traces import Trace, trace, trace_together
from embviz.trajectories.weight_paths import WeightPath, rotate, weight_path

JUDGED = "as judged"
UNTOLD = "the autoencoder isn't told the loss"
BATCH = "the batch's own loss"
OTHER = "the loss of another run"
TOGETHER = "one autoencoder for all matrices"
WALK, LONG_WALK = "walks that remember one step", "walks that remember all steps"
WALKS_TOGETHER = "walks, one autoencoder for all"
MEMORY = {WALK: 1, LONG_WALK: 0, WALKS_TOGETHER: 1}  # steps; 0: all there are
READINGS = (JUDGED, UNTOLD, BATCH, TOGETHER, OTHER, WALK, LONG_WALK, WALKS_TOGETHER)

SMALL = Setting(64, 2, 2, 256, 64, 16, 1_000, 3e-3)
N_SEEDS = 3
NUMBERS = ("reconstruction", "prediction", "n_phases", "dbcv", "n_transitions", "cosine_share")


@dataclass(frozen=True)
class ReadRun:
    """All matrices of a run under one reading."""

    run: TrajectoryRun
    reading: str
    other: int  # seed of the run whose loss stands in for its own

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise ValueError(f"reading is {self.reading!r}: choose one of {', '.join(READINGS)}")


@experiment("geometry.trajectory_readings")
def trajectory_readings(config: ReadRun) -> pd.DataFrame:
    """Draw and measure all matrices of a run under a reading.

    Returns
    -------
    DataFrame, one row per matrix
        tensor; :data:`NUMBERS`, as in :func:`embviz.trajectories.nulls.measure`; `transition_correlation`,
        `transition_lag` and `transition_p` of transitions with drops of the loss, the slow trend taken off;
        and `disparity` to the embedding's drawing.
    """
    run = config.run
    traces = _traces(config, list(_paths(config)))
    embedding = next(one for one in traces if one.path.name.endswith(EMBEDDING))
    rows = []
    for tensor, traced in zip(_tensors(run), traces, strict=True):
        found = measure(traced, seed=run.seed, n_permutations=run.pipeline.n_permutations)
        numbers = {name: _number(found[name]) for name in NUMBERS}
        activity = transition_activity(traced.phases.labels, traced.path.steps)
        numbers |= coupled("transition", activity, traced, run.pipeline.n_permutations)
        numbers["disparity"] = procrustes_disparity(traced.layout, embedding.layout)
        rows.append({"tensor": tensor} | numbers)
    table = pd.DataFrame(rows)
    table.attrs["data"] = data_of(run, recorded(run))
    return table


def _number(value: object) -> float:
    return np.nan if value is None else float(value)  # type: ignore[arg-type]


def _tensors(run: TrajectoryRun) -> list[str]:
    return [tensor for tensor in run.tensors if tensor != JOINT]


def _paths(config: ReadRun) -> list[WeightPath]:
    """The paths, or walks, of a reading, with the losses that belong to it."""
    run = config.run
    losses = recorded(dataclasses.replace(run, seed=config.other)).losses if config.reading == OTHER else None
    if config.reading == BATCH:
        losses = batch_losses(run)
    recording, found = recorded(run), []
    for place, tensor in enumerate(_tensors(run)):
        weights = recording.tensors[run.parameters(kind_of(tensor))[tensor]]
        path = rotate(
            weight_path(tensor, weights, recording.steps, recording.losses if losses is None else losses)
        )
        if config.reading in MEMORY:
            n_lags = MEMORY[config.reading] or len(path.steps) - 2
            rng = np.random.default_rng([run.seed, place])
            path = rotate(random_walk(path, seed=rng, n_lags=n_lags))
        found.append(path)
    return found


def _traces(config: ReadRun, paths: list[WeightPath]) -> list[Trace]:
    recipe, seed = config.run.pipeline.recipe, config.run.seed
    if config.reading in (TOGETHER, WALKS_TOGETHER):
        return trace_together(paths, recipe, seed=seed)
    if config.reading == UNTOLD and recipe.autoencoder is not None:
        untold = dataclasses.replace(recipe.autoencoder, loss_weight=0.0)
        recipe = dataclasses.replace(recipe, autoencoder=untold)
    return [trace(path, recipe, seed=seed) for path in paths]


# --- what a chapter shows -------------------------------------------------------------------------------


def small_runs(preset: str) -> list[TrajectoryRun]:
    """Small models of short stories, a snapshot at every other step; of the quick preset its own."""
    run = trajectory_runs.stories(preset)
    if preset != "quick":
        run = trajectory_runs.stories("laptop")
        pipeline = dataclasses.replace(run.pipeline, n_permutations=499)
        run = dataclasses.replace(run, setting=SMALL, pipeline=pipeline)
    return [dataclasses.replace(run, seed=seed) for seed in range(2 if preset == "quick" else N_SEEDS)]


def cells(preset: str) -> list[Cell]:
    """One cell per seed and reading."""
    own = small_runs(preset)
    return [
        trajectory_readings.cell(ReadRun(run, reading, other=0 if run.seed else 1))
        for run in own
        for reading in READINGS
    ]


def stored(preset: str = "laptop") -> pd.DataFrame:
    """The columns of :func:`trajectory_readings`, seed and reading, of seeds that have all readings."""
    every = cells(preset)
    halved = {cell.config.run.seed for cell in missing(every)}
    parts = [
        table_of(cell).assign(seed=cell.config.run.seed, reading=cell.config.reading)
        for cell in every
        if cell.config.run.seed not in halved
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
