"""Property tests have no deadline: a busy machine is not a wrong number. Code is compiled once for all.

The files that take longest in one process are run first, so that no worker waits for them at the end.
"""

import os

import pytest
from hypothesis import settings

from embviz.storage import cache_folder

# tests that choose an empty cache folder would compile everything again
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")

VIEW_LIBRARIES = {"altair", "ipywidgets", "anywidget", "pymde", "hdbscan", "vl_convert"}


# the first builds the book, which other files need: nobody waits for it then
LONGEST = ("book/test_pages.py", "book/ledger/test_ledger_file.py", "words/test_compiled_doors.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the longest files to the front; all else, chapters first, stays in its order."""

    def place(item: pytest.Item) -> int:
        file = item.nodeid.split("::")[0].removeprefix("tests/")
        return LONGEST.index(file) if file in LONGEST else len(LONGEST)

    items.sort(key=place)


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
    from book import ledger

    return ledger.entries()
