"""The front page's skip-gram model while it learns, and how often its words occur near each other.

The chapter *Embeddings in 15 minutes* shows the vectors of some words before, during and after training, and
compares inner products with PMI.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd

from book.front import vectors as front
from book.front.vectors import FrontVectors
from book.ledger.cells import Cell, experiment
from book.ledger.stored import load_runs
from embviz.corpora.corpus import Corpus
from embviz.words.cooccurrence import count_pairs
from embviz.words.skipgram import SGNSConfig, State, train_sgns

# The words that are shown, by kind. All are frequent in Wikipedia; a shorter text may lack some.
KINDS = {
    "month": """january february march april may june july august september october november december""",
    "place": """england france germany italy spain russia china japan india america europe africa asia
        australia canada ireland scotland greece rome london paris israel egypt california britain""",
    "person": """king queen prince emperor pope president father mother son daughter wife brother man woman
        men women children family author god""",
    "nature": """water air earth sea river island lake mountain sun moon light energy space mass gas oil iron
        gold heat ice fire oxygen hydrogen metal plant plants animals species human""",
    "art": """music film films book books novel album band song songs rock literature theatre art television
        radio series""",
}


@dataclasses.dataclass(frozen=True)
class WordsWhileTraining:
    """A training of the front page, whose words are looked at on the way."""

    model: FrontVectors
    words_read: tuple[int, ...]  # a snapshot at the first block after each; 0 is before training


@experiment("front.training")
def training(config: WordsWhileTraining) -> pd.DataFrame:
    """Train as :func:`book.front.vectors.word_vectors` does, and keep the words' vectors on the way.

    Returns
    -------
    DataFrame
        A row for each snapshot and word: words_read, word, scale, and the coordinates in a byte each.
    """
    corpus, rows, checksum = _text(config.model)
    schedule = front.training_config(config.model)
    snapshots = {0: _untrained(corpus, schedule)}
    wanted = [place for place in config.words_read if place]

    def keep(state: State) -> None:
        n_read = int(state["stream"][1])
        if wanted and n_read >= wanted[0]:
            snapshots[wanted.pop(0)] = state["word"].copy()

    end = train_sgns(corpus, schedule, keep=lambda state: keep(state()))
    for place in wanted:  # more than there is to read: the end
        snapshots[place] = end.word
    words = [corpus.vocabulary[row] for row in rows]
    parts = [
        front.in_bytes(table[rows]).assign(word=words, words_read=place) for place, table in snapshots.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs["data"] = {config.model.corpus: checksum}
    return table


@experiment("front.pairs")
def pairs(model: FrontVectors) -> pd.DataFrame:
    """Count the words' pairs as skip-gram sees them: in a window that is drawn, frequent words thinned out.

    Returns
    -------
    DataFrame
        A row for each pair of words that occurs: word, context, count; and with an empty context the count
        of the word with all contexts, with both empty that of all pairs.
    """
    corpus, rows, checksum = _text(model)
    schedule = front.training_config(model)
    counts = count_pairs(
        corpus.ids,
        len(corpus.vocabulary),
        window=schedule.window,
        document_starts=corpus.document_starts,
        dynamic=True,
        subsample=schedule.subsample,
        seed=model.seed,
    )
    words = np.array([corpus.vocabulary[row] for row in rows])
    inside = counts[rows][:, rows].tocoo()
    first, second = inside.coords
    sums = counts.sum(axis=1)
    table = pd.DataFrame(
        {
            "word": [*words[first], *words, ""],
            "context": [*words[second], *([""] * (len(words) + 1))],
            "count": np.concatenate([inside.data, sums[rows], [sums.sum()]]),
        }
    )
    table.attrs["data"] = {model.corpus: checksum}
    return table


def _text(model: FrontVectors) -> tuple[Corpus, np.ndarray, str]:
    """The text as the model reads it, the ids of the words that are shown, and the text's checksum."""
    corpus, rows, checksum = front.text_of(model)
    shown = set(" ".join(KINDS.values()).split())
    return corpus, np.array([row for row in rows if corpus.vocabulary[row] in shown]), checksum


def _untrained(corpus: Corpus, config: SGNSConfig) -> np.ndarray:
    """The word vectors from which the training starts: those after some steps of length 0."""
    still = dataclasses.replace(config.schedule, n_epochs=1, learning_rate=0.0)
    few = SimpleNamespace(
        ids=corpus.ids[:1_000],
        vocabulary=corpus.vocabulary,
        counts=corpus.counts,
        document_starts=np.zeros(1, np.int64),
    )
    return train_sgns(few, dataclasses.replace(config, schedule=still)).word


def training_cells(preset: str) -> list[Cell]:
    """The text's training and the shuffled text's, of the models of the front page."""
    read = (
        (0, 10_000, 50_000)
        if preset == "quick"
        else (0, 300_000, 1_000_000, 3_000_000, 10_000_000, 48_000_000)
    )
    models = [cell.config for cell in front.vector_cells(preset)]
    return [training.cell(WordsWhileTraining(model, read)) for model in models]


def pair_cells(preset: str) -> list[Cell]:
    """The pairs of the same two texts."""
    return [pairs.cell(cell.config) for cell in front.vector_cells(preset)]


class Counted(NamedTuple):
    """How often the shown words occur near each other, as skip-gram draws its pairs."""

    words: list[str]
    pairs: np.ndarray  # (V, V), of two words
    alone: np.ndarray  # (V,), of a word with any other of the text's vocabulary
    total: float  # of all pairs of the text


def counted(*, shuffled: bool) -> Counted:
    """The stored counts of the text or of the same tokens in random order."""
    table = load_runs("front.pairs", shuffled=shuffled)
    alone = table[(table["context"] == "") & (table["word"] != "")]
    words = alone["word"].tolist()
    square = table[table["context"] != ""].pivot(index="word", columns="context", values="count")
    square = square.reindex(index=words, columns=words).fillna(0)
    return Counted(words, square.to_numpy(), alone["count"].to_numpy(), float(table["count"].iloc[-1]))


def snapshots(*, shuffled: bool) -> dict[int, np.ndarray]:
    """The stored vectors of the shown words, (V, D), in the order of :func:`counted`, by words read."""
    table = load_runs("front.training", shuffled=shuffled)
    places = table["words_read"].unique().tolist()
    return {place: front.coordinates(table[table["words_read"] == place]) for place in places}


def kinds(words: list[str]) -> list[str]:
    """The kind of each shown word."""
    kind = {word: name for name, shown in KINDS.items() for word in shown.split()}
    return [kind[word] for word in words]
