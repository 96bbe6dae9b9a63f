"""One layer of Gemma is trained for a short time after its query matrix was replaced."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.ledger import findings
from book.ledger.cells import Cell, experiment
from book.ledger.findings import Finding
from book.ledger.stored import load_runs
from book.ledger.studies import Study
from book.released import gemma, models
from book.released.experiments.queries import N_PARTS, N_STRINGS, N_TOKENS, PARTS, TEXT
from embviz.corpora.corpus import load_text
from embviz.inspection import causal_models

LAYER, N_UPDATES, RATE, N_TRAINED = 11, 100, 1e-4, 64
STEPS = (0, 25, 50, 100)  # updates after which the loss is measured
HOWS = ("unchanged", "identity", "permuted")


@dataclass(frozen=True)
class TunedRun:
    """Training on one part of the validation text, measured on the same part of the test text."""

    part: int


def replaced(matrix: Tensor, how: str) -> Tensor:
    """A query matrix, or what takes its place at the same norm: ones on the diagonal, permuted entries."""
    if how == "permuted":
        order = np.random.default_rng(0).permutation(matrix.numel())
        return matrix.flatten()[torch.from_numpy(order)].view_as(matrix)
    if how == "identity":
        ones = torch.eye(*matrix.shape, dtype=matrix.dtype)
        return ones * (matrix.norm() / ones.norm())
    return matrix.clone()


@contextmanager
def one_layer(model: Any) -> Iterator[Any]:
    """A layer whose matrices are trained, all but its queries; afterwards the model is as it was."""
    layer, required = model.model.layers[LAYER], [one.requires_grad for one in model.parameters()]
    before = copy.deepcopy(layer.state_dict())
    model.requires_grad_(False)
    layer.requires_grad_(True)
    layer.self_attn.q_proj.requires_grad_(False)
    try:
        yield layer
    finally:
        layer.load_state_dict(before)
        for one, needed in zip(model.parameters(), required, strict=True):
            one.requires_grad_(needed)


def losses(model: Any, how: str, strings: Tensor, measured: Tensor) -> list[float]:
    """Loss on `measured` (B, T + 1), bits a token, after each of STEPS updates, each of one string."""
    found = []
    with one_layer(model) as layer:
        matrix = layer.self_attn.q_proj.weight
        matrix.data.copy_(replaced(matrix.data, how))
        trained = [one for one in layer.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=RATE)
        for step in range(N_UPDATES + 1):
            if step in STEPS:
                found.append(_bits(model, measured))
            if step < N_UPDATES:
                optimizer.zero_grad()
                causal_models.next_token_loss(model, strings[step][None]).backward()
                optimizer.step()
    return found


@torch.no_grad()
def _bits(model: Any, ids: Tensor) -> float:
    each = [causal_models.next_token_loss(model, one[None]).item() for one in ids]
    return float(np.mean(each)) / math.log(2)


@experiment("released.tuned")
def tuned(config: TunedRun) -> pd.DataFrame:
    """Losses of the unchanged model and of two replacements over a short training of one layer.

    Returns
    -------
    DataFrame
        how, updates, loss (bits a token).
    """
    model = gemma.language_model()
    strings = gemma.text_parts(load_text(TEXT, part="valid"), N_PARTS, N_UPDATES, N_TRAINED)[config.part]
    measured = gemma.text_parts(load_text(TEXT, part="test"), N_PARTS, N_STRINGS, N_TOKENS)[config.part]
    rows = [
        (how, step, loss)
        for how in HOWS
        for step, loss in zip(STEPS, losses(model, how, strings, measured), strict=True)
    ]
    table = pd.DataFrame(rows, columns=["how", "updates", "loss"])
    checksums = {f"{TEXT} {part}": models.text_checksum(TEXT, part) for part in ("test", "valid")}
    table.attrs["data"] = models.origin(models.GEMMA) | checksums
    return table


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [tuned.cell(TunedRun(part)) for part in range(N_PARTS)] if preset == "paper" else []


def trainings() -> pd.DataFrame:
    """Stored runs: part, how, updates, loss, cost (loss less the unchanged model's after as many)."""
    table = load_runs("released.tuned")
    own = table[table["how"] == "unchanged"].set_index(["part", "updates"])["loss"]
    places = pd.MultiIndex.from_frame(table[["part", "updates"]])
    return table.assign(cost=table["loss"].to_numpy() - own[places].to_numpy())


def _tuned(preset: str) -> dict[str, Finding]:
    costs = trainings().pivot_table("cost", ["how", "part"], "updates")
    left = costs[N_UPDATES] / costs[0]
    control = {"permuted": float(left["permuted"].mean())}
    return {
        "left": findings.over_seeds(
            left["identity"].to_numpy(), repeats=PARTS, corpus=TEXT, controls=control
        ),
    }


STUDIES: dict[str, Study] = {"released.queries_tuned": Study(_cells, _tuned, models.NEEDS)}
