"""Paths of a small model's weights beside random walks with their steps, drawn in three ways.

A quick run for a reader to learn on: what a walk draws, before anything is read off what training draws.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from book.geometry.experiments.language_models import BASELINE
from book.geometry.experiments.weight_films import SETTING, WeightFilm, film_of, label_of, watch
from embviz.ledger.cells import Cell, experiment, table_of
from embviz.metrics import procrustes_disparity
from embviz.runs import Run, read_run
from embviz.training.language import load_streams
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.nulls import measure, random_walk
from embviz.trajectories.phases import Clustering
from embviz.trajectories.traces import Layout, Recipe, Trace, principal_coordinates, trace
from embviz.trajectories.weight_paths import WeightPath, rotate

TRAINING, WALK = KINDS = ("training", "random walk")
VIEWS = (
    "weights, two principal components",
    "bottleneck, two principal components",
    "PyMDE of the bottleneck",
)
TENSORS = (
    "embedding",
    "blocks.0.attention.query.weight",
    "blocks.0.attention.key.weight",
    "blocks.0.attention.value.weight",
    "blocks.0.up.weight",
    "blocks.1.attention.query.weight",
    "blocks.1.attention.value.weight",
    "blocks.1.down.weight",
)
RECIPE = Recipe(Autoencoder(bottleneck=4, hidden=32, n_epochs=150), Layout(), Clustering(min_cluster_size=8))


@dataclass(frozen=True)
class PanelRun:
    """A recorded run, and how its paths are drawn."""

    film: WeightFilm
    seed: int = 0  # of the pipeline and the walks
    n_lags: int = 1  # of the walks' momentum


def paths(run: Run) -> Iterator[WeightPath]:
    """The paths of :data:`TENSORS`, rotated, called as readers are shown them."""
    found = run.paths(TENSORS)
    for name in TENSORS:
        yield rotate(replace(found[name], name=label_of(name)))


@experiment("geometry.path_panels")
def path_panels(config: PanelRun) -> pd.DataFrame:
    """Train a model, and draw the path of each matrix and of a random walk.

    Returns
    -------
    DataFrame
        Rows of two kinds. Of drawings, `shown` is one of :data:`VIEWS`: `tensor`, `kind` (of :data:`KINDS`),
        `step`, `loss` (nats, of the updates that led there), `x` and `y`, of mean 0 and root mean square 1.
        Of numbers, it is a name of :func:`embviz.trajectories.nulls.measure`, or "disparity", from the walk's
        layout to the matrix's, and the number is in `x`; `step` is -1, `loss` and `y` 0.
    """
    film = replace(config.film, sketch=0)
    with tempfile.TemporaryDirectory() as folder:
        for _ in watch(film, Path(folder) / "recording"):
            pass
        drawn = list(paths(read_run(Path(folder) / "recording")))
    parts: list[pd.DataFrame] = []
    for place, path in enumerate(drawn):
        walk = random_walk(path, seed=config.seed + place, n_lags=config.n_lags)
        traces = [trace(one, RECIPE, seed=config.seed) for one in (path, walk)]
        disparity = procrustes_disparity(traces[0].layout, traces[1].layout)
        for kind, traced in zip(KINDS, traces, strict=True):
            part = pd.concat([_drawn(traced), _numbers(traced, disparity)], ignore_index=True)
            parts.append(part.assign(tensor=path.name, kind=kind))
    table = pd.concat(parts, ignore_index=True)
    text = config.film.run.text
    table.attrs["data"] = {text.corpus: load_streams(text).checksum}
    return table[["tensor", "kind", "shown", "step", "loss", "x", "y"]]


def _drawn(traced: Trace) -> pd.DataFrame:
    planes = (
        principal_coordinates(traced.path.weights),
        principal_coordinates(traced.encoded),
        traced.layout,
    )
    return pd.concat([_plane(traced.path, *pair) for pair in zip(VIEWS, planes, strict=True)])


def _plane(path: WeightPath, view: str, points: np.ndarray) -> pd.DataFrame:
    centred = points - points.mean(axis=0)
    x, y = (centred / np.sqrt((centred**2).sum(axis=1).mean())).T
    return pd.DataFrame({"shown": view, "step": path.steps, "loss": path.losses, "x": x, "y": y})


def _numbers(traced: Trace, disparity: float) -> pd.DataFrame:
    found = measure(traced, n_permutations=99) | {"disparity": disparity}
    rows = [
        (name, -1, 0.0, float(value), 0.0) for name, value in found.items() if isinstance(value, float | int)
    ]
    return pd.DataFrame(rows, columns=["shown", "step", "loss", "x", "y"])


def panel_cell(preset: str) -> Cell:
    """The cell of the baseline's film, 101 snapshots; `quick` has 41 of 80 updates."""
    n_steps = 80 if preset == "quick" else SETTING.n_steps
    every = n_steps // (40 if preset == "quick" else 100)
    film = film_of(BASELINE, n_steps=n_steps)
    return path_panels.cell(PanelRun(replace(film, record_every=every, frame_every=n_steps)))


# --- what the chapter shows -----------------------------------------------------------------------------

SHOWN = "laptop"  # the preset of the quick run: seconds
N_DEALS, PANELS = 8, "ABCD"
DEALT = (VIEWS[0], VIEWS[2])


def _table() -> pd.DataFrame:
    return table_of(panel_cell(SHOWN))


def drawings() -> pd.DataFrame:
    """Every layout of the quick run: tensor, kind, shown (the view), step, loss, x, y."""
    table = _table()
    return table[table["step"] >= 0].reset_index(drop=True)


def numbers() -> pd.DataFrame:
    """Every number of the quick run: one row per tensor and kind, a column a number."""
    table = _table()
    told = table[table["step"] < 0].pivot(index=["tensor", "kind"], columns="shown", values="x")
    return told.rename_axis(None, axis="columns").reset_index()


def tensors() -> list[str]:
    """The matrices of the quick run, in order."""
    return list(dict.fromkeys(drawings()["tensor"]))


def run_note() -> str:
    """Data, sizes and seed of the quick run, for a caption."""
    config: PanelRun = panel_cell(SHOWN).config
    setting, table = config.film.run.setting, drawings()
    return (
        f"Bytes of the embedded text, {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps} steps, {table['step'].nunique()} snapshots, seed {config.film.run.seed}. "
        "Walks have a matrix's step lengths, its number of weights and the momentum of successive steps."
    )


def stage_grid() -> pd.DataFrame:
    """Rows of an explorer over tensor, view and path: `step`, `loss`, `x`, `y`, signs as in training."""
    parts = []
    for _, both in drawings().groupby(["tensor", "shown"], sort=False):
        by_kind = {kind: both[both["kind"] == kind] for kind in KINDS}
        reference = by_kind[TRAINING]
        for part in by_kind.values():
            parts.append(_turned(part, reference))
    table = pd.concat(parts, ignore_index=True).rename(columns={"shown": "view", "kind": "path"})
    return table.assign(loss=table["loss"].round(3), x=table["x"].round(3), y=table["y"].round(3))


def _turned(part: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Points turned or mirrored, not stretched, to lie as near as they can to the reference's."""
    points, goal = part[["x", "y"]].to_numpy(), reference[["x", "y"]].to_numpy()
    left, _, right = np.linalg.svd(points.T @ goal)
    x, y = (points @ left @ right).T
    return part.assign(x=x, y=y)


# --- guess which ----------------------------------------------------------------------------------------


def deal(number: int) -> list[tuple[str, str]]:
    """Four panels: tensor and kind of each, of both kinds at least one; no path twice."""
    rng = np.random.default_rng([1933, number])
    names, n_panels = tensors(), len(PANELS)
    n_training = int(rng.integers(1, n_panels))
    kinds = rng.permutation([TRAINING] * n_training + [WALK] * (n_panels - n_training))
    chosen = rng.permutation(len(names))[:n_panels]
    return [(names[place], str(kind)) for place, kind in zip(chosen, kinds, strict=True)]


def dealt(deal_number: int, view: str, answers: bool) -> dict[str, pd.DataFrame]:
    """Panels of a deal, each turned and mirrored at random, so that no sign gives it away.

    Returns
    -------
    dict
        `paths`: `panel` ("A" to "D"), `step`, `x`, `y`; `told`: `panel` and `answer`, in words or "?".
    """
    rng = np.random.default_rng([2018, deal_number])
    table, cards = drawings(), dict(zip(PANELS, deal(deal_number), strict=True))
    parts = []
    for name, (tensor, kind) in cards.items():
        chosen = (table["tensor"] == tensor) & (table["kind"] == kind) & (table["shown"] == view)
        part = table[chosen]
        matrix = np.linalg.qr(rng.standard_normal((2, 2))).Q
        x, y = (part[["x", "y"]].to_numpy() @ matrix).round(3).T
        parts.append(pd.DataFrame({"panel": name, "step": part["step"], "x": x, "y": y}))
    words = [f"{'is' if kind == TRAINING else 'walks like'} {tensor}" for tensor, kind in cards.values()]
    return {
        "paths": pd.concat(parts, ignore_index=True),
        "told": pd.DataFrame({"panel": list(cards), "answer": words if answers else "?"}),
    }
