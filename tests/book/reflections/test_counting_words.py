"""Counts of the embedded corpus: a shuffle keeps what it should, and nothing is counted twice."""

import pytest

from book.reflections import counting_words as chapter
from embviz.corpora import make_corpus


@pytest.fixture
def made_corpus(monkeypatch):
    """A small text in place of the embedded corpus, with thresholds of its own."""
    made = make_corpus("sun moon sun moon sun star moon sun star sky sun moon", name="made")
    monkeypatch.setattr(chapter.corpora, "load_corpus", lambda name: made)
    cached = (chapter.frequent_words, chapter.embedded_counts)
    for function in cached:
        function.cache_clear()
    yield made
    for function in cached:
        function.cache_clear()


def test_shuffling_keeps_every_words_count_but_not_its_company(made_corpus):
    text, shuffled = (chapter.embedded_counts(1, 1, flag) for flag in (False, True))
    assert text.sum() == shuffled.sum()  # one document: as many neighbours
    assert (text != shuffled).nnz > 0
    assert chapter.embedded_counts(1, 1, False) is text
