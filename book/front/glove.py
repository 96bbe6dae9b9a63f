"""The front page's map: words of GloVe by topic, and as many random vectors as their control."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from book.ledger.cells import Cell, experiment
from embviz.corpora.registry import data_set
from embviz.neighbors import Neighbors, find_neighbors, lay_out_neighbors, unit_rows
from embviz.words.wordvectors import WordVectors

K = 8  # neighbours of a word on the map
WORD = re.compile(r"[a-z]{3,}")
TRAINED, UNTRAINED = "trained", "untrained"
N_FREQUENT = 100  # words of a topic among which its name is chosen
REACH = 500  # steps of a stored coordinate in one unit of the layout


@dataclass(frozen=True)
class MapRun:
    """The most frequent words of three or more letters, by their vectors or by random ones."""

    rows: str = TRAINED
    model: str = "glove_6b_100d"
    n_words: int = 12_000
    n_topics: int = 14
    seed: int = 0


@experiment("front.map", threads=2)
def word_map(config: MapRun) -> pd.DataFrame:
    """The layout of the words by neighbours.

    Returns
    -------
    DataFrame
        x and y (500ths of the layout's unit), near_0 to near_7 (rows of this table, the nearest first),
        cosine_0 to cosine_7 (hundredths; the mean vector is subtracted); of the trained vectors
        before them word and topic (two central words of its k-means cluster).
    """
    made = WordVectors.load(config.model)
    chosen = [row for row, word in enumerate(made.vocabulary) if WORD.fullmatch(word)][: config.n_words]
    words, rows = [made.vocabulary[row] for row in chosen], made.word[chosen]
    named = pd.DataFrame({"word": words, "topic": _topics(unit_rows(rows, center=True), words, config)})
    if config.rows == UNTRAINED:
        named = named[[]]
        rows = np.random.default_rng(config.seed).normal(size=rows.shape).astype(np.float32)
    found = find_neighbors(rows, K, recall=1.0, seed=config.seed)
    points = _lying(lay_out_neighbors(found, _principal_plane(rows), seed=config.seed))
    steps = np.rint(points * REACH).astype(np.int16)
    placed = pd.DataFrame(
        {
            "x": steps[:, 0],
            "y": steps[:, 1],
            **{f"near_{i}": found.ids[:, i].astype(np.uint16) for i in range(K)},
            **{f"cosine_{i}": np.rint(found.cosines[:, i] * 100).astype(np.int8) for i in range(K)},
        }
    )
    table = named.join(placed)
    forms = [form for file in data_set(config.model).files for form in file.forms]
    table.attrs["data"] = {config.model: forms[0].checksum}
    return table


def map_cells() -> list[Cell]:
    """The trained vectors, and the control."""
    return [word_map.cell(MapRun(rows=rows)) for rows in (TRAINED, UNTRAINED)]


def neighbors_of(table: pd.DataFrame) -> Neighbors:
    """The stored neighbours of a map."""
    ids = table[[f"near_{i}" for i in range(K)]].to_numpy(dtype=np.int64)
    cosines = table[[f"cosine_{i}" for i in range(K)]].to_numpy(dtype=np.float32) / 100
    return Neighbors(ids, cosines, recall=1.0, n_checked=len(ids))


def _topics(unit: np.ndarray, words: list[str], config: MapRun) -> list[str]:
    """For each word its k-means cluster, named by two of the cluster's frequent words near its centre."""
    found = KMeans(config.n_topics, n_init=4, random_state=config.seed).fit(unit)
    names = {}
    for label, centre in enumerate(found.cluster_centers_):
        frequent = np.flatnonzero(found.labels_ == label)[:N_FREQUENT]
        first = frequent[np.argsort(-(unit[frequent] @ centre), kind="stable")[:2]]
        names[label] = ", ".join(words[row] for row in first)
    return [names[label] for label in found.labels_]


def _principal_plane(rows: np.ndarray) -> np.ndarray:
    points: np.ndarray = PCA(2, svd_solver="covariance_eigh").fit_transform(unit_rows(rows, center=True))
    return points


def _lying(points: np.ndarray) -> np.ndarray:
    """The layout with its median at 0 and its longest direction across the page."""
    turned: np.ndarray = PCA(2, svd_solver="covariance_eigh").fit_transform(points)
    return turned - np.median(turned, axis=0)
