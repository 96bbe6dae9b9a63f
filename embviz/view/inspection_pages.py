"""The report of a model as a page: what it is, five quantities, its map, pictures, and folded tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from embviz.corpora.tokens import token_kinds
from embviz.imports import import_umap
from embviz.view.curves import plot_curves
from embviz.view.embedding_maps import EmbeddingMap
from embviz.view.explorers import Choice, Explorer
from embviz.view.heat_maps import plot_heat_map
from embviz.view.histograms import plot_ridges
from embviz.view.multiples import panels
from embviz.view.page_parts import cards, fold_table, heading, numbered_list, terms
from embviz.view.pages import Page
from embviz.view.strips import plot_strip
from embviz.view.theme import captioned
from embviz.view.vocabulary_maps import map_of
from embviz.words.wordvectors import WordVectors

if TYPE_CHECKING:
    from embviz.inspection import Inspection

N_MAPPED = 4_000  # tokens of a larger vocabulary on a page's map
CENTRED = ", centred"
INDEPENDENT = "independent entries"
MOST_RANKS = 600  # of a spectrum that are drawn, close together at its beginning
N_BINS, LEAST = 50, 20  # groups of ranks of frequency, and tokens in the first of them
N_KINDS = 12  # of tokens that are drawn, the most frequent ones
OVER = "over its control"
MATRICES = ("Q", "K", "V", "O", "MLP gate", "MLP in", "MLP out")


def inspection_page(report: Inspection, *, n_mapped: int | None = N_MAPPED, progress: bool = False) -> Page:
    """The report of a model: what it is, the quantities that matter, its map, then pictures and tables.

    Parameters
    ----------
    report : Inspection
        Of :func:`embviz.inspection.inspect`.
    n_mapped : int or None
        Tokens of a larger vocabulary on the map: of each kind its first ones, in proportion. None maps all,
        which takes minutes for hundreds of thousands; 0 draws no map.
    progress : bool, default False
        Whether bars show how far the map is.

    Returns
    -------
    Page
        Shows itself in a notebook; ``.save("page.html")`` writes a page that works offline.
    """
    first = [(one.name, one.value, one.control, one.meaning) for one in report.headlines]
    parts: list[Any] = [heading(report.name, report.description, level=1)]
    if first:
        parts.append(cards(first))
    if found := report.unusual:
        parts.append(
            numbered_list(
                "Most unusual",
                [f"{sentence} ({away:,.0f})" for sentence, away in found],
                "In brackets: the distance from the median of its like, in median absolute deviations.",
            )
        )
    if len(report.lengths) > 10 and n_mapped != 0:
        parts.append(map_vocabulary(report, n_mapped, progress=progress))
    for title, sentence, names, pictures in _sections(report):
        parts += [heading(title, sentence), terms({name: report.terms[name] for name in names}), *pictures]
    parts += [heading("Tables"), *(fold_table(title, table) for title, table in tables_of(report).items())]
    return Page(parts, title=report.name)


def tables_of(report: Inspection) -> dict[str, pd.DataFrame]:
    """The tables of a report that have rows, by their titles."""
    every = {
        "All measurements": report.summary(),
        "Nearest tokens": report.neighbors.round(3),
        "Kinds of tokens": report.kinds.round(4),
        "Tokens in use whose rows are like the unused tokens'": report.undertrained.round(4),
        "Twins": report.twins.round(3),
        "The shortest and the longest rows": report.extremes.round(4),
    }
    return {title: table for title, table in every.items() if len(table)}


Section = tuple[str, str, tuple[str, ...], list[Any]]


def _sections(report: Inspection) -> Iterator[Section]:
    """Heading, sentence, terms and pictures of each part that can be drawn."""
    names: tuple[str, ...]
    if (explorer := explore_layers(report)) is not None:
        names = ("layers and heads", "stable rank", "beyond the edge", "from orthogonal", "control")
        sentence = "Each cell is one matrix. A matrix that differs from its neighbours stands out."
        yield "Layers and heads", sentence, names, [explorer]
    spectra = {part: plot_spectrum_by_rank(report, part) for part in parts_of(report)}
    for part, chart in spectra.items():
        names = ("singular values", "beyond the edge", "centred", "control")
        values, _ = report.spectra[part]
        sentence = f"{int((values > 1).sum()):,} of {len(values):,} singular values lie beyond the edge."
        yield f"Spectrum of the {part}", sentence, names, [chart]
    if len(report.lengths) > N_BINS and np.ptp(report.lengths) > 0:
        chart, sentence = plot_lengths(report)
        yield "Length and frequency", sentence, ("row length", "control"), [chart]
    if len(report.kinds) > 1:
        sentence = "Tokens of one kind often share a direction. 0 is what independent directions have."
        yield "Kinds of tokens", sentence, ("kind of token", "mean cosine", "centred"), [plot_kinds(report)]
    if report.distances:
        sentence = (
            f"{len(report.undertrained):,} tokens in use are as near to the unused tokens as 95% of the "
            "unused tokens that were held out. The first of them stand in the table below."
        )
        names = ("under-trained token", "unused tokens told apart")
        yield "Under-trained tokens", sentence, names, [plot_undertrained(report)]
    if len(report.twins):
        sentence = "The share of pairs that are each other's nearest among all tokens, with 95% intervals."
        yield "Twins", sentence, ("twins", "control"), [plot_twins(report)]


# --- the map --------------------------------------------------------------------------------------------


def map_vocabulary(
    report: Inspection, n_mapped: int | None = N_MAPPED, *, progress: bool = False
) -> EmbeddingMap:
    """The map of a model's vocabulary, or of a sample: of each kind of token its first ones.

    Parameters
    ----------
    report : Inspection
        With an embedding of more than ten rows.
    n_mapped : int or None
        Tokens at most; None maps all.
    progress : bool
        As of :func:`~embviz.view.map_of`.
    """
    assert report.weights is not None
    array = report.weights.arrays[str(report.names["embedding"])]
    names = report.vocabulary or [f"[row {row}]" for row in range(report.vocab_size)]
    rows = np.flatnonzero(report.lengths > 0)
    if n_mapped is not None and len(rows) > n_mapped:
        kinds = np.array(token_kinds(names))[rows] if report.vocabulary else np.zeros(len(rows), dtype=int)
        order = np.argsort(kinds, kind="stable")
        _, starts, sizes = np.unique(kinds[order], return_index=True, return_counts=True)
        taken = np.maximum(1, np.rint(sizes * n_mapped / len(rows)).astype(int))
        first = [order[start : start + n] for start, n in zip(starts, taken, strict=True)]
        rows = np.sort(rows[np.concatenate(first)])
    vectors = WordVectors([names[row] for row in rows.tolist()], array.read(rows))
    whole = len(rows) == report.vocab_size
    picture = map_of(
        vectors,
        "all",
        layout=_layout(),
        progress=progress,
        title=f"All {len(rows):,} tokens" if whole else f"{len(rows):,} of {report.vocab_size:,} tokens",
    )
    if not whole:
        sample = "Of each kind of token the first ones are shown, in proportion; neighbours are among them."
        picture.caption = f"{sample} {picture.caption}"
    return picture


def _layout() -> Any:
    """UMAP, or principal components where it is not installed."""
    try:
        import_umap()
    except ImportError:
        return "pca"
    return "neighbors"


# --- layers and heads -----------------------------------------------------------------------------------


def explore_layers(report: Inspection) -> Explorer | None:
    """Heat maps over layers and matrices, or heads; None where there are no layers."""
    table = report.table
    table = table[table["layer"].notna() & table["value"].notna() & table["part"].isin(MATRICES)]
    if not len(table):
        return None
    views = {"matrices": table[table["head"].isna()], "heads": table[table["head"].notna()]}
    views = {name: rows for name, rows in views.items() if len(rows)}
    quantities = [
        name
        for name in ("stable rank", "beyond the edge", "from orthogonal")
        if name in set(table["quantity"])
    ]

    def measure(quantity: str, rows: str, shown: str) -> pd.DataFrame:
        chosen = views[rows][views[rows]["quantity"] == quantity]
        over = (
            chosen["value"] / chosen["null"].where(chosen["null"] > 0) if shown == OVER else chosen["value"]
        )
        cells = pd.DataFrame(
            {"layer": chosen["layer"].astype(int), "matrix": _row_names(chosen), "amount": over.astype(float)}
        )
        return cells[np.isfinite(cells["amount"])]

    names = list(dict.fromkeys(name for rows in views.values() for name in _row_names(rows)))
    order = sorted(names, key=lambda name: (MATRICES.index(name.partition(" head ")[0]), names.index(name)))
    controls = {
        "quantity": Choice(quantities),
        "rows": Choice(list(views)),
        "shown": Choice(["value", OVER]),
    }
    return Explorer(
        measure, controls,
        lambda data: plot_heat_map(data, "layer", "matrix", "amount", y_names=order, y_title="",
                                   value_title="", height="tall"),
        title="{quantity} of all {rows}, {shown}",
        caption=f"{report.name}: one cell a matrix. The control of each is what a matrix of independent "
        "entries of the same variance has.",
    )  # fmt: skip


def _row_names(rows: pd.DataFrame) -> list[str]:
    return [
        part if pd.isna(head) else f"{part} head {head}"
        for part, head in zip(rows["part"], rows["head"], strict=True)
    ]


# --- spectra, lengths, kinds ----------------------------------------------------------------------------


def parts_of(report: Inspection) -> list[str]:
    """Embedding and output matrix, as far as they were measured."""
    return list(dict.fromkeys(name.removesuffix(CENTRED) for name in report.spectra))


def plot_spectrum_by_rank(report: Inspection, part: str = "embedding") -> alt.LayerChart:
    """All singular values of a table over the edge, by rank, as they are, centred, and of the control."""
    rows = []
    values, control = report.spectra[part]
    kinds = {part: values, INDEPENDENT: control}
    if part + CENTRED in report.spectra:
        kinds = {part: values, "centred": report.spectra[part + CENTRED][0], INDEPENDENT: control}
    for kind, every in kinds.items():
        ranks = np.unique(np.geomspace(1, len(every), MOST_RANKS).round().astype(int))
        shown = pd.DataFrame({"rank": ranks, "singular_value": every[ranks - 1], "kind": kind}).round(5)
        rows.append(shown[shown["singular_value"] > 0])  # a matrix of low rank has zeros
    chart = plot_curves(
        pd.concat(rows),
        "rank",
        "singular_value",
        kind="kind",
        names=list(kinds),
        seed=None,
        scale="log",
        x_scale="log",
        reference={"edge": 1.0},
        null=INDEPENDENT,
        kind_title="",
        x_title="rank of the singular value",
        y_title="singular value over the edge",
    )
    caption = (
        f"{report.name}. The edge is where the spectrum of independent entries of the same variance ends."
    )
    return captioned(chart, finding=f"Singular values of the {part}", caption=caption)


def plot_lengths(report: Inspection) -> tuple[alt.LayerChart, str]:
    """Lengths of rows by frequency of the token, and a sentence that says where the order comes from."""
    known = report.counts if len(report.counts) == len(report.lengths) else None
    order = np.arange(len(report.lengths)) if known is None else np.argsort(-known, kind="stable")
    order = order if known is None else order[known[order] > 0]
    if known is not None and len(order) < N_BINS:
        known, order = None, np.arange(len(report.lengths))
    rng = np.random.default_rng(0)
    edges = np.unique([1, *np.geomspace(LEAST, len(order), N_BINS).round().astype(int)])
    rows = []
    for lengths, kinds in (
        (report.lengths[order], {"5% of the rows": 0.05, "median": 0.5, "95% of the rows": 0.95}),
        (report.lengths[rng.permutation(order)], {"control: random order, median": 0.5}),
    ):
        bins = np.split(lengths, edges[1:-1])
        places = [float(np.sqrt(low * high)) for low, high in pairwise(edges)]
        for kind, share in kinds.items():
            values = [float(np.quantile(one, share)) for one in bins]
            rows.append(pd.DataFrame({"rank": places, "length": values, "kind": kind}))
    table = pd.concat(rows)
    names = list(dict.fromkeys(table["kind"]))
    chart = plot_curves(
        table.round({"rank": 1, "length": 5}), "rank", "length", kind="kind", names=names, seed=None,
        x_scale="log", null=names[-1], kind_title="", x_title="rank of the token, frequent tokens first",
        y_title="length of the row",
    )  # fmt: skip
    source = (
        "Ranks are places in the vocabulary, which in most tokenizers begins with frequent tokens."
        if known is None
        else "Ranks come from the counts of the text."
    )
    caption = f"{report.name}: {len(order):,} rows in {len(edges) - 1} groups of ranks."
    return captioned(chart, finding="Lengths of rows by frequency of the token", caption=caption), source


def plot_kinds(report: Inspection) -> alt.LayerChart:
    """Mean cosines of the rows of each kind of token, as they are and centred."""
    kinds = report.kinds[report.kinds["centred_mean_cosine"].notna()].head(N_KINDS)
    rows = [f"{kind} ({n:,})" for kind, n in zip(kinds["kind"], kinds["tokens"], strict=True)]
    shown = pd.concat(
        [
            pd.DataFrame({"kind": rows, "cosine": kinds[column], "rows": name})
            for column, name in (("mean_cosine", "as they are"), ("centred_mean_cosine", "centred"))
        ]
    )
    chart = plot_strip(
        shown.round(4), "cosine", "kind", by="rows", by_names=["as they are", "centred"], by_title="",
        seed=None, interval=False, null={"independent directions": 0.0},
        x_title="mean cosine of two rows of one kind",
    )  # fmt: skip
    caption = f"{report.name}: the {len(kinds)} most frequent kinds, with their numbers of tokens."
    return captioned(chart, finding="How isotropic each kind of token is", caption=caption)


def plot_undertrained(report: Inspection) -> alt.LayerChart:
    """Distances from the unused tokens: tokens in use beside unused tokens that were held out."""
    high = max(float(values.max()) for values in report.distances.values())
    edges = np.linspace(0, high, 80)
    rows = []
    for name, values in report.distances.items():
        counts, _ = np.histogram(values, edges)
        curve = {"distance": (edges[1:] + edges[:-1]) / 2, "height": counts / max(counts.max(), 1)}
        rows.append(pd.DataFrame(curve | {"tokens": f"{name} ({len(values):,})"}))
    chart = plot_ridges(
        pd.concat(rows).round(5), "distance", "tokens", "height", step="wide_ridge",
        x_title="cosine distance from the mean unused token",
    )  # fmt: skip
    caption = (
        f"{report.name}: half of the unused tokens define the mean, the other half is shown. "
        "Each curve has its own height."
    )
    return captioned(chart, finding="Tokens in use beside tokens that were never used", caption=caption)


def plot_twins(report: Inspection) -> alt.LayerChart:
    """Shares of twins that are each other's nearest, with their intervals and the chance of a random pair."""
    found = report.table[report.table["part"].eq("twins")]
    table = pd.DataFrame(
        {
            "pair": [
                f"{name.removeprefix('nearest twins, ')} ({n} pairs)"
                for name, n in zip(found["quantity"], found["n_rows"], strict=True)
            ],
            "share": found["value"],
            "low": found["low"],
            "high": found["high"],
        }
    ).astype({"share": float, "low": float, "high": float})
    chart = plot_strip(
        table, "share", "pair", seed=None, interval=("low", "high"), limits=(0, 1),
        null={"random pair": float(found["null"].mean())},
        x_title="share of pairs that are each other's nearest",
    )  # fmt: skip
    return captioned(chart, finding="How many twins are each other's nearest", caption=f"{report.name}.")


def plot_states(table: pd.DataFrame) -> alt.ConcatChart:
    """Each quantity of the hidden states over the layers, beside its control.

    Parameters
    ----------
    table : DataFrame
        Of :func:`embviz.inspection.hidden_states`.
    """
    charts = {}
    for quantity, rows in table.groupby("quantity", sort=False):
        both = [rows.assign(kind="states"), rows.assign(value=rows["control"], kind="control")]
        shown = pd.concat(both)[["layer", "value", "kind"]].dropna()
        charts[str(quantity)] = plot_curves(
            shown, "layer", "value", kind="kind", names=["states", "control"], seed=None, null="control",
            kind_title="", y_title="", height="short",
            scale="log" if "bits" in str(quantity) and (shown["value"] > 0).all() else "linear",
        )  # fmt: skip
    caption = "Layer 0 is the embedding. Control: entries in random places, or states in random order."
    return captioned(panels(charts), finding="Hidden states by layer", caption=caption)
