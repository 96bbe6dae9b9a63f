import errno
import os
import subprocess

import pytest

from embviz import storage


def test_a_whole_file_appears_only_when_its_block_ends(tmp_path):
    path = tmp_path / "sub" / "a.txt"
    with storage.whole_file(path) as temporary:
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def _write_half(path):
    with storage.whole_file(path) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, "disk full")


def test_an_error_keeps_the_old_file_and_leaves_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="disk full") as refusal:
        _write_half(path)
    assert refusal.value.filename == str(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def _ended_process():
    with subprocess.Popen(["true"]) as process:
        process.wait()
        return process.pid


def test_what_a_killed_process_left_half_written_is_removed_at_the_next_write(tmp_path):
    ended, place = _ended_process(), storage._this_place()
    left = tmp_path / f".x.{ended}.{place}0123.bin"
    kept = [  # of a process that runs; of another machine; not of ours
        tmp_path / f".x.{os.getpid()}.{place}0123.bin",
        tmp_path / f".x.{ended}.{'0' * 4 if place != '0' * 4 else '1' * 4}0123.bin",
        tmp_path / ".x.bin",
    ]
    for path in (left, *kept):
        path.touch()
    with storage.whole_file(tmp_path / "y.bin") as temporary:
        temporary.touch()
        assert storage.TEMPORARY.fullmatch(temporary.name)
    assert not left.exists()
    assert all(path.exists() for path in kept)


def test_a_write_that_only_saves_time_may_fail(tmp_path):
    (tmp_path / "file").touch()
    storage.write_if_possible(tmp_path / "file" / "a", lambda path: path.touch())
    storage.write_if_possible(tmp_path / "b", lambda path: path.write_bytes(b"whole"))
    assert (tmp_path / "b").read_bytes() == b"whole"


def test_folders_follow_their_environment_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "c"))
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    assert storage.cache_folder() == tmp_path / "c"
    assert storage.mirror_folder() is None
