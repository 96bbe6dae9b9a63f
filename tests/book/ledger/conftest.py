"""A file of claims with everything that one may hold, and results in an empty folder."""

import pytest

WHOLE = """
paper = "mine"
title = "A paper"
cite = "mine2026"
experiments = "mine"

[printed.table2]
where = "Table 2, page 3"
score = [0.5, 0.25]

[[claim]]
id = "mine.first"
title = "It is so"
where = "section 1"
chapter = "mine"
says = "so"
setting = "as is"
control = "none"
question = true
measurements = [
  { name = "score", label = "score", paper = 0.5, accept = [0.4, inf], control = "shuffled" },
  { name = "other", label = "not printed" },
  { name = "gap", label = "ours", paper = 0.0, target = "implied", why = "no gap" },
]
sequential = 2026-01-02
amended = ["2026-01-02, inconclusive before: it was unfair"]
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def write_claims(tmp_path, monkeypatch):
    """A function that writes the only file of claims."""
    monkeypatch.setattr("book.ledger.claims.claims_folder", lambda: tmp_path)

    def write(content):
        (tmp_path / "mine.toml").write_bytes(content if isinstance(content, bytes) else content.encode())

    return write
