"""A made text for tests of language models."""

import pytest

from book.language import load_streams
from embviz.corpora import corpus as corpora

DOCUMENTS = [f"The cat number {n} sat on mat {n * n}. Then it slept{'!' * n}" for n in range(12)]


@pytest.fixture
def made_text(monkeypatch):
    """It stands for every text that is loaded."""
    monkeypatch.setattr(corpora, "load_text", lambda name, *, part=None: "<|endoftext|>".join(DOCUMENTS))
    load_streams.cache_clear()
    yield
    load_streams.cache_clear()
