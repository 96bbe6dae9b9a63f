"""What the geometry paper leaves open about its language models: the same pair under one other reading each.

The text gives widths, layers, steps and the learning rate, not how weights start, how the rate runs, how long
the model that it calls converged was trained for its width, or whether bytes come with positions as sines; of
that, its numbers of parameters fit learned positions alone, and sines are here as one more control.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.geometry.experiments.language_models import (
    BASELINE,
    HALVED,
    N_CONTROL_SEEDS,
    NEEDS,
    NO_Q,
    WIDE,
    LanguageRun,
    language_models,
    stories,
    story_findings,
    story_runs,
)
from book.language import load_streams
from book.ledger.cells import Cell, experiment, missing, table_of, training_run
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part, Study
from book.transformer import Positions, Start, TransformerConfig


@dataclass(frozen=True)
class Reading:
    """One way to read what the text leaves open; the defaults are as in all other runs here."""

    start: Start = "small"
    positions: Positions = "learned"
    learning_rate: float = 0.0  # 0: the preset's
    longer: int = 1  # times as many steps


AS_USED, PAPER_RATE, LONGER = "as used", "learning rate 3e-4, the paper's", "three times as many steps"
READINGS = {
    AS_USED: Reading(),
    PAPER_RATE: Reading(learning_rate=3e-4),
    "learning rate 3e-3": Reading(learning_rate=3e-3),
    "weights start as PyTorch's": Reading(start="pytorch"),
    "positions as sines": Reading(positions="sines"),
    LONGER: Reading(longer=3),
}
SPENT = {  # of "no queries": its freed weights go elsewhere, or its larger scores are tamed
    "freed weights in a wider MLP": WIDE,
    "scores without Q halved": HALVED,
}
N_SPENT = 3  # seeds


@dataclass(frozen=True)
class ReadingRun:
    """A language model under a reading."""

    run: LanguageRun
    reading: Reading

    def shape(self, n_symbols: int) -> TransformerConfig:
        """The model's shape for so many tokens."""
        start, positions = self.reading.start, self.reading.positions
        return dataclasses.replace(self.run.shape(n_symbols), start=start, positions=positions)

    @property
    def trained(self) -> LanguageRun:
        """The run with the reading's rate and steps."""
        setting, reading = self.run.setting, self.reading
        rate = reading.learning_rate or setting.learning_rate
        setting = dataclasses.replace(setting, learning_rate=rate, n_steps=reading.longer * setting.n_steps)
        return dataclasses.replace(self.run, setting=setting)


@experiment("geometry.language_readings")
def language_readings(config: ReadingRun) -> pd.DataFrame:
    """Train one model under a reading and score it on the way.

    Returns
    -------
    DataFrame
        As :func:`book.geometry.experiments.language_models.language_models`, without n_parameters.
    """
    streams = load_streams(config.run.text)
    data = {config.run.text.corpus: streams.checksum}
    with training_run(language_readings.cell(config), data) as (run, slices):
        for _ in config.trained.train(streams, run, shape=config.shape(streams.vocab_size)):
            pass
        table = run.metrics()
    table.attrs |= {"data": data, "slices": slices}
    return table


def pair(run: LanguageRun, reading: Reading) -> dict[str, Cell]:
    """The cells of a pair of one seed under a reading, by variant."""
    runs = {variant: dataclasses.replace(run, variant=variant) for variant in (BASELINE, NO_Q)}
    if reading == Reading():  # the claim's own cells
        return {variant: language_models.cell(run) for variant, run in runs.items()}
    return {variant: language_readings.cell(ReadingRun(run, reading)) for variant, run in runs.items()}


def spent(run: LanguageRun, variant: str) -> dict[str, Cell]:
    """The same for one of SPENT, against the claim's own baseline."""
    runs = {BASELINE: run, NO_Q: dataclasses.replace(run, variant=variant)}
    return {name: language_models.cell(one) for name, one in runs.items()}


def cells(run: LanguageRun, *, n_rate_seeds: int = 1) -> list[Cell]:
    """Pairs under all readings, cheapest first; more seeds of rates, of SPENT and of longer training."""
    order = sorted(READINGS, key=lambda name: READINGS[name].longer)
    runs = [(run, name) for name in order]
    for seed in range(1, n_rate_seeds):
        runs += [(dataclasses.replace(run, seed=seed), name) for name in rates(run) if name != AS_USED]
    found = [cell for one, name in runs for cell in pair(one, READINGS[name]).values()]
    if n_rate_seeds > 1:
        seeds = [dataclasses.replace(run, seed=seed) for seed in range(N_SPENT)]
        found += [spent(one, variant)[NO_Q] for variant in SPENT.values() for one in seeds]
        found += [cell for one in seeds[1:] for cell in pair(one, READINGS[LONGER]).values()]
    return found


def rates(run: LanguageRun) -> dict[str, float]:
    """Learning rates by the names of readings that change nothing else, the run's own among them; rising."""
    found = {
        name: reading.learning_rate or run.setting.learning_rate
        for name, reading in READINGS.items()
        if dataclasses.replace(reading, learning_rate=0.0) == Reading()
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def gains(run: LanguageRun) -> pd.DataFrame:
    """What pairs save without queries, under each reading.

    Parameters
    ----------
    run : LanguageRun
        Its seed and variant don't matter. A reading is left out that no seed, counted from 0, is stored of.

    Returns
    -------
    DataFrame
        reading, seed, baseline and no_q (bits a byte at the end), gain (percent).
    """
    rows = []
    pairs = {name: functools.partial(pair, reading=reading) for name, reading in READINGS.items()}
    pairs |= {name: functools.partial(spent, variant=variant) for name, variant in SPENT.items()}
    for name, cells_of in pairs.items():
        for seed in itertools.count():
            of = cells_of(dataclasses.replace(run, seed=seed))
            if missing(list(of.values())):
                break
            last = {variant: float(table_of(cell)["bits_per_byte"].iloc[-1]) for variant, cell in of.items()}
            gain = 100 * (1 - last[NO_Q] / last[BASELINE])
            rows.append((name, seed, last[BASELINE], last[NO_Q], gain))
    return pd.DataFrame(rows, columns=["reading", "seed", "baseline", "no_q", "gain"]).astype(
        {name: np.float64 for name in ("baseline", "no_q", "gain")}
    )


# --- what the claim is judged by --------------------------------------------------------------------


def _judged(preset: str) -> dict[str, Reading]:
    """Readings by measurement: the paper's learning rate, and longer training where a preset is shorter."""
    if preset == "paper":
        return {"gain_paper_rate": Reading()}
    return {"gain_paper_rate": READINGS[PAPER_RATE], "gain_longer": READINGS[LONGER]}


def _pairs(preset: str, reading: Reading) -> list[dict[str, Cell]]:
    run = stories(preset)
    return [pair(dataclasses.replace(run, seed=seed), reading) for seed in range(N_CONTROL_SEEDS[preset])]


def _part_cells(preset: str) -> list[Cell]:
    return [
        cell for reading in _judged(preset).values() for of in _pairs(preset, reading) for cell in of.values()
    ]


def _part_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for name, reading in _judged(preset).items():
        bits = pd.DataFrame(
            {variant: float(table_of(cell)["bits_per_byte"].iloc[-1]) for variant, cell in of.items()}
            for of in _pairs(preset, reading)
        )
        gain = 100 * (1 - bits[NO_Q] / bits[BASELINE])
        found[name] = over_seeds(gain.to_numpy(), corpus=stories(preset).text.corpus)
    return found


def _shown(preset: str) -> list[Cell]:
    n_rate_seeds = N_CONTROL_SEEDS[preset]
    return [] if preset == "paper" else cells(stories(preset), n_rate_seeds=n_rate_seeds)


STUDIES: dict[str, Study] = {
    "geometry.noq_tinystories": Study(
        lambda preset: [language_models.cell(run) for run in story_runs(preset)],
        story_findings,
        NEEDS,
        beside=_shown,
        parts=(Part(_part_cells, _part_findings),),
    )
}
