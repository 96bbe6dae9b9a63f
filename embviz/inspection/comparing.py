"""Two models or vector files with shared tokens: which tokens moved, and which matrices changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from embviz import metrics
from embviz.arrays import check_int
from embviz.corpora.tokens import token_texts
from embviz.files.weights import StoredArray, Weights
from embviz.inspection import measures, roles
from embviz.inspection.tables import BLOCK_ROWS
from embviz.inspection.weight_files import read_tokenizer, read_weights
from embviz.words.wordvectors import WordVectors, token_names

SAME = 0.5  # share of the smaller vocabulary that tokens must share to be compared as they are written
LEAST_SHARED = 10
N_PAIRS = 50_000  # whose cosines are compared
N_NEIGHBORS = 10  # nearest tokens that are compared
N_MOVED = 200  # tokens that are listed
N_ASKED = 1_000  # tokens whose neighbours are compared
ENERGY = 0.9  # share of a squared change that counts as all of it
CHANGES = ("part", "layer", "change", "rank", "rank_of_random", "largest")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    `table` has quantity, value, low, high (95% interval over tokens), and control: the same with the tokens
    of the second in random order. `changes` has of each matrix that both have: part, layer, change (the norm
    of the difference over the norm of the first), rank (directions that hold 90% of the squared difference),
    rank_of_random (the same of independent entries), largest (the share of its largest direction).
    """

    names: tuple[str, str]
    n_tokens: tuple[int, int]  # of both vocabularies
    tokens: list[str]  # (n,) shared tokens that were compared, in the order of the first vocabulary
    table: pd.DataFrame
    moved: pd.DataFrame  # token, cosine of its aligned rows, nearest tokens in both; the most moved first
    changes: pd.DataFrame
    spectra: dict[str, np.ndarray]  # singular values of centred rows over the root of their sum of squares
    rows: dict[str, np.ndarray]  # (n, D), centred; the second turned onto the first; turned in random order
    cosines: np.ndarray  # (n,) of each token's two rows after alignment

    @property
    def sentence(self) -> str:
        """What was compared, in words."""
        first, second = self.names
        return (
            f"{len(self.tokens):,} tokens that {first} ({self.n_tokens[0]:,} tokens) and {second} "
            f"({self.n_tokens[1]:,} tokens) share."
        )


def compare(
    first: Any,
    second: Any,
    *,
    tokenizer: Any = None,
    other_tokenizer: Any = None,
    max_tokens: int = 20_000,
    seed: int = 0,
    progress: bool = False,
) -> Comparison:
    """Compare two checkpoints, or two files of vectors, on the tokens that they share.

    Parameters
    ----------
    first, second : as for :func:`~embviz.inspection.weight_files.read_weights`
        Such as a base model and its fine-tuned one, two steps of training, or GloVe and a language model.
    tokenizer, other_tokenizer : a tokenizer or a list of tokens, optional
        Of the first, and of the second; by default those beside the files, and the first for both. Without
        any, rows of the same number are compared.
    max_tokens : int
        Shared tokens that are compared, at least ten: the first ones of the first vocabulary, which are
        frequent in most.
    seed : int
        Of halves, pairs and random orders.
    progress : bool, default False
        Whether a bar shows how far the matrices are.

    Returns
    -------
    Comparison

    Notes
    -----
    The alignment is the orthogonal map that brings the centred rows of the second nearest to the first's
    (Procrustes). It is fitted on one half of the tokens and judged on the other, and the reverse, so that no
    token helps to fit its own cosine.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, turn = rng.normal(size=(60, 5)), np.linalg.qr(rng.normal(size=(5, 5)))[0]
    >>> found = compare({"wte.weight": rows}, {"wte.weight": rows @ turn})
    >>> round(float(found.table.loc[0, "value"]), 3)
    1.0
    """
    sides = [_read(first, tokenizer), _read(second, other_tokenizer or tokenizer)]
    shared = _shared(sides[0].tokens, sides[1].tokens, check_int(max_tokens, "max_tokens", low=LEAST_SHARED))
    if len(shared) < LEAST_SHARED:
        raise ValueError(
            f"{sides[0].name} and {sides[1].name} share {len(shared)} tokens: at least {LEAST_SHARED} are "
            "needed"
        )
    a, b = (_rows(side, shared[:, place]) for place, side in enumerate(sides))
    directed = np.logical_and(a.any(axis=1), b.any(axis=1))
    a, b, shared = a[directed], b[directed], shared[directed]
    tokens = [sides[0].tokens[row] for row in shared[:, 0].tolist()]
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(b))
    turned, permuted = _aligned(a, b, rng), _aligned(a, b[order], rng)
    own = metrics.cosines(a, turned)
    table = _quantities(a, b, order, (own, metrics.cosines(a, permuted)), rng)
    values = [measures.singular_values(one) for one in (a, b)]
    names = (sides[0].name, sides[1].name)
    names = (f"{names[0]} (first)", f"{names[1]} (second)") if names[0] == names[1] else names
    spectra = {name: one / np.sqrt((one**2).sum()) for name, one in zip(names, values, strict=True)}
    return Comparison(
        names,
        (len(sides[0].tokens), len(sides[1].tokens)),
        tokens,
        table,
        _moved(tokens, names, a, b, own),
        _changes(sides[0].weights, sides[1].weights, seed, progress),
        spectra,
        {names[0]: a, names[1]: turned, "tokens in random order": permuted},
        own,
    )


@dataclass(frozen=True, eq=False)
class _Side:
    name: str
    weights: Weights
    embedding: str
    tokens: list[str]


def _read(source: Any, tokenizer: Any) -> _Side:
    try:
        weights = read_weights(source)
    except ValueError:
        if not isinstance(source, str | os.PathLike) or not os.path.isfile(source):
            raise
        vectors = WordVectors.load(source)  # a text of vectors
        weights, source = replace(read_weights(vectors), name=Path(source).stem), vectors
    embedding = roles.find_embedding(weights)
    if embedding is None:
        raise ValueError(f"{weights.name}: {roles.no_embedding(weights)}")
    n_rows = weights.arrays[embedding].shape[0]
    if tokenizer is None and isinstance(source, WordVectors):
        tokenizer = source.vocabulary
    elif tokenizer is None and isinstance(source, str | os.PathLike):
        tokenizer = read_tokenizer(source)
    tokens = token_names(tokenizer if tokenizer is not None else [], n_rows)
    return _Side(weights.name, weights, embedding, tokens)


def _shared(first: list[str], second: list[str], most: int) -> np.ndarray:
    """Rows of tokens that both have, (n, 2): as they are written, or by the words that they begin."""
    for keys in ((first, second), (_words(first), _words(second))):
        row_of: dict[str, int] = {}
        for row, key in enumerate(keys[1]):
            row_of.setdefault(key, row)
        pairs = {key: (row, row_of[key]) for row, key in reversed(list(enumerate(keys[0]))) if key in row_of}
        pairs.pop("", None)
        if len(pairs) >= SAME * min(len(first), len(second)):
            break
    return np.array(sorted(pairs.values())[:most], dtype=np.int64).reshape(-1, 2)


def _words(tokens: list[str]) -> list[str]:
    """The word that each token is, "" for pieces inside of words and signs."""
    texts = token_texts(tokens)
    marked = any(text.startswith(" ") for text in texts)
    return [
        text.strip() if (text.startswith(" ") or not marked) and text.strip().isalpha() else ""
        for text in texts
    ]


def _rows(side: _Side, rows: np.ndarray) -> np.ndarray:
    """Rows in any order, float64."""
    order = np.argsort(rows)
    found = np.empty((len(rows), side.weights.arrays[side.embedding].shape[1]))
    found[order] = side.weights.arrays[side.embedding].read(rows[order])
    if not np.isfinite(found).all():
        raise ValueError(f"{side.name}: the embedding has NaN or infinity")
    return found


def _quantities(
    a: np.ndarray, b: np.ndarray, order: np.ndarray, aligned: tuple[np.ndarray, ...], rng: np.random.Generator
) -> pd.DataFrame:
    """The table of a comparison; `aligned` are cosines of tokens' two rows, and in random order."""
    asked = np.sort(rng.choice(len(a), size=min(N_ASKED, len(a)), replace=False))
    k = min(N_NEIGHBORS, len(a) - 1)
    near = [metrics.nearest_neighbors(rows, k, asked=asked, metric="cosine")[0] for rows in (a, b, b[order])]
    found = [("cosine of a token's two rows, aligned", aligned[0], aligned[1])]
    if a.shape == b.shape:
        found.append(("cosine without alignment", metrics.cosines(a, b), metrics.cosines(a, b[order])))
    name = f"share of {k} neighbours kept"
    found.append((name, metrics.neighbors_kept(near[0], near[1]), metrics.neighbors_kept(near[0], near[2])))
    rows = [
        (name, values.mean(), *metrics.bootstrap_interval(values, seed=rng, n_resamples=200), null.mean())
        for name, values, null in found
    ]
    pairs = rng.integers(len(a), size=(2, N_PAIRS))
    pairs = pairs[:, pairs[0] != pairs[1]]
    cosines = [metrics.cosines(one[pairs[0]], one[pairs[1]]) for one in (a, b, b[order])]
    agreement = [float(np.corrcoef(cosines[0], one)[0, 1]) for one in cosines[1:]]
    rows.append(("correlation of pair cosines", agreement[0], np.nan, np.nan, agreement[1]))
    return pd.DataFrame(rows, columns=["quantity", "value", "low", "high", "control"])


# --- rows -----------------------------------------------------------------------------------------------


def _aligned(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each half of y's rows turned by the map that was fitted on the other half."""
    halves = np.array_split(rng.permutation(len(x)), 2)
    turned = np.empty_like(x)
    for fitted, judged in (halves, halves[::-1]):
        turned[judged] = y[judged] @ metrics.procrustes_map(x[fitted], y[fitted])
    return turned


def _moved(
    tokens: list[str], names: tuple[str, str], a: np.ndarray, b: np.ndarray, cosines: np.ndarray
) -> pd.DataFrame:
    """The tokens that moved most, and their nearest tokens before and after."""
    asked = np.argsort(cosines, kind="stable")[:N_MOVED]
    columns = {}
    for name, rows in zip(names, (a, b), strict=True):
        near, _ = metrics.nearest_neighbors(rows, 4, asked=asked, metric="cosine")
        columns[f"nearest in {name}"] = [", ".join(tokens[row] for row in one) for one in near.tolist()]
    return pd.DataFrame({"token": [tokens[row] for row in asked], "cosine": cosines[asked], **columns})


# --- matrices ---------------------------------------------------------------------------------------------


def _changes(first: Weights, second: Weights, seed: int, progress: bool) -> pd.DataFrame:
    """How far each matrix that both have changed, and in how many directions."""
    both = {
        name: array
        for name, array in first.arrays.items()
        if len(array.shape) == 2
        and min(array.shape) > 1
        and name in second.arrays
        and second.arrays[name].shape == array.shape
    }
    kinds = _kinds_of(first)
    found = []
    for name, array in tqdm(both.items(), desc="matrices", disable=not progress, leave=False):
        squares, norm = _difference(array, second.arrays[name])
        total = float(squares.sum())
        part, layer = kinds.get(name, (name.removesuffix(".weight"), np.nan))
        rank = _rank(squares) if total > 0 else 0
        control = _rank(measures.normal_spectrum(array.shape[0], array.shape[1], 1.0, seed=seed) ** 2)
        largest = float(squares[0] / total) if total > 0 else 0.0
        found.append((part, layer, np.sqrt(total) / norm if norm else np.nan, rank, control, largest))
    return pd.DataFrame(found, columns=list(CHANGES))


def _difference(array: StoredArray, other: StoredArray) -> tuple[np.ndarray, float]:
    """Squared singular values of the difference, the largest first, and the norm of the first."""
    n, m = array.shape
    if n < m:
        first = array.read()
        change = other.read() - first
        gram, square = change @ change.T, float((first.astype(float) ** 2).sum())
    else:
        gram, square = np.zeros((m, m)), 0.0
        for start in range(0, n, BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, n))
            first = array.read(rows)
            change = other.read(rows) - first
            gram += change.T @ change
            square += float((first.astype(float) ** 2).sum())
    # by the smaller Gram matrix, at scale 1: changes of fine-tuning are so small that float32 would lose them
    scale = float(np.trace(gram)) or 1.0
    values = np.linalg.eigvalsh((gram / scale).astype(np.float32))[::-1].clip(0)
    found: np.ndarray = values.astype(float) * (scale if np.trace(gram) else 0)
    return found, float(np.sqrt(square))


def _rank(squares: np.ndarray) -> int:
    """Directions that hold 90% of a sum of squares."""
    shares = np.cumsum(squares) / squares.sum()
    return int(np.searchsorted(shares, ENERGY - 1e-9) + 1)


def _kinds_of(weights: Weights) -> dict[str, tuple[str, float]]:
    """Part and layer of each named matrix of a layer."""
    try:
        maps = roles.layer_maps(weights, *roles.heads_of(weights))
    except ValueError:
        return {}
    of_array = {id(one.array): (one.kind, float(one.layer)) for one in maps}
    return {name: of_array[id(array)] for name, array in weights.arrays.items() if id(array) in of_array}
