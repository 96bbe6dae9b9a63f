import pytest

from embviz import ledger
from embviz.ledger.claims import Claim, Figure
from embviz.ledger.findings import Finding
from embviz.ledger.judging import Entry, conclude, judge
from embviz.view import sentences


def entry():
    figure = Figure("f", "a figure", paper=0.5, accept=(0.0, 1.0), null="shuffled", unit="nats")
    rows = (
        judge(figure, Finding(0.25, 0.2, 0.3, 3, {"shuffled": 9.0}, "mine")),
        judge(Figure("g", "g"), None),
    )
    texts = ("p.c", "p", "A title", "Table 1", "it is so", "a setting", "shuffled", "p/chapter")
    claim = Claim(*texts, tuple(row.figure for row in rows), "p.experiments")
    verdict, reason = conclude(rows)
    return Entry(claim, verdict, "quick", reason, rows)


def test_quoted_numbers_come_from_the_ledger(monkeypatch):
    monkeypatch.setattr(ledger, "find_claim", lambda claim_id: None)
    monkeypatch.setattr(ledger, "entry", lambda claim: entry())
    text = "{f} of {f:paper}, {f:interval}, null {f:shuffled}, {f:seeds} seeds, {g}"
    said = sentences.quote("p.c", text)
    assert said.text == ("0.25 nats of 0.5 nats, 0.2 to 0.3, null 9, 3 seeds, (not measured)")
    assert sentences.quote("p.c", "{verdict}, {scale}, {corpus}").text == "holds, quick, mine"
    with pytest.raises(ValueError, match="no figure 'h'"):
        sentences.quote("p.c", "{h}")
    with pytest.raises(ValueError, match="no 'ppmi'"):
        sentences.quote("p.c", "{f:ppmi}")


def test_numbers_are_short_and_counts_whole():
    assert sentences.number(0.000123456) == "0.000123"
    assert sentences.number(17_005_207.0) == "17,005,207"
    assert sentences.number(None) == "–"
