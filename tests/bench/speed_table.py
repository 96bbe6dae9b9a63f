"""The speed table: one row a job, ours beside a peer from the same run, kept in data/results/bench."""

import datetime
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from book.ledger.cells import device  # the same words as in the results' provenance
from book.ledger.places import results_folder
from embviz.storage import whole_file

BAR = re.compile(r"at (least|most) ([\d.]+) (times the peer|\S.*)")


def fastest(way: Callable[[], object], n_rounds: int = 5) -> float:
    """Least seconds of the processor for one call."""
    took = []
    for _ in range(n_rounds):
        start = time.thread_time()
        way()
        took.append(time.thread_time() - start)
    return min(took)


def store_row(
    *,
    job: str,
    ours: float,
    peer: float | None,
    unit: str,
    bar: str,
    peer_name: str,
    text: str = "",
    rounds: list[tuple[float, float]] | None = None,
) -> None:
    """Write one row to its own file, so that a killed run keeps the rows it measured.

    `bar` is "at least" or "at most" a number, of the unit or "times the peer". `text` says what was read;
    `rounds` are (ours, peer) of runs taken in turn, whose medians are the row.
    """
    row = {
        "job": job,
        "ours": ours,
        "peer": peer,
        "ratio": ours / peer if peer else None,
        "unit": unit,
        "peer_name": peer_name,
        "bar": bar,
        "met": is_met(bar, ours, peer),
        "size": os.environ.get("EMBVIZ_BENCH", "small"),
        **({"text": text} if text else {}),
        **({"rounds": rounds} if rounds else {}),
        "device": device(),
        "date": datetime.date.today().isoformat(),
    }
    name = "".join(c if c.isalnum() else "_" for c in job)[:60]
    with whole_file(_folder() / f"{name}.json") as path:
        path.write_text(json.dumps(row, indent=1) + "\n")


def is_met(bar: str, ours: float, peer: float | None) -> bool | None:
    """Whether a bar is met; None without one.

    >>> is_met("at most 1.05 times the peer", 1.1, 1.0), is_met("at least 3 GB", 4.0, None)
    (False, True)
    """
    if not bar:
        return None
    kind, limit, unit = BAR.fullmatch(bar).groups()
    value = ours / peer if peer and unit == "times the peer" else ours
    return value >= float(limit) if kind == "least" else value <= float(limit)


def _folder() -> Path:
    return results_folder() / "bench"


def main() -> None:
    """Print the table."""
    rows = [json.loads(path.read_text()) for path in sorted(_folder().glob("*.json"))]
    columns = ("job", "ours", "peer", "ratio", "unit", "bar", "met", "peer_name", "size", "text")
    cells = [columns, *[tuple(_text(row.get(column)) for column in columns) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
