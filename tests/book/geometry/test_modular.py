"""Modular arithmetic against integer arithmetic by hand."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from book.geometry.modular import ModularArithmetic

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
EVERY_OPERATION = pytest.mark.parametrize("op", OPERATIONS)


@EVERY_OPERATION
@pytest.mark.parametrize("p", [2, 7, 12])
def test_strings_and_answers_are_those_of_a_slow_double_loop(op, p):
    task = ModularArithmetic(p=p, op=op, train_share=0.5)
    rows = iter(zip(task.strings().tolist(), task.answers().tolist(), strict=True))
    for a in range(p):
        for b in range(p):
            assert next(rows) == ([a, b, p], OPERATIONS[op](a, b) % p)
    assert next(rows, None) is None


def test_without_the_equals_sign_strings_and_vocabulary_are_one_symbol_shorter():
    plain, short = ModularArithmetic(p=7), ModularArithmetic(p=7, equals=False)
    np.testing.assert_array_equal(short.strings(), plain.strings()[:, :2])
    assert (plain.n_symbols, plain.length) == (8, 3)
    assert (short.n_symbols, short.length) == (7, 2)


@given(st.integers(5, 30), st.integers(0, 10), st.sampled_from("+-*"))
def test_a_split_deals_every_pair_once(p, seed, op):
    task = ModularArithmetic(p=p, op=op, train_share=0.8)
    train, validation = task.split(seed)
    assert len(train) == task.n_train == round(0.8 * p * p)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation])), np.arange(p * p))


def test_the_papers_split_trains_on_3764_of_9409_pairs():
    train, validation = ModularArithmetic().split(0)
    assert (len(train), len(validation)) == (3764, 5645)


def test_a_split_depends_on_its_seed_alone():
    task = ModularArithmetic()
    np.testing.assert_array_equal(task.split(3)[0], ModularArithmetic(op="*").split(3)[0])
    assert not np.array_equal(task.split(3)[0], task.split(4)[0])
