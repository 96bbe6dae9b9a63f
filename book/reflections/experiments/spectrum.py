"""Corpora, and the eigenvalues of their PMI matrices beside the controls.

Source: Assylbekov & Takhanov (2019), Table 1, Figure 2 and section 3.1.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import sparse, stats

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.reflections import nulls
from embviz import metrics
from embviz.corpora import corpus as corpora
from embviz.words import spectra
from embviz.words.cooccurrence import count_pairs, pmi, ppmi, shifted_pmi

WINDOWS = (2, 5)
NULLS = ("ppmi", "shifted", "shuffled", "gaussian", "permuted", "configuration")
CENTRED = ("centred", "centred_permuted", "centred_shuffled")  # rows and columns with mean 0
GRAPHS = {  # chance of closing a triangle
    "clustered_graph": 1.0,
    "scale_free": 0.0,
    "sparse_graph": 1.0,
    "sparse_unclustered": 0.0,
}
N_NODES, FEW_NODES = 3_000, 600  # of a graph, and of one of the quick preset
SPARSE = 5  # edges a node of a sparse graph
LEADING = (50, 100, 200, 500, 1000, 2000)  # eigenvalues whose signs are counted
WEIGHTED = ("pmi", "ppmi", "shuffled")
POWERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of the weights; skip-gram's is the last
N_SIGNS = 200  # leading eigenvalues of a weighted matrix: the paper's d


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
    matrix: str  # "pmi", or one of NULLS, CENTRED, GRAPHS
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
    if config.matrix.endswith("shuffled"):
        ids = spectra.shuffle_tokens(ids, seed=config.seed)
    counts = count_pairs(
        ids, len(corpus.vocabulary), window=config.window, document_starts=corpus.document_starts
    )
    if config.matrix == "ppmi":
        return ppmi(counts)
    if config.matrix == "shifted":
        return shifted_pmi(counts, n_negative=5)
    matrix = pmi(counts)
    if config.matrix in GRAPHS:
        n_nodes = FEW_NODES if config.corpus == "embedded" else N_NODES
        dense = round(counts.nnz / counts.shape[0] ** 2 * n_nodes / 2)  # as large a share of all pairs
        n_edges = SPARSE if config.matrix.startswith("sparse") else dense
        graph = scale_free_graph(n_nodes, n_edges, GRAPHS[config.matrix], seed=config.seed)
        return centred(graph)
    if config.matrix == "centred_permuted":
        return centred(nulls.permute_entries(matrix, seed=config.seed))
    if config.matrix in CENTRED:
        return centred(matrix)
    if config.matrix in ("pmi", "shuffled"):
        return matrix
    if config.matrix == "permuted":
        return nulls.permute_entries(matrix, seed=config.seed)
    if config.matrix == "configuration":
        return nulls.configuration_model(matrix, seed=config.seed)
    if config.matrix == "gaussian":
        n = matrix.shape[0]
        variance = float((matrix.data**2).sum()) / n**2
        return nulls.semicircle(n, variance=variance, seed=config.seed)
    known = ("pmi", *NULLS, *CENTRED, *GRAPHS)
    raise ValueError(f"matrix must be one of {known}, not {config.matrix!r}")


def centred(matrix: np.ndarray | sparse.csr_array) -> np.ndarray:
    """A symmetric matrix less the means of its rows and columns, as float32, shape (n, n)."""
    dense = np.array(matrix) if isinstance(matrix, np.ndarray) else matrix.toarray()
    means = dense.mean(axis=0, dtype=float)
    dense = dense.astype(np.float32)
    dense -= means.astype(np.float32)
    dense -= (means - means.mean()).astype(np.float32)[:, None]
    return dense


def scale_free_graph(n_nodes: int, n_edges: int, triangles: float, *, seed: int) -> np.ndarray:
    """Adjacency matrix of a growing scale-free graph, with triangles or without.

    Parameters
    ----------
    n_nodes : int
    n_edges : int
        That each new node brings.
    triangles : float between 0 and 1
        Chance that an edge goes to a neighbour of the last one's end and closes a triangle; else it goes
        to a node with a chance proportional to its degree.
    seed : int

    Returns
    -------
    array of 0 and 1 as float32, shape (n, n)

    Source
    ------
    Barabási & Albert (1999); with triangles, Holme & Kim (2002).
    """
    rng = np.random.default_rng(seed)
    matrix = np.zeros((n_nodes, n_nodes), dtype=np.float32)
    ends = list(range(n_edges))  # a node as often as it has edges
    neighbours: list[list[int]] = [[] for _ in range(n_nodes)]
    for node in range(n_edges, n_nodes):
        chosen: list[int] = []
        while len(chosen) < n_edges:
            near = neighbours[chosen[-1]] if chosen and rng.random() < triangles else []
            pool = near or ends
            other = pool[int(rng.integers(len(pool)))]
            if matrix[node, other]:  # two have an edge at most: by degree then
                other = ends[int(rng.integers(len(ends)))]
            if not matrix[node, other]:
                matrix[node, other] = matrix[other, node] = 1
                chosen.append(other)
        for other in chosen:
            neighbours[node].append(other)
            neighbours[other].append(node)
            ends += [node, other]
    return matrix


@dataclasses.dataclass(frozen=True)
class WeightedSigns:
    """The leading eigenvalues of one weighted matrix."""

    corpus: str  # name in the registry
    window: int  # words to each side
    min_count: int  # rarer words leave holes
    matrix: str  # one of WEIGHTED
    power: float  # a: 0 weighs all pairs alike, 1/2 as skip-gram does


@experiment("reflections.weighted_signs", threads=1)
def weighted_signs(config: WeightedSigns) -> pd.DataFrame:
    """The 200 eigenvalues of D^a M D^a largest in magnitude, ascending; D holds the words' counts."""
    corpus = corpora.load_corpus(config.corpus).restrict(min_count=config.min_count, rare="hole")
    plain = Spectrum(config.corpus, config.window, config.min_count, config.matrix)
    matrix = weighted(_matrix(plain, corpus), corpus.counts, config.power)
    values, _ = spectra.truncated_eigen(matrix, min(N_SIGNS, matrix.shape[0]), seed=0)
    table = pd.DataFrame({"eigenvalue": np.sort(values)})
    table.attrs["data"] = {config.corpus: corpus.checksum}
    return table


def weighted(matrix: np.ndarray | sparse.csr_array, counts: np.ndarray, power: float) -> sparse.csr_array:
    """D^a M D^a of a symmetric matrix (V, V): D is the diagonal of counts (V,) over their mean, a `power`."""
    scale = sparse.diags_array((counts / counts.mean()) ** power)
    return sparse.csr_array(scale @ sparse.csr_array(matrix) @ scale)


def weighted_cells(
    preset: str, windows: Sequence[int] = WINDOWS, powers: Sequence[float] = POWERS[-1:]
) -> list[Cell]:
    """Leading eigenvalues of PMI and its controls, weighted as in skip-gram or by other powers."""
    corpus, min_count = _text(preset)
    return [
        weighted_signs.cell(WeightedSigns(corpus, window, min_count, matrix, power))
        for window, matrix, power in itertools.product(windows, WEIGHTED, powers)
    ]


def weighted_cell(corpus: str, matrix: str, power: float) -> Cell:
    """One power at skip-gram's window."""
    return weighted_signs.cell(WeightedSigns(corpus, WINDOWS[-1], 100, matrix, power))


def slider_cells(preset: str) -> list[Cell]:
    """Every power, on text8's first eighth, at skip-gram's window."""
    return weighted_cells(preset, WINDOWS[-1:], POWERS) if preset == "laptop" else []


def weighted_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Share of +1 among the leading eigenvalues of weighted matrices: window, matrix, power, share."""
    keys = ["window", "matrix", "power"]
    positive = table.assign(share=lambda table: table["eigenvalue"] > 0)
    return positive.groupby(keys, sort=False)["share"].mean().reset_index()


def _text(preset: str) -> tuple[str, int]:
    texts = {"quick": ("embedded", 500), "laptop": ("text8_prefix", 100), "paper": ("enwiki2018", 100)}
    return texts[preset]


def spectrum_cells(preset: str, matrices: Sequence[str] = ("pmi", *NULLS)) -> list[Cell]:
    """Cells of all spectra of a preset: PMI and its controls at both windows."""
    corpus, min_count = _text(preset)
    grid = itertools.product(WINDOWS, matrices)
    return [spectrum.cell(Spectrum(corpus, window, min_count, matrix)) for window, matrix in grid]


def shape_cells(preset: str) -> list[Cell]:
    """Cells of centred spectra, and of three graphs of each kind, at both windows."""
    corpus, min_count = _text(preset)
    graphs = itertools.product(WINDOWS, GRAPHS, range(3))
    return [
        *spectrum_cells(preset, CENTRED),
        *(spectrum.cell(Spectrum(corpus, window, min_count, kind, seed)) for window, kind, seed in graphs),
    ]


def bulk(eigenvalues: np.ndarray) -> np.ndarray:
    """The middle 99% of a spectrum, ascending.

    >>> len(bulk(np.arange(1000.0)))
    990
    """
    values = np.sort(eigenvalues)
    cut = round(len(values) / 200)
    return values[cut : len(values) - cut]


QUANTILES = (np.arange(999) + 0.5) / 999


def bulk_distance(one: np.ndarray, other: np.ndarray | None = None) -> float:
    """Wasserstein-1 distance of two bulks, each of mean 0 and standard deviation 1; from a semicircle's
    where there is no other.
    """
    shapes = []
    for values in (one, other):
        inside = bulk(stats.semicircular.ppf(QUANTILES) if values is None else values)
        quantiles = np.quantile(inside, QUANTILES)
        shapes.append((quantiles - quantiles.mean()) / quantiles.std())
    return float(np.abs(shapes[0] - shapes[1]).mean())


def semicircle_distance(eigenvalues: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance to the semicircle around 0 with the same mean square, in 0..1."""
    law = stats.semicircular(scale=2 * np.sqrt(np.mean(eigenvalues**2)))
    return float(stats.kstest(eigenvalues, law.cdf).statistic)


def semicircle_distance_of_bulk(eigenvalues: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of a bulk from the middle 99% of the semicircle with its mean square.

    >>> semicircle_distance_of_bulk(stats.semicircular.ppf((np.arange(2000) + 0.5) / 2000)) < 0.001
    True
    """
    inside = bulk(eigenvalues)
    cut = (1 - len(inside) / len(eigenvalues)) / 2
    law = stats.semicircular
    middle = law.ppf(np.linspace(cut, 1 - cut, 20_001))
    scaled = inside * np.sqrt(np.mean(middle**2) / np.mean(inside**2))
    return float(stats.kstest(scaled, lambda x: np.clip((law.cdf(x) - cut) / (1 - 2 * cut), 0, 1)).statistic)


def leading_share(eigenvalues: np.ndarray, d: int) -> float:
    """Share of positive ones among the d eigenvalues largest in magnitude.

    >>> leading_share(np.array([-3.0, 2.0, 1.0, 4.0]), 2)
    0.5
    """
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    return float((eigenvalues[order[:d]] > 0).mean())


def leading_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Share of +1 among the leading eigenvalues of each spectrum of a text: window, matrix, d, share."""
    rows = []
    for (window, matrix), part in table.groupby(["window", "matrix"], sort=False):
        values = part["eigenvalue"].to_numpy(dtype=float)
        rows += [(window, matrix, d, leading_share(values, d)) for d in LEADING if d <= len(values)]
    return pd.DataFrame(rows, columns=["window", "matrix", "d", "share"])


def spectrum_statistics(table: pd.DataFrame) -> pd.DataFrame:
    """Symmetry and shape of each spectrum of a text, one row a window and matrix."""
    rows = []
    for (window, matrix), rows_of in table.groupby(["window", "matrix"], sort=False):
        values = rows_of["eigenvalue"].to_numpy(dtype=float)
        rows.append(
            {
                "window": window,
                "matrix": matrix,
                "corpus": rows_of["corpus"].iloc[0],
                "n": len(values),
                "positive_share": metrics.positive_share(values),
                "mirror_distance": metrics.mirror_distance(values),
                # in nats, over that of a semi-definite matrix with eigenvalues of the same sizes
                "rival_ratio": float(np.abs(values + values[::-1]).mean() / (2 * np.abs(values).mean())),
                "skewness": float(stats.skew(values)),
                "kurtosis": metrics.kurtosis(values),
                "ks_semicircle": semicircle_distance(values),
            }
        )
    return pd.DataFrame(rows)


def _by_matrix(table: pd.DataFrame, window: int, column: str) -> dict[str, float]:
    rows = table[table["window"] == window]
    return {matrix: float(value) for matrix, value in zip(rows["matrix"], rows[column], strict=True)}


def _symmetry_findings(preset: str) -> dict[str, Finding]:
    table = spectrum_statistics(load(spectrum_cells(preset)))
    corpus = str(table["corpus"].iloc[0])
    found = {}
    for window in WINDOWS:
        for column in ("positive_share", "skewness"):
            value = _by_matrix(table, window, column)
            found[f"{column}_{window}"] = findings.exact(value.pop("pmi"), controls=value, corpus=corpus)
        rival = _by_matrix(table, window, "rival_ratio")
        found[f"rival_ratio_{window}"] = findings.exact(rival.pop("pmi"), controls=rival, corpus=corpus)
    return found


def _weighted_findings(preset: str) -> dict[str, Finding]:
    table = weighted_shares(load(weighted_cells(preset)))
    corpus = _text(preset)[0]
    found = {}
    for window, rows in table.groupby("window"):
        share = dict(zip(rows["matrix"], rows["share"].astype(float), strict=True))
        found[f"weighted_{window}"] = findings.exact(share.pop("pmi"), controls=share, corpus=corpus)
    return found


def _spectra(cells: Sequence[Cell]) -> dict[tuple[int, str, int], np.ndarray]:
    """Eigenvalues by window, matrix and seed."""
    return {
        (cell.config.window, cell.config.matrix, cell.config.seed): values["eigenvalue"].to_numpy(dtype=float)
        for cell, values in ((cell, load([cell])) for cell in cells)
    }


def _bulk_findings(preset: str) -> dict[str, Finding]:
    of = _spectra(shape_cells(preset))
    corpus = _text(preset)[0]
    found = {}
    for window in WINDOWS:
        own, null, shuffled = (
            of[window, name, 0] for name in ("centred", "centred_permuted", "centred_shuffled")
        )
        apart, base, of_shuffled = (semicircle_distance_of_bulk(x) for x in (own, null, shuffled))
        edge = np.abs(null).max()
        values = {
            "apart": (apart / base, {"shuffled": of_shuffled / base}),
            "spikes": ((np.abs(own) > edge).sum(), {"shuffled": (np.abs(shuffled) > edge).sum()}),
        }
        for name, (value, controls) in values.items():
            numbers = {key: float(x) for key, x in controls.items()}
            found[f"{name}_{window}"] = findings.exact(value, controls=numbers, corpus=corpus)
    return found


def _likeness_findings(preset: str) -> dict[str, Finding]:
    of = _spectra(shape_cells(preset))
    corpus = _text(preset)[0]
    found = {}
    for window in WINDOWS:
        own, shuffled = of[window, "centred", 0], of[window, "centred_shuffled", 0]
        graphs = {kind: [of[window, kind, seed] for seed in range(3)] for kind in GRAPHS}
        like = {
            kind: [bulk_distance(own, graph) / bulk_distance(own) for graph in own_kind]
            for kind, own_kind in graphs.items()
        }
        sparse = "sparse_graph"
        numbers = {other: float(np.mean(ratios)) for other, ratios in like.items() if other != sparse}
        far = [bulk_distance(shuffled, graph) / bulk_distance(shuffled) for graph in graphs[sparse]]
        numbers["shuffled"] = float(np.mean(far))
        found[f"like_sparse_{window}"] = findings.over_seeds(
            like[sparse], repeats="graphs", controls=numbers, corpus=corpus
        )
    return found


STUDIES = {
    "reflections.corpora": Study(
        _corpus_cells,
        _corpus_findings,
        needs="text8 and enwik9 are not on this machine: `embviz data fetch text8 enwik9`",
    ),
    "reflections.spectrum_symmetry": Study(spectrum_cells, _symmetry_findings),
    "reflections.not_semicircle": Study(
        lambda preset: [*spectrum_cells(preset), *shape_cells(preset)], _bulk_findings
    ),
    "reflections.like_scale_free": Study(shape_cells, _likeness_findings),
    "reflections.half_of_pmi": Study(
        weighted_cells,
        _weighted_findings,
        beside=lambda preset: [*spectrum_cells(preset), *slider_cells(preset)],
    ),
}
