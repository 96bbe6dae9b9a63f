"""Axis titles by column name: what the package's own tables need, and what a notebook adds.

A column that has no entry shows its name. ``LABELS["my_gap"] = Label("gap of the losses", "nats")`` gives it
words and a unit in every chart from then on. Nothing here needs a library for charts.
"""

import re
from typing import NamedTuple


class Label(NamedTuple):
    """What a column is called on an axis, and its unit (None for a pure number)."""

    words: str
    unit: str | None = None


LABELS: dict[str, Label] = {
    "disparity": Label("Procrustes disparity"),
    "epoch": Label("epoch", "passes over the data"),
    "loss_correlation": Label("rank correlation with drops of the loss"),
    "n_neighbors": Label("neighbours"),
    "n_phases": Label("phases"),
    "pmi": Label("pointwise mutual information", "nats"),
    "pmi_eigenvalue": Label("eigenvalue of the PMI matrix", "nats"),
    "regularity": Label("regularity ρ"),
    "step": Label("step", "updates"),
}


def title(field: str) -> str:
    """Words for a field, with the unit in brackets.

    A column has its name for a title until it gets words in ``LABELS``.

    >>> title("pmi"), title("my_gap")
    ('pointwise mutual information (nats)', 'my gap')
    """
    words, unit = LABELS.get(field, Label(field.replace("_", " ")))
    return words if unit is None else f"{words} ({unit})"


# What gives a comparison and no result of its own has one of these words in its name.
CONTROL = re.compile(
    r"\b(controls?|baselines?|shuffled|untrained|never trained|before training|by chance|permuted"
    r"|white noise|(dealt|drawn) at random"
    r"|random (walks?|vectors?|numbers|order|pairs?|rows|directions|initialization))\b",
    re.IGNORECASE,
)
DRAWN = re.compile(r"\brandom (subspaces?|modes|graphs?)\b|\bits rotation\b", re.IGNORECASE)  # rows of tables
LONGEST = 60  # characters of such a name: what is longer is a sentence


def is_control(name: str, *, row: bool = False) -> bool:
    """Whether a row or a kind is a control by its name: charts and tables show it in grey.

    Parameters
    ----------
    name : str
        Of a kind in a chart, or of a row in a table.
    row : bool
        A row of a table is a control also if it is named after a random subspace, random modes, a random
        graph or a rotation; a chart can compare those with each other.

    >>> is_control("random walk"), is_control("tokens shuffled"), is_control("training")
    (True, True, False)
    >>> is_control("random subspace"), is_control("random subspace", row=True)
    (False, True)
    """
    found = CONTROL.search(name) or (row and DRAWN.search(name))
    return len(name) <= LONGEST and bool(found)
