"""The stored runs of the chapter on random projections, as tables.

Source: the resizing paper, sections 2.2, 4.2, 5 and 8, Appendix A.
"""

from __future__ import annotations

import functools

import pandas as pd

from book.ledger import load_runs
from book.resizing import story
from book.resizing.experiments import bases, geometry
from book.resizing.experiments.geometry import Vectors
from embviz import projections

NAMES = {
    "gaussian": "Gaussian",
    "rademacher": "Rademacher",
    "sparse": "sparse",
    "hadamard": "Hadamard",
    "orthonormal": "row-orthonormal",
}


@functools.cache
def model_vectors() -> Vectors:
    """Embeddings of the base model, and hidden states on the bundled text; loaded once."""
    run = bases.base()
    return geometry.vectors(run, streams=story.streams_for(bases.load(run)))


def worst_pairs() -> pd.DataFrame:
    """The worst pair of token embeddings at each width: the value that 95% of the draws stay below.

    Returns
    -------
    DataFrame
        family (as shown), new_width, worst_change. Widths at which a family turns the space and drops nothing
        are left out: every distance is kept there.
    """
    table = load_runs("resizing.lemma")
    own = table[(table["quantity"] == "worst") & (table["value"] > projections.ROUNDING)]
    groups = own.groupby(["family", "m"], sort=False)["value"].quantile(1 - geometry.DELTA)
    found = groups.rename("worst_change").reset_index().rename(columns={"m": "new_width"})
    return found.assign(family=found["family"].map(NAMES))
