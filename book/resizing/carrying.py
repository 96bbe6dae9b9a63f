"""The stored runs of the chapter on carrying a transformer, as tables."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from book.resizing import story
from book.resizing.experiments import bases, porting
from book.resizing.experiments.bases import NO_GAINS
from book.resizing.experiments.porting import COMPONENTS, GAIN_RULES, HEAD_RULES, MAPS, MORE_COMPONENTS
from embviz.ledger import studies
from embviz.ledger.cells import missing, table_of
from embviz.models.decoder import Decoder
from embviz.models.resizing import AttentionRule

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
RULES: dict[AttentionRule, str] = {"kept": "heads kept", "within": "within heads", "plain": "plain"}


def shown_preset(claim: str = "resizing.porting") -> str:
    """The largest stored preset of a claim, or the quick one, which is computed where it is asked for."""
    return studies.find_study(claim).largest_stored() or "quick"


def data_note(preset: str) -> str:
    """Text and sizes, for a caption."""
    run = bases.base(preset)
    shape = run.shape
    source = "Bundled documentation" if run.text.corpus == "embedded" else "Short stories"
    return (
        f"{source} in bytes, {shape.n_layers} layers, {shape.n_heads} heads of {shape.head_width}, "
        f"d = {shape.embedding_dim}; {porting.n_draws(preset)} draws of the map"
    )


def model_of(preset: str, architecture: str = bases.LAYER) -> Decoder:
    """A base model in float64."""
    return copy.deepcopy(bases.load(bases.base(preset, architecture)).model).double()


def reading(preset: str, n_places: int = 14) -> tuple[Tensor, list[str]]:
    """Characters (1, T) of a text that the models haven't read, and how they are written."""
    streams = story.streams_for(bases.load(bases.base(preset)))
    ids = streams.held_out.ids[1 : 1 + n_places].astype(np.int64)
    return torch.from_numpy(ids)[None], [streams.text(int(token)).strip("'") for token in ids]


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


def gain_losses(preset: str) -> pd.DataFrame:
    """Nats lost by a port: rule, width, draw, lost; the model trained without gains beside."""
    rows = []
    runs = {rule: porting.gain_run(preset, rule) for rule in GAIN_RULES}
    runs["trained without gains"] = porting.gain_run(preset, "folded", NO_GAINS)
    for rule, run in runs.items():
        original = bases.load(run.base).log_perplexity
        for quarters, width in ((4, "m = d"), (2, "m = d / 2")):
            for draw, loss in enumerate((porting.losses(run, quarters) - original).tolist()):
                rows.append({"rule": rule, "width": width, "draw": draw, "lost": loss})
    return pd.DataFrame(rows)


def head_losses(preset: str) -> pd.DataFrame:
    """Nats lost by a port at every width: ratio (m / d), rule, seed (the draw), lost."""
    rows = []
    for rule in HEAD_RULES:
        run = porting.head_run(preset, rule)
        table = table_of(porting.ported_losses.cell(run))
        lost = table["log_perplexity"] - bases.load(run.base).log_perplexity
        columns = {"ratio": table["quarters"] / 4, "rule": RULES[rule], "seed": table["draw"], "lost": lost}
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True)


def other_widths(preset: str) -> pd.DataFrame:
    """Widths m that no number of heads divides, and whether the model that keeps its heads works there."""
    return table_of(porting.head_widths.cell(porting.HeadWidths(bases.base(preset))))


def rotary_losses(preset: str) -> pd.DataFrame:
    """Held-out loss by rotary base after a port within heads: factor, width, seed (the draw), lost.

    The last width's name says that its heads are kept; it has one base.
    """
    original = bases.load(bases.base(preset, bases.ROTARY)).log_perplexity
    kept = table_of(porting.rotary_bases.cell(porting.kept_rotary_run(preset))).assign(quarters=0)
    table = pd.concat([porting.rotary_table(preset), kept], ignore_index=True)
    names = {1: "m = d / 4", 2: "m = d / 2", 3: "m = 3 d / 4", 0: "m = d / 2, heads kept"}
    return pd.DataFrame(
        {
            "factor": table["factor"],
            "width": table["quarters"].map(names),
            "seed": table["draw"],
            "lost": table["held_out"] - original,
        }
    )
