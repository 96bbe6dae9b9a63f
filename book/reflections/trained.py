"""Word vectors that a chapter trains in view, and shows from a store."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from book.view.in_view import in_view
from embviz.words.wordvectors import WordVectors


def vectors_in_view(name: str, train: Callable[[], WordVectors]) -> WordVectors:
    """The vectors that a function trains, in hundredths, as :func:`book.view.in_view.in_view` shows them.

    Parameters
    ----------
    name : str
        ``paper.noun``, under which they are stored.
    train : callable
        Trains the vectors; takes nothing.

    Returns
    -------
    WordVectors
        With context vectors where the trained ones have them, and the vocabulary of the training.
    """

    def hundredths() -> pd.DataFrame:
        trained = train()
        kinds = {"word": trained.word, "context": trained.context}
        parts = []
        for kind, rows in kinds.items():
            if rows is not None:
                columns = [f"d{column}" for column in range(rows.shape[1])]
                table = pd.DataFrame(np.rint(100 * rows).astype(np.int16), columns=columns)
                parts.append(table.assign(word=trained.vocabulary, kind=kind))
        return pd.concat(parts, ignore_index=True)

    # one thread makes the same steps on every processor; they round otherwise, by less than a thousandth
    table = in_view(name, hundredths, within=1, each=True)
    kinds = dict(list(table.groupby("kind", sort=False)))
    vectors = {kind: rows.filter(regex=r"^d\d+$").to_numpy(np.float32) / 100 for kind, rows in kinds.items()}
    return WordVectors(kinds["word"]["word"].tolist(), vectors["word"], vectors.get("context"))
