"""The stored runs of the chapter on carrying a transformer, as tables."""

from __future__ import annotations

import copy
import dataclasses
import functools

import numpy as np
import pandas as pd
import torch

from book.ledger import load_runs
from book.ledger.cells import table_of
from book.resizing import story
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, porting, recovery, tuned, widths
from book.resizing.experiments.porting import MAPS
from book.resizing.recovery_charts import THREE, fine_tunings

GAINS = {"dropped": "dropped", "projected": "as a vector", "dense": "as a matrix"}
FLOOR = 1e-16  # the order of a sum in float64: where smaller errors are shown
NAMES = {
    "commuting": "RMSNorm, heads kept",
    "one_head": "one head, plain",
    "folded": "LayerNorm, gains: folded",
    "alibi": "ALiBi, heads kept",
    "rotary_kept": "rotary, heads kept",
    "peri": "peri-norm",
    "sphere": "normalized GPT",
    "within": "a map in each head",
    "gains_dense": "gains as a matrix",
    "as_written": "MLP and head as written",
    "plain_heads": "four heads, plain",
    "folded_plain": "LayerNorm folded, plain",
    "rotary": "rotary, one head, plain",
    "rotary_within": "rotary, a map in each",
    "centering": "centering kept",
    "gains_dropped": "gains dropped",
    "gains_one": "gains: their mean",
    "gains_projected": "gains as a vector",
    "hidden": "hidden units mapped",
}


def model_of() -> Decoder:
    """The base model in float64."""
    return copy.deepcopy(bases.load(bases.base()).model).double()


@functools.cache
def component_errors() -> pd.DataFrame:
    """The largest relative logit error over draws, m = d: part, map_kind, logit_error (FLOOR at least)."""
    rows = []
    for name, part in NAMES.items():
        for kind in MAPS:
            error = max(FLOOR, float(porting.errors(name, kind).max()))
            rows.append({"part": part, "map_kind": kind, "logit_error": error})
    return pd.DataFrame(rows)


RANDOM, PRINCIPAL, COORDINATES = "a random map", "principal directions", "coordinates at random"
N_STATES = 1_024  # hidden states of a bundled text, of which principal directions are taken on the page


def losses_by_map() -> pd.DataFrame:
    """Nats lost right after a port, draws averaged: map, ratio (m / d), base_model, lost."""
    families = {widths.ORTHONORMAL: RANDOM, widths.PCA: PRINCIPAL, widths.COORDINATES: COORDINATES}
    ports = load_runs("resizing.language", **{"base.seed": [1, 2, 3]}).query("rule == 'commuting rules'")
    ports = ports[ports["family"].isin(families) & (ports["m"] < ports["embedding_dim"])]
    ports = ports.rename(columns={"base.seed": "base_model"})
    ports = ports.assign(ratio=ports["m"] / ports["embedding_dim"], map=ports["family"].map(families))
    return ports.groupby(["base_model", "map", "ratio"], as_index=False)["lost"].mean()


def states_of() -> np.ndarray:
    """Hidden states (n, D) of a base model on a bundled text, centered and over their lengths, float64."""
    base = dataclasses.replace(bases.load(bases.base()), model=model_of())  # float64 throughout
    states = bases.calibration(base, N_STATES, streams=story.streams_for(base))
    states = states - states.mean(axis=1, keepdims=True)  # as LayerNorm sees them
    unit: np.ndarray = states / np.linalg.norm(states, axis=1, keepdims=True)
    return unit


def gain_losses() -> pd.DataFrame:
    """Nats lost, draws averaged: where (width, and before or after fine-tuning), rule, base_model, lost."""
    places = {"m = d": 4, "m = d / 2": 2}
    rows = []
    for rule in GAINS:
        for run, after in zip(porting.gain_runs(rule), tuned.gain_tuned(rule), strict=True):
            original = float(table_of(tuned.tuned.cell(after))["original"].iloc[0])
            lost = {where: porting.losses(run, n).mean() - original for where, n in places.items()}
            lost["m = d / 2, fine-tuned"] = tuned.lost([after])[0]
            own = {"rule": GAINS[rule], "base_model": run.base.seed}
            rows += [{"where": where, **own, "lost": value} for where, value in lost.items()]
    return pd.DataFrame(rows)


def head_losses() -> pd.DataFrame:
    """Nats lost: where (width, and before or after fine-tuning), rule, base_model, lost."""
    plain = load_runs("resizing.tuned", attention="plain", as_drawn=False)
    plain["lost"] = plain["log_perplexity"] - plain["original"]
    plain["rule"] = np.where(plain["scratch"], "plain, not trained before", "plain")
    kept = fine_tunings(n_steps=400, ratios=["(0.5,)", "(0.75,)"], treatment=recovery.PROJECTION, **THREE)
    kept = kept[kept["seed"] == kept["base.seed"]].assign(rule="heads kept")
    both = pd.concat([kept, plain], ignore_index=True).query("step in (0, 400)")
    both["where"] = both["ratio"].map({0.5: "m = d / 2", 0.75: "m = 3 d / 4"})
    both["where"] += np.where(both["step"] == 400, ", fine-tuned", "")
    both = both.rename(columns={"base.seed": "base_model"}).sort_values(["ratio", "step"], kind="stable")
    both["base_model"] = both["base_model"].fillna(both["seed"])
    return both[["where", "rule", "base_model", "lost"]]


# --- features -----------------------------------------------------------------------------------------


@torch.no_grad()
def states_read(model: Decoder) -> np.ndarray:
    """Residual streams of all layers (n, D) over the start of a bundled story."""
    return torch.stack(model.states(story.windows(model.config.length))).flatten(0, -2).numpy()


@torch.no_grad()
def features(model: Decoder) -> dict[str, np.ndarray]:
    """Values (n characters, n features) after the last layer over the start of a bundled story.

    Coordinates of the stream, less their means; hidden units of the last MLP; and the sizes along the
    stream's 16 principal directions.
    """
    hidden: list[np.ndarray] = []
    down = model.get_submodule(f"blocks.{model.config.n_layers - 1}.down")
    hook = down.register_forward_pre_hook(lambda _, given: hidden.append(given[0].flatten(0, -2).numpy()))
    stream = model.states(story.windows(model.config.length))[-1].flatten(0, -2).numpy()
    hook.remove()
    stream = stream - stream.mean(axis=0)
    axes = np.linalg.svd(stream, full_matrices=False)[2][:16]
    return {
        "coordinates": stream,
        "hidden units": hidden[0],
        "principal directions": abs(stream @ axes.T),
    }
