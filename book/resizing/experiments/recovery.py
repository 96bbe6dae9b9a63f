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
PORTS = "draws of a map and of batches on one model"  # what is repeated
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


# --- several widths of a model that is not kept -------------------------------------------------------


@dataclass(frozen=True)
class OtherBase:
    """Another base model, whose weights are not kept, carried to a few widths."""

    base: BaseRun
    ratios: tuple[float, ...]
    treatments: tuple[str, ...] = (PROJECTION, SCRATCH, PCA)
    n_steps: int = 400
    learning_rate: float = 1e-3


@experiment("resizing.other_bases")
def other_bases(config: OtherBase) -> pd.DataFrame:
    """Train the base model, then resize and fine-tune it, each way from the beginning.

    Returns
    -------
    DataFrame
        ratio, treatment, and the columns of :func:`recovery`; steps, the updates that trained the original.
    """
    parts = []
    for ratio, treatment in itertools.product(config.ratios, config.treatments):
        run = RecoveryRun(config.base, (ratio,), treatment, 0, config.n_steps, config.learning_rate)
        part = recovery.function(run)
        parts.append(pd.DataFrame({"ratio": ratio, "treatment": treatment}, index=part.index).join(part))
    table = pd.concat(parts, ignore_index=True)
    base = bases.load(config.base)
    table["steps"] = np.int32(base.steps)
    table.attrs["data"] = {config.base.text.corpus: base.streams.checksum}
    return table


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
TEXT_RATES = (1e-5, 5e-5)  # the paper's, at its ends
OTHER_RATES = (3e-4, 3e-3)
STAGES = {"quarter": (0.5, 0.25), "eighth": (0.5, 0.25, 0.125)}


def run_of(
    preset: str,
    ratios: Sequence[float],
    treatment: str = PROJECTION,
    seed: int = 0,
    *,
    architecture: str = bases.LAYER,
    learning_rate: float = 0.0,
    n_steps: int = 0,
) -> RecoveryRun:
    """A run of a preset; learning rate and steps, where they are 0, are the usual ones."""
    rate = learning_rate or (1e-2 if preset == "quick" else 1e-3)
    base = bases.base(preset, architecture)
    return RecoveryRun(base, tuple(ratios), treatment, seed, n_steps or N_STEPS[preset], rate)


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


def architecture_runs(preset: str) -> list[RecoveryRun]:
    """Every architecture at half the width."""
    return [
        run_of(preset, (0.5,), seed=seed, architecture=architecture, n_steps=N_LONG[preset])
        for seed in range(N_SEEDS[preset])
        for architecture in COMPARED
    ]


def staged_runs(preset: str) -> list[RecoveryRun]:
    """To a quarter and an eighth of the width, at once and in stages."""
    ways = [way for stages in STAGES.values() for way in (stages, stages[-1:])]
    return [run_of(preset, way, seed=seed) for seed in range(N_SEEDS[preset]) for way in ways]


def rate_runs(preset: str) -> list[RecoveryRun]:
    """Half the width at other learning rates: the paper's own, and a lower and a higher one than ours."""
    if preset == "quick":
        return []
    own = [
        run_of(preset, (0.5,), seed=seed, learning_rate=rate)
        for seed in range(N_SEEDS[preset])
        for rate in TEXT_RATES
    ]
    others = [
        run_of(preset, (0.5,), treatment, learning_rate=rate)
        for rate in OTHER_RATES
        for treatment in (PROJECTION, SCRATCH)
    ]
    return own + others


def other_runs(preset: str) -> list[OtherBase]:
    """Other base models: of English Wikipedia in bytes, and a wider one of stories in byte pairs."""
    if preset == "quick":
        return []
    run = bases.base(preset)
    wiki = dataclasses.replace(run, text=TextConfig("enwiki2018_raw", n_held_out=4))
    pairs = dataclasses.replace(run.text, tokens="byte pairs", vocab_size=1_024)
    wide = dataclasses.replace(run.shape, embedding_dim=2 * run.shape.embedding_dim)
    fewer = bases.training(1_500, 8, run.training.length, 1e-3) if preset == "laptop" else run.training
    in_pairs = dataclasses.replace(run, text=pairs, shape=wide, training=fewer)
    return [OtherBase(wiki, (0.5, 0.75)), OtherBase(in_pairs, (0.5, 0.75))]


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


def when_recovered(table: pd.DataFrame, within: float = WITHIN, *, for_good: bool = False) -> Recovered:
    """Updates until held-out perplexity lies within 2% of the original's.

    Between two scores log perplexity is taken to be linear in the number of updates.

    Parameters
    ----------
    table : DataFrame
        Of :func:`recovery`, of one run.
    within : float
        Another distance of log perplexities, nats.
    for_good : bool
        When it comes there to stay, instead of when it is there first: a fresh optimizer's first updates can
        carry a model away from where its port left it.
    """
    steps = table["step"].to_numpy(dtype=float)
    above = (table["log_perplexity"] - table["original"]).to_numpy(dtype=float) - within
    inside = above <= 0
    if not (inside[-1] if for_good else inside.any()):
        return Recovered(float(steps[-1]), False)
    place = len(inside) - int(inside[::-1].argmin()) if for_good else int(inside.argmax())
    if inside.all() or place == 0:
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


def _each(runs: Iterable[RecoveryRun]) -> list[pd.DataFrame]:
    """The tables of runs of several seeds, in their order."""
    return [curves([run]) for run in runs]


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


def ratio_of_steps(ours: list[pd.DataFrame], theirs: list[pd.DataFrame], corpus: str) -> Finding:
    """Ratio of updates until recovery to other runs', paired; the interval is open where runs are censored.

    A censored run of ours makes the ratio the least that it can be, one of theirs the most.
    """
    steps, others = steps_of(ours), np.maximum(steps_of(theirs), 1.0)
    found = findings.over_seeds(steps / others, repeats=PORTS, corpus=corpus, within=(0, math.inf))
    return dataclasses.replace(
        found,
        high=math.inf if censored(ours) else found.high,
        low=0.0 if censored(theirs) else found.low,
    )


def without_centering(preset: str) -> dict[str, Finding]:
    """Updates of RMSNorm over LayerNorm's, over ports of one model."""
    of = {
        architecture: _each(
            run for run in architecture_runs(preset) if run.base == bases.base(preset, architecture)
        )
        for architecture in (bases.RMS, bases.LAYER)
    }
    return {"rms": ratio_of_steps(of[bases.RMS], of[bases.LAYER], bases.base(preset).text.corpus)}


def beside(preset: str) -> list[Cell]:
    return [recovery.cell(run) for run in rate_runs(preset)] + [
        other_bases.cell(run) for run in other_runs(preset)
    ]
