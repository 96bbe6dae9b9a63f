"""The ledger: what each paper claims, what was measured, and the verdict that follows.

A claim is read from ``data/claims/<paper>.toml``, where the accepted range of each of its figures was
fixed before anything was measured. What was measured comes from stored cells. The verdict is derived
here and nowhere else:

- a figure **holds** when its whole interval lies in the accepted range, **fails** when it lies wholly
  outside, and is **unclear** when the interval reaches over a border, or when the null that should
  come out elsewhere passes the same test;
- a claim **fails** when any of its figures fails, is **unclear** when any is unclear, and **holds** when
  all that were measured hold; figures that were not measured are named in the reason.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from embviz.ledger.claims import Claim, Figure, load_claims
from embviz.ledger.findings import Finding
from embviz.ledger.studies import find_study

HOLDS, FAILS, UNCLEAR, NOT_MEASURED = "holds", "fails", "unclear", "not measured"
REPORTED = "reported"  # of a figure without an accepted range
VERDICTS = (HOLDS, FAILS, UNCLEAR, NOT_MEASURED)


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure beside what was measured for it."""

    figure: Figure
    finding: Finding | None
    verdict: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """A claim beside its rows, at the largest scale that was measured."""

    claim: Claim
    verdict: str
    scale: str | None
    reason: str
    rows: tuple[Row, ...]


# --- verdicts ---------------------------------------------------------------------------------------


def judge(figure: Figure, finding: Finding | None) -> Row:
    """Hold a finding against its figure's accepted range and null.

    Parameters
    ----------
    figure : Figure
    finding : Finding or None
        None when nothing was measured.

    Returns
    -------
    Row
        With the verdict, and the reason for any but "holds".
    """
    if finding is None:
        return Row(figure, None, NOT_MEASURED, "not measured")
    if figure.accept is None:
        return Row(figure, finding, REPORTED, "no accepted range was set: reported, not judged")
    if figure.null and figure.null not in finding.nulls:
        return Row(figure, finding, UNCLEAR, f"its null, {figure.null}, was not measured")
    verdict, reason = _against_range(figure, finding.low, finding.high)
    if verdict == HOLDS and figure.null:
        null = finding.nulls[figure.null]
        if figure.accept[0] <= null <= figure.accept[1]:
            verdict = UNCLEAR
            reason = f"the null ({figure.null}: {null:.4g}) passes too, so the test tells nothing"
    return Row(figure, finding, verdict, reason)


def _against_range(figure: Figure, low: float, high: float) -> tuple[str, str]:
    assert figure.accept is not None
    least, most = figure.accept
    meets = high >= least and low <= most
    inside = low >= least and high <= most
    if inside or (figure.rule == "meets" and meets):
        return HOLDS, ""
    span = f"[{low:.4g}, {high:.4g}]" if low != high else f"{low:.4g}"
    if meets:
        return UNCLEAR, f"the interval {span} reaches over the border of [{least:.4g}, {most:.4g}]"
    return FAILS, f"{span} lies outside [{least:.4g}, {most:.4g}]"


def conclude(rows: Sequence[Row]) -> tuple[str, str]:
    """Verdict of a claim, and its reason, from the rows of its figures."""
    judged = [row for row in rows if row.verdict in (HOLDS, FAILS, UNCLEAR)]
    absent = [row.figure.label for row in rows if row.verdict == NOT_MEASURED]
    if not judged:
        return NOT_MEASURED, "no judged figure was measured"
    verdict = next((v for v in (FAILS, UNCLEAR) if any(row.verdict == v for row in judged)), HOLDS)
    reasons = [f"{row.figure.label}: {row.reason}" for row in judged if row.verdict == verdict and row.reason]
    if absent:
        reasons.append(f"not measured: {', '.join(absent)}")
    return verdict, "; ".join(reasons)


def entry(claim: Claim, *, scale: str | None = None) -> Entry:
    """Judge `claim` on stored cells.

    Parameters
    ----------
    scale : {"quick", "laptop", "paper"}, optional
        The preset to judge on; by default the largest whose cells are all stored.
    """
    study = find_study(claim.id)
    measured = scale or study.largest_stored()
    if measured is None or not study.complete(measured):
        rows = tuple(judge(figure, None) for figure in claim.figures)
        return Entry(claim, NOT_MEASURED, None, study.why_not_measured(scale), rows)
    findings = study.findings(measured)
    unknown = set(findings) - {figure.name for figure in claim.figures}
    if unknown:
        raise ValueError(f"{claim.id}: findings {sorted(unknown)} have no figure in the claims file")
    rows = tuple(judge(figure, findings.get(figure.name)) for figure in claim.figures)
    verdict, reason = conclude(rows)
    return Entry(claim, verdict, measured, "; ".join(filter(None, [reason, _stand_in(claim, rows)])), rows)


def _stand_in(claim: Claim, rows: Sequence[Row]) -> str:
    """Say it when a claim about one data set was measured on another."""
    used = sorted({row.finding.corpus for row in rows if row.finding and row.finding.corpus} - {claim.corpus})
    return f"measured on {', '.join(used)}, not on {claim.corpus}" if claim.corpus and used else ""


def entries(paper: str | None = None) -> list[Entry]:
    """Entries of every claim of one paper, or of all."""
    return [entry(claim) for claim in load_claims(paper)]


# --- as tables --------------------------------------------------------------------------------------


def as_record(item: Entry) -> dict[str, Any]:
    """One claim as a dictionary fit for JSON: figures by name, infinities as null.

    Returns
    -------
    dict
        id, paper, title, verdict, scale, reason, published, accepted, measured, interval, n_seeds,
        null, corpus, figures. The numbers are dictionaries by figure; `figures` holds their verdicts.
    """
    found = {row.figure.name: row.finding for row in item.rows if row.finding is not None}
    return {
        "id": item.claim.id,
        "paper": item.claim.paper,
        "title": item.claim.title,
        "verdict": item.verdict,
        "scale": item.scale,
        "reason": item.reason,
        "published": {r.figure.name: r.figure.paper for r in item.rows if r.figure.paper is not None},
        "accepted": {r.figure.name: _finite(r.figure.accept) for r in item.rows if r.figure.accept},
        "measured": {name: finding.value for name, finding in found.items()} or None,
        "interval": {name: _finite((finding.low, finding.high)) for name, finding in found.items()} or None,
        "n_seeds": max((finding.n_seeds for finding in found.values()), default=0),
        "null": {name: dict(finding.nulls) for name, finding in found.items() if finding.nulls} or None,
        "corpus": sorted({finding.corpus for finding in found.values() if finding.corpus}),
        "figures": {row.figure.name: row.verdict for row in item.rows},
    }


def _finite(pair: tuple[float, float]) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in pair]


def table(items: Sequence[Entry] | None = None) -> pd.DataFrame:
    """The ledger as a tidy table, one row a figure.

    Returns
    -------
    pandas.DataFrame
        paper, claim, title, where, figure, label, unit, published, accept_low, accept_high, measured,
        low, high, n_seeds, null_name, null, corpus, verdict, claim_verdict, scale, reason, chapter.
    """
    items = entries() if items is None else items
    return pd.DataFrame([_table_row(item, row) for item in items for row in item.rows])


def tally(rows: Sequence[Row]) -> str:
    """How many figures have each verdict, in words, such as "3 holds, 1 unclear"."""
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)


def summary(items: Sequence[Entry] | None = None) -> pd.DataFrame:
    """One row a claim: claim, verdict, scale, figures (how many of each verdict), title."""
    rows = []
    for item in entries() if items is None else items:
        rows.append(
            {
                "claim": item.claim.id,
                "verdict": item.verdict,
                "scale": item.scale or "",
                "figures": tally(item.rows),
                "title": item.claim.title,
            }
        )
    return pd.DataFrame(rows)


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
        "published": figure.paper,
        "accept_low": low,
        "accept_high": high,
        "measured": finding.value if finding else None,
        "low": finding.low if finding else None,
        "high": finding.high if finding else None,
        "n_seeds": finding.n_seeds if finding else 0,
        "null_name": null_name,
        "null": finding.nulls.get(null_name) if finding else None,
        "corpus": finding.corpus if finding else "",
        "verdict": row.verdict,
        "claim_verdict": item.verdict,
        "scale": item.scale or "",
        "reason": row.reason,
        "chapter": claim.chapter,
    }
