"""Property tests have no deadline: a busy machine is not a wrong number. Code is compiled once for all."""

import os

import pytest
from hypothesis import settings

from embviz.storage import cache_folder

# tests that choose an empty cache folder would compile everything again
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")

VIEW_LIBRARIES = {"altair", "ipywidgets", "anywidget", "pymde", "hdbscan", "vl_convert"}


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
    """Every claim, as the ledger file has it."""
    from embviz import ledger

    return ledger.entries()
