import dataclasses
import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from book import ledger
from book.ledger import studies, verdicts
from book.ledger.claims import Claim, Measurement
from book.ledger.findings import Finding, exact, once, over_seeds, share
from book.ledger.judging import Results, conclude, corpora, entry_of, judge
from book.ledger.verdicts import (
    INCONCLUSIVE,
    NO,
    NOT_REPRODUCED,
    NOT_SPECIFIC,
    NOT_TESTED,
    OPEN,
    REPRODUCED,
    YES,
)

RANGE = Measurement("f", "a measurement", accept=(0.0, 1.0))
CONTROLLED = dataclasses.replace(RANGE, control="shuffled")


def finding(low, high, *, n=3, corpus="", **controls):
    return Finding((low + high) / 2, low, high, n, controls, corpus)


def claim(*measurements, **fields):
    texts = ("p.c", "p", "A title", "Table 1", "it is so", "a setting", "shuffled", "p/chapter")
    return Claim(*texts, measurements or (RANGE,), "p.experiments", **fields)


def judged(own, *findings, scale="paper", own_corpora=()):
    """The entry of a claim whose measurements were found so, in their order; None: not measured."""
    names = [measurement.name for measurement in own.measurements]
    found = {name: one for name, one in zip(names, findings, strict=True) if one is not None}
    return entry_of(own, Results(scale, found, own_corpora=own_corpora))


# --- one measurement -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "inside", "meets"),
    [
        (0.2, 0.8, REPRODUCED, REPRODUCED),
        (0.0, 1.0, REPRODUCED, REPRODUCED),
        (0.8, 1.2, INCONCLUSIVE, REPRODUCED),
        (-0.1, 1.1, INCONCLUSIVE, REPRODUCED),
        (1.0, 1.2, INCONCLUSIVE, REPRODUCED),
        (-0.2, 0.0, INCONCLUSIVE, REPRODUCED),
        (1.1, 1.2, NOT_REPRODUCED, NOT_REPRODUCED),
        (-2, -1, NOT_REPRODUCED, NOT_REPRODUCED),
    ],
)
def test_an_interval_lies_inside_the_range_or_meets_it_or_misses_it(low, high, inside, meets):
    assert judge(RANGE, finding(low, high)).verdict == inside
    assert judge(dataclasses.replace(RANGE, rule="meets"), finding(low, high)).verdict == meets


def test_numbers_that_come_out_with_their_control_are_not_specific_and_not_inconclusive():
    assert judge(CONTROLLED, finding(0.2, 0.8, shuffled=7.0)).verdict == REPRODUCED
    row = judge(CONTROLLED, finding(0.2, 0.8, shuffled=0.5))
    assert row.verdict == NOT_SPECIFIC
    assert "lies in the range as well" in row.reason
    for border in RANGE.accept:
        assert judge(CONTROLLED, finding(0.2, 0.8, shuffled=border)).verdict == NOT_SPECIFIC
    assert judge(CONTROLLED, finding(0.2, 0.8)).verdict == INCONCLUSIVE  # the control was not measured
    assert judge(CONTROLLED, finding(2, 3, shuffled=0.5)).verdict == NOT_REPRODUCED
    own = [dataclasses.replace(CONTROLLED, name=name, label=name) for name in "ab"]
    entry = judged(claim(*own), finding(0.2, 0.8, shuffled=7.0), finding(0.2, 0.8, shuffled=0.5))
    assert (entry.verdict, entry.agree, entry.disagree) == (NOT_SPECIFIC, "1 of 2 measurements", ("b",))


def test_an_exact_number_needs_no_repetition_and_one_run_is_not_exact():
    assert judge(RANGE, exact(0.5)).verdict == REPRODUCED
    assert judge(RANGE, exact(1.5)).verdict == NOT_REPRODUCED
    assert judge(RANGE, once(0.5)).verdict == INCONCLUSIVE
    assert judge(RANGE, over_seeds([0.5])).verdict == INCONCLUSIVE
    assert "over the items of that one" in judge(RANGE, Finding(0.5, 0.4, 0.6, repeats="runs")).reason


def test_a_number_of_runs_that_do_not_count_is_shown_and_decides_nothing():
    row = judge(RANGE, Finding(0.5, 0.5, 0.5, 0, repeats="flat seeds"))
    assert (row.verdict, row.reason) == (INCONCLUSIVE, "no flat seeds yet; at least 3 are needed")
    assert ledger.repetitions(row.finding) == "0 flat seeds"


def test_a_measurement_without_a_range_is_reported_and_decides_nothing():
    reported = judge(Measurement("g", "g"), finding(5, 6))
    assert reported.verdict == "reported"
    assert conclude([reported])[0] == NOT_TESTED
    not_measured = judge(Measurement("g", "g"), None)
    assert conclude([judge(RANGE, finding(0.2, 0.8)), not_measured])[0] == REPRODUCED


# --- a claim ----------------------------------------------------------------------------------------


def test_not_reproduced_stands_before_inconclusive_and_that_before_not_specific():
    inside, across, outside = (judge(RANGE, finding(*ends)) for ends in [(0.2, 0.8), (0.8, 1.2), (2, 3)])
    too = judge(CONTROLLED, finding(0.2, 0.8, shuffled=0.5))
    absent = judge(RANGE, None)
    assert conclude([inside, inside])[0] == REPRODUCED
    assert conclude([inside, too])[0] == NOT_SPECIFIC
    assert conclude([inside, too, across])[0] == INCONCLUSIVE
    assert conclude([inside, too, across, absent, outside])[0] == NOT_REPRODUCED
    assert conclude([absent, absent])[0] == NOT_TESTED


def test_a_claim_with_a_measurement_that_was_not_tested_may_fail_and_cannot_be_reproduced():
    inside, outside, absent = (judge(RANGE, one) for one in (finding(0.2, 0.8), finding(2, 3), None))
    verdict, reason = conclude([inside, absent])
    assert verdict == INCONCLUSIVE
    assert "not tested: a measurement" in reason
    assert conclude([outside, absent])[0] == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("found", "agree", "disagree"),
    [
        ([(0.2, 0.8), (0.2, 0.8), (2, 3)], "2 of 3 measurements", ("c",)),
        ([(0.2, 0.8), (0.8, 1.2), (2, 3)], "1 of 3 measurements", ("b", "c")),
        ([(0.2, 0.8), None, (0.2, 0.8)], "2 of 3 measurements", ("b",)),
        ([(0.2, 0.8)] * 3, "3 of 3 measurements", ()),
        ([None] * 3, "", ()),
        ([(0.2, 0.8)], "", ()),
    ],
)
@pytest.mark.parametrize("question", [False, True])
def test_an_entry_says_how_many_measurements_agree_and_names_the_others(found, agree, disagree, question):
    own = [dataclasses.replace(RANGE, name=name, label=name) for name in "abc"[: len(found)]]
    reported = Measurement("d", "d")
    entry = judged(
        claim(*own, reported, question=question), *(ends and finding(*ends) for ends in found), exact(9)
    )
    assert (entry.agree, entry.disagree) == (agree, disagree)


# --- scale ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ends", "verdict"), [((0.2, 0.8), REPRODUCED), ((2, 3), NOT_REPRODUCED)])
def test_a_smaller_scale_is_a_tag_beside_the_verdict_and_names_the_run_at_the_papers_scale(ends, verdict):
    entry = judged(claim(), finding(*ends))
    assert (entry.verdict, entry.smaller_scale, entry.rows[0].smaller_scale) == (verdict, False, False)
    entry = judged(claim(), finding(*ends), scale="laptop")
    assert (entry.verdict, entry.smaller_scale) == (verdict, True)
    assert (entry.rows[0].verdict, entry.rows[0].smaller_scale) == (verdict, True)
    assert "`python -m book run p.c --preset paper`" in entry.reason


def test_a_stand_in_text_is_a_smaller_scale_even_at_the_papers_size():
    own = claim(corpus="text8")
    assert judged(own, finding(0.2, 0.8, corpus="text8")).verdict == REPRODUCED
    entry = judged(own, finding(0.2, 0.8, corpus="wiki"))
    assert (entry.verdict, entry.smaller_scale) == (REPRODUCED, True)
    assert entry.reason == "measured on wiki, not on text8; no preset reads text8"


def test_a_larger_preset_that_reads_the_stand_in_again_is_not_promised_to_decide():
    entry = judged(
        claim(corpus="web"), finding(0.2, 0.8, corpus="wiki"), scale="laptop", own_corpora=("wiki",)
    )
    assert entry.reason.endswith("`python -m book run p.c --preset paper`, on wiki again")
    none = judged(claim(), finding(0.2, 0.8), scale="laptop", own_corpora=None)
    assert none.reason == "no preset is its scale"


def test_a_claim_that_says_why_it_does_not_depend_on_scale_is_judged_without_the_tag():
    own = claim(any_scale="arithmetic", corpus="text8")
    for ends, verdict in (((0.2, 0.8), REPRODUCED), ((2, 3), NOT_REPRODUCED)):
        entry = judged(own, finding(*ends, corpus="wiki"), scale="quick")
        assert (entry.verdict, entry.scale, entry.smaller_scale) == (verdict, "quick", False)
        assert "measured on" not in entry.reason


def test_one_measurement_that_does_not_depend_on_scale_refutes_a_claim_and_does_not_reproduce_it():
    counted = dataclasses.replace(RANGE, name="n", any_scale="counted, not trained")
    for ends, number, verdict, smaller in (
        ((0.2, 0.8), 0.5, REPRODUCED, True),
        ((2, 3), 0.5, NOT_REPRODUCED, True),
        ((0.2, 0.8), 1.5, NOT_REPRODUCED, False),
        ((2, 3), 1.5, NOT_REPRODUCED, False),
    ):
        entry = judged(claim(RANGE, counted), finding(*ends), exact(number), scale="laptop")
        assert (entry.verdict, entry.smaller_scale) == (verdict, smaller)
        assert [row.smaller_scale for row in entry.rows] == [True, False]
        assert ("--preset paper" in entry.reason) == smaller


def test_corpora_are_found_in_configurations_at_any_depth():
    @dataclasses.dataclass
    class Text:
        corpus: str

    @dataclasses.dataclass
    class Run:
        text: Text
        corpus: str = ""

    assert corpora([Run(Text("a")), Run(Text("b"), "c")]) == {"a", "b", "c"}


# --- two texts ---------------------------------------------------------------------------------------


PART = {"corpus": "text8", "corpus_part": "prefix"}
PRINTED = dataclasses.replace(RANGE, paper=0.5, target="published")


def on_two_texts(measurement, part, other, **fields):
    """The entry of a claim about text8 whose prefix and another text were measured so."""
    own = claim(measurement, **PART, **fields)
    found = {"f": finding(*other, corpus="wiki", shuffled=7.0)}
    on_part = {} if part is None else {"f": finding(*part, corpus="prefix", shuffled=7.0)}
    return entry_of(own, Results("paper", found, own_corpora=("wiki",), on_part=on_part))


IN, OVER, OUT = (0.2, 0.8), (0.8, 1.2), (2.0, 3.0)


@pytest.mark.parametrize(
    ("measurement", "part", "other", "verdict"),
    [
        (RANGE, IN, IN, REPRODUCED),
        (RANGE, OUT, OUT, NOT_REPRODUCED),
        (RANGE, IN, OUT, INCONCLUSIVE),
        (RANGE, OUT, IN, INCONCLUSIVE),
        (PRINTED, IN, OUT, INCONCLUSIVE),
        (PRINTED, IN, OVER, REPRODUCED),
        (PRINTED, OUT, OVER, NOT_REPRODUCED),
        (RANGE, IN, OVER, INCONCLUSIVE),
        (RANGE, OVER, OUT, NOT_REPRODUCED),
        (RANGE, None, OUT, NOT_REPRODUCED),
    ],
)
def test_two_texts_that_disagree_are_inconclusive_and_a_published_value_follows_its_own_text(
    measurement, part, other, verdict
):
    entry = on_two_texts(measurement, part, other)
    assert (entry.verdict, entry.smaller_scale) == (verdict, True)
    assert ("two texts disagree" in entry.reason) == ({part, other} == {IN, OUT})
    row = entry.rows[0]
    assert row.finding.corpus == "wiki"  # what is shown stays
    assert (row.on_part is None) == (part is None)


def test_a_control_that_comes_out_on_one_text_alone_is_a_disagreement():
    found = {"f": finding(0.2, 0.8, corpus="wiki", shuffled=0.5)}
    on_part = {"f": finding(0.2, 0.8, corpus="prefix", shuffled=7.0)}
    entry = entry_of(claim(CONTROLLED, **PART), Results("paper", found, on_part=on_part))
    assert (entry.verdict, entry.disagree) == (INCONCLUSIVE, ())
    assert entry.rows[0].reason == (
        "two texts disagree: [0.2, 0.8] on prefix (reproduced) and [0.2, 0.8] on wiki (not specific)"
    )
    assert on_two_texts(Measurement("f", "f"), IN, OUT).rows[0].verdict == "reported"


# --- judged again ------------------------------------------------------------------------------------


def test_a_measurement_may_take_the_finding_of_another_name():
    own = claim(dataclasses.replace(RANGE, of="old"))
    entry = entry_of(own, Results("paper", {"old": finding(0.2, 0.8)}))
    assert entry.rows[0].verdict == REPRODUCED
    with pytest.raises(ValueError, match=r"findings \['f'\] have no measurement"):
        entry_of(own, Results("paper", {"f": finding(0.2, 0.8)}))


def test_a_ratio_on_a_logarithmic_scale_has_the_interval_of_its_logarithms():
    values = [10.6, 27.0, 25.0]
    logs = over_seeds(np.log(values))
    ratio = dataclasses.replace(RANGE, scale="log", accept=(0.0, 1e-5))
    row = judge(ratio, over_seeds(values, within=(0.0, math.inf)))
    assert [row.finding.value, row.finding.low, row.finding.high] == pytest.approx(
        [math.exp(end) for end in (logs.value, logs.low, logs.high)]
    )
    assert row.verdict == NOT_REPRODUCED
    assert judge(dataclasses.replace(ratio, scale="linear"), over_seeds(values)).verdict == INCONCLUSIVE
    assert judge(ratio, exact(1e-6)).verdict == REPRODUCED


def test_repetitions_that_were_added_after_an_inconclusive_result_are_said_in_the_reason():
    added = claim(sequential=datetime.date(2026, 11, 21), amended=("2026-11-21, inconclusive before: twice",))
    said = "sequential testing: repetitions were added on 21 November 2026 after an inconclusive result"
    entry = judged(added, finding(0.2, 0.8))
    assert (entry.verdict, entry.reason) == (REPRODUCED, said)
    assert judged(claim(amended=added.amended), finding(0.2, 0.8)).reason == ""


# --- questions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "scale", "answer"),
    [
        (finding(0.2, 0.8, shuffled=7), "paper", YES),
        (finding(0.2, 0.8, shuffled=7), "laptop", YES),
        (finding(2, 3, shuffled=7), "laptop", NO),
        (finding(0.8, 1.2, shuffled=7), "paper", INCONCLUSIVE),
        (finding(0.2, 0.8, shuffled=0.5), "paper", INCONCLUSIVE),
        (finding(0.2, 0.8, n=2, shuffled=7), "paper", INCONCLUSIVE),
    ],
)
def test_an_open_question_is_answered_and_not_held_against_its_paper(found, scale, answer):
    entry = judged(claim(CONTROLLED, question=True), found, scale=scale)
    assert entry.verdict == answer
    assert ("--preset paper" in entry.reason) == (scale == "laptop")
    if found.controls["shuffled"] == 0.5:
        assert "lies in the range as well" in entry.reason


# --- what a verdict rests on ------------------------------------------------------------------------


def test_a_reproduced_claim_rests_on_its_measurement_of_fewest_repetitions_and_another_on_that_of_most():
    measurements = [dataclasses.replace(RANGE, name=name) for name in "abc"]
    holds = judged(claim(*measurements), finding(0.2, 0.8, n=9), finding(0.2, 0.8, n=4), exact(0.5))
    assert holds.deciding.measurement.name == "b"
    fails = judged(claim(*measurements), finding(2, 3, n=5), finding(2, 3, n=7), finding(0.2, 0.8, n=90))
    assert fails.deciding.measurement.name == "b"


numbers = st.floats(-3, 3)
findings_of_any_kind = st.one_of(
    st.builds(exact, numbers),
    st.builds(once, numbers, controls=st.just({"shuffled": 7.0})),
    st.builds(share, st.just(0), st.integers(1, 9), controls=st.just({"shuffled": 7.0})),
    st.builds(over_seeds, st.lists(numbers, min_size=1, max_size=6), controls=st.just({"shuffled": 0.5})),
    st.none(),
)


@given(
    st.lists(findings_of_any_kind, min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["quick", "laptop", "paper"]),
    st.sampled_from(["", "arithmetic"]),
    st.sampled_from(["inside", "meets"]),
)
def test_no_verdict_but_inconclusive_and_not_tested_comes_from_fewer_than_three_repetitions_unless_exact(
    found, question, scale, any_scale, rule
):
    measurements = [dataclasses.replace(CONTROLLED, name=str(i), rule=rule) for i in range(len(found))]
    entry = judged(claim(*measurements, question=question, any_scale=any_scale), *found, scale=scale)
    for row in entry.rows:
        assert row.verdict in OPEN or row.finding.exact or row.finding.n_seeds >= 3
    if entry.verdict not in OPEN:
        assert entry.deciding.finding.exact or entry.deciding.finding.n_seeds >= 3
    if entry.verdict in (REPRODUCED, NOT_SPECIFIC, YES):
        assert all(one is not None and (one.exact or one.n_seeds >= 3) for one in found)
    assert entry.verdict in verdicts.VERDICTS


# --- measurements and findings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Measurement("f", "f", control="shuffled"), "no range for it to miss"),
        (lambda: Measurement("f", "f", target="published"), "needs the paper's value"),
        (lambda: Measurement("f", "f", target="implied", paper=0.0), "say in `why`"),
        (lambda: claim(amended=("It was unfair.",)), "amended begins with a date and the verdict before"),
        (lambda: claim(amended=("2026-11-21, perhaps before: it",)), "amended begins with a date and"),
        (lambda: claim(corpus_part="prefix"), "corpus_part needs the corpus"),
        (lambda: judge(dataclasses.replace(RANGE, scale="log"), over_seeds([0.0, 1.0])), "and positive"),
        (lambda: judge(dataclasses.replace(RANGE, scale="log"), finding(0.2, 0.8)), "known and positive"),
    ],
)
def test_what_contradicts_itself_or_hides_whose_number_it_has_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_target_is_published_where_the_paper_has_a_value_and_else_implied():
    assert Measurement("f", "f", paper=1.0).target == "published"
    assert Measurement("f", "f", accept=(0.0, 1.0)).target == "implied"


@given(st.integers(0, 40), st.integers(1, 40))
def test_a_share_has_wilsons_interval(n_hits, more):
    from scipy import stats

    n = n_hits + more - 1 or 1
    found = share(n_hits, n)
    ends = stats.binomtest(n_hits, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-12)


# --- the project's own claims -------------------------------------------------------------------------


def test_every_claim_has_a_study_a_control_and_a_range_that_holds_its_published_value():
    for own in ledger.load_claims():
        studies.find_study(own.id)
        assert any(measurement.accept for measurement in own.measurements), own.id
        assert own.control, own.id
        for measurement in own.measurements:
            if measurement.accept and measurement.paper is not None:
                assert measurement.accept[0] <= measurement.paper <= measurement.accept[1], own.id
        asked = ".open_" in own.id or "open question" in f"{own.title} {own.where}".lower()
        assert own.question or not asked, own.id
