"""Measurements: all that is found for a claim at one scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from book.ledger.claims import PRESETS, Claim
from book.ledger.findings import Finding

OWN_SCALE = "paper"  # the preset that is the paper's own setting


@dataclasses.dataclass(frozen=True)
class Results:
    """What was found for a claim.

    Parameters
    ----------
    scale : str or None
        The preset; None where nothing was measured.
    findings : mapping of str to Finding
        By name.
    why_not : str
        Why nothing was measured.
    own_corpora : tuple of str, or None
        Data sets that the preset of the paper's own scale reads; None where there is no such preset.
    on_part : mapping of str to Finding
        Findings on a true part of the claim's corpus, where `findings` come from another text.
    """

    scale: str | None
    findings: Mapping[str, Finding]
    why_not: str = ""
    own_corpora: tuple[str, ...] | None = None
    on_part: Mapping[str, Finding] = dataclasses.field(default_factory=dict)


def measure(claim: Claim, scale: str | None = None) -> Results:
    """Read the claim's cells and compute its findings, at `scale` or else at the largest that is stored.

    Raises
    ------
    FileNotFoundError
        If findings read a cell that the study does not list, and it is not stored: nothing is computed here.
    """
    from book.ledger.cells import stored_alone
    from book.ledger.studies import find_study

    study = find_study(claim.id)
    own = study.preset_cells(OWN_SCALE)
    own_corpora = tuple(sorted(corpora(cell.config for cell in own))) if own else None
    chosen = scale or study.largest_stored()
    if chosen is None or not study.complete(chosen):
        return Results(None, {}, study.why_not_measured(scale), own_corpora)
    with stored_alone():
        found = dict(study.findings(chosen))
        smaller = [] if scale else [name for name in PRESETS[: PRESETS.index(chosen)] if study.complete(name)]
        on_part: dict[str, Finding] = {}
        if claim.corpus_part and not any(one.corpus == claim.corpus_part for one in found.values()):
            for preset in smaller:  # the largest comes last
                others = study.findings(preset).items()
                on_part |= {name: one for name, one in others if one.corpus == claim.corpus_part}
        return Results(chosen, found, own_corpora=own_corpora, on_part=on_part)


def corpora(configs: Iterable[Any]) -> set[str]:
    """Names of data sets that configurations read: every field called ``corpus``, at any depth."""
    found: set[str] = set()
    for config in configs:
        if dataclasses.is_dataclass(config):
            for field in dataclasses.fields(config):
                value = getattr(config, field.name)
                found |= {value} if field.name == "corpus" and value else corpora([value])
    return found
