"""Figure 1 of the geometry paper against mode sets drawn at random, and how few modes are enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from book.geometry.experiments.grokking import GrokkingRun, grokking
from book.geometry.experiments.steering import (
    BASE,
    CONTROLS,
    FEWER,
    NEAR,
    SINGLES,
    VARIANTS,
    at_preset,
    cells_of,
    random_cells,
    random_sets,
    ranking,
    times,
    variant_times,
)
from book.ledger.cells import Cell, missing
from book.ledger.findings import Finding, exact, once, over_seeds, resampled, share
from book.ledger.studies import Part, Study

P = 97
N_RESAMPLED = 1_000
FRESH = {"quick": range(2), "laptop": range(5, 10), "paper": range(5, 10)}  # seeds that were not looked at
N_LOOKED_AT = {"quick": 0, "laptop": 20, "paper": 20}  # drawn sets of five modes that were
N_DRAWS = {"quick": 2, "laptop": 20, "paper": 20}
MORE_FRESH, N_MORE = range(10, 20), 40  # seeds and drawn sets that were not looked at after those
N_FEW = {"quick": 2, "laptop": 10, "paper": 10}  # drawn pairs of modes, and triples


# --- up to symmetry -------------------------------------------------------------------------------------


def renamings(modes: Sequence[int], p: int) -> set[tuple[int, ...]]:
    """Mode sets that `modes` become when residue a is called u a, for every u: the task looks alike to all.

    >>> sorted(renamings((1,), 7))
    [(1,), (2,), (3,)]
    """
    return {tuple(sorted(min(u * mode % p, -u * mode % p) for mode in modes)) for u in range(1, p // 2 + 1)}


# --- drawn sets -----------------------------------------------------------------------------------------


def drawn_cells(
    preset: str, size: int, n_draws: int, *, skip: int = 0, seeds: Sequence[int] | None = None
) -> list[Cell]:
    """One cell per drawn set of `size` modes, the first `skip` sets left out; fresh seeds take turns."""
    seeds = FRESH[preset] if seeds is None else seeds
    sets = random_sets(P, skip + n_draws, size=size)[skip:]
    return [
        grokking.cell(at_preset(GrokkingRun(modes=modes), preset, seeds[i % len(seeds)]))
        for i, modes in enumerate(sets)
    ]


def near_cells(preset: str, seeds: Sequence[int] | None = None) -> list[Cell]:
    """Near-Nyquist modes on the fresh seeds, or on others."""
    return [grokking.cell(at_preset(NEAR, preset, seed)) for seed in seeds or FRESH[preset]]


def five_drawn(preset: str) -> list[Cell]:
    """Drawn sets of five modes that were not looked at."""
    return drawn_cells(preset, 5, N_DRAWS[preset], skip=N_LOOKED_AT[preset])


def _more_near(preset: str) -> list[Cell]:
    return near_cells(preset, MORE_FRESH) if preset == "paper" else []


def more_drawn(preset: str) -> list[Cell]:
    """Cells of the ten seeds that were added later, at the paper's size only."""
    skip = N_LOOKED_AT[preset] + N_DRAWS[preset]
    return drawn_cells(preset, 5, N_MORE, skip=skip, seeds=MORE_FRESH) if preset == "paper" else []


def against_drawn(preset: str = "paper", *, more: bool = False) -> pd.DataFrame:
    """Stored times of near-Nyquist and of random modes on the same seeds: modes, and the columns of `times`.

    With `more`, of the ten seeds that came later too.
    """
    near, drawn = near_cells(preset), five_drawn(preset)
    if more:
        near, drawn = [*near, *_more_near(preset)], [*drawn, *more_drawn(preset)]
    parts = [
        times([cell]).assign(modes=name)
        for name, cells in (("near-Nyquist", near), ("drawn", drawn))
        for cell in cells
    ]
    return pd.concat(parts, ignore_index=True)


def ahead(table: pd.DataFrame, column: str) -> Finding:
    """Share of the drawn sets of a seed that are there no later than its near-Nyquist modes, over seeds.

    The null puts each drawn set in the place of the near-Nyquist modes, against the others of its seed.
    """
    drawn, near = (table[table["modes"] == modes] for modes in ("drawn", "near-Nyquist"))
    no_later = drawn[column] <= drawn["seed"].map(near.set_index("seed")[column])
    others = [
        (rows.drop(index=row.Index)[column] <= getattr(row, column)).mean()
        for _, rows in drawn.groupby("seed")
        for row in rows.itertuples()
        if len(rows) > 1
    ]
    controls = {"by_lot": float(np.mean(others)) if others else 0.5}
    shares = no_later.groupby(drawn["seed"]).mean()
    return over_seeds(shares.to_numpy(float), controls=controls, within=(0, 1))


def epochs_saved(table: pd.DataFrame, column: str) -> Finding:
    """Mean of a seed's drawn sets less its near-Nyquist run, over seeds; a censored time is the limit."""
    of = table.groupby(["modes", "seed"])[column].mean()
    return over_seeds((of["drawn"] - of["near-Nyquist"]).to_numpy(float))


# --- Figure 1 -------------------------------------------------------------------------------------------


def _variant_cells(preset: str) -> list[Cell]:
    cells = [cell for run in VARIANTS.values() for cell in cells_of(run, preset, FEWER[preset])]
    first = [*cells_of(NEAR, preset), *random_cells(P, preset)]
    return [*cells, *first, *near_cells(preset), *five_drawn(preset)]


def _variant_findings(preset: str) -> dict[str, Finding]:
    measured = variant_times(preset)
    wide = [measured.pivot(index="variant", columns="seed", values=name) for name in ("grok", "memorize")]
    times_of = np.stack([table.to_numpy(float) for table in wide])  # (2, variants, seeds)
    near, n_seeds = list(wide[0].index).index("near-Nyquist"), times_of.shape[2]
    rng = np.random.default_rng(0)
    seeds_drawn = rng.integers(n_seeds, size=(N_RESAMPLED, n_seeds))
    again = np.array([ranking(times_of[:, :, seeds], near) for seeds in seeds_drawn])  # the same seeds of all
    return {
        "variants": exact(times_of.shape[1]),
        "correlation": resampled(ranking(times_of, near)[2], again[:, 2], n_seeds),
    }


def _more_findings(preset: str) -> dict[str, Finding]:
    table = against_drawn(preset, more=True)
    fresh = table[table["seed"].isin(MORE_FRESH)]
    return {f"more_ahead_{name}": ahead(table, name) for name in ("grok", "memorize")} | {
        "near_saves_more": epochs_saved(fresh, "grok")
    }


# --- how few modes --------------------------------------------------------------------------------------


def few_cells(preset: str) -> dict[int, list[Cell]]:
    """Runs with one mode, as in Table 2, and with two and three drawn at random, by their number."""
    single = [cell for run in SINGLES for cell in cells_of(run, preset, FEWER[preset])]
    return {1: single} | {size: drawn_cells(preset, size, N_FEW[preset]) for size in (2, 3)}


def shown_cells(preset: str) -> dict[str, list[Cell]]:
    """Runs by what their gradients keep: one to five modes, ten random dimensions, or everything."""
    modes = {
        f"{size} mode{'s' * (size > 1)}": cells for size, cells in (few_cells(preset) | _more(preset)).items()
    }
    return modes | {
        "10 random dimensions": cells_of(CONTROLS["subspace"], preset),
        "no projection": cells_of(BASE, preset),
    }


def _more(preset: str) -> dict[int, list[Cell]]:
    return {4: drawn_cells(preset, 4, N_FEW[preset]), 5: five_drawn(preset)}


def shown_times(preset: str = "paper") -> pd.DataFrame:
    """Times of :func:`shown_cells`: kept, and columns of `times`; of a kind once all its cells are stored.

    The first sets to arrive would be the quick ones.
    """
    every = shown_cells(preset).items()
    return pd.concat(
        [times(cells).assign(kept=kept) for kept, cells in every if not missing(cells)], ignore_index=True
    )


def grokked_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Share of runs that grokked by `kept`, with Wilson's interval: kept, share, low, high."""
    found = {
        kept: share(int(own["grokked"].sum()), len(own), repeats="runs")
        for kept, own in table.groupby("kept", sort=False)
    }
    rows = [(kept, one.value, one.low, one.high) for kept, one in found.items()]
    return pd.DataFrame(rows, columns=["kept", "share", "low", "high"])


def _few_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for size, cells in few_cells(preset).items():
        table, word = times(cells), ("one", "two", "three")[size - 1]
        found[word] = share(int(table["grokked"].sum()), len(table), repeats="runs")
    return found


STUDIES = {
    "geometry.fourteen_variants": Study(
        _variant_cells,
        _variant_findings,
        parts=(Part(lambda preset: [*_more_near(preset), *more_drawn(preset)], _more_findings),),
    ),
    "geometry.three_modes": Study(
        lambda preset: [cell for cells in few_cells(preset).values() for cell in cells],
        _few_findings,
        beside=lambda preset: _more(preset)[4],
    ),
}
