"""Findings that are kept: what was computed from the same claims, cells and code is not computed again.

One file per claim and scale in the cache folder, beside the digest of all that it follows from: the paper's
file of claims, the files in the claim's folders of results, the Python files of the package and of the
paper's folder, and the versions of the libraries. Another digest, or a damaged file, and the findings are
computed. Reading them imports neither PyTorch nor the code that computes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embviz.ledger.claims import Claim, claim_files
from embviz.ledger.findings import Finding
from embviz.ledger.holders import held
from embviz.ledger.measuring import Measurement, measure
from embviz.ledger.sources import PACKAGE, is_as_imported, module_folder, tree_digest, versions
from embviz.storage import cache_folder, results_folder, write_if_possible

VERSION = 1  # of the form of the kept files
PATIENCE = 120.0  # seconds to wait for what another process measures


def measurements(claims: Sequence[Claim], *, scale: str | None = None) -> list[Measurement]:
    """What is found for each claim, kept or computed, at `scale` or else at the largest that is stored."""
    state, found, waiting = _State(), {}, list(claims)
    patient_until = time.monotonic() + PATIENCE
    while waiting:
        others = []  # that another process measures just now: it is theirs to compute, and ours to read
        for claim in waiting:
            path = _path(claim, scale)
            kept = _read(path, claim, state)
            if kept is None:
                with held(f"{path.parent.name}.{path.stem}", by=os.getpid()) as mine:
                    if mine or time.monotonic() > patient_until:
                        kept = _measurement(claim, scale, state)
            if kept is None:
                others.append(claim)
            else:
                found[claim.id] = kept
        if others and len(others) == len(waiting):
            time.sleep(0.1)
        waiting = others
    return [found[claim.id] for claim in claims]


class _State:
    """Digests of what findings follow from, each taken once."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], str] = {}

    def key(self, claim: Claim, folders: Sequence[str]) -> str:
        """Of everything that a claim's findings follow from."""
        paper = module_folder(claim.experiments)
        parts = [
            str(VERSION),
            claim.id,
            self._once("package", "", lambda: tree_digest(PACKAGE, without="view")),  # which measures nothing
            self._once("paper", str(paper), lambda: tree_digest(paper) if paper else ""),
            self._once("claims", claim.paper, lambda: _claims_digest(claim.paper)),
            self._once("libraries", "", _libraries),
            *(self._once("results", name, lambda name=name: _results_digest(name)) for name in folders),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _once(self, kind: str, name: str, take: Any) -> str:
        if (kind, name) not in self._taken:
            self._taken[kind, name] = take()
        return self._taken[kind, name]


def _libraries() -> str:
    return json.dumps({"python": platform.python_version(), "machine": platform.machine(), **versions()})


def _claims_digest(paper: str) -> str:
    files = [file for file in claim_files() if file.stem == paper]
    return "".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)


def _results_digest(name: str) -> str:
    """Of the names and bytes of all results in a folder: some 40 MB take a tenth of a second."""
    digest, folder = hashlib.sha256(), results_folder() / name
    for path in sorted(folder.rglob("*.parquet")):
        digest.update(
            path.relative_to(folder).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest()
        )
    return digest.hexdigest()


# --- files ------------------------------------------------------------------------------------------


def _measurement(claim: Claim, scale: str | None, state: _State) -> Measurement:
    path = _path(claim, scale)
    kept = _read(path, claim, state)
    if kept is not None:
        return kept
    state.key(claim, [claim.paper])  # before reading: a cell that comes meanwhile must be noticed
    found = measure(claim, scale)
    if not all(map(is_as_imported, (PACKAGE, module_folder(claim.experiments)))):
        return found  # edited since this process began: what ran is not what the key would say
    _write(path, state.key(claim, found.folders), found)
    return found


def _path(claim: Claim, scale: str | None) -> Path:
    place = hashlib.sha256(str(results_folder().resolve()).encode()).hexdigest()[:12]
    return cache_folder() / "ledger" / place / f"{claim.id}.{scale or 'largest'}.json"


def _read(path: Path, claim: Claim, state: _State) -> Measurement | None:
    """What is kept, if it follows from what there is now; None if not, or if the file is damaged."""
    try:
        kept = json.loads(path.read_bytes())
        body = kept["measurement"]
        if kept["digest"] != _digest(body) or kept["key"] != state.key(claim, body["folders"]):
            return None
        findings = {name: Finding(**fields) for name, fields in body["findings"].items()}
        own = body["own_corpora"]
        return Measurement(
            **{
                **body,
                "findings": findings,
                "folders": tuple(body["folders"]),
                "own_corpora": None if own is None else tuple(own),
            }
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _write(path: Path, key: str, found: Measurement) -> None:
    """Keep it; a cache folder that can't be written to costs time alone."""
    body = json.loads(json.dumps(dataclasses.asdict(found), default=lambda number: number.item()))
    content = {"key": key, "digest": _digest(body), "measurement": body}
    write_if_possible(path, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
