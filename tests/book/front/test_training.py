"""The front page's model while it learns, and how often its words occur near each other."""

from __future__ import annotations

import numpy as np
import pytest

from book.front import training, vectors
from book.front.training import WordsWhileTraining, counted
from book.front.vectors import FrontVectors, two_embeddings
from embviz.corpora import make_corpus
from tests.book.front.test_vectors import sentences

MONTHS, PLACES = training.KINDS["month"].split()[:8], training.KINDS["place"].split()[:8]


@pytest.fixture
def model(monkeypatch) -> FrontVectors:
    text = sentences()
    for letter, words in (("x", MONTHS), ("y", PLACES)):
        for other, word in zip("abcdefgh", words, strict=True):
            text = text.replace(f"{letter}{letter}{other}", word)
    corpus = make_corpus(text, name="made")
    monkeypatch.setattr(vectors.corpora, "load_corpus", lambda name: corpus)
    return FrontVectors("made", False, n_words=16, embedding_dim=8, n_epochs=5, n_negative=5)


def test_the_last_snapshot_is_the_model_of_the_front_page(model):
    whole = vectors.vectors_of(vectors.word_vectors.function(model), "word")
    table = training.training.function(WordsWhileTraining(model, (0, 10_000_000)))
    assert np.array_equal(vectors.coordinates(table[table["words_read"] > 0]), whole)


def test_pairs_count_each_pair_twice_and_sums_are_those_of_the_whole_text(model):
    table = training.pairs.function(model)
    both = table[table["context"] != ""]
    alone = table[(table["context"] == "") & (table["word"] != "")].set_index("word")["count"]
    # the made text has no other words, so a word's contexts are all here
    assert both.groupby("word")["count"].sum().to_dict() == pytest.approx(alone.to_dict())
    assert table["count"].iloc[-1] == pytest.approx(alone.sum())
    square = both.pivot(index="word", columns="context", values="count").to_numpy()
    assert np.array_equal(square, square.T)


@pytest.mark.parametrize(("shuffled", "least", "most"), [(False, 0.7, 1.0), (True, -0.1, 0.1)])
def test_inner_products_follow_pmi_in_the_text_and_not_in_the_shuffled_text(shuffled, least, most):
    found, n = two_embeddings(shuffled=shuffled), counted(shuffled=shuffled)
    W, C = found.vectors[:, [found.words.index(word) for word in n.words]]
    met = n.pairs > 0
    pmi = np.log(n.pairs[met] * n.total / np.outer(n.alone, n.alone)[met])
    assert least < np.corrcoef(pmi, (W @ C.T)[met])[0, 1] < most
