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
from book.kernel.minigpt import BiasedGPTConfig, MiniGPTConfig
from book.ledger import findings
from book.ledger.cells import Cell, experiment, table_of
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
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
FREE_DIM = 128  # at least as many dimensions as words: W can be c I
FREE_SEEDS = range(310, 313)  # fresh ones
VECTOR_EPOCHS = {"quick": 5, "laptop": 100, "paper": 100}


@dataclass(frozen=True)
class FrozenRuns:
    """All kinds for one seed: `run` has that seed alone."""

    run: KernelRun
    n_scores: int = 20  # of the held-out text, beside the one before the first update


@dataclass(frozen=True)
class FewFrozenRuns(FrozenRuns):
    """The learning model, orthogonal rows and the control alone."""

    kinds: tuple[str, ...] = (ORTHOGONAL, NARROW)


@experiment("kernel.frozen")
def frozen(config: FrozenRuns) -> pd.DataFrame:
    """Train a model whose embedding learns, then the others, or some of them, with its norm.

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
    kinds = config.kinds if isinstance(config, FewFrozenRuns) else KINDS
    for kind, made in frozen_embeddings(learned, rng).items():
        if kind in kinds:
            parts.append(_train(config, made)[0].assign(kind=kind))
    table = pd.concat(parts, ignore_index=True).assign(seed=np.int16(member.seed))
    table["relation"] = relations(config.run.text, learned[None])[0]
    text = prepare(config.run).text
    table.attrs["data"] = {config.run.text.corpus: text.checksum}
    return table[["seed", "kind", "step", "held_out_loss", "relation"]]


def frozen_embeddings(learned: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Embeddings (V, D) by kind, each with the Frobenius norm of a learned one.

    Orthogonal columns are as near as D < V dimensions come to orthogonal words: W is a multiple of a
    projector, the matrix of that rank nearest to the identity. With D >= V the rows are orthogonal, and W is
    a multiple of the identity.
    """
    shape = learned.shape
    gaussian = rng.standard_normal(shape)
    narrow = (
        rng.standard_normal((shape[0], N_NARROW))
        @ np.linalg.qr(rng.standard_normal((shape[1], N_NARROW)))[0].T
    )
    tall = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))[0]
    made = {
        ORTHOGONAL: tall if shape[0] >= shape[1] else tall.T,
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


def free_runs(preset: str) -> list[FewFrozenRuns]:
    """The same with an output bias and at least as many dimensions as words, on fresh seeds."""
    own = []
    for run, seed in zip(runs(preset), FREE_SEEDS, strict=False):
        shape = BiasedGPTConfig(**dataclasses.asdict(run.shape) | {"embedding_dim": FREE_DIM})
        own.append(FewFrozenRuns(dataclasses.replace(run, shape=shape, first_seed=seed)))
    return own


def losses(preset: str) -> pd.DataFrame:
    """Of all seeds, stored or trained here; see :func:`frozen`."""
    return pd.concat([table_of(frozen.cell(FrozenRuns(run))) for run in runs(preset)], ignore_index=True)


def free_losses(preset: str) -> pd.DataFrame:
    """Of :func:`free_runs`, stored or trained here."""
    return pd.concat([table_of(frozen.cell(one)) for one in free_runs(preset)], ignore_index=True)


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


def _relation(preset: str, table: pd.DataFrame) -> Finding:
    """Of learned embeddings, beside the value of word vectors."""
    text = runs(preset)[0].text
    of_pmi = pmi(load_counts(counted.cell(CountedText(text))).pairs)
    of_vectors = off_diagonal_correlations(
        np.stack([word_vectors.products(cell) for cell in _vectors(preset)]), of_pmi
    )
    relation = table.groupby("seed")["relation"].first().to_numpy()
    controls = {"word_vectors": float(of_vectors.mean())}
    return models.of_cosines(relation, controls=controls, corpus=text.corpus)


def _free(preset: str) -> dict[str, Finding]:
    table, corpus = free_losses(preset), runs(preset)[0].text.corpus
    controls = {"narrow": float(lost(table, NARROW).mean())}
    return {
        "lost_free": findings.over_seeds(lost(table, ORTHOGONAL), controls=controls, corpus=corpus),
        "relation_free": _relation(preset, table),
    }


def _cells(preset: str) -> list[Cell]:
    return [frozen.cell(FrozenRuns(run)) for run in runs(preset)]


def _free_cells(preset: str) -> list[Cell]:
    text = runs(preset)[0].text
    own = [frozen.cell(one) for one in free_runs(preset)]
    return [counted.cell(CountedText(text)), *own, *_vectors(preset)]


STUDIES: dict[str, Study] = {"kernel.attention": Study(_free_cells, _free, beside=_cells)}
