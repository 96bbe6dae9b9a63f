"""The front page's model while it learns, and how often its words occur near each other."""

from __future__ import annotations

import numpy as np
import pytest

from book.front import training, vectors
from book.front.training import WordsWhileTraining, counted, kinds
from book.front.vectors import FrontVectors, two_embeddings
from embviz.corpora import make_corpus
from embviz.ledger.cells import read
from embviz.metrics import nearest_neighbors
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


def same_kind(words: list[str], table: np.ndarray) -> float:
    """Share of words whose nearest word is of their kind."""
    kind = np.array(kinds(words))
    return float((kind[nearest_neighbors(table, 1, metric="cosine")[0].ravel()] == kind).mean())


def test_kinds_are_random_before_training_and_apart_after_it(model):
    table = training.training.function(WordsWhileTraining(model, (0, 20_000, 10_000_000)))
    parts = {place: table[table["words_read"] == place] for place in (0, 20_000, 10_000_000)}
    words = parts[0]["word"].tolist()
    before, _, after = (vectors.coordinates(part) for part in parts.values())
    assert np.abs(before).max() <= 0.5 / model.embedding_dim  # as word2vec begins
    assert same_kind(words, before) < 0.95
    assert same_kind(words, after) == 1
    assert len(words) == 16


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


def test_what_the_introduction_shows_is_stored_with_the_texts_checksum():
    for cell in [*training.training_cells("paper"), *training.pair_cells("paper")]:
        assert read(cell)[1]["data"].keys() == {"enwiki2018"}
        assert cell.path.stat().st_size < 150_000


@pytest.mark.parametrize(("shuffled", "least", "most"), [(False, 0.7, 1.0), (True, -0.1, 0.1)])
def test_inner_products_follow_pmi_in_the_text_and_not_in_the_shuffled_text(shuffled, least, most):
    found, n = two_embeddings(shuffled=shuffled), counted(shuffled=shuffled)
    W, C = found.vectors[:, [found.words.index(word) for word in n.words]]
    met = n.pairs > 0
    pmi = np.log(n.pairs[met] * n.total / np.outer(n.alone, n.alone)[met])
    assert least < np.corrcoef(pmi, (W @ C.T)[met])[0, 1] < most
