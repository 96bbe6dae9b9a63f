"""Ports that are fine-tuned under other rules than ours: Algorithm 1 as printed, plain heads, dense gains.

Each run carries a base model by a family of maps and a treatment, and trains it as
:mod:`book.resizing.experiments.recovery` trains ours, on the same batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.resizing import rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases
from book.resizing.experiments.bases import LAYER, RMS, Base, BaseRun, over_bases, with_bases
from book.resizing.experiments.porting import (
    GAIN_RULES,
    PLAIN,
    PRINTED,
    Treatment,
    gain_runs,
    losses,
    ported_losses,
)
from book.resizing.experiments.recovery import RecoveryRun, base_runs, fine_tune, losses_at_end, recovery
from embviz import projections


@dataclass(frozen=True)
class TunedRun:
    """A base model carried under a treatment, and fine-tuned; its seed is of the map and the batches."""

    base: BaseRun
    ratio: float  # m / d
    treatment: Treatment = field(default_factory=Treatment)
    family: str = "orthonormal"
    as_drawn: bool = False  # entries of variance 1 / m, and norms that divide by the new width
    scratch: bool = False  # the shape alone: its weights are drawn at random
    optimizer: str = "adamw"
    seed: int = 0
    n_steps: int = 400
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.ratio <= 0 or self.n_steps < 1 or self.optimizer != "adamw":
            raise ValueError(f"a ratio above 0, an update at least, and AdamW are needed: {self}")

    @property
    def width(self) -> int:
        """m."""
        return max(1, round(self.ratio * self.base.shape.embedding_dim))


@experiment("resizing.tuned")
def tuned(config: TunedRun) -> pd.DataFrame:
    """Carry, fine-tune, and score on the way.

    Returns
    -------
    DataFrame
        step, log_perplexity (nats a token of held-out text), and in every row original, the base model's.
    """
    base = bases.load(config.base)
    model = start(base, config)
    run = RecoveryRun(
        config.base,
        (config.ratio,),
        seed=config.seed,
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
    )
    scores = list(fine_tune(model, base, run, 0, config.n_steps))
    table = pd.DataFrame(scores, columns=["step", "log_perplexity"])
    table = table.astype({"step": "int32", "log_perplexity": "float32"})
    table["original"] = np.float32(base.log_perplexity)
    table.attrs["data"] = {config.base.text.corpus: base.streams.checksum}
    return table


def start(base: Base, config: TunedRun) -> Decoder:
    """The model before its first update."""
    d, m = config.base.shape.embedding_dim, config.width
    scaling: projections.Scaling = "isometric" if config.as_drawn else "unit"
    drawn = projections.draw(config.family, m, d, seed=config.seed, scaling=scaling)
    energy = m / d if config.as_drawn else None
    carried = config.treatment.carry(base.model, m, drawn, config.seed, energy).model
    return rules.from_scratch(carried, m, config.seed) if config.scratch else carried


# --- which ------------------------------------------------------------------------------------------

AS_PRINTED: Mapping[str, Any] = {"treatment": PRINTED, "family": "gaussian", "as_drawn": True}
SHARES = {"half": 0.5, "0.75": 0.75}


def runs(preset: str, ratio: float, architecture: str = LAYER, **options: Any) -> list[TunedRun]:
    """Base models of an architecture under other rules, a run each with the base model's seed."""
    rate, n_steps = (1e-2, 40) if preset == "quick" else (1e-3, 400)
    fields = {"n_steps": n_steps, "learning_rate": rate, **options}
    return [TunedRun(base, ratio, seed=base.seed, **fields) for base in bases.fresh(preset, architecture)]


def lost(of: Sequence[TunedRun], *, end: bool = True) -> np.ndarray:
    """Nats above the original after fine-tuning, or right after the port, one number per run."""
    tables = [table_of(tuned.cell(run)) for run in of]
    place = -1 if end else 0
    return np.array([float(t["log_perplexity"].iloc[place] - t["original"].iloc[place]) for t in tables])


def gain_tuned(rule: str, preset: str = bases.SHOWN) -> list[TunedRun]:
    """Base models with RMSNorm at half the width, their gains treated by a rule."""
    return runs(preset, 0.5, RMS, treatment=Treatment(gains=GAIN_RULES[rule]))


def _gain_cells(preset: str) -> list[Cell]:
    ported = [ported_losses.cell(run) for rule in GAIN_RULES for run in gain_runs(rule, preset)]
    after = [tuned.cell(run) for rule in GAIN_RULES for run in gain_tuned(rule, preset)]
    return with_bases(bases.fresh(preset, RMS), [*ported, *after])


def _gains(preset: str) -> dict[str, Finding]:
    def ported(other: str, quarters: int) -> Finding:
        pairs = zip(gain_runs("dropped", preset), gain_runs(other, preset), strict=True)
        return over_bases([losses(one, quarters) - losses(two, quarters) for one, two in pairs], preset)

    dropped, dense = (lost(gain_tuned(rule, preset)) for rule in ("dropped", "dense"))
    return {
        "dropped_projected_bases": ported("projected", 4),
        "dropped_projected_half_bases": ported("projected", 2),
        "dropped_dense_half_bases": ported("dense", 2),
        "dropped_dense_tuned": over_bases(dropped - dense, preset),
    }


def _head_cells(preset: str) -> list[Cell]:
    cells = []
    for ratio in SHARES.values():
        cells += [recovery.cell(run) for run in base_runs(preset, (ratio,))]
        for scratch in (False, True):
            cells += [tuned.cell(run) for run in runs(preset, ratio, treatment=PLAIN, scratch=scratch)]
    return with_bases(bases.fresh(preset), cells)


def _heads(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for name, ratio in SHARES.items():
        kept = losses_at_end(base_runs(preset, (ratio,)))
        plain, scratch = (
            lost(runs(preset, ratio, treatment=PLAIN, scratch=scratch)) for scratch in (False, True)
        )
        null = {"scratch": float((scratch - kept).mean())}
        found[f"plain_kept_tuned_{name}"] = over_bases(plain - kept, preset, controls=null)
    return found


def _printed_cells(preset: str) -> list[Cell]:
    cells = []
    for ratio, scratch in itertools.product(SHARES.values(), (False, True)):
        cells += [tuned.cell(run) for run in runs(preset, ratio, scratch=scratch, **AS_PRINTED)]
    cells += [recovery.cell(run) for ratio in SHARES.values() for run in base_runs(preset, (ratio,))]
    return with_bases(bases.fresh(preset), cells)


def _end_to_end(preset: str) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for name, ratio in SHARES.items():
        scratch, after = (
            lost(runs(preset, ratio, scratch=scratch, **AS_PRINTED)) for scratch in (True, False)
        )
        null = {"scratch": float(scratch.mean())}
        found[f"printed_{name}"] = over_bases(after, preset, controls=null)
        found[f"scratch_printed_{name}"] = over_bases(scratch - after, preset)
    return found


STUDIES: dict[str, Study] = {
    "resizing.gains": Study(_gain_cells, _gains),
    "resizing.heads": Study(_head_cells, _heads),
    "resizing.end_to_end": Study(
        _printed_cells, _end_to_end, "the paper's setting needs a GPU for its base models"
    ),
}
