import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from embviz import compiling, storage
from embviz.compiling import njit

ROOT = Path(__file__).resolve().parent.parent


def total(values):
    found = 0
    for value in values:
        found += value
    return found


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where compiled code lies; numba's own NUMBA_CACHE_DIR names it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def newly_started():
    """Sum of 1, 2, 3 by a function as a process finds it at its start, and whether it was compiled for it."""
    function = njit(nogil=True)(total)
    found = function(np.array([1, 2, 3]))
    return found, sum(function.stats.cache_misses.values())


def test_code_is_compiled_once_and_then_read(folder):
    assert newly_started() == (6, 1)
    (file,) = folder.iterdir()
    before = file.read_bytes()
    assert newly_started() == (6, 0)
    assert file.read_bytes() == before


@pytest.mark.parametrize("share", np.linspace(0, 0.999, 12))
def test_code_cut_short_is_compiled_anew_and_replaced(folder, share):
    newly_started()
    (file,) = folder.iterdir()
    os.truncate(file, int(share * file.stat().st_size))
    assert newly_started() == (6, 1)
    assert newly_started() == (6, 0)


@pytest.mark.parametrize("share", np.linspace(0, 0.999, 6))
def test_an_altered_bit_is_never_run(folder, share):
    newly_started()
    (file,) = folder.iterdir()
    content = bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 1
    file.write_bytes(content)
    assert newly_started() == (6, 1)
    assert newly_started() == (6, 0)


def test_changed_source_is_compiled_anew(folder, monkeypatch):
    newly_started()
    monkeypatch.setattr(compiling, "_digest", lambda file: "other")
    assert newly_started() == (6, 1)


def test_a_function_follows_from_the_files_of_those_it_calls():
    from embviz.words import cooccurrence_numba, spectra_numba

    place = spectra_numba.switch_edges._cache._impl.locator
    assert compiling._digest(cooccurrence_numba.__file__) in place.get_source_stamp()


def test_code_lies_in_our_cache_folder_unless_numba_is_told_another(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))
    assert compiling.compiled_folder() == tmp_path / "compiled"
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/elsewhere")
    assert compiling.compiled_folder() == Path("/elsewhere")


def test_where_nothing_can_be_written_functions_are_compiled_all_the_same(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "compiled"))
    assert newly_started() == (6, 1)
    assert newly_started() == (6, 1)


def test_pairs_are_counted_without_a_home_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    code = (
        "import numpy as np; from embviz.words import count_pairs;"
        "print(int(count_pairs(np.arange(20) % 5, 5, window=2).sum()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "EMBVIZ_CACHE_DIR": str(tmp_path / "file" / "cache")},
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    assert (done.stdout, done.stderr) == ("74\n", "")


def test_other_libraries_functions_can_be_made_where_numba_finds_no_place_for_them(monkeypatch):
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(total)
    with compiling.keeping_nothing():
        function = numba.njit(cache=True)(total)
        twice = numba.vectorize(cache=True)(lambda value: 2 * value)
    assert function(twice(np.array([1, 2, 3]))) == 12
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(total)


def test_a_user_without_a_home_has_a_cache_folder_that_holds_nothing(monkeypatch):
    def no_home(name):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("EMBVIZ_CACHE_DIR", raising=False)
    for answer in (no_home, lambda name: f"~/.cache/{name}"):  # platformdirs of now and before
        monkeypatch.setattr(storage.platformdirs, "user_cache_dir", answer)
        assert storage.cache_folder() == storage.NO_HOME
