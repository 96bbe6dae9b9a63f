import pytest

from embviz import storage


def test_a_whole_file_appears_only_when_its_block_ends(tmp_path):
    path = tmp_path / "sub" / "a.txt"
    with storage.whole_file(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def _write_half(path):
    with storage.whole_file(path) as temporary:
        temporary.write_text("half")
        raise OSError("disk full")


def test_an_error_keeps_the_old_file_and_leaves_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="disk full"):
        _write_half(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_the_suffix_of_the_temporary_file_is_the_target_suffix(tmp_path):
    with storage.whole_file(tmp_path / "x.npy") as temporary:
        assert temporary.suffix == ".npy"
        temporary.write_bytes(b"")


def test_a_checksum_is_the_published_sha256_of_abc(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert storage.file_checksum(path).startswith("ba7816bf8f01cfea414140de5dae2223b00361a3")


def test_folders_follow_their_environment_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path / "r"))
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "c"))
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    assert storage.results_folder() == tmp_path / "r"
    assert storage.cache_folder() == tmp_path / "c"
    assert storage.mirror_folder() is None
