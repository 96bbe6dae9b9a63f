"""Whether training makes tied embeddings orthogonal, and what tells how far it has come (section 7)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from book.kernel import theory
from book.kernel.experiments import models
from book.kernel.experiments.extracted import off_diagonal
from book.kernel.experiments.fits import cosines
from book.kernel.experiments.models import Trained
from book.kernel.experiments.texts import TextReading, load
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from embviz import kernels
from embviz.words.cooccurrence import count_pairs

PLAIN = ("train_loss", "weight_norm", "update_norm")  # diagnostics that need no text beside the training's


def mean_cosines(embeddings: np.ndarray) -> np.ndarray:
    """Mean |cosine| of distinct words of embeddings (..., V, D), shape (...)."""
    unit = embeddings / np.linalg.norm(embeddings, axis=-1, keepdims=True)
    means: np.ndarray = np.abs(off_diagonal(models.gram(unit))).mean(-1)
    return means


def expected_cosine(dim: int) -> float:
    """Mean |cosine| of random directions, for large D: sqrt(2 / (pi D))."""
    return math.sqrt(2 / (math.pi * dim))


def diagonal_shares(embeddings: np.ndarray) -> np.ndarray:
    """Share of |W|_F on the diagonal of W = E E', shape (...)."""
    W = models.gram(embeddings)
    shares: np.ndarray = np.linalg.norm(np.diagonal(W, axis1=-2, axis2=-1), axis=-1) / np.linalg.norm(
        W, axis=(-2, -1)
    )
    return shares


def rank_correlations(path: pd.DataFrame, diagnostic: str, loss: str = "held_out_loss") -> np.ndarray:
    """Spearman's rho of a diagnostic with a loss over snapshots after the first, a seed each."""
    return np.array(
        [
            _rho(own[diagnostic].to_numpy(), own[loss].to_numpy())
            for _, own in path[path["step"] > 0].groupby("seed")
        ]
    )


def _rho(x: np.ndarray, y: np.ndarray) -> float:
    return 0.0 if np.ptp(x) == 0 or np.ptp(y) == 0 else float(stats.spearmanr(x, y).statistic)


# --- the paper's one model out of sample ------------------------------------------------------------


@dataclass(frozen=True)
class UntrainedModels:
    """Embeddings that were never trained, of the size of the paper's PhotonicGPT."""

    text: TextReading
    embedding_dim: int
    n_draws: int


@experiment("kernel.untrained", threads=2)
def untrained(config: UntrainedModels) -> pd.DataFrame:
    """Cosines of the extracted first row of random embeddings with what formulas give for a text.

    Returns
    -------
    DataFrame
        One row per draw: draw, fft and eigen (k0 at epsilon 0.003 in both forms) and identity, that of the
        identity matrix. Zeros of fft2(D) are replaced as the listing does.
    """
    text = load(config.text)
    D = kernels.log_counts(count_pairs(text.ids, len(text.vocabulary), window=5))
    spectrum = theory.decompose(D)
    rows = {
        "fft": theory.k0_fft(spectrum, safe=theory.SAFE),
        "eigen": theory.k0_eigen(spectrum),
        "identity": theory.row_identity(spectrum, safe=theory.SAFE),
    }
    found = []
    for draw in range(config.n_draws):
        E = np.random.default_rng(draw).standard_normal((len(D), config.embedding_dim))
        k0 = theory.deconvolved_row(models.gram(E), spectrum, safe=theory.SAFE)
        found.append({"draw": draw} | {name: float(cosines(row, k0)) for name, row in rows.items()})
    table = pd.DataFrame(found)
    table.attrs["data"] = {config.text.corpus: text.checksum}
    return table


def untrained_cell(preset: str) -> Cell:
    """Of the paper's size, or a small one."""
    if preset != "quick":
        return untrained.cell(UntrainedModels(TextReading(vocab_size=15_007, n_tokens=2_000_000), 256, 10))
    text = dataclasses.replace(models.main("quick").text, vocab_size=60, n_tokens=3_000)
    return untrained.cell(UntrainedModels(text, 16, 4))


# --- claims -----------------------------------------------------------------------------------------


def ends(trained: Trained) -> dict[str, Finding]:
    """How orthogonal models are after training, beside themselves before it."""
    expected = expected_cosine(trained.embedding_dim)
    first, last = mean_cosines(trained.first), mean_cosines(trained.last)
    before = {
        "ratio": float(first.mean() / expected),
        "diagonal": float(diagonal_shares(trained.first).mean()),
    }
    ratio = findings.over_seeds(
        last / expected, controls={"untrained": before["ratio"]}, corpus=trained.corpus
    )
    diagonal = models.of_cosines(
        diagonal_shares(trained.last), controls={"untrained": before["diagonal"]}, corpus=trained.corpus
    )
    change = findings.over_seeds(last / first, corpus=trained.corpus)
    return {"ratio": ratio, "diagonal": diagonal, "change": change}


def of_gauge(path: pd.DataFrame, corpus: str) -> dict[str, Finding]:
    """What section 7.2 says, of measures at each snapshot: seed, step, k0_fft, losses and norms."""
    ends = {
        name: path[path["step"] == step]["k0_fft"].to_numpy()
        for name, step in (("early", path["step"].min()), ("converged", path["step"].max()))
    }
    own = rank_correlations(path, "k0_fft")
    plain = {name: rank_correlations(path, name) for name in PLAIN}
    advantage = np.abs(own) - np.max([np.abs(values) for values in plain.values()], axis=0)
    # nearer to the held-out loss is better whichever way a diagnostic runs
    controls = {"update_norm": -float(np.abs(plain["update_norm"]).mean())}
    ends["weight_norm"] = plain["weight_norm"]
    found = {name: models.of_cosines(values, corpus=corpus) for name, values in ends.items()}
    return found | {
        "correlation": models.of_cosines(own, controls=controls, corpus=corpus),
        "advantage": models.of_cosines(advantage, corpus=corpus),
    }


def out_of_sample(preset: str) -> dict[str, Finding]:
    cell = untrained_cell(preset)
    table, corpus = table_of(cell), cell.config.text.corpus
    names = {"photonic": "fft", "photonic_eigen": "eigen", "photonic_identity": "identity"}
    return {
        name: models.of_cosines(table[column].to_numpy(), repeats="draws of an embedding", corpus=corpus)
        for name, column in names.items()
    }
