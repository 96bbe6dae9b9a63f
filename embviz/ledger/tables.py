"""The ledger as tables, for programs and for pictures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from embviz.ledger.claims import IMPLIED, PUBLISHED, Amendment
from embviz.ledger.findings import Finding
from embviz.ledger.judging import Entry, Row
from embviz.ledger.ledger_file import entries
from embviz.ledger.verdicts import FIRST_FIXED, VERDICTS

if TYPE_CHECKING:
    import pandas as pd


def as_record(item: Entry) -> dict[str, Any]:
    """One claim as a dictionary fit for JSON: figures by name, infinities as null.

    Returns
    -------
    dict
        id, paper, title, question, verdict, scale, reason, published, implied, accepted, measured,
        interval, n_seeds, repeats, null, corpus, figures, amended. The numbers are dictionaries by figure,
        `figures` holds their verdicts; `n_seeds` and `repeats` are those of the deciding figure.
    """
    found = {row.figure.name: row.finding for row in item.rows if row.finding is not None}
    deciding = item.deciding.finding if item.deciding else None
    return {
        "id": item.claim.id,
        "paper": item.claim.paper,
        "title": item.claim.title,
        "question": item.claim.question,
        "verdict": item.verdict,
        "scale": item.scale,
        "reason": item.reason,
        **{target: _targets(item, target) for target in (PUBLISHED, IMPLIED)},
        "accepted": {r.figure.name: _finite(r.figure.accept) for r in item.rows if r.figure.accept},
        "measured": {name: finding.value for name, finding in found.items()} or None,
        "interval": {name: _finite((finding.low, finding.high)) for name, finding in found.items()} or None,
        "n_seeds": deciding.n_seeds if deciding else 0,
        "repeats": said_repeats(deciding) if deciding else "",
        "null": {name: dict(finding.nulls) for name, finding in found.items() if finding.nulls} or None,
        "corpus": sorted({finding.corpus for finding in found.values() if finding.corpus}),
        "figures": {row.figure.name: said_verdict(row) for row in item.rows},
        "amended": [_amendment(one) for one in item.claim.amended],
    }


def _targets(item: Entry, target: str) -> dict[str, float]:
    figures = [row.figure for row in item.rows if row.figure.target == target]
    return {figure.name: figure.paper for figure in figures if figure.paper is not None}


def _finite(pair: tuple[float, float]) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in pair]


def _amendment(amendment: Amendment) -> dict[str, Any]:
    fields = dataclasses.asdict(dataclasses.replace(amendment, superseded=()))
    del fields["superseded"]  # the record's numbers, by figure
    return {**fields, "date": amendment.date.isoformat()}


def said_repeats(finding: Finding) -> str:
    """What was repeated for a finding; "exact" where there was nothing to repeat."""
    return "exact" if finding.exact else finding.repeats


def repetitions(finding: Finding) -> str:
    """How often what was repeated for a finding, such as "5 seeds"; "1 of the seeds" for a single one."""
    if finding.exact:
        return "exact"
    n = finding.n_seeds
    return f"1 of the {finding.repeats}" if n == 1 else f"{n:,} {finding.repeats}"


def said_verdict(row: Row) -> str:
    """A figure's verdict; that it is one as first fixed, where an amendment has replaced it."""
    return f"{row.verdict}, {FIRST_FIXED}" if row.replaced else row.verdict


def table(items: Sequence[Entry] | None = None) -> pd.DataFrame:
    """The ledger as a tidy table, one row a figure.

    Returns
    -------
    pandas.DataFrame
        paper, claim, title, where, figure, label, unit, target, published (what the claim would have it be,
        by `target` "published" or "implied"), accept_low, accept_high, measured, low, high, n_seeds,
        repeats, exact, repetitions (in words), null_name, null, corpus, verdict, replaced, claim_verdict,
        scale, reason, chapter.
    """
    import pandas as pd

    items = entries() if items is None else items
    return pd.DataFrame([_table_row(item, row) for item in items for row in item.rows])


def tally(rows: Sequence[Row]) -> str:
    """How many figures have each verdict, in words, such as "3 holds, 1 undecided"."""
    counts = {
        verdict: sum(row.verdict == verdict and not row.replaced for row in rows) for verdict in VERDICTS
    }
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)


def summary(items: Sequence[Entry] | None = None) -> list[dict[str, str]]:
    """One row a claim: claim, verdict, scale, figures (how many of each verdict), title."""
    return [
        {
            "claim": item.claim.id,
            "verdict": item.verdict,
            "scale": item.scale or "",
            "figures": tally(item.rows),
            "title": item.claim.title,
        }
        for item in (entries() if items is None else items)
    ]


def figure_texts(item: Entry) -> list[dict[str, str]]:
    """One row a figure of a claim, in text: figure, paper, ours, low, high, null, repeated, verdict."""
    return [_texts(row) for row in item.rows]


def _texts(row: Row) -> dict[str, str]:
    figure, finding = row.figure, row.finding
    ours = (finding.value, finding.low, finding.high) if finding else (None, None, None)
    nulls = finding.nulls if finding else {}
    implied = " (implied)" if figure.target == IMPLIED and figure.paper is not None else ""
    return {
        "figure": figure.label,
        "paper": _text(figure.paper) + implied,
        **dict(zip(("ours", "low", "high"), map(_text, ours), strict=True)),
        "null": _text(nulls.get(figure.null or next(iter(nulls), ""))),
        "repeated": repetitions(finding) if finding else "-",
        "verdict": said_verdict(row),
    }


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _table_row(item: Entry, row: Row) -> dict[str, Any]:
    claim, figure, finding = item.claim, row.figure, row.finding
    null_name = figure.null or (next(iter(finding.nulls), "") if finding else "")
    low, high = figure.accept or (math.nan, math.nan)
    return {
        "paper": claim.paper,
        "claim": claim.id,
        "title": claim.title,
        "where": claim.where,
        "figure": figure.name,
        "label": figure.label,
        "unit": figure.unit,
        "target": figure.target,
        "published": figure.paper,
        "accept_low": low,
        "accept_high": high,
        "measured": finding.value if finding else None,
        "low": finding.low if finding else None,
        "high": finding.high if finding else None,
        "n_seeds": finding.n_seeds if finding else 0,
        "repeats": said_repeats(finding) if finding else "",
        "exact": finding.exact if finding else False,
        "repetitions": repetitions(finding) if finding else "",
        "null_name": null_name,
        "null": finding.nulls.get(null_name) if finding else None,
        "corpus": finding.corpus if finding else "",
        "verdict": row.verdict,
        "replaced": row.replaced,
        "claim_verdict": item.verdict,
        "scale": item.scale or "",
        "reason": row.reason,
        "chapter": claim.chapter,
    }
