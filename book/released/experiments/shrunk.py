"""What is left of Gemma as a language model where its residual stream has fewer directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
from embviz import projections
from embviz.corpora.corpus import load_text
from embviz.inspection import causal_models

D, SHARES = 640, (0.75, 0.5)
TEXT, N_PARTS, N_STRINGS, N_TOKENS = "wikitext2", 3, 2, 128


@dataclass(frozen=True)
class ShrunkRun:
    """Gemma with its residual stream on fewer directions, on one part of a text; the part seeds the draws."""

    part: int


@experiment("released.shrunk_loss")
def shrunk_loss(config: ShrunkRun) -> pd.DataFrame:
    """Loss with the stream projected after the embedding and after each layer.

    Returns
    -------
    DataFrame
        map ("unchanged", "permuted", "random", "principal", "frequencies": the entropy of the part's
        tokens), share (of the width), loss (bits a token).
    """
    text = load_text(TEXT, part="test")
    ids = gemma.text_parts(text, N_PARTS, N_STRINGS, N_TOKENS)[config.part]
    size = len(text) // N_PARTS
    own = text[config.part * size : (config.part + 1) * size]
    encoded = gemma.tokenizer(models.GEMMA).encode(own, add_special_tokens=False).ids
    shares = np.unique(encoded, return_counts=True)[1] / len(encoded)
    rows = [{"map": "frequencies", "share": 1.0, "loss": float(-(shares * np.log2(shares)).sum())}]
    model = gemma.language_model()
    rows.append({"map": "unchanged", "share": 1.0, "loss": bits(model, ids)})
    order = torch.from_numpy(np.random.default_rng(config.part).permutation(D))
    with on_stream(model, lambda x: x[..., order]):
        rows.append({"map": "permuted", "share": 1.0, "loss": bits(model, ids)})
    basis = stream_directions(model)
    for share in SHARES:
        m = int(share * D)
        drawn = projections.draw("orthonormal", m, D, seed=config.part, scaling="unit").matrix
        for how, T in (("random", drawn), ("principal", basis[:m])):
            with on_stream(model, projection_on(T)):
                rows.append({"map": how, "share": share, "loss": bits(model, ids)})
    table = pd.DataFrame(rows)
    checksums = {f"{TEXT} {part}": models.text_checksum(TEXT, part) for part in ("test", "valid")}
    table.attrs["data"] = models.origin(models.GEMMA) | checksums
    return table


def projection_on(T: np.ndarray) -> Callable[[Tensor], Tensor]:
    """The projection of states (..., D) on the directions T (m, D)."""
    onto = torch.from_numpy(T.T @ T).float()
    return lambda x: x @ onto


@contextmanager
def on_stream(model: Any, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The residual stream is changed after the embedding and after each layer, inside this block."""

    def hook(module: Any, given: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    places = [model.model.embed_tokens, *model.model.layers]
    handles = [place.register_forward_hook(hook) for place in places]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def bits(model: Any, ids: Tensor) -> float:
    """Mean next-token loss of strings (B, T + 1), bits a token."""
    losses = [causal_models.next_token_loss(model, one[None]).item() for one in ids]
    return float(np.mean(losses)) / math.log(2)


@torch.no_grad()
def stream_directions(model: Any) -> np.ndarray:
    """Principal directions of the stream on WikiText-2's validation text, (D, D), the strongest first.

    Each state is taken at length 1, as norms see it, after the embedding and after each layer.
    """
    total = torch.zeros(D, D, dtype=torch.float64)

    def add(states: Tensor) -> Tensor:
        x = torch.nn.functional.normalize(states.flatten(0, 1).double(), dim=1)
        total.add_(x.T @ x)
        return states

    with on_stream(model, add):
        for ids in gemma.text_parts(load_text(TEXT, part="valid"), 1, 2 * N_STRINGS, N_TOKENS)[0]:
            model.model(ids[None, :-1])
    return np.ascontiguousarray(np.linalg.eigh(total.numpy())[1][:, ::-1].T)


# --- cells and findings ---


def _loss_cells(preset: str) -> list[Cell]:
    return [shrunk_loss.cell(ShrunkRun(part)) for part in range(N_PARTS)] if preset == "paper" else []


def _chosen(table: pd.DataFrame, column: str, **chosen: Any) -> np.ndarray:
    for name, value in chosen.items():
        table = table[table[name] == value]
    return table[column].to_numpy()


def _loss(preset: str) -> dict[str, Finding]:
    table = load_runs("released.shrunk_loss")
    frequencies = _chosen(table, "loss", map="frequencies")

    def above(how: str, share: float) -> np.ndarray:
        return _chosen(table, "loss", map=how, share=share) - frequencies

    control = {"permuted": float(above("permuted", 1.0).mean())}
    asked = {
        "random_three_quarters": ("random", 0.75),
        "principal_three_quarters": ("principal", 0.75),
        "unchanged": ("unchanged", 1.0),
    }
    return {
        name: findings.over_seeds(
            above(*how), repeats="parts of the text", corpus=TEXT,
            controls=control if name.endswith("quarters") else {},
        )
        for name, how in asked.items()
    }  # fmt: skip


STUDIES: dict[str, Study] = {"released.shrink_loss": Study(_loss_cells, _loss, models.NEEDS)}
