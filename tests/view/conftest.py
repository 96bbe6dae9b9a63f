"""The titles that the package itself gives, whatever chapter's module was imported before in this process."""

import sys

import pytest

from embviz import labels


@pytest.fixture(autouse=True)
def package_titles(monkeypatch):
    """Take the book's titles out of the table for the length of a test."""
    if "book.labels" in sys.modules:
        for name in sys.modules["book.labels"].LABELS:
            monkeypatch.delitem(labels.LABELS, name, raising=False)
