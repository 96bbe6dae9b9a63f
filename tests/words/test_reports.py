"""A text's PMI spectrum in one call: the same numbers as by hand, and a sentence that follows from them."""

import numpy as np
import pandas as pd
import pytest

from embviz.corpora import load_corpus, make_corpus
from embviz.metrics import mirror_distance, positive_share
from embviz.words import (
    WordVectors,
    count_pairs,
    eigenvalues,
    pmi,
    reflection_test,
    shuffle_tokens,
    spectrum_report,
)
from embviz.words.reports import CLIPPED, PMI, SHUFFLED, SpectrumReport, map_summary


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("embedded", n_tokens=60_000)


@pytest.fixture(scope="module")
def report(corpus):
    return spectrum_report(corpus, window=2, max_vocab=120)


def test_scores_are_those_of_the_steps_by_hand(corpus, report):
    kept = corpus.restrict(max_vocab=120, rare="hole")
    for matrix, seed in ((PMI, 0), (SHUFFLED, 0), (SHUFFLED, 2)):
        ids = kept.ids if matrix == PMI else shuffle_tokens(kept.ids, seed=seed)
        counts = count_pairs(ids, 120, window=2, document_starts=kept.document_starts)
        values = eigenvalues(pmi(counts), dtype="float64")
        row = report.scores.query("matrix == @matrix and seed == @seed").iloc[0]
        assert row["mirror_distance"] == pytest.approx(mirror_distance(values), abs=1e-5)
        assert row["positive_share"] == pytest.approx(positive_share(values), abs=1e-9)
    assert list(report.spectra) == [PMI, SHUFFLED, CLIPPED]
    assert (report.n_words, report.window) == (120, 2)


@pytest.mark.parametrize(
    ("distance", "said"),
    [(0.1, "closer to it than"), (0.25, "as far from it as"), (0.5, "farther from it than")],
)
def test_the_sentence_says_on_which_side_of_the_shuffled_text_the_text_lies(distance, said):
    rows = [(PMI, 0, 0.5, distance), (SHUFFLED, 0, 0.41, 0.2), (SHUFFLED, 1, 0.44, 0.3)]
    scores = pd.DataFrame(rows, columns=["matrix", "seed", "positive_share", "mirror_distance"])
    sentence = SpectrumReport("mine", 50, 9_000, 5, {}, scores).sentence
    assert (
        f"That is {said} the same tokens in 2 random orders: 0.20 to 0.30, with 41% to 44% positive"
        in sentence
    )
    assert f"50% positive eigenvalues, and its spectrum lies {distance:.2f} standard deviations" in sentence


def test_too_few_words_are_no_spectrum():
    with pytest.raises(ValueError, match="3 words of 'mine' occur 2 times or more and meet another"):
        spectrum_report(make_corpus("a b c " * 9 + "d"), min_count=2)
    for wrong in ({"max_vocab": 1}, {"window": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .* or more"):
            spectrum_report(make_corpus("a b c " * 9 + "d"), **wrong)


def test_a_word_alone_in_its_documents_is_left_out():
    rng = np.random.default_rng(0)
    documents = [" ".join(f"w{i}" for i in rng.integers(20, size=8)) for _ in range(100)]
    alone = spectrum_report(make_corpus([*documents, *["alone"] * 9]))
    without = spectrum_report(make_corpus(documents))
    assert alone.n_words == 20
    np.testing.assert_array_equal(alone.spectra[PMI], without.spectra[PMI])


# --- reflections ------------------------------------------------------------------------------------


def made_vectors(n_reflected, D=6, V=400, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    word = rng.standard_normal((V, D))
    basis, _ = np.linalg.qr(rng.standard_normal((D, D)))
    reflection = basis @ np.diag(np.where(np.arange(D) < n_reflected, -1.0, 1.0)) @ basis.T
    context = word @ reflection + noise * rng.standard_normal((V, D))
    names = [f"w{i}" for i in range(V)]
    return WordVectors(names, word.astype(np.float32), context.astype(np.float32))


@pytest.mark.parametrize("n_reflected", [0, 3, 6])
def test_a_reflection_in_any_basis_is_found_with_its_dimensions(n_reflected):
    table = reflection_test(made_vectors(n_reflected))
    own = table.loc["word and context"]
    assert own["diagonal"] == pytest.approx(1.0, abs=1e-4)
    assert own["offdiagonal"] == pytest.approx(0.0, abs=1e-4)
    assert own["negative_share"] == own["reflected_share"] == n_reflected / 6
    assert own["similarity_correlation"] == pytest.approx(1.0, abs=1e-4)


def test_a_rotation_keeps_similarities_and_is_no_reflection():
    table = reflection_test(made_vectors(3))
    rotated = table.loc["word and its rotation"]
    assert rotated["similarity_correlation"] == pytest.approx(1.0, abs=1e-4)
    assert rotated["diagonal"] < 0.9
    assert rotated["reflected_share"] < rotated["negative_share"]  # most are complex
    assert abs(table.loc["contexts in random order", "similarity_correlation"]) < 0.1
    assert abs(table.loc["random vectors", "norm_correlation"]) < 0.2


def test_the_spread_of_the_square_is_in_units_of_its_diagonal():
    rng = np.random.default_rng(0)
    word, Q = rng.normal(size=(40, 3)), np.array([[2.0, 1, 0], [0, 3, 5], [1, 0, 4]])
    off = [(Q @ Q)[i, j] for i in range(3) for j in range(3) if i != j]
    spread = np.sqrt(np.mean((off - np.mean(off)) ** 2)) / np.mean(np.diag(Q @ Q))
    assert map_summary(word, word @ Q).offdiagonal == pytest.approx(spread)


def test_vectors_without_contexts_or_with_too_few_words_have_no_map():
    with pytest.raises(ValueError, match="a tied model has one table for both"):
        reflection_test(WordVectors(["a", "b"], np.ones((2, 2), np.float32)))
    with pytest.raises(ValueError, match="2 words in 6 dimensions"):
        reflection_test(made_vectors(3, V=2))
