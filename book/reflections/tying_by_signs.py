"""Tying by signs: stored scores as the chapter shows them, and what stands where none are stored yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from IPython.display import Markdown

from book.ledger import published
from book.ledger.cells import Cell, load, missing, table_of
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


def stored(presets: Sequence[str], cells_of: Callable[[str], list[Cell]]) -> list[Cell]:
    """The cells of the first preset that is wholly stored; none where none is."""
    for preset in presets:
        cells = cells_of(preset)
        if cells and not missing(cells):
            return cells
    return []


def shown(picture: Callable[[], Any], cells: Sequence[Cell], otherwise: str) -> Any:
    """The picture, or where there are no cells a sentence that says how they come."""
    return picture() if cells else Markdown(otherwise)


def word_scores(cells: Sequence[Cell], way: str = "score") -> pd.DataFrame:
    """Score of each stored model on each word test.

    Parameters
    ----------
    cells : sequence of Cell
        From :func:`stored`.
    way : {"score", "frequent", "men_as_text"}
        As :func:`book.reflections.experiments.scores.score_vectors` has it.

    Returns
    -------
    DataFrame
        test, model, seed, score; ``attrs["run"]`` says what was trained on.
    """
    columns = ["test", "model", "seed", "score"]
    if not cells:
        return pd.DataFrame(columns=columns).assign(score=0.0)
    config = cells[0].config
    table = vectors.scores(cells, way)
    table = table.assign(test=table["test"].map(TESTS), model=table["signature"].map(MODELS))[columns]
    table = table.round({"score": 4})
    table.attrs["run"] = f"{config.corpus}, {config.n_epochs} epochs, d = {config.embedding_dim}"
    return table


def table_2() -> pd.DataFrame:
    """The paper's Table 2, text8: test, model, score."""
    paper = published("reflections.tied_sgns")
    rows = [
        (label, MODELS[signature], paper[f"{test}_{vectors.NAMES[signature]}"])
        for test, label in TESTS.items()
        for signature in ("free", "half", "random")
    ]
    return pd.DataFrame(rows, columns=["test", "model", "score"])


def ratios(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores over the free model's of the same seed: test, model, seed, ratio; where all free models pass."""
    free = scores[scores["model"] == MODELS["free"]]
    free = free[free.groupby("test")["score"].transform("min") > 0]
    both = scores.merge(free[["test", "seed", "score"]], on=["test", "seed"], suffixes=("", "_free"))
    both = both[both["model"] != MODELS["free"]].copy()
    both["ratio"] = (both["score"] / both["score_free"]).round(4)
    return both[["test", "model", "seed", "ratio"]]


def factor_readings(preset: str) -> list[Cell]:
    """Factorizations of a preset, the main reading of Remark 4.2 and the others."""
    return [*vectors.factor_cells(preset), *vectors.factor_readings(preset)]


def factor_table(cells: Sequence[Cell]) -> pd.DataFrame:
    """Stored factorizations: one row per reading, the share of +1 and the score of each word test.

    Scores are of items whose words all occur at least 100 times; how many these are stands in the last row.
    """
    rows: dict[str, list[float]] = {}
    for cell in cells:
        table, config = load([cell]), cell.config
        numbers = table[table["quantity"].isin(["share", "frequent"])].set_index("item")["value"]
        words = f"window {config.window}, count >= {config.min_count}"
        name = f"{words}, tokens shuffled" if config.shuffled else words
        rows[name] = [numbers["positive"], *(numbers[test] for test in TESTS)]
    columns = ["share of +1", *TESTS.values()]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).map("{:.2f}".format)
    counted = [vectors.tested_items.cell(vectors.TestedWords(cell.config.corpus)) for cell in cells[:1]]
    if counted and not missing(counted):
        items = load(counted).set_index("item")["value"]
        table.loc["items"] = ["", *(f"{items[test]:,.0f}" for test in TESTS)]
    return table


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
        (cell,) = (
            cell
            for cell in spectrum.weighted_cells("laptop", (5,), (round(near, 3),))
            if cell.config.matrix == MATRICES[matrix]
        )
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
    for preset in ("laptop", "paper"):
        text = vectors.SIZES[preset]["corpus"]
        weighted = spectrum.weighted_shares(spectrum.weighted_cells(preset)).query("window == 5")
        share = weighted.set_index("matrix")["share"]
        plain = spectrum.leading_shares(preset).query("window == 5 and d == 200 and matrix == 'pmi'")
        models = [cell for cell in vectors.free_cells(preset) if cell.stored()]
        models += [cell for cell in vectors.more_cells(preset, "free") if cell.stored()]
        rows[text] = {
            "PMI, a = 0": 1 - plain["share"].iloc[0],
            "PMI, a = 1/2": 1 - share["pmi"],
            "positive PMI, a = 1/2": 1 - share["ppmi"],
            "tokens in random order, a = 1/2": 1 - share["shuffled"],
            "trained map": vectors.reflected_shares(load(models))[""].mean(),
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
    table = vectors.scores(vectors.model_cells("laptop", tuple(shares)))
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
