"""Whether a model learns sooner from embeddings computed from its text (kernel paper, section 7.1)."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch

from book.kernel import theory
from book.kernel.experiments import models
from book.kernel.experiments.runs import KernelRun, Session, prepare
from book.kernel.experiments.texts import TextReading
from book.kernel.experiments.word_vectors import VectorsRun, word_vectors
from book.kernel.minigpt import MiniGPTConfig
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Study
from embviz import kernels
from embviz.words.cooccurrence import count_pairs, pmi
from embviz.words.wordvectors import factorize_pmi

Beginning = Literal["random", "derived", "derived, FFT form", "permuted", "log counts", "PMI", "skip-gram"]
LARGE_BEGINNINGS: tuple[Beginning, ...] = (
    "random",
    "derived",
    "permuted",
    "log counts",
    "PMI",
    "skip-gram",
)
N_EPOCHS = 60
TARGET = 3  # the loss to reach is the random start's after one of so many parts of its steps
# a start that needs all steps takes TARGET times what the random one needs
of_savings = functools.partial(findings.over_seeds, within=(100.0 * (1 - TARGET), 100.0))


@dataclass(frozen=True)
class StartRun:
    """A run that begins with embeddings of a kind; all else, batches included, is the random start's."""

    run: KernelRun
    beginning: Beginning = "random"
    n_scores: int = 60  # beside the one before the first update

    def __post_init__(self) -> None:
        if self.beginning not in get_args(Beginning):
            known = ", ".join(get_args(Beginning))
            raise ValueError(f"beginning is {self.beginning!r}: choose one of {known}")


@experiment("kernel.starts")
def started(config: StartRun) -> pd.DataFrame:
    """Train from such embeddings and score the held-out text on the way.

    Returns
    -------
    DataFrame
        seed, step, held_out_loss (nats).
    """
    plain = prepare(config.run)
    session = prepare(config.run, embeddings=beginnings(plain, config.beginning))
    every = max(1, session.n_steps // config.n_scores)
    seeds = [member.seed for member in config.run.members]
    rows = [
        pd.DataFrame({"step": snapshot.step, "seed": seeds, **snapshot.metrics})
        for snapshot in session.snapshots(
            every, measure=lambda step: {"held_out_loss": session.held_out_losses().tolist()}
        )
    ]
    table = pd.concat(rows, ignore_index=True)[["seed", "step", "held_out_loss"]]
    table = table.astype({"seed": np.int16, "step": np.int32, "held_out_loss": np.float32})
    table.attrs["data"] = {config.run.text.corpus: session.text.checksum}
    return table


def beginnings(session: Session, kind: Beginning) -> torch.Tensor:
    """Embeddings (R, V, D) of a kind, each with the norm of the random ones it replaces.

    Symbols that the training text doesn't have keep their random rows.
    """
    random = session.model.embedding.detach().clone()
    if kind == "random":
        return random
    text, dim = session.text, session.config.shape.embedding_dim
    met = np.flatnonzero(text.counts)
    made = random.numpy().astype(np.float64)
    for index, member in enumerate(session.config.members):
        own = _embeddings(session, kind, met, dim, member.seed)
        norm = np.linalg.norm(made[index, met])
        made[index, met] = own * norm / np.linalg.norm(own)
    return torch.from_numpy(made).float()


def _embeddings(session: Session, kind: Beginning, met: np.ndarray, dim: int, seed: int) -> np.ndarray:
    """Embeddings (n, D) of the symbols `met` (n,), as their method leaves them."""
    text = session.text
    if kind == "skip-gram":
        table = word_vectors.function(VectorsRun(session.config.text, dim, seed))
        rows: np.ndarray = table["word"].to_numpy(dtype=float).reshape(-1, dim)[met]
        return rows
    rank = np.zeros(len(text.counts), dtype=np.int64)
    rank[met] = np.arange(len(met))
    ids = rank[text.ids]
    if kind in ("derived", "derived, FFT form", "permuted"):
        form: theory.Form = "fft" if kind == "derived, FFT form" else "eigen"
        E = theory.training_free_embeddings(ids, len(met), min(dim, len(met)), form=form)
        if kind == "permuted":
            E = E[np.random.default_rng(seed).permutation(len(E))]
    else:
        counts = count_pairs(ids, len(met), window=5)
        matrix = kernels.log_counts(counts) if kind == "log counts" else pmi(counts.toarray())
        E = factorize_pmi(matrix, min(dim, len(met) - 1), seed=0).word.astype(float)
    return np.pad(E, ((0, 0), (0, dim - E.shape[1])))


# --- which, and what they save --------------------------------------------------------------------------


def small(preset: str) -> KernelRun:
    """Models of the main reading, for fewer epochs: what a start saves, it saves early."""
    run = models.main(preset)
    return dataclasses.replace(run, n_epochs=min(run.n_epochs, N_EPOCHS), keep_all=False)


def large(preset: str) -> KernelRun:
    """Models of 5,000 words, others dropped; a start of the main reading's kind."""
    run = models.main(preset)
    if preset == "quick":
        text = dataclasses.replace(run.text, vocab_size=60, n_tokens=3_000)
        return dataclasses.replace(run, text=text, keep_all=False)
    text = TextReading("enwiki2018", vocab_size=5_000, n_tokens=500_000)
    shape = MiniGPTConfig(5_000, start=run.shape.start)
    return KernelRun(text, shape, n_epochs=6, n_seeds=2)


def cell_of(run: KernelRun, beginning: Beginning) -> Cell:
    """Its cell."""
    return started.cell(StartRun(run, beginning, 12 if run.text.corpus == "embedded" else 60))


def curves(run: KernelRun, kinds: tuple[Beginning, ...]) -> pd.DataFrame:
    """Held-out losses: beginning, seed, step, held_out_loss; stored or computed here."""
    return pd.concat(
        [table_of(cell_of(run, kind)).assign(beginning=kind) for kind in kinds], ignore_index=True
    )


def savings(table: pd.DataFrame, kind: str) -> np.ndarray:
    """Steps saved, in percent of a third of the random start's, (R,): to its own loss after that third.

    A start that never gets there counts as one that needs all its steps.
    """
    found = []
    for _, own in table.groupby("seed"):
        random, other = (own[own["beginning"] == name] for name in ("random", kind))
        budget = random["step"].max() / TARGET
        target = float(np.interp(budget, random["step"], random["held_out_loss"]))
        found.append(100 * (1 - steps_to(other, target) / budget))
    return np.array(found)


def steps_to(curve: pd.DataFrame, target: float) -> float:
    """The step at which a curve first reaches a loss, between scores by a straight line; or its last."""
    steps, losses = curve["step"].to_numpy(dtype=float), curve["held_out_loss"].to_numpy(dtype=float)
    reached = np.flatnonzero(losses <= target)
    if not len(reached):
        return float(steps[-1])
    first = int(reached[0])
    if first == 0:
        return float(steps[0])
    share = (losses[first - 1] - target) / (losses[first - 1] - losses[first])
    return float(steps[first - 1] + share * (steps[first] - steps[first - 1]))


def _initialization(preset: str) -> dict[str, Finding]:
    run = small(preset)
    table = curves(run, get_args(Beginning))
    controls = {"permuted": float(savings(table, "permuted").mean())}
    own = savings(table, "derived")
    return {"saving": of_savings(own, controls=controls, corpus=run.text.corpus)}


def cells(preset: str) -> list[Cell]:
    """All beginnings of small models, then of large ones."""
    return [cell_of(small(preset), kind) for kind in get_args(Beginning)] + [
        cell_of(large(preset), kind) for kind in LARGE_BEGINNINGS
    ]


STUDIES: dict[str, Study] = {"kernel.initialization": Study(cells, _initialization)}
