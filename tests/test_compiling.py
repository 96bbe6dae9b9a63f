import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from embviz import storage
from embviz.compiling import njit
from embviz.words import cooccurrence_numba, skipgram_numba, wordtests

ROOT = Path(__file__).resolve().parent.parent


def total(values):
    result = 0
    for value in values:
        result += value
    return result


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder, and no NUMBA_CACHE_DIR."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def newly_started():
    """Sum of 1, 2, 3 by a function as a process finds it at its start, and whether it was compiled for it."""
    function = njit(nogil=True)(total)
    result = function(np.array([1, 2, 3]))
    return result, sum(function.stats.cache_misses.values())


def test_machine_code_is_compiled_once_and_lies_in_our_cache_folder(cache):
    assert newly_started() == (6, 1)
    assert list(cache.glob("compiled/*/*.nbc"))
    assert newly_started() == (6, 0)
    assert numba.config.CACHE_DIR == ""  # other libraries' functions stay where they were


def test_numbas_own_variable_goes_first(cache, monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "other"))
    assert newly_started() == (6, 1)
    assert list(tmp_path.glob("other/*/*.nbc"))
    assert not cache.exists()


NOWHERE = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}  # no other folder than the one named


def in_a_process(code, cache):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "EMBVIZ_CACHE_DIR": str(cache), **NOWHERE},
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    return done.stdout, done.stderr


@pytest.mark.slow
def test_pairs_are_counted_without_a_home_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    code = (
        "import numpy as np; from embviz.words import count_pairs;"
        "print(int(count_pairs(np.arange(20) % 5, 5, window=2).sum()))"
    )
    assert in_a_process(code, tmp_path / "file" / "cache") == ("74\n", "")


@pytest.mark.parametrize("module", [cooccurrence_numba, skipgram_numba, wordtests], ids=lambda m: m.__name__)
def test_compiled_functions_call_those_of_their_own_file_alone(module):
    """numba compiles anew when that file changes, and would not notice a change in another."""
    compiled = [value for value in vars(module).values() if hasattr(value, "py_func")]
    assert compiled
    assert {function.py_func.__module__ for function in compiled} == {module.__name__}


def test_a_user_without_a_home_has_a_cache_folder_that_holds_nothing(monkeypatch):
    def no_home(name):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("EMBVIZ_CACHE_DIR", raising=False)
    for answer in (no_home, lambda name: f"~/.cache/{name}"):  # platformdirs of now and before
        monkeypatch.setattr(storage.platformdirs, "user_cache_dir", answer)
        assert storage.cache_folder() == storage.NO_HOME
