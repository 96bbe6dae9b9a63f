"""The ledger for the eye: a picture of every figure against its accepted range, and a box for a claim."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from embviz import ledger
from embviz.ledger.judging import FAILS, HOLDS, NOT_MEASURED, UNCLEAR, Entry, Row
from embviz.view import theme
from embviz.view.sentences import digits_for, interval, number

MARKS = {HOLDS: "✓", FAILS: "✗", UNCLEAR: "?", NOT_MEASURED: "–", ledger.REPORTED: "·"}


# --- the picture of the whole ledger -----------------------------------------------------------------


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


ROW_SEPARATOR = ": "  # no claim's id has it


def picture_table(table: pd.DataFrame, *, chapter_suffix: str = ".html") -> pd.DataFrame:
    """Rows of :func:`embviz.ledger.table` that are judged, with texts, links and places in the range."""
    judged = table[table["accept_low"].notna()].copy()
    for column in ("measured", "low", "high", "published", "null"):
        places = [
            place_in_range(value, low, high)
            for value, low, high in zip(
                judged[column].astype(float), judged["accept_low"], judged["accept_high"], strict=True
            )
        ]
        # the last digits of a float depend on the number of threads, and pages are compared
        judged[f"{column}_place"] = [None if place is None else round(place, 6) for place in places]
    ends = zip(judged["accept_low"], judged["accept_high"], strict=True)
    judged["accepted_text"] = [interval(*pair) for pair in ends]
    units = judged["unit"]
    for column in ("measured", "published", "null"):
        judged[f"{column}_text"] = [number(v, u) for v, u in zip(judged[column], units, strict=True)]
    judged["interval_text"] = [
        interval(low, high) if n else "–"
        for low, high, n in zip(judged["low"], judged["high"], judged["n_seeds"], strict=True)
    ]
    judged["row"] = judged["claim"] + ROW_SEPARATOR + judged["label"]  # labels repeat from claim to claim
    pairs = zip(judged["chapter"], judged["claim"], strict=True)
    judged["link"] = [f"{chapter}{chapter_suffix}#{claim}" for chapter, claim in pairs]
    return judged.reset_index(drop=True)


def plot_ledger(table: pd.DataFrame, *, chapter_suffix: str = ".html") -> alt.LayerChart:
    """Every judged figure of the ledger against its accepted range; a click leads to its claim's box.

    Parameters
    ----------
    table : DataFrame
        From :func:`embviz.ledger.table`.
    chapter_suffix : str
        Ending of the chapters' addresses: ``.html`` in the book, ``.ipynb`` in JupyterLab.
    """
    shown = picture_table(table, chapter_suffix=chapter_suffix)
    columns = [
        "claim", "row", "where", "verdict", "scale", "corpus", "reason", "link", "null_name",
        "measured_place", "low_place", "high_place", "published_place", "null_place",
        "measured_text", "interval_text", "published_text", "null_text", "accepted_text", "n_seeds",
    ]  # fmt: skip
    verdicts = ["all", *(v for v in ledger.VERDICTS if v in set(shown["verdict"]))]
    claims = ["all", *dict.fromkeys(shown["claim"])]
    by_verdict = alt.param(
        name="verdict_shown", value="all", bind=alt.binding_select(options=verdicts, name="verdict ")
    )
    by_claim = alt.param(
        name="claim_shown", value="all", bind=alt.binding_select(options=claims, name="claim ")
    )
    rows = list(shown["row"])  # a filter empties rows and moves none
    own_label = f"slice(datum.label, indexof(datum.label, '{ROW_SEPARATOR}') + {len(ROW_SEPARATOR)})"
    base = (
        alt.Chart(shown[columns])
        .encode(
            y=alt.Y(
                "row:N",
                scale=alt.Scale(domain=rows),
                axis=alt.Axis(title=None, labelExpr=own_label, labelLimit=300, ticks=False),
            )
        )
        .transform_filter("verdict_shown == 'all' || datum.verdict == verdict_shown")
        .transform_filter("claim_shown == 'all' || datum.claim == claim_shown")
    )
    return (
        alt.LayerChart(layer=[_accepted_band(), *_ledger_marks(base)])
        .add_params(by_verdict, by_claim)
        .properties(width="container", height=17 * len(rows))
    )


def _accepted_band() -> alt.Chart:
    band = alt.Chart(alt.Data(values=[{"left": 0, "right": 1}]))
    return band.mark_rect(opacity=0.15, color=theme.CATEGORIES[0]).encode(x="left:Q", x2="right:Q")


def _ledger_marks(base: alt.Chart) -> list[alt.Chart]:
    labels = "datum.value == 0 ? 'least' : datum.value == 1 ? 'most' : ''"
    axis = alt.Axis(title=None, values=[0, 1], labelExpr=labels, orient="top")
    x = alt.X("measured_place:Q", scale=alt.Scale(domain=[-1.05, 2.05], nice=False), axis=axis)
    names = list(ledger.VERDICTS)
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=names, range=[theme.VERDICT_COLOURS[name] for name in names]),
        legend=alt.Legend(title="verdict", orient="bottom"),
    )
    shape = alt.Shape(
        "verdict:N", scale=alt.Scale(domain=names, range=[theme.VERDICT_SHAPES[name] for name in names])
    )
    tooltip = [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in {
            "claim": "claim", "where": "where", "published_text": "paper", "measured_text": "ours",
            "interval_text": "interval", "accepted_text": "accepted", "null_text": "null",
            "null_name": "which null", "n_seeds": "seeds", "corpus": "data", "scale": "scale",
            "verdict": "verdict", "reason": "reason",
        }.items()
    ]  # fmt: skip
    absent = base.mark_text(text="not measured", opacity=0.5, fontSize=9, align="left").encode(x=alt.value(3))
    absent = absent.transform_filter("datum.verdict == 'not measured'")
    paper = base.mark_tick(thickness=2, size=13).encode(x="published_place:Q", color=alt.value(theme.INK))
    null = base.mark_point(shape="cross", angle=45, size=30, opacity=0.6).encode(
        x="null_place:Q", color=alt.value(theme.INK)
    )
    span = base.mark_rule(strokeWidth=2).encode(x="low_place:Q", x2="high_place:Q", color=colour)
    ours = base.mark_point(filled=True, size=75, opacity=1).encode(
        x=x, color=colour, shape=shape, href="link:N", tooltip=tooltip
    )
    return [absent, paper, null, span, ours]


# --- a claim in a chapter ---------------------------------------------------------------------------


class ClaimBox:
    """A claim of the ledger, drawn for a chapter: paper, ours, interval, null, scale, verdict.

    Parameters
    ----------
    item : Entry
        From :func:`embviz.ledger.judging.entry`.
    """

    def __init__(self, item: Entry) -> None:
        self.entry = item

    def __repr__(self) -> str:
        return f"<claim {self.entry.claim.id}: {self.entry.verdict}>"

    def _repr_html_(self) -> str:
        item, claim = self.entry, self.entry.claim
        colour = theme.VERDICT_COLOURS[item.verdict]
        verdict = _verdict_html(item.verdict)
        scale = f", at scale <i>{item.scale}</i>" if item.scale else ""
        reason = f" <span class='ev-reason'>{html.escape(item.reason)}</span>" if item.reason else ""
        return (
            f"<div class='ev-claim' id='{html.escape(claim.id)}' "
            f"style='border-left:4px solid {colour};padding:.4em 1em;margin:1em 0;overflow-x:auto'>"
            f"<p><b>{html.escape(claim.title)}</b> <small>({html.escape(claim.where)})</small><br>"
            f"The paper says: {html.escape(claim.says)}</p>"
            f"{_figures_html(item.rows)}"
            f"<p>Verdict: {verdict}{scale}.{reason}<br><small>Setting: {html.escape(claim.setting)}. "
            f"Null: {html.escape(claim.null)}.</small></p></div>"
        )


def _figures_html(rows: Sequence[Row]) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("figure", "paper", "ours", "interval", "accepted", "null", "")
    )
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _figure_cells(row))}</tr>" for row in rows)
    return f"<table class='ev-figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure_cells(row: Row) -> list[str]:
    figure, finding = row.figure, row.finding
    null = ""
    if finding and finding.nulls:
        name = figure.null or next(iter(finding.nulls))
        null = f"{number(finding.nulls[name])} ({name.replace('_', ' ')})"
    digits = digits_for(*figure.accept) if figure.accept else 3  # as fine as what decides
    ours, span = (
        ("–", "–")
        if finding is None
        else (number(finding.value, digits=digits), interval(finding.low, finding.high))
    )
    accepted = interval(*figure.accept) if figure.accept else "–"
    label = f"{figure.label}{f' ({figure.unit})' if figure.unit else ''}"
    mark = f"{MARKS[row.verdict]}&nbsp;{html.escape(row.verdict)}"
    texts = [label, number(figure.paper, digits=digits), ours, span, accepted, null]
    return [*(html.escape(text) for text in texts), mark]


def claim_box(claim_id: str) -> ClaimBox:
    """The claim box of `claim_id`, such as ``reflections.lemma1``, judged on the stored results."""
    return ClaimBox(ledger.entry(ledger.find_claim(claim_id)))


class ClaimsTable:
    """One row a claim, each leading to its box in the book.

    Parameters
    ----------
    items : sequence of Entry
        From :func:`embviz.ledger.judging.entries`.
    """

    def __init__(self, items: Sequence[Entry]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return ledger.summary(self.items).to_string(index=False)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("claim", "where", "verdict", "scale", "figures"))
        body = "".join(f"<tr>{self._cells(item)}</tr>" for item in self.items)
        table = f"<table class='ev-figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div style='overflow-x:auto'>{table}</div>"

    @staticmethod
    def _cells(item: Entry) -> str:
        claim = item.claim
        link = html.escape(f"{claim.chapter}.html#{claim.id}")
        texts = [
            f"<a href='{link}'>{html.escape(claim.title)}</a>",
            html.escape(claim.where),
            _verdict_html(item.verdict),
            item.scale or "–",
            html.escape(ledger.tally(item.rows)),
        ]
        return "".join(f"<td>{text}</td>" for text in texts)


def _verdict_html(verdict: str) -> str:
    return (
        f"<b style='color:{theme.VERDICT_COLOURS[verdict]}'>{MARKS[verdict]}</b>&nbsp;{html.escape(verdict)}"
    )
