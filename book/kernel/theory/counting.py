"""Log co-occurrence D under each way of counting that the paper leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embviz.kernels import log_counts
from embviz.words import count_pairs


def conventions(
    ids: np.ndarray,
    vocab_size: int,
    *,
    document_starts: np.ndarray | None = None,
    windows: Sequence[int] = (2, 5, 10),
) -> dict[str, np.ndarray]:
    """D under every way of counting, arrays (V, V) in nats, by name.

    "window 5": as the paper's loop, over borders of documents, 2 on the diagonal for two neighbouring places
    of one word. "halved": each pair once, C / 2. "diagonal once": its diagonal alone halved. "no diagonal".
    "borders kept": no pair over one, where `document_starts` are given. The first window of 5, or else the
    first, is combined with the other conventions.
    """

    def counts(window: int, starts: np.ndarray | None = None) -> np.ndarray:
        pairs = count_pairs(ids, vocab_size, window=window, document_starts=starts)
        return pairs.toarray().astype(float)

    counted = {f"window {w}": counts(w) for w in windows}
    chosen = 5 if 5 in windows else windows[0]
    plain = counted[f"window {chosen}"]
    diagonal = np.diag(plain.diagonal())
    counted["halved"] = plain / 2
    counted["diagonal once"] = plain - diagonal / 2
    counted["no diagonal"] = plain - diagonal
    if document_starts is not None:
        counted["borders kept"] = counts(chosen, document_starts)
    return {name: log_counts(matrix) for name, matrix in counted.items()}
