"""Studies: how a claim is measured, at three scales."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence

from book.ledger.cells import Cell, missing
from book.ledger.claims import PRESETS, find_claim
from book.ledger.findings import Finding


@dataclasses.dataclass(frozen=True)
class Part:
    """Some measurements of a claim with separate cells, judged once all of these are stored."""

    cells: Callable[[str], list[Cell]]
    measure: Callable[[str], Mapping[str, Finding]]


@dataclasses.dataclass(frozen=True)
class Study:
    """The cells of a claim at each preset (quick, laptop, paper), and what follows from them."""

    cells: Callable[[str], list[Cell]]  # of a preset; empty where it measures nothing
    measure: Callable[[str], Mapping[str, Finding]]  # of a preset whose cells are all stored
    needs: str = ""  # what a larger preset needs that may not be at hand
    beside: Callable[[str], list[Cell]] = lambda preset: []  # that a chapter shows: run, and not waited for
    parts: tuple[Part, ...] = ()  # measurements with cells of their own, run with the others

    def preset_cells(self, preset: str) -> list[Cell]:
        """Cells of `preset`; empty where it measures nothing."""
        return self.cells(preset)

    def every_cell(self, preset: str) -> list[Cell]:
        """Cells of `preset`, with its parts and what is beside: what a run computes."""
        own = self.preset_cells(preset)
        return [*own, *(cell for part in self.parts for cell in part.cells(preset)), *self.beside(preset)]

    def findings(self, preset: str) -> Mapping[str, Finding]:
        """Findings by measurement name, from the stored cells of `preset`; of parts those that are stored."""
        stored = [part for part in self.parts if _complete(part.cells(preset))]
        found = dict(self.measure(preset))
        for part in stored:
            found |= part.measure(preset)
        return found

    def complete(self, preset: str) -> bool:
        """Whether the preset has cells and all of them are stored."""
        return _complete(self.cells(preset))

    def largest_stored(self) -> str | None:
        """The largest preset whose cells are all stored, or None."""
        return largest_stored(self.cells)

    def why_not_measured(self, preset: str | None = None) -> str:
        """Why there is no measurement at `preset`, or at any."""
        parts = []
        for name in (preset,) if preset else PRESETS:
            cells = self.cells(name)
            if cells:
                parts.append(f"{name}: {len(cells) - len(missing(cells))} of {len(cells)} cells stored")
        return "; ".join([*([self.needs] if self.needs else []), *parts]) or "no preset measures it"


def _complete(cells: Sequence[Cell]) -> bool:
    return bool(cells) and not missing(cells)


def largest_stored(cells: Callable[[str], list[Cell]], presets: Sequence[str] = PRESETS) -> str | None:
    """The last of `presets` that has cells, all of them stored; or None."""
    return next((name for name in reversed(presets) if _complete(cells(name))), None)


def find_study(claim_id: str) -> Study:
    """The study of the claim `claim_id`, from the module that the claim names."""
    claim = find_claim(claim_id)
    module = importlib.import_module(claim.experiments)
    studies: dict[str, Study] | None = getattr(module, "STUDIES", None)
    if studies is None:
        raise ValueError(f"{module.__file__} has no STUDIES, a dictionary from claim to Study")
    if claim_id not in studies:
        there = f"there are {', '.join(studies)}" if studies else "it is empty"
        raise ValueError(f"STUDIES of {claim.experiments} has no study of {claim_id!r}: {there}")
    return studies[claim_id]
