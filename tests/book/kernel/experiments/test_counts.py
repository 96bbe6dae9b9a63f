"""Counts of the texts that the kernel paper's models read: what is stored is what the text has."""

import numpy as np
import pytest

from book.kernel.experiments.counts import CountedText, counted, load_counts
from book.kernel.experiments.texts import TextReading, load

READING = TextReading("embedded", vocab_size=20, n_tokens=400)
pytestmark = pytest.mark.usefixtures("own_results")


@pytest.mark.parametrize("window", [1, 5])
def test_counts_are_those_of_the_papers_double_loop(window):
    ids = load(READING).ids.tolist()
    expected = np.zeros((20, 20))
    for i, token in enumerate(ids):
        for j in range(max(0, i - window), min(len(ids), i + window + 1)):
            expected[token, ids[j]] += i != j
    found = load_counts(counted.cell(CountedText(READING, window)))
    assert np.array_equal(found.pairs, expected)


def test_tokens_are_named_even_where_they_never_meet_themselves():
    found = load_counts(counted.cell(CountedText(READING, 1)))
    assert tuple(found.tokens) == load(READING).vocabulary
    assert (np.diag(found.pairs) == 0).any()


def test_a_table_tells_the_text_it_counted():
    table = counted.function(CountedText(READING))
    assert table.attrs["data"] == {"embedded": load(READING).checksum}
    assert (table["row"] <= table["column"]).all()
