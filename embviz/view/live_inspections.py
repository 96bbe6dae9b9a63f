"""The page of a model with a kernel: type a token, choose a layer and a head, choose the control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets
import numpy as np
import pandas as pd

from embviz.corpora.tokens import token_texts
from embviz.view.curves import plot_curves
from embviz.view.explorers import Choice, Explorer, Range
from embviz.view.inspection_pages import MATRICES, inspection_page
from embviz.view.page_parts import heading
from embviz.view.pages import Page
from embviz.view.typesetting import typeset

if TYPE_CHECKING:
    from embviz.inspection import Inspection

N_SHOWN = 12  # nearest tokens
PERMUTED, INDEPENDENT = "entries in random places", "independent entries"
WHOLE = "whole matrix"


def live_inspection(report: Inspection) -> Page:
    """The page of :func:`~embviz.view.inspection_page` with widgets that measure again.

    Parameters
    ----------
    report : Inspection
        Of a model that is still in memory or on disk. In a notebook it shows itself so.
    """
    page = inspection_page(report, progress=True)
    live: list[Any] = []
    if report.vocabulary and len(report.lengths):
        live += [heading("Nearest tokens among all"), token_finder(report)]
    if (explorer := explore_matrices(report)) is not None:
        live += [heading("Spectrum of one matrix or head"), explorer]
    return Page([*page.parts, *live], title=page.title)


def find_token(report: Inspection, text: str) -> int | None:
    """The row of a token as it is written, of the word that it begins, or of its text; None without one."""
    texts = token_texts(report.vocabulary)
    for candidates in (report.vocabulary, texts):
        for wanted in (text, f" {text}"):
            if wanted in candidates:
                return candidates.index(wanted)
    return None


def nearest_tokens(report: Inspection, row: int, *, centred: bool = True) -> pd.DataFrame:
    """The nearest tokens of one among all, beside the nearest of as many made rows.

    Parameters
    ----------
    report : Inspection
        With its weights and a vocabulary.
    row : int
        Of the token.
    centred : bool, default True
        Whether the mean of all rows is taken off first.

    Returns
    -------
    DataFrame
        token, cosine, the nearest first; a last row has the mean of the control.
    """
    assert report.weights is not None
    array = report.weights.arrays[str(report.names["embedding"])]
    table = array.read()
    if centred:
        table -= table.mean(axis=0, dtype=np.float64).astype(np.float32)
    lengths = np.linalg.norm(table, axis=1)
    cosines = table @ table[row] / np.where(lengths > 0, lengths, 1) / (lengths[row] or 1)
    cosines[row] = -2
    best = np.argpartition(-cosines, min(N_SHOWN, len(cosines) - 1))[:N_SHOWN]
    best = best[np.argsort(-cosines[best], kind="stable")]
    quantity = "cosine with the nearest"
    part = "embedding, centred" if centred else "embedding"
    control = report.table[report.table["part"].eq(part) & report.table["quantity"].eq(quantity)]["null"]
    names = [*(report.vocabulary[other] for other in best.tolist()), "control: a made row's nearest"]
    values = [*cosines[best].tolist(), float(control.iloc[0]) if len(control) else np.nan]
    return pd.DataFrame({"token": names, "cosine": values})


def token_finder(report: Inspection) -> ipywidgets.VBox:
    """A field to type a token, and its nearest tokens among all rows."""
    field = ipywidgets.Text(placeholder="a token, then Enter", description="token", continuous_update=False)
    centred = ipywidgets.Checkbox(value=True, description="centred", indent=False)
    shown = ipywidgets.HTML()

    def show(_: Any = None) -> None:
        if not field.value:
            return
        row = find_token(report, field.value)
        if row is None:
            shown.value = "<p>No token is written so.</p>"
            return
        shown.value = typeset(nearest_tokens(report, row, centred=centred.value).round(3))._repr_html_()

    for control in (field, centred):
        control.observe(show, "value")
    return ipywidgets.VBox([ipywidgets.HBox([field, centred]), shown])


def explore_matrices(report: Inspection) -> Explorer | None:
    """Singular values of one matrix or head beside a control that is chosen; None without layers."""
    from embviz.inspection import measures, roles  # they need torch, as whoever has a report does

    assert report.weights is not None
    try:
        maps = roles.attention_maps(report.weights, report.facts["n_heads"], report.facts["n_kv"])
    except ValueError:
        return None
    n_layers = max((one.layer for one in maps), default=-1) + 1
    every = [*maps, *roles.layer_matrices(report.weights, n_layers)]
    of_place = {(one.kind, one.layer): one for one in every}
    if n_layers < 2:
        return None
    heads = max(one.n_heads or 1 for one in every)

    def measure(matrix: str, layer: int, head: str, control: str) -> pd.DataFrame:
        one = of_place[matrix, layer]
        table = one.array.read()
        if head != WHOLE and one.n_heads and int(head) < one.n_heads:
            table = np.split(table, one.n_heads)[int(head)]
        values = measures.singular_values(table)
        if control == PERMUTED:
            permuted = np.random.default_rng(0).permutation(table.ravel()).reshape(table.shape)
            null = measures.singular_values(permuted)
        else:
            null = measures.normal_spectrum(len(table), table.shape[1], float(table.std()), seed=0)
        rows = [
            pd.DataFrame({"rank": np.arange(1, len(each) + 1), "singular_value": each, "kind": kind})
            for kind, each in (("matrix", values), ("control", null))
        ]
        return pd.concat(rows)

    kinds = [kind for kind in MATRICES if (kind, 0) in of_place]
    return Explorer(
        measure,
        {
            "matrix": Choice(kinds),
            "layer": Range(0, n_layers - 1, 1),
            "head": Choice([WHOLE, *map(str, range(heads))] if heads > 1 else [WHOLE]),
            "control": Choice([INDEPENDENT, PERMUTED]),
        },
        lambda data: plot_curves(
            data, "rank", "singular_value", kind="kind", names=["matrix", "control"], seed=None,
            null="control", kind_title="", x_title="rank of the singular value", y_title="singular value",
        ),
        title="{matrix} of layer {layer}, {head}",
        caption="A head that a matrix lacks shows the whole matrix.",
    )  # fmt: skip
