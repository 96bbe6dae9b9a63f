"""The verdict on the resizing paper: what heads mix, the rule by component, what would speak for it."""

import dataclasses

import numpy as np
import pytest

from book.resizing import verdict as chapter
from embviz import ledger
from embviz.ledger.findings import Finding
from embviz.view import verdicts


def judged(claim: str, figure: str, finding: Finding | None) -> ledger.Entry:
    """An entry of the claim with one finding."""
    own = ledger.find_claim(f"resizing.{claim}")
    found = {figure: finding}
    rows = [ledger.judge(one, found.get(one.name)) for one in own.figures]
    return dataclasses.replace(ledger.entry(own), rows=tuple(rows), scale="laptop")


@pytest.mark.parametrize("kind", list(chapter.KINDS))
@pytest.mark.parametrize("ratio", [1, 0.5])
def test_shares_of_a_heads_products_sum_to_one(kind, ratio):
    table = chapter.mixing(kind, 4, ratio)
    np.testing.assert_allclose(table.groupby("new_head")["share_of_variance"].sum(), 1)
    assert len(table) == 4 * 5


def test_shares_are_those_of_random_queries_and_keys():
    rng = np.random.default_rng(0)
    T = chapter._map("rotation", 2, 64)[:32]  # the first new head
    q, k = rng.normal(size=(2, 100_000, 64))
    parts = {}
    for i in range(2):
        for j in range(2):
            old = [slice(32 * n, 32 * n + 32) for n in (i, j)]
            parts[i, j] = ((q[:, old[0]] @ T[:, old[0]].T) * (k[:, old[1]] @ T[:, old[1]].T)).sum(1).var()
    found = (
        chapter.mixing("rotation", 2, 1).query("new_head == '1'").set_index("old_head")["share_of_variance"]
    )
    whole = sum(parts.values())
    # 100,000 draws: standard errors of about 0.5% of each
    assert found["1"] == pytest.approx(parts[0, 0] / whole, rel=0.03)
    assert found[chapter.TWO_HEADS] == pytest.approx((parts[0, 1] + parts[1, 0]) / whole, rel=0.03)


def test_maps_within_heads_mix_nothing_and_one_head_has_nothing_to_mix():
    for kind, n_heads in (("within", 8), ("identity", 4), ("rotation", 1)):
        table = chapter.mixing(kind, n_heads, 1)
        own = table[table["old_head"] == table["new_head"]]["share_of_variance"]
        np.testing.assert_allclose(own, 1)
        assert table["note"].iloc[0].startswith("100%")


def test_a_permutation_takes_from_every_head_but_never_pairs_two():
    table = chapter.mixing("permutation", 4, 1)
    assert (table[table["old_head"] == chapter.TWO_HEADS]["share_of_variance"] == 0).all()
    assert (table[table["old_head"] == table["new_head"]]["share_of_variance"] < 0.6).all()


@pytest.mark.parametrize("kind", list(chapter.KINDS))
def test_maps_of_heads_have_orthonormal_rows(kind):
    T = chapter._map(kind, 4, 32)
    np.testing.assert_allclose(T @ T.T, np.eye(32), atol=1e-12)


def test_every_component_and_change_names_a_figure_of_its_claim():
    names = {
        claim.id.split(".")[1]: {one.name for one in claim.figures}
        for claim in ledger.load_claims("resizing")
    }
    assert {part.figure for part in chapter.COMPONENTS} <= names["porting"]
    assert all(test.figure in names[test.claim] for test in chapter.CHANGES)


def test_a_component_shows_the_measured_error():
    own = {"porting": judged("porting", "plain_heads", Finding(0.4321, 0.4, 0.5))}
    table = chapter.component_table(own)
    assert table.loc["attention, several heads", "logit error"] == "4.3e-01"
    assert table.loc["ALiBi", "logit error"] == "not measured"


@pytest.mark.parametrize(
    ("claim", "figure", "met", "not_met"),
    [
        ("heads", "plain_kept_half", -0.02, 0.5),
        ("perplexity", "pca_half", 0.02, -0.3),
        ("out_of_support", "ratio", 1.06, 1.0),
        ("quantization", "int4_channel", -0.2, -0.005),
    ],
)
def test_a_test_is_met_when_the_whole_interval_is_beyond_its_threshold(claim, figure, met, not_met):
    test = next(one for one in chapter.CHANGES if (one.claim, one.figure) == (claim, figure))
    for value, word in ((met, "✓ met, laptop"), (not_met, "✗ not met, laptop")):
        assert verdicts.outcome(test, judged(claim, figure, Finding(value, value, value, 3)))[""] == word
    straddling = Finding(met, met - 1, met + 1, 3)
    assert "not met" in verdicts.outcome(test, judged(claim, figure, straddling))[""]
    assert "not measured" in verdicts.outcome(test, judged(claim, figure, None))[""]
    twice = Finding(met, met, met, 2)
    assert verdicts.outcome(test, judged(claim, figure, twice))[""] == "? undecided, 2 seeds, laptop"


def test_the_count_of_met_tests_tells_met_from_not_met():
    own = {
        claim.id.split(".")[1]: judged(claim.id.split(".")[1], "", None)
        for claim in ledger.load_claims("resizing")
    }
    own["grow"] = judged("grow", "saved_flops", Finding(0.2, 0.1, 0.3, 3))
    own["staged"] = judged("staged", "staged", Finding(0.2, 0.1, 0.3, 3))
    n = len(chapter.CHANGES)
    assert chapter.changes_finding(own) == f"1 of {n} tests are met, {n - 2} not measured"
    own["staged"] = judged("staged", "staged", Finding(0.2, 0.1, 0.3, 2))
    assert chapter.changes_finding(own) == f"1 of {n} tests are met, 1 undecided, {n - 2} not measured"


def test_the_ledger_of_the_paper_has_all_its_claims_and_charts_can_be_drawn():
    assert len(chapter.entries()) == 16
    assert chapter.tally().startswith("Of 16 claims: ")
    assert chapter.plot_figures().to_dict()
    assert chapter.plot_mixing(chapter.mixing("rotation", 4, 1)).to_dict()["layer"]
