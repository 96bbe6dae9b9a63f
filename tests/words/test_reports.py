"""A text's PMI spectrum in one call: the same numbers as by hand, and a sentence that follows from them."""

import numpy as np
import pandas as pd
import pytest

from embviz.corpora import load_corpus, make_corpus
from embviz.metrics import mirror_distance, positive_share
from embviz.words import count_pairs, eigenvalues, pmi, shuffle_tokens, spectrum_report
from embviz.words.reports import CLIPPED, PMI, SHUFFLED, SpectrumReport


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("embedded", n_tokens=60_000)


@pytest.fixture(scope="module")
def report(corpus):
    return spectrum_report(corpus, window=2, max_vocab=120, n_shuffles=2, seed=4)


def test_scores_are_those_of_the_steps_by_hand(corpus, report):
    kept = corpus.restrict(max_vocab=120, rare="hole")
    for matrix, seed in ((PMI, 0), (SHUFFLED, 4), (SHUFFLED, 5)):
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
    with pytest.raises(ValueError, match="3 words of 'mine' occur 2 times or more, which is no spectrum"):
        spectrum_report(make_corpus("a b c " * 9 + "d"), min_count=2)


def test_one_seed_gives_one_report(corpus, report):
    again = spectrum_report(corpus, window=2, max_vocab=120, n_shuffles=2, seed=4)
    pd.testing.assert_frame_equal(again.scores, report.scores)
    np.testing.assert_array_equal(again.spectra[SHUFFLED], report.spectra[SHUFFLED])
