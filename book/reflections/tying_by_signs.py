"""Tying by signs: scores of the tied models against the paper's, the share of signs, and why +1 alone fails.

Stored results come from :mod:`book.reflections.experiments.vectors`; what is measured live needs the
embedded corpus alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from scipy import stats

from book.reflections.experiments import vectors
from book.reflections.experiments.scores import ANALOGY_TESTS
from embviz import ledger, metrics, view
from embviz.corpora import corpus as corpora
from embviz.ledger import studies
from embviz.ledger.cells import Cell, load
from embviz.view import theme
from embviz.view.charts import Data, bin_counts
from embviz.view.sentences import number
from embviz.words.cooccurrence import count_pairs, pmi
from embviz.words.wordvectors import WordVectors

MODELS = {"free": "SGNS (free)", "half": "WT (half)", "random": "WTR (random)", "ones": "plain (all +1)"}
TESTS = {
    "wordsim": "WordSim-353",
    "men": "MEN",
    "mturk": "M. Turk",
    "rare_words": "Rare Words",
    "google": "Google",
    "msr": "MSR",
}
SIMILARITIES, ANALOGIES = "each similarity test", "each analogy test"
MEAN, NULL = "mean of all tests", "null: shares shuffled"
REPRODUCED, AGREEMENT, TRAINED = "entries reproduced", "cosines agree", "trained, tests"
N_WORDS, N_PAIRS = 1000, 4000  # of the live measurement: frequent words, pairs of them
GRID = tuple(round(0.05 * step, 2) for step in range(21))


def _nothing_stored() -> alt.LayerChart:
    """What stands where a figure's results have not been computed yet."""
    text = "No result is stored yet: compute it with `embviz run`."
    note = alt.Chart(alt.Data(values=[{}])).mark_text(color=theme.INK).encode(text=alt.TextValue(text))
    return alt.LayerChart(layer=[note]).properties(width="container", height=60)


# --- Table 2 ------------------------------------------------------------------------------------------


def model_cells() -> list[Cell]:
    """Models of the largest scale that is wholly stored and has word tests; none where there is no such."""
    preset = studies.find_study("reflections.tied_sgns").largest_stored()
    return vectors.model_cells(preset) if preset in ("laptop", "paper") else []


def word_scores(cells: Sequence[Cell], *, way: str = "score") -> pd.DataFrame:
    """Score of each model on each word test, beside the paper's.

    Parameters
    ----------
    cells : sequence of Cell
        From :func:`model_cells`; what isn't stored yet is left out.
    way : {"score", "frequent"}
        "score": an unknown word makes a similarity 0 and an analogy wrong, as in the paper's tool;
        "frequent": only items whose words all occur at least 100 times.

    Returns
    -------
    DataFrame
        test, model, score (mean over seeds), low, high (95%, bootstrap over a test's items), n_seeds,
        paper (missing where the paper has none, as for plain tying).
    """
    columns = ["test", "model", "score", "low", "high", "n_seeds", "paper"]
    stored = [cell for cell in cells if cell.stored()]
    if not stored:
        return pd.DataFrame(columns=columns)
    table = load(stored)
    scores = table[table["quantity"] == way]
    replicates = table[table["quantity"] == f"{way}_replicate"]
    published = {figure.name: figure.paper for figure in ledger.find_claim("reflections.tied_sgns").figures}
    rows = []
    for test, signature in ((test, signature) for test in TESTS for signature in MODELS):
        own = scores[(scores["item"] == test) & (scores["signature"] == signature)]["value"]
        if own.empty:
            continue
        again = replicates[(replicates["control"] == test) & (replicates["signature"] == signature)]
        spread = again.groupby("item")["value"].mean()
        low, high = np.quantile(spread - spread.mean(), [0.025, 0.975]) + own.mean()
        paper = published.get(f"{test}_{vectors.NAMES[signature]}")
        rows.append((TESTS[test], MODELS[signature], own.mean(), low, high, len(own), paper))
    return pd.DataFrame(rows, columns=columns)


def plot_word_scores(table: pd.DataFrame) -> alt.LayerChart:
    """Scores with intervals by test and model, and the paper's values."""
    if table.empty:
        return _nothing_stored()
    known = table.dropna(subset="paper")[["test", "model", "paper"]]
    return view.plot_strip(
        table,
        "score",
        "test",
        by="model",
        seed=None,
        interval=("low", "high"),
        published=known.rename(columns={"paper": "score"}) if len(known) else None,
    )


def compare_ways(cells: Sequence[Cell]) -> pd.DataFrame:
    """Both ways of treating unknown words side by side: a row a test and way, a column a model."""
    ways = {"score": "all items, unknown words wrong", "frequent": "items of frequent words"}
    tables = [word_scores(cells, way=way).assign(items=label) for way, label in ways.items()]
    table = pd.concat(tables)
    if table.empty:
        return table
    wide = table.pivot(index=["test", "items"], columns="model", values="score").reindex(
        columns=[model for model in MODELS.values() if model in set(table["model"])]
    )
    order = [(test, items) for test in TESTS.values() for items in ways.values()]
    return wide.reindex([key for key in order if key in wide.index]).astype(float).round(3)


def men_two_ways(cells: Sequence[Cell]) -> pd.DataFrame:
    """MEN with its ratings ranked as numbers and as text, beside the paper's value: a row a model."""
    stored = [cell for cell in cells if cell.stored()]
    if not stored:
        return pd.DataFrame(columns=["ranked as numbers", "ranked as text", "paper"])
    table = load(stored)
    men = table[(table["item"] == "men") & table["quantity"].isin(["score", "men_as_text"])]
    wide = men.pivot_table(index="signature", columns="quantity", values="value", aggfunc="mean")
    wide = wide.reindex([signature for signature in MODELS if signature in wide.index])
    published = {figure.name: figure.paper for figure in ledger.find_claim("reflections.tied_sgns").figures}
    names = {"score": "ranked as numbers", "men_as_text": "ranked as text"}
    shown = wide.rename(columns=names, index=MODELS)[list(names.values())].round(3)
    shown["paper"] = [number(published.get(f"men_{vectors.NAMES[name]}")) for name in wide.index]
    return shown.rename_axis(index="model", columns=None)


def parameter_counts(vocab_size: int, embedding_dim: int) -> pd.DataFrame:
    """Trained numbers of a free and a tied model, in millions; biases not counted.

    >>> parameter_counts(71_291, 200)["millions"].tolist()
    [28.5, 14.3]
    """
    names = [str(word) for word in range(vocab_size)]
    table = np.broadcast_to(np.float32(0), (vocab_size, embedding_dim))  # (V, D) that takes no memory
    free = WordVectors(names, table, table)
    tied = WordVectors(names, table, table, signature=np.ones(embedding_dim))
    counts = [model.n_parameters for model in (free, tied)]
    return pd.DataFrame({"model": ["free", "tied"], "millions": [round(n / 1e6, 1) for n in counts]})


# --- differences against their accepted ranges ---------------------------------------------------------


def claim_differences(claim_id: str) -> pd.DataFrame:
    """Measured differences of a claim, with accepted range, null and the paper's value.

    Returns
    -------
    DataFrame
        test, comparison, difference, low, high, accept_low, accept_high, null, paper; figures without
        an accepted range or a measurement are left out.
    """
    rows = []
    for row in ledger.entry(ledger.find_claim(claim_id)).rows:
        if row.figure.accept is None or row.finding is None:
            continue
        test, _, comparison = row.figure.label.partition(", ")
        found = row.finding
        null = found.nulls.get(row.figure.null) if row.figure.null else None
        rows.append(
            (test, comparison, found.value, found.low, found.high, *row.figure.accept, null, row.figure.paper)
        )
    columns = [
        "test",
        "comparison",
        "difference",
        "low",
        "high",
        "accept_low",
        "accept_high",
        "null",
        "paper",
    ]
    return pd.DataFrame(rows, columns=columns)


def plot_differences(table: pd.DataFrame) -> alt.LayerChart:
    """Differences with intervals over their accepted ranges (bars); nulls as grey triangles."""
    if table.empty:
        return _nothing_stored()
    chart = view.plot_strip(table, "difference", "test", by="comparison", seed=None, interval=("low", "high"))
    several = table.groupby("test")["comparison"].nunique().max() > 1
    place = {"y": "test:N"} | ({"yOffset": "comparison:N"} if several else {})
    base = alt.Chart(table).encode(**place)
    accepted = base.mark_bar(
        opacity=theme.OPACITY["band"], color=theme.CATEGORIES[0], size=theme.WIDTHS["tick_length"]
    ).encode(x="accept_low:Q", x2="accept_high:Q")
    null = (
        base.transform_filter("isValid(datum.null)")
        .mark_point(shape="triangle-down", size=theme.SIZES["mark"], color=theme.NULL_COLOUR)
        .encode(x="null:Q", tooltip=["test:N", "comparison:N", "null:Q"])
    )
    return (accepted + chart + null).properties(width="container")


# --- Figure 4 ------------------------------------------------------------------------------------------


def sweep_curves() -> pd.DataFrame:
    """Figure 4's twin at the largest scale stored: share, line (test and seed), kind, relative.

    The null shuffles the shares over the runs of each seed: what the mean would look like if the share
    made no difference.
    """
    preset = studies.find_study("reflections.proportion").largest_stored()
    if preset is None:
        return pd.DataFrame(columns=["share", "line", "kind", "relative"])
    table = vectors.sweep_scores()
    analogies = list(ANALOGY_TESTS)
    kinds = np.select(
        [table["test"] == "mean", table["test"].isin(analogies)], [MEAN, ANALOGIES], SIMILARITIES
    )
    table = table.assign(kind=kinds)
    mean = table[table["kind"] == MEAN].pivot(index="seed", columns="share", values="relative")
    shuffled = np.random.default_rng(0).permuted(mean.to_numpy(), axis=1)
    null = pd.DataFrame(shuffled, index=mean.index, columns=mean.columns).reset_index()
    null = null.melt("seed", value_name="relative").assign(kind=NULL, test="null")
    both = pd.concat([table, null.astype({"share": float})], ignore_index=True)
    both["line"] = both["test"] + ", seed " + both["seed"].astype(str)
    return both[["share", "line", "kind", "relative"]]


def plot_sweep(table: pd.DataFrame) -> alt.LayerChart:
    """Every test and seed thin, the mean of all tests and its null thick; the claimed plateau shaded.

    Parameters
    ----------
    table : DataFrame from :func:`sweep_curves`
    """
    if table.empty:
        return _nothing_stored()
    colour, dash = theme.line_styles("kind", [MEAN, SIMILARITIES, ANALOGIES, NULL])
    place = {
        "x": alt.X("share:Q", axis=theme.axis("share_plus", number_format=".0%")),
        "color": colour,
        "strokeDash": dash,
    }
    plateau = (
        alt.Chart(alt.Data(values=[{"left": 0.35, "right": 0.65}]))
        .mark_rect(opacity=0.12, color=theme.CATEGORIES[0])
        .encode(x="left:Q", x2="right:Q")
    )
    borders = alt.Chart(alt.Data(values=[{"at": 0.25}, {"at": 0.9}])).mark_rule(strokeDash=[2, 2])
    y = alt.Y("relative:Q", axis=theme.axis("relative"))
    thin = (
        alt.Chart(table)
        .transform_filter(f"datum.kind !== '{NULL}'")
        .mark_line(strokeWidth=1, opacity=0.5)
        .encode(y=y, detail="line:N", tooltip="line:N", **place)
    )
    thick = (
        alt.Chart(table)
        .transform_filter(f"datum.kind === '{MEAN}' || datum.kind === '{NULL}'")
        .mark_line(strokeWidth=3, point=True)
        .encode(y="mean(relative):Q", **place)
    )
    return alt.LayerChart(layer=[plateau, borders.encode(x="at:Q"), thin, thick]).properties(
        width="container", height=theme.HEIGHT
    )


# --- signs against what they can reproduce, live ----------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _frequent_pmi(n_words: int) -> np.ndarray:
    """PMI of the embedded corpus' most frequent words at window 5, (V, V)."""
    corpus = corpora.load_corpus("embedded").restrict(max_vocab=n_words, rare="hole")
    counts = count_pairs(corpus.ids, n_words, window=5, document_starts=corpus.document_starts)
    return pmi(counts).toarray()


@functools.lru_cache(maxsize=8)
def _eigenpairs(n_words: int, n_negative: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues (V,) and eigenvectors (V, V) of PMI - log k."""
    values, columns = np.linalg.eigh(_frequent_pmi(n_words) - np.log(n_negative))
    return values, columns


@functools.lru_cache(maxsize=4)
def _pairs(n_words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pairs of words i, j, and the ranks of the cosines of their positive-PMI rows, each (n,)."""
    i, j = np.random.default_rng(0).integers(n_words, size=(2, N_PAIRS))
    i, j = i[i != j], j[i != j]
    rows = np.maximum(_frequent_pmi(n_words), 0)
    return i, j, stats.rankdata(metrics.cosines(rows[i], rows[j]))


@functools.lru_cache(maxsize=2000)
def best_scores(
    n_positive: int, dimension: int, n_negative: int, *, n_words: int = N_WORDS
) -> tuple[float, float]:
    """How well the best W diag(q) W' with given signs fits PMI - log k, in least squares.

    Parameters
    ----------
    n_positive : int
        l, the number of +1 in q: the l largest eigenvalues are kept, and the d - l most negative.
    dimension : int
        d.
    n_negative : int
        k of negative sampling, whose optimum without a limit on d is PMI - log k.
    n_words : int
        Most frequent words of the embedded corpus.

    Returns
    -------
    pair of float
        Share of the squared entries that is reproduced, 0 to 1; Spearman's correlation of the cosines
        of W with those of rows of positive PMI, over random pairs of words.

    Raises
    ------
    ValueError
        If l lies outside 0..d, or there are not enough eigenvalues of either sign.
    """
    values, columns = _eigenpairs(n_words, n_negative)
    if not 0 <= n_positive <= dimension:
        raise ValueError(f"{n_positive} plus signs of {dimension}: choose between 0 and {dimension}")
    room = int((values > 0).sum()), int((values < 0).sum())
    if n_positive > room[0] or dimension - n_positive > room[1]:
        raise ValueError(f"{n_words} words have {room[0]} positive and {room[1]} negative eigenvalues: fewer "
                         f"dimensions than {dimension}, please")  # fmt: skip
    kept = np.r_[0 : dimension - n_positive, n_words - n_positive : n_words]
    word = columns[:, kept] * np.sqrt(np.abs(values[kept]))  # W, (V, D)
    i, j, ranks = _pairs(n_words)
    ours = stats.rankdata(metrics.cosines(word[i], word[j]))
    return float((values[kept] ** 2).sum() / (values**2).sum()), float(np.corrcoef(ours, ranks)[0, 1])


@functools.lru_cache(maxsize=1)
def _trained_mean() -> pd.DataFrame:
    curves = sweep_curves()
    mean = curves[curves["kind"] == MEAN].groupby("share")["relative"].mean()
    return pd.DataFrame({"plus": mean.index.to_numpy(), "score": mean.to_numpy()})


def sign_scores(share: float, dimension: int, n_negative: int) -> pd.DataFrame:
    """Scores over the share of +1, and at the chosen share.

    Parameters
    ----------
    share : float between 0 and 1
        The chosen share l/d, rounded to a whole number of signs.
    dimension, n_negative : int
        d and k, as for :func:`best_scores`.

    Returns
    -------
    DataFrame
        plus (share of +1), kind, score, chosen (whether it is the chosen share). The stored sweep of
        trained models stands among the kinds where there is one.
    """
    rows = []
    for at, chosen in [*((at, False) for at in GRID), (share, True)]:
        reproduced, agreement = best_scores(round(at * dimension), dimension, n_negative)
        rows += [(at, REPRODUCED, reproduced, chosen), (at, AGREEMENT, agreement, chosen)]
    table = pd.DataFrame(rows, columns=["plus", "kind", "score", "chosen"])
    trained = _trained_mean().assign(kind=TRAINED, chosen=False)
    return table if trained.empty else pd.concat([table, trained[table.columns]], ignore_index=True)


def plot_sign_scores(data: Data) -> alt.LayerChart:
    """Curves over the share of +1, with marks and numbers at the chosen share."""
    colour, dash = theme.line_styles("kind", [REPRODUCED, AGREEMENT, TRAINED])
    x = alt.X("plus:Q", axis=theme.axis("share_plus", number_format=".0%"))
    y = alt.Y("score:Q", axis=theme.axis("score"), scale=alt.Scale(domain=[-0.2, 1.1]))
    curves = (
        alt.Chart(data)
        .transform_filter("!datum.chosen")
        .mark_line()
        .encode(x=x, y=y, color=colour, strokeDash=dash)
    )
    here = alt.Chart(data).transform_filter("datum.chosen")
    rule = here.mark_rule(opacity=0.5).encode(x="plus:Q")
    points = here.mark_point(size=90).encode(x="plus:Q", y="score:Q", color=colour)
    numbers = here.mark_text(dy=-13, fontWeight="bold").encode(
        x="plus:Q", y="score:Q", text=alt.Text("score:Q", format=".2f")
    )
    return alt.LayerChart(layer=[curves, rule, points, numbers]).properties(
        width="container", height=theme.HEIGHT
    )


# --- why +1 alone fails -------------------------------------------------------------------------------


def self_association(n_words: int = N_WORDS, *, n_bins: int = 40) -> pd.DataFrame:
    """PMI of words with themselves and with other words, binned: pmi, kind, share.

    The zeros of pairs that never met are left out.
    """
    matrix = _frequent_pmi(n_words)
    kinds = {
        "a word with itself": np.diag(matrix),
        "two different words": matrix[np.triu_indices(n_words, 1)],
    }
    tables = []
    for kind, values in kinds.items():
        met = values[values != 0]
        bins = bin_counts(met, n_bins=n_bins, limits=(-5.0, 9.0))
        tables.append(bins.assign(pmi=(bins["left"] + bins["right"]) / 2, kind=kind))
    return pd.concat(tables, ignore_index=True)[["pmi", "kind", "share"]].round(4)


def plot_self_association(table: pd.DataFrame) -> alt.LayerChart:
    """Two densities over PMI as stepped lines."""
    colour, dash = theme.line_styles("kind", list(dict.fromkeys(table["kind"])))
    lines = (
        alt.Chart(table)
        .mark_line(interpolate="step")
        .encode(
            x=alt.X("pmi:Q", axis=theme.axis("pmi")),
            y=alt.Y("share:Q", axis=theme.axis("share_of_pairs")),
            color=colour,
            strokeDash=dash,
        )
    )
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[2, 2]).encode(x=alt.XDatum(0))
    return alt.LayerChart(layer=[lines, zero]).properties(width="container", height=theme.HEIGHT)


def few_minus_signs(dimension: int = 100, n_negatives: Sequence[int] = (1, 5, 100)) -> pd.DataFrame:
    """Share of PMI - log k that is reproduced with no, one, and a few minus signs among `dimension`.

    Returns
    -------
    DataFrame
        minus_signs (as text, in order), negatives (k, as text), reproduced.
    """
    rows = []
    for n_negative in n_negatives:
        for minus in (0, 1, 2, 5, 10, 20, 50):
            reproduced, _ = best_scores(dimension - minus, dimension, n_negative)
            rows.append((str(minus), f"k = {n_negative}", round(reproduced, 3)))
    return pd.DataFrame(rows, columns=["minus_signs", "negatives", "reproduced"])


def plot_few_minus_signs(table: pd.DataFrame) -> alt.LayerChart:
    """Share reproduced over the number of minus signs, a line for each k."""
    names = list(dict.fromkeys(table["negatives"]))
    colour, shape = theme.point_styles("negatives", names)
    _, dash = theme.line_styles("negatives", names)
    base = alt.Chart(table).encode(
        x=alt.X("minus_signs:O", axis=alt.Axis(title=theme.title("minus_signs"), labelAngle=0), sort=None),
        y=alt.Y("reproduced:Q", axis=theme.axis("reproduced", number_format=".0%")),
        color=colour,
    )
    lines = base.mark_line().encode(strokeDash=dash)
    points = base.mark_point(size=70).encode(
        shape=shape, tooltip=["minus_signs:O", "negatives:N", "reproduced:Q"]
    )
    return alt.LayerChart(layer=[lines, points]).properties(width="container", height=theme.HEIGHT)
