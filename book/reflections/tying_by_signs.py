"""Tying by signs: stored scores as the chapter shows them, and what stands where none are stored yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import pandas as pd
from IPython.display import Markdown

from book.reflections.experiments import vectors
from embviz.ledger import published
from embviz.ledger.cells import Cell, load, missing
from embviz.view import plot_curves, theme
from embviz.view.charts import Data

MODELS = {"free": "SGNS", "half": "WT", "random": "WTR", "ones": "plain"}
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


def sweep_curves() -> pd.DataFrame:
    """Figure 4's twin: share_plus, seed, shown, relative. Analogy tests stand apart: they part on the right.

    A test that models on the plateau don't pass is left out: over a score about 0 nothing is relative.
    """
    table = vectors.sweep_scores().rename(columns={"share": "share_plus"})
    plateau = table[table["share_plus"].between(0.35, 0.65)].groupby("test")["score"].min()
    table = table[table["test"].map(plateau) > 0].copy()
    kinds = {"mean": "mean of all tests", "google": "Google's analogies", "msr": "MSR's analogies"}
    table["shown"] = [kinds.get(test, "similarities") for test in table["test"]]
    groups = table.groupby(["share_plus", "seed", "shown"])["relative"]
    return groups.mean().round(4).reset_index()


def ends_of_sweep() -> str:
    """What the sweep shows: where the mean of all tests is highest, and what is left of it at both ends."""
    curves = sweep_curves().query("shown == 'mean of all tests'")
    means = curves.groupby("share_plus")["relative"].mean()
    ends = " and ".join(f"{means[share]:.0%} where {share:.0%} are" for share in means.index[[0, -1]])
    best = means.idxmax()
    return f"The mean score is highest where {best:.0%} of the signs are plus, and {ends} (plateau: 100%)"


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
        "score",
        kind="kind",
        names=kinds,
        seed=None,
        interval=False,
        limits=(-0.2, 1.05),
    )
    here = (
        alt.Chart(alt.Data(values=[{}]))
        .transform_calculate(at="share")
        .mark_rule(strokeDash=list(theme.DASHES[2]))
        .encode(x="at:Q")
    )
    return alt.LayerChart(layer=[lines, here]).properties(width="container", height=theme.HEIGHT)
