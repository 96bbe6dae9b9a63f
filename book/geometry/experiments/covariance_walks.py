"""Query matrices of small models beside random walks in all directions, and walks with their step covariance.

The walks that judge the larger runs move in all directions equally; training does not. Recordings of the
larger runs are not stored, so the second kind is measured on small ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch

from book.geometry.experiments.steering_language import Setting
from book.language import TextConfig, draw_batch, load_streams, next_token_losses
from book.ledger.cells import Cell, experiment, read
from book.ledger.findings import Finding, over_seeds
from book.ledger.studies import Part
from book.transformer import Transformer
from embviz.trajectories.autoencoders import Autoencoder
from embviz.trajectories.nulls import through_nulls
from embviz.trajectories.phases import Clustering
from embviz.trajectories.traces import Layout, Recipe
from embviz.trajectories.weight_paths import weight_path

DATA, ISOTROPIC, COVARIANCE = KINDS = ("data", "random walk", "random walk, same step covariance")
MEASURES = {"separation": "dbcv", "sharp": "layout_sharpness"}  # columns of a trace's measures
SETTING = Setting(32, 5, 4, 128, 32, 16, 400, 5e-3)
N_SEEDS = {"quick": 2, "laptop": 5, "paper": 5}


@dataclass(frozen=True)
class WalkedRun:
    """A small language model; its seed is of weights, batches, walks and layouts."""

    text: TextConfig
    seed: int = 0
    setting: Setting = SETTING
    every: int = 2  # steps between two snapshots
    n_epochs: int = 100  # of the autoencoder
    n_walks: int = 3  # of each kind


@experiment("geometry.covariance_walks")
def covariance_walks(config: WalkedRun) -> pd.DataFrame:
    """Train one model, and measure the layouts of its query matrices and of their random walks.

    Returns
    -------
    DataFrame
        layer, kind (of :data:`KINDS`), draw, n_phases, dbcv (-1 below two phases), layout_sharpness.
    """
    streams, setting = load_streams(config.text), config.setting
    shape = setting.shape(streams.vocab_size, tied=False, start="small")
    model = Transformer(shape, seed=config.seed)
    rate, decay = setting.learning_rate, setting.weight_decay
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    queries = [block.attention.query.weight for block in model.blocks]  # type: ignore[union-attr]
    snapshots: list[list[torch.Tensor]] = [[] for _ in queries]
    steps, losses = [], []
    for step in range(1, setting.n_steps + 1):
        batch = draw_batch(
            streams.train,
            seed=config.seed,
            step=step,
            batch_size=setting.batch_size,
            length=setting.length,
        )
        loss = next_token_losses(model, batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % config.every == 0:
            steps.append(step)
            losses.append(loss.item())
            for kept, weight in zip(snapshots, queries, strict=True):
                kept.append(weight.detach().clone())  # type: ignore[operator]
    recipe = Recipe(
        Autoencoder(bottleneck=8, n_epochs=config.n_epochs),
        Layout(n_neighbors=10, max_iter=150),
        Clustering(10, 5),
    )
    tables = []
    for layer, kept in enumerate(snapshots, start=1):
        path = weight_path(f"Q {layer}", kept, steps, losses)
        compared = through_nulls(
            path, recipe, seed=config.seed, n_draws=config.n_walks, step_covariance=True, shuffled=False
        )
        tables.append(compared.table.assign(layer=layer))
    table = pd.concat(tables, ignore_index=True)
    table["dbcv"] = table["dbcv"].where(table["n_phases"] > 1, -1.0).astype(float)
    table = table[["layer", "kind", "draw", "n_phases", "dbcv", "layout_sharpness"]]
    table.attrs["data"] = {config.text.corpus: streams.checksum}
    return table


def walked_runs(preset: str) -> list[WalkedRun]:
    """Small models of docstrings of Python libraries; the same at every preset but for the quick one."""
    text = TextConfig("embedded", n_documents=600, n_held_out=5)
    if preset == "quick":
        setting = Setting(16, 2, 2, 32, 16, 4, 120, 1e-2)
        return [WalkedRun(text, seed, setting, n_epochs=20, n_walks=1) for seed in range(N_SEEDS[preset])]
    return [WalkedRun(text, seed) for seed in range(N_SEEDS[preset])]


def cells(preset: str) -> list[Cell]:
    return [covariance_walks.cell(run) for run in walked_runs(preset)]


def differences(preset: str) -> pd.DataFrame:
    """Means over layers and draws of what a query matrix has above its walks.

    Returns
    -------
    DataFrame
        seed, measure (of :data:`MEASURES`), walk (the kind), difference.
    """
    rows = []
    for cell in cells(preset):
        means = read(cell)[0].pivot_table(index="kind", values=list(MEASURES.values()))
        for walk in (ISOTROPIC, COVARIANCE):
            above = means.T[DATA] - means.T[walk]
            rows += [(cell.config.seed, name, walk, above[column]) for name, column in MEASURES.items()]
    return pd.DataFrame(rows, columns=["seed", "measure", "walk", "difference"])


def _findings(preset: str) -> dict[str, Finding]:
    found = {}
    for (measure, walk), own in differences(preset).groupby(["measure", "walk"]):
        name = f"{measure}_{'covariance' if walk == COVARIANCE else 'isotropic'}"
        found[name] = over_seeds(own["difference"].to_numpy(), corpus=walked_runs(preset)[0].text.corpus)
    return found


PART = Part(cells, _findings)
