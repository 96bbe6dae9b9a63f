"""How fast a resized model gets its language back: against random weights, PCA slices, truncated dimensions.

All fine-tuning is AdamW from a fresh state, with a rate that falls to a tenth by a cosine, on batches that
the base model has not been trained on in that order; runs of one seed see the same ones. A model counts as
recovered once its held-out perplexity is within 2% of the original's.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.language import TextConfig, draw_batch, next_token_losses
from book.ledger import findings
from book.ledger.cells import Cell, experiment, read, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.resizing import rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases
from book.resizing.experiments.bases import Base, BaseRun
from embviz.training.loop import AdamW, train

PROJECTION, SCRATCH, PCA, TRUNCATED, ZEROS = TREATMENTS = (
    "projection",  # a random row-orthonormal map; in growing, orthonormal columns
    "random initialization",
    "PCA slice",
    "truncated dimensions",  # chosen at random
    "zeros appended",  # growing alone
)
SCORED = (0, 1, 2, 5, 10, 20, 40, 80, 120, 160, 200, 300, 400, 600, 800, 1_000, 1_200, 1_400)  # updates
WITHIN = math.log(1.02)  # nats: 2% of a perplexity
N_CALIBRATION = 4_096  # hidden states that PCA sees
OTHER_BATCHES = 1_000  # added to a seed: the base model's batches have seeds from 0


@dataclass(frozen=True)
class RecoveryRun:
    """A base model resized, at once or in stages, and fine-tuned; its seed is of the map and the batches."""

    base: BaseRun
    ratios: tuple[float, ...]  # width over the original's, one after the other; the steps are shared out
    treatment: str = PROJECTION
    seed: int = 0
    n_steps: int = 400  # updates in all
    learning_rate: float = 1e-3  # of each stage at its start

    def __post_init__(self) -> None:
        if self.treatment not in TREATMENTS:
            raise ValueError(f"treatment is {self.treatment!r}: choose one of {', '.join(TREATMENTS)}")
        if not self.ratios or min(self.ratios) <= 0:
            raise ValueError(f"ratios of widths must be above 0, and there must be one at least: {self}")
        grows = self.ratios[-1] > 1
        if (self.treatment == ZEROS and not grows) or (self.treatment in (PCA, TRUNCATED) and grows):
            raise ValueError(f"{self.treatment} can't lead to {self.ratios[-1]:g} of the width")
        if self.n_steps < len(self.ratios):
            raise ValueError(f"{len(self.ratios)} stages need as many updates at least, got {self.n_steps}")

    @property
    def widths(self) -> list[int]:
        """m of each stage."""
        return [max(1, round(ratio * self.base.shape.embedding_dim)) for ratio in self.ratios]

    @property
    def ends(self) -> list[int]:
        """Updates made at the end of each stage."""
        n_stages = len(self.ratios)
        return [round(self.n_steps * (stage + 1) / n_stages) for stage in range(n_stages)]


@experiment("resizing.recovery")
def recovery(config: RecoveryRun) -> pd.DataFrame:
    """Resize, fine-tune, and score on the way.

    Returns
    -------
    DataFrame
        step (updates in all so far), stage from 0, width, log_perplexity (nats a token of held-out text), and
        in every row original, the base model's. A stage begins with the score right after its port.
    """
    base = bases.load(config.base)
    model, rows, begin = base.model, [], 0
    for stage, (width, end) in enumerate(zip(config.widths, config.ends, strict=True)):
        model = resized(base, model, width, config.treatment, config.seed + 10_000 * stage)
        for step, loss in fine_tune(model, base, config, begin, end):
            rows.append((step, stage, width, loss))
        begin = end
    table = pd.DataFrame(rows, columns=["step", "stage", "width", "log_perplexity"])
    table = table.astype({"step": "int32", "stage": "int8", "width": "int32", "log_perplexity": "float32"})
    table["original"] = np.float32(base.log_perplexity)
    table.attrs["data"] = {config.base.text.corpus: base.streams.checksum}
    return table


def resized(base: Base, model: Decoder, width: int, treatment: str, seed: int) -> Decoder:
    """The model, the base or what an earlier stage made of it, at another width.

    Everything is folded first, so that models of one width have one shape, whatever led there.
    """
    if treatment == PCA:  # of the model's own hidden states, which pca_slice centers as folding does
        return rules.pca_slice(model, width, bases.calibration(base, N_CALIBRATION, seed)).model
    folded = rules.fold(model)
    if treatment == SCRATCH:
        return rules.from_scratch(folded, width, seed)
    if treatment == TRUNCATED:
        dims = np.random.default_rng(seed).permutation(folded.config.embedding_dim)[:width]
        return rules.truncate(folded, sorted(dims.tolist())).model
    if treatment == ZEROS:
        return rules.grow(folded, width, "zeros", seed).model
    return rules.resize(folded, width, projection="orthonormal", seed=seed).model


def fine_tune(
    model: Decoder, base: Base, config: RecoveryRun, begin: int, end: int
) -> Iterator[tuple[int, float]]:
    """Train from update `begin` to `end` and yield updates and held-out loss wherever it is scored."""
    n_steps, training = end - begin, config.base.training
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()

    def losses(step: int) -> Tensor:
        batch = draw_batch(
            base.streams.train,
            seed=config.seed + OTHER_BATCHES,
            step=begin + step,
            batch_size=training.batch_size,
            length=training.length,
        )
        with torch.autocast(device, torch.bfloat16, enabled=training.bfloat16):
            return next_token_losses(model, batch.to(device)).mean()

    def measure(step: int) -> Mapping[str, float]:
        return {"loss": bases.held_out_loss(model, base)}

    optimizer = AdamW(config.learning_rate, config.learning_rate / 10, n_steps, weight_decay=0.1, eps=1e-8)
    scored = {0, n_steps, *(step - begin for step in SCORED)}
    for snapshot in train(
        model, losses, optimizer, n_steps=n_steps, snapshot_at=scored, measure=measure, weights="none"
    ):
        yield begin + snapshot.step, float(snapshot.metrics["loss"])  # type: ignore[arg-type]


# --- which runs ---------------------------------------------------------------------------------------

RATIOS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0)
COMPARED = (bases.LAYER, bases.RMS, bases.NO_GAINS, bases.PERI, bases.SPHERE)
N_SEEDS = {"quick": 2, "laptop": 3, "paper": 3}
N_STEPS = {"quick": 40, "laptop": 400, "paper": 400}
N_LONG = {
    "quick": 40,
    "laptop": 1_600,
    "paper": 1_600,
}  # where architectures are told apart by when they recover
FEWER = {"quick": (0.5, 0.75, 2.0), "laptop": RATIOS, "paper": RATIOS}  # ratios of a preset
STAGED, AT_ONCE = (0.5, 0.25), (0.25,)
SHARES = (0.25, 0.5, 1.0, 2.0)  # of the usual updates, over which fine-tunings at half the width are annealed
LONGEST = 1_200  # updates of another
RECOVERED = {"half": 0.5, "0.75": 0.75, "double": 2.0}


def run_of(
    preset: str,
    ratios: Sequence[float],
    treatment: str = PROJECTION,
    seed: int = 0,
    *,
    architecture: str = bases.LAYER,
    n_steps: int = 0,
) -> RecoveryRun:
    """A run of a preset; where `n_steps` is 0, the usual number."""
    rate = 1e-2 if preset == "quick" else 1e-3
    base = bases.base(preset, architecture)
    return RecoveryRun(base, tuple(ratios), treatment, seed, n_steps or N_STEPS[preset], rate)


def base_runs(
    preset: str,
    ratios: Sequence[float],
    treatment: str = PROJECTION,
    *,
    architecture: str = bases.LAYER,
    n_steps: int = 0,
) -> list[RecoveryRun]:
    """Base models that no range was fixed on, a run each with the base model's seed."""
    first = run_of(preset, ratios, treatment, architecture=architecture, n_steps=n_steps)
    return [
        dataclasses.replace(first, base=base, seed=base.seed) for base in bases.fresh(preset, architecture)
    ]


def share_runs(preset: str, share: float, treatment: str = PROJECTION) -> list[RecoveryRun]:
    """Half the width, annealed over a share of the usual updates."""
    return base_runs(preset, (0.5,), treatment, n_steps=round(share * N_STEPS[preset]))


def treatments_at(ratio: float) -> tuple[str, ...]:
    """What can lead to a width, the projection first."""
    if ratio == 1:
        return PROJECTION, SCRATCH
    return (PROJECTION, SCRATCH, PCA, TRUNCATED) if ratio < 1 else (PROJECTION, SCRATCH, ZEROS)


def sweep(preset: str) -> list[RecoveryRun]:
    """All widths and treatments, seed by seed, so that a sweep that stops leaves whole seeds."""
    return [
        run_of(preset, (ratio,), treatment, seed)
        for seed in range(N_SEEDS[preset])
        for ratio in FEWER[preset]
        for treatment in treatments_at(ratio)
    ]


def architecture_runs(preset: str = bases.SHOWN) -> list[RecoveryRun]:
    """Every architecture at half the width."""
    return [
        run_of(preset, (0.5,), seed=seed, architecture=architecture, n_steps=N_LONG[preset])
        for seed in range(N_SEEDS[preset])
        for architecture in COMPARED
    ]


def staged_runs(preset: str, ratios: Sequence[float]) -> list[list[RecoveryRun]]:
    """One way to a quarter of the width, two draws a base model."""
    first = run_of(preset, ratios)
    return [
        [dataclasses.replace(first, base=base, seed=base.seed + 10 * draw) for draw in range(2)]
        for base in bases.fresh(preset, n=3 if preset == "quick" else 5)
    ]


def cells_of(runs: Iterable[RecoveryRun]) -> list[Cell]:
    """Runs, and before them the base models that they read, as long as one is missing."""
    listed = list(runs)
    return bases.with_bases([run.base for run in listed], [recovery.cell(run) for run in listed])


# --- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recovered:
    """When a run came back."""

    steps: float  # updates; the last one of a run that did not get there
    reached: bool


def when_recovered(table: pd.DataFrame, within: float = WITHIN) -> Recovered:
    """Updates until held-out perplexity lies within 2% of the original's.

    Between two scores log perplexity is taken to be linear in the number of updates.

    Parameters
    ----------
    table : DataFrame
        Of :func:`recovery`, of one run.
    within : float
        Another distance of log perplexities, nats.
    """
    steps = table["step"].to_numpy(dtype=float)
    above = (table["log_perplexity"] - table["original"]).to_numpy(dtype=float) - within
    inside = above <= 0
    if not inside.any():
        return Recovered(float(steps[-1]), False)
    place = int(inside.argmax())
    if place == 0:
        return Recovered(float(steps[0]), True)
    share = above[place - 1] / (above[place - 1] - above[place])
    return Recovered(float(steps[place - 1] + share * (steps[place] - steps[place - 1])), True)


def curves(runs: Iterable[RecoveryRun], *, stored: bool = True) -> pd.DataFrame:
    """Tables of runs, one under the other.

    Parameters
    ----------
    stored : bool
        Read stored cells alone; otherwise compute those that are not.

    Returns
    -------
    DataFrame
        ratio (of the last stage), n_stages, treatment, seed, learning_rate, and the columns of
        :func:`recovery`; lost: log perplexity above the original's.
    """
    parts = []
    for run in runs:
        cell = recovery.cell(run)
        part = read(cell)[0] if stored else table_of(cell)
        fields = {
            "ratio": run.ratios[-1],
            "n_stages": len(run.ratios),
            "treatment": run.treatment,
            "seed": run.seed,
            "learning_rate": run.learning_rate,
        }
        parts.append(pd.DataFrame(fields, index=part.index).join(part))
    table = pd.concat(parts, ignore_index=True)
    table["lost"] = table["log_perplexity"].astype(float) - table["original"].astype(float)
    return table


def lost_at(tables: Iterable[pd.DataFrame], *, end: bool) -> np.ndarray:
    """Log perplexity above the original's right after the port or at the end, of each run, nats."""
    return np.array([table["lost"].iloc[-1 if end else 0] for table in tables])


def steps_of(tables: Iterable[pd.DataFrame]) -> np.ndarray:
    """Updates until each run recovered, or its last one."""
    return np.array([when_recovered(table).steps for table in tables])


def censored(tables: Iterable[pd.DataFrame]) -> bool:
    """Whether a run of several had not recovered at its last update."""
    return not all(when_recovered(table).reached for table in tables)


# --- findings -----------------------------------------------------------------------------------------


def losses_at_end(runs: Iterable[RecoveryRun]) -> np.ndarray:
    """Nats above the original at the end of each run."""
    return lost_at([curves([run], stored=False) for run in runs], end=True)


def _perplexity_cells(preset: str) -> list[Cell]:
    both = (PROJECTION, SCRATCH)
    runs = [run for ratio in RECOVERED.values() for how in both for run in base_runs(preset, (ratio,), how)]
    runs += longest_runs(preset)
    runs += [run for share, how in itertools.product(SHARES, both) for run in share_runs(preset, share, how)]
    return cells_of(dict.fromkeys(runs))


def longest_runs(preset: str) -> list[RecoveryRun]:
    """Half the width, annealed over half of the original's updates."""
    return base_runs(preset, (0.5,), n_steps=N_STEPS[preset] if preset == "quick" else LONGEST)


def _perplexity(preset: str) -> dict[str, Finding]:
    found = {}
    for name, ratio in RECOVERED.items():
        own, scratch = (losses_at_end(base_runs(preset, (ratio,), how)) for how in (PROJECTION, SCRATCH))
        null = {"scratch": float(scratch.mean())}
        found[f"after_400_{name}"] = bases.over_bases(own, preset, controls=null)
        if name == "half":
            found["scratch_half_bases"] = bases.over_bases(scratch - own, preset)
    half = [curves([run], stored=False) for run in base_runs(preset, (0.5,))]
    return found | {
        "lost_half_bases": bases.over_bases(lost_at(half, end=False), preset),
        "after_100_half": bases.over_bases(losses_at_end(share_runs(preset, SHARES[0])), preset),
        "after_1200_half": bases.over_bases(losses_at_end(longest_runs(preset)), preset),
    }


def ratio_of_steps(ours: list[pd.DataFrame], theirs: list[pd.DataFrame], corpus: str) -> Finding:
    """Ratio of updates until recovery to other runs', paired; the interval is open where runs are censored.

    A censored run of ours makes the ratio the least that it can be, one of theirs the most.
    """
    steps, others = steps_of(ours), np.maximum(steps_of(theirs), 1.0)
    found = findings.over_seeds(steps / others, repeats=bases.MODELS, corpus=corpus, within=(0, math.inf))
    return dataclasses.replace(
        found,
        high=math.inf if censored(ours) else found.high,
        low=0.0 if censored(theirs) else found.low,
    )


def judged_architectures(preset: str, architecture: str) -> list[RecoveryRun]:
    """Half the width of an architecture, as long as the first ones."""
    return base_runs(preset, (0.5,), architecture=architecture, n_steps=N_LONG[preset])


def _architecture_cells(preset: str) -> list[Cell]:
    """Base model by base model; weights are kept of those that other claims read, not of the two compared."""
    compared = (bases.LAYER, bases.PERI, bases.SPHERE)
    each = zip(*(judged_architectures(preset, one) for one in compared), strict=True)
    return bases.with_bases(bases.fresh(preset), [recovery.cell(run) for own in each for run in own])


def _architecture(preset: str) -> dict[str, Finding]:
    corpus = bases.base(preset).text.corpus
    layer, peri, sphere = (
        [curves([run], stored=False) for run in judged_architectures(preset, one)]
        for one in (bases.LAYER, bases.PERI, bases.SPHERE)
    )
    return {
        "peri_bases": ratio_of_steps(peri, layer, corpus),
        "normalized_bases": ratio_of_steps(sphere, layer, corpus),
    }


def _staged_cells(preset: str) -> list[Cell]:
    return cells_of(run for way in (STAGED, AT_ONCE) for own in staged_runs(preset, way) for run in own)


def _staged(preset: str) -> dict[str, Finding]:
    staged, at_once = (
        np.stack([losses_at_end(own) for own in staged_runs(preset, way)]) for way in (STAGED, AT_ONCE)
    )
    return {"staged_bases": bases.over_bases(staged - at_once, preset)}


def _shown(preset: str) -> list[Cell]:
    """The sweep over widths, and hidden states."""
    from book.resizing.experiments import states  # reads this module

    return [*cells_of(sweep(preset)), *states.cells(preset)]


STUDIES: dict[str, Study] = {
    "resizing.perplexity": Study(_perplexity_cells, _perplexity, beside=_shown),
    "resizing.architecture": Study(
        _architecture_cells, _architecture, beside=lambda preset: cells_of(architecture_runs(preset))
    ),
    "resizing.staged": Study(_staged_cells, _staged),
}
