"""Claims: what a paper says, with the figures that carry it, read from ``data/claims/<paper>.toml``.

The files are those of the project that one works in. The accepted range of each figure was fixed there
before anything was measured; what was moved later is told by the claim's amendments. A file names in
``experiments`` the module whose ``STUDIES`` measure its claims; a claim may name another.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import tomllib
from pathlib import Path
from typing import Any

from embviz.ledger.verdicts import VERDICTS
from embviz.storage import claims_folder

PUBLISHED, IMPLIED = "published", "implied"


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number of the paper, or a criterion that stands for one.

    Parameters
    ----------
    name : str
        Name that the experiment's findings use.
    label : str
        What a reader sees.
    paper : float or None
        What the claim would have it be.
    accept : tuple of two floats, or None
        Accepted range, both ends included; None: reported, not judged.
    unit : str
        Unit of all its numbers; empty for a pure number.
    rule : {"inside", "meets"}
        Whether the interval must lie inside the range, or only meet it.
    null : str
        The control that must not pass; empty: none.
    target : {"published", "implied"}
        Whether `paper` is printed in the paper, or is ours. Without a word: "published" where there is a
        `paper`, else "implied", for then the range alone says what the paper's sentence means.
    why : str
        Why a `paper` that no page of the paper has is what the claim implies.
    any_scale : str
        Why this figure does not depend on scale, where the rest of the claim does; empty: it does.
    """

    name: str
    label: str
    paper: float | None = None
    accept: tuple[float, float] | None = None
    unit: str = ""
    rule: str = "inside"
    null: str = ""
    target: str = ""
    why: str = ""
    any_scale: str = ""

    def __post_init__(self) -> None:
        if not self.target:
            object.__setattr__(self, "target", IMPLIED if self.paper is None else PUBLISHED)
        if self.target not in (PUBLISHED, IMPLIED):
            raise ValueError(f"figure {self.name}: target must be 'published' or 'implied'")
        if self.target == PUBLISHED and self.paper is None:
            raise ValueError(f"figure {self.name}: a published target needs the paper's value")
        if self.target == IMPLIED and self.paper is not None and not self.why:
            raise ValueError(f"figure {self.name}: say in `why` what implies {self.paper:g}")
        if self.rule not in ("inside", "meets"):
            raise ValueError(f"figure {self.name}: rule must be 'inside' or 'meets', not {self.rule!r}")
        if self.accept is not None and not self.accept[0] <= self.accept[1]:
            raise ValueError(f"figure {self.name}: the accepted range {list(self.accept)} is empty")
        if self.null and self.accept is None:
            raise ValueError(f"figure {self.name} names a null but no range for it to miss")


@dataclasses.dataclass(frozen=True)
class Amendment:
    """A range or comparator that was moved after it had been fixed.

    Parameters
    ----------
    date : date
    reason : str
        What was unfair, or unfit.
    decides : tuple of str
        Figures that decide from then on.
    was : str
        The claim's verdict before, in today's words.
    replaces : tuple of str
        Figures that decide no more: they are shown as first fixed.
    first : str
        In words what was first fixed, where no figure shows it.
    """

    date: datetime.date
    reason: str
    decides: tuple[str, ...]
    was: str
    replaces: tuple[str, ...] = ()
    first: str = ""

    def __post_init__(self) -> None:
        if self.was not in VERDICTS:
            raise ValueError(f"the amendment of {self.date}: no verdict {self.was!r} (before it)")
        if not self.reason or not self.decides:
            raise ValueError(f"the amendment of {self.date} must give its reason and what decides now")


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
    any_scale: str = ""  # why it depends on no scale; empty: it does
    question: bool = False  # one that the paper leaves open: answered, not judged
    amended: tuple[Amendment, ...] = ()

    def __post_init__(self) -> None:
        names = {figure.name for figure in self.figures}
        if len(names) != len(self.figures):
            raise ValueError(f"{self.id}: two figures of one name")
        for amendment in self.amended:
            unknown = {*amendment.decides, *amendment.replaces} - names
            if unknown:
                raise ValueError(f"{self.id}: the amendment of {amendment.date} names {sorted(unknown)}")

    @property
    def replaced(self) -> set[str]:
        """Names of the figures that an amendment has replaced."""
        return {name for amendment in self.amended for name in amendment.replaces}


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
    claims: list[Claim] = []
    for file in files:
        if paper in (None, file.stem):
            claims += _claims_of(file)
    return claims


def _claims_of(file: Path) -> tuple[Claim, ...]:
    try:
        claims = _parsed(file.read_bytes())
        for claim in claims:
            if not (claim.paper == file.stem and claim.id.startswith(f"{claim.paper}.")):
                raise ValueError(
                    f"{claim.id} of paper {claim.paper!r}: ids begin with the file's name and a dot"
                )
        return claims
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


@functools.lru_cache(maxsize=16)
def _parsed(content: bytes) -> tuple[Claim, ...]:
    """The claims of a file."""
    table = tomllib.loads(content.decode("utf-8"))
    return tuple(_claim(entry, table) for entry in table["claim"])


def _claim(entry: dict[str, Any], table: dict[str, Any]) -> Claim:
    figures = tuple(Figure(**_with_tuples(figure)) for figure in entry["figure"])
    amended = tuple(Amendment(**_with_tuples(amendment)) for amendment in entry.get("amended", ()))
    fields = {key: value for key, value in entry.items() if key not in ("figure", "amended")}
    if "experiments" not in fields:
        fields["experiments"] = table["experiments"]
    return Claim(**fields, paper=table["paper"], figures=figures, amended=amended)


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
