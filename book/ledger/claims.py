"""Claims: what a paper says, with the measurements that carry it, read from ``data/claims/<paper>.toml``.

The accepted range of each measurement was fixed there
before anything was measured; what was moved later is told by the claim's amendments. A file names in
``experiments`` the module whose ``STUDIES`` measure its claims; a claim may name another.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from book.ledger.places import claims_folder
from book.ledger.verdicts import VERDICTS

PUBLISHED, IMPLIED = "published", "implied"
PRESETS = ("quick", "laptop", "paper")  # from the smallest to the paper's own


@dataclasses.dataclass(frozen=True)
class Measurement:
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
    control : str
        The control that must not pass; empty: none.
    target : {"published", "implied"}
        Whether `paper` is printed in the paper, or is ours. Without a word: "published" where there is a
        `paper`, else "implied", for then the range alone says what the paper's sentence means.
    why : str
        Why a `paper` that no page of the paper has is what the claim implies.
    any_scale : str
        Why this measurement does not depend on scale, where the rest of the claim does; empty: it does.
    scale : {"linear", "log"}
        Whether mean and interval are those of the repetitions or of their logarithms, for a ratio or a
        relative error.
    of : str
        The replaced measurement whose finding is judged again here, by another range, scale or control;
        empty: it has a finding under its own name.
    """

    name: str
    label: str
    paper: float | None = None
    accept: tuple[float, float] | None = None
    unit: str = ""
    rule: str = "inside"
    control: str = ""
    target: str = ""
    why: str = ""
    any_scale: str = ""
    scale: str = "linear"
    of: str = ""

    def __post_init__(self) -> None:
        if self.scale not in ("linear", "log"):
            raise ValueError(f"measurement {self.name}: scale must be 'linear' or 'log', not {self.scale!r}")
        if not self.target:
            object.__setattr__(self, "target", IMPLIED if self.paper is None else PUBLISHED)
        if self.target not in (PUBLISHED, IMPLIED):
            raise ValueError(f"measurement {self.name}: target must be 'published' or 'implied'")
        if self.paper is not None and not math.isfinite(self.paper):
            raise ValueError(f"measurement {self.name}: paper must be a finite number, not {self.paper}")
        if self.target == PUBLISHED and self.paper is None:
            raise ValueError(f"measurement {self.name}: a published target needs the paper's value")
        if self.target == IMPLIED and self.paper is not None and not self.why:
            raise ValueError(f"measurement {self.name}: say in `why` what implies {self.paper:g}")
        if self.rule not in ("inside", "meets"):
            raise ValueError(f"measurement {self.name}: rule must be 'inside' or 'meets', not {self.rule!r}")
        if self.accept is not None and not self.accept[0] <= self.accept[1]:
            raise ValueError(f"measurement {self.name}: the accepted range {list(self.accept)} is empty")
        if self.control and self.accept is None:
            raise ValueError(f"measurement {self.name} names a control but no range for it to miss")


@dataclasses.dataclass(frozen=True)
class Superseded:
    """The last measurement of a measurement that an amendment replaced, as numbers: its code is gone.

    Parameters
    ----------
    measurement : str
        Name of the replaced measurement.
    value : float
        The measured number, in the measurement's unit.
    commit : str
        Commit whose code derives it.
    scale : {"quick", "laptop", "paper"}
        The preset that it was measured at.
    interval : tuple of two floats, or None
        Its 95% interval; None: there was none.
    n : int
        Independent repetitions.
    repeats : str
        What was repeated, in the plural.
    exact : bool
        Whether there was nothing to repeat.
    corpus : str
        Name of the data set it was measured on; empty for a simulation.
    controls : mapping of str to float
        The same measurement on each control.
    """

    measurement: str
    value: float
    commit: str
    scale: str
    interval: tuple[float, float] | None = None
    n: int = 1
    repeats: str = "seeds"
    exact: bool = False
    corpus: str = ""
    controls: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        low, high = self.interval or (self.value, self.value)
        if not low <= self.value <= high:
            raise ValueError(
                f"{self.measurement}: the value {self.value} lies outside its interval [{low}, {high}]"
            )
        if self.n < 0:
            raise ValueError(f"{self.measurement}: {self.n} repetitions")
        if any(map(math.isnan, self.controls.values())):
            raise ValueError(f"{self.measurement}: a control is NaN")
        if self.scale not in PRESETS:
            raise ValueError(
                f"{self.measurement}: scale must be one of {', '.join(PRESETS)}, not {self.scale!r}"
            )
        if self.exact and self.interval:
            raise ValueError(f"{self.measurement}: an exact number has no interval")


@dataclasses.dataclass(frozen=True)
class Amendment:
    """A range or comparator that was moved after it had been fixed.

    Parameters
    ----------
    date : date
    reason : str
        What was unfair, or unfit.
    decides : tuple of str
        Measurements that decide from then on.
    was : str
        The claim's verdict before, in today's words.
    was_smaller_scale : bool
        Whether that verdict rested on a smaller scale than the paper's.
    sequential : bool
        Whether repetitions were added because the result was inconclusive, and are judged together with the
        first ones: a result that is looked at twice comes out by chance more often than its interval says.
    replaces : tuple of str
        Measurements that decide no more: they are shown as first fixed.
    superseded : tuple of Superseded
        What was last measured for those; a measurement that is missing here was never measured.
    first : str
        In words what was first fixed, where no measurement shows it.
    """

    date: datetime.date
    reason: str
    decides: tuple[str, ...]
    was: str
    replaces: tuple[str, ...] = ()
    first: str = ""
    superseded: tuple[Superseded, ...] = ()
    was_smaller_scale: bool = False
    sequential: bool = False

    def __post_init__(self) -> None:
        if self.was not in VERDICTS:
            raise ValueError(f"the amendment of {self.date}: no verdict {self.was!r} (before it)")
        if not self.reason or not self.decides:
            raise ValueError(f"the amendment of {self.date} must give its reason and what decides now")
        names = [one.measurement for one in self.superseded]
        if len(set(names)) != len(names) or not set(names) <= set(self.replaces):
            raise ValueError(
                f"the amendment of {self.date}: superseded are measurements that it replaces, once each"
            )


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of a paper, with the measurements that carry it."""

    id: str
    paper: str
    title: str
    where: str
    says: str
    setting: str
    control: str
    chapter: str
    measurements: tuple[Measurement, ...]
    experiments: str  # the module whose STUDIES measure it
    corpus: str = ""  # the paper's data set, where it has one
    any_scale: str = ""  # why it depends on no scale; empty: it does
    question: bool = False  # one that the paper leaves open: answered, not judged
    ours: bool = False  # one that no paper asks: the project does
    corpus_part: str = ""  # a true part of that data set, on which the claim is judged beside another text
    amended: tuple[Amendment, ...] = ()

    def __post_init__(self) -> None:
        names = {measurement.name for measurement in self.measurements}
        if not names:
            raise ValueError(f"{self.id} has no measurement")
        if len(names) != len(self.measurements):
            raise ValueError(f"{self.id}: two measurements of one name")
        for amendment in self.amended:
            unknown = {*amendment.decides, *amendment.replaces} - names
            if unknown:
                raise ValueError(f"{self.id}: the amendment of {amendment.date} names {sorted(unknown)}")
        for measurement in self.measurements:
            if measurement.of and measurement.of not in self.replaced:
                raise ValueError(
                    f"{self.id}: {measurement.name} is of {measurement.of!r}, which is not replaced"
                )
        if self.ours and not self.question:
            raise ValueError(f"{self.id} is ours: no paper claims it, so it is a question")
        if self.corpus_part and not self.corpus:
            raise ValueError(f"{self.id}: corpus_part needs the corpus that it is a part of")

    @property
    def finding_names(self) -> set[str]:
        """Names of the findings that its study gives: one for each measurement that is not replaced."""
        live = [one for one in self.measurements if one.name not in self.replaced]
        return {one.of or one.name for one in live}

    @property
    def replaced(self) -> set[str]:
        """Names of the measurements that an amendment has replaced."""
        return {name for amendment in self.amended for name in amendment.replaces}

    @property
    def superseded(self) -> dict[str, Superseded]:
        """Measurements of replaced measurements, by measurement."""
        return {one.measurement: one for amendment in self.amended for one in amendment.superseded}


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
        not what it should be; the message names the file, the claim and the field.
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
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from error


def find_claim(claim_id: str) -> Claim:
    """The claim called `claim_id`, such as ``reflections.lemma1``."""
    claims = load_claims()
    for claim in claims:
        if claim.id == claim_id:
            return claim
    paper = claim_id.split(".")[0]
    near = [claim.id for claim in claims if claim.paper == paper] or [claim.id for claim in claims]
    raise ValueError(f"no claim {claim_id!r}: choose one of {', '.join(near)}")


# --- a file of claims -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _parsed(content: bytes) -> tuple[Claim, ...]:
    """The claims of a file; ValueError names the claim and the field that is not what it should be."""
    table = tomllib.loads(content.decode("utf-8"))
    shared = {name: table[name] for name in ("paper", "experiments", "ours") if name in table}
    written = table.get("claim")
    if not (isinstance(written, list) and written and all(isinstance(entry, dict) for entry in written)):
        raise ValueError("the file needs claims, each below a line [[claim]]")
    records = [{**shared, **entry} for entry in written]
    try:  # as JSON, since a strict reader of Python objects takes no list for a tuple
        claims = _CLAIMS.validate_json(json.dumps(records, default=str))
    except ValidationError as error:
        raise ValueError(_first_fault(error, records)) from error
    ids = [claim.id for claim in claims]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ValueError(f"two claims are called {twice[0]}")
    return claims


_CLAIMS = TypeAdapter(tuple[Claim, ...], config=ConfigDict(extra="forbid", strict=True))


def _first_fault(error: ValidationError, records: Any) -> str:
    """The first fault with its place, such as "kernel.exact, measurements, error, label: ...".

    A name that no field has stands behind it, since it may be the missing field's, misspelled.
    """
    faults = error.errors()
    unknown = [str(fault["loc"][-1]) for fault in faults if fault["type"] == "unexpected_keyword_argument"]
    fault, value, words = faults[0], records, []
    for step in fault["loc"]:
        try:
            value = value[step]
        except (LookupError, TypeError):  # a field that is missing
            value = None
        label: Any = step + 1 if isinstance(step, int) else step
        if isinstance(value, dict):
            label = next((value[key] for key in ("id", "name", "date", "measurement") if key in value), label)
        words.append(str(label))
    given = "" if fault["type"] in ("missing", "value_error") else f", not {fault['input']!r}"
    misspelled = f"; there is no field {unknown[0]!r}" if unknown and fault["type"] == "missing" else ""
    return f"{', '.join(words)}: {fault['msg']}{given}{misspelled}"
