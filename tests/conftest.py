"""Property tests have no deadline: a busy machine is not a wrong number. Code is compiled once for all."""

import os
import subprocess
import sys

import pytest
from filelock import FileLock
from hypothesis import settings

from embviz.imports import read_grammar_late
from embviz.storage import cache_folder

# tests that choose an empty cache folder would compile everything again
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))

read_grammar_late()  # nbformat checks notebooks with jsonschema

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")

VIEW_LIBRARIES = {"altair", "ipywidgets", "anywidget", "pymde", "hdbscan", "vl_convert"}
JUDGE = """
import sys
for name in {libraries}: sys.modules[name] = None
from embviz import ledger
ledger.entries()
"""


@pytest.fixture
def one_thread():
    """PyTorch on one thread: with more, sums have other bits, and waiting threads spin."""
    import torch  # most tests do without

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def judged_without_charts(tmp_path_factory):
    """Every claim judged on the stored results, once for all workers, where charts can't be imported.

    Gives what that process complained of; findings are kept between runs of the tests.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    complaints = folder / "ledger_without_charts.txt"
    with FileLock(folder / "ledger.lock"):
        if not complaints.exists():
            code = JUDGE.replace("{libraries}", repr(sorted(VIEW_LIBRARIES)))
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            complaints.write_text(done.stderr if done.returncode else "")
    return complaints.read_text()


@pytest.fixture(scope="session")
def stored_ledger(judged_without_charts):
    """Every claim, judged on the stored results."""
    from embviz import ledger

    return ledger.entries()


@pytest.fixture(autouse=True)
def findings_of_this_test_alone(monkeypatch, request):
    """Findings are kept for as long as one test runs: it may have replaced what computes them."""

    def folder():  # made for those that ask alone: with thousands of folders each more takes its time
        return request.getfixturevalue("tmp_path") / "kept"

    monkeypatch.setattr("embviz.ledger.kept.cache_folder", folder)
