"""Axis titles by column name: what the package's own tables need, and what a project adds.

A column that has no entry shows its name. ``LABELS["my_gap"] = Label("gap of the losses", "nats")`` gives it
words and a unit in every chart from then on. Nothing here needs a library for charts.
"""

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
