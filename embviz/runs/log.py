"""The log of a run: sealed lines of JSON, and files that match the checksums in them."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from embviz.runs.tensors import unpack

Metric = float | Sequence[float]  # of one model, or of R models side by side


class DamagedRunError(ValueError):
    """A file of a run that is missing, cut short or altered; the message names it."""


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    step: int
    metrics: dict[str, Metric]
    sha256: str | None  # of the weights; None where none were stored
    end: int  # of the line, in bytes


def sealed(record: dict[str, Any]) -> bytes:
    """A line of JSON that ends with the checksum of what comes before."""
    body = json.dumps(record, allow_nan=False)[:-1]
    return f'{body}, "crc32": {zlib.crc32(body.encode())}}}\n'.encode()


def opened(line: bytes) -> dict[str, Any]:
    """The record of a line; ValueError if the line is not as it was written."""
    record: dict[str, Any] = json.loads(line)
    body = line.rpartition(b', "crc32": ')[0]
    if record.pop("crc32") != zlib.crc32(body):
        raise ValueError("it does not match its checksum")
    return record


def read_log(path: Path) -> list[Line]:
    """The committed snapshots; a last line that has no end yet is not one of them."""
    lines: list[Line] = []
    end = 0
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        end += len(line) + 1
        try:
            record = opened(line)
            lines.append(Line(record["step"], record["metrics"], record["sha256"], end))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedRunError(f"{path}: line {number} is damaged: {error}") from error
    return lines


def verified(path: Path, sha256: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file that matches its checksum."""
    if not path.exists():
        raise DamagedRunError(f"{path} is missing: restore it from a copy, or truncate the run before it")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedRunError(
            f"{path} was altered or cut short, it does not match its checksum: restore it from a copy, or "
            "truncate the run before it"
        )
    return unpack(data)


def clean_metrics(metrics: Mapping[str, Any], n_members: int | None) -> dict[str, Metric]:
    """Finite numbers, and lists of finite numbers with the same length as in earlier snapshots."""
    clean: dict[str, Metric] = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or name in ("step", "member"):
            raise ValueError(f"{name!r} can't name a metric (step and member are columns already)")
        value = value.tolist() if hasattr(value, "tolist") else value
        clean[name] = (
            [_number(v, name) for v in value] if isinstance(value, Sequence) else _number(value, name)
        )
    lengths = {len(value) for value in clean.values() if isinstance(value, Sequence)}
    if lengths - {n_members or next(iter(lengths), None)} or 0 in lengths:
        raise ValueError(f"lists of metrics have lengths {lengths}: give one number per member, as before")
    return clean


def _number(value: Any, name: str) -> float:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"metric {name!r} is {value!r}: give a finite number, or a list of them")
    return value


def metrics_table(lines: Sequence[Line]) -> pd.DataFrame:
    """See :meth:`embviz.runs.Run.metrics`."""
    n_members = count_members(lines)
    steps = np.array([line.step for line in lines], dtype=np.int64)
    columns: dict[str, np.ndarray] = {"step": np.repeat(steps, n_members or 1)}
    if n_members:
        columns["member"] = np.tile(np.arange(n_members), len(steps))
    for name in dict.fromkeys(name for line in lines for name in line.metrics):
        values = [line.metrics.get(name, math.nan) for line in lines]
        rows = [value if isinstance(value, Sequence) else [value] * (n_members or 1) for value in values]
        columns[name] = np.array(rows).ravel()
    return pd.DataFrame(columns)


def count_members(lines: Sequence[Line]) -> int | None:
    """Length R of the lists among the metrics; None where there are only numbers."""
    values = (value for line in lines for value in line.metrics.values())
    return next((len(value) for value in values if isinstance(value, Sequence)), None)
