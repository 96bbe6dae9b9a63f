"""EXor with other probabilities of 0A: how unequal may two spellings be before they come apart?

In the paper a 0 is spelled 0A with probability 1/10, a 1 is spelled 1A with 1/2. Here the first varies from
1/2, where the hypothesis holds for both pairs of spellings, to 1/50.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd

from book.ledger.cells import Cell, experiment, missing, read
from book.ledger.claims import PRESETS
from book.tying.experiments.exor_runs import N_SHOWN, EXorRun, FreshRun, Session, prepare
from book.tying.languages.exor import SYMBOLS, EXor
from embviz.training.loop import Snapshot

SHARES = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)  # p(0A | 0)
FAIR = 0.5
UNFAIR = 0.1  # the paper's
N_KEPT = 30  # points of a curve
MATRICES, PAIRS = ("input", "output"), ("11", "00", "01")
KEPT = ("accuracy", "loss_gap", *(f"{matrix}_{pair}" for matrix in MATRICES for pair in PAIRS))


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Small transformers, tied and untied, of seeds 0 to `n_seeds` - 1, with one probability of 0A.

    Three times the paper's rate, going down once: so a third of the steps do, and what has been learned
    isn't lost when the rate goes up again.
    """

    p_0a: float = 0.1
    n_steps: int = 50_000
    n_seeds: int = 8
    learning_rate: float = 1.5e-3


@dataclasses.dataclass(frozen=True)
class FreshSweep(Sweep):
    """The same with seeds from `first_seed` on, which nobody had looked at when a claim was made of it."""

    first_seed: int = 8


def sweep_session(config: Sweep) -> Session:
    """Runs with one probability of 0A before training."""
    run = EXorRun(n_steps=config.n_steps, n_seeds=config.n_seeds, learning_rate=config.learning_rate)
    if isinstance(config, FreshSweep):
        run = FreshRun(**dataclasses.asdict(run), first_seed=config.first_seed)
    session = prepare(run, task=EXor(p_0a=config.p_0a))
    session.optimizer = dataclasses.replace(
        session.optimizer, half_period=config.n_steps, min_learning_rate=config.learning_rate / 50
    )
    return session


@experiment("tying.exor_sweep", version=2)
def exor_sweep(config: Sweep) -> pd.DataFrame:
    """Train with one probability of 0A, and tabulate about thirty snapshots.

    Returns
    -------
    DataFrame
        seed, tied, step, quantity, value: accuracy and loss above the optimum as the paper's runs measure
        them, Euclidean distances of pairs, and the embeddings of the first two seeds (``input/0A/0``).
    """
    session = sweep_session(config)
    members = pd.DataFrame([dataclasses.asdict(member) for member in session.members])
    parts = []
    for snapshot in session.snapshots(snapshot_at=max(1, config.n_steps // N_KEPT)):
        measured = members.assign(**{name: snapshot.metrics[name] for name in KEPT})
        for table in (measured, members[: 2 * N_SHOWN].join(_coordinates(snapshot))):
            long = table.melt(["seed", "tied"], var_name="quantity")
            parts.append(long.assign(step=snapshot.step)[["seed", "tied", "step", "quantity", "value"]])
    table = pd.concat(parts, ignore_index=True)
    return table.astype({"value": np.float32, "seed": np.int16, "step": np.int32})


def _coordinates(snapshot: Snapshot) -> pd.DataFrame:
    """Embeddings (R, V, D) of the members with pictures: a row per member, a column per coordinate."""
    columns = {}
    for matrix in MATRICES:
        rows = snapshot.weights[matrix][: 2 * N_SHOWN].numpy()
        for index, axis in np.ndindex(rows.shape[1:]):
            columns[f"{matrix}/{SYMBOLS[index]}/{axis}"] = rows[:, index, axis]
    return pd.DataFrame(columns)


def sweep_cells(preset: str = "paper", *, fresh: bool = False) -> list[Cell]:
    """One cell for each probability of 0A, of the first seeds or of fresh ones; `quick` tests the code."""
    kind = FreshSweep if fresh else Sweep
    if preset == "quick":
        sweeps = [kind(share, n_steps=300, n_seeds=1, learning_rate=5e-3) for share in (0.5, 0.1)]
    else:
        sweeps = [kind(share) for share in SHARES]
    return [exor_sweep.cell(sweep) for sweep in sweeps]


def sweep_curves(preset: str = "paper", *, fresh: bool = False) -> pd.DataFrame:
    """A stored sweep along the way: p_0a, seed, tied, step and a column for each quantity.

    Beside the stored quantities, ``relative_{matrix}_{pair}`` is the distance of a pair over that of 0A and
    1B, and `accuracy_gap` the best possible accuracy on the strings of the runs minus the accuracy.
    """
    wide = _wide(preset, pictures=False, fresh=fresh)
    for matrix in MATRICES:
        for pair in PAIRS[:2]:
            wide[f"relative_{matrix}_{pair}"] = wide[f"{matrix}_{pair}"] / wide[f"{matrix}_01"]
    best = {share: best_accuracy(EXor(p_0a=share)) for share in wide["p_0a"].unique()}
    return wide.assign(accuracy_gap=wide["p_0a"].map(best) - wide["accuracy"])


def sweep_pictures(preset: str = "paper") -> dict[tuple[float, bool, str], tuple[list[int], np.ndarray]]:
    """Steps, and embeddings (S, V, D) of seed 0 at each, by p(0A | 0), tied, and "input" or "output"."""
    wide = _wide(preset, pictures=True)
    found = {}
    for share, tied in itertools.product(sorted(set(wide["p_0a"])), (False, True)):
        rows = wide[(wide["seed"] == 0) & (wide["p_0a"] == share) & (wide["tied"] == tied)]
        for matrix in MATRICES:
            own = [[f"{matrix}/{symbol}/{axis}" for axis in range(4)] for symbol in SYMBOLS]
            arrays = rows[np.ravel(own)].to_numpy().reshape(len(rows), len(SYMBOLS), 4)
            found[share, tied, matrix] = rows["step"].tolist(), arrays
    return found


def best_accuracy(task: EXor) -> float:
    """The best possible accuracy on the strings that the runs use: without 1111111 there are fewer ones."""
    return task.optimal_accuracy(task.strings()[:-1])


def _wide(preset: str, *, pictures: bool, fresh: bool = False) -> pd.DataFrame:
    wanted = sweep_cells(preset, fresh=fresh)
    tables = [read(cell)[0].assign(p_0a=cell.config.p_0a) for cell in wanted]
    table = pd.concat(tables, ignore_index=True)
    table = table[table["quantity"].str.contains("/") == pictures]
    keys = ["p_0a", "seed", "tied", "step"]
    wide = table.pivot(index=keys, columns="quantity", values="value").astype(float)
    return wide.rename_axis(columns=None).reset_index()
