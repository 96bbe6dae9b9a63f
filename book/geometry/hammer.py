"""Stored strikes behind the chapter on the Sounding Hammer: of many seeds, of every tensor, along a run."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from book.geometry.experiments import hammer_language, soundings
from book.geometry.experiments.films import SETTING, is_prime
from book.geometry.experiments.grokking import GrokkingRun
from book.geometry.experiments.hammer_language import MLP
from book.geometry.experiments.hammer_modular import END, MEMORY, START, STUDIES, TOP
from book.geometry.experiments.steering import SEEDS
from embviz.ledger.cells import Cell, read
from embviz.view import panels, plot_bars, plot_curves
from embviz.view.player import HISTORY, NOTE

PRESET = "paper"  # of the runs mod 97
SMALLER = "laptop"  # of language models, of soundings of every tensor, and of films
STARTS = {"small": "small start", "pytorch": "N(0, 1/d)"}  # of the weights, as readers call them
MOMENTS = {START: "before training", MEMORY: "memorized", END: "at the end"}
KINDS = {"gradient": "gradient", "permuted": "gradient, rows permuted", "embedding": "embedding of then"}
LIMIT = 300  # epochs of a live run
SIDES = ("gradient", "embedding")  # of a film
SCORES = ("training", "validation")
BOTH = "5 strongest of both"
TENSORS = {
    "embedding": "embedding",
    "free_head": "output embedding",
    "position": "positions",
    **{
        f"blocks.{layer}.{inner}.weight": f"layer {layer + 1}, {words}"
        for layer in range(2)
        for inner, words in {
            "attention.query": "query",
            "attention.key": "key",
            "attention.value": "value",
            "attention.out": "attention's way out",
            "up": "MLP's way in",
            "down": "MLP's way out",
        }.items()
    },
}
AXES = {0: "rows", 1: "columns"}


@functools.cache
def table_of(cell: Cell) -> pd.DataFrame:
    """What a cell stores."""
    return read(cell)[0]


def ranked(table: pd.DataFrame, by: Sequence[str], value: str = "power_share") -> pd.DataFrame:
    """The table without mode 0: `value` as a share of what is left, and `rank`, 0 for the strongest mode."""
    table = table[table["mode"] > 0]
    groups = table.groupby(list(by))[value]
    return table.assign(
        **{value: table[value] / groups.transform("sum")},
        rank=groups.rank(ascending=False, method="first").astype(int) - 1,
    )


# --- modular arithmetic ---------------------------------------------------------------------------------


def strike_cells() -> list[Cell]:
    """Stored strikes of seeds that were not looked at when the claim's statistic was chosen, else of all."""
    cells = [cell for cell in STUDIES["geometry.hammer_modular"].preset_cells(PRESET) if cell.stored()]
    return [cell for cell in cells if cell.config.run.first_seed >= SEEDS[PRESET]] or cells


def _run(cell: Cell) -> dict[str, Any]:
    run = cell.config.run
    return {"start": STARTS[run.setting.start], "seed": run.first_seed}


def struck() -> pd.DataFrame:
    """Spectra of :func:`strike_cells`.

    Returns
    -------
    DataFrame
        start (of STARTS' values), seed, moment (of MOMENTS'), spectrum (of KINDS'), mode, power_share and
        rank without mode 0, used: whether the mode is among the `TOP` strongest of the trained embedding.
    """
    parts = [table_of(cell).assign(**_run(cell)) for cell in strike_cells()]
    table = pd.concat(parts, ignore_index=True).rename(columns={"value": "power_share"})
    table = ranked(table, ["start", "seed", "moment", "quantity"])
    best = table.query("moment == @END and quantity == 'embedding' and rank < @TOP")
    used = set(zip(best["start"], best["seed"], best["mode"], strict=True))
    table["used"] = [key in used for key in zip(table["start"], table["seed"], table["mode"], strict=True)]
    table = table.rename(columns={"quantity": "spectrum"})
    return table.replace({"moment": MOMENTS, "spectrum": KINDS}).reset_index(drop=True)


def strike_epochs() -> pd.DataFrame:
    """start, seed, and the epoch of each moment of MOMENTS, of each of :func:`strike_cells`."""
    rows = []
    for cell in strike_cells():
        epochs = table_of(cell).query("quantity == 'epoch'").set_index("moment")["value"].astype(int)
        rows.append({**_run(cell), **epochs.rename(MOMENTS)})
    return pd.DataFrame(rows)


def starts() -> pd.DataFrame:
    """Gradients of 200 models before training: seed, mode, power (a share)."""
    return table_of(soundings.starts.cell(soundings.start_run(SMALLER)))


# --- a run, played --------------------------------------------------------------------------------------


def film_frames() -> pd.DataFrame:
    """Recordings for a player, by `run`.

    Returns
    -------
    DataFrame
        run, frame (epochs), mode, gradient and embedding (shares of power without mode 0), strong: BOTH for
        modes among the `TOP` strongest of both in this frame, shared: how many these are, and training and
        validation accuracy.
    """
    cells = soundings.film_cells(SMALLER)
    return pd.concat([filmed(table_of(cell)).assign(run=name) for name, cell in cells.items()])


def filmed(table: pd.DataFrame) -> pd.DataFrame:
    """A recording without mode 0, and with `strong` and `shared`."""
    table = table.astype({name: float for name in (*SIDES, *SCORES)})
    ranks = {name: ranked(table, ["frame"], name) for name in SIDES}
    both = (ranks["gradient"]["rank"] < TOP) & (ranks["embedding"]["rank"] < TOP)
    shares = {name: own[name] for name, own in ranks.items()}
    table = table[table["mode"] > 0].assign(**shares, strong=np.where(both, BOTH, "other modes"))
    return table.assign(shared=both.groupby(table["frame"]).transform("sum").astype(int))


def live_film(p: int, train_share: float, weight_decay: float, seed: int) -> Iterator[pd.DataFrame]:
    """Frames of a player: train in this kernel, and strike after each epoch."""
    setting = replace(SETTING, batch_size=512 if p > 50 else 64, weight_decay=weight_decay)
    run = GrokkingRun(p=p, train_share=train_share, n_epochs=LIMIT, first_seed=seed, setting=setting)
    for frame in soundings.film_frames(run, range(LIMIT + 1)):
        table = filmed(frame)
        table.attrs[NOTE] = "" if is_prime(p) else f"p = {p} is not prime: some waves take few values."
        yield table


def plot_film(data: alt.NamedData) -> alt.ConcatChart:
    """Drawing function of a player: both spectra, then accuracies and shared modes so far."""
    bars = [
        plot_bars(
            data,
            "mode",
            side,
            kind="strong",
            names=["other modes", BOTH],
            scale="sqrt",
            limits=(0, 0.75),
            y_title=side,
            kind_title="",
            height="low",
        )
        for side in SIDES
    ]
    scores = _so_far("accuracy", (0, 1.02), "accuracy", kind="which", names=list(SCORES))
    scores = scores.transform_fold(list(SCORES), as_=["which", "accuracy"])
    shared = _so_far("shared", (0, TOP + 0.2), "shared of 5")
    return panels([*bars, scores, shared], same_legend=False)


def _so_far(y: str, limits: tuple[float, float], words: str, **kinds: Any) -> alt.LayerChart:
    """What a run has had up to the frame that is shown."""
    epochs = alt.Scale(type="symlog", constant=10, domain=[0, LIMIT], nice=False)
    chart = plot_curves(
        HISTORY,
        "frame",
        y,
        seed=None,
        interval=False,
        x_scale=epochs,
        limits=limits,
        x_title="epoch",
        y_title=words,
        kind_title="",
        height="low",
        **kinds,
    )
    return chart.transform_filter("datum.frame <= frame")


# --- language models, every tensor ----------------------------------------------------------------------


def regularities() -> pd.DataFrame:
    """Regularities of the stored language models, one row per tensor and seed.

    Returns
    -------
    DataFrame
        text ("byte pairs" or "bytes"), seed, moment, struck (such as "MLP out, layer 1", or "tokens, all
        4,096" for a whole axis that is longer), role, reading ("first rows" or "whole axis"), regularity,
        flat, noise, permuted, permuted_sd.
    """
    runs = {
        soundings.PAIRS: hammer_language.hammer_runs(SMALLER),
        soundings.BYTES: hammer_language.byte_runs(SMALLER),
    }
    parts = [hammer_language.regularities(SMALLER, own).assign(text=text) for text, own in runs.items()]
    table = pd.concat(parts, ignore_index=True).replace({"moment": {START: MOMENTS[START]}})
    layers = table["tensor"].str.extract(r"blocks\.(\d+)")[0].astype(float) + 1
    named = table["role"].where(table["role"] != MLP, "MLP out, layer " + layers.map("{:.0f}".format))
    whole = named + table["rows"].map(", all {:,}".format)
    return table.assign(struck=named.where(table["reading"] == "first rows", whole))


def sounded() -> pd.DataFrame:
    """Spectra of every tensor of one model each, along both axes, before, while and after it was trained.

    Returns
    -------
    DataFrame
        model, moment, tensor (with its axis), and the columns of
        :func:`book.geometry.experiments.soundings.spectra` from mode on.
    """
    cells = soundings.sounding_cells(SMALLER)
    parts = [table_of(cell).assign(model=model) for model, cell in cells.items()]
    table = pd.concat(parts, ignore_index=True)
    table = table[table["tensor"].isin(TENSORS)]
    table["tensor"] = table["tensor"].map(TENSORS) + ", " + table["dim"].map(AXES)
    columns = ["model", "moment", "tensor", "mode", "power", "permuted", "null", "null_sd", "noise"]
    return table[columns].replace({"moment": {**MOMENTS, hammer_language.TRAINED: MOMENTS[END]}})
