"""Experiments: a file a paper, or a folder where one file would be long; cells and findings of its claims.

A :class:`~embviz.studies.Study` ties a claim to the cells of each preset and to the function that turns
stored cells into findings. Each paper's module lists its own in ``STUDIES``.
"""

from __future__ import annotations

import importlib

from embviz.studies import Study

PAPERS = ("reflections", "tying", "geometry", "kernel", "resizing")


def find_study(claim_id: str) -> Study:
    """The study of the claim `claim_id`.

    Raises
    ------
    ValueError
        If no experiment measures it; the message lists those there are.
    """
    paper = claim_id.split(".")[0]
    if paper not in PAPERS:
        raise ValueError(f"no experiments for paper {paper!r}: there are {', '.join(PAPERS)}")
    studies: dict[str, Study] = importlib.import_module(f"embviz.experiments.{paper}").STUDIES
    if claim_id not in studies:
        raise ValueError(f"no experiment measures {claim_id!r}: there are {', '.join(studies)}")
    return studies[claim_id]
