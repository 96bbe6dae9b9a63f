"""What the two theorems promise, traced through training; and which matrix a tied one resembles.

Source: tying paper, Theorems 4.1 and 4.2 with their proofs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from book.ledger import findings
from book.ledger.cells import Cell, read
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.tying.experiments import natural
from book.tying.experiments.exor import (
    FRESH_MAIN,
    MAIN,
    MORE_MAIN,
    at_preset,
    cells_of,
    curves,
    embeddings,
    last,
)
from book.tying.experiments.exor_runs import EXorRun, FreshRun, exor_ends, prepare
from book.tying.experiments.full_support import support_cells, support_findings
from embviz import metrics

NO_DECAY = dataclasses.replace(MAIN, n_seeds=5, weight_decay=0.0)
RANK_3 = dataclasses.replace(NO_DECAY, rank=3)
# of seeds that were not looked at when claims were amended
FRESH_NO_DECAY = FreshRun(weight_decay=0.0, n_seeds=20, first_seed=5)
FRESH_RANK_3 = dataclasses.replace(FRESH_NO_DECAY, rank=3)
MANY = dataclasses.replace(FRESH_NO_DECAY, n_seeds=120, first_seed=25)
MANY_RANK_3 = dataclasses.replace(MANY, rank=3)
NEAR = 0.01  # loss above the optimum, in nats, of a run that counts as near it, as Theorem 4.1 asks
Embeddings = Mapping[tuple[int, bool, str], np.ndarray]
N_BITS = 4  # the symbols 0A, 0B, 1A, 1B, first among a matrix's rows


def ends_of(run: FreshRun, preset: str = "paper") -> Cell:
    """The cell of many untied models' ends at a preset."""
    return exor_ends.cell(at_preset(run, preset))


def _output_cells(preset: str) -> list[Cell]:
    many = [ends_of(run, preset) for run in (MANY, MANY_RANK_3)]
    return [*cells_of([MAIN, FRESH_NO_DECAY], preset), *many]


def _output_findings(preset: str) -> dict[str, Finding]:
    """What EXor's runs show: how many come near the optimum, and what the distance follows in those."""
    main = curves(MAIN, preset)
    many = read(ends_of(MANY, preset))[0]
    return {
        "span": findings.over_seeds(last(main[~main["tied"]])["span"].to_numpy()),
        "near_share_many": near_share(many),
        **followed(many.assign(relative_output_11=many["output_11"] / many["output_01"])),
    }


def near_share(ends: pd.DataFrame) -> Finding:
    """The share of runs that end near the optimum."""
    return findings.share(int((ends["loss_gap"] <= NEAR).sum()), len(ends))


def followed(ends: pd.DataFrame) -> dict[str, Finding]:
    """Rank correlations of the relative output distance of 1A and 1B, over runs that end near the optimum:
    with the conditioning of the encodings, and with the loss; nothing of fewer than three runs.

    Parameters
    ----------
    ends : DataFrame
        Ends of untied models without weight decay, a row a seed.
    """
    near = ends[ends["loss_gap"] <= NEAR]
    if len(near) < 3:
        return {}
    columns = {"near_span": "span", "near_loss": "loss_gap"}
    return {
        name: _rank_correlation(near["relative_output_11"], near[column]) for name, column in columns.items()
    }


def _rank_correlation(x: pd.Series, y: pd.Series) -> Finding:
    """Spearman's correlation over runs, with a bootstrap over them."""
    rng, n = np.random.default_rng(0), len(x)
    pairs = np.stack([x, y], axis=1)
    drawn = [_spearman(pairs[rng.integers(n, size=n)]) for _ in range(2_000)]
    return findings.resampled(_spearman(pairs), [one for one in drawn if not math.isnan(one)], n)


def _spearman(pairs: np.ndarray) -> float:
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample may repeat one run
        return _correlation(*(stats.rankdata(column) for column in pairs.T))


def _input_findings(preset: str) -> dict[str, Finding]:
    table = curves(MAIN, preset)
    beyond = {pair: table[f"input_{pair}"] > table[f"tight_{pair}"] for pair in ("11", "00", "01")}
    equivalent = (beyond["11"].astype(float) + beyond["00"]) / 2
    by_seed = equivalent.groupby(table["seed"]).mean()
    return {
        "tight_violations": findings.over_seeds(
            by_seed.to_numpy(), controls={"unrelated": float(beyond["01"].mean())}
        ),
        # the triangle inequality: no pair of rows of any matrix can pass the bound, equivalent or not
        "possible_violations": findings.exact(0.0, controls={"unrelated": 0.0}),
    }


# --- which matrix a tied one resembles --------------------------------------------------------------------


def exor_resemblance(
    preset: str = "paper", *, runs: Sequence[EXorRun] = (FRESH_MAIN, MORE_MAIN), step: int | None = None
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


def exor_gained(preset: str, runs: Sequence[EXorRun] = (MORE_MAIN,)) -> dict[str, Finding]:
    """How much more like the output than like the input tied matrices have become by training, by seed."""
    starts = [found for run in runs for found in _untrained(at_preset(run, preset)).items()]
    tables = exor_resemblance(preset, runs=runs), resemblance(dict(starts))
    trained, before = (_gains(table.set_index("seed")) for table in tables)
    return {
        f"later_exor_{measure}": findings.over_seeds(jackknifed(trained[measure] - before[measure]))
        for measure in ("procrustes", "order")
    }


def jackknifed(gains: pd.DataFrame) -> np.ndarray:
    """Values (n,) with the mean of all pairs of seeds and the spread of whole seeds.

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


def _natural_cells(preset: str) -> list[Cell]:
    """Natural text's runs under the cosine, which no preset has but the laptop's."""
    runs = [] if preset == "quick" else natural.cosine_runs("laptop")
    return [natural.natural_text.cell(run) for run in runs]


def natural_gains(preset: str) -> dict[str, Finding]:
    """The same of natural text under the cosine; the control exchanges the rows of the tied matrix."""
    runs = natural.cosine_runs("laptop")
    gains, controls = (_gains(natural.resemblance(runs, exchanged=is_null)) for is_null in (False, True))
    corpus = runs[0].corpus
    return {
        f"fresh_natural_{measure}": findings.over_seeds(
            jackknifed(gains[measure]),
            controls={"exchanged": float(controls[measure]["own"].mean())},
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
    "tying.theorem_output": Study(
        _output_cells,
        _output_findings,
        # the chapter shows the first seeds too, and the null's curves
        beside=lambda preset: cells_of([NO_DECAY, RANK_3, FRESH_RANK_3], preset),
        parts=(Part(lambda preset: [*support_cells(preset).values()], support_findings),),
    ),
    "tying.theorem_input": Study(lambda preset: cells_of([MAIN], preset), _input_findings),
    "tying.tied_like_output": Study(
        lambda preset: cells_of([MORE_MAIN], preset),
        exor_gained,
        # the chapter shows the seeds before them too
        beside=lambda preset: cells_of([FRESH_MAIN], preset),
        parts=(Part(_natural_cells, natural_gains),),
    ),
}
