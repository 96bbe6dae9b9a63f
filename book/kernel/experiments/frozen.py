"""Whether anything is lost where embeddings can't learn: are all relations in attention (section 7.3)?

Models whose tied embedding is frozen from the first update stand beside one whose embedding learns. All
share seed, batches and every other weight, and all embeddings have the norm of the one that was learned.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from book.kernel.experiments import models, word_vectors
from book.kernel.experiments.counts import CountedText, counted, load_counts
from book.kernel.experiments.fits import off_diagonal_correlations
from book.kernel.experiments.runs import KernelRun, prepare
from book.kernel.experiments.texts import TextReading
from book.kernel.experiments.word_vectors import VectorsRun
from book.kernel.minigpt import MiniGPTConfig
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, table_of
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study
from embviz.words.cooccurrence import pmi

LEARNED, ORTHOGONAL, GAUSSIAN, NARROW, GIVEN, EXCHANGED = KINDS = (
    "learned",
    "frozen, orthogonal columns",
    "frozen, Gaussian",
    "frozen, eight dimensions",
    "frozen, learned before",
    "frozen, learned before, rows exchanged",
)
N_NARROW = 8  # dimensions in which 100 words can't keep apart: what a loss would look like
N_SEEDS, FIRST_SEED = 5, 300
VECTOR_EPOCHS = {"quick": 5, "laptop": 100, "paper": 100}


@dataclass(frozen=True)
class FrozenRuns:
    """All kinds for one seed: `run` has that seed alone."""

    run: KernelRun
    n_scores: int = 20  # of the held-out text, beside the one before the first update


@experiment("kernel.frozen")
def frozen(config: FrozenRuns) -> pd.DataFrame:
    """Train a model whose embedding learns, then the others with its norm.

    Returns
    -------
    DataFrame
        seed, kind, step, held_out_loss (nats); relation: of the learned embedding's products off the diagonal
        with PMI, Pearson's correlation after the last update, the same number in each row.
    """
    (member,) = config.run.members
    rng = np.random.default_rng([member.seed, 1])
    losses, learned = _train(config, None)
    parts = [losses.assign(kind=LEARNED)]
    for kind, made in frozen_embeddings(learned, rng).items():
        parts.append(_train(config, made)[0].assign(kind=kind))
    table = pd.concat(parts, ignore_index=True).assign(seed=np.int16(member.seed))
    table["relation"] = relations(config.run.text, learned[None])[0]
    text = prepare(config.run).text
    table.attrs["data"] = {config.run.text.corpus: text.checksum}
    return table[["seed", "kind", "step", "held_out_loss", "relation"]]


def frozen_embeddings(learned: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Embeddings (V, D) by kind, each with the Frobenius norm of a learned one.

    Orthogonal columns are as near as D < V dimensions come to orthogonal words: W is a multiple of a
    projector, the matrix of that rank nearest to the identity.
    """
    shape = learned.shape
    gaussian = rng.standard_normal(shape)
    narrow = (
        rng.standard_normal((shape[0], N_NARROW))
        @ np.linalg.qr(rng.standard_normal((shape[1], N_NARROW)))[0].T
    )
    made = {
        ORTHOGONAL: np.linalg.qr(rng.standard_normal(shape))[0],
        GAUSSIAN: gaussian,
        NARROW: narrow,
        GIVEN: learned,
        EXCHANGED: learned[rng.permutation(shape[0])],
    }
    norm = np.linalg.norm(learned)
    return {kind: own * norm / np.linalg.norm(own) for kind, own in made.items()}


def _train(config: FrozenRuns, embedding: np.ndarray | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Held-out losses by step, and the embedding (V, D) at the end; a given embedding is frozen."""
    given = None if embedding is None else torch.from_numpy(embedding).float()[None]
    session = prepare(config.run, embeddings=given)
    if given is not None:
        session.model.embedding.requires_grad_(False)
    rows = [
        (snapshot.step, *np.ravel(snapshot.metrics["held_out_loss"]))
        for snapshot in session.snapshots(
            max(1, session.n_steps // config.n_scores),
            measure=lambda step: {"held_out_loss": session.held_out_losses().tolist()},
        )
    ]
    table = pd.DataFrame(rows, columns=["step", "held_out_loss"])
    return table, session.model.embedding.detach().double().cpu().numpy()[0]


def relations(text: TextReading, embeddings: np.ndarray) -> np.ndarray:
    """Correlation of products of embeddings (R, V, D) with the text's PMI, off the diagonal, (R,)."""
    counts = load_counts(counted.cell(CountedText(text)))
    return off_diagonal_correlations(models.gram(embeddings), pmi(counts.pairs))


# --- claims -----------------------------------------------------------------------------------------


def runs(preset: str) -> list[KernelRun]:
    """A seed each, on words, in small batches for many updates."""
    if preset == "quick":
        base = dataclasses.replace(models.main("quick"), n_epochs=3, keep_all=False)
        return [dataclasses.replace(base, n_seeds=1, first_seed=seed) for seed in range(base.n_seeds)]
    text = TextReading(n_tokens=50_000)
    shape = MiniGPTConfig(text.vocab_size, start="small")
    seeds = range(FIRST_SEED, FIRST_SEED + N_SEEDS)
    return [KernelRun(text, shape, n_epochs=30, batch_size=8, n_seeds=1, first_seed=seed) for seed in seeds]


def losses(preset: str) -> pd.DataFrame:
    """Of all seeds, stored or trained here; see :func:`frozen`."""
    return pd.concat([table_of(frozen.cell(FrozenRuns(run))) for run in runs(preset)], ignore_index=True)


def lost(table: pd.DataFrame, kind: str) -> np.ndarray:
    """Nats by which a kind's least held-out loss exceeds the learning model's, (R,)."""
    least = table.groupby(["seed", "kind"])["held_out_loss"].min().unstack()
    found: np.ndarray = (least[kind] - least[LEARNED]).to_numpy()
    return found


def _vectors(preset: str) -> list[Cell]:
    return [
        word_vectors.word_vectors.cell(
            VectorsRun(run.text, run.shape.embedding_dim, run.first_seed, VECTOR_EPOCHS[preset])
        )
        for run in runs(preset)
    ]


def _attention(preset: str) -> dict[str, Finding]:
    table, run = losses(preset), runs(preset)[0]
    of_pmi = pmi(load_counts(counted.cell(CountedText(run.text))).pairs)
    of_vectors = off_diagonal_correlations(
        np.stack([word_vectors.products(cell) for cell in _vectors(preset)]), of_pmi
    )
    corpus = run.text.corpus
    relation = table.groupby("seed")["relation"].first().to_numpy()
    names = {
        "lost_gaussian": GAUSSIAN,
        "lost_narrow": NARROW,
        "lost_given": GIVEN,
        "lost_exchanged": EXCHANGED,
    }
    controls = {"narrow": float(lost(table, NARROW).mean()), "gaussian": float(lost(table, GAUSSIAN).mean())}
    found = {name: findings.over_seeds(lost(table, kind), corpus=corpus) for name, kind in names.items()}
    return found | {
        "lost": findings.over_seeds(lost(table, ORTHOGONAL), controls=controls, corpus=corpus),
        "relation": models.of_cosines(
            relation, controls={"word_vectors": float(of_vectors.mean())}, corpus=corpus
        ),
    }


def _cells(preset: str) -> list[Cell]:
    text = runs(preset)[0].text
    return [
        counted.cell(CountedText(text)),
        *(frozen.cell(FrozenRuns(run)) for run in runs(preset)),
        *_vectors(preset),
    ]


STUDIES: dict[str, Study] = {"kernel.attention": Study(_cells, _attention)}
