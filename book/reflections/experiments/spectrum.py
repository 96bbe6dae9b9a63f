"""Corpora, and the eigenvalues of their PMI matrices beside the nulls.

Source: Assylbekov & Takhanov (2019), Table 1, Figure 2 and section 3.1.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
from scipy import sparse

from embviz import metrics
from embviz.corpora import corpus as corpora
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, load
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study
from embviz.words import spectra
from embviz.words.cooccurrence import count_pairs, pmi, ppmi, shifted_pmi

WINDOWS = (2, 5)
NULLS = ("ppmi", "shifted", "shuffled", "gaussian", "permuted", "configuration")


# --- corpora ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CorpusCount:
    """One corpus to count."""

    corpus: str  # name in the registry
    min_count: int  # threshold of the paper for it


@experiment("reflections.corpus_count")
def corpus_count(config: CorpusCount) -> pd.DataFrame:
    """Tokens, types, and types at least as frequent as the threshold."""
    corpus = corpora.load_corpus(config.corpus)
    table = pd.DataFrame(
        {
            "tokens": [len(corpus.ids)],
            "types": [len(corpus.vocabulary)],
            "frequent_types": [int((corpus.counts >= config.min_count).sum())],
        }
    )
    table.attrs["data"] = {config.corpus: corpus.checksum}
    return table


def _corpus_cells(preset: str) -> list[Cell]:
    if preset != "paper":  # a stand-in is never counted under another corpus's name
        return []
    return [corpus_count.cell(CorpusCount("text8", 100)), corpus_count.cell(CorpusCount("enwik9", 150))]


def _corpus_findings(preset: str) -> dict[str, Finding]:
    table = load(_corpus_cells(preset))
    found = {}
    for row in table.to_dict(orient="records"):
        corpus = str(row["corpus"])
        for column in ("tokens", "types"):
            found[f"{corpus}_{column}"] = findings.exact(row[column], corpus=corpus)
        found[f"{corpus}_min{row['min_count']}"] = findings.exact(row["frequent_types"], corpus=corpus)
    return found


def stand_in_cells() -> list[Cell]:
    """The counts of the stand-in and of text8's true first eighth, for the chapter."""
    return [corpus_count.cell(CorpusCount(name, 100)) for name in ("enwiki2018", "text8_prefix", "embedded")]


# --- spectra ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """One spectrum."""

    corpus: str  # name in the registry
    window: int  # words to each side
    min_count: int  # rarer words leave holes
    matrix: str  # "pmi", or one of NULLS
    seed: int = 0


@experiment("reflections.spectrum", threads=2)
def spectrum(config: Spectrum) -> pd.DataFrame:
    """All eigenvalues of one matrix, ascending, in nats, as float32."""
    corpus = corpora.load_corpus(config.corpus).restrict(min_count=config.min_count, rare="hole")
    values = spectra.eigenvalues(_matrix(config, corpus))
    table = pd.DataFrame({"eigenvalue": values.astype(np.float32)})
    table.attrs["data"] = {config.corpus: corpus.checksum}
    return table


def _matrix(config: Spectrum, corpus: corpora.Corpus) -> np.ndarray | sparse.csr_array:
    ids = corpus.ids
    if config.matrix == "shuffled":
        ids = spectra.shuffle_tokens(ids, seed=config.seed)
    counts = count_pairs(
        ids, len(corpus.vocabulary), window=config.window, document_starts=corpus.document_starts
    )
    if config.matrix == "ppmi":
        return ppmi(counts)
    if config.matrix == "shifted":
        return shifted_pmi(counts, n_negative=5)
    matrix = pmi(counts)
    if config.matrix in ("pmi", "shuffled"):
        return matrix
    if config.matrix == "permuted":
        return spectra.permute_entries(matrix, seed=config.seed)
    if config.matrix == "configuration":
        return spectra.configuration_model(matrix, seed=config.seed)
    if config.matrix == "gaussian":
        n = matrix.shape[0]
        variance = float((matrix.data**2).sum()) / n**2
        return spectra.semicircle(n, variance=variance, seed=config.seed)
    raise ValueError(f"matrix must be 'pmi' or one of {NULLS}, not {config.matrix!r}")


def spectrum_cells(preset: str) -> list[Cell]:
    """Cells of all spectra of a preset: PMI and its nulls at both windows."""
    corpus, min_count = {
        "quick": ("embedded", 500),
        "laptop": ("text8_prefix", 100),
        "paper": ("enwiki2018", 100),
    }[preset]
    grid = itertools.product(WINDOWS, ("pmi", *NULLS))
    return [spectrum.cell(Spectrum(corpus, window, min_count, matrix)) for window, matrix in grid]


def spectrum_statistics(preset: str) -> pd.DataFrame:
    """Symmetry and shape of each stored spectrum of a preset, one row a window and matrix."""
    rows = []
    for (window, matrix), rows_of in load(spectrum_cells(preset)).groupby(["window", "matrix"], sort=False):
        values = rows_of["eigenvalue"].to_numpy(dtype=float)
        rows.append(
            {
                "window": window,
                "matrix": matrix,
                "corpus": rows_of["corpus"].iloc[0],
                "n": len(values),
                "positive_share": metrics.positive_share(values),
                "mirror_distance": metrics.mirror_distance(values),
                "skewness": metrics.skewness(values),
                "kurtosis": metrics.kurtosis(values),
                "ks_semicircle": metrics.semicircle_distance(values),
            }
        )
    return pd.DataFrame(rows)


def _by_matrix(table: pd.DataFrame, window: int, column: str) -> dict[str, float]:
    rows = table[table["window"] == window]
    return {matrix: float(value) for matrix, value in zip(rows["matrix"], rows[column], strict=True)}


def _symmetry_findings(preset: str) -> dict[str, Finding]:
    table = spectrum_statistics(preset)
    corpus = str(table["corpus"].iloc[0])
    found = {}
    for window in WINDOWS:
        for column in ("positive_share", "mirror_distance", "skewness"):
            value = _by_matrix(table, window, column)
            found[f"{column}_{window}"] = findings.exact(value.pop("pmi"), nulls=value, corpus=corpus)
        distance = _by_matrix(table, window, "mirror_distance")
        ratio = {matrix: value / distance["ppmi"] for matrix, value in distance.items()}
        found[f"mirror_ratio_{window}"] = findings.exact(ratio.pop("pmi"), nulls=ratio, corpus=corpus)
    return found


def _shape_findings(preset: str) -> dict[str, Finding]:
    table = spectrum_statistics(preset)
    corpus = str(table["corpus"].iloc[0])
    found = {}
    for window in WINDOWS:
        distance = _by_matrix(table, window, "ks_semicircle")
        ratio = {matrix: value / distance["gaussian"] for matrix, value in distance.items()}
        found[f"ks_ratio_{window}"] = findings.exact(ratio.pop("pmi"), nulls=ratio, corpus=corpus)
        value = _by_matrix(table, window, "kurtosis")
        found[f"kurtosis_{window}"] = findings.exact(value.pop("pmi"), nulls=value, corpus=corpus)
    return found


STUDIES = {
    "reflections.corpora": Study(
        _corpus_cells,
        _corpus_findings,
        needs="text8 and enwik9 are not at hand: `embviz data fetch text8 enwik9`",
    ),
    "reflections.spectrum_symmetry": Study(spectrum_cells, _symmetry_findings),
    "reflections.not_semicircle": Study(spectrum_cells, _shape_findings),
}
