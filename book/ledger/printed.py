"""Published numbers: what a paper prints, read from its claims, so that no chapter types it again.

A measurement of a claim has one number. Series and tables that a paper prints stand in the same file
under ``[printed.NAME]``: ``where`` says on which page, every other key is a number, a list or a table of
such.
"""

from __future__ import annotations

import functools
import tomllib
from typing import Any

from book.ledger.claims import PUBLISHED, claim_files, find_claim


def published(name: str, measurement: str | None = None) -> Any:
    """The paper's value of a measurement, or of all of a claim; or a printed table, or a part of it.

    Parameters
    ----------
    name : str
        A claim's id, such as ``kernel.circulant``, or a printed table's, such as ``kernel.table4``.
    measurement : str, optional
        One of its measurements, or of the table's columns.

    Returns
    -------
    float, list or dict
        Without `measurement` by the measurements' names; those without a published value, or with one that is
        implied, are left out.

    >>> published("kernel.circulant", "score")
    0.936
    """
    paper, _, own = name.partition(".")
    tables = printed_tables(paper)
    if own in tables:
        parts = {key: value for key, value in tables[own].items() if key != "where"}
    else:
        claim = find_claim(name)
        parts = {one.name: one.paper for one in claim.measurements if one.target == PUBLISHED}
    if measurement is None:
        return parts
    if measurement not in parts:
        raise ValueError(f"{name} has no published {measurement!r}: choose from {', '.join(parts)}")
    return parts[measurement]


def printed_tables(paper: str) -> dict[str, Any]:
    """Tables that a paper prints, by name; none for a paper without claims."""
    return next((_printed_of(file.read_bytes()) for file in claim_files() if file.stem == paper), {})


@functools.lru_cache(maxsize=16)
def _printed_of(content: bytes) -> dict[str, Any]:
    tables: dict[str, Any] = tomllib.loads(content.decode("utf-8")).get("printed", {})
    return tables
