import dataclasses
import json
import math

import altair as alt
import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import assume, given

from book import ledger
from book.view import say
from book.view.sentences import Amount, amount
from embviz.view import theme
from tests.book.view.test_ledger_view import entry


def test_quoted_numbers_come_from_the_ledger(monkeypatch):
    monkeypatch.setattr(ledger, "entry", lambda claim: entry())
    text = "{f} of {f:paper}, {f:interval}, control {f:shuffled}, {f:seeds} seeds, {g}"
    said = say(text, claim="p.c")
    assert said == "0.25 nats of 0.5 nats, 0.20 to 0.30, control 9, 3 seeds, not measured"
    assert say("{verdict}, {scale}, {corpus}", claim="p.c") == "reproduced, quick, mine"
    with pytest.raises(ValueError, match=r"p.c has no 'h': choose from f, g"):
        say("{h}", claim="p.c")
    with pytest.raises(ValueError, match="no 'ppmi'"):
        say("{f:ppmi}", claim="p.c")


def test_a_claim_is_a_source_beside_others():
    own = say("{own[f]:low} to {own[f]:high} ({own.verdict}), {n:word|words}", own=entry(), n=1)
    assert own == "0.20 nats to 0.30 nats (reproduced), 1 word"


def test_rows_and_columns_of_a_table_are_named():
    index = pd.MultiIndex.from_tuples([("tied", 11), ("untied", 11)])
    table = pd.DataFrame({"share": [0.5, 0.25], "word": ["of", "{x}"]}, index=index)
    text = say("{t[tied, 11].share:.0%} {t[untied, 11][word]} {s[untied, 11]}", t=table, s=table["share"])
    assert text == "50% {x} 0.25"
    assert say("{t.share}", t=pd.DataFrame({"share": [0.5]})) == "0.5"


def test_what_was_not_measured_is_said_to_be():
    text = say("{a}, {b:.2f}, {c:interval percent}, {d[x]}", a=None, b=math.nan, c=amount([]), d={"x": None})
    assert text == ", ".join(["not measured"] * 4)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{rung}", "the sentence has no 'rung': choose from run, t"),
        ("{t[c]}", r"t has no 'c': choose from a, b"),
        ("{t}", "t is no number: name one of a, b"),
        ("{t[a].loss}", r"t\[a\] has no 'loss': choose from score"),
        ("{run:nul}", "a number has no 'nul': choose from value, low, high"),
    ],
)
def test_a_missing_name_lists_those_there_are(template, message):
    table = pd.DataFrame({"score": [1.0, 2.0]}, index=["a", "b"])
    with pytest.raises(ValueError, match=message):
        say(template, run=1.5, t=table)


def test_a_mean_of_values_that_reached_the_limit_is_refused():
    with pytest.raises(ValueError, match="take the median"):
        amount([80, 1500], limit=1500)


def test_an_interval_without_an_upper_end_says_so_whatever_the_format():
    ratio = Amount(2.15, low=1.59, high=math.inf)
    assert format(ratio, "interval") == format(ratio, "interval .2f") == "1.59 to ∞"
    waited = Amount(80.0, least=70.0, most=1500.0, limit=1500.0)
    assert format(waited, "range") == "70 to > 1,500"


@given(st.floats(-1e5, 1e5), st.floats(1e-4, 1e4))
def test_what_is_written_is_off_by_less_than_a_tenth_of_the_interval(value, width):
    assume(abs(value) >= 1e-4)
    low, high = value - width / 2, value + width / 2
    written = str(Amount(value, low, high))
    off = abs(float(written.replace(",", "")) - value)
    assert off <= width / 10
    assert len(written) < 16


@pytest.mark.parametrize("how", [".2f", "+.1f", ".0%", "+"])
def test_nothing_is_never_minus_nothing(how):
    assert "-" not in format(Amount(-0.0001, -0.1, 0.1), how)


def test_a_filled_sentence_is_text_wherever_one_is_asked_for():
    sentence = say("{share:percent} of {n} words", share=0.5, n=1200)
    assert sentence == "50% of 1,200 words"
    assert (repr(sentence), sentence._repr_markdown_()) == (sentence, sentence)
    chart = theme.captioned(alt.Chart(alt.Data(values=[])).mark_point(), finding=sentence, caption="Made.")
    spec = json.loads(json.dumps(chart.to_dict()))
    assert spec["usermeta"]["embviz"]["title"] == "50% of 1,200 words"


# --- sentences that rest on verdicts ------------------------------------------------------------------

SENTENCES = "It is {share} here. The control\ndoes it too [p.c: not specific]. A third."


@pytest.fixture
def judged(monkeypatch):
    monkeypatch.setattr(ledger, "entry", lambda name: entry(control=0.5))


@pytest.mark.usefixtures("judged")
def test_a_sentence_leads_to_the_row_of_the_claim_that_it_rests_on_and_shows_its_verdict():
    said = say(SENTENCES, root="", share=0.25)
    assert said.startswith("It is 0.25 here. The control\ndoes it too <small><a href=")
    assert 'href="ledger.html#p.c" title="A title"' in said
    assert said.endswith("not&nbsp;specific</a></small>. A third.")
    assert "[" not in said
    assert 'href="../ledger.html#p.c"' in say(SENTENCES, share=0.25)


def test_a_sentence_whose_verdict_has_moved_is_refused_by_name(monkeypatch):
    moved = dataclasses.replace(entry(), verdict=ledger.NOT_REPRODUCED)
    monkeypatch.setattr(ledger, "entry", lambda name: moved)
    with pytest.raises(ValueError, match=r"p\.c is 'not reproduced' now, not 'not specific'") as refused:
        say(SENTENCES, share=0.25)
    assert "The control\ndoes it too" in str(refused.value)
    assert "A third" not in str(refused.value)


def test_a_number_of_any_claim_is_filled_in_by_its_full_name_and_the_ledger_counts_its_claims():
    found = ledger.entry("kernel.circulant")
    value = next(row.finding.value for row in found.rows if row.measurement.name == "score")
    assert say("{kernel.circulant.score:.3f} of {own}", own=1) == f"{value:.3f} of 1"
    with pytest.raises(ValueError, match="kernel has no 'square': choose from"):
        say("{kernel.square.share}")
    items = ledger.entries()
    n_open = sum(item.verdict == ledger.NOT_TESTED for item in items)
    n_revised = sum(bool(item.claim.amended) for item in items)
    said = say("{ledger.claims} {ledger[not tested]} {ledger.revised}")
    assert said == f"{len(items)} {n_open} {n_revised}"
