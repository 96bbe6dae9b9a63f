"""Whether the best epsilon follows from learning rate, weight decay and initial spread (an open question)."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from book.kernel import theory
from book.kernel.experiments import models
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import STARTS, KernelRun
from book.kernel.experiments.runs import prepare
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from embviz import kernels
from embviz.words.cooccurrence import count_pairs

RATES = (1e-4, 3e-4, 1e-3)
DECAYS = (0.0, 0.1)
N_SEEDS = 3
FRESH = 10  # first of the seeds that judge; the first three were looked at before there was an interval
N_EPOCHS = 100
EPS = np.geomspace(1e-4, 0.5, 200)
N_DEALS = 1_000


def settings(preset: str, first_seed: int = 0) -> list[KernelRun]:
    """Every combination of the three, with the main reading's text."""
    run = models.main(preset)
    n_epochs = min(run.n_epochs, N_EPOCHS)
    if first_seed == FRESH and preset != "quick":  # as many updates in a third of the time
        run, n_epochs = dataclasses.replace(run, batch_size=run.batch_size // 4), n_epochs // 4
    n_seeds = run.n_seeds if preset == "quick" else N_SEEDS
    rates = RATES[1:] if preset == "quick" else RATES
    return [
        dataclasses.replace(
            run,
            shape=dataclasses.replace(run.shape, start=start),
            learning_rate=rate,
            weight_decay=decay,
            n_epochs=n_epochs,
            n_seeds=n_seeds,
            first_seed=first_seed,
            keep_all=False,
        )
        for rate, decay, start in itertools.product(rates, DECAYS, STARTS)
    ]


@dataclass(frozen=True)
class EpsRun:
    """Models of which the best epsilon alone is kept."""

    run: KernelRun


@experiment("kernel.best_eps")
def fitted(config: EpsRun) -> pd.DataFrame:
    """Train, and scan the FFT form over epsilon.

    Returns
    -------
    DataFrame
        One row per seed: seed, eps (of the largest cosine), cosine (at it), range (largest less smallest
        cosine over all epsilons), at_end (whether it is the first or the last that was tried).
    """
    session = prepare(config.run)
    for _ in session.snapshots(session.n_steps):
        pass
    text = session.text
    counts = count_pairs(text.ids, len(text.vocabulary), window=5).toarray()
    met = counts.any(axis=1)  # a symbol that the text doesn't have has no row in D
    spectrum = theory.decompose(kernels.log_counts(counts[np.ix_(met, met)]))
    embeddings = session.model.embedding.detach().double().cpu().numpy()[:, met]
    k0 = kernels.extract_kernel(models.gram(embeddings), spectrum.matrix, zeros="drop").k0
    found = cosines(theory.alpha_scan(spectrum, EPS)[:, None], k0[None])  # (n, R)
    where = found.argmax(axis=0)
    table = pd.DataFrame(
        {
            "seed": [member.seed for member in config.run.members],
            "eps": EPS[where],
            "cosine": found.max(axis=0),
            "range": np.ptp(found, axis=0),
            "at_end": np.isin(where, (0, len(EPS) - 1)),
        }
    )
    table.attrs["data"] = {config.run.text.corpus: text.checksum}
    return table


def best_eps(preset: str, first_seed: int = 0) -> pd.DataFrame:
    """Where the FFT form fits best, stored or computed here.

    Returns
    -------
    DataFrame
        setting (a number), learning_rate, weight_decay, start; the columns of :func:`fitted`.
    """
    parts = []
    for number, run in enumerate(settings(preset, first_seed)):
        fields = {"setting": number, "learning_rate": run.learning_rate, "weight_decay": run.weight_decay}
        own = table_of(fitted.cell(EpsRun(run))).assign(**fields, start=run.shape.start)
        parts.append(own[[*fields, "start", "seed", "eps", "cosine", "range", "at_end"]])
    return pd.concat(parts, ignore_index=True)


def agreement(values: np.ndarray, groups: np.ndarray) -> tuple[float, float, float]:
    """Share of variance that groups of equal size explain beyond chance, and its 95% interval.

    The intraclass correlation of a one-way layout: 0 where groups are dealt at random, and below 0 where they
    differ by less than chance. Its interval is exact where groups and members scatter normally.

    Source
    ------
    Shrout and Fleiss (1979), ICC(1, 1).
    """
    _, places = np.unique(groups, return_inverse=True)
    n_groups, size = places.max() + 1, len(values) / (places.max() + 1)
    between = values - values.mean()
    of_groups = np.bincount(places, values) / size
    within = float(((values - of_groups[places]) ** 2).sum()) / (len(values) - n_groups)
    if within == 0:
        return (1.0,) * 3 if (between != 0).any() else (0.0,) * 3
    ratio = float(((of_groups - values.mean()) ** 2).sum()) * size / (n_groups - 1) / within
    freedom = n_groups - 1, len(values) - n_groups
    ends = (ratio / stats.f.ppf(level, *freedom) for level in (0.975, 0.5, 0.025))
    low, _, high = ((end - 1) / (end + size - 1) for end in ends)
    return (ratio - 1) / (ratio + size - 1), float(low), float(high)


def _dealt_agreement(values: np.ndarray, groups: np.ndarray, *, seed: int = 0) -> float:
    """95th percentile of it when values are dealt to groups at random."""
    rng = np.random.default_rng(seed)
    return float(np.quantile([agreement(rng.permutation(values), groups)[0] for _ in range(N_DEALS)], 0.95))


def _fresh(preset: str) -> dict[str, Finding]:
    table = best_eps(preset, FRESH)
    logs, groups = np.log(table["eps"].to_numpy()), table["setting"].to_numpy()
    value, low, high = agreement(logs, groups)
    found = Finding(
        value,
        low,
        high,
        n_seeds=len(table),
        controls={"dealt": _dealt_agreement(logs, groups)},
        corpus=models.main(preset).text.corpus,
        repeats="models",
    )
    return {"agreement": found}


def _open_eps(preset: str) -> dict[str, Finding]:
    table = best_eps(preset)
    corpus = models.main(preset).text.corpus
    repeats = f"sets of {len(table)} models"
    return {"flat": findings.once(table["range"].median(), repeats=repeats, corpus=corpus)}


def _cells(preset: str) -> list[Cell]:
    return [fitted.cell(EpsRun(run)) for run in settings(preset)]


def fresh_cells(preset: str) -> list[Cell]:
    """The same settings on seeds that judge."""
    return [fitted.cell(EpsRun(run)) for run in settings(preset, FRESH)]


STUDIES: dict[str, Study] = {"kernel.open_eps": Study(_cells, _open_eps, parts=(Part(fresh_cells, _fresh),))}
