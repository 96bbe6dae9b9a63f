"""What the two theorems promise, traced through training; and which matrix a tied one resembles.

Source: tying paper, Theorems 4.1 and 4.2 with their proofs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from book.tying.experiments import natural
from book.tying.experiments.exor import (
    MAIN,
    at_preset,
    cell_of,
    curves,
    embeddings,
    first,
    last,
    not_negative,
)
from book.tying.experiments.exor_runs import EXorRun, prepare
from embviz import metrics
from embviz.ledger import findings
from embviz.ledger.cells import Cell
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study

NO_DECAY = dataclasses.replace(MAIN, n_seeds=5, weight_decay=0.0)
RANK_3 = dataclasses.replace(NO_DECAY, rank=3)
Embeddings = Mapping[tuple[int, bool, str], np.ndarray]
N_BITS = 4  # the symbols 0A, 0B, 1A, 1B, first among a matrix's rows


def _output_cells(preset: str) -> list[Cell]:
    return [cell_of(run, preset) for run in (MAIN, NO_DECAY, RANK_3)]


def _untied(run: EXorRun, preset: str) -> pd.DataFrame:
    table = curves(run, preset)
    return table[~table["tied"]]


def _output_findings(preset: str) -> dict[str, Finding]:
    untied = _untied(MAIN, preset)
    column = "relative_output_11"
    ends = {name: last(_untied(run, preset)) for name, run in (("no_decay", NO_DECAY), ("rank_3", RANK_3))}
    rank_3 = {"rank_3": float(ends["rank_3"][column].mean())}
    start = {"start": float(first(untied)[column].mean())}
    tracking = [_rank_correlation(rows[column], rows["loss_gap"]) for _, rows in untied.groupby("seed")]
    unrelated = [_rank_correlation(rows["output_01"], rows["loss_gap"]) for _, rows in untied.groupby("seed")]
    return {
        "final_ratio": not_negative(findings.over_seeds(last(untied)[column].to_numpy(), nulls=start)),
        "no_decay_ratio": not_negative(
            findings.over_seeds(ends["no_decay"][column].to_numpy(), nulls=rank_3)
        ),
        "tracking": findings.over_seeds(tracking, nulls={"unrelated": float(np.mean(unrelated))}),
        "span": findings.over_seeds(last(untied)["span"].to_numpy()),
    }


def _rank_correlation(x: pd.Series, y: pd.Series) -> float:
    return float(stats.spearmanr(x, y).statistic)


def _input_findings(preset: str) -> dict[str, Finding]:
    table = curves(MAIN, preset)
    found = {}
    for name, bound in (("violations", "bound"), ("tight_violations", "tight")):
        beyond = {pair: table[f"input_{pair}"] > table[f"{bound}_{pair}"] for pair in ("11", "00", "01")}
        equivalent = (beyond["11"].astype(float) + beyond["00"]) / 2
        by_seed = equivalent.groupby(table["seed"]).mean()
        nulls = {"unrelated": float(beyond["01"].mean())}
        found[name] = findings.over_seeds(by_seed.to_numpy(), nulls=nulls)
    end = last(table[~table["tied"]])
    loose = {pair: (end[f"bound_{pair}"] / end[f"input_{pair}"]).to_numpy() for pair in ("11", "01")}
    found["looseness"] = findings.over_seeds(loose["11"], nulls={"unrelated": float(loose["01"].mean())})
    return found


# --- which matrix a tied one resembles --------------------------------------------------------------------


def exor_resemblance(
    preset: str, *, runs: Sequence[EXorRun] = (MAIN,), step: int | None = None
) -> pd.DataFrame:
    """How a tied matrix of `runs` compares with the matrices of untied models of the other seeds.

    Returns
    -------
    DataFrame
        seed, measure and the means of :func:`book.tying.experiments.natural.likeness`. Measure "procrustes"
        is a disparity (small: alike), "order" the rank correlation of the six distances between bit symbols
        (large: alike).
    """
    return resemblance({key: E for run in runs for key, E in embeddings(run, preset, step=step).items()})


def resemblance(found: Embeddings) -> pd.DataFrame:
    """The same of given embeddings, by seed, tied, and "input" or "output"."""
    seeds = sorted({seed for seed, _, _ in found})
    tied = [found[seed, True, "input"][:N_BITS] for seed in seeds]
    untied = {m: [found[seed, False, m][:N_BITS] for seed in seeds] for m in ("input", "output")}
    shapes = natural.likeness(tied, untied, metrics.procrustes_disparity)
    orders = {m: [_ranked_distances(rows) for rows in tables] for m, tables in untied.items()}
    order = natural.likeness([_ranked_distances(rows) for rows in tied], orders, _correlation)
    parts = [shapes.assign(measure="procrustes"), order.assign(measure="order")]
    return pd.concat([part.assign(seed=seeds) for part in parts], ignore_index=True)


def _ranked_distances(rows: np.ndarray) -> np.ndarray:
    """The places of all pairs of rows (n, D) in the order of their distances, (n (n - 1) / 2,)."""
    ranks: np.ndarray = stats.rankdata(metrics.pairwise_distances(rows)[np.triu_indices(len(rows), 1)])
    return ranks


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def _resemblance_cells(preset: str) -> list[Cell]:
    return [cell_of(MAIN, preset)]


def _resemblance_findings(preset: str) -> dict[str, Finding]:
    found = exor_gains(preset, [MAIN])
    text = natural.STUDIES["tying.natural"].largest_stored()
    if text is not None:
        gains = _gains(natural.resemblance(natural.natural_runs(text)))
        for measure in ("procrustes", "neighbours"):
            found[f"natural_{measure}"] = findings.over_seeds(gains[measure]["own"].to_numpy())
    return found


def exor_gains(preset: str, runs: Sequence[EXorRun]) -> dict[str, Finding]:
    """How much more like the output than like the input the tied matrices of `runs` are, and before training.

    Seeds beyond the first two of a run keep their embeddings at the end alone, so the start is that of two.
    """
    gains, starts = (_gains(exor_resemblance(preset, runs=runs, step=step)) for step in (None, 0))
    return {
        f"exor_{measure}": findings.over_seeds(
            gains[measure]["own"].to_numpy(), nulls={"start": float(starts[measure]["own"].mean())}
        )
        for measure in ("procrustes", "order")
    }


def exor_gained(preset: str, runs: Sequence[EXorRun]) -> dict[str, Finding]:
    """The same after training minus before, by seed, so that a start needs no null of its own."""
    starts = [found for run in runs for found in _untrained(at_preset(run, preset)).items()]
    tables = exor_resemblance(preset, runs=runs), resemblance(dict(starts))
    trained, before = (_gains(table.set_index("seed")) for table in tables)
    return {
        f"exor_{measure}": findings.over_seeds(jackknifed(trained[measure] - before[measure]))
        for measure in ("procrustes", "order")
    }


def jackknifed(gains: pd.DataFrame) -> np.ndarray:
    """Values (n,) whose mean is that of all pairs of seeds, and whose spread is that of whole seeds.

    A pair's number hangs on both of its seeds, and all tied models are held against the same untied ones, so
    means by tied model alone look more certain than they are. These are the jackknife's pseudo-values, each
    from leaving out one seed in both roles; with two seeds there are none, and the means come back.

    Parameters
    ----------
    gains : DataFrame
        By seed: `own`, the mean over pairs with its tied model, and `others`, over those with its untied one.
    """
    n, mean = len(gains), gains["own"].mean()
    if n < 3:
        return gains["own"].to_numpy()
    deviation = (gains["own"] + gains["others"] - 2 * mean).to_numpy()
    return mean + (n - 1) / (n - 2) * deviation


def _untrained(run: EXorRun) -> Embeddings:
    """Embeddings of a run's models before their first update, drawn again from the seeds."""
    session = prepare(run)
    arrays = {name: E.detach().numpy() for name, E in session.gauge.embeddings().items()}
    members = enumerate(session.members)
    return {(m.seed, m.tied, name): E[at] for at, m in members for name, E in arrays.items()}


def natural_gains(preset: str) -> dict[str, Finding]:
    """The same of natural text under the cosine; the null has the rows of the tied matrix exchanged."""
    runs = natural.cosine_runs(preset)
    gains, nulls = (_gains(natural.resemblance(runs, exchanged=is_null)) for is_null in (False, True))
    corpus = runs[0].corpus
    return {
        f"natural_{measure}": findings.over_seeds(
            jackknifed(gains[measure]),
            nulls={"exchanged": float(nulls[measure]["own"].mean())},
            corpus=corpus,
        )
        for measure in ("procrustes", "neighbours")
    }


def _gains(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By measure: how much more like the output than like the input, above 0 where it is more.

    `own` of a seed's tied model, `others` of the other seeds' against its untied one.
    """
    sign = {"procrustes": 1, "order": -1, "neighbours": -1}
    gains = table.assign(
        own=table["to_input"] - table["to_output"], others=table["from_input"] - table["from_output"]
    )
    return {
        str(measure): sign[str(measure)] * rows[["own", "others"]]
        for measure, rows in gains.groupby("measure")
    }


STUDIES: dict[str, Study] = {
    "tying.theorem_output": Study(_output_cells, _output_findings),
    "tying.theorem_input": Study(lambda preset: [cell_of(MAIN, preset)], _input_findings),
    "tying.tied_like_output": Study(_resemblance_cells, _resemblance_findings),
}
