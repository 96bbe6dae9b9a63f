"""What commutes with a map of the residual stream: components, gains, heads and rotary positions.

Models are carried and measured, and not trained further. Logits are compared in float64, on held-out text;
log perplexities are those of :mod:`book.resizing.experiments.bases`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.language import Stream
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.resizing.decoder import Decoder, with_weights
from book.resizing.experiments import bases
from book.resizing.experiments.bases import (
    LAYER,
    NO_GAINS,
    ONE_HEAD,
    PERI,
    RMS,
    ROTARY,
    SPHERE,
    Base,
    BaseRun,
)
from book.resizing.rules import (
    AttentionRule,
    CenteringRule,
    GainRule,
    MLPRule,
    Reading,
    Resized,
    logit_error,
    resize,
)
from embviz import projections
from embviz.projections import Projection

Change = Literal["", "ALiBi", "one head"]
PERMUTATION, SIGNED, ROTATION, GAUSSIAN = MAPS = (
    "permutation",
    "signed permutation",
    "rotation",
    "Gaussian",
)
N_DRAWS = 5
QUICK_DRAWS = 2
N_STRINGS = 8  # of held-out text, whose logits are compared
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)  # of the rotary base


@dataclass(frozen=True)
class Treatment:
    """The rules of :func:`book.resizing.rules.resize`; by default those that commute."""

    attention: AttentionRule = "kept"
    gains: GainRule = "fold"
    centering: CenteringRule = "fold"
    reading: Reading = "inverse"
    mlp: MLPRule = "kept"

    def carry(
        self,
        model: Decoder,
        m: int,
        projection: Projection | str,
        seed: int,
        energy: float | None = None,
    ) -> Resized:
        """The model at width m."""
        options = dataclasses.asdict(self)
        return resize(model, m, projection=projection, seed=seed, energy=energy, **options)


def n_draws(preset: str) -> int:
    """Maps that a treatment is tried with."""
    return QUICK_DRAWS if preset == "quick" else N_DRAWS


# --- logits at the same width -------------------------------------------------------------------------


@dataclass(frozen=True)
class Port:
    """A base model, perhaps with a component as another architecture has it, carried at its own width."""

    base: BaseRun
    treatment: Treatment = field(default_factory=Treatment)
    change: Change = ""  # of the trained model, which then computes something else
    maps: tuple[str, ...] = MAPS
    n_draws: int = N_DRAWS


@experiment("resizing.ports")
def ports(config: Port) -> pd.DataFrame:
    """Relative logit errors of a model carried at its own width: map, draw, error."""
    base = bases.load(config.base)
    model, tokens = changed(base, config.change), sample_tokens(base)
    with torch.no_grad():
        old = model(tokens)
        rows = [
            {
                "map": name,
                "draw": draw,
                "error": logit_error(
                    config.treatment.carry(model, *drawn_map(name, model, draw), draw).model(tokens), old
                ),
            }
            for name in config.maps
            for draw in range(config.n_draws)
        ]
    return _with_data(pd.DataFrame(rows), base)


def drawn_map(name: str, model: Decoder, draw: int) -> tuple[int, Projection]:
    """A model's width d, and a d x d map of a kind of :data:`MAPS`."""
    d = model.config.embedding_dim
    if name == PERMUTATION:
        return d, projections.Projection.from_matrix(
            np.eye(d)[np.random.default_rng([draw, d]).permutation(d)]
        )
    if name == SIGNED:
        return d, projections.signed_permutation(d, draw)
    family = {ROTATION: "orthonormal", GAUSSIAN: "gaussian"}[name]
    return d, projections.draw(family, d, d, seed=draw, scaling="unit")


def changed(base: Base, change: Change = "") -> Decoder:
    """A base model in float64, one component made as another architecture has it."""
    model = copy.deepcopy(base.model).double()
    if not change:
        return model
    weights = model.state_dict()
    if change == "one head":
        return with_weights(dataclasses.replace(model.config, n_heads=1), weights)
    weights.pop("position", None)
    return with_weights(dataclasses.replace(model.config, positions="alibi"), weights)


def sample_tokens(base: Base, n_strings: int = N_STRINGS) -> Tensor:
    """Strings (n, T) of held-out text, evenly spaced."""
    ids, length = base.streams.held_out.ids, base.length
    starts = np.linspace(0, len(ids) - length, n_strings).astype(int)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length)].astype(np.int64))


def _with_data(table: pd.DataFrame, base: Base) -> pd.DataFrame:
    table.attrs["data"] = {base.config.text.corpus: base.streams.checksum}
    return table


@dataclass(frozen=True)
class Component:
    """A row of the table of components."""

    architecture: str  # of bases.ARCHITECTURES
    treatment: Treatment = field(default_factory=Treatment)
    change: Change = ""
    cause: str = ""  # why it does not commute with a rotation; empty where it does; a table shows 50 letters

    def port(self, preset: str) -> Port:
        """Its cell's configuration."""
        base = bases.base(preset, self.architecture)
        return Port(base, self.treatment, self.change, n_draws=n_draws(preset))


PLAIN = Treatment(attention="plain")
MIXED = "products are summed over other coordinates"
COMPONENTS: dict[str, Component] = {  # by the names of the claim's figures
    "commuting": Component(NO_GAINS),
    "one_head": Component(ONE_HEAD, PLAIN),
    "folded": Component(LAYER),
    "alibi": Component(NO_GAINS, change="ALiBi"),
    "plain_heads": Component(NO_GAINS, PLAIN, cause=MIXED),
    "folded_plain": Component(LAYER, PLAIN, cause=MIXED),
    "centering": Component(
        LAYER, Treatment(centering="keep"), cause="the mean is along (1, ..., 1), which turns"
    ),
    "gains_dropped": Component(RMS, Treatment(gains="drop"), cause="the trained gains are gone"),
    "gains_one": Component(RMS, Treatment(gains="one"), cause="gains differ among dimensions"),
    "gains_projected": Component(
        RMS, Treatment(gains="project"), cause="a diagonal matrix does not turn like a vector"
    ),
    "gains_dense": Component(RMS, Treatment(gains="dense")),
    "rotary": Component(ROTARY, PLAIN, "one head", cause="positions turn other pairs of coordinates"),
    "rotary_kept": Component(ROTARY),
    "rotary_within": Component(
        ROTARY, Treatment(attention="within"), cause="positions turn other pairs of coordinates"
    ),
    "within": Component(NO_GAINS, Treatment(attention="within")),
    "hidden": Component(NO_GAINS, Treatment(mlp="plain"), cause="the activation acts on single hidden units"),
    "as_written": Component(NO_GAINS, Treatment(reading="written")),
}
MORE_COMPONENTS: dict[str, Component] = {"peri": Component(PERI), "sphere": Component(SPHERE)}
# Algorithm 1, line by line: T W T+ for four maps of attention, T for the MLP's map in and T+ for its map out,
# no gains, norms that center and divide in the new width; the head by T+
PRINTED = Treatment(attention="plain", gains="drop", centering="keep", reading="written")


def component_cells(preset: str) -> list[Cell]:
    """The table of components."""
    own = [one.port(preset) for one in (COMPONENTS | MORE_COMPONENTS).values()]
    return bases.with_bases([run.base for run in own], [ports.cell(run) for run in own])


def errors(name: str, kind: str = ROTATION, preset: str = bases.SHOWN) -> np.ndarray:
    """Relative logit errors of a component under a kind of map, (draws,)."""
    component = {**COMPONENTS, **MORE_COMPONENTS}[name]
    table = table_of(ports.cell(component.port(preset)))
    return table.loc[table["map"] == kind].sort_values("draw")["error"].to_numpy()


def port_runs(preset: str, treatment: Treatment) -> list[Port]:
    """Base models with LayerNorm at their own width."""
    return [Port(base, treatment, n_draws=n_draws(preset)) for base in bases.fresh(preset)]


def _porting_cells(preset: str) -> list[Cell]:
    runs = port_runs(preset, PRINTED)
    return bases.with_bases([run.base for run in runs], [ports.cell(run) for run in runs])


def _porting(preset: str) -> dict[str, Finding]:
    tables = [table_of(ports.cell(run)) for run in port_runs(preset, PRINTED)]
    return {
        name: bases.over_bases(
            [table.loc[table["map"] == kind, "error"] for table in tables], preset, within=(0.0, np.inf)
        )
        for name, kind in (("printed", GAUSSIAN), ("printed_rotation", ROTATION))
    }


# --- log perplexity right after a port ----------------------------------------------------------------


@dataclass(frozen=True)
class PortedLoss:
    """A base model carried to several widths by row-orthonormal maps."""

    base: BaseRun
    treatment: Treatment = field(default_factory=Treatment)
    quarters: tuple[int, ...] = (2, 4)  # widths, in quarters of d
    n_draws: int = N_DRAWS


@experiment("resizing.ported_losses")
def ported_losses(config: PortedLoss) -> pd.DataFrame:
    """Nats a token of held-out text right after a port: quarters, m, draw, log_perplexity."""
    base = bases.load(config.base)
    d = base.model.config.embedding_dim
    rows = []
    for quarters in config.quarters:
        m = d * quarters // 4
        for draw in range(config.n_draws):
            carried = config.treatment.carry(base.model, m, "orthonormal", draw)
            loss = bases.held_out_loss(carried.model, base)
            rows.append({"quarters": quarters, "m": m, "draw": draw, "log_perplexity": loss})
    return _with_data(pd.DataFrame(rows), base)


GAIN_RULES: Mapping[str, GainRule] = {
    "dropped": "drop",
    "projected": "project",
    "dense": "dense",
}


def gain_runs(rule: str, preset: str = bases.SHOWN) -> list[PortedLoss]:
    """The base models with RMSNorm, their gains treated by a key of :data:`GAIN_RULES`."""
    treatment = Treatment(gains=GAIN_RULES[rule])
    return [PortedLoss(base, treatment, n_draws=n_draws(preset)) for base in bases.fresh(preset, RMS)]


def losses(run: PortedLoss, quarters: int) -> np.ndarray:
    """Log perplexities at a width, (draws,)."""
    table = table_of(ported_losses.cell(run))
    own = table[table["quarters"] == quarters].sort_values("draw")
    return own["log_perplexity"].to_numpy(dtype=float)


# --- rotary positions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RotaryBases:
    """A base model with rotary positions carried to a width, then read with other rotary bases."""

    base: BaseRun
    quarters: int  # width, in quarters of d
    factors: tuple[float, ...] = FACTORS  # of the base's own
    attention: AttentionRule = "within"
    n_draws: int = N_DRAWS
    n_documents: int = 24  # of training text, on which the best base is chosen


@experiment("resizing.rotary_bases")
def rotary_bases(config: RotaryBases) -> pd.DataFrame:
    """Nats a token with each rotary base: draw, factor, train, held_out."""
    base = bases.load(config.base)
    sample = base.streams.train.head(config.n_documents)
    m = base.model.config.embedding_dim * config.quarters // 4
    rows = []
    for draw in range(config.n_draws):
        treatment = Treatment(attention=config.attention)
        carried = treatment.carry(base.model, m, "orthonormal", draw).model
        for factor in config.factors:
            shape = dataclasses.replace(carried.config, rotary_base=carried.config.rotary_base * factor)
            model = with_weights(shape, carried.state_dict())
            found = {"train": _loss_on(model, base, sample), "held_out": bases.held_out_loss(model, base)}
            rows.append({"draw": draw, "factor": factor, **found})
    return _with_data(pd.DataFrame(rows), base)


def _loss_on(model: Decoder, base: Base, sample: Stream) -> float:
    """Nats a token of a part of the training text."""
    streams = dataclasses.replace(base.streams, held_out=sample)
    return bases.log_perplexity(model, streams, base.length)


def rotary_runs(preset: str, quarters: int) -> list[RotaryBases]:
    """All rotary bases within heads."""
    factors, n_documents = ((1 / 4, 1.0, 4.0), 4) if preset == "quick" else (FACTORS, 24)
    return [
        RotaryBases(base, quarters, factors, n_draws=n_draws(preset), n_documents=n_documents)
        for base in bases.fresh(preset, ROTARY)
    ]


def gains_of_best(table: pd.DataFrame) -> np.ndarray:
    """Held-out loss with the base as it is - with the one that is best on training text, (draws,)."""
    found = []
    for _, own in table.groupby("draw"):
        as_it_is = own.loc[own["factor"] == 1.0, "held_out"].iloc[0]
        best = own["held_out"].to_numpy()[int(own["train"].to_numpy().argmin())]
        found.append(float(as_it_is - best))
    return np.array(found)


def _rope_cells(preset: str) -> list[Cell]:
    runs = [run for quarters in (2, 3) for run in rotary_runs(preset, quarters)]
    return bases.with_bases([run.base for run in runs], [rotary_bases.cell(run) for run in runs])


def _rope(preset: str) -> dict[str, Finding]:
    return {
        name: bases.over_bases(
            [gains_of_best(table_of(rotary_bases.cell(run))) for run in rotary_runs(preset, quarters)], preset
        )
        for name, quarters in (("gain_half_bases", 2), ("gain_0.75_bases", 3))
    }


STUDIES: dict[str, Study] = {
    "resizing.porting": Study(_porting_cells, _porting, beside=component_cells),
    "resizing.rope": Study(_rope_cells, _rope),
}
