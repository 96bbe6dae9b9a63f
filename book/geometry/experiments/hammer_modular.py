"""The Sounding Hammer on modular arithmetic: does a gradient name the modes that training will use?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, Members
from book.geometry.experiments.steering import BASE, SEEDS, at_preset
from book.ledger.cells import Cell, experiment, missing, read
from book.ledger.findings import Finding, over_seeds, resampled
from book.ledger.studies import Study
from embviz.training.fourier import power_spectrum, sound

TOP = 5  # strongest modes that are compared
NANDA = (1, 14, 41)  # the paper's "correct" modes for p = 97
START, MEMORY, END = MOMENTS = ("start", "memorized", "end")
N_PERMUTATIONS = 200
N_RESAMPLED = 1_000


@dataclasses.dataclass(frozen=True)
class Strike:
    """A run of one seed whose gradient is listened to on the way."""

    run: GrokkingRun


@experiment("geometry.hammer_modular")
def strikes(config: Strike) -> pd.DataFrame:
    """Train, and take the gradient of the loss over all training pairs, for the residues' embedding.

    Returns
    -------
    DataFrame
        moment ("start": before the first update; "memorized": after the first epoch with a training
        accuracy of 99%; "end"), quantity, mode, value. Quantities by mode: gradient (power), permuted
        (power of the gradient with its rows in a random order), embedding (power). Without a mode, -1:
        regularity, flat, noise and z of the gradient's `TOP` strongest modes, epoch.
    """
    members = Members(config.run, [config.run.first_seed])
    rows: list[tuple[str, str, int, float]] = []
    memorized = False
    for epoch in range(config.run.n_epochs + 1):
        frame = next(iter(members.frames(epoch)), None)
        if frame is None or not members.going:
            break
        if epoch == 0:
            rows += _heard(members, START, epoch)
        elif not memorized and frame.train_accuracy >= MEMORIZED:
            memorized = True
            rows += _heard(members, MEMORY, epoch)
    rows += _heard(members, END, epoch)
    return pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])


def _heard(members: Members, moment: str, epoch: int) -> list[tuple[str, str, int, float]]:
    """What the hammer hears now; neither the weights nor the optimizer change."""
    seed = members.config.first_seed
    members.model.zero_grad(set_to_none=True)
    loss, _ = members.scores(members.train)
    loss.sum().backward()
    p = members.config.p
    gradient = members.embedding_gradients()[0, :p].detach().clone()  # (p, D)
    members.model.zero_grad(set_to_none=True)
    order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(p))
    heard = sound(gradient, top=TOP, n_permutations=N_PERMUTATIONS, seed=seed)
    powers = {
        "gradient": heard.power,
        "permuted": power_spectrum(gradient[order]),
        "embedding": power_spectrum(members.embeddings[0, :p].detach()),
    }
    rows = [
        (moment, name, mode, float(value))
        for name, power in powers.items()
        for mode, value in enumerate(power)
    ]
    single = {
        "regularity": heard.regularity,
        "flat": heard.flat,
        "noise": heard.noise,
        "z": heard.z,
        "epoch": epoch,
    }
    return rows + [(moment, name, -1, float(value)) for name, value in single.items()]


# --- findings -------------------------------------------------------------------------------------------


USED, TABLE_1S = "used", "table1"  # the setting of all else; the one whose baseline is nearest to Table 1's
FRESH = {"quick": 2, "laptop": 10, "paper": 10}  # seeds, after those of the first range


def _cells(preset: str) -> list[Cell]:
    return first_cells(preset) + [cell for cells in _fresh(preset).values() for cell in cells]


def _fresh(preset: str) -> dict[str, list[Cell]]:
    """Fresh cells by reading; cells with Table 1's start count once all of them are stored."""
    fresh = {reading: fresh_cells(reading, preset) for reading in (USED, TABLE_1S)}
    return fresh if preset == "quick" or not missing(fresh[TABLE_1S]) else {USED: fresh[USED]}


def first_cells(preset: str) -> list[Cell]:
    """One cell per seed of those that the first range was held against."""
    return [_cell(USED, preset, seed) for seed in range(SEEDS[preset])]


def fresh_cells(reading: str, preset: str) -> list[Cell]:
    """One cell per seed that was not looked at when the statistic was chosen."""
    seeds = range(SEEDS[preset], SEEDS[preset] + FRESH[preset])
    return [_cell(reading, preset, seed) for seed in seeds]


def _cell(reading: str, preset: str, seed: int) -> Cell:
    run = at_preset(BASE, preset, seed)
    if reading == TABLE_1S:
        start = dataclasses.replace(run.setting, start="pytorch", embedding_sd=run.shape.embedding_dim**-0.5)
        run = dataclasses.replace(run, setting=start)
    return strikes.cell(Strike(run))


def strongest(table: pd.DataFrame, moment: str, quantity: str, top: int = TOP) -> list[int]:
    """Modes of most power in a table of :func:`strikes`; mode 0, the mean, is no mode of a circle."""
    rows = table[(table["moment"] == moment) & (table["quantity"] == quantity) & (table["mode"] > 0)]
    return rows.sort_values("value", ascending=False)["mode"].head(top).tolist()


def shared_before(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """How many of the `TOP` strongest modes before training are among the trained embedding's.

    Returns
    -------
    DataFrame
        One row per seed; columns "gradient", and its controls: "permuted", its rows in a random order, and
        "embedding", the embedding before training.
    """
    return pd.DataFrame(
        {name: _shared(tables, START, name) for name in ("gradient", "permuted", "embedding")}
    )


def _shared(tables: Sequence[pd.DataFrame], moment: str, quantity: str) -> list[int]:
    """Modes in common with the trained embedding's, a count a seed."""
    return [
        len({*strongest(table, moment, quantity)} & {*strongest(table, END, "embedding")}) for table in tables
    ]


def share_of_nanda(table: pd.DataFrame, quantity: str) -> float:
    """Share of the modes `NANDA` among the three strongest before training."""
    return len({*strongest(table, START, quantity, len(NANDA))} & {*NANDA}) / len(NANDA)


def _single(table: pd.DataFrame, moment: str, quantity: str) -> float:
    rows = table[(table["moment"] == moment) & (table["quantity"] == quantity)]
    return float(rows["value"].iloc[0])


def _findings(preset: str) -> dict[str, Finding]:
    tables = [read(cell)[0] for cell in first_cells(preset)]
    nanda = {"permuted": float(np.mean([share_of_nanda(table, "permuted") for table in tables]))}
    found = {
        "nanda": over_seeds([share_of_nanda(table, "gradient") for table in tables], controls=nanda),
        "regularity": over_seeds([_single(table, START, "regularity") for table in tables]),
        "z": over_seeds([_single(table, START, "z") for table in tables]),
    }
    for reading, fresh in _fresh(preset).items():
        shared = shared_before([read(cell)[0] for cell in fresh])
        controls = {name: float(shared[name].mean()) for name in ("permuted", "embedding")}
        counts = shared["gradient"].to_numpy(float)
        found[f"shared_{reading}"] = over_seeds(counts, controls=controls, within=(0, TOP))
    return found


STUDIES: dict[str, Study] = {
    "geometry.hammer_modular": Study(_cells, _findings, beside=lambda preset: fresh_cells(TABLE_1S, preset))
}


# --- what the chapter shows -----------------------------------------------------------------------------

STARTS = {"small": "small start", "pytorch": "N(0, 1/d)"}  # of the weights, as readers call them
MOMENT_NAMES = {START: "before training", MEMORY: "memorized", END: "at the end"}
SPECTRA = {"gradient": "gradient", "permuted": "gradient, rows permuted", "embedding": "embedding of then"}


def ranked(table: pd.DataFrame, by: Sequence[str], value: str = "power_share") -> pd.DataFrame:
    """The table without mode 0: `value` as a share of what is left, and `rank`, 0 for the strongest mode."""
    table = table[table["mode"] > 0]
    groups = table.groupby(list(by))[value]
    return table.assign(
        **{value: table[value] / groups.transform("sum")},
        rank=groups.rank(ascending=False, method="first").astype(int) - 1,
    )


def struck(preset: str = "paper") -> pd.DataFrame:
    """Stored gradient spectra of the seeds that were not looked at when the claim's statistic was chosen.

    Returns
    -------
    DataFrame
        start (of STARTS' values), seed, and the columns of :func:`strikes`.
    """
    cells = [cell for reading in (USED, TABLE_1S) for cell in fresh_cells(reading, preset)]
    parts = []
    for cell in cells:
        run = cell.config.run
        parts.append(read(cell)[0].assign(start=STARTS[run.setting.start], seed=run.first_seed))
    return pd.concat(parts, ignore_index=True)


def struck_spectra(strikes_table: pd.DataFrame) -> pd.DataFrame:
    """Spectra of :func:`struck`.

    Returns
    -------
    DataFrame
        start, seed, moment (of MOMENT_NAMES' values), spectrum (of SPECTRA's), mode, power_share and rank
        without mode 0, used: whether the mode is among the `TOP` strongest of the trained embedding.
    """
    table = strikes_table.rename(columns={"value": "power_share"})
    table = ranked(table, ["start", "seed", "moment", "quantity"])
    best = table.query("moment == @END and quantity == 'embedding' and rank < @TOP")
    used = set(zip(best["start"], best["seed"], best["mode"], strict=True))
    table["used"] = [key in used for key in zip(table["start"], table["seed"], table["mode"], strict=True)]
    table = table.rename(columns={"quantity": "spectrum"})
    return table.replace({"moment": MOMENT_NAMES, "spectrum": SPECTRA}).reset_index(drop=True)
