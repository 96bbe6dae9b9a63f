"""What the theory assumes of vectors, measured on vectors that meet it and on some that don't."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.reflections.assumptions import assumption_statistics
from embviz.words.wordvectors import WordVectors

V, D = 1_000, 20
COUNTS = 1e5 / np.arange(1, V + 1)


def measured(word: np.ndarray, context: np.ndarray) -> pd.DataFrame:
    parts = [x.astype(np.float32) for x in (word, context)]
    return assumption_statistics(WordVectors([str(i) for i in range(V)], *parts), COUNTS)


@pytest.fixture
def gaussian() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((V, D)) / np.sqrt(D)


def test_vectors_of_the_theory_meet_its_assumptions(gaussian):
    table = measured(gaussian, gaussian @ stats.ortho_group.rvs(D, random_state=0))
    for words in ("frequent words", "all words"):
        assert (table[words] - table["theory"]).abs().max() < 0.15  # ln Z's: the diagonal is no theory's


def test_a_cone_and_contexts_that_lie_opposite_are_seen(gaussian):
    axis = np.where(np.arange(D) == 0, 3.0, 0.0)
    rare = np.arange(V)[:, None] >= 200
    found = measured(gaussian + rare * axis, gaussian - axis)
    assert abs(found.loc["mean cosine of two word vectors", "frequent words"]) < 0.05
    assert found.loc["mean cosine of two word vectors", "all words"] > 0.5
    assert found.loc["mean cosine of a context vector and the mean word vector"][1:].max() < -0.8
    assert found.loc["the same with C in random order", "all words"] > 0.5  # the cone alone


def test_singular_values_and_z_follow_the_length_of_the_vectors(gaussian):
    short, long = (measured(gaussian * x, gaussian * x * 2)["all words"] for x in (0.1, 3))
    assert short.filter(like="singular").to_numpy() == pytest.approx(2 * np.ones(3), abs=1e-4)
    assert short["standard deviation of ln Z"] < 0.05
    assert long["standard deviation of ln Z"] > 1


def test_ranks_are_kept_by_a_map_that_bends_cosines():
    word = np.random.default_rng(0).standard_normal((V, 2))
    found = measured(word, np.column_stack([5 * word[:, 0], word[:, 1]]))["all words"]
    assert found["Pearson correlation of cosines"] != pytest.approx(found["Spearman correlation of cosines"])
