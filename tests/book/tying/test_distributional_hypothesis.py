"""The chapter on the distributional hypothesis: its language, its tables, its dots, EXor's closed forms."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book.tying import distributional_hypothesis as chapter
from embviz.tasks.equivalences import (
    BOTH,
    CONDITIONAL_ONLY,
    NEITHER,
    SEMANTIC_ONLY,
    conditional_distance,
    equivalence_table,
    exor_language,
    make_language,
    proportional_distance,
    semantic_distance,
)
from embviz.tasks.exor import EXor
from embviz.view import theme
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled


def verdicts(**weights) -> dict[str, str]:
    pairs = equivalence_table(chapter.small_language(**weights))
    return {f"{pair.u}–{pair.v}": pair.verdict for pair in pairs}


# --- the small language -----------------------------------------------------------------------------


def test_the_pairs_that_the_text_names_are_what_it_says():
    found = verdicts()
    assert (found["is–was"], found["empty–full"]) == (BOTH, BOTH)
    assert (found["glass–cup"], found["cold–wet"], found["moon–street"]) == (SEMANTIC_ONLY, NEITHER, NEITHER)
    assert set(found) >= chapter.NAMED_PAIRS


@given(st.floats(0.05, 0.95), st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0.01, 0.2, 1.0]))
@settings(max_examples=30, deadline=None)
def test_writing_full_more_often_moves_its_pair_up_alone_while_the_moon_is_never_full(share, moon, rare):
    language = chapter.small_language(share, moon, rare)
    meaning = semantic_distance(language, "empty", "full").worst
    place = conditional_distance(language, "empty", "full").worst
    if moon == 0:
        assert meaning == pytest.approx(0, abs=1e-12)
        assert place == pytest.approx(abs(2 * share - 1), abs=1e-12)
    else:
        assert meaning == pytest.approx(moon / (moon + 3 * share))  # the moon's share of "the ? is full"
        assert place >= moon / (moon + 1 + rare) - 1e-12  # of "the moon is ?"
    assert conditional_distance(language, "cold", "wet").worst == pytest.approx(rare / (1 + rare))


def test_no_setting_of_the_explorer_reaches_the_bottom_edge_away_from_the_origin():
    for share, moon, rare in itertools.product([0.1, 0.5], [0, 1], [0.01, 1]):
        found = set(verdicts(full_share=share, moon=moon, rare=rare).values())
        assert CONDITIONAL_ONLY not in found


def test_tables_show_what_the_language_says():
    language = chapter.small_language()
    sentences = chapter.sentence_table(language)
    assert sentences["probability"].sum() == pytest.approx(1, abs=16 * 5e-5)  # 16 rounded rows
    assert sentences["probability"].is_monotonic_decreasing
    table = chapter.pair_table(language)
    row = table.loc["glass\u2060–\u2060cup"]
    assert (row["semantic, worst"], row["conditional, worst"]) == (0, 0.333)
    assert (row["equivalent"], row["share compared"]) == (SEMANTIC_ONLY, 1)
    assert not table.isna().any(axis=None)


def test_the_mirror_picture_has_meaning_above_the_diagonal_and_place_below():
    language = chapter.small_language(full_share=0.8)
    words = chapter.mirror_order(language)
    assert words[0] == "the"
    assert words[1:5] == ["glass", "cup", "moon", "street"]
    table = chapter.mirror_table(language)
    for row in table.itertuples():
        first, second = words.index(row.row), words.index(row.column)
        measure = semantic_distance if first < second else conditional_distance
        assert row.kind == ("semantic" if first < second else "conditional")
        assert row.context_distance == pytest.approx(measure(language, row.row, row.column).worst, abs=5e-4)
    cells = set(zip(table["row"], table["column"], strict=True))
    assert {(b, a) for a, b in cells} == cells
    assert ("glass", "is") not in cells


# --- dots -------------------------------------------------------------------------------------------


def test_every_pair_that_can_be_compared_is_in_one_dot():
    pairs = equivalence_table(chapter.small_language())
    table = chapter.dots(pairs, chapter.MEAN, named=chapter.NAMED_PAIRS)
    named = ", ".join(table["pairs"]).split(", ")
    assert sorted(named) == sorted(f"{p.u}–{p.v}" for p in pairs if p.holds is not None)
    labelled = ", ".join(filter(None, table["label"])).split(", ")
    assert set(labelled) == chapter.NAMED_PAIRS
    assert not table.duplicated(["semantic", "conditional", "equivalent"]).any()
    assert table.loc[table["pairs"].str.contains("moon–street"), "semantic"].item() == pytest.approx(
        semantic_distance(chapter.small_language(), "moon", "street").mean, abs=6e-4
    )  # rounded to three places, and 0.0625 is a tie


def test_of_two_close_labels_the_lower_goes_below():
    near = pd.DataFrame(
        {"label": ["a", "b", "", "c"], "semantic": 0.0, "conditional": [0.30, 0.34, 0.4, 0.9]}
    )
    assert chapter._crowded(near) == [True, False, False, False]
    assert chapter._crowded(near.assign(conditional=[0, 0.04, 0.1, 0.6])) == [False] * 4


def test_an_unknown_distance_is_refused():
    with pytest.raises(ValueError, match="no distance 'median': choose 'worst context'"):
        chapter.dots([], "median")


# --- what follows from what -------------------------------------------------------------------------


@pytest.mark.parametrize(("n_symbols", "n_places"), [(3, 2), (2, 3)])
def test_no_language_has_a_pair_that_is_conditional_only_where_every_place_is_masked(n_symbols, n_places):
    table = chapter.verdicts_of_every_language(n_symbols, n_places)
    assert table.loc[CONDITIONAL_ONLY, "every place masked"] == 0
    assert table["every place masked"].sum() == table["last place never masked"].sum()


def test_the_null_of_a_place_never_masked_does_have_such_pairs():
    table = chapter.verdicts_of_every_language(3, 2)
    assert table.loc[CONDITIONAL_ONLY, "last place never masked"] > 0


def test_too_many_languages_are_refused():
    with pytest.raises(ValueError, match=r"27 strings make 2\^27 - 1 languages.*3 symbols in 2 places"):
        chapter.verdicts_of_every_language(3, 3)


def test_rare_words_get_conditionally_alike_and_stay_apart_in_meaning_and_proportion():
    table = chapter.rare_pair(np.array([0.01, 1.0])).pivot(
        index="rare_weight", columns="kind", values="context_distance"
    )
    assert table["semantic"].tolist() == table["proportional"].tolist() == [1, 1]
    assert table["conditional"].tolist() == pytest.approx([0.01 / 1.01, 0.5], abs=5e-5)


# --- EXor -------------------------------------------------------------------------------------------


def test_table_1_is_counted_as_the_paper_prints_it():
    table = chapter.counted_table_1(epsilon=0.2)
    zero, one = [0.2, 0.8, 0, 0], [0, 0, 0.5, 0.5]
    assert table.to_numpy().tolist() == [zero, one, zero, one]


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98))
@settings(max_examples=25, deadline=None)
def test_exors_closed_forms_are_what_counting_finds(p_0a, p_1a):
    table = chapter.exor_pairs(EXor(3, p_0a, p_1a))
    assert len(table) == 7
    for kind in ("semantic", "conditional"):
        assert table[f"{kind}, counted"].tolist() == pytest.approx(
            table[f"{kind}, closed form"].tolist(), abs=2e-6
        )  # both rounded to six places


def test_a_spelling_and_a_parity_have_no_closed_form():
    with pytest.raises(ValueError, match="0A and E are not two of 0A, 0B, 1A, 1B"):
        chapter.closed_form(EXor(), "0A", "E")


def test_three_bits_stand_for_seven():
    few, many = (chapter.dots(equivalence_table(exor_language(EXor(n))), chapter.WORST) for n in (3, 7))
    pd.testing.assert_frame_equal(few, many)


def test_exors_dots_carry_the_best_accuracy_once():
    table = chapter.measured_exor(0.1, 0.5)
    assert table["note"].tolist() == ["best accuracy 0.700", *[""] * (len(table) - 1)]
    by_pairs = table.set_index("pairs")
    assert by_pairs.loc["0A–0B", ["semantic", "conditional"]].tolist() == [0, 0.8]
    assert by_pairs.loc["E–D", "equivalent"] == CONDITIONAL_ONLY


def test_draws_agree_with_their_own_probability_and_leave_another():
    own, other = (chapter.drawn_deviations(p, n_most=40_000, n_points=4, n_seeds=3) for p in (0.1, 0.13))
    assert own["deviation"].abs().max() < 4  # 12 looks at a standard normal
    assert (other.loc[other["drawn"] == 40_000, "deviation"] < -6).all()  # 0.03 over 0.0024, give or take 3
    assert own["drawn"].unique().tolist() == [10_000, 20_000, 30_000, 40_000]


def test_exercise_3_has_the_solution_that_the_chapter_gives():
    language = make_language(
        {"glass is empty": 1, "glass is full": 1, "tank was empty": 1, "tank was full": 9}, normalize=True
    )
    assert semantic_distance(language, "empty", "full").worst == 0
    assert proportional_distance(language, "empty", "full") > 0.3


def test_exercise_2_is_solved_by_one_sentence_of_the_same_weight():
    found = verdicts(moon=1.0)
    assert found["empty–full"] == NEITHER
    sentences = {
        **{"the glass is empty": 1, "the glass is full": 1, "the cup is empty": 0.5, "the cup is full": 0.5},
        **{"the moon is full": 1, "the moon is bright": 1, "the street is bright": 1},
        **{"the moon is cold": 0.2, "the street is wet": 0.2},
    }
    for weight, expected in ((1, BOTH), (0.5, NEITHER)):
        language = make_language({**sentences, "the moon is empty": weight}, normalize=True)
        pairs = {(pair.u, pair.v): pair.verdict for pair in equivalence_table(language)}
        assert pairs["empty", "full"] == expected


# --- drawing ----------------------------------------------------------------------------------------


def test_every_chart_compiles():
    language = chapter.small_language()
    drawn = chapter.drawn_deviations(0.1, n_most=2_000, n_points=2, n_seeds=2).assign(supposed="0.1")
    for chart in (
        chapter.plot_mirror(language),
        chapter.plot_dots(chapter.measured_pairs(0.5, 0, 0.2, chapter.WORST)),
        chapter.plot_exor(chapter.measured_exor(0.1, 0.5)),
        chapter.plot_rare_pair(chapter.rare_pair(np.array([0.1, 1.0])), epsilon=0.05),
        chapter.plot_deviations(drawn),
    ):
        compiled(theme.captioned(chart, finding="A finding", caption="A caption."))


def test_the_explorers_have_static_twins():
    words = Explorer(
        chapter.measured_pairs,
        {
            "full_share": Choice([0.1, 0.5], "share of full"),
            "moon": Choice([0, 1], "moon"),
            "rare": Choice([0.2], "rare"),
            "distance": Choice([chapter.WORST, chapter.MEAN], "distance"),
        },
        chapter.plot_dots,
        title="A title",
        caption="A caption.",
    )
    assert len(words.static_spec()["data"]["values"]) == 8
    coins = {"p_0a": Range(0.1, 0.9, 0.4, "p(0A | 0)"), "p_1a": Range(0.1, 0.9, 0.4, "p(1A | 1)")}
    exor = Explorer(chapter.measured_exor, coins, chapter.plot_exor, title="A title", caption="A caption.")
    assert len(exor.static_spec()["data"]["values"]) == 9
