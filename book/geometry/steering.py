"""Stored runs behind the chapters on steering and on queries: their times, accuracies and spectra.

All are of the paper's size, with one full batch an epoch. A run has the name that the chapters give it, and a
cell a seed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch

from book.geometry.experiments import steering
from book.geometry.experiments.grokking import N_KEPT, last_embedding, spectra, spectrum_epochs
from book.geometry.experiments.steering import GROKKED
from embviz.ledger.cells import Cell, read
from embviz.models.transformer import Transformer
from embviz.view import panels, plot_bars, plot_curves
from embviz.view.player import HISTORY

PRESET = "paper"
LIMIT = steering.LIMITS[PRESET]  # epochs after which a run is given up
MAIN, VARIANTS = steering.MAIN, steering.VARIANTS  # Table 1; Figure 1
STRICT = steering.STRICT
NEAR, BASELINE = "near-Nyquist", "baseline"
RANDOM = "random modes"  # 20 sets, a seed each
CONTROLS = {
    "random subspace": steering.CONTROLS["subspace"],
    "shuffled axis": steering.CONTROLS["shuffled"],
    "matched norm": steering.CONTROLS["matched_norm"],
    "switched off": steering.MORE_CONTROLS["switched_off"],
    "decay on embedding": steering.MORE_CONTROLS["decay_on_embedding"],
    "renamed {6, 7, 11, 19, 20}": steering.MORE_CONTROLS["renamed"],
}
PEERS = {
    "top 5, every 10": steering.PEERS["every_10"],
    "top 5, every 100": steering.PEERS["every_100"],
    "GrokFast": steering.PEERS["grokfast"],
}
OTHER_P = {"p = 113, near-Nyquist": steering.NEAR_113, "p = 113, baseline": steering.BASE_113}
RUNS = {**VARIANTS, **CONTROLS, **OTHER_P}
KINDS = ("no projection", "high modes", "other modes", "adaptive", "control")
HIGH = 2 / 3  # mean mode over p/2, from which a set counts as high
SCORES = {"train_accuracy": "training", "validation_accuracy": "validation"}
# Epochs at which accuracies are drawn.
EPOCHS: list[int] = np.unique(np.geomspace(10, LIMIT, 56).round().astype(int)).tolist()
Cells = Mapping[str, Sequence[Cell]]


def stored(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of runs, keys of RUNS, PEERS or RANDOM; runs of which none is stored are left out."""
    found, every = {}, RUNS | PEERS
    for name in dict.fromkeys(names):
        drawn = name == RANDOM
        cells = steering.random_cells(97, PRESET) if drawn else steering.cells_of(every[name], PRESET)
        found[name] = [cell for cell in cells if cell.stored()]
    return {name: cells for name, cells in found.items() if cells}


@functools.cache
def table_of(cell: Cell) -> pd.DataFrame:
    """What a cell stores."""
    return read(cell)[0]


def kind_of(name: str) -> str:
    """To which of KINDS a run belongs."""
    if name == RANDOM or name in CONTROLS:
        return "control"
    run = (RUNS | PEERS)[name]
    if not run.modes:
        return "adaptive" if run.top_k else "no projection"
    return "high modes" if np.mean(run.modes) > HIGH * (run.p // 2) else "other modes"


# --- times ----------------------------------------------------------------------------------------------


def times_of(cells: Cells, threshold: float = GROKKED) -> pd.DataFrame:
    """run, and the columns of :func:`~.experiments.steering.times`, one row per seed."""
    parts = [steering.times(own, threshold).assign(run=name) for name, own in cells.items()]
    return pd.concat(parts, ignore_index=True)


def times(names: Iterable[str], threshold: float = GROKKED, base: str = BASELINE) -> pd.DataFrame:
    """Times of stored runs by name, with their `kind` and what they have `saved` on the run `base`."""
    names = list(names)
    table = times_of(stored([*names, base]), threshold)
    table = table.assign(kind=table["run"].map(kind_of), saved=saved(table, base))
    return table[table["run"].isin(names)].reset_index(drop=True)


def saved(table: pd.DataFrame, base: str, on: Sequence[str] = ("seed",)) -> pd.Series:
    """Percent of the epochs to grok that each row saves on the row of `base` with the same values `on`.

    A run that was given up counts with the limit, the least that it can have lost; NaN where there is no such
    row.
    """
    known = table[table["run"] == base].set_index(list(on))["grok"].rename("base")
    return 100 * (1 - table["grok"] / table.join(known, on=list(on))["base"])


# --- accuracies and spectra -----------------------------------------------------------------------------


def accuracies(cells: Cells) -> pd.DataFrame:
    """Training and validation accuracy at EPOCHS; after its end a run keeps its last.

    Returns
    -------
    DataFrame
        run, seed, epoch, which (of SCORES' values), accuracy.
    """
    parts = []
    for name, cell in ((name, cell) for name, own in cells.items() for cell in own):
        held = held_scores(cell, EPOCHS).melt("epoch", var_name="which", value_name="accuracy")
        parts.append(held.assign(run=name, seed=cell.config.first_seed))
    return pd.concat(parts, ignore_index=True)


def held_scores(cell: Cell, epochs: Sequence[int]) -> pd.DataFrame:
    """epoch, training and validation: the accuracies last measured at each of `epochs`."""
    table = table_of(cell)
    table = table[table["quantity"].isin(SCORES)].replace({"quantity": SCORES})
    return _held(table.pivot(index="epoch", columns="quantity", values="value"), epochs).reset_index()


def _held(wide: pd.DataFrame, epochs: Sequence[int]) -> pd.DataFrame:
    wanted = pd.Index(epochs, name="epoch")
    return wide.reindex(wide.index.union(wanted)).ffill().loc[wanted].rename_axis(columns=None)


def powers(cell: Cell) -> pd.DataFrame:
    """Share of each mode above 0 in the embedding's power: one row per epoch, one column per mode."""
    wide = spectra(table_of(cell)).pivot(index="epoch", columns="mode", values="power").drop(columns=0)
    return wide.div(wide.sum(axis=1), axis=0)


def final_powers(names: Iterable[str]) -> pd.DataFrame:
    """The same at the end of each stored run, one row per run and seed."""
    rows = {
        (name, cell.config.first_seed): powers(cell).iloc[-1]
        for name, cells in stored(names).items()
        for cell in cells
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["run", "seed"])


def added(name: str) -> list[tuple[int, torch.Tensor]]:
    """How many updates a run made, and what all of them added to its embedding, (p, D): a pair a seed.

    That is its end less what weight decay left of its start. Embeddings are stored of seeds 0 and 1 of runs
    with prescribed modes; of other runs there is none.
    """
    found = []
    for cell in stored([name])[name] if name in RUNS and RUNS[name].modes else ():
        config, seed = cell.config, cell.config.first_seed
        if seed < N_KEPT:
            n_updates = int(table_of(cell)["epoch"].max()) * config.steps_per_epoch
            start = Transformer(config.shape, seed=seed).embedding.detach()[: config.p]
            left = (1 - config.setting.learning_rate * config.setting.weight_decay) ** n_updates
            end = torch.from_numpy(last_embedding(table_of(cell), seed))
            found.append((n_updates, (end - left * start).double()))
    return found


# --- a run, played --------------------------------------------------------------------------------------


def frames(names: Iterable[str], seed: int = 0) -> pd.DataFrame:
    """Frames of a player: one seed's embedding spectrum and accuracies in each run that has the seed.

    All runs have the same frames; after a run's last epoch its last spectrum stays.

    Returns
    -------
    DataFrame
        run, frame (epochs), mode, power_share, chosen (whether the projection keeps the mode), training and
        validation accuracy.
    """
    cells = {
        name: cell for name, own in stored(names).items() for cell in own if cell.config.first_seed == seed
    }
    last = max(int(powers(cell).index.max()) for cell in cells.values())
    epochs = [epoch for epoch in spectrum_epochs(LIMIT) if epoch < last] + [last]
    parts = []
    for name, cell in cells.items():
        part = _held(powers(cell), epochs).rename_axis("frame").reset_index()
        part = part.melt("frame", var_name="mode", value_name="power_share").astype({"mode": int})
        part["chosen"] = np.where(part["mode"].isin(cell.config.modes), "prescribed", "other")
        scores = held_scores(cell, epochs).rename(columns={"epoch": "frame"})
        parts.append(part.merge(scores, on="frame").sort_values(["frame", "mode"]).assign(run=name))
    return pd.concat(parts, ignore_index=True)


def plot_frame(data: alt.NamedData) -> alt.ConcatChart:
    """Drawing function of a player over :func:`frames`."""
    bars = plot_bars(
        data,
        "mode",
        "power_share",
        kind="chosen",
        names=["other", "prescribed"],
        limits=(0, 0.5),
        kind_title="",
    )
    curves = plot_curves(
        HISTORY,
        "frame",
        "accuracy",
        kind="which",
        names=list(SCORES.values()),
        seed=None,
        interval=False,
        x_scale=alt.Scale(type="symlog", constant=10, domain=[0, LIMIT], nice=False),
        limits=(0, 1.02),
        x_title="epoch",
        kind_title="",
    )
    so_far = curves.transform_filter("datum.frame <= frame").transform_fold(
        [*SCORES.values()], as_=["which", "accuracy"]
    )
    return panels([bars, so_far], same_legend=False)
