"""Words by the size of a number: order, ties, the word that is always shown."""

import numpy as np
import pytest

from book.reflections import ranked
from tests.drawing import compiled


def test_the_largest_come_first_and_ties_keep_the_order_of_the_words():
    table = ranked.ranked([1.0, 3.0, 3.0, 2.0], ["a", "b", "c", "d"], n_shown=3)
    assert table["label"].tolist() == ["1. b", "2. c", "3. d"]
    assert table["value"].tolist() == [3.0, 3.0, 2.0]
    assert set(table["kind"]) == {ranked.OTHER}


@pytest.mark.parametrize(("chosen", "n_rows"), [(0, 4), (5, 3)])
def test_the_chosen_word_is_shown_wherever_it_stands(chosen, n_rows):
    table = ranked.ranked(np.arange(6.0), list("abcdef"), chosen, n_shown=3)
    assert len(table) == n_rows
    assert table.loc[table["kind"] == ranked.CHOSEN, "label"].item() == f"{6 - chosen}. {'abcdef'[chosen]}"
    assert compiled(ranked.plot_ranked(table, "logit", limits=(-1, 6)))["axes"]
