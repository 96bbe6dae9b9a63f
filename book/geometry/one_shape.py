"""Stored drawings behind the chapter on one shape or many: matrices beside the embedding and both nulls."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import pandas as pd

from book.geometry.experiments import layout_shapes
from book.geometry.experiments import trajectory_findings as found
from book.geometry.experiments import trajectory_runs as runs
from book.geometry.experiments.trajectory_recordings import (
    DECAY,
    EMBEDDING,
    JOINT,
    PARAMETERS,
    STORIES,
    TrajectoryRun,
)
from embviz.ledger import findings
from embviz.view import say
from embviz.view.text_titles import titled

KINDS = tuple(PARAMETERS)
OWN, OTHER, WALKS = AGAINST = ("its own run", "another run", "random walks")
MEASURES = {  # columns of trajectory_findings.shape_table, by what they are held against, and the layout
    "disparity to the embedding": ({OWN: "disparity", OTHER: "between_runs", WALKS: "walks"}, "pymde"),
    "the same, principal components": ({OWN: "disparity", OTHER: "between_runs"}, "pca"),
    "two arms": ({OWN: "two_arms", WALKS: "two_arms_walks"}, "pymde"),
    "to its own walks": ({OWN: "own_walks", WALKS: "among_walks"}, "pymde"),
}


@functools.cache
def groups() -> dict[str, list[TrajectoryRun]]:
    """Stored runs by text and variant, two seeds or more."""
    stored: dict[str, list[TrajectoryRun]] = {}
    for run in runs.stored_runs().values():
        if run.variant != DECAY:
            stored.setdefault(run.name.rpartition(", ")[0], []).append(run)
    return stored


def note() -> str:
    """Data, sizes and seeds, for a caption."""
    own = groups()[STORIES]
    setting = own[0].setting
    return (
        f"{titled(own[0].source)}; {setting.n_layers} layers of width {setting.embedding_dim}, "
        f"{setting.n_steps:,} steps, {len(own)} seeds."
    )


@functools.cache
def shapes(group: str, method: str = "pymde") -> pd.DataFrame:
    """Of the matrices of a group of runs, what :func:`.trajectory_findings.shape_table` has."""
    table = found.shape_table(groups()[group], method)
    return table[~table["tensor"].isin((EMBEDDING, JOINT))]


def compared() -> pd.DataFrame:
    """Every kind of matrix beside its nulls: measure, runs, kind, seed, against (of AGAINST), value."""
    parts = []
    for group in groups():
        for measure, (columns, method) in MEASURES.items():
            means = shapes(group, method).groupby(["kind", "seed"], sort=False)[list(columns.values())].mean()
            long = (
                means.astype(float)
                .set_axis(list(columns), axis=1)
                .melt(ignore_index=False, var_name="against")
            )
            parts.append(long.reset_index().assign(measure=measure, runs=group))
    return pd.concat(parts, ignore_index=True)


def over_layouts() -> pd.DataFrame:
    """One run under five layouts, means over matrices: layout, against (of AGAINST), seed, disparity.

    Empty where no seed of the layouts is stored.
    """
    table = layout_shapes.shapes("laptop")
    named = {"disparity": OWN, "between_runs": OTHER, "walks": WALKS}
    means = table.groupby(["layout", "against", "seed"], sort=False)["value"].mean()
    return means.rename("disparity").reset_index().replace({"against": named})


def squares() -> pd.DataFrame:
    """Disparities between all tensors' drawings of the first run: against, row, column, disparity."""
    first, second, *_ = groups()[STORIES]
    tables = {
        "the same run": found.disparity_matrix(first),
        "another seed": found.disparity_matrix(first, others=second),
        "random walks": found.disparity_matrix(first, path="random walk 0"),
    }
    parts = [
        square.rename_axis("row")
        .reset_index()
        .melt("row", var_name="column", value_name="disparity")
        .assign(against=against)
        for against, square in tables.items()
    ]
    return pd.concat(parts, ignore_index=True)


def ratio(group: str, null: str, kinds: Sequence[str] = KINDS) -> findings.Finding:
    """Disparity to the embedding over that of a null ("between_runs" or "walks"), seed by seed."""
    table = shapes(group)
    means = table[table["kind"].isin(kinds)].groupby("seed")[["disparity", null]].mean()
    return findings.over_seeds((means["disparity"] / means[null]).to_numpy(), within=(0, math.inf))


def group_table() -> pd.DataFrame:
    """One row per group of runs, over kinds that all have: disparity in the run, its ratios to both nulls."""
    kinds = [kind for kind in KINDS if all(kind in own[0].kinds for own in groups().values())]
    rows = {}
    for group, own in groups().items():
        drawn, flat = (shapes(group, method) for method in ("pymde", "pca"))
        means = [table.loc[table["kind"].isin(kinds), "disparity"].mean() for table in (drawn, flat)]
        ratios = [
            str(say("{r:.2f} ({r:interval .2f})", r=ratio(group, null, kinds)))
            for null in ("between_runs", "walks")
        ]
        rows[group] = (str(len(own)), f"{means[0]:.3f}", *ratios, f"{means[1]:.3f}")
    columns = ["seeds", "to the embedding", "/ another run's", "/ between walks", "principal components"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.rename_axis(f"means over {', '.join(kinds)}")
