"""The ledger as tables, for programs and for pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from book.ledger.claims import IMPLIED, PUBLISHED
from book.ledger.findings import Finding
from book.ledger.judging import Entry, Row
from book.ledger.ledger_file import entries
from book.ledger.verdicts import VERDICTS, tagged

if TYPE_CHECKING:
    import pandas as pd


def said_repeats(finding: Finding) -> str:
    """What was repeated for a finding; "exact" where there was nothing to repeat."""
    return "exact" if finding.exact else finding.repeats


def repetitions(finding: Finding) -> str:
    """How often what was repeated for a finding, such as "5 seeds"; "1 of the seeds" for a single one."""
    if finding.exact:
        return "exact"
    n = finding.n_seeds
    return f"1 of the {finding.repeats}" if n == 1 else f"{n:,} {finding.repeats}"


def verdict_text(row: Row) -> str:
    """A measurement's verdict, with "smaller scale" where it applies."""
    return tagged(row.verdict, row.smaller_scale)


def table(items: Sequence[Entry] | None = None) -> pd.DataFrame:
    """The ledger as a tidy table, one row a measurement.

    Returns
    -------
    pandas.DataFrame
        paper, claim, title, where, measurement, label, unit, target, published (what the claim would have it
        be, by `target` "published" or "implied"), accept_low, accept_high, measured, low, high, n_seeds,
        repeats, exact, repetitions (in words), control_name, control, corpus, verdict, smaller_scale,
        claim_verdict, scale, reason, chapter.
    """
    import pandas as pd

    items = entries() if items is None else items
    return pd.DataFrame([_table_row(item, row) for item in items for row in item.rows])


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
        "verdict": verdict_text(row),
    }


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _table_row(item: Entry, row: Row) -> dict[str, Any]:
    claim, measurement, finding = item.claim, row.measurement, row.finding
    control_name = measurement.control or (next(iter(finding.controls), "") if finding else "")
    low, high = measurement.accept or (math.nan, math.nan)
    return {
        "paper": claim.paper,
        "claim": claim.id,
        "title": claim.title,
        "where": claim.where,
        "measurement": measurement.name,
        "label": measurement.label,
        "unit": measurement.unit,
        "target": measurement.target,
        "published": measurement.paper,
        "accept_low": low,
        "accept_high": high,
        "measured": finding.value if finding else None,
        "low": finding.low if finding else None,
        "high": finding.high if finding else None,
        "n_seeds": finding.n_seeds if finding else 0,
        "repeats": said_repeats(finding) if finding else "",
        "exact": finding.exact if finding else False,
        "repetitions": repetitions(finding) if finding else "",
        "control_name": control_name,
        "control": finding.controls.get(control_name) if finding else None,
        "corpus": finding.corpus if finding else "",
        "verdict": row.verdict,
        "smaller_scale": row.smaller_scale,
        "claim_verdict": item.verdict,
        "scale": item.scale or "",
        "reason": row.reason,
        "chapter": claim.chapter,
    }
