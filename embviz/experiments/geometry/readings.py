"""What the geometry paper's text leaves open: grokking under one other reading at a time."""

from __future__ import annotations

import dataclasses

import pandas as pd

from embviz.cells import Cell, missing
from embviz.experiments.geometry.grokking import GrokkingRun, Setting, grokking
from embviz.experiments.geometry.steering import BASE, BASE_113, NEAR, times

N_EPOCHS = 1500
READINGS = {
    "as used": Setting(),
    "batches of 512": Setting(batch_size=512),
    "beta2 0.98": Setting(beta2=0.98),
    "embeddings from N(0, 1), maps as PyTorch's": Setting(start="pytorch"),
    "embeddings from N(0, 1/d), maps as PyTorch's": Setting(start="pytorch", embedding_sd=128**-0.5),
    "all from N(0, 1/d)": Setting(start="scaled"),
    "no norm": Setting(norm="none"),
    "norm after the sums": Setting(norm="post"),
    "ReLU": Setting(activation="relu"),
    "biases": Setting(biases=True),
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


def reading_cell(reading: str, run: GrokkingRun) -> Cell:
    """A run of seed 0 under a reading, with the paper's limit."""
    return grokking.cell(dataclasses.replace(run, n_epochs=N_EPOCHS, setting=READINGS[reading]))


def reading_cells() -> list[Cell]:
    """All readings, the baselines first."""
    return [reading_cell(reading, run) for run in RUNS.values() for reading in READINGS]


def readings_table(threshold: float = 0.95) -> pd.DataFrame:
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
