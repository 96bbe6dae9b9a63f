"""Co-occurrence counts of the texts that the small models read, stored so that a chapter needs no text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.kernel.experiments.texts import TextReading, load
from book.ledger.cells import Cell, experiment, table_of
from embviz.words.cooccurrence import count_pairs


@dataclass(frozen=True)
class CountedText:
    """A text, and how far apart two of its tokens may stand to meet."""

    text: TextReading
    window: int = 5  # the paper's pipeline


@experiment("kernel.counts")
def counted(config: CountedText) -> pd.DataFrame:
    """Count the pairs of a text as the paper's pipeline does: each in both directions, over document borders.

    Returns
    -------
    DataFrame
        row, column (row <= column), count: the upper triangle, its zeros left out and its diagonal in full;
        token: what a diagonal entry's token looks like, else empty.
    """
    text = load(config.text)
    counts = count_pairs(text.ids, len(text.vocabulary), window=config.window).toarray()
    rows, columns = np.nonzero(np.triu(counts) + np.eye(len(counts)))
    tokens = [text.vocabulary[i] if i == j else "" for i, j in zip(rows, columns, strict=True)]
    table = pd.DataFrame(
        {
            "row": rows.astype(np.int32),
            "column": columns.astype(np.int32),
            "count": counts[rows, columns].astype(np.int64),
            "token": tokens,
        }
    )
    table.attrs["data"] = {config.text.corpus: text.checksum}
    return table


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of a text's pairs."""

    tokens: list[str]  # by id
    pairs: np.ndarray  # (V, V) float64, symmetric


def load_counts(cell: Cell) -> Counts:
    """The counts of a cell of :func:`counted`, stored or computed here."""
    table = table_of(cell)
    diagonal = table[table["row"] == table["column"]].sort_values("row")
    pairs = np.zeros((len(diagonal), len(diagonal)))
    rows, columns = table["row"].to_numpy(), table["column"].to_numpy()
    pairs[rows, columns] = pairs[columns, rows] = table["count"]
    return Counts(diagonal["token"].tolist(), pairs)
