"""Pictures of reports on what is yours."""

from __future__ import annotations

import json
import os
from typing import Any

import altair as alt
import numpy as np

from embviz.storage import whole_file
from embviz.view.charts import mirrored_bins
from embviz.view.histograms import plot_histogram
from embviz.view.multiples import panels
from embviz.view.theme import captioned
from embviz.words.reports import SHUFFLED, SpectrumReport

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
        charts[name] = plot_histogram(bins, "pmi_eigenvalue", mirrored=True)
    lots = report.scores[report.scores["matrix"] == SHUFFLED]
    return captioned(
        panels(charts, columns=1),
        finding=f"The spectrum of {report.name!r} beside its mirror image",
        caption=f"{report.sentence} The outermost {1 - SHOWN:.0%} of each lie beyond the axes. "
        f"Shuffled: the first of {len(lots)} random orders, seed {lots['seed'].min()}.",
    )


def save_page(chart: alt.ConcatChart, path: str | os.PathLike[str]) -> None:
    """Write a chart as a page of its own that asks no other host for anything; no name in it runs as HTML.

    Parameters
    ----------
    chart : Altair chart
    path : path
        Of the .html file; a file of that name is replaced once the new one is whole.
    """
    with whole_file(path) as temporary:
        chart.save(str(temporary), format="html", inline=True, json_kwds={"cls": _WithoutTags})


class _WithoutTags(json.JSONEncoder):
    """JSON that closes no script element."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")
