"""Whether the best epsilon follows from learning rate, weight decay and initial spread (an open question)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.kernel.experiments import models
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import STARTS, KernelRun
from book.kernel.experiments.runs import prepare
from embviz import kernels
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, table_of
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study
from embviz.words.cooccurrence import count_pairs

RATES = (1e-4, 3e-4, 1e-3)
DECAYS = (0.0, 0.1)
N_SEEDS = 3
N_EPOCHS = 100
EPS = np.geomspace(1e-4, 0.5, 200)
N_DEALS = 1_000


def settings(preset: str) -> list[KernelRun]:
    """Every combination of the three, with the main reading's text."""
    run = models.main(preset)
    n_seeds = run.n_seeds if preset == "quick" else N_SEEDS
    rates = RATES[1:] if preset == "quick" else RATES
    return [
        dataclasses.replace(
            run,
            shape=dataclasses.replace(run.shape, start=start),
            learning_rate=rate,
            weight_decay=decay,
            n_epochs=min(run.n_epochs, N_EPOCHS),
            n_seeds=n_seeds,
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
        A row a seed: seed, eps (of the largest cosine), cosine (at it), range (largest less smallest cosine
        over all epsilons), at_end (whether it is the first or the last that was tried).
    """
    session = prepare(config.run)
    for _ in session.snapshots(session.n_steps):
        pass
    text = session.text
    counts = count_pairs(text.ids, len(text.vocabulary), window=5).toarray()
    met = counts.any(axis=1)  # a symbol that the text doesn't have has no row in D
    spectrum = kernels.decompose(kernels.log_counts(counts[np.ix_(met, met)]))
    embeddings = session.model.embedding.detach().double().cpu().numpy()[:, met]
    k0 = kernels.extract_kernel(models.gram(embeddings), spectrum, zeros="drop").k0
    found = cosines(kernels.alpha_scan(spectrum, EPS)[:, None], k0[None])  # (n, R)
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


def best_eps(preset: str) -> pd.DataFrame:
    """Where the FFT form fits best, stored or computed here.

    Returns
    -------
    DataFrame
        setting (a number), learning_rate, weight_decay, start; the columns of :func:`fitted`.
    """
    parts = []
    for number, run in enumerate(settings(preset)):
        fields = {"setting": number, "learning_rate": run.learning_rate, "weight_decay": run.weight_decay}
        own = table_of(fitted.cell(EpsRun(run))).assign(**fields, start=run.shape.start)
        parts.append(own[[*fields, "start", "seed", "eps", "cosine", "range", "at_end"]])
    return pd.concat(parts, ignore_index=True)


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """Share of the variance of values (n,) that lies between groups (n,); 0 if there is none at all."""
    deviations = values - values.mean()
    total = float((deviations**2).sum())
    if total == 0:
        return 0.0
    sums, sizes = np.bincount(groups, deviations), np.bincount(groups)
    return float((sums**2 / np.maximum(sizes, 1)).sum() / total)


def dealt(values: np.ndarray, groups: np.ndarray, *, seed: int = 0) -> float:
    """95th percentile of the share when values are dealt to groups at random."""
    rng = np.random.default_rng(seed)
    return float(np.quantile([explained(rng.permutation(values), groups) for _ in range(N_DEALS)], 0.95))


def _open_eps(preset: str) -> dict[str, Finding]:
    table = best_eps(preset)
    corpus = models.main(preset).text.corpus
    logs, groups = np.log(table["eps"].to_numpy()), table["setting"].to_numpy()
    share = explained(logs, groups)
    together = functools.partial(findings.once, repeats=f"sets of {len(table)} models", corpus=corpus)
    return {
        "explained": together(share, nulls={"dealt": dealt(logs, groups)}),
        "flat": together(table["range"].median()),
        "bound": together(table["at_end"].mean()),
    }


def _cells(preset: str) -> list[Cell]:
    return [fitted.cell(EpsRun(run)) for run in settings(preset)]


STUDIES: dict[str, Study] = {"kernel.open_eps": Study(_cells, _open_eps)}
