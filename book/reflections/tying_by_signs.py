"""Tying by signs: stored scores as the chapter shows them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from book.ledger import load_runs, published
from book.ledger.cells import table_of
from book.reflections.experiments import spectrum, vectors
from embviz.corpora.registry import DataMissingError
from embviz.view import Axis, plot_curves, theme
from embviz.view.charts import Data

MODELS = {
    "free": "SGNS",
    "half": "WT",
    "random": "WTR",
    "ones": "plain",
    "learned": "learned Q",
    "ones with bias": "plain, bias",
    "half with bias": "WT, bias",
    "free without bias": "SGNS, no bias",
}
TESTS = {
    "wordsim": "WordSim-353",
    "men": "MEN",
    "mturk": "M. Turk",
    "rare_words": "Rare Words",
    "google": "Google",
    "msr": "MSR",
}


def word_scores(corpus: str, signatures: Sequence[str], way: str = "score") -> pd.DataFrame:
    """Score of each stored model on each word test.

    Parameters
    ----------
    corpus : str
        What the models were trained on.
    signatures : sequence of str
        Keys of MODELS.
    way : {"score", "frequent", "men_as_text"}
        As :func:`book.reflections.experiments.scores.score_vectors` has it.

    Returns
    -------
    DataFrame
        test, model, seed, score; ``attrs["run"]`` says what was trained on.
    """
    table = load_runs(
        "reflections.skipgram", corpus=corpus, signature=list(signatures), seed=[1, 2, 3], word_tests=True
    )
    first = table.iloc[0]
    table["place"] = table["signature"].map(list(signatures).index)
    table = table.sort_values(["seed", "place"], kind="stable")
    rows = table[table["quantity"] == way].rename(columns={"value": "score"}).round({"score": 4})
    rows = rows.assign(test=rows["item"].map(TESTS), model=rows["signature"].map(MODELS))
    rows = rows[["test", "model", "seed", "score"]].reset_index(drop=True)
    rows.attrs["run"] = f"{corpus}, {first['n_epochs']} epochs, d = {first['embedding_dim']}"
    return rows


def table_2() -> pd.DataFrame:
    """The paper's Table 2, text8: test, model, score."""
    printed = pd.DataFrame(published("reflections.vectors"))
    table = printed.melt("test", ["free", "half", "random"], "model", "score")
    return table.assign(test=table["test"].map(TESTS), model=table["model"].map(MODELS))


def ratios(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores over the free model's of the same seed: test, model, seed, ratio; where all free models pass."""
    free = scores[scores["model"] == MODELS["free"]]
    free = free[free.groupby("test")["score"].transform("min") > 0]
    both = scores.merge(free[["test", "seed", "score"]], on=["test", "seed"], suffixes=("", "_free"))
    both = both[both["model"] != MODELS["free"]].copy()
    both["ratio"] = (both["score"] / both["score_free"]).round(4)
    return both[["test", "model", "seed", "ratio"]]


def factor_table() -> pd.DataFrame:
    """Stored factorizations: one row per reading, the share of +1 and the score of each word test.

    Scores are of items whose words all occur at least 100 times; how many these are stands in the last row.
    """
    rows: dict[str, list[float]] = {}
    readings = load_runs("reflections.factorized_pmi", corpus="enwiki2018")
    readings["order"] = -readings["min_count"] - readings["window"] / 10
    for (_, min_count, window, shuffled), own in readings.groupby(
        ["order", "min_count", "window", "shuffled"]
    ):
        numbers = own[own["quantity"].isin(["share", "frequent"])].set_index("item")["value"]
        words = f"window {window}, count >= {min_count}"
        name = f"{words}, tokens shuffled" if shuffled else words
        rows[name] = [numbers["positive"], *(numbers[test] for test in TESTS)]
    columns = ["share of +1", *TESTS.values()]
    shown = pd.DataFrame.from_dict(rows, orient="index", columns=columns).map("{:.2f}".format)
    items = load_runs("reflections.tested_items", corpus="enwiki2018").set_index("item")["value"]
    shown.loc["items"] = ["", *(f"{items[test]:,.0f}" for test in TESTS)]
    return shown


MATRICES = {"PMI": "pmi", "positive PMI": "ppmi", "tokens in random order": "shuffled"}


def weighted_leading(power: float, matrix: str) -> pd.DataFrame:
    """Leading eigenvalues of PMI weighted by p^a on both sides, on text8's first eighth, window 5.

    Parameters
    ----------
    power : float from 0 to 1/2
        a. One that is not stored is computed where the text is on this machine; elsewhere the nearest stored
        one is taken.
    matrix : str
        A key of MATRICES.

    Returns
    -------
    DataFrame
        rank, eigenvalue (over the largest in magnitude), sign, weight (the a that was taken).
    """
    for near in (power, min(spectrum.POWERS, key=lambda stored: abs(stored - power))):
        cell = spectrum.weighted_cell("text8_prefix", MATRICES[matrix], round(near, 3))
        try:
            values = table_of(cell)["eigenvalue"].to_numpy()
            break
        except DataMissingError:
            continue
    values = values[np.argsort(-np.abs(values), kind="stable")]
    table = pd.DataFrame({"rank": np.arange(1, len(values) + 1), "eigenvalue": values / abs(values[0])})
    table["sign"] = np.where(values > 0, "plus", "minus")
    return table.round({"eigenvalue": 5}).assign(weight=near)


def weighted_shares_in_words(table: pd.DataFrame) -> str:
    """Shares of plus at one weight; `table` joins :func:`weighted_leading` of all matrices."""
    plus = (table["sign"] == "plus").groupby(table["matrix"]).mean()
    return (
        f"At a = {table['weight'].iloc[0]:g}, {plus['PMI']:.1%} of the leading signs of PMI are plus, "
        f"{plus['positive PMI']:.1%} of positive PMI, and {plus['tokens in random order']:.1%} of tokens in "
        "random order"
    )


def weighted_finding(curves: pd.DataFrame) -> str:
    """What the shares over the weight show; `curves` has matrix, power and share."""
    share = curves.set_index(["matrix", "power"])["share"]
    return (
        f"With skip-gram's weights {share['PMI', 0.5]:.1%} of PMI's leading signs are plus, "
        f"with equal weights {share['PMI', 0.0]:.1%}; of positive PMI's {share['positive PMI', 0.5]:.1%} and "
        f"{share['positive PMI', 0.0]:.1%}"
    )


def predicted_and_trained() -> pd.DataFrame:
    """Share of negative signs by text: unweighted and weighted PMI, of tokens in random order, and trained.

    The first ones are of the 200 leading eigenvalues at window 5; "trained" is the mean over stored models of
    the share of eigenvalues of the map that are negative and nearly real.
    """
    rows = {}
    for text in ("text8_prefix", "enwiki2018"):
        weighted = load_runs("reflections.weighted_signs", corpus=text, window=5, power=0.5)
        share = spectrum.weighted_shares(weighted).set_index("matrix")["share"]
        plain = load_runs("reflections.spectrum", corpus=text, window=5, matrix="pmi")["eigenvalue"]
        models = load_runs("reflections.skipgram", corpus=text, signature="free", word_tests=True)
        rows[text] = {
            "PMI, a = 0": 1 - spectrum.leading_share(plain.to_numpy(dtype=float), 200),
            "PMI, a = 1/2": 1 - share["pmi"],
            "positive PMI, a = 1/2": 1 - share["ppmi"],
            "tokens in random order, a = 1/2": 1 - share["shuffled"],
            "trained map": vectors.reflected_shares(models)[""].mean(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("text")


def sweep_curves() -> pd.DataFrame:
    """Figure 4's twin: share_plus, seed, shown, relative. Analogy tests stand apart: they part on the right.

    A test that models on the plateau don't pass is left out: over a score about 0 nothing is relative.
    """
    table = vectors.sweep_scores().rename(columns={"share": "share_plus"})
    plateau = table[table["share_plus"].between(0.35, 0.65)].groupby("test")["score"].min()
    table = table[table["test"].map(plateau) > 0].copy()
    kinds = {"mean": "mean of all tests", "google": "Google's analogies", "msr": "MSR's analogies"}
    table["shown"] = [kinds.get(test, "similarities") for test in table["test"]]
    groups = pd.concat([table, _with_bias(table)]).groupby(["share_plus", "seed", "shown"])["relative"]
    return groups.mean().round(4).reset_index()


def _with_bias(sweep: pd.DataFrame) -> pd.DataFrame:
    """Scores of tied models with an output bias over the plateau of models without, on the same tests."""
    one = sweep[sweep["test"] != "mean"].drop_duplicates(["test", "seed"]).set_index(["test", "seed"])
    plateau = one["score"] / one["relative"]
    shares = {"half with bias": 0.5, "ones with bias": 1.0}
    runs = load_runs("reflections.skipgram", corpus="text8_prefix", signature=list(shares), seed=[1, 2, 3])
    table = runs[runs["quantity"] == "score"].rename(columns={"item": "test", "value": "score"})
    table["relative"] = (
        table["score"] / plateau.reindex(pd.MultiIndex.from_frame(table[["test", "seed"]])).to_numpy()
    )
    table["share_plus"] = table["signature"].map(shares)
    return table.dropna(subset="relative").assign(shown="mean of all tests, with a bias")


def ends_of_sweep() -> str:
    """What the sweep shows: where the mean of all tests is highest, and what is left of it at both ends."""
    curves = sweep_curves().query("shown == 'mean of all tests'")
    means = curves.groupby("share_plus")["relative"].mean()
    low, high = means.index[[0, -1]]
    return (
        f"The mean score is highest with {means.idxmax():.0%} of the signs plus; with {low:.0%} it is "
        f"{means[low]:.0%} of the plateau's, with {high:.0%} it is {means[high]:.0%}"
    )


def with_mark(curves: Data, kinds: Sequence[str]) -> alt.LayerChart:
    """Curves of `score` over the share of plus signs, and an upright line at the explorer's control.

    Parameters
    ----------
    curves : data of an explorer
        share_plus, kind, score; the explorer's control is called ``share``.
    """
    lines = plot_curves(
        curves,
        "share_plus",
        Axis("score", limits=(-0.2, 1.05)),
        kind="kind",
        names=kinds,
        seed=None,
        interval=False,
    )
    here = (
        alt.Chart(alt.Data(values=[{}]))
        .transform_calculate(at="share")
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x="at:Q")
    )
    return alt.LayerChart(layer=[lines, here]).properties(width="container", height=theme.HEIGHT)
