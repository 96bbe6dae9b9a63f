"""Pictures of reports on what is yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import altair as alt
import numpy as np
import pandas as pd

from embviz.view.charts import mirrored_bins
from embviz.view.histograms import plot_histogram
from embviz.view.multiples import Form, panels
from embviz.view.paths import plot_path
from embviz.view.strips import plot_strip
from embviz.view.theme import captioned
from embviz.words.reports import SHUFFLED, SpectrumReport

if TYPE_CHECKING:
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
