"""Does a random rotation of the residual stream make a trained model easier to round to few bits?

The model is folded first, so that a rotation leaves its function alone; then it is rotated, or its
coordinates are exchanged and their signs changed at random (the null), or nothing is done; then every matrix
is rounded to the nearest level.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch

from book.language import draw_batch
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from book.resizing import rounded_weights, rules
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases
from book.resizing.experiments.bases import BaseRun
from book.resizing.rounded_weights import Per
from embviz import projections

Treatment = Literal["none", "rotation", "permutation"]
NONE, ROTATION, PERMUTATION = TREATMENTS = get_args(Treatment)
PERS: tuple[Per, ...] = get_args(Per)
BITS = (3, 4, 5, 6, 8)
FLOAT = 0  # as a number of bits: not rounded
N_SEEDS = {"quick": 2, "laptop": 5, "paper": 5}


@dataclass(frozen=True)
class QuantizedRun:
    """One model, treated in one way; the seed is of the rotation or permutation."""

    base: BaseRun
    treatment: Treatment
    seed: int = 0

    def __post_init__(self) -> None:
        if self.treatment not in TREATMENTS:
            raise ValueError(f"treatment is {self.treatment!r}: choose one of {', '.join(TREATMENTS)}")


@experiment("resizing.quantized")
def quantized(config: QuantizedRun) -> pd.DataFrame:
    """Treat a base model, round it, and measure.

    Returns
    -------
    DataFrame
        quantity, part, bits, per, value. "log_perplexity", nats a token of held-out text, for every number
        of bits and scale, and for 0 bits not rounded (per ""). Of each matrix (part: its name)
        "excess_kurtosis", "expected_kurtosis" of it after a random rotation, "crest_tensor" and
        "crest_channel", and "relative_error" for every number of bits and scale. Of the hidden states before
        each layer and before the last norm (part: the number) "hidden_kurtosis", "hidden_expected" of it
        after a random rotation, and "hidden_concentration", the largest coordinate's mean square over the
        mean.
    """
    base = bases.load(config.base)
    model = treated(folded(config.base), config.treatment, config.seed)
    rows = [_row("log_perplexity", bases.held_out_loss(model, base))]
    for row in rounded_weights.weight_table(model).to_dict("records"):
        for name in ("excess_kurtosis", "crest_tensor", "crest_channel"):
            rows.append(_row(name, row[name], row["name"]))
    for name, array in along_stream(model).items():
        rows.append(_row("expected_kurtosis", rounded_weights.rotated_kurtosis(array), name))
    for bits, per in itertools.product(BITS, PERS):
        rounded = rounded_weights.quantize(model, bits, per)
        rows.append(_row("log_perplexity", bases.held_out_loss(rounded, base), "", bits, per))
        for row in rounded_weights.error_table(model, bits, per).to_dict("records"):
            rows.append(_row("relative_error", row["relative_error"], row["name"], bits, per))
    for layer, states in enumerate(hidden_states(model, base)):
        energy = (states**2).mean(axis=0)
        rows.append(_row("hidden_kurtosis", rounded_weights.excess_kurtosis(states), str(layer)))
        rows.append(_row("hidden_expected", rounded_weights.rotated_kurtosis(states), str(layer)))
        rows.append(_row("hidden_concentration", energy.max() / energy.mean(), str(layer)))
    table = pd.DataFrame(rows)
    table.attrs["data"] = {config.base.text.corpus: base.streams.checksum}
    return table


def _row(quantity: str, value: float, part: str = "", bits: int = FLOAT, per: str = "") -> dict[str, Any]:
    return {"quantity": quantity, "part": part, "bits": bits, "per": per, "value": float(value)}


@functools.lru_cache(maxsize=4)
def folded(run: BaseRun) -> Decoder:
    """A base model with everything folded that a rotation would not commute with, float64; shared."""
    return rules.fold(copy.deepcopy(bases.load(run).model).double())


def treated(model: Decoder, treatment: Treatment, seed: int) -> Decoder:
    """The model in another basis of its residual stream, heads kept; float32.

    Parameters
    ----------
    model : Decoder
        Folded.
    """
    d = model.config.embedding_dim
    if treatment != NONE:
        drawn = (
            projections.draw("orthonormal", d, d, seed=seed)
            if treatment == ROTATION
            else projections.signed_permutation(d, seed)
        )
        model = rules.resize(model, d, projection=drawn).model
    return copy.deepcopy(model).float()


def along_stream(model: Decoder) -> dict[str, np.ndarray]:
    """Matrices by name, the residual axis last: what a rotation of the stream turns are rows (n, D)."""
    roles, found = rules.axes(model), {}
    for name, array in rounded_weights.matrices(model).items():
        found[name] = array.movedim(roles[name].index("residual"), -1).double().numpy()
    return found


@torch.no_grad()
def hidden_states(model: Decoder, base: bases.Base) -> list[np.ndarray]:
    """Residual stream on training text, (n, D) before each layer and before the last norm."""
    tokens = draw_batch(base.streams.train, seed=0, step=0, batch_size=bases.BATCH, length=base.length)
    return [states.flatten(0, 1).double().numpy() for states in model.states(tokens[:, :-1])]


# --- cells ------------------------------------------------------------------------------------------


def runs(preset: str, treatment: Treatment) -> list[QuantizedRun]:
    """One run per seed; without a treatment there is nothing to draw, and one."""
    base = bases.base(preset)
    return [
        QuantizedRun(base, treatment, seed) for seed in range(1 if treatment == NONE else N_SEEDS[preset])
    ]


def shown_cells(preset: str) -> list[Cell]:
    """Of all treatments, and of the base model."""
    every = [run for treatment in TREATMENTS for run in runs(preset, treatment)]
    return bases.base_cells(bases.base(preset)) + [quantized.cell(run) for run in every]


def judged_runs(preset: str, treatment: Treatment) -> list[list[QuantizedRun]]:
    """Rotations, or nothing, a list of draws a base model."""
    draws = range(2 if treatment == ROTATION else 1)
    of = bases.fresh(preset, n=3 if preset == "quick" else 5)
    return [[QuantizedRun(base, treatment, draw) for draw in draws] for base in of]


def _cells(preset: str) -> list[Cell]:
    every = [run for how in TREATMENTS for own in judged_runs(preset, how) for run in own]
    return bases.with_bases([run.base for run in every], [quantized.cell(run) for run in every])


# --- findings ---------------------------------------------------------------------------------------


def mean_of(cell: Cell, quantity: str, bits: int = FLOAT, per: str = "") -> float:
    """A quantity of one cell, its mean over matrices or layers."""
    return float(_of(table_of(cell), {"quantity": quantity, "bits": bits, "per": per}).mean())


def _of(table: pd.DataFrame, chosen: Mapping[str, Any]) -> pd.Series:
    for column, value in chosen.items():
        table = table[table[column] == value]
    return table["value"]


FIGURES: Mapping[str, tuple[str, int, str]] = {
    "kurtosis_weights": ("excess_kurtosis", FLOAT, ""),
    "kurtosis_hidden": ("hidden_kurtosis", FLOAT, ""),
    "int4_tensor": ("log_perplexity", 4, "tensor"),
    "int4_channel": ("log_perplexity", 4, "channel"),
}


def _findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, (quantity, bits, per) in FIGURES.items():
        plain, rotated, permuted = (
            np.array(
                [
                    np.mean([mean_of(quantized.cell(run), quantity, bits, per) for run in own])
                    for own in judged_runs(preset, how)
                ]
            )
            for how in (NONE, ROTATION, PERMUTATION)
        )
        null = {PERMUTATION: float((permuted - plain).mean())}
        found[f"{name}_bases"] = bases.over_bases(rotated - plain, preset, controls=null)
    return found


STUDIES: dict[str, Study] = {
    "resizing.quantization": Study(
        _cells, _findings, "the paper's setting needs a GPU for its base model", beside=shown_cells
    ),
}
