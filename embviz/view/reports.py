"""Pictures of reports on what is yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import altair as alt
import numpy as np
import pandas as pd

from embviz.view.charts import mirrored_bins
from embviz.view.curves import plot_curves
from embviz.view.embedding_maps import EmbeddingMap, embedding_map
from embviz.view.histograms import plot_histogram
from embviz.view.multiples import Form, panels
from embviz.view.paths import plot_path
from embviz.view.strips import plot_strip
from embviz.view.theme import captioned
from embviz.words.reports import SHUFFLED, SpectrumReport

if TYPE_CHECKING:
    from embviz.inspection import Inspection
    from embviz.trajectories import RunReport, Trace

SHOWN = 0.98  # share of the eigenvalues inside the axes


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
        charts[name] = plot_histogram(bins, "pmi_eigenvalue", mirrored=True, y_title="share of eigenvalues")
    lots = report.scores[report.scores["matrix"] == SHUFFLED]
    return captioned(
        panels(charts, columns=1),
        finding=f"The spectrum of {report.name!r} beside its mirror image",
        caption=f"{report.sentence} The outermost {1 - SHOWN:.0%} of each lie beyond the axes. "
        f"Shuffled: the first of {len(lots)} random orders, seed {lots['seed'].min()}.",
    )


N_MAPPED = 800  # rows of an embedding on a page's map
GRADIENTS = "regularity of the gradient: power in the 16 strongest modes along rows"
CENTRED = ", centred"
INDEPENDENT = "independent entries"
MOST_RANKS = 600  # of a spectrum that are drawn, close together at its beginning
HEADS = "singular values beyond the edge, by head"


def plot_inspection(report: Inspection) -> alt.ConcatChart:
    """Spectra of tables over the edge of independent entries; queries, keys, values by layer; gradients.

    Parameters
    ----------
    report : Inspection
        With an embedding, or queries, keys and values.

    Raises
    ------
    ValueError
        If nothing of it can be drawn.
    """
    charts: dict[str, Form] = {}
    for part in dict.fromkeys(name.removesuffix(CENTRED) for name in report.spectra):
        charts[f"singular values of the {part}"] = _spectrum_by_rank(report, part)
    heads = _heads(report)
    if len(heads):
        null = heads.assign(part="null", head=heads["part"] + heads["head"].astype(str), value=heads["null"])
        shown = pd.concat([heads, null])[["part", "layer", "head", "value"]].astype(
            {"layer": int, "head": str}
        )
        charts[HEADS] = plot_curves(
            shown,
            "layer",
            "value",
            kind="part",
            seed="head",
            interval=False,
            null="null",
            y_title="share",
            x_title="layer",
        )
    if (struck := _gradients(report)) is not None:
        charts[GRADIENTS] = struck
    if not charts:
        raise ValueError(f"{report.name} has neither embedding nor queries, keys and values: nothing to draw")
    return captioned(
        panels(charts, columns=1, same_legend=False),
        finding=report.sentence,
        caption="Grey: independent numbers of the same variance, of gradients rows in random orders. The "
        "edge is where the spectrum of such numbers ends. Centred: the mean row is taken off every row.",
    )


def _spectrum_by_rank(report: Inspection, part: str) -> alt.LayerChart:
    """All singular values of a table over the edge, by rank, as they are, centred, and of the control."""
    rows = []
    values, control = report.spectra[part]
    kinds = {part: values, INDEPENDENT: control}
    if part + CENTRED in report.spectra:
        kinds = {part: values, "centred": report.spectra[part + CENTRED][0], INDEPENDENT: control}
    for kind, every in kinds.items():
        ranks = np.unique(np.geomspace(1, len(every), MOST_RANKS).round().astype(int))
        shown = pd.DataFrame({"rank": ranks, "singular_value": every[ranks - 1], "kind": kind})
        rows.append(shown[shown["singular_value"] > 1e-6 * every[0]])
    return plot_curves(
        pd.concat(rows).round(5),
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


def _heads(report: Inspection) -> pd.DataFrame:
    """Shares beyond the edge by head, or of the whole matrix where it has one head."""
    found = report.table[report.table["quantity"].eq("beyond the edge") & report.table["layer"].notna()]
    found = found[found["part"].isin(["Q", "K", "V"])]
    several = found[found["head"].notna()]
    one = found[found["head"].isna()].assign(head=0)
    has_heads = set(zip(several["part"], several["layer"], strict=True))
    alone = [place not in has_heads for place in zip(one["part"], one["layer"], strict=True)]
    return pd.concat([several, one[alone]])


def _gradients(report: Inspection) -> alt.LayerChart | None:
    """One row per kind of layer, one mark per tensor, beside its rows in random orders."""
    struck = report.table[report.table["part"].str.match(r"gradient of (?!.*, mean of \d+$)")]
    if struck.empty:
        return None
    struck = struck.assign(part=struck["part"].str.removeprefix("gradient of "), tensor=range(len(struck)))
    own, permuted = (
        struck[["part", "tensor"]].assign(regularity=struck[column], rows=rows)
        for column, rows in (("value", "gradient"), ("null", "permuted"))
    )
    return plot_strip(
        pd.concat([own, permuted]), "regularity", "part", by="rows", by_names=["gradient", "permuted"],
        by_title="", null="permuted", seed="tensor", interval=False, limits=(0, 1),
    )  # fmt: skip


def map_rows(report: Inspection) -> EmbeddingMap:
    """A map of the rows that were measured, the first 800 of those that aren't zero.

    Parameters
    ----------
    report : Inspection
        With an embedding of more than ten rows.
    """
    chosen = np.flatnonzero(report.vectors.any(axis=1))[:N_MAPPED]
    return embedding_map(
        report.vectors[chosen],
        [report.tokens[place] for place in chosen],
        title=f"{len(chosen):,} rows of the embedding",
        caption=f"{report.name}.",
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
    table = pd.DataFrame(trace.layout, columns=["x", "y"]).assign(
        step=path.steps, loss=path.losses, phase=phases.labels
    )
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
