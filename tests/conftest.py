"""Property tests have no deadline: a busy machine is not a wrong number. Code is compiled once for all."""

import os

import pytest
from hypothesis import settings

from embviz.imports import read_grammar_late
from embviz.storage import cache_folder

# tests that choose an empty cache folder would compile everything again
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))

read_grammar_late()  # nbformat checks notebooks with jsonschema

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")


@pytest.fixture
def one_thread():
    """PyTorch on one thread: with more, sums have other bits, and waiting threads spin."""
    import torch  # most tests do without

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def stored_ledger():
    """Every claim, judged on the stored results; findings are kept between runs of the tests."""
    from embviz import ledger

    return ledger.entries()


@pytest.fixture(autouse=True)
def findings_of_this_test_alone(monkeypatch, tmp_path):
    """Findings are kept for as long as one test runs: it may have replaced what computes them."""
    monkeypatch.setattr("embviz.ledger.kept.cache_folder", lambda: tmp_path / "kept")
