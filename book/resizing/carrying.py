"""The stored runs of the chapter on carrying a transformer, as tables."""

from __future__ import annotations

import copy
import dataclasses
import functools

import numpy as np
import pandas as pd
import torch

from book.ledger.cells import missing, table_of
from book.resizing import story
from book.resizing.decoder import Decoder
from book.resizing.experiments import bases, porting, recovery, several_bases, widths
from book.resizing.experiments.porting import COMPONENTS, MAPS, MORE_COMPONENTS

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


def model_of(preset: str, architecture: str = bases.LAYER) -> Decoder:
    """A base model in float64."""
    return copy.deepcopy(bases.load(bases.base(preset, architecture)).model).double()


@functools.cache
def component_errors(preset: str) -> pd.DataFrame:
    """The largest relative logit error over draws, m = d: part, map_kind, logit_error (FLOOR at least)."""
    rows = []
    for name, part in NAMES.items():
        component = {**COMPONENTS, **MORE_COMPONENTS}[name]
        beside = name in MORE_COMPONENTS and preset != "quick"
        if beside and missing([porting.ports.cell(component.port(preset))]):
            continue
        for kind in MAPS:
            error = max(FLOOR, float(porting.errors(preset, name, kind).max()))
            rows.append({"part": part, "map_kind": kind, "logit_error": error})
    return pd.DataFrame(rows)


RANDOM, PRINCIPAL, COORDINATES = "a random map", "principal directions", "coordinates at random"
N_STATES = 1_024  # hidden states of a bundled text, of which principal directions are taken on the page


def losses_by_map(preset: str) -> pd.DataFrame:
    """Nats lost right after a port, draws averaged: map, ratio (m / d), base_model, lost."""
    families = {widths.ORTHONORMAL: RANDOM, widths.PCA: PRINCIPAL, widths.COORDINATES: COORDINATES}
    rows = []
    for run in widths.language_runs(preset):
        table = table_of(widths.language.cell(run))
        for family, name in families.items():
            for quarters in run.quarters:
                lost = widths.lost_of(table, family, quarters)
                own = {"map": name, "ratio": quarters / 4, "base_model": run.base.seed}
                rows.append({**own, "lost": lost})
    return pd.DataFrame(rows)


def states_of(preset: str) -> np.ndarray:
    """Hidden states (n, D) of a base model on a bundled text, centered and over their lengths, float64."""
    base = dataclasses.replace(bases.load(bases.base(preset)), model=model_of(preset))  # float64 throughout
    states = bases.calibration(base, N_STATES, streams=story.streams_for(base))
    states = states - states.mean(axis=1, keepdims=True)  # as LayerNorm sees them
    unit: np.ndarray = states / np.linalg.norm(states, axis=1, keepdims=True)
    return unit


def gain_losses(preset: str) -> pd.DataFrame:
    """Nats lost, draws averaged: where (width, and before or after fine-tuning), rule, base_model, lost."""
    places = {"m = d": 4, "m = d / 2": 2}
    rows = []
    for rule in GAINS:
        for run, tuned in zip(
            several_bases.gain_runs(preset, rule), several_bases.gain_tuned(preset, rule), strict=True
        ):
            original = float(table_of(several_bases.tuned.cell(tuned))["original"].iloc[0])
            lost = {where: porting.losses(run, n).mean() - original for where, n in places.items()}
            lost["m = d / 2, fine-tuned"] = several_bases.lost([tuned])[0]
            own = {"rule": GAINS[rule], "base_model": run.base.seed}
            rows += [{"where": where, **own, "lost": value} for where, value in lost.items()]
    return pd.DataFrame(rows)


def head_losses(preset: str) -> pd.DataFrame:
    """Nats lost: where (width, and before or after fine-tuning), rule, base_model, lost."""
    rows = []
    for share, ratio in {"d / 2": 0.5, "3 d / 4": 0.75}.items():
        kept = recovery.curves(several_bases.ours(preset, ratio), stored=False).groupby("seed")["lost"]
        plain, scratch = (
            several_bases.their(preset, ratio, treatment=several_bases.PLAIN, scratch=scratch)
            for scratch in (False, True)
        )
        for moment, end in (("", False), (", fine-tuned", True)):
            ends = (kept.last() if end else kept.first()).to_numpy()
            losses = {"heads kept": ends, "plain": several_bases.lost(plain, end=end)}
            losses["plain, not trained before"] = several_bases.lost(scratch, end=end)
            for rule, lost in losses.items():
                own = {"where": f"m = {share}{moment}", "rule": rule}
                rows += [{**own, "base_model": n, "lost": one} for n, one in enumerate(lost, start=1)]
    return pd.DataFrame(rows)


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
