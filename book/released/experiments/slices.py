"""Some rows of a released embedding, stored in 16 bits, for a page to compute with."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import pandas as pd

from embviz.words.wordvectors import WordVectors

LARGEST = 32_767  # of 16 bits


def stored(tokens: Sequence[str], rows: np.ndarray) -> pd.DataFrame:
    """Tokens and their rows (n, D), each of length 1 at most.

    Returns
    -------
    DataFrame
        token, row: the row times 32,767 as 16-bit whole numbers, lowest byte first, in base64. A table with a
        column for each coordinate would take ten times the space.
    """
    whole = np.rint(np.asarray(rows, dtype=np.float64) * LARGEST).astype("<i2")
    written = [base64.b64encode(row.tobytes()).decode("ascii") for row in whole]
    return pd.DataFrame({"token": list(tokens), "row": written})


def vectors_of(table: pd.DataFrame) -> WordVectors:
    """The vectors of such a table, float32; a coordinate is off by 1.5e-5 at most."""
    rows = np.stack([np.frombuffer(base64.b64decode(row), dtype="<i2") for row in table["row"]])
    return WordVectors(table["token"].tolist(), rows.astype(np.float32) / LARGEST)
