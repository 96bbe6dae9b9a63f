"""Skip-gram vectors of the texts that the small models read: where PMI should fit, if it fits anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.kernel.experiments.texts import TextReading, load
from book.ledger.cells import Cell, experiment, table_of
from embviz.words.skipgram import SGNSConfig, SGNSSchedule, train_sgns


@dataclass(frozen=True)
class VectorsRun:
    """Skip-gram with negative sampling: word2vec's rate, more epochs, since the texts are short."""

    text: TextReading
    embedding_dim: int = 64
    seed: int = 0
    n_epochs: int = 100
    n_negative: int = 5

    @property
    def sgns(self) -> SGNSConfig:
        """No word is thinned out: with a hundred words all are frequent."""
        return SGNSConfig(
            embedding_dim=self.embedding_dim,
            n_negative=self.n_negative,
            unique_negatives=False,
            subsample=0.0,
            schedule=SGNSSchedule(n_epochs=self.n_epochs, batch_size=1, learning_rate=0.025),
            seed=self.seed,
        )


@dataclass(frozen=True, eq=False)
class _Words:
    """A text as skip-gram training reads it."""

    ids: np.ndarray
    vocabulary: list[str]
    counts: np.ndarray
    document_starts: np.ndarray


@experiment("kernel.word_vectors")
def word_vectors(config: VectorsRun) -> pd.DataFrame:
    """Train vectors on a text.

    Returns
    -------
    DataFrame
        word and context, float32: one row per coordinate, in the order of words; vocab_size.
    """
    text = load(config.text)
    vectors = train_sgns(
        _Words(text.ids, list(text.vocabulary), text.counts, text.document_starts), config.sgns
    )
    assert vectors.context is not None
    table = pd.DataFrame({"word": vectors.word.ravel(), "context": vectors.context.ravel()})
    table["vocab_size"] = np.int32(len(vectors.word))
    table.attrs["data"] = {config.text.corpus: text.checksum}
    return table


def products(cell: Cell) -> np.ndarray:
    """Products of word and context vectors, (V, V), symmetrized as counts are; stored or computed here."""
    table = table_of(cell)
    shape = (int(table["vocab_size"].iloc[0]), -1)
    word, context = (table[name].to_numpy(dtype=float).reshape(shape) for name in ("word", "context"))
    product = word @ context.T
    return (product + product.T) / 2
