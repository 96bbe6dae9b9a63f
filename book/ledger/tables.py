"""The ledger as rows of text, for the command line and for pages."""

from __future__ import annotations

from collections.abc import Sequence

from book.ledger.claims import IMPLIED, PUBLISHED
from book.ledger.findings import Finding
from book.ledger.judging import Entry, Row
from book.ledger.ledger_file import entries
from book.ledger.verdicts import VERDICTS, tagged


def repetitions(finding: Finding) -> str:
    """How often what was repeated for a finding, such as "5 seeds"; "1 of the seeds" for a single one."""
    if finding.exact:
        return "exact"
    n = finding.n_seeds
    return f"1 of the {finding.repeats}" if n == 1 else f"{n:,} {finding.repeats}"


def tally(rows: Sequence[Row]) -> str:
    """How many measurements have each verdict, in words, such as "3 reproduced, 1 inconclusive"."""
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)


def summary(items: Sequence[Entry] | None = None) -> list[dict[str, str]]:
    """One row a claim: claim, verdict, scale, measurements (how many agree), title."""
    return [
        {
            "claim": item.claim.id,
            "verdict": tagged(item.verdict, item.smaller_scale),
            "scale": item.scale or "",
            "measurements": item.agree.removesuffix(" measurements"),
            "title": item.claim.title,
        }
        for item in (entries() if items is None else items)
    ]


def measurement_texts(item: Entry) -> list[dict[str, str]]:
    """One row a measurement, in text: measurement, paper, ours, low, high, control, repeated, verdict."""
    return [_texts(row) for row in item.rows]


def _texts(row: Row) -> dict[str, str]:
    measurement, finding = row.measurement, row.finding
    ours = (finding.value, finding.low, finding.high) if finding else (None, None, None)
    controls = finding.controls if finding else {}
    implied = " (implied)" if measurement.target == IMPLIED and measurement.paper is not None else ""
    return {
        "measurement": measurement.label,
        "paper": _text(measurement.paper) + implied,
        **dict(zip(("ours", "low", "high"), map(_text, ours), strict=True)),
        "control": _text(controls.get(measurement.control or next(iter(controls), ""))),
        "repeated": repetitions(finding) if finding else "-",
        "verdict": tagged(row.verdict, row.smaller_scale),
    }


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
