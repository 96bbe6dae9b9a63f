import dataclasses
import math

import pytest
import vl_convert

from embviz import ledger
from embviz.ledger.claims import Claim, Figure
from embviz.ledger.findings import Finding
from embviz.ledger.judging import Entry, conclude, judge
from embviz.view import ledger_view


def entry(*, label="a figure", says="it is so", null=9.0):
    figure = Figure("f", label, paper=0.5, accept=(0.0, 1.0), null="shuffled", unit="nats")
    rows = (
        judge(figure, Finding(0.25, 0.2, 0.3, 3, {"shuffled": null}, "mine")),
        judge(Figure("g", "g"), None),
    )
    texts = ("p.c", "p", "A title", "Table 1", says, "a setting", "shuffled", "p/chapter")
    claim = Claim(*texts, rows_figures(rows), "p.experiments")
    verdict, reason = conclude(rows)
    return Entry(claim, verdict, "quick", reason, rows)


def rows_figures(rows):
    return tuple(row.figure for row in rows)


@pytest.mark.parametrize(
    ("value", "low", "high", "place"),
    [
        (0.0, 0.0, 1.0, 0.0),
        (1.0, 0.0, 1.0, 1.0),
        (-5.0, 0.0, 1.0, -1.0),
        (10.0, 10.0, math.inf, 0.0),
        (-0.05, -math.inf, -0.05, 1.0),
        (7.0, 7.0, 7.0, 0.5),
    ],
)
def test_a_value_lies_in_the_band_exactly_when_it_lies_in_the_range(value, low, high, place):
    assert ledger_view.place_in_range(value, low, high) == pytest.approx(place)


@pytest.mark.parametrize("value", [-1e9, -1.0, -0.06, -0.05, 0.0, 10.0, 11.0, 1e9])
@pytest.mark.parametrize(("low", "high"), [(-math.inf, -0.05), (10.0, math.inf), (0.0, 1.0)])
def test_inside_the_range_is_inside_the_band(value, low, high):
    place = ledger_view.place_in_range(value, low, high)
    assert (0 <= place <= 1) == (low <= value <= high)


def test_a_claim_box_shows_paper_ours_interval_null_and_verdict():
    html = ledger_view.ClaimBox(entry())._repr_html_()
    for text in ("0.5", "0.25", "0.2 to 0.3", "9 (shuffled)", "holds", "a setting", "id='p.c'", "(nats)"):
        assert text in html


def test_words_of_a_claim_are_drawn_as_text():
    html = ledger_view.ClaimBox(entry(label="<script>alert(1)</script>", says="a & b < c"))._repr_html_()
    assert "<script>" not in html
    assert "a &amp; b &lt; c" in html
    assert "<script>" not in ledger_view.ClaimsTable([entry(says="<script>")])._repr_html_()


def test_a_null_that_passes_shows_as_unclear():
    assert "unclear" in ledger_view.ClaimBox(entry(null=0.5))._repr_html_()


def test_the_picture_has_a_row_a_judged_figure_and_leads_to_the_claims_box():
    table = ledger_view.picture_table(ledger.table([entry()]))
    assert table["row"].tolist() == ["p.c: a figure"]
    assert table["link"].tolist() == ["p/chapter.html#p.c"]
    assert table["measured_place"].tolist() == [0.25]


def test_the_picture_of_the_stored_ledger_compiles_and_filters():
    chart = ledger_view.plot_ledger(ledger.table()).to_dict()
    names = {param["name"] for param in chart["params"]}
    assert {"verdict_shown", "claim_shown"} <= names


def test_figures_of_one_label_keep_a_row_each_and_show_the_label_alone():
    other = dataclasses.replace(entry(), claim=dataclasses.replace(entry().claim, id="p.d"))
    chart = ledger_view.plot_ledger(ledger.table([entry(), other])).properties(width=600)
    svg = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version="6.4")
    assert svg.count(">a figure</text>") == 2
    assert ">p.c: " not in svg
