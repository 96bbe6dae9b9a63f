"""Table 1 of the geometry paper under fifteen settings: does one of them give both of its columns?

The text gives neither batch size nor start. Each of five batch sizes is crossed with each of three starts,
and each setting trains a baseline and near-Nyquist modes from the same seeds.
"""

from __future__ import annotations

import dataclasses
import itertools

import pandas as pd

from book.geometry.experiments.grokking import MEMORIZED, GrokkingRun, Setting, grok, grokking, tabulated
from book.geometry.experiments.steering import BASE, GROKKED, LIMITS, NEAR, at_preset, times
from book.ledger.cells import Cell, Experiment, experiment
from book.ledger.findings import Finding, extreme, over_seeds, resampled
from book.ledger.studies import Study

BATCHES = (64, 128, 256, 512, 0)  # pairs; 0: all of them
STARTS = {
    "small": Setting(),  # N(0, 0.02^2), as GPT-2's
    "N(0, 1/d)": Setting(start="pytorch", embedding_sd=128**-0.5),
    "N(0, 1)": Setting(start="pytorch"),
}
RUNS = {"baseline": BASE, "near-Nyquist": NEAR}
PRINTED = {"baseline": 782.0, "near-Nyquist": 57.0}  # epochs to grok, in Table 1
SMALL = 512  # pairs: smaller batches make so many updates an epoch that they are given fewer epochs
LIMIT_SMALL = {
    "baseline": 1000,
    "near-Nyquist": 300,
}  # beyond them a run is off by more than 1.25
N_SEEDS = {"quick": 2, "laptop": 0, "paper": 3}
KEYS = ["batch_size", "start", "run"]
# validation jumps too much here for a run to stop by itself; the start not named was run whole
STOPPED = [(64, "N(0, 1/d)"), (64, "N(0, 1)"), (128, "N(0, 1/d)"), (128, "N(0, 1)")]
STOPPED_BASELINES = [(128, "small")]


@experiment("geometry.first_times")
def first_times(config: GrokkingRun) -> pd.DataFrame:
    """Train until both times are known, the epochs to memorize and to grok: the beginning of the whole run.

    Returns
    -------
    DataFrame
        train_accuracy and validation_accuracy as in :func:`~.grokking.grokking`.
    """
    rows, reached = [], set()
    thresholds = {"train_accuracy": MEMORIZED, "validation_accuracy": GROKKED}
    for frame in grok(config):
        scores = {name: frame.scores[name] for name in thresholds if name in frame.scores}
        rows += [(frame.seed, frame.epoch, name, value) for name, value in scores.items()]
        reached |= {(frame.seed, name) for name, value in scores.items() if value >= thresholds[name]}
        if len(reached) == len(thresholds) * config.n_seeds:
            break
    return tabulated(rows)


def crossed_cells(preset: str) -> dict[tuple[int, str, str], list[Cell]]:
    """One cell per seed, by batch size, start and run; `quick` has one other setting."""
    settings = [(64, "small")] if preset == "quick" else itertools.product(BATCHES, STARTS)
    return {
        (batch_size, start, name): [
            _experiment(batch_size, start, name).cell(_run(name, preset, batch_size, start, seed))
            for seed in range(N_SEEDS[preset])
        ]
        for batch_size, start in settings
        for name in RUNS
    }


def _experiment(batch_size: int, start: str, name: str) -> Experiment:
    setting = (batch_size, start)
    stopped = setting in STOPPED or (name == "baseline" and setting in STOPPED_BASELINES)
    return first_times if stopped else grokking


def _run(name: str, preset: str, batch_size: int, start: str, seed: int) -> GrokkingRun:
    if preset == "quick":
        return at_preset(RUNS[name], preset, seed)
    n_epochs = LIMIT_SMALL[name] if 0 < batch_size < SMALL else LIMITS[preset]
    setting = dataclasses.replace(STARTS[start], batch_size=batch_size)
    return dataclasses.replace(RUNS[name], n_epochs=n_epochs, setting=setting, first_seed=seed)


def crossed_times(preset: str = "paper") -> pd.DataFrame:
    """Stored times: batch_size, start, run, and the columns of :func:`~.steering.times`, one row per seed."""
    parts = [
        times(cells).assign(batch_size=batch_size, start=start, run=run)
        for (batch_size, start, run), cells in crossed_cells(preset).items()
    ]
    return pd.concat(parts, ignore_index=True)


def factors_off(table: pd.DataFrame) -> pd.DataFrame:
    """By which factor each setting misses the printed epochs, too early or too late.

    Parameters
    ----------
    table : DataFrame
        Of :func:`crossed_times`. A run that did not grok counts with its limit, so that its factor is the
        least that it can be.

    Returns
    -------
    DataFrame
        One row per setting, indexed by batch_size and start: "baseline" and "near-Nyquist", the factors by
        which medians over seeds miss Table 1; "both", the larger of the two.
    """
    medians = table.pivot_table(index=KEYS[:2], columns="run", values="grok", aggfunc="median")
    ratio = medians / pd.Series(PRINTED)
    off = ratio.where(ratio >= 1, 1 / ratio)
    return off.assign(both=off.max(axis=1))


def _findings(preset: str) -> dict[str, Finding]:
    table = crossed_times(preset)
    off, seeds = factors_off(table), sorted(table["seed"].unique())
    by_seed = {seed: rows for seed, rows in table.groupby("seed")}
    again = [
        factors_off(pd.concat([by_seed[seed] for seed in drawn]))
        for drawn in itertools.product(seeds, repeat=len(seeds))
    ]  # every way to draw the seeds anew
    mixed = [factors[list(PRINTED)].min().max() for factors in (off, *again)]
    return {
        "miss": resampled(off["both"].min(), [factors["both"].min() for factors in again], len(seeds)),
        "mixed": resampled(mixed[0], mixed[1:], len(seeds)),
    }


STUDIES = {
    "geometry.one_setting": Study(
        lambda preset: [cell for cells in crossed_cells(preset).values() for cell in cells], _findings
    )
}
