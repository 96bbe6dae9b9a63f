"""The ledger as HTML: lines for claims, tables of them, and a list that opens to their measurements."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from book import ledger
from book.ledger.claims import IMPLIED, Claim, history_of
from book.ledger.judging import TEXTS_DISAGREE, Entry, Row
from book.ledger.verdicts import NOT_TESTED, SMALLER_SCALE, tagged
from book.view import looks
from book.view.sentences import MOST_DIGITS, digits_for, interval
from embviz.view.typesetting import number


def claim_line(item: Entry, root: str) -> str:
    """A claim in one line of a chapter: verdict, statement, what was measured, and a link to the ledger.

    Setting, tables and amendments stand in the ledger. `root` leads from the page to the book's root, here
    and in what follows.
    """
    claim = item.claim
    parts = [
        verdict_html(item.verdict, item.smaller_scale),
        f"<i>{text_html(claim.title.rstrip('?.'))}{'?' if claim.question else '.'}</i>",
        text_html(verdict_sentence(item)),
        f"{item.agree} agree." if item.agree and item.disagree else "",
        f"<a href='{ledger_address(claim, root)}'>In the ledger</a>",
    ]
    return f"<p class='ev-claim' id='{html.escape(claim.id)}'>{' '.join(filter(None, parts))}</p>"


def chapter_claims(items: Iterable[Entry], root: str) -> str:
    """The lines of several claims, one below the other: what a chapter reproduced."""
    lines = "".join(
        f"<li>{verdict_html(item.verdict, item.smaller_scale)} "
        f"<a href='{ledger_address(item.claim, root)}'>{text_html(item.claim.title)}</a></li>"
        for item in items
    )
    return f"<ul class='ev-reproduced'>{lines}</ul>"


def verdict_sentence(item: Entry) -> str:
    """What was measured for the deciding measurement, beside its accepted range and its control."""
    row = item.deciding
    if row is None or row.finding is None or row.measurement.accept is None:
        return f"{_capital(_why(item) or item.reason)}."
    measurement, found = row.measurement, row.finding
    low, high = row.measurement.accept
    unit = f" {measurement.unit}" if measurement.unit else ""
    known = [] if found.low == found.high else [_span(row)]
    known.append(ledger.repetitions(found))
    parts = [f"{_capital(measurement.label)}: {_ours(row)}{unit} ({', '.join(known)})"]
    parts.append(f"accepted {interval(low, high)}")
    if measurement.control in found.controls:
        value = number(found.controls[measurement.control], digits=_digits(row))
        parts.append(f"control ({measurement.control.replace('_', ' ')}) {value}")
    if row.verdict == ledger.INCONCLUSIVE and row.reason.startswith(TEXTS_DISAGREE):
        parts.append(TEXTS_DISAGREE)
    return f"{'; '.join(parts)}."


def _capital(words: str) -> str:
    """The same with a large first letter, unless a formula or a name of code comes first."""
    return words[:1].upper() + words[1:] if re.match(r"[a-z]+[ ,;:-]", words) else words


def _why(item: Entry) -> str:
    """The reason without what the box says of the scale, right beside the verdict."""
    return item.reason.removesuffix(item.elsewhere).removesuffix("; ")


def text_html(words: str) -> str:
    """Words of a claim as HTML: code in its type, formulas without their dollar signs."""
    coded = re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(words))
    return re.sub(r"\$([^$<>]+)\$", r"<i>\1</i>", coded)


def _details_html(item: Entry) -> str:
    """All that the ledger has on a claim: statement, reason, measurements, setting, amendments, command."""
    claim = item.claim
    asks = "The paper asks" if claim.question else "The paper says"
    asks = "We ask" if claim.ours else asks
    judged = [row for row in item.rows if row.measurement.accept]
    others = [row for row in item.rows if not row.measurement.accept]
    rows = [
        [text_html(row.measurement.label), _range_picture(row), *_measurement_cells(row)[1:]]
        for row in judged
    ]
    scale = f" It depends on no scale: {text_html(claim.any_scale)}." if claim.any_scale else ""
    where = f" {text_html(_capital(item.elsewhere))}." if item.elsewhere else ""
    why = _why(item)
    parts = [
        f"<p>{asks} ({text_html(claim.where)}): {text_html(claim.says)}</p>",
        f"<p>{text_html(_capital(why))}.</p>" if why else "",
        _table_html(("measurement", "", *_columns(claim)), rows) if rows else "",
        f"<p>Reported, not judged:</p>{_measurements_html(others, _columns(claim))}" if others else "",
        f"<p>Setting: {text_html(claim.setting)}. Control: {text_html(claim.control)}.{scale}{where}</p>",
        *(f"<p><b>Revised</b> {text_html(sentence)}</p>" for sentence in claim.amended),
        _history_html(claim),
        f"<p>Measured again by <code>python -m book run {claim.id} --preset {item.scale or 'quick'}</code>. "
        f"<a href='{_chapter_address(claim)}'>In its chapter</a></p>",
    ]
    return "".join(parts)


def _history_html(claim: Claim) -> str:
    """Folded: the measurements that amendments replaced, their ranges, and their last results."""
    history = history_of(claim)
    last = {
        one["measurement"]: one for part in history.get("amended", []) for one in part.get("superseded", [])
    }
    rows = [
        [
            text_html(one["label"]),
            interval(*one["accept"]) if "accept" in one else "–",
            _last(last.get(one["name"])),
        ]
        for one in history.get("measurements", [])
    ]
    names = ("measurement", "accepted", "measured")
    return f"<details><summary>As first fixed</summary>{_table_html(names, rows)}</details>" if rows else ""


def _last(one: dict[str, Any] | None) -> str:
    """The last result of a replaced measurement."""
    if one is None:
        return NOT_TESTED
    low, high = one.get("interval", (one["value"], one["value"]))
    digits = digits_for(low, high)
    ends = "" if low == high else f"{number(low, digits=digits)} to {number(high, digits=digits)}, "
    often = "exact" if one.get("exact") else f"{one.get('n', 1)} {one.get('repeats', 'seeds')}"
    known = f"{ends}{html.escape(often)}, {one['scale']}, at {one['commit']}"
    return f"{number(one['value'], digits=digits)} ({known})"


def _columns(claim: Claim) -> tuple[str, str]:
    return ("yes if", "measured") if claim.ours else ("the paper", "ours")


def _measurements_html(rows: Sequence[Row], columns: tuple[str, str] = ("the paper", "ours")) -> str:
    """Three columns: the measurement, what would bear it out, and what was found."""
    return _table_html(("measurement", *columns), map(_measurement_cells, rows))


def _table_html(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table class='ev-figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _measurement_cells(row: Row) -> list[str]:
    """Each number first, and in small type below it what is known of it."""
    measurement, finding, digits = row.measurement, row.finding, _digits(row)
    unit = f" ({measurement.unit})" if measurement.unit else ""
    paper = [number(measurement.paper, digits=digits)]
    if measurement.target == IMPLIED and measurement.paper is not None:
        paper.append(f"<small title='{html.escape(measurement.why, quote=True)}'>implied</small>")
    if measurement.accept:
        paper.append(f"<br><small>accepted {interval(*measurement.accept)}</small>")
    mark = f"{looks.MARKS[row.verdict]}&nbsp;{html.escape(tagged(row.verdict, row.smaller_scale))}"
    if finding is None:
        return [text_html(measurement.label + unit), " ".join(paper), mark]
    known = ["exact" if finding.exact else f"{_span(row)}, {html.escape(ledger.repetitions(finding))}"]
    if finding.controls:
        name = measurement.control or next(iter(finding.controls))
        known.append(
            f"{html.escape(name.replace('_', ' '))}: {number(finding.controls[name], digits=digits)}"
        )
    ours = f"{_ours(row)} <span>{mark}</span><br><small>{'; '.join(known)}</small>"
    return [text_html(measurement.label + unit), " ".join(paper), ours]


def _ours(row: Row) -> str:
    return number(row.finding.value if row.finding else None, digits=_digits(row))


def _span(row: Row) -> str:
    """The interval of a finding, with the digits of its row; empty where there is none."""
    assert row.finding is not None
    ends = [number(end, digits=_digits(row)) for end in (row.finding.low, row.finding.high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _digits(row: Row) -> int:
    """As many as the interval and the accepted range need, and as keep their ends apart."""
    spans = [row.measurement.accept] if row.measurement.accept else []
    spans += [(row.finding.low, row.finding.high)] if row.finding else []
    digits = max((digits_for(*span) for span in spans), default=3)
    ends = {end for span in spans for end in span if math.isfinite(end)}
    while digits < MOST_DIGITS and len({number(end, digits=digits) for end in ends}) < len(ends):
        digits += 1
    return digits


def claims_table(items: Iterable[Entry], root: str) -> str:
    """One row a claim, each leading to its place in the ledger."""
    rows = [
        [
            f"<a href='{ledger_address(item.claim, root)}'>{text_html(item.claim.title)}</a>"
            f"<br><small>{text_html(item.claim.where)}</small>",
            verdict_html(item.verdict, item.smaller_scale)
            + (f"<br><small>{item.scale}</small>" if item.scale else ""),
            html.escape(ledger.tally(item.rows)),
        ]
        for item in items
    ]
    table = _table_html(("claim", "verdict", "measurements"), rows)
    return f"<div style='overflow-x:auto'>{table}</div>"


def claims_matrix(items: Sequence[Entry]) -> str:
    """One mark per claim, one row per paper; each leads to the claim in the list below."""
    marks: dict[str, list[str]] = {}
    for item in items:
        title = f"{item.claim.title}: {tagged(item.verdict, item.smaller_scale)}"
        marks.setdefault(item.claim.paper, []).append(
            f"<a href='#{html.escape(item.claim.id)}' style='color:{looks.COLOURS[item.verdict]}' "
            f"title='{html.escape(title, quote=True)}'>{looks.MARKS[item.verdict]}</a>"
        )
    body = "".join(
        f"<tr><th><a href='#{paper}'>{paper}</a></th><td>{' '.join(own)}</td></tr>"
        for paper, own in marks.items()
    )
    counts = Counter(item.verdict for item in items)
    key = " · ".join(
        f"{verdict_html(verdict)}&nbsp;{counts[verdict]}" for verdict in ledger.VERDICTS if counts[verdict]
    )
    return f"<table class='ev-figures ev-matrix'><tbody>{body}</tbody></table><p>{key}</p>"


def claims_list(items: Iterable[Entry]) -> str:
    """One line per claim, which opens to its measurements, each in a picture against its accepted range.

    In the book a filter above the first list hides the lines that it excludes.
    """
    return f"<div class='ev-claims'>{''.join(map(_line_html, items))}</div>"


def _line_html(item: Entry) -> str:
    claim = item.claim
    scale = "smaller" if item.smaller_scale else "own"
    return (
        f"<details id='{html.escape(claim.id)}' data-paper='{claim.paper}' data-verdict='{item.verdict}' "
        f"data-scale='{scale}'><summary>{verdict_html(item.verdict, item.smaller_scale)} "
        f"{text_html(claim.title)}</summary>{_details_html(item)}</details>"
    )


def place_in_range(value: float | None, low: float, high: float) -> float | None:
    """Where a value lies against its accepted range: 0 and 1 are the borders, limits -1 and 2.

    An open side of a range lies at 1 (or 0), which values approach but never reach; a range of one
    number is drawn as wide as a hundredth of it.

    >>> place_in_range(0.5, 0.0, 1.0), place_in_range(10.0, 10.0, math.inf), place_in_range(9.0, 0.0, 1.0)
    (0.5, 0.0, 2.0)
    """
    if value is None or math.isnan(value):
        return None
    if math.isinf(high):
        place = _beyond((value - low) / (abs(low) or 1.0))
    elif math.isinf(low):
        place = 1 - _beyond((high - value) / (abs(high) or 1.0))
    else:
        width = high - low or abs(high) / 100 or 1e-3
        place = (value - (high + low) / 2) / width + 0.5
    return min(2.0, max(-1.0, place))


def _beyond(distance: float) -> float:
    """0 at a border, toward 1 far inside, negative outside."""
    return 1 - math.exp(-distance) if distance > 0 else distance


def _range_picture(row: Row) -> str:
    """A measurement and its accepted range, shaded: our interval, the paper's tick, the control's cross."""
    assert row.measurement.accept is not None
    finding, width = row.finding, 120

    def across(value: float | None) -> float | None:
        place = place_in_range(value, *row.measurement.accept)  # type: ignore[misc]
        return None if place is None else round((place + 1) / 3 * (width - 10) + 5, 1)

    left, right = 5 + (width - 10) / 3, 5 + 2 * (width - 10) / 3
    marks = [f"<rect x='{left:.1f}' width='{right - left:.1f}' height='16' fill='#0072b2' opacity='.18'/>"]
    if (paper := across(row.measurement.paper)) is not None:
        marks.append(f"<path d='M{paper} 1v14' stroke='currentColor' stroke-width='2'/>")
    if finding is not None:
        colour = looks.COLOURS[row.verdict]
        control = across(finding.controls.get(row.measurement.control or "", None))
        if control is not None:
            marks.append(f"<path d='M{control - 3} 5l6 6m0-6l-6 6' stroke='currentColor' opacity='.7'/>")
        ends = [across(end) for end in (finding.low, finding.high)]
        marks.append(f"<path d='M{ends[0]} 8H{ends[1]}' stroke='{colour}' stroke-width='2'/>")
        marks.append(f"<circle cx='{across(finding.value)}' cy='8' r='4' fill='{colour}'/>")
    return f"<svg width='{width}' height='16' aria-hidden='true'>{''.join(marks)}</svg>"


def _chapter_address(claim: Claim, root: str = "") -> str:
    return html.escape(f"{root}{claim.chapter}.html#{claim.id}", quote=True)


def ledger_address(claim: Claim, root: str = "") -> str:
    """From a page of the book to a claim's row in the ledger; `root` leads to the book's root."""
    return html.escape(f"{root}ledger.html#{claim.id}", quote=True)


def verdict_html(verdict: str, smaller_scale: bool = False) -> str:
    """A verdict with its mark, and the tag of a smaller scale."""
    colour, mark = looks.COLOURS[verdict], looks.MARKS[verdict]
    tag = f" <i>({SMALLER_SCALE})</i>" if smaller_scale else ""
    return f"<b style='color:{colour}'>{mark}</b>&nbsp;<b>{html.escape(verdict)}</b>{tag}"
