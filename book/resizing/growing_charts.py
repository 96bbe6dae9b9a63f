"""The stored runs of the chapter on growing a trained model, as tables."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd

from book.ledger.cells import table_of
from book.resizing.experiments import growing
from book.resizing.experiments.growing import FRESH, ORTHOGONAL, SCRATCH, ZEROS, How

NARROW = "narrow, before"
WAYS: dict[How, str] = {
    ORTHOGONAL: "orthonormal columns",
    ZEROS: "zeros",
    FRESH: "fresh readers",
    SCRATCH: "from scratch",
}
UPDATES, PRODUCTS = AXES = ("updates at the new width", "all multiplications (10¹²)")


def runs(how: How) -> list[growing.GrowRun]:
    """Stored runs of one way."""
    return [run for run in growing.runs(how=how) if growing.growing.cell(run).stored()]


@functools.cache
def curves() -> pd.DataFrame:
    """Losses of the narrow model and of every way, over updates and over multiplications.

    Returns
    -------
    DataFrame
        axis (one of AXES), way, seed, spent, log_perplexity. Updates of the narrow model are below 0.
    """
    parts = []
    for how, name in WAYS.items():
        for run in runs(how):
            table = table_of(growing.growing.cell(run))
            parts.append(_of_width(table, run, run.width, name, before=how != SCRATCH))
            if how == ORTHOGONAL:
                parts.append(_of_width(table, run, run.base.shape.embedding_dim, NARROW, before=False))
    return pd.concat(parts, ignore_index=True)


def _of_width(
    table: pd.DataFrame, run: growing.GrowRun, width: int, name: str, *, before: bool
) -> pd.DataFrame:
    """A curve over both axes; with `before`, the narrow model's multiplications are counted first."""
    losses, training = growing.curve(table, width), run.base.training
    n_tokens = training.batch_size * training.length
    a_token = growing.curve(table, width, "products").iloc[0]
    start = 0.0
    if before:
        own = growing.curve(table, run.base.shape.embedding_dim, "products").iloc[0]
        start = training.n_steps * n_tokens * own
    steps = losses.index.to_numpy(dtype=float)
    products = 3 * (start + steps * n_tokens * a_token) / 1e12  # a backward pass takes two forward ones
    shift = training.n_steps if name == NARROW else 0
    columns = {"way": name, "seed": run.base.seed, "log_perplexity": losses.to_numpy()}
    return pd.concat(
        pd.DataFrame({"axis": axis, "spent": spent, **columns})
        for axis, spent in ((UPDATES, steps - shift), (PRODUCTS, products))
    )


def limits() -> tuple[float, float]:
    """Ends of the axis of losses: the first updates of new models lie above."""
    table = curves()
    late = table[(table["way"] == NARROW) & (table["axis"] == UPDATES)]
    late = late[late["spent"] >= 0.8 * late["spent"].min()]
    low, high = float(table["log_perplexity"].min()), float(late["log_perplexity"].max())
    return round(low - 0.05 * (high - low), 2), round(high, 2)


def ends() -> pd.DataFrame:
    """The last score of each run: way, seed, last (nats), steps and products saved (shares)."""
    scratch = {run.base.seed: table_of(growing.growing.cell(run)) for run in runs(SCRATCH)}
    rows = []
    for how, name in WAYS.items():
        for run in runs(how):
            table = table_of(growing.growing.cell(run))
            row = {"way": name, "seed": run.base.seed, "last": growing.curve(table, run.width).iloc[-1]}
            if how != SCRATCH:
                saving = growing.saving(table, scratch[run.base.seed], run)
                row |= {"steps": 100 * saving.steps, "products": 100 * saving.products}
            rows.append(row)
    return pd.DataFrame(rows)


def outside() -> pd.DataFrame:
    """Share of the hidden states' energy in new directions: way, seed, step, outside_share."""
    parts = []
    for how in (ORTHOGONAL, ZEROS, FRESH):
        for run in runs(how):
            own = growing.curve(table_of(growing.growing.cell(run)), run.width, "outside")
            share = np.where(own.to_numpy() > 1e-6, own.to_numpy(), 0.0)  # below is float32's rounding
            columns = {"way": WAYS[how], "seed": run.base.seed, "step": own.index, "outside_share": share}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)
