"""Words by the size of a number, largest first, or at both ends: bars with a name each, for explorers."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from embviz.view import theme
from embviz.view.charts import Data

CHOSEN, OTHER = "the chosen word", "another word"


def ranked(
    values: ArrayLike, words: Sequence[str], chosen: int | None = None, *, n_shown: int = 10
) -> pd.DataFrame:
    """The words with the largest values, and the chosen one wherever it stands.

    Parameters
    ----------
    values : array, shape (V,)
    words : sequence of str, length V
    chosen : int, optional
        Row of the word that is always shown.

    Returns
    -------
    DataFrame
        label (rank and word), place (from the top), value, kind; ties in the order of the words.

    >>> ranked([0.1, 0.9, 0.5], ["a", "b", "c"], 0, n_shown=1)["label"].tolist()
    ['1. b', '3. a']
    """
    numbers = np.asarray(values, dtype=float)
    order = np.argsort(-numbers.round(6), kind="stable")
    places = [place for place, row in enumerate(order) if place < n_shown or row == chosen]
    rows = order[places]
    return pd.DataFrame(
        {
            "label": [f"{place + 1}. {words[row]}" for place, row in zip(places, rows, strict=True)],
            "place": np.arange(len(rows)),
            "value": numbers[rows],
            "kind": [CHOSEN if row == chosen else OTHER for row in rows],
        }
    )


def plot_ranked(
    data: Data, field: str, *, limits: tuple[float, float] | None = None, told_apart: bool = True
) -> alt.LayerChart:
    """Bars of :func:`ranked`, the largest on top.

    Parameters
    ----------
    field : str
        What the axis is called, as in ``embviz.labels``.
    told_apart : bool
        Whether the chosen word has a colour of its own.
    """
    rows = alt.Y("label:N", sort=alt.EncodingSortField("place"), axis=alt.Axis(title=None, labelLimit=160))
    scale = alt.Scale(domain=list(limits)) if limits else alt.Scale()
    bars = alt.Chart(data).mark_bar().encode(x=alt.X("value:Q", axis=theme.axis(field), scale=scale), y=rows)
    if told_apart:
        bars = bars.encode(color=theme.point_styles("kind", [CHOSEN, OTHER])[0])
    return alt.LayerChart(layer=[bars]).properties(width="container", height=theme.HEIGHT)


def both_ends(values: ArrayLike, words: Sequence[str], *, n_shown: int = 10) -> pd.DataFrame:
    """The words with the largest and with the smallest values, the largest first.

    Parameters
    ----------
    values : array, shape (V,)
    words : sequence of str, length V, all different
    n_shown : int, default 10
        Words at each end; fewer where there are not so many.

    Returns
    -------
    DataFrame
        label (the word), place (from the top), value; ties in the order of the words.

    >>> both_ends([0.1, 0.9, 0.5], ["a", "b", "c"], n_shown=1)["label"].tolist()
    ['b', 'a']
    """
    numbers = np.asarray(values, dtype=float)
    order = np.argsort(-numbers.round(6), kind="stable")
    n_shown = min(n_shown, len(order) // 2)
    rows = np.concatenate([order[:n_shown], order[len(order) - n_shown :]])
    return pd.DataFrame(
        {"label": [words[row] for row in rows], "place": np.arange(len(rows)), "value": numbers[rows]}
    )


def plot_both_ends(data: Data, *, limits: tuple[float, float], x_title: str) -> alt.LayerChart:
    """Bars of :func:`both_ends`, each as thick as its word is high."""
    rows = alt.Y("label:N", sort=alt.EncodingSortField("place"), axis=alt.Axis(title=None, labelLimit=110))
    across = alt.X("value:Q", axis=alt.Axis(title=x_title, tickCount=5), scale=alt.Scale(domain=list(limits)))
    bars = alt.Chart(data).mark_bar(clip=True).encode(x=across, y=rows)
    return alt.LayerChart(layer=[bars]).properties(
        width="container", height=alt.Step(theme.HEIGHTS["half_row"])
    )
