"""The stored runs of the chapter on rounding weights, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from book.ledger import load_runs
from book.resizing import story
from book.resizing.decoder import Decoder
from book.resizing.experiments.quantized import FLOAT, NONE, PERMUTATION, ROTATION, Treatment

TREATED: Mapping[Treatment, str] = {
    NONE: "as trained",
    ROTATION: "rotated",
    PERMUTATION: "permuted",
}
PERS: Mapping[str, str] = {"tensor": "a scale a matrix", "channel": "a scale a row"}


# --- the whole model ------------------------------------------------------------------------------------


def _stored() -> pd.DataFrame:
    """Runs of one base model: basis (a value of TREATED), seed (of the rotation), and their tables."""
    table = load_runs("resizing.quantized", **{"base.seed": 0})
    return table.assign(basis=table["treatment"].map(TREATED))


def costs() -> pd.DataFrame:
    """Log perplexity after rounding less before: basis, seed, per, bits, rounding_cost (nats a token)."""
    table = _stored().query("quantity == 'log_perplexity'").set_index(["basis", "seed"])
    exact = table.loc[table["bits"] == FLOAT, "value"]
    rounded = table[table["bits"] != FLOAT].assign(rounding_cost=lambda rows: rows["value"] - exact)
    rounded["per"] = rounded["per"].map(PERS)
    return rounded.reset_index()[["basis", "seed", "per", "bits", "rounding_cost"]]


# --- kurtosis -------------------------------------------------------------------------------------------

WEIGHTS, STATES = KINDS = ("weights", "hidden states")
MEASURED, AFTER, EXPECT = POINTS = ("as trained", "rotated", "expected of a rotation")


def kurtoses() -> pd.DataFrame:
    """Excess kurtosis of matrices and hidden states: kind, name, series (one of POINTS), seed, value."""
    names = {
        ("excess_kurtosis", NONE): (WEIGHTS, MEASURED),
        ("excess_kurtosis", ROTATION): (WEIGHTS, AFTER),
        ("expected_kurtosis", NONE): (WEIGHTS, EXPECT),
        ("hidden_kurtosis", NONE): (STATES, MEASURED),
        ("hidden_kurtosis", ROTATION): (STATES, AFTER),
        ("hidden_expected", NONE): (STATES, EXPECT),
    }
    table = _stored().set_index(["quantity", "treatment"])
    parts = [table.loc[[key]].assign(kind=kind, series=series) for key, (kind, series) in names.items()]
    found = pd.concat(parts, ignore_index=True).rename(columns={"value": "excess_kurtosis"})
    found["name"] = found["part"].map(_name)
    return found[["kind", "name", "series", "seed", "excess_kurtosis"]]


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
