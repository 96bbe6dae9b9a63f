import sys

import pytest


@pytest.fixture(autouse=True)
def outside(monkeypatch, tmp_path):
    """An empty working directory in no project, no folder named, and its modules forgotten afterwards."""
    for name in ("EMBVIZ_PROJECT", "EMBVIZ_RESULTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("tulip"):
            del sys.modules[name]
