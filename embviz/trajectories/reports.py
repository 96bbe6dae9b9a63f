"""A report on your training run: the path of every matrix, its phases, and random walks beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from embviz.imports import require
from embviz.runs import Sketch
from embviz.runs.tensors import matching
from embviz.trajectories.checkpoints import read_checkpoints
from embviz.trajectories.nulls import NullComparison, through_nulls
from embviz.trajectories.phases import Clustering, phase_grid
from embviz.trajectories.traces import Layout, Recipe, Trace, lay_out
from embviz.trajectories.weight_paths import WeightPath

LEAST = 12  # snapshots: three neighbours of each, phases of three
LIMITS = (
    "What may not be concluded: that the run went through these phases. Any smooth path is cut into phases, "
    "a random walk too, and another seed of the layout cuts the same path elsewhere. Only a number that the "
    "run has and its walks have not says something about training."
)


@dataclass(frozen=True, eq=False)
class RunReport:
    """What :func:`run_report` found.

    Parameters
    ----------
    name : str
        Of the folder, or "run".
    table : DataFrame
        One row per matrix: `tensor`, `n_snapshots`; `n_phases`, `validity` (DBCV), `seeds_agree` and
        `settings_agree` (mean adjusted Rand index of phases between two seeds of the layout alone, and with
        least phases half as large among them); each once more of random walks, as `walk_phases` and so on,
        None where fewer than two find phases; `from_walks` and `among_walks`, Procrustes disparities of
        layouts; `loss_p`, that movement goes with drops of the loss.
    comparisons : dict of str to NullComparison
        By tensor, with all traces.
    still : tuple of str
        Tensors that never moved.
    limits : str
        What may not be concluded, in words.
    """

    name: str
    table: pd.DataFrame
    comparisons: dict[str, NullComparison]
    still: tuple[str, ...]
    limits: str = LIMITS

    @property
    def steps(self) -> list[int]:
        """Steps of the snapshots, as they were recorded or read from the names of checkpoints."""
        first = next(iter(self.comparisons.values()))
        return [int(step) for step in first.traces["data 0"].path.steps]

    @property
    def sentence(self) -> str:
        """What the numbers say, with the walks beside each."""
        table, steps = self.table, self.steps
        n = len(table)
        apart = sum(
            one.shape_left().low > among.high
            for one in self.comparisons.values()
            if (among := one.shape_among()) is not None
        )
        said = (
            f"{n} {'matrix' if n == 1 else 'matrices'} through {len(steps):,} snapshots, steps {steps[0]:,} "
            f"to {steps[-1]:,}: {_span(table['n_phases'])} phases, in random walks with the same steps "
            f"{_span(table['walk_phases'])}. Layouts farther from all of their walks' than these are from "
            f"each other: {apart} of {n}."
        )
        if (own := table["seeds_agree"].dropna()).size:
            walks = table["walk_seeds_agree"].dropna()
            beside = f", of a walk {walks.mean():.2f}" if walks.size else ""
            said += (
                " Drawn again with another seed, phases of the same path agree to "
                f"{own.mean():.2f}{beside} (adjusted Rand index)."
            )
        if self.still:
            said += f" Never moved: {', '.join(self.still)}."
        return said

    def summary(self) -> pd.DataFrame:
        """The table in words, for people: walks in brackets."""
        table = self.table
        pairs = {
            "phases": ("n_phases", "walk_phases", ".1f"),
            "validity": ("validity", "walk_validity", ".2f"),
            "agreement of seeds": ("seeds_agree", "walk_seeds_agree", ".2f"),
            "of settings": ("settings_agree", "walk_settings_agree", ".2f"),
            "from walks": ("from_walks", "among_walks", ".3f"),
        }
        shown = {
            words: [
                f"{_number(a, form)} ({_number(b, form)})"
                for a, b in table[[own, walk]].itertuples(index=False)
            ]
            for words, (own, walk, form) in pairs.items()
        }
        losses = {"p of loss": table["loss_p"].map(lambda p: _number(p, ".3f"))}
        return pd.DataFrame({"tensor": table["tensor"], **shown, **losses})


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or np.isnan(value) else format(value, form).removesuffix(".0")


def _span(values: pd.Series) -> str:
    ends = dict.fromkeys(_number(value, ".1f") for value in (values.min(), values.max()))
    return " to ".join(ends)


def run_report(
    source: str | os.PathLike[str] | Mapping[str, WeightPath],
    tensors: str | Sequence[str] | None = None,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    n_walks: int = 3,
    sketch: int | Sketch | None = None,
    progress: bool = False,
) -> RunReport:
    """Trace every matrix of a run, and random walks with the same step lengths.

    Parameters
    ----------
    source : path, or mapping of names to paths of weights
        The folder of a run (:class:`embviz.runs.Run`), or one with checkpoints as :func:`read_checkpoints`
        takes them.
    tensors : glob pattern or patterns, optional
        Names; each must match. By default all matrices.
    seed : int
        Of autoencoders, layouts and walks.
    recipe : Recipe, optional
        By default that of :func:`embviz.trajectories.trace`, with fewer neighbours and smaller phases where
        there are fewer than a hundred snapshots: a quarter of them.
    n_walks : int
        Random walks a matrix.
    sketch : int or Sketch, optional
        Numbers to keep of a tensor that was stored in full; by default all.
    progress : bool
        Show bars.

    Returns
    -------
    RunReport
    """
    require("trajectories", "pymde", "hdbscan", purpose="tracing a run")
    if isinstance(source, Mapping):
        name = "run"
        paths = {one: source[one] for one in matching(list(source), tensors or "*")}
    else:
        name = Path(source).name
        paths = read_checkpoints(source, tensors, sketch=sketch, progress=progress)
    n_snapshots = min(len(path.steps) for path in paths.values())
    if n_snapshots < LEAST:
        raise ValueError(f"{n_snapshots} snapshots are too few to trace a run by: take {LEAST} at least")
    still = [name for name, path in paths.items() if (path.weights == path.weights[0]).all()]
    if len(still) == len(paths):
        raise ValueError(f"{', '.join(still[:3])}: never moved, so there is no path to trace")
    comparisons, rows = {}, []
    moving = {name: path for name, path in paths.items() if name not in still}
    for tensor, path in tqdm(moving.items(), desc="matrices", disable=not progress):
        chosen = recipe or _recipe_for(len(path.steps))
        comparisons[tensor] = through_nulls(path, chosen, seed=seed, n_draws=n_walks, shuffled=False)
        rows.append({"tensor": tensor, "n_snapshots": len(path.steps), **_row(comparisons[tensor], seed)})
    return RunReport(name, pd.DataFrame(rows), comparisons, tuple(still))


def _recipe_for(n_snapshots: int) -> Recipe:
    """The default one where there are snapshots enough for it."""
    size, neighbors = min(25, n_snapshots // 4), min(15, n_snapshots // 4)
    return Recipe(layout=Layout(n_neighbors=neighbors), clustering=Clustering(size, min(5, size)))


def _row(compared: NullComparison, seed: int) -> dict[str, float | None]:
    table = compared.table
    own, walks = table[table["kind"] == "data"].iloc[0], table[table["kind"] == "random walk"]
    among = compared.shape_among()
    validity = walks["dbcv"].dropna().astype(float)
    found = {
        "n_phases": own["n_phases"],
        "walk_phases": walks["n_phases"].mean(),
        "validity": own["dbcv"],
        "walk_validity": validity.mean() if len(validity) else None,
    }
    for prefix, name in (("", "data 0"), ("walk_", "random walk 0")):
        seeds, settings = _agreement(compared.traces[name], seed)
        found |= {f"{prefix}seeds_agree": seeds, f"{prefix}settings_agree": settings}
    shape = {"from_walks": compared.shape_left().value, "among_walks": among.value if among else None}
    return {**found, **shape, "loss_p": own["loss_p"]}


def _agreement(traced: Trace, seed: int) -> tuple[float | None, float | None]:
    """Of phases between two seeds of the layout alone, and between these with two least phases each."""
    layout, clustering = traced.recipe.layout, traced.recipe.clustering
    planes = {"first": traced.layout, "again": lay_out(traced.encoded, layout, seed=seed + 1)}
    least = max(2, clustering.min_cluster_size // 2)
    finer = replace(clustering, min_cluster_size=least, min_samples=min(clustering.min_samples, least))
    return (
        phase_grid(planes, [clustering], validity=False).stability,
        phase_grid(planes, [clustering, finer], validity=False).stability,
    )
