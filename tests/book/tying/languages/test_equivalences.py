"""Finite languages: distances against the definitions counted by hand, EXor's closed forms, refusals."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from book.tying.languages.equivalences import (
    BOTH,
    CONDITIONAL_ONLY,
    NEITHER,
    NOT_COMPARABLE,
    SEMANTIC_ONLY,
    FiniteLanguage,
    conditional_distance,
    equivalence_table,
    even_language,
    exor_language,
    make_language,
    masked_contexts,
    proportional_distance,
    semantic_distance,
    split_symbol,
)
from book.tying.languages.exor import SYMBOLS, EXor

ROUNDING = 1e-12  # sums of a few hundred doubles below 1


@st.composite
def weighted_strings(draw, least_places=1, most_places=4):
    """Whole weights of strings over up to four symbols; weights of 0 and equal strings occur."""
    n_places = draw(st.integers(least_places, most_places))
    string = st.tuples(*[st.sampled_from("abcd"[: draw(st.integers(2, 4))])] * n_places)
    pairs = draw(st.lists(st.tuples(string, st.integers(0, 4)), min_size=1, max_size=14))
    assume(any(weight for _, weight in pairs))
    return pairs


def languages(**limits):
    return weighted_strings(**limits).map(lambda pairs: make_language(pairs, normalize=True))


# --- the definitions, with dictionaries and fractions -----------------------------------------------


def probabilities(pairs):
    total = sum(weight for _, weight in pairs)
    found = defaultdict(Fraction)
    for string, weight in pairs:
        if weight:
            found[string] += Fraction(weight, total)
    return dict(found)


def with_hole(string, *places):
    return tuple(None if place in places else symbol for place, symbol in enumerate(string))


def filled(context, place, symbol):
    return (*context[:place], symbol, *context[place + 1 :])


def summary(rows, n_left_out, rest):
    """Rows of (largest part, squares, weight) as worst, mean, Euclidean, counts, share."""
    weight = sum(row[2] for row in rows)
    return (
        float(max(row[0] for row in rows)),
        float(sum(row[0] * row[2] for row in rows) / weight),
        math.sqrt(sum(row[1] for row in rows)),
        len(rows),
        n_left_out,
        float(weight / (weight + rest)),
    )


def semantic_by_hand(strings, maskable, u, v):
    symbols = {symbol for string in strings for symbol in string}
    contexts = {
        (place, masked, with_hole(string, place, masked))
        for string in strings
        for masked in maskable
        for place in range(len(string))
        if place != masked and string[place] in (u, v)
    }
    rows, rest, left_out = [], Fraction(0), 0
    for place, masked, context in contexts:
        joint = {
            w: {y: strings.get(filled(filled(context, place, w), masked, y), 0) for y in symbols}
            for w in (u, v)
        }
        mass_u, mass_v = sum(joint[u].values()), sum(joint[v].values())
        if not (mass_u and mass_v):
            rest, left_out = rest + mass_u + mass_v, left_out + 1
            continue
        parts = [abs(joint[u][y] / mass_u - joint[v][y] / mass_v) for y in symbols]
        rows.append((sum(parts) / 2, sum(part**2 for part in parts), mass_u + mass_v))
    return summary(rows, left_out, rest) if rows else left_out


def conditional_by_hand(strings, maskable, u, v):
    contexts = {(masked, with_hole(string, masked)) for string in strings for masked in maskable}
    rows, rest, left_out, at_mask, shares = [], Fraction(0), 0, {u: Fraction(0), v: Fraction(0)}, []
    for masked, context in contexts:
        weight = sum(p for string, p in strings.items() if with_hole(string, masked) == context)
        joint = {w: strings.get(filled(context, masked, w), Fraction(0)) for w in (u, v)}
        for w in (u, v):
            at_mask[w] += joint[w]
        if not (joint[u] or joint[v]):
            rest, left_out = rest + weight, left_out + 1
            continue
        difference = abs(joint[u] / weight - joint[v] / weight)
        rows.append((difference, difference**2, weight))
        shares.append(joint)
    if not rows:
        return left_out, 0.0
    if not (at_mask[u] and at_mask[v]):
        return summary(rows, left_out, rest), 1.0
    apart = sum(abs(joint[u] / at_mask[u] - joint[v] / at_mask[v]) for joint in shares) / 2
    return summary(rows, left_out, rest), float(apart)


def as_tuple(distance):
    return (
        *(distance.worst, distance.mean, distance.euclidean),
        *(distance.n_contexts, distance.n_left_out, distance.share),
    )


@given(weighted_strings(), st.data())
@settings(max_examples=150, deadline=None)
def test_semantic_distance_is_the_definition_counted_with_fractions(pairs, data):
    maskable = data.draw(st.sets(st.sampled_from(range(len(pairs[0][0]))), min_size=1).map(sorted))
    language = make_language(pairs, normalize=True, maskable=maskable)
    for u, v in itertools.combinations(language.symbols, 2):
        expected = semantic_by_hand(probabilities(pairs), maskable, u, v)
        found = semantic_distance(language, u, v)
        if isinstance(expected, int):
            assert (found.n_contexts, found.n_left_out, found.share) == (0, expected, 0.0)
            assert np.isnan([found.worst, found.mean, found.euclidean]).all()
        else:
            assert as_tuple(found) == pytest.approx(expected, abs=ROUNDING)


@given(weighted_strings(), st.data())
@settings(max_examples=150, deadline=None)
def test_conditional_and_proportional_distance_are_the_definitions_counted_with_fractions(pairs, data):
    maskable = data.draw(st.sets(st.sampled_from(range(len(pairs[0][0]))), min_size=1).map(sorted))
    language = make_language(pairs, normalize=True, maskable=maskable)
    for u, v in itertools.combinations(language.symbols, 2):
        expected, proportional = conditional_by_hand(probabilities(pairs), maskable, u, v)
        found = conditional_distance(language, u, v)
        if isinstance(expected, int):
            assert as_tuple(found) == (0, 0, 0, 0, expected, 0)
        else:
            assert as_tuple(found) == pytest.approx(expected, abs=ROUNDING)
        assert proportional_distance(language, u, v) == pytest.approx(proportional, abs=ROUNDING)


@given(languages())
@settings(max_examples=60, deadline=None)
def test_the_table_of_all_pairs_says_what_each_pair_says_alone(language):
    table = equivalence_table(language)
    assert [(row.u, row.v) for row in table] == list(itertools.combinations(language.symbols, 2))
    for row in table:
        meaning = semantic_distance(language, row.u, row.v)
        place = conditional_distance(language, row.u, row.v)
        assert [row.semantic_worst, row.semantic_mean, row.semantic_share] == pytest.approx(
            [meaning.worst, meaning.mean, meaning.share], abs=ROUNDING, nan_ok=True
        )
        assert [row.conditional_worst, row.conditional_mean] == pytest.approx(
            [place.worst, place.mean], abs=ROUNDING
        )
        assert row.conditional_contexts == place.n_contexts
        if meaning.n_contexts == 0:
            assert (row.verdict, row.holds) == (NOT_COMPARABLE, None)
        else:
            both = (meaning.worst <= 1e-9, place.worst <= 1e-9)
            names = {(True, True): BOTH, (True, False): SEMANTIC_ONLY, (False, True): CONDITIONAL_ONLY}
            assert row.verdict == names.get(both, NEITHER)
            assert row.holds == (both[0] == both[1])


# --- closed forms: EXor -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", [EXor(3), EXor(5, 0.3, 0.8), EXor(7), EXor(4, 0.5, 0.5)])
def test_exors_distances_are_the_closed_forms_whatever_its_length(task):
    table = {(row.u, row.v): row for row in equivalence_table(exor_language(task))}
    p = dict(zip(SYMBOLS, [task.p_0a, 1 - task.p_0a, task.p_1a, 1 - task.p_1a], strict=False))
    for first, second in (("0A", "0B"), ("1A", "1B")):
        row, apart = table[first, second], abs(p[first] - p[second])
        assert [row.semantic_worst, row.semantic_mean] == pytest.approx([0, 0], abs=ROUNDING)
        assert [row.conditional_worst, row.conditional_mean] == pytest.approx([apart, apart], abs=ROUNDING)
        assert row.proportional == pytest.approx(0, abs=ROUNDING)
        assert row.verdict == (BOTH if apart == 0 else SEMANTIC_ONLY)
    for zero, one in itertools.product(("0A", "0B"), ("1A", "1B")):
        row = table[zero, one]
        assert [row.semantic_worst, row.semantic_mean, row.semantic_share] == pytest.approx([1, 1, 1])
        assert row.conditional_worst == pytest.approx(max(p[zero], p[one]))
        assert row.conditional_mean == pytest.approx((p[zero] + p[one]) / 2)
        assert (row.proportional, row.verdict) == (pytest.approx(1), NEITHER)


def test_the_parity_symbols_are_conditionally_equivalent_since_nobody_masks_them():
    table = {(row.u, row.v): row for row in equivalence_table(exor_language(EXor(4)))}
    parity = table["E", "D"]
    assert (parity.verdict, parity.conditional_contexts, parity.proportional) == (CONDITIONAL_ONLY, 0, 0.0)
    assert parity.semantic_worst == parity.semantic_mean == pytest.approx(1)
    assert table["0A", "E"].verdict == NOT_COMPARABLE
    whole = exor_language(EXor(4))
    masked = FiniteLanguage(whole.tokens, whole.probability, whole.symbols)
    assert conditional_distance(masked, "E", "D").worst == pytest.approx(1)


def test_exor_is_plain_xor_with_both_bits_split():
    strings = {"0 0 E": 1, "0 1 D": 1, "1 0 D": 1, "1 1 E": 1}
    plain = make_language(strings, normalize=True, maskable=[0, 1])
    zeros = split_symbol(plain, "0", into=("0A", "0B"), p_first=0.1)
    split = split_symbol(zeros, "1", into=("1A", "1B"), p_first=0.5)
    exor = exor_language(EXor(2))
    assert dict(zip(split.texts, split.probability.tolist(), strict=True)) == pytest.approx(
        dict(zip(exor.texts, exor.probability.tolist(), strict=True)), abs=ROUNDING
    )


# --- what must hold in every language ---------------------------------------------------------------


@given(languages(least_places=2), st.floats(0.01, 0.99), st.data())
@settings(max_examples=100, deadline=None)
def test_two_spellings_of_a_symbol_mean_the_same_and_stand_alike_only_for_a_fair_coin(language, p, data):
    symbol = data.draw(st.sampled_from(language.symbols))
    split = split_symbol(language, symbol, into=("first", "second"), p_first=p)
    meaning = semantic_distance(split, "first", "second")
    assert meaning.worst == pytest.approx(0, abs=1e-10)  # 0.01 to the fourth stands in a denominator
    assert (meaning.n_left_out, meaning.share) == (0, pytest.approx(1))
    assert proportional_distance(split, "first", "second") == pytest.approx(0, abs=1e-10)
    place = conditional_distance(split, "first", "second")
    apart = abs(2 * p - 1)
    assert apart / 60 - ROUNDING <= place.worst <= apart + ROUNDING  # 14 strings of weight 4 make 56
    fair = split_symbol(language, symbol, into=("first", "second"), p_first=0.5)
    assert conditional_distance(fair, "first", "second").worst == 0


@given(languages(least_places=2))
@settings(max_examples=100, deadline=None)
def test_conditional_implies_proportional_implies_semantic_where_every_place_is_masked(language):
    for row in equivalence_table(language):
        if row.conditional_worst < ROUNDING:
            assert row.proportional < 1e-10
        if row.proportional < ROUNDING:
            assert row.semantic_worst < 1e-10
            assert row.semantic_share == pytest.approx(1)
        assert row.verdict != CONDITIONAL_ONLY


def test_a_place_that_is_never_masked_lets_alike_symbols_differ_in_meaning():
    telling = {"u u x": 1, "v u x": 1, "u v y": 1, "v v y": 1}
    language = make_language(telling, normalize=True, maskable=[0, 2])
    table = {(row.u, row.v): row for row in equivalence_table(language)}
    assert table["u", "v"].verdict == CONDITIONAL_ONLY
    assert table["u", "v"].semantic_worst == 1
    whole = make_language(telling, normalize=True)
    assert conditional_distance(whole, "u", "v").worst == 1


def test_an_epsilon_admits_pairs_up_to_itself():
    language = exor_language(EXor(3, 0.4, 0.5))
    verdicts = [
        {(row.u, row.v): row for row in equivalence_table(language, epsilon=epsilon)}["0A", "0B"].verdict
        for epsilon in (0.19, 0.21)
    ]
    assert verdicts == [SEMANTIC_ONLY, BOTH]
    for row in equivalence_table(language):
        if row.semantic_share > 0:
            both = max(row.semantic_worst, row.conditional_worst)
            found = {(one.u, one.v): one for one in equivalence_table(language, epsilon=both)}
            assert found[row.u, row.v].verdict == BOTH, "a distance of epsilon itself is admitted"


def test_strings_and_symbols_keep_the_order_in_which_they_were_given():
    language = make_language([("b a", 1), ("a b", 1), ("b a", 2), ("c c", 0)], normalize=True)
    assert (language.texts, language.symbols) == (["b a", "a b"], ("b", "a"))
    assert language.probability.tolist() == [0.75, 0.25]


# --- masked contexts ------------------------------------------------------------------------------------


@given(weighted_strings(), st.data())
def test_masked_contexts_are_those_counted_by_hand(weights, data):
    language = make_language(weights, normalize=True)
    n_places = language.tokens.shape[1]
    maskable = data.draw(st.lists(st.integers(0, n_places - 1), min_size=1, unique=True))
    language = FiniteLanguage(language.tokens, language.probability, language.symbols, tuple(maskable))
    counted = defaultdict(float)
    for row, probability in zip(language.tokens.tolist(), language.probability, strict=True):
        for place in maskable:
            context = (*row[:place], len(language.symbols), *row[place + 1 :])
            counted[context, row[place]] += probability / len(maskable)
    tokens, probability, answers = masked_contexts(language)
    assert len({tuple(row) for row in tokens.tolist()}) == len(tokens)
    joint = {
        (tuple(row), symbol): probability[context] * answers[context, symbol]
        for context, row in enumerate(tokens.tolist())
        for symbol in np.flatnonzero(answers[context])
    }
    assert joint == pytest.approx(counted, abs=ROUNDING)
    assert probability.sum() == pytest.approx(1, abs=ROUNDING)


@pytest.mark.parametrize(("p_0a", "broken"), [(0.5, set()), (0.1, {("0A", "0B")})])
def test_in_even_strings_the_hypothesis_holds_for_every_pair_of_equally_likely_spellings(p_0a, broken):
    table = equivalence_table(even_language(EXor(5, p_0a=p_0a)))
    assert len(table) == 6
    assert {(pair.u, pair.v) for pair in table if not pair.holds} == broken
    exor = equivalence_table(exor_language(EXor(4, p_0a=p_0a)))
    assert ("E", "D") in {(pair.u, pair.v) for pair in exor if pair.holds is False}
