"""The front page's vectors: of the text and of its shuffled tokens, stored in a byte a number."""

import dataclasses

import numpy as np
import pytest

from book.front import vectors
from book.front.vectors import FrontVectors, vectors_of
from embviz.corpora import make_corpus
from embviz.metrics import nearest_neighbors


def sentences(n: int = 10_000) -> str:
    """Two kinds of words, each kind among its own; long, for subsampling drops most of 16 words' tokens."""
    rng = np.random.default_rng(0)
    kinds = [[f"{letter}{letter}{other}" for other in "abcdefgh"] for letter in "xy"]
    return " ".join(" ".join(rng.choice(kinds[rng.integers(2)], size=40)) for _ in range(n))


@pytest.fixture
def small(monkeypatch) -> FrontVectors:
    corpus = make_corpus(sentences(), name="made")
    monkeypatch.setattr(vectors.corpora, "load_corpus", lambda name: corpus)
    return FrontVectors("made", False, n_words=16, embedding_dim=8, n_epochs=5, n_negative=5)


def kinds_kept(table, kind: str) -> float:
    """Share of words whose nearest word is of their own kind."""
    words = table[table["kind"] == kind]["word"].tolist()
    nearest = nearest_neighbors(vectors_of(table, kind), 1, metric="cosine")[0].ravel()
    return float(np.mean([words[other][0] == word[0] for word, other in zip(words, nearest, strict=True)]))


def test_words_of_a_kind_come_together_in_the_text_and_not_in_its_shuffled_tokens(small):
    text = vectors.word_vectors.function(small)
    shuffled = vectors.word_vectors.function(dataclasses.replace(small, shuffled=True))
    assert sorted(text["count"]) == sorted(shuffled["count"])
    assert kinds_kept(text, "word") == 1
    assert kinds_kept(shuffled, "word") < 0.95  # half by chance


def test_a_byte_a_number_moves_no_vector_by_more_than_half_a_step(small, monkeypatch):
    whole = []
    in_bytes = vectors.in_bytes
    monkeypatch.setattr(vectors, "in_bytes", lambda table: whole.append(table) or in_bytes(table))
    table = vectors.word_vectors.function(small)
    for kind, exact in zip(vectors.KINDS, whole, strict=True):
        step = np.abs(exact).max(axis=1, keepdims=True) / vectors.LEVELS
        # float32 rounds the scale
        assert (np.abs(vectors_of(table, kind) - exact) <= 0.501 * step).all()
