"""Ports that are fine-tuned under other rules than ours: Algorithm 1 as printed, plain heads, dense gains.

Each run carries a base model by a family of maps and a treatment, and trains it as
:mod:`book.resizing.experiments.recovery` trains ours, on the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch

from book.language import draw_batch, next_token_losses
from book.ledger.cells import experiment
from book.resizing import rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases
from book.resizing.experiments.bases import Base, BaseRun
from book.resizing.experiments.porting import Treatment
from book.resizing.experiments.recovery import OTHER_BATCHES, SCORED, RecoveryRun, fine_tune
from embviz import projections
from embviz.training.loop import AdamW

Optimizer = Literal["adamw", "adafactor"]
# Algorithm 1, line by line: T W T+ for four maps of attention, T for the MLP's map in and T+ for its map out,
# no gains, norms that center and divide in the new width; the head by T+
PRINTED = Treatment(attention="plain", gains="drop", centering="keep", reading="written")


@dataclass(frozen=True)
class TunedRun:
    """A base model carried under a treatment, and fine-tuned; its seed is of the map and the batches."""

    base: BaseRun
    ratio: float  # m / d
    treatment: Treatment = field(default_factory=Treatment)
    family: str = "orthonormal"
    as_drawn: bool = False  # entries of variance 1 / m, and norms that divide by the new width
    scratch: bool = False  # the shape alone: its weights are drawn at random
    optimizer: Optimizer = "adamw"
    seed: int = 0
    n_steps: int = 400
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.ratio <= 0 or self.n_steps < 1 or self.optimizer not in get_args(Optimizer):
            raise ValueError(
                f"a ratio above 0, one update at least, and a known optimizer are needed: {self}"
            )

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
    if config.optimizer == "adafactor":
        scores = list(by_adafactor(model, base, config))
    else:
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
    T = projections.draw(config.family, m, d, seed=config.seed, scaling=scaling)
    energy = m / d if config.as_drawn else None
    carried = config.treatment.carry(base.model, m, T, config.seed, energy).model
    return rules.from_scratch(carried, m, config.seed) if config.scratch else carried


def by_adafactor(model: Decoder, base: Base, config: TunedRun) -> Iterator[tuple[int, float]]:
    """Updates and held-out loss under Adafactor, its rate falling to a tenth by a cosine."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    schedule = AdamW(config.learning_rate, config.learning_rate / 10, config.n_steps)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=config.learning_rate)
    training = config.base.training
    for step in range(config.n_steps + 1):
        if step in SCORED or step == config.n_steps:
            yield step, bases.held_out_loss(model, base)
        if step == config.n_steps:
            return
        batch = draw_batch(
            base.streams.train,
            seed=config.seed + OTHER_BATCHES,
            step=step,
            batch_size=training.batch_size,
            length=training.length,
        )
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step)
        optimizer.zero_grad()
        next_token_losses(model, batch.to(device)).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def run_of(preset: str, base: BaseRun, ratio: float, **options: object) -> TunedRun:
    """A run of a preset, its seed the base model's."""
    rate = 1e-2 if preset == "quick" else 1e-3
    n_steps = 40 if preset == "quick" else 400
    fields = {"seed": base.seed, "n_steps": n_steps, "learning_rate": rate, **options}
    return TunedRun(base, ratio, **fields)  # type: ignore[arg-type]
