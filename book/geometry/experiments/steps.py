"""Does each step of training partly undo the one before it? Cosines of successive steps of the embedding.

Source: geometry paper, sections 2.3 and 2.4, which name this as what projecting the gradient removes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, Members
from book.geometry.experiments.steering import BASE, CONTROLS, NEAR, at_preset
from embviz.ledger.cells import Cell, experiment, read
from embviz.ledger.findings import Finding, over_seeds
from embviz.ledger.studies import Study

RUNS = {"baseline": BASE, "near_nyquist": NEAR, "subspace": CONTROLS["subspace"]}
N_SEEDS = {"quick": 2, "laptop": 3, "paper": 3}


@dataclasses.dataclass(frozen=True)
class Steps:
    """A run of one seed, watched until it has memorized, or for so many updates."""

    run: GrokkingRun
    n_updates: int = 300


@experiment("geometry.steps")
def steps(config: Steps) -> pd.DataFrame:
    """Cosine of each step of the residues' embedding with the step before it, until 99% are memorized.

    Returns
    -------
    DataFrame
        update (from 2 on), quantity ("gradient": what the optimizer is given; "update": how the embedding
        moves), cosine.
    """
    members, p = Members(config.run, [config.run.first_seed]), config.run.p
    rows: list[tuple[int, str, float]] = []
    last: dict[str, Tensor] = {}
    before = members.embeddings[0, :p].detach().clone()

    def after_step(*_: Any) -> None:
        nonlocal before
        now = members.embeddings[0, :p].detach().clone()
        moved = {"gradient": members.embedding_gradients()[0, :p].detach().clone(), "update": now - before}
        before = now
        for name, tensor in moved.items():
            if name in last:
                cosine = torch.nn.functional.cosine_similarity(tensor.flatten(), last[name].flatten(), dim=0)
                rows.append((members.step + 1, name, float(cosine)))
        last.update(moved)

    members.adam.register_step_post_hook(after_step)
    for epoch in range(1, config.run.n_epochs + 1):
        _, right = members.train_epoch(epoch)
        if float(right[0]) >= MEMORIZED or members.step >= config.n_updates:
            break
    return pd.DataFrame(rows, columns=["update", "quantity", "cosine"])


def cells_of(preset: str) -> dict[str, list[Cell]]:
    """One cell per seed, by name of the run."""
    return {
        name: [steps.cell(Steps(at_preset(run, preset, seed))) for seed in range(N_SEEDS[preset])]
        for name, run in RUNS.items()
    }


def mean_cosines(preset: str) -> pd.DataFrame:
    """Stored cosines, their mean over a run's updates: run, seed, quantity, cosine."""
    parts = []
    for name, cells in cells_of(preset).items():
        for cell in cells:
            means = read(cell)[0].groupby("quantity", as_index=False)["cosine"].mean()
            parts.append(means.assign(run=name, seed=cell.config.run.first_seed))
    return pd.concat(parts, ignore_index=True)


def _findings(preset: str) -> dict[str, Finding]:
    table = mean_cosines(preset).sort_values("seed")
    of = {key: part["cosine"].to_numpy(float) for key, part in table.groupby(["run", "quantity"])}
    null = float(np.mean(of["subspace", "gradient"] - of["baseline", "gradient"]))
    return {
        "baseline": over_seeds(of["baseline", "gradient"], within=(-1, 1)),
        "gain": over_seeds(
            of["near_nyquist", "gradient"] - of["baseline", "gradient"],
            controls={"subspace": null},
            within=(-2, 2),
        ),
        "near_nyquist": over_seeds(of["near_nyquist", "gradient"], within=(-1, 1)),
        "baseline_update": over_seeds(of["baseline", "update"], within=(-1, 1)),
        "near_nyquist_update": over_seeds(of["near_nyquist", "update"], within=(-1, 1)),
    }


STUDIES = {
    "geometry.undoing": Study(
        lambda preset: [cell for cells in cells_of(preset).values() for cell in cells], _findings
    )
}
