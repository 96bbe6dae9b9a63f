"""Gram matrices of released embeddings beside counts of a text in the same tokens."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from book.ledger import findings
from book.ledger.cells import Cell, experiment
from book.ledger.findings import Finding
from book.ledger.stored import load_runs
from book.ledger.studies import Study
from book.released import models
from book.released.experiments import slices
from embviz import kernels
from embviz.corpora.corpus import load_text
from embviz.corpora.tokens import token_texts
from embviz.metrics import circulant_score
from embviz.words.cooccurrence import count_pairs, pmi
from embviz.words.wordvectors import WordVectors

NAMES = (models.GEMMA, models.MINILM, models.GLOVE)
TEXT, N_CHARACTERS = "enwiki2018_raw", 20_000_000
N_TOKENS, WINDOW, LEAST_COUNT, POWER = 2_000, 5, 5, 0.003
N_SHOWN = 200  # tokens whose counts and rows are stored


@dataclass(frozen=True)
class CountsRun:
    """One released model."""

    model: str


# --- what is compared ---------------------------------------------------------------------------------


def text_ids(name: str) -> np.ndarray:
    """The text in a model's tokens, as rows of its embedding; of GloVe words in lower case, -1 outside."""
    text = load_text(TEXT)[:N_CHARACTERS]
    if name == models.GLOVE:
        index = models.vectors(name).index
        return np.array([index.get(word, -1) for word in _words(text)])
    from book.released import gemma

    lines = [line for line in text.splitlines() if line.strip()]
    cut = gemma.tokenizer(name)
    cut.no_truncation()
    cut.no_padding()
    encoded = cut.encode_batch_fast(lines, add_special_tokens=False)
    return np.concatenate([np.array(one.ids, dtype=np.int64) for one in encoded])


def _words(text: str) -> list[str]:
    return "".join(one if one.isalnum() else f" {one} " for one in text.lower()).split()


def most_frequent(ids: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n most frequent ids, and the text numbered by them; other places are n, a hole."""
    known = ids[ids >= 0]
    found, counts = np.unique(known, return_counts=True)
    chosen = found[np.argsort(-counts, kind="stable")[:n]]
    place = np.full(int(ids.max()) + 1, n)
    place[chosen] = np.arange(len(chosen))
    return chosen, np.where(ids >= 0, place[np.maximum(ids, 0)], n)


def matrix_power(D: np.ndarray, power: float) -> np.ndarray:
    """D to a power: magnitudes of eigenvalues to the power, with their signs."""
    values, vectors = np.linalg.eigh(D)
    return (vectors * (np.sign(values) * np.abs(values) ** power)) @ vectors.T


def cosines(rows: np.ndarray) -> np.ndarray:
    """Cosines (n, n) of rows (n, D), centred among themselves."""
    units = models.unit(rows, center=True)
    return units @ units.T


def agreements(W: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """Rank correlation of W with D, PMI and the power of D, over pairs with a count of five at least."""
    pairs = np.triu_indices(len(W), k=1)
    often = counts[pairs] >= LEAST_COUNT
    D = kernels.log_counts(counts)
    compared = {"D": D, "PMI": pmi(counts), "power": matrix_power(D, POWER)}
    return {
        name: float(spearmanr(W[pairs][often], one[pairs][often]).statistic) for name, one in compared.items()
    }


def circulant(rows: np.ndarray, D: np.ndarray) -> float:
    """Circulant score of the kernel between D and the Gram matrix of rows (n, D)."""
    kernel = kernels.extract_kernel(kernels.tied_gram(rows, rows), D, zeros="drop").kernel
    return circulant_score(kernel)


# --- experiments --------------------------------------------------------------------------------------


@experiment("released.gram")
def gram(config: CountsRun) -> pd.DataFrame:
    """Agreement of a model's Gram matrix with counts, beside its controls.

    Returns
    -------
    DataFrame
        table ("model", "random_order", "gaussian"), quantity ("D", "PMI", "power": rank correlations;
        "score", "score, random order": circulant scores), value.
    """
    ids = text_ids(config.model)
    chosen, text = most_frequent(ids, N_TOKENS)
    counts = count_pairs(text, N_TOKENS, window=WINDOW).toarray()
    rows = models.vectors(config.model).word[chosen].astype(np.float64)
    random = np.random.default_rng(0)
    normal = random.normal(size=rows.shape)
    normal *= np.linalg.norm(rows, axis=1).mean() / np.sqrt(rows.shape[1])
    tables = {"model": rows, "random_order": random.permutation(rows), "gaussian": normal}
    D, order = kernels.log_counts(counts), random.permutation(N_TOKENS)
    found = []
    for table, one in tables.items():
        found += [(table, *pair) for pair in agreements(cosines(one), counts).items()]
        found.append((table, "score", circulant(one, D)))
        found.append((table, "score, random order", circulant(one[order], D[np.ix_(order, order)])))
    result = pd.DataFrame(found, columns=["table", "quantity", "value"])
    result.attrs["data"] = models.origin(config.model) | {TEXT: models.text_checksum(TEXT, "all")}
    return result


@experiment("released.gram_rows")
def gram_rows(config: CountsRun) -> pd.DataFrame:
    """Rows of the most frequent 200 tokens of letters, centred among the 2,000, at length 1.

    Returns
    -------
    DataFrame
        As of :func:`book.released.experiments.slices.stored`, and counts: the token's counts with all 200, in
        their order, separated by blanks.
    """
    chosen, text = most_frequent(text_ids(config.model), N_TOKENS)
    vectors = models.vectors(config.model)
    texts = token_texts([vectors.vocabulary[row] for row in chosen])
    shown = [place for place, one in enumerate(texts) if one.strip().isalpha() and len(one.strip()) > 2]
    shown = shown[:N_SHOWN]
    counts = count_pairs(text, N_TOKENS, window=WINDOW).toarray()[np.ix_(shown, shown)]
    units = models.unit(vectors.word[chosen].astype(np.float64), center=True)[shown]
    table = slices.stored([texts[place] for place in shown], units)
    table["counts"] = [" ".join(map(str, row)) for row in counts]
    table.attrs["data"] = models.origin(config.model) | {TEXT: models.text_checksum(TEXT, "all")}
    return table


# --- cells and findings -----------------------------------------------------------------------------


def _cells(preset: str) -> list[Cell]:
    return [gram.cell(CountsRun(name)) for name in NAMES] if preset == "paper" else []


def _row_cells(preset: str) -> list[Cell]:
    return [gram_rows.cell(CountsRun(name)) for name in NAMES] if preset == "paper" else []


@functools.lru_cache(maxsize=4)
def shown(name: str) -> tuple[WordVectors, np.ndarray]:
    """A model's stored rows of 200 tokens, and their counts (200, 200)."""
    table = load_runs("released.gram_rows", model=name)
    counts = np.array([[int(one) for one in row.split()] for row in table["counts"]])
    return slices.vectors_of(table), counts


def _values(table: str, quantity: str) -> dict[str, float]:
    every = load_runs("released.gram").set_index(["table", "quantity", "model"])["value"]
    return {models.TITLES[name].lower(): every[table, quantity, name] for name in NAMES}


def _found(own: dict[str, float], name: str, control: dict[str, float]) -> dict[str, Finding]:
    return {
        model: findings.exact(value, controls={name: control[model]}, corpus=TEXT)
        for model, value in own.items()
    }


def _pmi(preset: str) -> dict[str, Finding]:
    return _found(_values("model", "PMI"), "random_order", _values("random_order", "PMI"))


def _power(preset: str) -> dict[str, Finding]:
    own, control = (
        {model: value - _values(table, "PMI")[model] for model, value in _values(table, "power").items()}
        for table in ("model", "random_order")
    )
    return _found(own, "random_order", control)


def _circulant(preset: str) -> dict[str, Finding]:
    own, control = _values("model", "score"), _values("gaussian", "score")
    return _found({name: own[name] for name in ("gemma", "minilm")}, "gaussian", control)


STUDIES: dict[str, Study] = {
    "released.gram_pmi": Study(_cells, _pmi, models.NEEDS, beside=_row_cells),
    "released.gram_power": Study(_cells, _power, models.NEEDS),
    "released.circulant": Study(_cells, _circulant, models.NEEDS),
}
