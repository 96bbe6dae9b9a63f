"""Claims: what a paper says, with the measurements that carry it, read from ``data/claims/<paper>.toml``.

The accepted range of each measurement was fixed there before anything was measured; sentences of the claim's
`amended` say what was moved later, and why. A file names in ``experiments`` the module whose ``STUDIES``
measure its claims; a claim may name another.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from book.ledger.places import claims_folder
from book.ledger.verdicts import VERDICTS

PUBLISHED, IMPLIED = "published", "implied"
AMENDMENT = re.compile(rf"\d{{4}}-\d\d-\d\d, (?:{'|'.join(VERDICTS)})(?: \(smaller scale\))? before: .+")
PRESETS = ("quick", "laptop", "paper")  # from the smallest to the paper's own


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A number of the paper, or a criterion that stands for one."""

    name: str  # which the experiment's findings use, unless `of` names another
    label: str  # what a reader sees
    paper: float | None = None  # what the claim would have it be
    accept: tuple[float, float] | None = None  # range, both ends included; None: reported, not judged
    unit: str = ""  # of all its numbers; empty for a pure number
    rule: Literal["inside", "meets"] = "inside"  # the interval lies in the range, or meets it
    control: str = ""  # that must lie outside; empty: none
    target: Literal["", "published", "implied"] = ""  # `paper` is printed, or ours
    why: str = ""  # why the claim implies a `paper` that no page of the paper has
    any_scale: str = ""  # why it does not depend on scale, where the rest of the claim does
    scale: Literal["linear", "log"] = "linear"  # of mean and interval
    of: str = ""  # name of its finding, where that is another than its own

    def __post_init__(self) -> None:
        if not self.target:
            object.__setattr__(self, "target", IMPLIED if self.paper is None else PUBLISHED)
        if self.paper is not None and not math.isfinite(self.paper):
            raise ValueError(f"measurement {self.name}: paper must be a finite number, not {self.paper}")
        if self.target == PUBLISHED and self.paper is None:
            raise ValueError(f"measurement {self.name}: a published target needs the paper's value")
        if self.target == IMPLIED and self.paper is not None and not self.why:
            raise ValueError(f"measurement {self.name}: say in `why` what implies {self.paper:g}")
        if self.accept is not None and not self.accept[0] <= self.accept[1]:
            raise ValueError(f"measurement {self.name}: the accepted range {list(self.accept)} is empty")
        if self.control and self.accept is None:
            raise ValueError(f"measurement {self.name} names a control but no range for it to miss")


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
    sequential: datetime.date | None = None  # when repetitions were added to those that had left it open
    amended: tuple[str, ...] = ()  # what was changed after ranges were fixed: date, verdict before, reason

    def __post_init__(self) -> None:
        names = {measurement.name for measurement in self.measurements}
        if not names:
            raise ValueError(f"{self.id} has no measurement")
        if len(names) != len(self.measurements):
            raise ValueError(f"{self.id}: two measurements of one name")
        for sentence in self.amended:
            if not AMENDMENT.fullmatch(sentence):
                raise ValueError(
                    f"{self.id}: amended begins with a date and the verdict before, such as '2026-11-20, "
                    f"inconclusive before: ', not {sentence[:40]!r}"
                )
        if self.ours and not self.question:
            raise ValueError(f"{self.id} is ours: no paper claims it, so it is a question")
        if self.corpus_part and not self.corpus:
            raise ValueError(f"{self.id}: corpus_part needs the corpus that it is a part of")


def claim_files() -> list[Path]:
    """The files of claims, a paper each."""
    return sorted(claims_folder().glob("*.toml"))


def history_of(claim: Claim) -> dict[str, Any]:
    """What amendments of a claim replaced: `measurements` and `amended` of its frozen file, if any."""
    file = claims_folder() / "history" / f"{claim.paper}.toml"
    claims = _table(file.read_bytes())["claim"] if file.is_file() else []
    return next((one for one in claims if one["id"] == claim.id), {})


@functools.lru_cache(maxsize=32)
def _table(content: bytes) -> dict[str, Any]:
    return tomllib.loads(content.decode("utf-8"))


def papers() -> list[str]:
    """Keys of the papers that have claims."""
    return [file.stem for file in claim_files()]


def load_claims(paper: str | None = None) -> list[Claim]:
    """Claims of one paper, or of all, in the order of their files."""
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


# --- what a paper prints --------------------------------------------------------------------------


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
    """What a paper prints, by name: ``[printed.NAME]`` of its file, where ``where`` says the page."""
    files = [file for file in claim_files() if file.stem == paper]
    return _table(files[0].read_bytes()).get("printed", {}) if files else {}


# --- a file of claims -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _parsed(content: bytes) -> tuple[Claim, ...]:
    """The claims of a file; ValueError names the claim and the field that is not what it should be."""
    table = _table(content)
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
