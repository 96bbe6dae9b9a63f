"""What a query projection does to the embedding: parts of the gradient, noise, and hidden states by layer.

Source: geometry paper, abstract and sections 4.2, 4.3, 5.2 and 9, which give no measurement.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.geometry.experiments.steering_language import Setting
from book.language import (
    Streams,
    TextConfig,
    draw_batch,
    load_streams,
    next_token_losses,
    train_language_model,
)
from book.ledger.cells import Cell, experiment, load
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Study
from book.transformer import Attending, Transformer

WITH: Attending = "standard"
WITHOUT: Attending = "no_q"
IDENTITY: Attending = "identity_q"
ATTENTIONS = (WITH, WITHOUT, IDENTITY)
LAPTOP = Setting(64, 4, 4, 256, 64, 16, 800, 2e-3)
PARTS = ("query", "key", "value")  # of attention, through which the embedding has a gradient
SAMPLE_SEED = 1_000_003  # of the batches whose gradients are measured: the same for all runs
N_NOISE, N_PARTS = 32, 8  # batches behind the noise, and behind the parts of a gradient
N_MOMENTS = 4  # after the start, evenly spaced; the last is the end
N_LEADING = 8  # directions that count as leading


@dataclass(frozen=True)
class QueryRun:
    """One language model; its seed is of weights and batches."""

    text: TextConfig
    attention: Attending = WITH
    seed: int = 0
    setting: Setting = LAPTOP


@experiment("geometry.query_geometry")
def query_geometry(config: QueryRun) -> pd.DataFrame:
    """Train one model, and measure it at the start and four times more.

    Returns
    -------
    DataFrame
        step, measure, layer (0: none), value. Measures: those of :func:`gradient_parts`,
        :func:`gradient_noise` and :func:`hidden_similarity`; "identity", the cosine of W_Q with the identity.
    """
    streams, setting = load_streams(config.text), config.setting
    shape = dataclasses.replace(
        setting.shape(streams.vocab_size, tied=False, start="small"), attention=config.attention
    )
    model = Transformer(shape, seed=config.seed).to("cuda" if torch.cuda.is_available() else "cpu")
    every = setting.n_steps // N_MOMENTS
    tables = []
    for snapshot in train_language_model(
        model, streams, setting.training, seed=config.seed, snapshot_at=every, weights="none"
    ):
        tables.append(measured(model, streams, setting).assign(step=snapshot.step))
    table = pd.concat(tables, ignore_index=True)[["step", "measure", "layer", "value"]]
    table.attrs["data"] = {config.text.corpus: streams.checksum}
    return table


def measured(model: Transformer, streams: Streams, setting: Setting) -> pd.DataFrame:
    """All measures of one model as it is: measure, layer, value."""
    device = model.embedding.device
    batches = [
        draw_batch(
            streams.train, seed=SAMPLE_SEED, step=i, batch_size=setting.batch_size, length=setting.length
        ).to(device)
        for i in range(N_NOISE)
    ]
    rows = [(name, 0, value) for name, value in gradient_noise(model, batches).items()]
    rows += [(name, 0, value) for name, value in gradient_parts(model, batches[:N_PARTS]).items()]
    rows += hidden_similarity(model, batches[0])
    for layer, block in enumerate(model.blocks, start=1):
        weight = getattr(block.attention.query, "weight", None)  # type: ignore[union-attr]
        if isinstance(weight, Tensor):
            rows.append(("identity", layer, cosine(weight, torch.eye(len(weight), device=device))))
    return pd.DataFrame(rows, columns=["measure", "layer", "value"]).astype({"value": np.float32})


def cosine(one: Tensor, other: Tensor) -> float:
    """Of two tensors of one shape, as vectors."""
    return torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0).item()


# --- gradients --------------------------------------------------------------------------------------


@contextmanager
def cut(model: Transformer, part: str) -> Iterator[None]:
    """No gradient flows from the queries, keys or values of any layer into the hidden states below."""
    hooks = [
        getattr(block.attention, part).register_forward_pre_hook(lambda _, args: (args[0].detach(),))
        for block in model.blocks
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def gradient(model: Transformer, batches: Sequence[Tensor]) -> Tensor:
    """Of the mean loss over batches, with respect to the embedding, (V, D)."""
    loss = torch.stack([next_token_losses(model, batch).mean() for batch in batches]).mean()
    return torch.autograd.grad(loss, model.embedding)[0]


def gradient_parts(model: Transformer, batches: Sequence[Tensor]) -> dict[str, float]:
    """Cosine of the embedding's gradient through all queries, keys or values with the rest of it.

    Returns
    -------
    dict
        "through query" and so on. Below 0: what the part asks of the embedding opposes what the others ask.
    """
    whole = gradient(model, batches)
    found = {}
    for part in PARTS:
        with cut(model, part):
            rest = gradient(model, batches)
        found[f"through {part}"] = cosine(whole - rest, rest)
    return found


def gradient_noise(model: Transformer, batches: Sequence[Tensor]) -> dict[str, float]:
    """Variance of a batch's gradient over the squared length of its expectation, both without bias.

    Returns
    -------
    dict
        "noise of embedding": of the embedding's gradient; "noise of all": of all parameters'.

    Source
    ------
    The simple noise scale of McCandlish et al. (2018), for the batches that are trained on.
    """
    parameters = list(model.parameters())
    gradients = []
    for batch in batches:
        parts = torch.autograd.grad(next_token_losses(model, batch).mean(), parameters)
        embedding = next(g for g, p in zip(parts, parameters, strict=True) if p is model.embedding)
        gradients.append((embedding.flatten(), torch.cat([part.flatten() for part in parts])))
    found = {}
    for name, rows in zip(("embedding", "all"), zip(*gradients, strict=True), strict=True):
        stacked = torch.stack(rows).double()
        variance = stacked.var(dim=0).sum()
        signal = stacked.mean(dim=0).square().sum() - variance / len(stacked)
        found[f"noise of {name}"] = (variance / signal).item()
    return found


# --- hidden states ----------------------------------------------------------------------------------


@torch.no_grad()
def hidden_similarity(model: Transformer, tokens: Tensor) -> list[tuple[str, int, float]]:
    """Hidden states after each layer beside the embeddings of the tokens that they stand over.

    Returns
    -------
    list of (measure, layer, value)
        "similarity": CKA with the embeddings of the same tokens; "permuted": of these tokens in random order;
        "next": of the tokens that follow; "overlap": the share of their leading directions that lies in the
        leading directions of the embeddings.
    """
    reading, following = tokens[:, :-1], tokens[:, 1:]
    own, after = (model.embedding[ids.flatten()] for ids in (reading, following))
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(own)))
    hidden, rows = model.embed(reading), []
    for layer, block in enumerate(model.blocks, start=1):
        hidden = block(hidden, reading.shape[1])
        states = hidden.flatten(0, 1)
        for name, beside in (("similarity", own), ("permuted", own[order]), ("next", after)):
            rows.append((name, layer, linear_cka(states, beside)))
        rows.append(("overlap", layer, leading_overlap(states, own, N_LEADING)))
    return rows


def linear_cka(x: Tensor, y: Tensor) -> float:
    """Centred kernel alignment with linear kernels of two sets of vectors, row by row; 0 to 1.

    Source
    ------
    Kornblith et al. (2019), section 3: 1 if one set is the other rotated and scaled.
    """
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)
    between = (x.T @ y).square().sum()
    return (between / ((x.T @ x).norm() * (y.T @ y).norm())).item()


def leading_overlap(x: Tensor, y: Tensor, n: int) -> float:
    """Mean squared cosine of the angles between the spaces of the n leading directions; 0 to 1."""
    one, other = (torch.linalg.svd(z - z.mean(dim=0), full_matrices=False).Vh[:n] for z in (x, y))
    return ((one @ other.T).square().sum() / n).item()


# --- cells and findings -----------------------------------------------------------------------------


def query_runs(preset: str) -> list[QueryRun]:
    """Models with W_Q, without, and with a W_Q that starts as the identity, seed by seed."""
    like = QueryRun(TextConfig("tinystories_5mb", n_held_out=50))
    if preset == "quick":
        like = QueryRun(
            TextConfig("embedded", n_documents=200, n_held_out=5),
            setting=Setting(16, 2, 2, 32, 16, 8, 40, 1e-2),
        )
    elif preset == "paper":
        setting = Setting(256, 4, 4, 1_024, 256, 64, 5_000, 3e-4, bfloat16=True)
        like = QueryRun(TextConfig("tinystories", n_documents=200_000, n_held_out=500), setting=setting)
    return [
        dataclasses.replace(like, attention=attention, seed=seed)
        for seed in range(2 if preset == "quick" else 3)
        for attention in ATTENTIONS
    ]


def query_cells(preset: str) -> list[Cell]:
    return [query_geometry.cell(run) for run in query_runs(preset)]


def _by_seed(table: pd.DataFrame, attention: str, measure: str) -> pd.Series:
    """Means over moments after the start and layers, one per seed."""
    chosen = table.query("attention == @attention and measure == @measure and step > 0")
    return chosen.groupby("seed")["value"].mean()


def _interference(preset: str) -> dict[str, Finding]:
    table, corpus = load(query_cells(preset)), query_runs(preset)[0].text.corpus
    through = {part: _by_seed(table, WITH, f"through {part}") for part in PARTS}
    noise = "noise of embedding"
    logs = table.assign(value=np.log(table["value"].where(table["measure"] == noise)))
    ratio = (_by_seed(logs, WITHOUT, noise) - _by_seed(logs, WITH, noise)).map(np.exp)
    end = table[table["step"] == table["step"].max()]
    start_there = _by_seed(end, IDENTITY, "identity")
    values: dict[str, tuple[pd.Series, dict[str, float]]] = {
        "interference": (through["query"], {"keys": through["key"].mean()}),
        "noise_ratio": (ratio, {}),
        "identity": (_by_seed(end, WITH, "identity"), {"identity_start": start_there.mean()}),
    }
    return {
        name: over_seeds(
            found.to_numpy(), controls={key: float(value) for key, value in controls.items()}, corpus=corpus
        )
        for name, (found, controls) in values.items()
    }


def _similarity(preset: str) -> dict[str, Finding]:
    table, corpus = load(query_cells(preset)), query_runs(preset)[0].text.corpus
    end = table[(table["step"] == table["step"].max()) & (table["layer"] == table["layer"].max())]

    def at(measure: str) -> np.ndarray:
        chosen = end.query("attention == @WITH and measure == @measure")
        return chosen.sort_values("seed")["value"].to_numpy()

    control = {"permuted": float(at("permuted").mean())}
    return {"last_similarity": over_seeds(at("similarity"), controls=control, corpus=corpus)}


NEEDS = "the paper's model takes a GPU"
STUDIES = {
    "geometry.query_interference": Study(query_cells, _interference, NEEDS),
    "geometry.residual_space": Study(query_cells, _similarity, NEEDS),
}
