"""Numbers that judge claims on reflections, each against its definition on made data."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.reflections.experiments import scores, vectors
from embviz.corpora import make_corpus
from embviz.words.wordvectors import WordVectors

RNG = np.random.default_rng(3)


def model(signature: np.ndarray | None = None, V: int = 60) -> WordVectors:
    """Context vectors that are word vectors of other lengths."""
    word = RNG.standard_normal((V, 6)).astype(np.float32)
    lengths = RNG.uniform(0.5, 2, (V, 1)).astype(np.float32)
    return WordVectors([f"w{i}" for i in range(V)], word, word * lengths, signature)


# --- vectors ----------------------------------------------------------------------------------------------


def test_the_map_is_compared_by_lengths_and_with_shuffled_rows():
    given = model()
    table = vectors.map_statistics(given, seed=0)
    found = table[table["quantity"] == "map"].set_index(["control", "item"])["value"]
    lengths = (np.linalg.norm(rows, axis=1) for rows in (given.word, given.context))
    assert found["", "norm_correlation"] == pytest.approx(stats.pearsonr(*lengths).statistic)
    assert found["", "similarity_correlation"] == pytest.approx(1)
    assert abs(found["shuffled_rows", "similarity_correlation"]) < 0.3


def test_the_spread_of_a_square_is_in_units_of_its_diagonal():
    Q = np.array([[2.0, 1, 0], [0, 3, 5], [1, 0, 4]])
    table = pd.concat(vectors._square_and_eigenvalues(Q, "")).set_index("item")["value"]
    off = [(Q @ Q)[i, j] for i in range(3) for j in range(3) if i != j]
    assert table["offdiag_spread"] == pytest.approx(np.std(off) / np.mean(np.diag(Q @ Q)))


def test_halves_are_correlated_over_pairs_that_met_and_split_at_random_by_seed():
    text = make_corpus(" ".join(RNG.choice(list("abcdefghijklmnopqrstuvwxyz"), 40)))
    V, signs = len(text.vocabulary), np.array([1, 1, 1, -1, -1, -1.0])
    given = WordVectors(text.vocabulary, RNG.standard_normal((V, 6)).astype(np.float32), None, signs)
    table = vectors._halves(text, given, seed=0).set_index(["control", "item"])["value"]
    counts = vectors.count_pairs(text.ids, V, window=5, document_starts=text.document_starts)
    matrix = vectors.pmi(counts).toarray()
    i, j = np.random.default_rng(0).integers(V, size=(2, 20_000))
    met = (i != j) & (matrix[i, j] != 0)
    for name, half in (("pull", given.word[:, :3]), ("push", given.word[:, 3:])):
        products = (half[i].astype(float) * half[j]).sum(axis=1)
        expected = stats.spearmanr(products[met], matrix[i, j][met]).statistic
        assert table["", name] == pytest.approx(expected)
    splits = [vectors._halves(text, given, seed=seed)["value"].iloc[-1] for seed in range(4)]
    assert len(set(splits)) > 1


def test_a_symmetric_map_is_its_symmetric_part():
    symmetric = RNG.standard_normal((5, 5))
    found = vectors._learned(symmetric + symmetric.T).set_index("item")["value"]
    assert found["symmetric_share"] == pytest.approx(1)


def test_coordinates_with_minus_one_are_scored_alone(monkeypatch):
    word = np.array([[1, 0], [1, 0.1], [0, 1], [0.2, 1]], dtype=np.float32)
    given = WordVectors(list("abcd"), np.hstack([word, word[::-1, ::-1]]), None, np.array([1, 1, -1, -1]))
    pairs = pd.DataFrame({"word1": list("aaabb"), "word2": list("bcdcd"), "score": [5, 1, 2, 3, 4]})
    monkeypatch.setattr(scores.corpora, "load_word_test", lambda name: pairs)
    found = scores.score_halves(given).groupby("quantity")["value"].first()
    own = [
        stats.spearmanr(scores.similarity_cosines(WordVectors(list("abcd"), half), pairs)[0], pairs["score"])
        for half in (given.word[:, :2], given.word[:, 2:])
    ]
    assert found["pulling"] == pytest.approx(own[0].statistic)
    assert found["pushing"] == pytest.approx(own[1].statistic)
    assert found["pulling"] != pytest.approx(found["pushing"])


def test_a_test_is_passed_where_the_lower_end_of_a_95_percent_interval_is_positive():
    rows = [(test, value) for test, low in zip(vectors.TESTS, (0.01, 0.1), strict=False) for value in (low,)]
    tables = [
        pd.DataFrame({"control": test, "value": np.where(np.arange(200) < 200 * share, -1.0, 1.0)})
        for test, share in rows
    ]
    table = pd.concat(tables).assign(quantity="score_replicate", signature="half", seed=1)
    assert vectors.passed_tests(table) == [vectors.TESTS[0]]
