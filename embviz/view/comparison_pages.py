"""A comparison of two models as a page: quantities, a map that slides from one to the other, changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from embviz.view.curves import plot_curves
from embviz.view.embedding_maps import SideBySide, pick_a_word
from embviz.view.explorers import Choice, Explorer
from embviz.view.heat_maps import plot_heat_map
from embviz.view.page_parts import cards, fold_table, heading
from embviz.view.pages import Page
from embviz.view.theme import captioned

if TYPE_CHECKING:
    from embviz.inspection import Comparison

N_MAPPED = 1_000  # tokens of the map that slides: half of them moved most, the others are the first ones
MEANINGS = {
    "cosine of": "The average cosine of a token's row in one and its row in the other, after the best "
    "rotation, which is fitted on other tokens. 1: nothing but a rotation. The control pairs random tokens.",
    "cosine without": "The same without a rotation: 1 if nothing changed, about 0 if the two were trained "
    "apart, since training chooses its directions at random.",
    "share of": "Of a token's nearest tokens in one, the share that are among its nearest in the other. It "
    "needs no alignment. The control pairs random tokens.",
    "correlation": "Whether two tokens that are near each other in one are near in the other: the "
    "correlation of cosines over random pairs. The control has tokens in random order.",
}
CHANGED = {
    "change": "norm of the change over the norm of the matrix",
    "rank": "directions that hold 90% of the squared change",
    "rank over its control": "the same over a random change's",
}


def comparison_page(found: Comparison) -> Page:
    """The comparison of two models as a page.

    Parameters
    ----------
    found : Comparison
        Of :func:`embviz.inspection.compare`.

    Returns
    -------
    Page
        Shows itself in a notebook; ``.save("page.html")`` writes a page that works offline.
    """
    first, second = found.names
    quantities = []
    for row in found.table.to_dict("records"):
        meaning = next(text for start, text in MEANINGS.items() if row["quantity"].startswith(start))
        quantities.append((row["quantity"], row["value"], row["control"], meaning))
    parts: list[Any] = [
        heading(f"{first} and {second}", found.sentence, level=1),
        cards(quantities),
        heading("Which tokens moved", "The slider goes from the first to the second, turned onto the first."),
        map_moves(found),
        fold_table("The tokens that moved most, and their nearest tokens in both", found.moved.round(3)),
    ]
    if (explorer := explore_changes(found)) is not None:
        parts += [heading("Which matrices changed"), explorer]
    parts += [heading("Spectra"), plot_both_spectra(found), heading("Tables")]
    tables = {"All quantities": found.table.round(4), "Changes of matrices": found.changes.round(5)}
    parts += [fold_table(title, table) for title, table in tables.items() if len(table)]
    return Page(parts, title=f"{first} and {second}")


def map_moves(found: Comparison) -> SideBySide:
    """A map with a slider from the first to the second, above the same of tokens in random order."""
    first, second = found.names
    moved = np.argsort(found.cosines, kind="stable")[: N_MAPPED // 2]
    chosen = np.unique(np.concatenate([moved, np.arange(min(N_MAPPED // 2, len(found.tokens)))]))
    rows = {name: table[chosen] for name, table in found.rows.items()}
    there = np.all([table.any(axis=1) for table in rows.values()], axis=0)
    a, b, permuted = (table[there] for table in rows.values())
    kept = chosen[there]
    return pick_a_word(
        {first: a, second: b},
        [found.tokens[place] for place in kept],
        null={first: a, second: permuted},
        names=("tokens", "control: the second's tokens in random order"),
        over="model",
        first=first,
        compared={f"in {first}": a},
        color={"cosine of its two rows": found.cosines[kept].tolist()},
        n_neighbors=min(8, len(kept) - 2),
        title=f"{len(kept):,} tokens in both",
        caption=f"{len(moved):,} tokens that moved most, and the first ones of {first}.",
    )


def explore_changes(found: Comparison) -> Explorer | None:
    """A heat map of the changes over layers and matrices; None where no layers are shared."""
    table = found.changes[found.changes["layer"].notna()]
    if not len(table):
        return None

    def measure(quantity: str) -> pd.DataFrame:
        over = table["rank"] / table["rank_of_random"]
        amount = over if quantity == "rank over its control" else table[quantity]
        cells = {"layer": table["layer"].astype(int), "matrix": table["part"], "amount": amount.astype(float)}
        return pd.DataFrame(cells)

    names = list(dict.fromkeys(table["part"]))
    return Explorer(
        measure,
        {"quantity": Choice(list(CHANGED), format=lambda name: CHANGED[name])},
        lambda data: plot_heat_map(
            data, "layer", "matrix", "amount", y_names=names, y_title="", value_title=""
        ),
        title="How each matrix changed",
        caption="Control: a change of independent entries, whose rank is large.",
    )


def plot_both_spectra(found: Comparison) -> alt.LayerChart:
    """Singular values of the compared rows of both, by rank."""
    rows = []
    for name, values in found.spectra.items():
        ranks = np.unique(np.geomspace(1, len(values), 300).round().astype(int))
        rows.append(pd.DataFrame({"rank": ranks, "share": values[ranks - 1], "model": name}))
    table = pd.concat(rows)
    chart = plot_curves(
        table[table["share"] > 1e-6].round(6), "rank", "share", kind="model", names=list(found.spectra),
        seed=None, scale="log", x_scale="log", kind_title="", x_title="rank of the singular value",
        y_title="singular value over the root of the sum of squares",
    )  # fmt: skip
    return captioned(chart, finding="Spectra of the shared tokens, centred", caption=found.sentence)
