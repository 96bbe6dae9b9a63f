"""Do successive gradients of the embedding point against each other, and does a projection change that?

Source: geometry paper, sections 2.3 and 2.4, which name this as what projecting the gradient removes.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, Members
from book.geometry.experiments.steering import BASE, CONTROLS, GROKKED, NEAR, at_preset
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study
from book.projected import Prescribed

RUNS = {"baseline": BASE, "near_nyquist": NEAR, "subspace": CONTROLS["subspace"]}
WINDOWS = (PLATEAU, LEARNING, MEMORY) = ("plateau", "learning", "memorized")
LEARNS = 0.1  # training accuracy at which the plateau ends
LEAST, MOST = 20, 300  # updates after memorization: near-Nyquist modes grok within 20, and some at once
SEEDS = {"baseline": range(20, 23), "near_nyquist": range(20, 23), "subspace": range(20, 21)}


@dataclasses.dataclass(frozen=True)
class Steps:
    """A run of one seed without batches, recorded until it has grokked."""

    run: GrokkingRun


@experiment("geometry.steps", version=2)
def steps(config: Steps) -> pd.DataFrame:
    """Cosine of each gradient of the residues' embedding with the one before it.

    The plateau ends with the first epoch of 10% training accuracy, learning with the first of 99%; what
    follows is recorded until 95% validation accuracy, for at least 20 and at most 300 updates.

    Returns
    -------
    DataFrame
        update (from 2 on), window (of WINDOWS), quantity ("gradient": what the optimizer is given; without
        a projection also "kept" and "deleted", its part in the near-Nyquist modes and the rest), cosine.
    """
    members, p = Members(config.run, [config.run.first_seed]), config.run.p
    kept = None if any(members.projections) else Prescribed(NEAR.modes)
    rows: list[tuple[int, str, str, float]] = []
    window, n_after, grokked = PLATEAU, 0, False
    last: dict[str, Tensor] = {}
    for epoch in range(1, config.run.n_epochs + 1):
        (frame,) = members.frames(epoch)
        if window == PLATEAU and frame.train_accuracy >= LEARNS:
            window = LEARNING
        if window == LEARNING and frame.train_accuracy >= MEMORIZED:
            window = MEMORY
        gradient = members.embedding_gradients()[0, :p].detach().clone()
        parts = {"gradient": gradient}
        if kept is not None:
            parts |= {"kept": kept.apply(gradient), "deleted": gradient - kept.apply(gradient)}
        for name, part in parts.items():
            if name in last:
                cosine = torch.nn.functional.cosine_similarity(part.flatten(), last[name].flatten(), dim=0)
                rows.append((members.step, window, name, float(cosine)))
        last = parts
        grokked = grokked or (frame.validation_accuracy or 0.0) >= GROKKED
        n_after += window == MEMORY
        if n_after >= MOST or (grokked and n_after >= LEAST):
            break
    table = pd.DataFrame(rows, columns=["update", "window", "quantity", "cosine"])
    return table.astype({"update": np.int16, "cosine": np.float32})


def cells_of(preset: str) -> dict[str, list[Cell]]:
    """One cell per seed, by name of the run; none below the paper's size, where runs have batches."""
    if preset != "paper":
        return {}
    return {
        name: [steps.cell(Steps(at_preset(run, preset, seed))) for seed in SEEDS[name]]
        for name, run in RUNS.items()
    }


def cosines(preset: str = "paper") -> pd.DataFrame:
    """Stored cosines: run, seed, and the columns of :func:`steps`."""
    return pd.concat(
        [
            read(cell)[0].assign(run=name, seed=cell.config.run.first_seed)
            for name, cells in cells_of(preset).items()
            for cell in cells
        ],
        ignore_index=True,
    )


def _findings(preset: str) -> dict[str, Finding]:
    means = cosines(preset).groupby(["window", "run", "quantity", "seed"])["cosine"].mean()
    found: dict[str, Finding] = {}
    for window in (LEARNING, MEMORY):
        of = {key: part.to_numpy(float) for key, part in means[window].groupby(["run", "quantity"])}
        base = of["baseline", "gradient"]
        subspace = of["subspace", "gradient"]
        found |= {
            f"baseline_{window}": over_seeds(base, within=(-1, 1)),
            f"gain_{window}": over_seeds(
                of["near_nyquist", "gradient"] - base,
                controls={"subspace": float((subspace - base[: len(subspace)]).mean())},
                within=(-2, 2),
            ),
            f"near_nyquist_{window}": over_seeds(of["near_nyquist", "gradient"], within=(-1, 1)),
        }
        if window == LEARNING:
            found |= {
                f"{what}_learning": over_seeds(of["baseline", what], within=(-1, 1))
                for what in ("kept", "deleted")
            }
    return found


STUDIES = {
    "geometry.undoing": Study(
        lambda preset: [cell for cells in cells_of(preset).values() for cell in cells], _findings
    )
}
