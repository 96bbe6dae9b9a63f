"""Figures of the paper's claims over several base models, none of which the first verdicts were taken from.

The first figures had one base model a kind, and draws of maps on it were called repetitions. Here draws are
averaged within each base model, and what is repeated are base models: seeds from 1 on.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import Cell, table_of
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part, Study
from book.resizing.experiments import bases, geometry, growing, porting, quantized, recovery, widths
from book.resizing.experiments.bases import LAYER, MODELS, RMS, ROTARY, with_bases
from book.resizing.experiments.porting import GAUSSIAN, ROTATION, Port, PortedLoss, Treatment
from book.resizing.experiments.recovery import PROJECTION, SCRATCH, RecoveryRun
from book.resizing.experiments.tuned import PRINTED, TunedRun, run_of, tuned

Figures = Mapping[str, Finding]
Cells = Callable[[str], list[Cell]]
FAMILIES = ("rademacher", "sparse", "hadamard", "orthonormal")  # beside the Gaussian map of Algorithm 1
N_LAYER = 5  # base models with LayerNorm, where five are asked for


def over_bases(values: Iterable[Any], preset: str, **more: Any) -> Finding:
    """One number per base model, draws averaged within each; and its interval over base models."""
    corpus = bases.base(preset).text.corpus
    return over_seeds([float(np.mean(one)) for one in values], repeats=MODELS, corpus=corpus, **more)


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
        "printed": over_bases(errors(PRINTED, GAUSSIAN), preset, **positive),
        "printed_rotation": over_bases(errors(PRINTED, ROTATION), preset, **positive),
        "repaired_rotation": over_bases(errors(Treatment(), ROTATION), preset, **positive),
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
        return over_bases(
            [porting.losses(one, quarters) - porting.losses(two, quarters) for one, two in pairs], preset
        )

    def after(first: str, second: str) -> Finding:
        ends = [lost(gain_tuned(preset, rule)) for rule in (first, second)]
        return over_bases(ends[0] - ends[1], preset)

    return {
        "dropped_projected_bases": ported("dropped", "projected", 4),
        "dropped_projected_half_bases": ported("dropped", "projected", 2),
        "dropped_dense_half_bases": ported("dropped", "dense", 2),
        "dropped_dense_tuned": after("dropped", "dense"),
        "dropped_projected_tuned": after("dropped", "projected"),
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
        found[f"plain_kept_tuned_{name}"] = over_bases(plain - kept, preset, controls=null)
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
        printed, repaired = their(preset, ratio, **AS_PRINTED), ours(preset, ratio)
        after = lost(printed)
        found |= {
            f"printed_{name}": over_bases(after, preset, controls={"scratch": float(scratch.mean())}),
            f"printed_lost_{name}": over_bases(lost(printed, end=False), preset),
            f"repaired_{name}": over_bases(_ends(repaired), preset),
            f"printed_repaired_{name}": over_bases(after - _ends(repaired), preset),
            f"scratch_printed_{name}": over_bases(scratch - after, preset),
        }
    for family in FAMILIES:
        runs = their(preset, 0.5, **{**AS_PRINTED, "family": family})
        found[f"printed_{family}_half"] = over_bases(lost(runs), preset)
    return found | {"repaired_gaussian_half": over_bases(lost(their(preset, 0.5, family="gaussian")), preset)}


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
    beside = [tuned.cell(run) for run in adafactor_runs(preset)]
    return with_bases(bases.fresh(preset), [*(recovery.recovery.cell(run) for run in runs), *beside])


def longer_runs(preset: str) -> dict[int, list[RecoveryRun]]:
    """Half the width, annealed over more updates, as two other claims have it; by updates at `laptop`."""
    width = bases.base(preset).shape.embedding_dim
    law = [widths.run_of(preset, width, base.seed) for base in bases.fresh(preset)]
    return {1_200: law, 1_600: architecture_runs(preset, LAYER)}


def adafactor_runs(preset: str) -> list[TunedRun]:
    """Half the width under Adafactor, the other optimizer that the text names."""
    rate = {"learning_rate": 1e-2}  # its updates are relative; 1e-2 is what PyTorch begins with
    return their(preset, 0.5, optimizer="adafactor", **rate)


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
        found[f"after_400_{name}"] = over_bases(own, preset, controls=null)
    for n_steps, share in FEWER_OR_MORE.items():
        for kind, how in (("after", PROJECTION), ("scratch", SCRATCH)):
            found[f"{kind}_{n_steps}_half"] = over_bases(_ends(ours(preset, 0.5, how, share)), preset)
    for n_steps, runs in longer_runs(preset).items():
        found[f"after_{n_steps}_half"] = over_bases(_ends(runs), preset)
    half = {how: recovery.lost_at(tables[0.5, how], end=True) for how in (PROJECTION, SCRATCH)}
    return found | {
        "lost_half_bases": over_bases(recovery.lost_at(tables[0.5, PROJECTION], end=False), preset),
        "scratch_half_bases": over_bases(half[SCRATCH] - half[PROJECTION], preset),
        "adafactor_half": over_bases(lost(adafactor_runs(preset)), preset),
        "adamw_half": over_bases(half[PROJECTION], preset),
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
    return {"staged_bases": over_bases([a - b for a, b in zip(*ends, strict=True)], preset)}


# --- growing, rotary positions, quantization ----------------------------------------------------------


def _grow_cells(preset: str) -> list[Cell]:
    pairs = zip(
        *(growing.fresh_runs(preset, how) for how in (growing.ORTHOGONAL, growing.SCRATCH)), strict=True
    )
    return [growing.growing.cell(run) for pair in pairs for run in pair]


def _grow_figures(preset: str) -> Figures:
    own, corpus = growing.savings(preset, fresh=True), bases.base(preset).text.corpus
    most = (-math.inf, 1.0)
    return {
        "saved_fresh": over_seeds([saving.steps for saving in own], corpus=corpus, within=most),
        "saved_flops_fresh": over_seeds([saving.products for saving in own], corpus=corpus, within=most),
        "ahead_fresh": over_seeds([saving.ahead for saving in own], corpus=corpus),
    }


def rotary_runs(preset: str, quarters: int) -> list[porting.RotaryBases]:
    """All rotary bases within heads, one run per base model."""
    first = porting.rotary_run(preset, quarters)
    return [dataclasses.replace(first, base=base) for base in bases.fresh(preset, ROTARY)]


def _rotary_cells(preset: str) -> list[Cell]:
    runs = [run for quarters in (2, 3) for run in rotary_runs(preset, quarters)]
    originals = dict.fromkeys(run.base for run in runs)
    return with_bases(originals, [porting.rotary_bases.cell(run) for run in runs])


def _rotary_figures(preset: str) -> Figures:
    found = {}
    for name, quarters in (("gain_half_bases", 2), ("gain_0.75_bases", 3)):
        tables = [table_of(porting.rotary_bases.cell(run)) for run in rotary_runs(preset, quarters)]
        found[name] = over_bases([porting.gains_of_best(table) for table in tables], preset)
    return found


def quantized_runs(preset: str, treatment: quantized.Treatment) -> list[list[quantized.QuantizedRun]]:
    """Rotations, or nothing, a list of draws a base model."""
    n_draws = 2 if treatment == quantized.ROTATION else 1
    n = 3 if preset == "quick" else N_LAYER
    return [
        [quantized.QuantizedRun(base, treatment, draw) for draw in range(n_draws)]
        for base in bases.fresh(preset, n=n)
    ]


def _quantized_cells(preset: str) -> list[Cell]:
    runs = [run for how in quantized.TREATMENTS for own in quantized_runs(preset, how) for run in own]
    return with_bases([run.base for run in runs], [quantized.quantized.cell(run) for run in runs])


def _quantized_figures(preset: str) -> Figures:
    found = {}
    for name in ("kurtosis_weights", "kurtosis_hidden", "int4_tensor", "int4_channel"):
        quantity, bits, per = quantized.FIGURES[name]
        means = {
            how: [
                np.mean(
                    [quantized.mean_of(quantized.quantized.cell(run), quantity, bits, per) for run in own]
                )
                for own in quantized_runs(preset, how)
            ]
            for how in quantized.TREATMENTS
        }
        plain = np.array(means[quantized.NONE])
        null = {quantized.PERMUTATION: float((np.array(means[quantized.PERMUTATION]) - plain).mean())}
        rotated = np.array(means[quantized.ROTATION]) - plain
        found[f"{name}_bases"] = over_bases(rotated, preset, controls=null)
    return found


# --- geometry -----------------------------------------------------------------------------------------


def curve_runs(preset: str) -> list[geometry.CurvesRun]:
    """Angles against the width, one run per base model."""
    first = geometry.curves_run(preset)
    return [dataclasses.replace(first, base=base) for base in bases.fresh(preset)]


def _curve_cells(preset: str) -> list[Cell]:
    runs = curve_runs(preset)
    return with_bases([run.base for run in runs], [geometry.geometry_curves.cell(run) for run in runs])


def _curve_figures(preset: str) -> Figures:
    found = {}
    dim = bases.base(preset).shape.embedding_dim
    of = [geometry.slopes(table_of(geometry.geometry_curves.cell(run)), dim) for run in curve_runs(preset)]
    for name, vectors in (("embeddings", geometry.EMBEDDINGS), ("hidden", geometry.HIDDEN)):
        null = {geometry.PCA: float(np.mean([one[vectors, geometry.PCA] for one in of]))}
        found[f"slope_{name}_bases"] = over_bases(
            [one[vectors, "gaussian"] for one in of], preset, controls=null
        )
    return found


def _many_cells(preset: str) -> list[Cell]:
    runs = geometry.many_runs(preset)
    most = geometry.most_runs(preset) if preset == "paper" else []
    own = [geometry.many_vectors.cell(run) for run in [*runs, *most]]
    return with_bases([run.base for run in runs], own)


def _many_figures(preset: str) -> Figures:
    tables = [table_of(geometry.many_vectors.cell(run)) for run in geometry.many_runs(preset)]
    table, corpus = pd.concat(tables), bases.base(preset).text.corpus
    missed = {family: own["value"] > geometry.EPS for family, own in table.groupby("family")}
    draws = "draws of a map on three models"
    share = findings.share(
        int(missed["gaussian"].sum()),
        len(missed["gaussian"]),
        repeats=draws,
        controls={geometry.COORDINATES: float(missed[geometry.COORDINATES].mean())},
        corpus=corpus,
    )
    m = int(table["m"].iloc[0])
    width = findings.exact(m / bases.base(preset).shape.embedding_dim, corpus=corpus)
    return {"failures_many": share, "width_many": width}


def _support_cells(preset: str) -> list[Cell]:
    runs = geometry.sizes_runs(preset)
    own = [geometry.support.cell(run) for run in support_runs(preset)]
    sizes = [geometry.support_sizes.cell(run) for run in runs]
    return with_bases([run.base for run in runs], [*own, *sizes])


def support_runs(preset: str) -> list[geometry.SupportRun]:
    """The first claim's comparison of two texts, one run per base model."""
    first = geometry.support_run(preset)
    return [dataclasses.replace(first, base=base) for base in bases.fresh(preset)]


def _support_figures(preset: str) -> Figures:
    def outside_inside(family: str) -> list[float]:
        tables = [table_of(geometry.support.cell(run)) for run in support_runs(preset)]
        pairs = [geometry.ratios(table, "mean square", family).mean(axis=0) for table in tables]
        return [math.sqrt(outside / inside) for outside, inside in pairs]

    tables = [table_of(geometry.support_sizes.cell(run)) for run in geometry.sizes_runs(preset)]
    sizes = geometry.sizes_runs(preset)[0].sizes
    found = {
        "ratio_seen": over_bases(
            outside_inside(geometry.PCA),
            preset,
            controls={"gaussian": float(np.mean(outside_inside("gaussian")))},
        )
    }
    smaller = sizes[1] if len(sizes) > 2 else sizes[0]
    found["larger"] = _outside(tables, ("own", sizes[-1]), ("own", smaller), preset)
    directions = [
        math.sqrt(
            _square(table, "steering", geometry.PCA, "own", sizes[-1])
            / _square(table, "steering", "gaussian", "own", sizes[-1])
        )
        for table in tables
    ]
    return found | {"steering": over_bases(directions, preset)}


def _outside(
    tables: Sequence[pd.DataFrame], one: tuple[str, int], other: tuple[str, int], preset: str
) -> Finding:
    """Distortion on the other text by one calibration set, over another's; sets by kind and size."""
    of = {
        family: [
            math.sqrt(_square(table, "outside", family, *one) / _square(table, "outside", family, *other))
            for table in tables
        ]
        for family in (geometry.PCA, "gaussian")
    }
    null = {"gaussian": float(np.mean(of["gaussian"]))}
    return over_bases(of[geometry.PCA], preset, controls=null, within=(0.0, math.inf))


def _unseen_cells(preset: str) -> list[Cell]:
    runs = geometry.sizes_runs(preset, unseen=True)
    return with_bases([run.base for run in runs], [geometry.support_sizes.cell(run) for run in runs])


def _representative(preset: str) -> Figures:
    runs = geometry.sizes_runs(preset, unseen=True)
    tables, size = [table_of(geometry.support_sizes.cell(run)) for run in runs], runs[0].sizes[-2]
    return {"representative_fresh": _outside(tables, ("mixed", size), ("own", size), preset)}


def _square(table: pd.DataFrame, vectors: str, family: str, which: str, size: int) -> float:
    own = table[(table["vectors"] == vectors) & (table["family"] == family)]
    return float(own.loc[(own["set"] == which) & (own["size"] == size), "value"].mean())


# --- which study has which ----------------------------------------------------------------------------

LATER: Mapping[str, Part] = {
    "resizing.jl_bound": Part(_many_cells, _many_figures),
    "resizing.geometry_curves": Part(_curve_cells, _curve_figures),
    "resizing.out_of_support": Part(_support_cells, _support_figures),
    "resizing.porting": Part(_port_cells, _port_figures),
    "resizing.gains": Part(_gain_cells, _gain_figures),
    "resizing.heads": Part(_head_cells, _head_figures),
    "resizing.rope": Part(_rotary_cells, _rotary_figures),
    "resizing.perplexity": Part(_recovery_cells, _recovery_figures),
    "resizing.architecture": Part(_architecture_cells, _architecture_figures),
    "resizing.staged": Part(_staged_cells, _staged_figures),
    "resizing.grow": Part(_grow_cells, _grow_figures),
    "resizing.quantization": Part(_quantized_cells, _quantized_figures),
}
LATER_STILL: Mapping[str, Part] = {"resizing.out_of_support": Part(_unseen_cells, _representative)}
STUDIES: dict[str, Study] = {
    "resizing.end_to_end": Study(
        _end_cells, _end_figures, "the paper's setting needs a GPU for its base models"
    )
}
