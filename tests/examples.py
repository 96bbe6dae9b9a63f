"""One valid value for each parameter that a public function has, so that any of them can be called.

A value is looked up as "function.parameter" first, then as "parameter"; methods are "Class.method". Values
are made anew for each call. Sizes: V = 7 words, n = 12 rows, D = 4, S = 84 snapshots, N = 60 places.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

V, N_ROWS, D, S, N_PLACES = 7, 12, 4, 84, 60


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows(n: int = N_ROWS, dim: int = D, seed: int = 0) -> np.ndarray:
    """Numbers that bfloat16 holds exactly, no row all zeros."""
    return np.rint(_rng(seed).normal(size=(n, dim)) * 16) / 16 + 0.5


def symmetric(n: int = V) -> np.ndarray:
    """A matrix of both signs without zeros in its transform."""
    half = np.rint(_rng(3).normal(size=(n, n)) * 8) / 8
    return half + half.T + np.diag(np.arange(1.0, n + 1))


def counts() -> np.ndarray:
    """Symmetric pair counts of V words, each of which met some other."""
    half = _rng(1).integers(0, 9, (V, V)) + 1
    return half + half.T + np.diag(np.arange(V))


def log_counts() -> np.ndarray:
    """D of these counts."""
    return np.log1p(counts())


def ids() -> np.ndarray:
    """A text of V words and holes in which every word occurs."""
    return np.concatenate([np.arange(V + 1), _rng(2).integers(0, V + 1, N_PLACES - V - 1)])


def path(dim: int = 2) -> np.ndarray:
    """Snapshots of a walk."""
    return np.rint(_rng(5).normal(size=(S, dim)).cumsum(axis=0) * 4) / 4


def _vectors() -> Any:
    from embviz.words import WordVectors

    return WordVectors([f"w{i}" for i in range(V)], rows(V).astype(np.float32))


def _projection() -> Any:
    from embviz.projections import draw

    return draw("gaussian", 3, D, seed=0)


def _hadamard() -> Any:
    from embviz.projections import draw

    return draw("hadamard", 3, D, seed=0).operator


def _neighbors() -> Any:
    from embviz.neighbors import find_neighbors

    return find_neighbors(rows(), 8)


def _clusterings() -> list[Any]:
    from embviz.trajectories.phases import Clustering

    return [Clustering(min_cluster_size=5, min_samples=2)]


def _layout() -> Any:
    from embviz.trajectories.traces import Layout

    return Layout("pca")  # the quickest


def _stored() -> Any:
    from embviz.inspection import read_weights

    return read_weights({"rows": rows()}).arrays["rows"]


@functools.cache
def _checkpoints() -> list[Path]:
    import torch

    folder = Path(tempfile.mkdtemp())
    for step in (1, 2, 3):
        torch.save({"w": step * torch.from_numpy(rows())}, folder / f"{step}.pt")
    return sorted(folder.iterdir())


EXAMPLES: dict[str, Any] = {
    "find_neighbors.vectors": rows,
    "unit_rows.vectors": rows,
    "lay_out_neighbors.neighbors": _neighbors,
    "lay_out_neighbors.start": lambda: rows(dim=2),
    "map_of_neighbors.neighbors": _neighbors,
    "plot_histogram.x": lambda: "eigenvalue",
    "map_of_neighbors.layout": lambda: rows(dim=2),
    "lay_out.layout": _layout,
    "neighbors_in_plane.points": lambda: rows(dim=2),
    "nearest_neighbors.asked": lambda: np.array([3, 0, 2]),
    "read_checkpoints.source": _checkpoints,
    "read_checkpoints.tensors": lambda: "*",
    "read_checkpoints.steps": lambda: np.array([1, 2, 3]),
    "read_checkpoints.losses": lambda: np.array([3.0, 2.0, 1.0]),
    "StoredArray.read.self": _stored,
    "StoredArray.read.rows": lambda: np.array([0, 2]),
    # arrays
    "D": log_counts,
    "W": symmetric,
    "activity": lambda: np.abs(rows(S - 1, 1)).ravel(),
    "counts": counts,
    "Corpus.counts": lambda: np.bincount(ids(), minlength=V + 1)[:V],
    "keep_probability.counts": lambda: counts().sum(axis=0),
    "document_starts": lambda: np.array([0, 20]),
    "embedding": lambda: rows(V),
    "ids": ids,
    "labels": lambda: np.repeat([0, -1, 1, 0], S // 4),
    "layout": lambda: rows(N_ROWS, 2),
    "losses": lambda: np.linspace(4, 1, S) + rows(S, 1).ravel() / 16,
    "matrix": symmetric,
    "null": lambda: rows(1).ravel(),
    "other": lambda: rows(N_ROWS, D, seed=7),
    "output": lambda: rows(V),
    "paths": lambda: {"first": path(), "second": path()[::-1].copy()},
    "phase_grid.layouts": lambda: {"first": path(), "second": path()[::-1].copy()},
    "pick_a_word.states": lambda: {"wide": rows(N_ROWS, D), "narrow": rows(N_ROWS, 3)},
    "pick_a_word.null": lambda: {"wide": rows(N_ROWS, D)[::-1].copy(), "narrow": rows(N_ROWS, 3)},
    "pick_a_word.names": lambda: ("one", "other"),
    "pick_a_word.over": lambda: "width",
    "pick_a_word.compared": lambda: {"before": rows(N_ROWS, D)},
    "pick_a_word.planes": lambda: [rows(2 * N_ROWS, 2).reshape(2, N_ROWS, 2)] * 2,
    "points": path,
    "replicates": lambda: rows(1).ravel(),
    "resampled.value": lambda: 0.5,
    "resampled.n": lambda: 5,
    "shown": lambda: _rng(9).integers(0, N_ROWS, (N_ROWS, 3)),
    "snapshots": lambda: [row.reshape(1, D) for row in path(D)],
    "states": lambda: rows(N_ROWS, D),
    "steps": lambda: np.arange(S) * 10,
    "table": rows,
    "true": lambda: _rng(8).integers(0, N_ROWS, (N_ROWS, 3)),
    "values": lambda: rows(1).ravel(),
    "vectors": rows,
    "weights": lambda: path(D),
    "x": rows,
    "walsh_hadamard.x": rows,
    "y": lambda: rows(seed=7),
    "word": lambda: rows(V).astype(np.float32),
    "context": lambda: rows(V, seed=7).astype(np.float32),
    "signature": lambda: np.array([1, -1, 1, -1], dtype=np.int8),
    "WordVectors.transform": lambda: symmetric(D).astype(np.float32),
    "bias": lambda: rows(1, V).ravel().astype(np.float32),
    # everything else that a call must have
    "checksum": lambda: "made",
    "clusterings": _clusterings,
    "data": lambda: pd.DataFrame({"eigenvalue": rows(1).ravel()}),
    "subsample": lambda: 0.125,
    "pmi": symmetric,
    "embedding_dim": lambda: 3,
    "field": lambda: "eigenvalue",
    "largest": lambda: True,
    "m": lambda: 2,
    "n_components": lambda: 2,
    "n_draws": lambda: 4,
    "n_negative": lambda: 2,
    "n_neighbors": lambda: 3,
    "name": lambda: "made",
    "seed": lambda: 0,
    "threshold": lambda: 0.125,
    "vocab_size": lambda: V,
    "vocabulary": lambda: list("abcdefg"),
    "window": lambda: 2,
    "words": lambda: [f"w{i}" for i in range(N_ROWS)],
    # functions whose values differ from those of their parameter's name
    "map_of.vectors": _vectors,
    "map_of.layout": lambda: rows(V, 2),
    "WordVectors.self": _vectors,
    "WordVectors.most_similar.word": lambda: rows()[0],
    "Projection.self": _projection,
    "SubsampledHadamard.self": _hadamard,
    "sharpness.points": path,
}


def example(function: str, parameter: str) -> Any:
    """A value for a parameter of a function, such as "cosines" and "x", or "WordVectors.score" and "word".

    Raises
    ------
    LookupError
        If there is none.
    """
    owner = function.partition(".")[0]
    last = function.rpartition(".")[2]
    for key in (f"{function}.{parameter}", f"{owner}.{parameter}", f"{last}.{parameter}", parameter):
        if key in EXAMPLES:
            return EXAMPLES[key]()
    raise LookupError(
        f"{function} has a parameter {parameter!r} of which no valid value is known: add one to EXAMPLES in "
        f"tests/examples.py, under {parameter!r}, or {function + '.' + parameter!r} if the name has "
        "other values elsewhere"
    )
