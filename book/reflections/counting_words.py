"""What the chapter on counting words measures and draws: Zipf's law, thresholds, windows, PMI, partners."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import ArrayLike

from embviz.corpora import corpus as corpora
from embviz.view import charts, theme
from embviz.words import cooccurrence, spectra

AS_WRITTEN, SHUFFLED = "as written", "shuffled"
LAWS = {"α = 0 (Zipf)": 0.0, "α = 0.25": 0.25, "α = 1 (all equal)": 1.0}
PARTNERS_FROM = 300  # tokens: least count of the words whose partners are shown
MEASURES = ("PMI", "contexts to the power 0.75", "1 added to every count", "counts alone")


# --- the text in small ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def frequent_words(min_count: int) -> corpora.Corpus:
    """The embedded corpus with a hole in place of every word rarer than `min_count` tokens."""
    return corpora.load_corpus("embedded").restrict(min_count=min_count, rare="hole")


@functools.lru_cache(maxsize=40)
def embedded_counts(window: int, min_count: int, shuffled: bool = False) -> scipy.sparse.csr_array:
    """Co-occurrence counts of the embedded corpus, kept once counted; don't write into them.

    Parameters
    ----------
    window : int, in places to each side
    min_count : int, in tokens
        Rarer words leave holes.
    shuffled : bool, default False
        Put the tokens, holes too, in random order first (seed 0).

    Returns
    -------
    csr_array, shape (V, V)
    """
    corpus = frequent_words(min_count)
    ids = spectra.shuffle_tokens(corpus.ids, seed=0) if shuffled else corpus.ids
    return cooccurrence.count_pairs(
        ids, len(corpus.vocabulary), window=window, document_starts=corpus.document_starts
    )


def labelled(counts: scipy.sparse.csr_array, vocabulary: Sequence[str]) -> pd.DataFrame:
    """Counts, or any small matrix over words, as a table with the words at its sides; shape (V, V)."""
    return pd.DataFrame(counts.toarray(), index=list(vocabulary), columns=list(vocabulary))


# --- how often words occur ----------------------------------------------------------------------------


def rank_frequency(counts: ArrayLike, *, n_points: int = 60) -> pd.DataFrame:
    """Count against rank on a grid of ranks, beside three laws with the same number of tokens.

    Parameters
    ----------
    counts : array of int, shape (V,), falling
    n_points : int, default 60
        Ranks shown, evenly apart on a logarithmic scale.

    Returns
    -------
    DataFrame with `law` ("counted" or a key of LAWS), `rank` and `frequency` (tokens)

    Raises
    ------
    ValueError
        If the counts don't fall from rank to rank, or go down to 0.

    Source
    ------
    Reflections paper, eq. 4: the share of the word of rank r is proportional to r^-(1 - α).
    """
    counts = np.asarray(counts, dtype=float)
    if counts.size == 0 or (np.diff(counts) > 0).any() or counts[-1] <= 0:
        raise ValueError("counts must fall from rank to rank and stay above 0: sort them first")
    ranks = np.arange(1, len(counts) + 1)  # (V,)
    curves = {"counted": counts}
    for law, alpha in LAWS.items():
        weights = ranks ** -(1.0 - alpha)
        curves[law] = counts.sum() * weights / weights.sum()
    shown = np.unique(np.round(np.geomspace(1, len(counts), n_points)).astype(int))
    parts = [
        pd.DataFrame({"law": law, "rank": shown, "frequency": curve[shown - 1]})
        for law, curve in curves.items()
    ]
    return pd.concat(parts, ignore_index=True).round({"frequency": 1})


def plot_rank_frequency(table: pd.DataFrame) -> alt.Chart:
    """Counts of :func:`rank_frequency` and the laws, both axes logarithmic."""
    colour, dash = theme.line_styles("law", list(dict.fromkeys(table["law"])))
    log = alt.Scale(type="log", nice=False)
    return (
        alt.Chart(table)
        .mark_line()
        .encode(
            x=alt.X("rank:Q", scale=log, axis=theme.axis("rank", number_format="~s", tick_count=5)),
            y=alt.Y("frequency:Q", scale=log, axis=theme.axis("frequency", number_format="~s", tick_count=6)),
            color=colour,
            strokeDash=dash,
        )
        .properties(width="container", height=theme.HEIGHT)
    )


def threshold_shares(counts: ArrayLike, thresholds: Sequence[int]) -> pd.DataFrame:
    """Share of tokens and of types in words at least as frequent as each threshold.

    Returns
    -------
    DataFrame with `threshold` (tokens), `of` ("tokens" or "types"), `kept` (0..1) and `words` kept
    """
    counts = np.asarray(counts)
    rows = []
    for threshold in thresholds:
        frequent = counts[counts >= threshold]
        for of, share in (("tokens", frequent.sum() / counts.sum()), ("types", frequent.size / counts.size)):
            rows.append({"threshold": threshold, "of": of, "kept": float(share), "words": frequent.size})
    return pd.DataFrame(rows).round({"kept": 5})


def plot_threshold_shares(table: pd.DataFrame) -> alt.LayerChart:
    """Shares of :func:`threshold_shares` over the threshold, on a logarithmic axis."""
    log = alt.Scale(type="log", nice=False)
    return _lines_with_points(
        table,
        x=alt.X("threshold:Q", scale=log, axis=theme.axis("threshold", tick_count=4)),
        y=alt.Y("kept:Q", axis=theme.axis("kept", number_format=".0%")),
        by="of",
    )


def _lines_with_points(table: pd.DataFrame, *, x: alt.X, y: alt.Y, by: str) -> alt.LayerChart:
    names = list(dict.fromkeys(table[by]))
    colour, dash = theme.line_styles(by, names)
    _, shape = theme.point_styles(by, names)
    lines = alt.Chart(table).mark_line().encode(x=x, y=y, color=colour, strokeDash=dash)
    points = alt.Chart(table).mark_point(opacity=1).encode(x=x, y=y, color=colour, shape=shape)
    return alt.LayerChart(layer=[lines, points]).properties(width="container", height=theme.HEIGHT)


# --- what the window, and the order of the words, do ---------------------------------------------------


def met_shares(windows: Sequence[int], min_count: int) -> pd.DataFrame:
    """Share of all pairs of words that ever met within each window, in the text and in its shuffled tokens.

    Returns
    -------
    DataFrame with `window`, `text` ("as written" or "shuffled") and `met` (0..1)
    """
    rows = []
    for text, shuffled in ((AS_WRITTEN, False), (SHUFFLED, True)):
        for window in windows:
            counts = embedded_counts(window, min_count, shuffled)
            rows.append({"window": window, "text": text, "met": counts.nnz / counts.shape[0] ** 2})
    return pd.DataFrame(rows).round({"met": 5})


def plot_met_shares(table: pd.DataFrame) -> alt.LayerChart:
    """Shares of :func:`met_shares` over the window."""
    axis = theme.axis("window")
    axis["values"] = sorted(set(table["window"]))
    return _lines_with_points(
        table,
        x=alt.X("window:Q", axis=axis),
        y=alt.Y("met:Q", axis=theme.axis("met", number_format=".0%"), scale=alt.Scale(domain=[0, 1])),
        by="text",
    )


def pmi_histograms(window: int, min_count: int, *, n_bins: int = 64, limit: float = 8.0) -> pd.DataFrame:
    """Histograms of PMI over the pairs that met, in the text and in its shuffled tokens.

    Returns
    -------
    DataFrame with `text`, `left` and `right` (nats) and `pairs`, the share of the pairs that met
    """
    parts = []
    for text, shuffled in ((AS_WRITTEN, False), (SHUFFLED, True)):
        values = cooccurrence.pmi(embedded_counts(window, min_count, shuffled)).data
        bins = charts.bin_counts(values, n_bins=n_bins, limits=(-limit, limit))
        shares = bins.rename(columns={"share": "pairs"})[["left", "right", "pairs"]]
        parts.append(shares.assign(text=text))
    return pd.concat(parts, ignore_index=True).round({"pairs": 5})


def plot_pmi_histograms(table: pd.DataFrame) -> alt.LayerChart:
    """Histograms of :func:`pmi_histograms` as stepped outlines, with a line at zero."""
    colour, dash = theme.line_styles("text", [AS_WRITTEN, SHUFFLED])
    outline = (
        alt.Chart(table)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("left:Q", axis=theme.axis("pmi")),
            y=alt.Y("pairs:Q", axis=theme.axis("pairs", number_format=".0%")),
            color=colour,
            strokeDash=dash,
        )
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0.5).encode(x=alt.XDatum(0))
    return alt.LayerChart(layer=[outline, zero]).properties(width="container", height=theme.HEIGHT)


# --- a word's strongest partners ----------------------------------------------------------------------


@functools.lru_cache(maxsize=40)
def _strengths(window: int, measure: str, shuffled: bool) -> scipy.sparse.csr_array:
    counts = embedded_counts(window, PARTNERS_FROM, shuffled)
    if measure == "counts alone":
        return counts
    if measure == "PMI":
        return cooccurrence.pmi(counts)
    if measure == "contexts to the power 0.75":
        return cooccurrence.pmi(counts, context_power=0.75)
    if measure == "1 added to every count":
        return scipy.sparse.csr_array(cooccurrence.pmi(counts.toarray(), smoothing=1.0))
    raise ValueError(f"measure is {measure!r}: use one of {', '.join(MEASURES)}")


def strongest_partners(
    word: str, window: int, measure: str, shuffled: bool, *, n_partners: int = 10
) -> pd.DataFrame:
    """The words that `word` is most strongly tied to in the embedded corpus.

    Parameters
    ----------
    word : str
        At least 300 times in the corpus.
    window : int, in places to each side
    measure : one of MEASURES
    shuffled : bool
        Count the shuffled tokens instead of the text.
    n_partners : int, default 10

    Returns
    -------
    DataFrame with `partner`, `strength` (nats, or times met) and `met` (times), strongest first

    Raises
    ------
    ValueError
        If the word is too rare, or the measure is none of ours.
    """
    vocabulary = frequent_words(PARTNERS_FROM).vocabulary
    if word not in vocabulary:
        raise ValueError(
            f"{word!r} is not among the words with at least {PARTNERS_FROM} tokens: choose another"
        )
    row = vocabulary.index(word)
    strengths = _strengths(window, measure, shuffled)[[row]].toarray()[0].round(6)  # or rounding sorts ties
    met = embedded_counts(window, PARTNERS_FROM, shuffled)[[row]].toarray()[0]
    tied = np.flatnonzero(strengths)
    order = tied[np.lexsort((-met[tied], -strengths[tied]))][:n_partners]
    names = [vocabulary[i] for i in order]
    return pd.DataFrame({"partner": names, "strength": strengths[order].astype(float), "met": met[order]})


def plot_partners(data: charts.Data) -> alt.Chart:
    """Partners of :func:`strongest_partners` as bars, strongest on top; their names are plain text."""
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("strength:Q", axis=theme.axis("strength")),
            y=alt.Y("partner:N", sort="-x", axis=alt.Axis(title=None, labelLimit=140)),
            tooltip=[
                "partner:N",
                alt.Tooltip("strength:Q", format=".3~g"),
                alt.Tooltip("met:Q", title="times met"),
            ],
        )
        .properties(width="container", height=theme.HEIGHT)
    )
