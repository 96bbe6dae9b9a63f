"""Skip-gram vectors for the front page: of a text, and of the same tokens in random order.

The shuffled text has the same word counts and no context, so whatever its vectors show is no geometry of
the language.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import orthogonal_procrustes

from book.ledger.cells import Cell, experiment, table_of
from book.ledger.stored import load_runs
from embviz.corpora import corpus as corpora
from embviz.trajectories.traces import Layout, lay_out
from embviz.words.skipgram import SGNSConfig, SGNSSchedule, train_sgns
from embviz.words.spectra import shuffle_tokens

KINDS = ("word", "context")
HALF_SPAN = 5_000  # steps of a stored layout, from its middle
LEVELS = 127  # of a stored coordinate, to each side of 0


@dataclasses.dataclass(frozen=True)
class FrontVectors:
    """One free skip-gram model, of which the vectors of the most frequent longer words are kept."""

    corpus: str  # name in the registry
    shuffled: bool  # the control: tokens in random order
    n_words: int = 2_000  # kept
    min_letters: int = 3  # of a kept word: leaves out the letters that digits, initials and formulas leave
    embedding_dim: int = 100
    n_epochs: int = 3
    n_negative: int = 100  # shared by a batch of 16
    min_count: int = 20  # rarer words are dropped from the text
    seed: int = 0


@experiment("front.word_vectors")
def word_vectors(config: FrontVectors) -> pd.DataFrame:
    """Train, and keep each word's two vectors in a byte a number.

    Returns
    -------
    DataFrame
        A row for each word and kind ("word" or "context"): word, kind, count (tokens), scale, and the
        coordinates d000, d001, ... as whole numbers; times `scale` they are the vector's.
    """
    corpus, rows, checksum = text_of(config)
    vectors = train_sgns(corpus, training_config(config))
    words = {"word": [corpus.vocabulary[row] for row in rows], "count": corpus.counts[rows]}
    assert vectors.context is not None  # a free model has its own
    parts = [
        pd.DataFrame({**words, "kind": kind}).join(in_bytes(table[rows]))
        for kind, table in {"word": vectors.word, "context": vectors.context}.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {config.corpus: checksum}
    return table


def text_of(config: FrontVectors) -> tuple[corpora.Corpus, np.ndarray, str]:
    """The text as the model reads it, the ids of the words that are kept, and the text's checksum."""
    whole = corpora.load_corpus(config.corpus)
    corpus = whole.restrict(min_count=config.min_count, rare="drop")
    if config.shuffled:
        corpus = dataclasses.replace(corpus, ids=shuffle_tokens(corpus.ids, seed=config.seed))
    long = [row for row, word in enumerate(corpus.vocabulary) if len(word) >= config.min_letters]
    return corpus, np.array(long[: config.n_words]), whole.checksum


def training_config(config: FrontVectors) -> SGNSConfig:
    """How the vectors are trained."""
    return SGNSConfig(
        embedding_dim=config.embedding_dim,
        n_negative=config.n_negative,
        subsample=1e-4,  # keeps the text's 100 or so most frequent words from being most of the work
        schedule=SGNSSchedule(n_epochs=config.n_epochs),
        seed=config.seed,
    )


def in_bytes(vectors: np.ndarray) -> pd.DataFrame:
    """Vectors (V, D) as whole numbers in -127..127, with a scale a row."""
    scale = np.abs(vectors).max(axis=1) / LEVELS
    steps = np.rint(vectors / scale[:, None]).astype(np.int8)
    columns = [f"d{column:03d}" for column in range(vectors.shape[1])]
    return pd.DataFrame(steps, columns=columns).assign(scale=scale.astype(np.float32))


def vectors_of(table: pd.DataFrame, kind: str) -> np.ndarray:
    """The vectors of one kind, (V, D) float32, from a table of :func:`word_vectors`."""
    return coordinates(table[table["kind"] == kind])


def coordinates(rows: pd.DataFrame) -> np.ndarray:
    """The vectors, (V, D) float32, of rows that :func:`in_bytes` made."""
    steps = rows.filter(regex=r"^d\d+$").to_numpy(dtype=np.float32)
    vectors: np.ndarray = steps * rows["scale"].to_numpy(dtype=np.float32)[:, None]
    return vectors


class TwoEmbeddings(NamedTuple):
    """Word and context vectors of the same words, with their planes, as the front page shows them."""

    words: list[str]  # the most frequent first
    vectors: np.ndarray  # (2, V, D), words' and contexts'
    planes: np.ndarray  # (2, V, 2)


def two_embeddings(*, shuffled: bool) -> TwoEmbeddings:
    """The stored vectors of the text, or of the same tokens in random order."""
    layout = load_runs("front.layouts", shuffled=shuffled)
    table = load_runs("front.word_vectors", shuffled=shuffled)
    return TwoEmbeddings(
        table["word"][table["kind"] == KINDS[0]].tolist(),
        np.stack([vectors_of(table, kind) for kind in KINDS]),
        np.stack([layout.loc[layout["kind"] == kind, ["x", "y"]].to_numpy() for kind in KINDS]),
    )


def vector_cells(preset: str) -> list[Cell]:
    """The text's vectors and the shuffled text's: quick on the embedded corpus, else on Wikipedia."""
    if preset == "quick":
        text = FrontVectors("embedded", False, n_words=500, embedding_dim=50, n_epochs=1, n_negative=20)
    else:
        text = FrontVectors("enwiki2018", False)
    return [word_vectors.cell(dataclasses.replace(text, shuffled=control)) for control in (False, True)]


@dataclasses.dataclass(frozen=True)
class FrontLayout:
    """Both kinds of vectors of one model, each in a plane."""

    vectors: FrontVectors
    n_neighbors: int = 8  # pulled together by PyMDE; 15 or 30 keep fewer neighbours
    seed: int = 0


@experiment("front.layouts")
def layouts(config: FrontLayout) -> pd.DataFrame:
    """2-D layouts of the vectors' directions, by PyMDE; the context vectors' layout is rotated to the words'.

    Stored, since PyMDE's coordinates differ between processors.

    Returns
    -------
    DataFrame
        In the order of :func:`word_vectors`: kind, x and y in steps from -5,000 to 5,000.
    """
    table = table_of(word_vectors.cell(config.vectors))
    placed: dict[str, np.ndarray] = {}
    for kind in KINDS:
        vectors = vectors_of(table, kind).astype(float)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        points = lay_out(unit, Layout(n_neighbors=config.n_neighbors), seed=config.seed)
        points -= points.mean(axis=0)
        if placed:
            points = points @ orthogonal_procrustes(points, placed["word"])[0]
        placed[kind] = points
    parts = []
    for kind, points in placed.items():
        steps = np.rint(points * (HALF_SPAN / np.abs(points).max())).astype(np.int16)
        parts.append(pd.DataFrame({"kind": kind, "x": steps[:, 0], "y": steps[:, 1]}))
    result = pd.concat(parts, ignore_index=True)
    result.attrs["data"] = table.attrs.get("data", {})
    return result


def layout_cells(preset: str) -> list[Cell]:
    """The planes of :func:`vector_cells`."""
    return [layouts.cell(FrontLayout(cell.config)) for cell in vector_cells(preset)]
