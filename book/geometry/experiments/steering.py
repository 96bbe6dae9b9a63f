"""Findings on grokking under projected gradients: Tables 1 and 2 and Figure 1 of the geometry paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from book.geometry.experiments.grokking import (
    DECAY,
    GROKFAST,
    MATCHED,
    MEMORIZED,
    SHUFFLED,
    SWITCHED,
    GrokkingRun,
    Setting,
    first_epochs,
    grokking,
    spectra,
)
from book.ledger.cells import Cell, missing, read, table_of
from book.ledger.findings import Finding, over_seeds, share
from book.ledger.studies import Study

GROKKED, STRICT = 0.95, 0.99  # validation accuracies: section 2.3, Table 8
LIMITS = {"quick": 12, "laptop": 300, "paper": 1500}  # epochs
SETTINGS = {
    "quick": Setting(batch_size=64, n_layers=1),
    "laptop": Setting(batch_size=512),
    "paper": Setting(),  # the paper gives no batch size; one full batch comes close to its figures
}
SEEDS = {"quick": 2, "laptop": 5, "paper": 5}
MORE = {"quick": 2, "laptop": 5, "paper": 10}  # seeds of the baseline and of near-Nyquist modes
FEWER = {"quick": 1, "laptop": 3, "paper": 3}  # seeds of Figure 1's variants
N_DRAWS = {"quick": 2, "laptop": 20, "paper": 20}  # random mode sets
SMALL_P = {97: 23, 113: 29}  # of the quick preset

CORRECT = {1, 14, 41}  # as section 2.3 has it
N_STRONGEST = 5  # modes of a trained embedding that are counted as the modes it uses

BASE = GrokkingRun()
NEAR = GrokkingRun(modes=(30, 35, 40, 45, 48))
NEAR_113 = GrokkingRun(p=113, modes=(34, 40, 46, 51, 56))
MAIN = {  # Table 1, in the paper's order of epochs to grok
    "near-Nyquist": NEAR,
    "adaptive 5": GrokkingRun(top_k=5),
    "{1, 14, 41}": GrokkingRun(modes=(1, 14, 41)),
    "{1, ..., 5}": GrokkingRun(modes=(1, 2, 3, 4, 5)),
    "baseline": BASE,
}
VARIANTS = {  # Figure 1: one to ten modes, low, middle, high and spread
    **MAIN,
    "{48}": GrokkingRun(modes=(48,)),
    "{1}": GrokkingRun(modes=(1,)),
    "{20}": GrokkingRun(modes=(20,)),
    "{47, 48}": GrokkingRun(modes=(47, 48)),
    "{40, 45, 48}": GrokkingRun(modes=(40, 45, 48)),
    "{44, ..., 48}": GrokkingRun(modes=(44, 45, 46, 47, 48)),
    "{39, ..., 48}": GrokkingRun(modes=tuple(range(39, 49))),
    "{22, ..., 26}": GrokkingRun(modes=(22, 23, 24, 25, 26)),
    "{8, 16, ..., 40}": GrokkingRun(modes=(8, 16, 24, 32, 40)),
    "{1, ..., 10}": GrokkingRun(modes=tuple(range(1, 11))),
    "adaptive 1": GrokkingRun(top_k=1),
    "adaptive 10": GrokkingRun(top_k=10),
}
CONTROLS = {
    "subspace": GrokkingRun(subspace=10),
    "shuffled": dataclasses.replace(NEAR, control=SHUFFLED),
    "matched_norm": dataclasses.replace(NEAR, control=MATCHED),
}
PEERS = {  # beside the projections at each step
    "every_10": GrokkingRun(top_k=5, every=10),
    "every_100": GrokkingRun(top_k=5, every=100),
    "grokfast": dataclasses.replace(BASE, control=GROKFAST),
}

MORE_CONTROLS = {  # of no claim; shown where they are stored
    "switched_off": dataclasses.replace(NEAR, control=SWITCHED),
    "decay_on_embedding": dataclasses.replace(BASE, control=DECAY),
    "renamed": GrokkingRun(modes=(6, 7, 11, 19, 20)),  # near-Nyquist, with residue a called 22 a
}


# --- cells ----------------------------------------------------------------------------------------------


def at_preset(run: GrokkingRun, preset: str, seed: int) -> GrokkingRun:
    """A paper-sized run of one seed as far as a preset takes it; `quick` scales p and the modes down."""
    sized = dataclasses.replace(
        run, n_epochs=LIMITS[preset], setting=SETTINGS[preset], first_seed=seed, n_seeds=1
    )
    if preset != "quick":
        return sized
    p = SMALL_P[run.p]
    modes = tuple(sorted({max(1, round(mode * (p // 2) / (run.p // 2))) for mode in run.modes}))
    return dataclasses.replace(sized, p=p, modes=modes, train_share=0.6)


def cells_of(run: GrokkingRun, preset: str = "paper", n_seeds: int | None = None) -> list[Cell]:
    """One cell per seed."""
    seeds = range(SEEDS[preset] if n_seeds is None else n_seeds)
    return [grokking.cell(at_preset(run, preset, seed)) for seed in seeds]


def random_sets(p: int, n_draws: int, *, size: int = 5) -> list[tuple[int, ...]]:
    """Sets of `size` modes out of 1 to p // 2, drawn without repetition inside a set."""
    rng = np.random.default_rng(p)
    drawn = [rng.choice(np.arange(1, p // 2 + 1), size, replace=False) for _ in range(n_draws)]
    return [tuple(sorted(modes.tolist())) for modes in drawn]


def random_cells(p: int, preset: str = "paper") -> list[Cell]:
    """One cell per drawn set; seeds take turns, so that sets and seeds both vary."""
    runs = [GrokkingRun(p=p, modes=modes) for modes in random_sets(p, N_DRAWS[preset])]
    return [grokking.cell(at_preset(run, preset, i % SEEDS[preset])) for i, run in enumerate(runs)]


# --- times ----------------------------------------------------------------------------------------------


def times(cells: Sequence[Cell], threshold: float = GROKKED) -> pd.DataFrame:
    """Epochs to grok and to memorize, one row a cell of one seed.

    Returns
    -------
    DataFrame
        seed, grok, grokked, memorize, memorized. Where `grokked` is false the run did not get there within
        its limit and `grok` is that limit: a censored time.
    """
    rows = []
    for cell in cells:
        table, _ = read(cell)
        (seed, grok, grokked) = _first(table, threshold, "validation_accuracy", cell)
        (_, memorize, memorized) = _first(table, MEMORIZED, "train_accuracy", cell)
        rows.append((seed, grok, grokked, memorize, memorized))
    return pd.DataFrame(rows, columns=["seed", "grok", "grokked", "memorize", "memorized"])


def _first(table: pd.DataFrame, threshold: float, quantity: str, cell: Cell) -> tuple[int, int, bool]:
    ((seed, epoch, reached),) = first_epochs(table, threshold, quantity)
    # epoch 0 stands for a run that is there before its first update, as a tiny one may be
    return seed, max(1, epoch) if reached else cell.config.n_epochs, reached


def speedups(run: pd.DataFrame, base: pd.DataFrame, column: str = "grok") -> np.ndarray:
    """Epochs saved, in percent of the same seed's baseline; a censored time counts as its limit.

    Raises
    ------
    ValueError
        If a run's seed has no baseline.
    """
    own = run["seed"].map(base.set_index("seed")[column])
    if own.isna().any():
        alone = ", ".join(map(str, run.loc[own.isna(), "seed"].unique()))
        raise ValueError(f"no baseline of seed {alone}: speed-ups are paired, so leave those runs out")
    return (100 * (1 - run[column].to_numpy() / own.to_numpy())).astype(float)


def capped(finding: Finding) -> Finding:
    """A speed-up whose interval does not go beyond 100%, which no speed-up can."""
    return dataclasses.replace(finding, high=min(finding.high, 100.0))


def _speedup(
    run: pd.DataFrame, base: pd.DataFrame, column: str = "grok", controls: Mapping[str, float] | None = None
) -> Finding:
    return capped(over_seeds(speedups(run, base, column), controls=controls))


# --- Table 1 --------------------------------------------------------------------------------------------


def _main_cells(preset: str) -> list[Cell]:
    runs = [*MAIN.values(), *CONTROLS.values(), *_peers(preset).values()]
    cells = [cell for run in runs for cell in cells_of(run, preset, _n_main(run, preset))]
    return cells + random_cells(97, preset)


def _n_main(run: GrokkingRun, preset: str) -> int:
    return (MORE if run in (BASE, NEAR) else SEEDS)[preset]


def _peers(preset: str) -> dict[str, GrokkingRun]:
    """PEERS whose runs are all stored; no verdict waits for them."""
    return {
        name: run for name, run in PEERS.items() if preset == "quick" or not missing(cells_of(run, preset))
    }


def peer_cells(preset: str) -> list[Cell]:
    """One cell per seed of each of PEERS."""
    return [cell for run in PEERS.values() for cell in cells_of(run, preset)]


def _main_findings(preset: str) -> dict[str, Finding]:
    found = {name: times(cells_of(run, preset, _n_main(run, preset))) for name, run in MAIN.items()}
    base, near = found["baseline"], found["near-Nyquist"]
    drawn = times(random_cells(97, preset))
    every = [table[table["seed"] < SEEDS[preset]] for table in found.values()]  # seeds of all five
    null = {"random_modes": float(speedups(drawn, base).mean())}
    null_mem = {"random_modes": float(speedups(drawn, base, "memorize").mean())}
    return {
        "baseline": over_seeds(base["grok"].to_numpy(float)),
        "near_nyquist": _speedup(near, base, controls=null),
        "adaptive": _speedup(found["adaptive 5"], base),
        "nanda": _speedup(found["{1, 14, 41}"], base),
        "low": _speedup(found["{1, ..., 5}"], base),
        "order": order_agreement(every),
        "memorization": _speedup(near, base, "memorize", null_mem),
        **{
            name: _speedup(times(cells_of(CONTROLS[name], preset)), base) for name in ("subspace", "shuffled")
        },
    }


def order_agreement(in_paper_s_order: Sequence[pd.DataFrame]) -> Finding:
    """Kendall's tau of each seed's epochs to grok with the paper's order."""
    epochs = np.stack([table.sort_values("seed")["grok"] for table in in_paper_s_order])  # (runs, seeds)
    taus = [stats.kendalltau(column, np.arange(len(epochs))).statistic for column in epochs.T]
    finding = over_seeds(np.nan_to_num(taus))  # all censored alike: no order
    return dataclasses.replace(finding, low=max(finding.low, -1.0), high=min(finding.high, 1.0))


# --- modes that the trained embedding uses ----------------------------------------------------------------


def strongest(cell: Cell, k: int) -> set[int]:
    """The embedding's `k` strongest modes at a run's end."""
    return set(powers(cell).iloc[-1].nlargest(k).index.tolist())


def _modes_cells(preset: str) -> list[Cell]:
    return [cell for run in (NEAR, BASE) for cell in cells_of(run, preset, MORE[preset])]


def _modes_findings(preset: str) -> dict[str, Finding]:
    near, base = (cells_of(run, preset, MORE[preset]) for run in (NEAR, BASE))
    ends, own = ([strongest(cell, N_STRONGEST) for cell in cells] for cells in (near, base))
    others = [len(end & other) for i, end in enumerate(ends) for j, other in enumerate(own) if i != j]
    n_correct, n_own = (sum(bool(CORRECT & end) for end in of) for of in (ends, own))
    shared = [len(end & other) for end, other in zip(ends, own, strict=True)]
    return {
        "correct": share(n_correct, len(ends), controls={"baseline": n_own / len(own)}),
        "shared": over_seeds(
            shared, controls={"other_seeds": float(np.mean(others))}, within=(0, N_STRONGEST)
        ),
        "outside": over_seeds(_outside(near, near), within=(0, 1)),
        "outside_baseline": over_seeds(_outside(base, near), within=(0, 1)),
    }


def _outside(cells: Sequence[Cell], prescribed: Sequence[Cell]) -> list[float]:
    """Share of the final embedding's power outside the modes of the cell beside it."""
    pairs = zip(cells, prescribed, strict=True)
    return [float(1 - powers(cell).iloc[-1][list(other.config.modes)].sum()) for cell, other in pairs]


# --- Figure 1 -------------------------------------------------------------------------------------------


def variant_times(preset: str) -> pd.DataFrame:
    """Times of all of Figure 1's variants: variant, and the columns of :func:`times`."""
    parts = [
        times(cells_of(run, preset, FEWER[preset])).assign(variant=name) for name, run in VARIANTS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def ranking(times_of: np.ndarray, near: int) -> tuple[float, float, float]:
    """Ranks of variant `near` by both medians over seeds, and the medians' rank correlation over variants.

    Times are (2, variants, seeds): epochs to grok, and to memorize.
    """
    medians = np.median(times_of, axis=2)
    ranks = stats.rankdata(medians, method="min", axis=1)[:, near]
    varies = (np.ptp(medians, axis=1) > 0).all()  # else no rank correlation is defined
    correlation = float(stats.spearmanr(*medians).statistic) if varies else 0.0
    return float(ranks[0]), float(ranks[1]), correlation


# --- Table 2 --------------------------------------------------------------------------------------------

SINGLES = tuple(GrokkingRun(modes=(mode,)) for mode in (48, 1, 20))
BASE_113 = GrokkingRun(p=113)


def _cross_cells(preset: str) -> list[Cell]:
    whole = [cell for run in (BASE, NEAR, BASE_113, NEAR_113) for cell in cells_of(run, preset)]
    return whole + cells_of(SINGLES[0], preset) + random_cells(97, preset) + random_cells(113, preset)


def _cross_findings(preset: str) -> dict[str, Finding]:
    base, base_113 = times(cells_of(BASE, preset)), times(cells_of(BASE_113, preset))
    null = {
        p: float(speedups(times(random_cells(p, preset)), own).mean())
        for p, own in ((97, base), (113, base_113))
    }
    ratios = (base_113["grok"] / base["grok"]).to_numpy(float)
    found = {
        "speedup_113": _speedup(
            times(cells_of(NEAR_113, preset)), base_113, controls={"random_modes": null[113]}
        ),
        "speedup_97": _speedup(times(cells_of(NEAR, preset)), base, controls={"random_modes": null[97]}),
        "baseline_113": over_seeds(ratios),
    }
    reached = times(cells_of(SINGLES[0], preset))["grokked"]
    return found | {"single": share(int(reached.sum()), len(reached))}


def _shown(preset: str) -> list[Cell]:
    """Other optimizers, and at the paper's setting its other readings and the films."""
    from book.geometry.experiments import films, readings  # they read this module

    if preset != "paper":
        return peer_cells(preset)
    seeded = [cell for row in readings.seeded_cells().values() for cell in row]
    return [*readings.reading_cells(), *seeded, *films.film_cells(preset), *peer_cells(preset)]


STUDIES: dict[str, Study] = {
    "geometry.pfft_speed": Study(_main_cells, _main_findings, beside=_shown),
    "geometry.cross_p": Study(_cross_cells, _cross_findings),
    "geometry.own_modes": Study(_modes_cells, _modes_findings),
}


# --- stored runs, by the names that the chapters give them ----------------------------------------------

SHOWN = "paper"  # the preset that the chapters show: one full batch an epoch
RANDOM = "random modes"  # 20 sets, a seed each
NAMED_CONTROLS = {
    "random subspace": CONTROLS["subspace"],
    "shuffled axis": CONTROLS["shuffled"],
    "matched norm": CONTROLS["matched_norm"],
    "switched off": MORE_CONTROLS["switched_off"],
    "decay on embedding": MORE_CONTROLS["decay_on_embedding"],
    "renamed {6, 7, 11, 19, 20}": MORE_CONTROLS["renamed"],
}
NAMED_PEERS = {
    "top 5, every 10": PEERS["every_10"],
    "top 5, every 100": PEERS["every_100"],
    "GrokFast": PEERS["grokfast"],
}
OTHER_P = {"p = 113, near-Nyquist": NEAR_113, "p = 113, baseline": BASE_113}
RUNS = {**VARIANTS, **NAMED_CONTROLS, **OTHER_P, **NAMED_PEERS}
KINDS = ("no projection", "high modes", "other modes", "adaptive", "control")
HIGH = 2 / 3  # mean mode over p/2, from which a set counts as high


def stored(names: Iterable[str]) -> dict[str, list[Cell]]:
    """Stored cells of runs, keys of RUNS or RANDOM; runs of which none is stored are left out."""
    cells = {
        name: random_cells(97, SHOWN) if name == RANDOM else cells_of(RUNS[name], SHOWN, MORE[SHOWN])
        for name in dict.fromkeys(names)
    }
    stored_cells = {name: [cell for cell in own if cell.stored()] for name, own in cells.items()}
    return {name: own for name, own in stored_cells.items() if own}


def kind_of(name: str) -> str:
    """To which of KINDS a run belongs."""
    if name == RANDOM or name in NAMED_CONTROLS:
        return "control"
    run = RUNS[name]
    if not run.modes:
        return "adaptive" if run.top_k else "no projection"
    return "high modes" if np.mean(run.modes) > HIGH * (run.p // 2) else "other modes"


def times_by_run(cells: Mapping[str, Sequence[Cell]], threshold: float = GROKKED) -> pd.DataFrame:
    """run, and the columns of :func:`times`, one row per seed."""
    parts = [times(own, threshold).assign(run=name) for name, own in cells.items()]
    return pd.concat(parts, ignore_index=True)


def stored_times(names: Iterable[str], threshold: float = GROKKED, base: str = "baseline") -> pd.DataFrame:
    """Times of stored runs by name, with their `kind` and what they have `saved` on the run `base`."""
    names = list(names)
    table = times_by_run(stored([*names, base]), threshold)
    table = table.assign(kind=table["run"].map(kind_of), saved=saved(table, base))
    return table[table["run"].isin(names)].reset_index(drop=True)


def saved(table: pd.DataFrame, base: str, on: Sequence[str] = ("seed",)) -> pd.Series:
    """Percent of the epochs to grok that each row saves on the row of `base` with the same values `on`.

    A run that was given up counts with the limit, the least that it can have lost; NaN where there is no such
    row.
    """
    known = table[table["run"] == base].set_index(list(on))["grok"].rename("base")
    return 100 * (1 - table["grok"] / table.join(known, on=list(on))["base"])


def powers(cell: Cell) -> pd.DataFrame:
    """Share of each mode above 0 in the embedding's power: one row per epoch, one column per mode."""
    wide = spectra(table_of(cell)).pivot(index="epoch", columns="mode", values="power").drop(columns=0)
    return wide.div(wide.sum(axis=1), axis=0)
