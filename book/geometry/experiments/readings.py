"""What the geometry paper's text leaves open: grokking under one other reading at a time.

Of most readings one seed is run. Four have three to five seeds of every row of Table 1: the setting used
elsewhere, the one that comes closest to both of the paper's baselines, the one that comes closest to that
of Table 1, and small batches, under which everything is quicker.
"""

from __future__ import annotations

import dataclasses

import pandas as pd

from book.geometry.experiments.grokking import GrokkingRun, Setting, grokking
from book.geometry.experiments.steering import BASE, BASE_113, GROKKED, MAIN, NEAR, times
from book.ledger.cells import Cell, missing

N_EPOCHS = 1500
AS_USED, SMALL_BATCHES = "as used", "batches of 512"
TABLE_1S = "embeddings from N(0, 1/d), maps as PyTorch's"  # its baseline comes closest to 782 epochs
BIASES = "biases"  # its baselines come closest to 782 and, with p = 113, 321
READINGS = {
    AS_USED: Setting(),
    SMALL_BATCHES: Setting(batch_size=512),
    "beta2 0.98": Setting(beta2=0.98),
    "embeddings from N(0, 1), maps as PyTorch's": Setting(start="pytorch"),
    TABLE_1S: Setting(start="pytorch", embedding_sd=128**-0.5),
    "all from N(0, 1/d)": Setting(start="scaled"),
    "no norm": Setting(norm="none"),
    "norm after the sums": Setting(norm="post"),
    "ReLU": Setting(activation="relu"),
    BIASES: Setting(biases=True),
    "positions as sines": Setting(positions="sines"),
    "no =": Setting(equals=False),
}
P_113 = "baseline, p = 113"
WITHOUT_QUERIES = "without queries"
RUNS = {
    "baseline": BASE,
    "near-Nyquist": NEAR,
    P_113: BASE_113,
    WITHOUT_QUERIES: GrokkingRun(attention="no_q"),
}
SEEDED = (AS_USED, BIASES, TABLE_1S, SMALL_BATCHES)
SEEDED_RUNS = {**MAIN, WITHOUT_QUERIES: RUNS[WITHOUT_QUERIES]}
N_SEEDS = 5


def reading_cell(reading: str, run: GrokkingRun, seed: int = 0) -> Cell:
    """A run of one seed under a reading, with the paper's limit."""
    setting = READINGS[reading]
    return grokking.cell(dataclasses.replace(run, n_epochs=N_EPOCHS, setting=setting, first_seed=seed))


def reading_cells() -> list[Cell]:
    """All readings, the baselines first."""
    return [reading_cell(reading, run) for run in RUNS.values() for reading in READINGS]


def seeded_cells() -> dict[tuple[str, str], list[Cell]]:
    """Up to five seeds of each of SEEDED_RUNS under each of SEEDED, by reading and run."""
    return {
        (reading, name): [reading_cell(reading, run, seed) for seed in range(N_SEEDS)]
        for reading in SEEDED
        for name, run in SEEDED_RUNS.items()
    }


def seeded_times(threshold: float = GROKKED) -> pd.DataFrame:
    """Times of the stored cells of :func:`seeded_cells`.

    Returns
    -------
    DataFrame
        reading, run, and the columns of :func:`~.steering.times`, one row per stored seed.
    """
    parts = []
    for (reading, name), cells in seeded_cells().items():
        stored = [cell for cell in cells if cell.stored()]
        parts.append(times(stored, threshold).assign(reading=reading, run=name))
    table = pd.concat(parts, ignore_index=True)
    return table.astype({"grokked": bool, "memorized": bool})


def readings_table(threshold: float = GROKKED) -> pd.DataFrame:
    """Epochs to grok and to memorize under each reading, one seed.

    Returns
    -------
    DataFrame
        reading, run, stored, and the columns of :func:`~.steering.times`, missing where `stored` is false.
    """
    rows = []
    for name, run in RUNS.items():
        for reading in READINGS:
            cell = reading_cell(reading, run)
            row = {"reading": reading, "run": name, "stored": not missing([cell])}
            rows.append(row | (times([cell], threshold).iloc[0].to_dict() if row["stored"] else {}))
    return pd.DataFrame(rows)
