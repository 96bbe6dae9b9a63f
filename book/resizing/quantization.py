"""The stored runs of the chapter on rounding weights, as tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from book.ledger.cells import table_of
from book.resizing import story
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, quantized
from book.resizing.experiments.quantized import FLOAT, NONE, PERMUTATION, ROTATION, Treatment

TREATED: Mapping[Treatment, str] = {
    NONE: "as trained",
    ROTATION: "rotated",
    PERMUTATION: "permuted",
}
PERS: Mapping[str, str] = {"tensor": "a scale a matrix", "channel": "a scale a row"}


# --- the whole model ------------------------------------------------------------------------------------


@functools.cache
def costs(preset: str) -> pd.DataFrame:
    """Log perplexity after rounding less before: basis, seed, per, bits, rounding_cost (nats a token)."""
    rows = []
    for kind, name in TREATED.items():
        for run in quantized.runs(preset, kind):
            table = table_of(quantized.quantized.cell(run))
            losses = table[table["quantity"] == "log_perplexity"]
            exact = float(losses.loc[losses["bits"] == FLOAT, "value"].iloc[0])
            for row in losses[losses["bits"] != FLOAT].itertuples():
                cost = float(row.value) - exact  # type: ignore[arg-type]
                rows.append(
                    {
                        "basis": name,
                        "seed": run.seed,
                        "per": PERS[str(row.per)],
                        "bits": row.bits,
                        "rounding_cost": cost,
                    }
                )
    return pd.DataFrame(rows)


# --- kurtosis -------------------------------------------------------------------------------------------

WEIGHTS, STATES = KINDS = ("weights", "hidden states")
MEASURED, AFTER, EXPECT = POINTS = ("as trained", "rotated", "expected of a rotation")


@functools.cache
def kurtoses(preset: str) -> pd.DataFrame:
    """Excess kurtosis of matrices and hidden states: kind, name, series (one of POINTS), seed, value."""
    rows = []
    names = {
        WEIGHTS: ("excess_kurtosis", "expected_kurtosis"),
        STATES: ("hidden_kurtosis", "hidden_expected"),
    }
    for treatment, point in ((NONE, MEASURED), (ROTATION, AFTER)):
        for run in quantized.runs(preset, treatment):
            table = table_of(quantized.quantized.cell(run))
            for kind, (found, expected) in names.items():
                wanted = ((found, point),) if treatment == ROTATION else ((found, point), (expected, EXPECT))
                for quantity, label in wanted:
                    own = table[table["quantity"] == quantity]
                    rows += [
                        {
                            "kind": kind,
                            "name": _name(str(row.part)),
                            "series": label,
                            "seed": run.seed,
                            "excess_kurtosis": float(row.value),  # type: ignore[arg-type]
                        }
                        for row in own.itertuples()
                    ]
    return pd.DataFrame(rows)


def _name(part: str) -> str:
    """What a figure calls a matrix, or the number of a layer."""
    if part.isdigit():
        return "embedded tokens" if part == "0" else f"after layer {part}"
    words = part.removesuffix(".weight").split(".")
    if words[0] != "blocks":
        return {"embedding": "token embeddings", "free_head": "output embedding", "position": "positions"}[
            part
        ]
    names = {"query": "queries", "key": "keys", "value": "values", "out": "attention out"}
    names |= {"up": "MLP in", "down": "MLP out"}
    return f"{names[words[-1]]}, layer {int(words[1]) + 1}"


# --- what maps read ---------------------------------------------------------------------------------------

MAPS = ("query", "key", "value", "out", "up", "down")


@torch.no_grad()
def inputs_of(model: Decoder) -> dict[str, np.ndarray]:
    """What each map of the layers reads (n, inputs) over the start of a bundled story, by its module."""
    seen: dict[str, np.ndarray] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            seen[name] = given[0].flatten(0, -2).numpy()

        return hook

    hooks = [
        part.register_forward_pre_hook(keep(name))
        for name, part in model.named_modules()
        if name.endswith(MAPS)
    ]
    model(story.windows(model.config.length))
    for one in hooks:
        one.remove()
    return seen
