"""Claims that are judged over several base models: seeds from 1 on, draws of maps averaged within each."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, table_of
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part, Study
from book.resizing.experiments import bases, porting, recovery, states, widths
from book.resizing.experiments.bases import LAYER, MODELS, RMS, ROTARY, with_bases
from book.resizing.experiments.porting import GAUSSIAN, ROTATION, Port, PortedLoss, Treatment
from book.resizing.experiments.recovery import PROJECTION, SCRATCH, RecoveryRun
from book.resizing.experiments.tuned import PRINTED, TunedRun, run_of, tuned

Figures = Mapping[str, Finding]
Cells = Callable[[str], list[Cell]]
FAMILIES = ("rademacher", "sparse", "hadamard", "orthonormal")  # beside the Gaussian map of Algorithm 1
N_LAYER = 5  # base models with LayerNorm, where five are asked for


# --- porting: the rule as it is printed ---------------------------------------------------------------


def port_runs(preset: str, treatment: Treatment) -> list[Port]:
    """A base model with LayerNorm at its own width, one run per base model."""
    n_draws = porting.n_draws(preset)
    return [Port(base, treatment, n_draws=n_draws) for base in bases.fresh(preset)]


def _port_cells(preset: str) -> list[Cell]:
    runs = [run for rule in (PRINTED, Treatment()) for run in port_runs(preset, rule)]
    return with_bases([run.base for run in runs], [porting.ports.cell(run) for run in runs])


def _port_figures(preset: str) -> Figures:
    def errors(treatment: Treatment, kind: str) -> list[pd.Series]:
        tables = [table_of(porting.ports.cell(run)) for run in port_runs(preset, treatment)]
        return [table.loc[table["map"] == kind, "error"] for table in tables]

    positive = {"within": (0.0, math.inf)}
    return {
        "printed": bases.over_bases(errors(PRINTED, GAUSSIAN), preset, **positive),
        "printed_rotation": bases.over_bases(errors(PRINTED, ROTATION), preset, **positive),
    }


# --- gains --------------------------------------------------------------------------------------------

GAINS = ("dropped", "projected", "dense")


def gain_runs(preset: str, rule: str) -> list[PortedLoss]:
    """The base models with RMSNorm, their gains treated by a rule."""
    first = porting.gain_run(preset, rule)
    return [dataclasses.replace(first, base=base) for base in bases.fresh(preset, RMS)]


def gain_tuned(preset: str, rule: str) -> list[TunedRun]:
    """The same at half the width, fine-tuned."""
    treatment = Treatment(gains=porting.GAIN_RULES[rule])
    return [run_of(preset, base, 0.5, treatment=treatment) for base in bases.fresh(preset, RMS)]


def _gain_cells(preset: str) -> list[Cell]:
    ported = [porting.ported_losses.cell(run) for rule in GAINS for run in gain_runs(preset, rule)]
    after = [tuned.cell(run) for rule in GAINS for run in gain_tuned(preset, rule)]
    return with_bases(bases.fresh(preset, RMS), [*ported, *after])


def _gain_figures(preset: str) -> Figures:
    def ported(first: str, second: str, quarters: int) -> Finding:
        pairs = zip(gain_runs(preset, first), gain_runs(preset, second), strict=True)
        return bases.over_bases(
            [porting.losses(one, quarters) - porting.losses(two, quarters) for one, two in pairs], preset
        )

    def after(first: str, second: str) -> Finding:
        ends = [lost(gain_tuned(preset, rule)) for rule in (first, second)]
        return bases.over_bases(ends[0] - ends[1], preset)

    return {
        "dropped_projected_bases": ported("dropped", "projected", 4),
        "dropped_projected_half_bases": ported("dropped", "projected", 2),
        "dropped_dense_half_bases": ported("dropped", "dense", 2),
        "dropped_dense_tuned": after("dropped", "dense"),
    }


def lost(runs: Sequence[TunedRun], *, end: bool = True) -> np.ndarray:
    """Nats above the original after fine-tuning, or right after the port, one number per run."""
    tables = [table_of(tuned.cell(run)) for run in runs]
    place = -1 if end else 0
    return np.array([float(t["log_perplexity"].iloc[place] - t["original"].iloc[place]) for t in tables])


# --- heads, and Algorithm 1 from end to end -----------------------------------------------------------


def ours(preset: str, ratio: float, treatment: str = PROJECTION, share: float = 1) -> list[RecoveryRun]:
    """Our repairs, heads kept, one run per base model; or another way there; or a share of the updates."""
    n_steps = round(share * recovery.N_STEPS[preset])
    first = recovery.run_of(preset, (ratio,), treatment, n_steps=n_steps)
    return [dataclasses.replace(first, base=base, seed=base.seed) for base in bases.fresh(preset)]


def their(preset: str, ratio: float, **options: Any) -> list[TunedRun]:
    """The base models with LayerNorm under other rules."""
    return [run_of(preset, base, ratio, **options) for base in bases.fresh(preset)]


PLAIN = Treatment(attention="plain")
AS_PRINTED: Mapping[str, Any] = {"treatment": PRINTED, "family": "gaussian", "as_drawn": True}
SHARES = {"half": 0.5, "0.75": 0.75}


def _head_cells(preset: str) -> list[Cell]:
    cells = []
    for ratio in SHARES.values():
        cells += [recovery.recovery.cell(run) for run in ours(preset, ratio)]
        for scratch in (False, True):
            cells += [tuned.cell(run) for run in their(preset, ratio, treatment=PLAIN, scratch=scratch)]
    return with_bases(bases.fresh(preset), cells)


def _ends(runs: Sequence[RecoveryRun]) -> np.ndarray:
    return recovery.lost_at([recovery.curves([run], stored=False) for run in runs], end=True)


def _head_figures(preset: str) -> Figures:
    found: dict[str, Finding] = {}
    for name, ratio in SHARES.items():
        kept = _ends(ours(preset, ratio))
        plain, scratch = (
            lost(their(preset, ratio, treatment=PLAIN, scratch=scratch)) for scratch in (False, True)
        )
        null = {"scratch": float((scratch - kept).mean())}
        found[f"plain_kept_tuned_{name}"] = bases.over_bases(plain - kept, preset, controls=null)
    return found


def _end_cells(preset: str) -> list[Cell]:
    cells = []
    for ratio in SHARES.values():
        for scratch in (False, True):
            cells += [tuned.cell(run) for run in their(preset, ratio, scratch=scratch, **AS_PRINTED)]
        cells += [recovery.recovery.cell(run) for run in ours(preset, ratio)]
    for family in FAMILIES:
        cells += [tuned.cell(run) for run in their(preset, 0.5, **{**AS_PRINTED, "family": family})]
    cells += [tuned.cell(run) for run in their(preset, 0.5, family="gaussian")]
    return with_bases(bases.fresh(preset), cells)


def _end_figures(preset: str) -> Figures:
    found: dict[str, Finding] = {}
    for name, ratio in SHARES.items():
        scratch = lost(their(preset, ratio, scratch=True, **AS_PRINTED))
        after = lost(their(preset, ratio, **AS_PRINTED))
        found |= {
            f"printed_{name}": bases.over_bases(after, preset, controls={"scratch": float(scratch.mean())}),
            f"scratch_printed_{name}": bases.over_bases(scratch - after, preset),
        }
    return found


# --- recovery -----------------------------------------------------------------------------------------

RECOVERED = {"half": 0.5, "0.75": 0.75, "double": 2.0}
FEWER_OR_MORE = {100: 0.25, 200: 0.5, 800: 2.0}  # annealed updates at `laptop`, as shares of the 400


def _recovery_cells(preset: str) -> list[Cell]:
    runs = [
        run
        for ratio in RECOVERED.values()
        for how in (PROJECTION, SCRATCH)
        for run in ours(preset, ratio, how)
    ]
    runs += [run for longer in longer_runs(preset).values() for run in longer]
    runs += [
        run
        for share, how in itertools.product(FEWER_OR_MORE.values(), (PROJECTION, SCRATCH))
        for run in ours(preset, 0.5, how, share)
    ]
    return with_bases(bases.fresh(preset), [recovery.recovery.cell(run) for run in runs])


def longer_runs(preset: str) -> dict[int, list[RecoveryRun]]:
    """Half the width, annealed over more updates, as two other claims have it; by updates at `laptop`."""
    width = bases.base(preset).shape.embedding_dim
    law = [widths.run_of(preset, width, base.seed) for base in bases.fresh(preset)]
    return {1_200: law, 1_600: architecture_runs(preset, LAYER)}


def _recovery_figures(preset: str) -> Figures:
    found = {}
    tables = {
        (ratio, how): [recovery.curves([run], stored=False) for run in ours(preset, ratio, how)]
        for ratio in RECOVERED.values()
        for how in (PROJECTION, SCRATCH)
    }
    for name, ratio in RECOVERED.items():
        own, scratch = (recovery.lost_at(tables[ratio, how], end=True) for how in (PROJECTION, SCRATCH))
        null = {"scratch": float(scratch.mean())}
        found[f"after_400_{name}"] = bases.over_bases(own, preset, controls=null)
    found["after_100_half"] = bases.over_bases(
        _ends(ours(preset, 0.5, PROJECTION, FEWER_OR_MORE[100])), preset
    )
    found["after_1200_half"] = bases.over_bases(_ends(longer_runs(preset)[1_200]), preset)
    half = {how: recovery.lost_at(tables[0.5, how], end=True) for how in (PROJECTION, SCRATCH)}
    return found | {
        "lost_half_bases": bases.over_bases(recovery.lost_at(tables[0.5, PROJECTION], end=False), preset),
        "scratch_half_bases": bases.over_bases(half[SCRATCH] - half[PROJECTION], preset),
    }


COMPARED = (LAYER, bases.PERI, bases.SPHERE)


def architecture_runs(preset: str, architecture: str) -> list[RecoveryRun]:
    """Half the width of an architecture, one run per base model, as long as the first ones."""
    first = recovery.run_of(preset, (0.5,), architecture=architecture, n_steps=recovery.N_LONG[preset])
    return [
        dataclasses.replace(first, base=base, seed=base.seed) for base in bases.fresh(preset, architecture)
    ]


def _architecture_cells(preset: str) -> list[Cell]:
    """Base model by base model; weights are kept of those that other claims read, not of the two compared."""
    each = zip(*(architecture_runs(preset, one) for one in COMPARED), strict=True)
    runs = [run for of_seed in each for run in of_seed]
    return with_bases(bases.fresh(preset), [recovery.recovery.cell(run) for run in runs])


def _architecture_figures(preset: str) -> Figures:
    tables = {
        one: [recovery.curves([run], stored=False) for run in architecture_runs(preset, one)]
        for one in COMPARED
    }
    corpus, found = bases.base(preset).text.corpus, {}
    for architecture, name in ((bases.PERI, "peri"), (bases.SPHERE, "normalized")):
        ratio = recovery.ratio_of_steps(tables[architecture], tables[LAYER], corpus)
        found[f"{name}_bases"] = dataclasses.replace(ratio, repeats=MODELS)
    return found


def staged_runs(preset: str, ratios: Sequence[float]) -> list[list[RecoveryRun]]:
    """One way to a quarter of the width, two draws a base model."""
    n = 3 if preset == "quick" else N_LAYER
    first = recovery.run_of(preset, ratios)
    return [
        [dataclasses.replace(first, base=base, seed=base.seed + 10 * draw) for draw in range(2)]
        for base in bases.fresh(preset, n=n)
    ]


STAGED, AT_ONCE = recovery.STAGES["quarter"], recovery.STAGES["quarter"][-1:]


def _staged_cells(preset: str) -> list[Cell]:
    runs = [run for way in (STAGED, AT_ONCE) for of_base in staged_runs(preset, way) for run in of_base]
    return with_bases([run.base for run in runs], [recovery.recovery.cell(run) for run in runs])


def _staged_figures(preset: str) -> Figures:
    ends = [[_ends(of_base) for of_base in staged_runs(preset, way)] for way in (STAGED, AT_ONCE)]
    return {"staged_bases": bases.over_bases([a - b for a, b in zip(*ends, strict=True)], preset)}


# --- studies ------------------------------------------------------------------------------------------


def _besides(*lists: Cells) -> Cells:
    return lambda preset: [cell for cells in lists for cell in cells(preset)]


NEEDS = "the paper's setting needs a GPU for its base models"
STUDIES: dict[str, Study] = {
    "resizing.porting": Study(
        porting.porting_cells,
        porting.components_over_draws,
        beside=porting.more_porting_cells,
        parts=(Part(_port_cells, _port_figures),),
    ),
    "resizing.gains": Study(_gain_cells, _gain_figures, beside=porting.gains_cells),
    "resizing.heads": Study(_head_cells, _head_figures, beside=porting.heads_cells),
    "resizing.perplexity": Study(
        _recovery_cells,
        _recovery_figures,
        beside=_besides(
            lambda preset: recovery.cells_of(recovery.sweep(preset)), recovery.beside, states.cells
        ),
    ),
    "resizing.architecture": Study(
        lambda preset: recovery.cells_of(recovery.architecture_runs(preset)),
        recovery.without_centering,
        parts=(Part(_architecture_cells, _architecture_figures),),
    ),
    "resizing.staged": Study(
        _staged_cells, _staged_figures, beside=lambda preset: recovery.cells_of(recovery.staged_runs(preset))
    ),
    "resizing.end_to_end": Study(_end_cells, _end_figures, NEEDS),
}
