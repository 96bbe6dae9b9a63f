"""The ledger on disk: one committed file with every claim, what was measured for it, and its verdict.

:func:`book.ledger.derive` judges a claim on stored cells; what it gives is written here, and everything
that shows a verdict reads it here. The file is ``data/ledger.json``, or ``ledger.json`` in the folder
of results that ``EMBVIZ_RESULTS_DIR`` names.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from book.ledger.claims import find_claim, load_claims
from book.ledger.judging import Entry
from book.ledger.places import ledger_path
from embviz.storage import whole_file

ENTRIES = TypeAdapter(list[Entry], config=ConfigDict(extra="forbid", ser_json_inf_nan="strings"))
TOLERANCE = 1e-6  # relative: another processor sums in another order


def entries(paper: str | None = None) -> list[Entry]:
    """Entries of every claim of one paper, or of all, as the ledger file has them."""
    found = [item for item in _read().values() if paper in (None, item.claim.paper)]
    if not found and load_claims(paper):
        raise ValueError(_absent(paper or "all"))
    return found


def entry(claim_id: str) -> Entry:
    """The entry of one claim, such as ``reflections.lemma1``, as the ledger file has it."""
    found = _read()
    if claim_id not in found:
        raise ValueError(_absent(find_claim(claim_id).id))
    return found[claim_id]


def changed_since(items: Iterable[Entry]) -> list[str]:
    """Ids of claims whose files say something else by now than when these entries were derived."""
    now = {claim.id: claim for claim in load_claims()}
    return [item.claim.id for item in items if item.claim != now.get(item.claim.id)]


def store_entries(items: Iterable[Entry]) -> Path:
    """Write entries into the ledger file, in the order of the claims; entries of other claims stay.

    An entry that differs from the stored one by rounding alone is not written, and one whose claim is gone
    leaves the file.

    Returns
    -------
    Path
        The ledger file.
    """
    path = ledger_path()
    known = _entries_in(path) if path.exists() else {}
    new = {item.claim.id: item for item in items}
    changed = {
        name: item for name, item in new.items() if name not in known or any(differences(known[name], item))
    }
    known = {**known, **changed}
    ordered = [known[claim.id] for claim in load_claims() if claim.id in known]
    with whole_file(path) as temporary:
        temporary.write_text(as_json(ordered) + "\n", encoding="utf-8")
    return path


def as_json(items: Iterable[Entry]) -> str:
    """Entries as the ledger file has them; infinite ends are texts, and what has its default is left out."""
    # a row holds its measurement, so the claim's list of measurements would repeat them
    without = {"__all__": {"claim": {"measurements"}}}
    return ENTRIES.dump_json(list(items), indent=1, exclude_defaults=True, exclude=without).decode()


def differences(stored: Entry, derived: Entry) -> Iterator[str]:
    """Where two entries of one claim differ: texts by a letter, numbers by more than rounding."""
    before, after = (ENTRIES.dump_python([item])[0] for item in (stored, derived))
    yield from _differences(stored.claim.id, before, after)


def _differences(where: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for name in before:
            yield from _differences(f"{where}, {name}", before[name], after[name])
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True), 1):
            is_row = isinstance(one, dict) and "finding" in one  # a row is named by its measurement
            name = one["measurement"]["name"] if is_row else number
            yield from _differences(f"{where} {name}", one, other)
    elif isinstance(before, float) and isinstance(after, float):
        if not math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=1e-12):
            yield f"{where}: {before!r} is {after!r} now"
    elif before != after:
        yield f"{where}: {before!r} is {after!r} now"


def _absent(what: str) -> str:
    name = "" if what == "all" else f" {what}"
    return (
        f"{ledger_path()} has no entry of {what if name else 'any claim'}: `python -m book run {what}` "
        f"computes what is missing and writes it, `python -m book ledger --derive{name}` judges the results "
        "that are stored"
    )


def _read() -> dict[str, Entry]:
    path = ledger_path()
    if not path.exists():
        raise FileNotFoundError(
            f"there is no ledger {path}: `python -m book run ID` computes a claim and writes it, "
            "`python -m book ledger --derive` judges the results that are stored"
        )
    return _entries_in(path)


def _entries_in(path: Path) -> dict[str, Entry]:
    state = path.stat()
    return _parsed(path.resolve(), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4)
def _parsed(path: Path, _time: int, _size: int) -> dict[str, Entry]:
    """Entries by claim; parsed again when the file has changed."""
    try:
        records = json.loads(path.read_bytes())
        for record in records:
            record["claim"]["measurements"] = [row["measurement"] for row in record["rows"]]
        return {item.claim.id: item for item in ENTRIES.validate_python(records)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else repr(error)
        raise ValueError(
            f"{path} is damaged ({said}): remove it, then `python -m book ledger --derive` writes it again"
        ) from error
