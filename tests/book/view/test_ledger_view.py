import dataclasses
import math

import pytest

from book.ledger.claims import Claim, Measurement
from book.ledger.findings import Finding
from book.ledger.judging import Entry, Results, conclude, entry_of, judge
from book.view import ledger_view


def entry(*, label="a measurement", says="it is so", control=9.0):
    measurement = Measurement("f", label, paper=0.5, accept=(0.0, 1.0), control="shuffled", unit="nats")
    rows = (
        judge(measurement, Finding(0.25, 0.2, 0.3, 3, {"shuffled": control}, "mine")),
        judge(Measurement("g", "g"), None),
    )
    texts = ("p.c", "p", "A title", "Table 1", says, "a setting", "shuffled", "p/chapter")
    claim = Claim(*texts, tuple(row.measurement for row in rows), "p.experiments")
    verdict, reason = conclude(rows)
    return Entry(claim, verdict, "quick", reason, rows)


def test_a_value_that_is_far_out_stays_near_the_band_and_a_range_of_one_number_is_its_middle():
    assert ledger_view.place_in_range(-5.0, 0.0, 1.0) == -1.0
    assert ledger_view.place_in_range(7.0, 7.0, 7.0) == 0.5


@pytest.mark.parametrize(("low", "high"), [(-math.inf, -0.05), (10.0, math.inf), (0.0, 1.0)])
def test_inside_the_range_is_inside_the_band(low, high):
    for value in (-1e9, -1.0, -0.06, -0.05, 0.0, 10.0, 11.0, 1e9):
        place = ledger_view.place_in_range(value, low, high)
        assert (0 <= place <= 1) == (low <= value <= high)


def test_a_line_shows_verdict_statement_value_interval_range_control_and_a_link_to_its_row():
    line = ledger_view.claim_line(entry(), "../")
    for text in (
        *("id='p.c'", "<b>reproduced</b>", "A title", "0.25 nats (0.2 to 0.3, 3 seeds)"),
        *("accepted 0 to 1", "control (shuffled) 9", "href='../ledger.html#p.c'"),
    ):
        assert text in line
    assert "a setting" not in line
    assert "<table" not in line


def judged(*verdicts, question=False, amended=(), **other):
    """The entry of a claim whose measurements were found so."""
    measurements = [
        Measurement(f"f{i}", f"measurement {i}", accept=(0.0, 1.0), control="shuffled")
        for i in range(len(verdicts))
    ]
    ends = {
        "reproduced": Finding(0.5, 0.4, 0.6, 3, {"shuffled": 9.0}),
        "not specific": Finding(0.5, 0.4, 0.6, 3, {"shuffled": 0.5}),
        "not reproduced": Finding(2.0, 1.9, 2.1, 5, {"shuffled": 9.0}),
        "inconclusive": Finding(0.5, 0.4, 0.6, 2, {"shuffled": 9.0}),
    }
    texts = ("p.c", "p", "A title", "Table 1", "it is so", "a setting", "shuffled", "p/chapter")
    claim = Claim(*texts, tuple(measurements), "p.experiments", question=question, amended=amended, **other)
    found = {measurement.name: ends[name] for measurement, name in zip(measurements, verdicts, strict=True)}
    return entry_of(claim, Results("paper", found))


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (
            ["reproduced"] * 2,
            "Measurement 0: 0.5 (0.4 to 0.6, 3 seeds); accepted 0 to 1; control (shuffled) 9.",
        ),
        (
            ["reproduced", "not reproduced"],
            "Measurement 1: 2 (1.9 to 2.1, 5 seeds); accepted 0 to 1; control",
        ),
        (["not specific"], "accepted 0 to 1; control (shuffled) 0.5."),
        (["inconclusive"], "Measurement 0: 0.5 (0.4 to 0.6, 2 seeds); accepted 0 to 1"),
    ],
)
def test_the_deciding_measurement_stands_beside_its_range_and_control(verdicts, said):
    assert said in ledger_view.verdict_sentence(judged(*verdicts))


def test_a_line_says_that_two_texts_disagree():
    item = judged("inconclusive")
    assert "disagree" not in ledger_view.verdict_sentence(item)
    row = dataclasses.replace(item.rows[0], reason="two texts disagree: [2, 3] on a (not reproduced) and ...")
    item = dataclasses.replace(item, rows=(row,))
    assert ledger_view.verdict_sentence(item).endswith("; two texts disagree.")


def test_a_line_counts_the_measurements_that_agree_where_one_does_not():
    one, both = (
        ledger_view.claim_line(judged("reproduced", of), "../") for of in ("not reproduced", "reproduced")
    )
    assert "1 of 2 measurements agree." in one
    assert "agree" not in both


def test_a_row_says_once_why_and_where_it_was_measured():
    where = "measured on one text, not on another"
    item = judged("inconclusive")
    item = dataclasses.replace(item, reason=f"{item.reason}; {where}", elsewhere=where)
    html = ledger_view._details_html(item)
    assert html.count("easured on one text") == html.count("at least 3 are needed") == 1


def test_a_row_names_the_run_at_the_papers_own_scale():
    measurement = Measurement("f", "f", accept=(0.0, 1.0))
    texts = ("p.c", "p", "A title", "Table 1", "it is so", "a setting", "none", "p/chapter")
    claim = Claim(*texts, (measurement,), "p.experiments")
    found = Results("laptop", {"f": Finding(0.5, 0.4, 0.6, 3)}, own_corpora=())
    html = ledger_view._details_html(entry_of(claim, found))
    assert "At the paper&#x27;s scale: <code>python -m book run p.c --preset paper</code>." in html
    assert "Measured again by <code>python -m book run p.c --preset laptop</code>" in html
    assert "(smaller scale)" in ledger_view.claim_line(entry_of(claim, found), "../")


def test_a_question_is_asked_by_who_asks_it_and_answered():
    item = judged("not reproduced", question=True)
    assert "The paper asks (Table 1): it is so" in ledger_view._details_html(item)
    assert "<b>no</b> <i>A title?</i>" in ledger_view.claim_line(item, "../")
    html = ledger_view._details_html(judged("reproduced", question=True, ours=True))
    assert "We ask (Table 1): it is so" in html
    assert "paper" not in html.partition("Setting:")[0]


def test_a_row_tells_of_a_revision_and_folds_what_was_measured_before_and_the_line_does_not(monkeypatch):
    last = {
        "measurement": "f0",
        "value": 2.0,
        "interval": [1.9, 2.1],
        "n": 5,
        "scale": "paper",
        "commit": "4b4e",
    }
    first = {"name": "f0", "label": "the <first>", "accept": [0.0, 1.0]}
    history = {"measurements": [first], "amended": [{"superseded": [last]}]}
    monkeypatch.setattr(ledger_view, "history_of", lambda claim: history)
    item = judged("reproduced", amended=("2026-11-02, not reproduced before: It was <unfair>.",))
    html = ledger_view._details_html(item)
    assert "<b>Revised</b> 2026-11-02, not reproduced before: It was &lt;unfair&gt;." in html
    fold = html.partition("<details><summary>As first fixed</summary>")[2].partition("</details>")[0]
    assert "<td>the &lt;first&gt;</td><td>0 to 1</td><td>2 (1.9 to 2.1, 5 seeds, paper, at 4b4e)</td>" in fold
    line = ledger_view.claim_line(item, "../")
    assert "Revised" not in line
    assert "first" not in line


def test_a_value_that_the_paper_does_not_print_is_marked_with_its_reason():
    measurement = Measurement(
        "f", "f", paper=0.0, accept=(0.0, 1.0), target="implied", why="rows that are 'equal'"
    )
    html = ledger_view._measurements_html([judge(measurement, Finding(0.5, 0.4, 0.6, 3))])
    assert "0 <small title='rows that are &#x27;equal&#x27;'>implied</small>" in html


def test_words_of_a_claim_are_drawn_as_text():
    item = entry(label="<script>alert(1)</script>", says="a & b < c, run `x` from $N(0, 1/d)$")
    for html in (ledger_view._details_html(item), ledger_view.claim_line(item, "../")):
        assert "<script>" not in html
    assert "a &amp; b &lt; c, run <code>x</code> from <i>N(0, 1/d)</i>" in ledger_view._details_html(item)


def test_a_value_that_rounding_would_put_into_the_range_has_more_digits():
    row = judge(Measurement("f", "f", accept=(0.0101, 0.0103)), Finding(0.01008, 0.01008, 0.01008, 3))
    assert "0.01008 <span>" in ledger_view._measurements_html([row])


def test_the_matrix_has_a_row_a_paper_and_a_mark_a_claim_that_leads_to_its_line():
    other = dataclasses.replace(entry(), claim=dataclasses.replace(entry().claim, id="q.d", paper="q"))
    items = [entry(), entry(control=0.5), other]
    html = ledger_view.claims_matrix(items)
    assert html.count("<tr>") == 2
    assert html.count("<a href='#p.c'") == 2
    assert "title='A title: not specific'" in html


def test_a_row_of_the_list_opens_to_measurements_in_pictures_and_leads_to_the_chapter():
    html = ledger_view.claims_list([entry(says="<script>")])
    assert "<details id='p.c' data-paper='p' data-verdict='reproduced' data-scale='own'>" in html
    assert html.count("<svg") == 1  # of the measurement that is judged
    assert "href='p/chapter.html#p.c'" in html
    assert "<script>" not in html
