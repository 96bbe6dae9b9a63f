"""Claims: what a paper says, with the figures that carry it, read from ``data/claims/<paper>.toml``.

The files are those of the project that one works in. The accepted range of each figure was fixed there
before anything was measured. A file names in ``experiments`` the module whose ``STUDIES`` measure its
claims; a claim may name another.
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from embviz.storage import claims_folder


@dataclasses.dataclass(frozen=True)
class Figure:
    """A published number, or a criterion that stands for one.

    Parameters
    ----------
    name : str
        Name that the experiment's findings use.
    label : str
        What a reader sees.
    paper : float or None
        The paper's value.
    accept : tuple of two floats, or None
        Accepted range, both ends included; None: reported, not judged.
    unit : str
        Unit of all its numbers; empty for a pure number.
    rule : {"inside", "meets"}
        Whether the interval must lie inside the range, or only meet it.
    null : str
        The control that must not pass; empty: none.
    """

    name: str
    label: str
    paper: float | None = None
    accept: tuple[float, float] | None = None
    unit: str = ""
    rule: str = "inside"
    null: str = ""

    def __post_init__(self) -> None:
        if self.rule not in ("inside", "meets"):
            raise ValueError(f"figure {self.name}: rule must be 'inside' or 'meets', not {self.rule!r}")
        if self.accept is not None and not self.accept[0] <= self.accept[1]:
            raise ValueError(f"figure {self.name}: the accepted range {list(self.accept)} is empty")
        if self.null and self.accept is None:
            raise ValueError(f"figure {self.name} names a null but no range for it to miss")


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of a paper, with the figures that carry it."""

    id: str
    paper: str
    title: str
    where: str
    says: str
    setting: str
    null: str
    chapter: str
    figures: tuple[Figure, ...]
    experiments: str  # the module whose STUDIES measure it
    corpus: str = ""  # the paper's data set, where it has one


def claim_files() -> list[Path]:
    """The files of claims of this project, a paper each."""
    return sorted(claims_folder().glob("*.toml"))


def papers() -> list[str]:
    """Keys of the papers that have claims."""
    return [file.stem for file in claim_files()]


def load_claims(paper: str | None = None) -> list[Claim]:
    """Claims of one paper, or of all, in the order of their files.

    Raises
    ------
    ValueError
        If there are no claims, there is no such paper (the message lists those there are), or a file is
        not what it should be.
    """
    files = claim_files()
    if not files:
        raise ValueError(f"no claims in {claims_folder()}: write one into <paper>.toml there")
    names = [file.stem for file in files]
    if paper is not None and paper not in names:
        raise ValueError(f"no claims of paper {paper!r}: there are {', '.join(names)}")
    claims = []
    for file in files:
        if paper in (None, file.stem):
            claims += _claims_of(file)
    return claims


def _claims_of(file: Path) -> list[Claim]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        return [_claim(entry, content) for entry in content["claim"]]
    except KeyError as error:
        raise ValueError(f"{file} lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error


def find_claim(claim_id: str) -> Claim:
    """The claim called `claim_id`, such as ``reflections.lemma1``.

    Raises
    ------
    ValueError
        If there is none; the message lists the ids of the same paper, or of all.
    """
    claims = load_claims()
    for claim in claims:
        if claim.id == claim_id:
            return claim
    paper = claim_id.split(".")[0]
    near = [claim.id for claim in claims if claim.paper == paper] or [claim.id for claim in claims]
    raise ValueError(f"no claim {claim_id!r}: choose one of {', '.join(near)}")


def _claim(entry: dict[str, Any], content: dict[str, Any]) -> Claim:
    figures = tuple(
        Figure(**{**figure, "accept": tuple(figure["accept"]) if "accept" in figure else None})
        for figure in entry["figure"]
    )
    fields = {key: value for key, value in entry.items() if key != "figure"}
    if "experiments" not in fields:
        fields["experiments"] = content["experiments"]
    return Claim(**fields, paper=content["paper"], figures=figures)
