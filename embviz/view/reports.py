"""Pictures and pages of reports: a spectrum, a trace, a run, a model, its hidden states, and two models.

A page of a report is a table of sections, each with a title, a sentence, the terms that it explains and a
function that draws it; what a report has no numbers for draws None and is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import altair as alt
import numpy as np
import pandas as pd

from embviz.corpora.tokens import token_kinds
from embviz.imports import import_umap
from embviz.view.charts import Axis, mirrored_bins
from embviz.view.curves import plot_curves
from embviz.view.explorers import Choice, Explorer
from embviz.view.forms import Form, panels, plot_heat_map, plot_strip
from embviz.view.histograms import plot_histogram, plot_ridges
from embviz.view.maps import Map, map_of, pick_a_word
from embviz.view.pages import Page, cards, fold_table, heading, numbered_list, terms
from embviz.view.paths import plot_path
from embviz.view.theme import captioned
from embviz.words.reports import SHUFFLED, SpectrumReport
from embviz.words.wordvectors import WordVectors

if TYPE_CHECKING:
    from embviz.inspection.comparing import Comparison
    from embviz.inspection.findings import Inspection
    from embviz.trajectories import RunReport, Trace

SHOWN = 0.98  # share of the eigenvalues inside the axes
N_MAPPED = 4_000  # tokens of a larger vocabulary on a page's map
N_MOVED = 1_000  # tokens of the map that slides: half of them moved most, the others are the first ones
CENTRED = ", centred"
INDEPENDENT = "independent entries"
MOST_RANKS = 600  # of a spectrum that are drawn, close together at its beginning
N_BINS, LEAST = 50, 20  # groups of ranks of frequency, and tokens in the first of them
N_KINDS = 12  # of tokens that are drawn, the most frequent ones
OVER = "over its control"
MATRICES = ("Q", "K", "V", "O", "MLP gate", "MLP in", "MLP out")
SHARED = {  # what the quantities of a comparison mean, by how their names begin
    "cosine of": "The average cosine of a token's row in one and its row in the other, after the best "
    "rotation, which is fitted on other tokens. 1: nothing but a rotation. The control pairs random tokens.",
    "cosine without": "The same without a rotation: 1 if nothing changed, about 0 if the two were trained "
    "apart, since training chooses its directions at random.",
    "share of": "Of a token's nearest tokens in one, the share that are among its nearest in the other. It "
    "needs no alignment. The control pairs random tokens.",
    "correlation": "Whether two tokens that are near each other in one are near in the other: the "
    "correlation of cosines over random pairs. The control has tokens in random order.",
}
CHANGED = {
    "change": "norm of the change over the norm of the matrix",
    "rank": "directions that hold 90% of the squared change",
    "rank over its control": "the same over a random change's",
}

Section = tuple[str, str, tuple[str, ...], Callable[[Any], Any]]


def plot_spectrum(report: SpectrumReport) -> alt.ConcatChart:
    """Histograms of a report's spectra, each with its mirror image: the text, its control, and positive PMI.

    Parameters
    ----------
    report : SpectrumReport
    """
    charts = {}
    for name, values in report.spectra.items():
        inside = values[np.abs(values) <= np.quantile(np.abs(values), SHOWN)]
        bins = mirrored_bins(inside, n_bins=40).round(4)
        charts[name] = plot_histogram(
            bins, "pmi_eigenvalue", Axis("share", title="share of eigenvalues"), mirrored=True
        )
    lots = report.scores[report.scores["matrix"] == SHUFFLED]
    return captioned(
        panels(charts, columns=1),
        finding=f"The spectrum of {report.name!r} beside its mirror image",
        caption=f"{report.sentence} The outermost {1 - SHOWN:.0%} of each lie beyond the axes. "
        f"Shuffled: the first of {len(lots)} random orders, seed {lots['seed'].min()}.",
    )


def plot_trace(trace: Trace, *others: Trace) -> alt.LayerChart | alt.ConcatChart:
    """A traced path as a layout, by phase, or by step where it has none; its losses beside it, where known.

    Parameters
    ----------
    trace : Trace
        Of :func:`embviz.trajectories.trace`.
    *others : Trace
        Drawn below it in the same way, such as random walks like the path.
    """
    words = trace.notes or [trace.phases.explanation]
    caption = ". ".join(words) + "."
    finding = f"{_phases_in(trace)} in {len(trace.path.steps)} snapshots"
    if not others:
        return captioned(_plane_and_loss(trace), finding=finding, caption=caption)
    every = [trace, *others]
    has_losses = trace.path.has_losses
    parts = [chart for one in every for chart in _parts(_plane_and_loss(one, has_losses=has_losses))]
    beside = "; ".join(map(_phases_in, others))
    return captioned(
        panels(parts, columns=2, same_legend=False),
        finding=f"{finding}; {beside}",
        caption=f"Above: {trace.path.name}. Below: {', '.join(one.path.name for one in others)}. {caption}",
    )


def _phases_in(trace: Trace) -> str:
    return f"{trace.path.name}: {trace.phases.n_phases or 'no'} phases"


def _parts(chart: alt.LayerChart | alt.ConcatChart) -> list[Form]:
    if not isinstance(chart, alt.ConcatChart):
        return [chart]
    plane, loss = cast("list[Form]", chart.concat)
    return [plane, loss.properties(width="container")]  # the panels' to say anew


def _plane_and_loss(trace: Trace, *, has_losses: bool | None = None) -> alt.LayerChart | alt.ConcatChart:
    path, phases = trace.path, trace.phases
    table = trace.table
    has_losses = path.has_losses if has_losses is None else has_losses
    return plot_path(
        table if has_losses else table.drop(columns="loss"),
        "x",
        "y",
        order="step",
        phase="phase" if phases.n_phases else None,
        loss="loss" if has_losses else None,
        seed_text=f"seed {trace.seed}",
    )


def plot_run(report: RunReport) -> list[alt.LayerChart | alt.ConcatChart]:
    """How far a run's drawings are from their random walks', then each matrix's path above its first walk.

    Parameters
    ----------
    report : RunReport
        Of :func:`embviz.trajectories.run_report`.

    Returns
    -------
    list of charts, for a page; one more than there are matrices
    """
    rows = []
    for name, one in report.comparisons.items():
        for pair, left in (("run and walk", one.shape_left()), ("two walks", one.shape_among())):
            ends = [] if left is None else [left.low, left.value, left.high]
            rows += [(name, pair, place, value) for place, value in enumerate(ends)]
    table = pd.DataFrame(rows, columns=["tensor", "pair", "place", "disparity"])
    strip = plot_strip(
        table, "disparity", "tensor", by="pair", by_names=list(dict.fromkeys(table["pair"])), by_title="",
        null="two walks" if "two walks" in set(table["pair"]) else None, seed="place", interval=False,
    )  # fmt: skip
    caption = "Procrustes disparity of drawings, 0 where they are the same: least, mean and most over walks."
    first = captioned(strip, finding=report.sentence, caption=f"{report.limits} {caption}")
    pairs = [(one.traces["data 0"], one.traces["random walk 0"]) for one in report.comparisons.values()]
    return [first, *(plot_trace(own, walk) for own, walk in pairs)]


# --- a model ---


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
    for title, sentence, names, draw in _sections(report):
        if (picture := draw(report)) is not None:
            parts += [heading(title, sentence), terms({name: report.terms[name] for name in names}), picture]
    tables = {
        "All measurements": report.summary(),
        "Nearest tokens": report.neighbors.round(3),
        "Kinds of tokens": report.kinds.round(4),
        "Tokens in use whose rows are like the unused tokens'": report.undertrained.round(4),
        "Twins": report.twins.round(3),
        "The shortest and the longest rows": report.extremes.round(4),
    }
    parts += [heading("Tables"), *(fold_table(title, table) for title, table in tables.items() if len(table))]
    return Page(parts, title=report.name)


def _sections(report: Inspection) -> Iterator[Section]:
    yield (
        "Layers and heads",
        "Each cell is one matrix. A matrix that differs from its neighbours stands out.",
        ("layers and heads", "stable rank", "beyond the edge", "from orthogonal", "control"),
        explore_layers,
    )
    for part in dict.fromkeys(name.removesuffix(CENTRED) for name in report.spectra):
        values, _ = report.spectra[part]
        yield (
            f"Spectrum of the {part}",
            f"{int((values > 1).sum()):,} of {len(values):,} singular values lie beyond the edge.",
            ("singular values", "beyond the edge", "centred", "control"),
            functools.partial(plot_spectrum_by_rank, part=part),
        )
    yield (
        "Length and frequency",
        "Ranks are places in the vocabulary, which in most tokenizers begins with frequent tokens."
        if _by_frequency(report) is None
        else "Ranks come from the counts of the text.",
        ("row length", "control"),
        plot_lengths,
    )
    yield (
        "Kinds of tokens",
        "Tokens of one kind often share a direction. 0 is what independent directions have.",
        ("kind of token", "mean cosine", "centred"),
        plot_kinds,
    )
    yield (
        "Under-trained tokens",
        f"{len(report.undertrained):,} tokens in use are as near to the unused tokens as 95% of the "
        "unused tokens that were held out. The first of them stand in the table below.",
        ("under-trained token", "unused tokens told apart"),
        plot_undertrained,
    )
    yield (
        "Twins",
        "The share of pairs that are each other's nearest among all tokens, with 95% intervals.",
        ("twins", "control"),
        plot_twins,
    )


def map_vocabulary(report: Inspection, n_mapped: int | None = N_MAPPED, *, progress: bool = False) -> Map:
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
    layout: Any = "neighbors"
    try:
        import_umap()
    except ImportError:
        layout = "pca"
    picture = map_of(
        vectors,
        "all",
        layout=layout,
        progress=progress,
        title=f"All {len(rows):,} tokens" if whole else f"{len(rows):,} of {report.vocab_size:,} tokens",
    )
    if not whole:
        sample = "Of each kind of token the first ones are shown, in proportion; neighbours are among them."
        picture.caption = f"{sample} {picture.caption}"
    return picture


def explore_layers(report: Inspection) -> Explorer | None:
    """Heat maps over layers and matrices, or heads; None where there are no layers."""
    table = report.table
    table = table[table["layer"].notna() & table["value"].notna() & table["part"].isin(MATRICES)]
    if not len(table):
        return None
    views = {"matrices": table[table["head"].isna()], "heads": table[table["head"].notna()]}
    views = {name: rows for name, rows in views.items() if len(rows)}
    measured = set(table["quantity"])
    quantities = [name for name in ("stable rank", "beyond the edge", "from orthogonal") if name in measured]

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
    return Explorer(
        measure, {"quantity": quantities, "rows": list(views), "shown": ["value", OVER]},
        lambda data: plot_heat_map(data, "layer", Axis("matrix", title=""), Axis("amount", title=""),
                                   y_names=order, height="tall"),
        title="{quantity} of all {rows}, {shown}",
        caption=f"{report.name}: one cell a matrix. The control of each is what a matrix of independent "
        "entries of the same variance has.",
    )  # fmt: skip


def _row_names(rows: pd.DataFrame) -> list[str]:
    return [
        part if pd.isna(head) else f"{part} head {head}"
        for part, head in zip(rows["part"], rows["head"], strict=True)
    ]


def plot_spectrum_by_rank(report: Inspection, part: str = "embedding") -> alt.LayerChart:
    """All singular values of a table over the edge, by rank, as they are, centred, and of the control."""
    values, control = report.spectra[part]
    centred = {"centred": report.spectra[part + CENTRED][0]} if part + CENTRED in report.spectra else {}
    kinds = {part: values, **centred, INDEPENDENT: control}
    rows = []
    for kind, every in kinds.items():
        ranks = np.unique(np.geomspace(1, len(every), MOST_RANKS).round().astype(int))
        shown = pd.DataFrame({"rank": ranks, "singular_value": every[ranks - 1], "kind": kind}).round(5)
        rows.append(shown[shown["singular_value"] > 0])  # a matrix of low rank has zeros
    chart = plot_curves(
        pd.concat(rows), Axis("rank", "log", title="rank of the singular value"),
        Axis("singular_value", "log", title="singular value over the edge"), kind="kind", names=list(kinds),
        seed=None, reference={"edge": 1.0}, null=INDEPENDENT, kind_title="",
    )  # fmt: skip
    caption = (
        f"{report.name}. The edge is where the spectrum of independent entries of the same variance ends."
    )
    return captioned(chart, finding=f"Singular values of the {part}", caption=caption)


def _by_frequency(report: Inspection) -> np.ndarray | None:
    """Tokens from the most frequent one on; None where the text that was counted says too little."""
    if len(report.counts) != len(report.lengths) or (report.counts > 0).sum() < N_BINS:
        return None
    order = np.argsort(-report.counts, kind="stable")
    return order[report.counts[order] > 0]


def plot_lengths(report: Inspection) -> alt.LayerChart | None:
    """Lengths of rows by frequency of the token, else by place in the vocabulary; None if all are equal."""
    if len(report.lengths) <= N_BINS or np.ptp(report.lengths) == 0:
        return None
    order = _by_frequency(report)
    order = np.arange(len(report.lengths)) if order is None else order
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
        table.round({"rank": 1, "length": 5}),
        Axis("rank", "log", title="rank of the token, frequent tokens first"),
        Axis("length", title="length of the row"), kind="kind", names=names, seed=None, null=names[-1],
        kind_title="",
    )  # fmt: skip
    caption = f"{report.name}: {len(order):,} rows in {len(edges) - 1} groups of ranks."
    return captioned(chart, finding="Lengths of rows by frequency of the token", caption=caption)


def plot_kinds(report: Inspection) -> alt.LayerChart | None:
    """Mean cosines of the rows of each kind of token, as they are and centred; None where there is one."""
    if len(report.kinds) < 2:
        return None
    kinds = report.kinds[report.kinds["centred_mean_cosine"].notna()].head(N_KINDS)
    rows = [f"{kind} ({n:,})" for kind, n in zip(kinds["kind"], kinds["tokens"], strict=True)]
    shown = pd.concat(
        [
            pd.DataFrame({"kind": rows, "cosine": kinds[column], "rows": name})
            for column, name in (("mean_cosine", "as they are"), ("centred_mean_cosine", "centred"))
        ]
    )
    chart = plot_strip(
        shown.round(4), Axis("cosine", title="mean cosine of two rows of one kind"), "kind", by="rows",
        by_names=["as they are", "centred"], by_title="", seed=None, interval=False,
        null={"independent directions": 0.0},
    )  # fmt: skip
    caption = f"{report.name}: the {len(kinds)} most frequent kinds, with their numbers of tokens."
    return captioned(chart, finding="How isotropic each kind of token is", caption=caption)


def plot_undertrained(report: Inspection) -> alt.LayerChart | None:
    """Distances from the unused tokens: tokens in use beside unused tokens that were held out."""
    if not report.distances:
        return None
    high = max(float(values.max()) for values in report.distances.values())
    edges = np.linspace(0, high, 80)
    rows = []
    for name, values in report.distances.items():
        counts, _ = np.histogram(values, edges)
        curve = {"distance": (edges[1:] + edges[:-1]) / 2, "height": counts / max(counts.max(), 1)}
        rows.append(pd.DataFrame(curve | {"tokens": f"{name} ({len(values):,})"}))
    chart = plot_ridges(
        pd.concat(rows).round(5), Axis("distance", title="cosine distance from the mean unused token"),
        "tokens", "height", step="wide_ridge",
    )  # fmt: skip
    caption = (
        f"{report.name}: half of the unused tokens define the mean, the other half is shown. "
        "Each curve has its own height."
    )
    return captioned(chart, finding="Tokens in use beside tokens that were never used", caption=caption)


def plot_twins(report: Inspection) -> alt.LayerChart | None:
    """Shares of twins that are each other's nearest, with their intervals and the chance of a random pair."""
    if not len(report.twins):
        return None
    found = report.table[report.table["part"].eq("twins")]
    names = [
        f"{name.removeprefix('nearest twins, ')} ({n} pairs)"
        for name, n in zip(found["quantity"], found["n_rows"], strict=True)
    ]
    table = (
        found[["value", "low", "high"]].astype(float).rename(columns={"value": "share"}).assign(pair=names)
    )
    chart = plot_strip(
        table, Axis("share", limits=(0, 1), title="share of pairs that are each other's nearest"), "pair",
        seed=None, interval=("low", "high"), null={"random pair": float(found["null"].mean())},
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
            shown, "layer",
            Axis("value", "log" if "bits" in str(quantity) and (shown["value"] > 0).all() else "linear",
                 title=""), kind="kind", names=["states", "control"], seed=None, null="control",
            kind_title="", height="short",
        )  # fmt: skip
    caption = "Layer 0 is the embedding. Control: entries in random places, or states in random order."
    return captioned(panels(charts), finding="Hidden states by layer", caption=caption)


# --- two models ---


def comparison_page(found: Comparison) -> Page:
    """The comparison of two models as a page.

    Parameters
    ----------
    found : Comparison
        Of :func:`embviz.inspection.compare`.

    Returns
    -------
    Page
        Shows itself in a notebook; ``.save("page.html")`` writes a page that works offline.
    """
    first, second = found.names
    quantities = []
    for row in found.table.to_dict("records"):
        meaning = next(text for start, text in SHARED.items() if row["quantity"].startswith(start))
        quantities.append((row["quantity"], row["value"], row["control"], meaning))
    parts: list[Any] = [
        heading(f"{first} and {second}", found.sentence, level=1),
        cards(quantities),
        heading("Which tokens moved", "The slider goes from the first to the second, turned onto the first."),
        map_moves(found),
        fold_table("The tokens that moved most, and their nearest tokens in both", found.moved.round(3)),
    ]
    if (explorer := explore_changes(found)) is not None:
        parts += [heading("Which matrices changed"), explorer]
    parts += [heading("Spectra"), plot_both_spectra(found), heading("Tables")]
    tables = {"All quantities": found.table.round(4), "Changes of matrices": found.changes.round(5)}
    parts += [fold_table(title, table) for title, table in tables.items() if len(table)]
    return Page(parts, title=f"{first} and {second}")


def map_moves(found: Comparison) -> Map:
    """A map with a slider from the first to the second, beside the same of tokens in random order."""
    first, second = found.names
    moved = np.argsort(found.cosines, kind="stable")[: N_MOVED // 2]
    chosen = np.unique(np.concatenate([moved, np.arange(min(N_MOVED // 2, len(found.tokens)))]))
    rows = {name: table[chosen] for name, table in found.rows.items()}
    there = np.all([table.any(axis=1) for table in rows.values()], axis=0)
    a, b, permuted = (table[there] for table in rows.values())
    kept = chosen[there]
    return pick_a_word(
        {first: a, second: b},
        [found.tokens[place] for place in kept],
        null={first: a, second: permuted},
        names=("tokens", "control: the second's tokens in random order"),
        over="model",
        first=first,
        compared={f"in {first}": a},
        color={"cosine of its two rows": found.cosines[kept].tolist()},
        n_neighbors=min(8, len(kept) - 2),
        title=f"{len(kept):,} tokens in both",
        caption=f"{len(moved):,} tokens that moved most, and the first ones of {first}.",
    )


def explore_changes(found: Comparison) -> Explorer | None:
    """A heat map of the changes over layers and matrices; None where no layers are shared."""
    table = found.changes[found.changes["layer"].notna()]
    if not len(table):
        return None

    def measure(quantity: str) -> pd.DataFrame:
        over = table["rank"] / table["rank_of_random"]
        amount = over if quantity == "rank over its control" else table[quantity]
        cells = {"layer": table["layer"].astype(int), "matrix": table["part"], "amount": amount.astype(float)}
        return pd.DataFrame(cells)

    names = list(dict.fromkeys(table["part"]))
    return Explorer(
        measure, {"quantity": Choice(list(CHANGED), format=lambda name: CHANGED[name])},
        lambda data: plot_heat_map(data, "layer", Axis("matrix", title=""), Axis("amount", title=""),
                                   y_names=names),
        title="How each matrix changed",
        caption="Control: a change of independent entries, whose rank is large.",
    )  # fmt: skip


def plot_both_spectra(found: Comparison) -> alt.LayerChart:
    """Singular values of the compared rows of both, by rank."""
    rows = []
    for name, values in found.spectra.items():
        ranks = np.unique(np.geomspace(1, len(values), 300).round().astype(int))
        rows.append(pd.DataFrame({"rank": ranks, "share": values[ranks - 1], "model": name}))
    table = pd.concat(rows)
    chart = plot_curves(
        table[table["share"] > 1e-6].round(6), Axis("rank", "log", title="rank of the singular value"),
        Axis("share", "log", title="singular value over the root of the sum of squares"), kind="model",
        names=list(found.spectra), seed=None, kind_title="",
    )  # fmt: skip
    return captioned(chart, finding="Spectra of the shared tokens, centred", caption=found.sentence)
