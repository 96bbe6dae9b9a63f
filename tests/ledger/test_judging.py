import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embviz import ledger
from embviz.ledger import studies
from embviz.ledger.claims import Figure
from embviz.ledger.findings import Finding, exact, over_seeds
from embviz.ledger.judging import FAILS, HOLDS, NOT_MEASURED, UNCLEAR, conclude, judge

RANGE = Figure("f", "a figure", accept=(0.0, 1.0))


def finding(low, high, **nulls):
    return Finding((low + high) / 2, low, high, 3, nulls)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.2, 0.8, HOLDS),
        (0.0, 1.0, HOLDS),
        (0.8, 1.2, UNCLEAR),
        (-0.1, 1.1, UNCLEAR),
        (1.1, 1.2, FAILS),
        (-2, -1, FAILS),
    ],
)
def test_an_interval_holds_inside_fails_outside_and_is_unclear_across_a_border(low, high, verdict):
    assert judge(RANGE, finding(low, high)).verdict == verdict


def test_the_rule_meets_accepts_an_interval_that_touches_the_range():
    figure = dataclasses.replace(RANGE, rule="meets")
    assert judge(figure, finding(0.8, 1.2)).verdict == HOLDS
    assert judge(figure, finding(1.1, 1.2)).verdict == FAILS


def test_a_null_that_passes_too_makes_the_figure_unclear():
    figure = dataclasses.replace(RANGE, null="shuffled")
    assert judge(figure, finding(0.2, 0.8, shuffled=7.0)).verdict == HOLDS
    row = judge(figure, finding(0.2, 0.8, shuffled=0.5))
    assert row.verdict == UNCLEAR
    assert "passes too" in row.reason


def test_a_null_that_was_not_measured_makes_the_figure_unclear():
    assert judge(dataclasses.replace(RANGE, null="shuffled"), finding(0.2, 0.8)).verdict == UNCLEAR


def test_a_null_never_rescues_a_failing_figure():
    figure = dataclasses.replace(RANGE, null="shuffled")
    assert judge(figure, finding(2, 3, shuffled=0.5)).verdict == FAILS


def test_a_claim_takes_the_worst_verdict_of_its_measured_figures():
    holds, unclear, fails = (judge(RANGE, finding(*ends)) for ends in [(0.2, 0.8), (0.8, 1.2), (2, 3)])
    absent = judge(RANGE, None)
    assert conclude([holds, absent])[0] == HOLDS
    assert "not measured: a figure" in conclude([holds, absent])[1]
    assert conclude([holds, unclear])[0] == UNCLEAR
    assert conclude([holds, unclear, fails])[0] == FAILS
    assert conclude([absent, absent])[0] == NOT_MEASURED


def test_a_figure_without_a_range_is_reported_and_decides_nothing():
    reported = judge(Figure("g", "g"), finding(5, 6))
    assert reported.verdict == "reported"
    assert conclude([reported])[0] == NOT_MEASURED


@given(st.floats(-10, 10), st.floats(0, 5), st.floats(-10, 10), st.floats(0, 5))
def test_negating_the_axis_never_changes_a_verdict(value, half, least, width):
    figure = Figure("f", "f", accept=(least, least + width))
    mirrored = Figure("f", "f", accept=(-least - width, -least))
    there = judge(figure, Finding(value, value - half, value + half)).verdict
    assert judge(mirrored, Finding(-value, -value - half, -value + half)).verdict == there


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"accept": (1.0, 0.0)}, "is empty"),
        ({"accept": (0.0, 1.0), "rule": "near"}, "rule must be"),
        ({"null": "shuffled"}, "no range for it to miss"),
    ],
)
def test_a_figure_that_can_decide_nothing_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Figure("f", "f", **fields)


def test_a_finding_refuses_nan_and_a_value_outside_its_interval():
    with pytest.raises(ValueError, match="NaN"):
        exact(math.nan)
    with pytest.raises(ValueError, match="outside its interval"):
        Finding(2.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="no seed"):
        over_seeds([])


def test_an_interval_is_cut_at_what_its_number_can_be_and_never_past_its_mean():
    free, cut = over_seeds([0.9, 1.0]), over_seeds([0.9, 1.0], within=(-1.0, 1.0))
    assert free.high > 1
    assert (cut.low, cut.value, cut.high) == (free.low, free.value, 1.0)
    rounded = over_seeds([1.0000001, 1.0000001], within=(-1.0, 1.0))
    assert rounded.low <= rounded.value <= rounded.high


def test_every_claim_has_a_study_a_range_and_a_chapter():
    for claim in ledger.load_claims():
        studies.find_study(claim.id)
        assert claim.figures
        assert any(figure.accept for figure in claim.figures), claim.id
        assert claim.null, claim.id
        assert len({figure.name for figure in claim.figures}) == len(claim.figures)


def test_the_published_value_of_a_range_check_lies_in_its_own_range():
    for claim in ledger.load_claims():
        for figure in claim.figures:
            if figure.accept and figure.paper is not None:
                assert figure.accept[0] <= figure.paper <= figure.accept[1], (claim.id, figure.name)


def test_an_unknown_claim_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"reflections\.lemma1"):
        ledger.find_claim("reflections.lemma9")


def test_an_empty_results_folder_gives_not_measured_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    for item in ledger.entries():
        assert item.verdict == NOT_MEASURED
        assert item.reason
        assert item.scale is None


def test_every_record_is_valid_json_with_the_promised_fields():
    promised = {
        "id",
        "paper",
        "verdict",
        "scale",
        "reason",
        "published",
        "measured",
        "interval",
        "n_seeds",
        "null",
    }
    for item in ledger.entries():
        record = ledger.as_record(item)
        assert promised <= set(record)
        assert record["verdict"] in ledger.VERDICTS
        json.dumps(record, allow_nan=False)


def test_the_stored_results_support_the_ledger_shown_in_the_book():
    table = ledger.table()
    assert set(table["claim"]) == {claim.id for claim in ledger.load_claims()}
    measured = table[table["n_seeds"] > 0]
    assert measured[["measured", "low", "high"]].notna().all().all()
