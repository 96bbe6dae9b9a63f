import functools
import gzip
import http.server
import io
import lzma
import tarfile
import threading
import zipfile

import pytest

from embviz import storage
from embviz.corpora import registry
from tests.made_registry import ROSE_XZ, TEXT, checksum, stored, toml_entry, whole, write


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """Empty cache, mirror and data folders; returns a function that writes the registry."""
    for name in ("cache", "mirror", "registry"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EMBVIZ_DATA_DIR", str(tmp_path / "mirror"))
    monkeypatch.setattr(storage, "registry_file", lambda: tmp_path / "registry" / "registry.toml")

    def register(*entries):
        (tmp_path / "registry" / "registry.toml").write_text("\n".join(entries))
        return tmp_path

    return register


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A web server on this machine; yields its address and the folder that it serves."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = tmp_path / "served"
    served.mkdir()
    handler = functools.partial(Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", served
        httpd.shutdown()
        thread.join()


ROSE = whole(stored("rose/rose.txt.xz", ROSE_XZ), text=TEXT)


def of_forms(*forms):
    return toml_entry("rose", {"part": "all", "forms": list(forms)})


# the committed registry


def test_every_registered_file_has_a_checksum_a_licence_a_citation_and_a_source():
    entries = registry.load_registry()
    (text8,) = entries["text8"].files
    assert (text8.text_size, text8.text_checksum) == (100_000_000, "md5:3bea1919949baf155f99411df5fada7e")
    assert {"text8", "enwik9", "enwiki2018", "enwiki2018_raw", "tinystories", "wikitext2", "ptb"} <= set(
        entries
    )
    for entry in entries.values():
        assert entry.licence, entry.name
        assert entry.citation, entry.name
        for file in entry.files:
            assert file.identity.partition(":")[0] in registry.ALGORITHMS
            sources = [form.address or form.members for form in file.forms]
            assert entry.recipe or any(sources), f"{entry.name} has no source"


def test_the_registry_tells_what_a_reader_must_know():
    entries = registry.load_registry()
    assert "NOT text8" in entries["enwiki2018"].title
    assert "NOT BookCorpus" in entries["novels"].title
    readme = storage.registry_file().with_name("README.md").read_text()
    assert not [name for name in entries if f"`{name}`" not in readme]
    for entry in entries.values():
        for address in (form.address for file in entry.files for form in file.forms if form.address):
            assert address.startswith("https://")
            # PTB's address has no commit that we know of; its published checksum pins it
            if "raw.githubusercontent.com" in address and entry.name != "ptb":
                assert len(address.split("/")[5]) == 40, address


def test_the_files_of_the_local_mirror_are_those_of_the_registry():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: the registry was NOT compared with real files")
    table = registry.verify_data()
    assert not (table["state"] == "wrong").any(), table["problem"].dropna().tolist()
    assert (table["state"] == "verified").any()


# reading


def test_a_file_in_the_mirror_is_verified_and_uncompressed(folders):
    folder = folders(toml_entry("rose", ROSE))
    write(folder / "mirror", "rose/rose.txt.xz", ROSE_XZ)
    assert registry.read_bytes("rose") == TEXT


def test_the_cache_comes_before_the_mirror(folders):
    folder = folders(toml_entry("rose", ROSE))
    write(folder / "mirror", "rose/rose.txt.xz", b"wrong, but never looked at")
    ours = write(folder / "cache" / "data", "rose/rose.txt.xz", ROSE_XZ)
    assert registry.find_form("rose", registry.data_set("rose").files[0])[0] == ours


def test_any_registered_form_of_a_file_and_a_published_md5_will_do(folders):
    forms = (stored("rose/rose.zip", b"not at hand"), stored("rose/rose.txt.xz", ROSE_XZ))
    for file in (whole(*forms, text=TEXT), whole({"path": "rose.txt", "md5": checksum(TEXT, "md5")})):
        folder = folders(toml_entry("rose", file))
        write(folder / "mirror", "rose/rose.txt.xz", ROSE_XZ)
        write(folder / "mirror", "rose.txt", TEXT)
        assert registry.read_bytes("rose") == TEXT


def _zip(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("other", b"not this")
        archive.writestr("inner/rose.txt", content)
    return buffer.getvalue()


def _tar(content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in (("other", b"not this"), ("inner/rose.txt", content)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("path", "pack", "member"),
    [
        ("rose.txt", bytes, None),
        ("rose.txt.gz", gzip.compress, None),
        ("rose.txt.xz", lzma.compress, None),
        ("rose.zip", _zip, "inner/rose.txt"),
        ("rose.tgz", _tar, "inner/rose.txt"),
        ("rose.tar.gz", _tar, "inner/rose.txt"),
    ],
)
def test_plain_and_compressed_forms_give_the_same_text(folders, path, pack, member):
    packed = pack(TEXT)
    fields = {} if member is None else {"member": member}
    folder = folders(toml_entry("rose", whole(stored(path, packed, **fields), text=TEXT)))
    write(folder / "mirror", path, packed)
    assert registry.read_bytes("rose") == TEXT


def test_a_form_without_its_own_checksum_is_known_by_its_text(folders):
    folder = folders(toml_entry("rose", whole({"path": "rose.txt.xz"}, text=TEXT)))
    path = write(folder / "mirror", "rose.txt.xz", ROSE_XZ)
    assert registry.read_bytes("rose") == TEXT
    path.write_bytes(lzma.compress(TEXT + b"!"))
    with pytest.raises(registry.ChecksumError, match="its checksum is sha256:"):
        registry.read_bytes("rose")
    path.write_bytes(ROSE_XZ[:-20])
    with pytest.raises(registry.ChecksumError, match="cannot be uncompressed"):
        registry.read_bytes("rose")
    folders(toml_entry("rose", whole(stored("rose.txt.xz", ROSE_XZ), text=b"another text")))
    path.write_bytes(ROSE_XZ)
    with pytest.raises(registry.ChecksumError, match="does not hold the text"):
        registry.read_bytes("rose")


# refusals


@pytest.mark.parametrize("place", ["cache/data", "mirror"])
def test_a_wrong_file_is_neither_used_nor_moved(folders, place):
    folder = folders(toml_entry("rose", ROSE))
    path = write(folder / place, "rose/rose.txt.xz", ROSE_XZ[:-1] + bytes([ROSE_XZ[-1] ^ 1]))
    for attempt in (registry.read_bytes, registry.fetch_files):
        with pytest.raises(registry.ChecksumError, match=f"{path} was not used: its checksum is .*Delete it"):
            attempt("rose")
    assert [file.name for file in path.parent.iterdir()] == ["rose.txt.xz"]


def test_a_mirror_without_the_file_is_named_with_the_folder_to_use_and_the_alternative(folders):
    folder = folders(toml_entry("rose", ROSE))
    with pytest.raises(registry.DataMissingError) as refusal:
        registry.read_bytes("rose")
    message = str(refusal.value)
    for part in (
        "rose/rose.txt.xz",
        str(folder / "cache" / "data"),
        f"not in the mirror {folder / 'mirror'}",
        "EMBVIZ_DATA_DIR",
        "'embedded'",
    ):
        assert part in message
    assert "data fetch" not in message, "there is nothing to fetch: it has a recipe only"
    form = stored("rose.txt", TEXT, address="https://example.org/rose.txt")
    folders(toml_entry("rose", whole(form)))
    with pytest.raises(registry.DataMissingError, match="run `embviz data fetch rose`"):
        registry.read_bytes("rose")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (of_forms({"path": "rose.txt"}), "rose, files, 0: .*rose.txt has no checksum, so it cannot be used"),
        (of_forms(), "rose, files, 0, forms: Tuple should have at least 1 item"),
        (of_forms({"path": "rose.txt", "sha256": "abc"}), r"0, sha256: String should match .*\{64\}"),
        (of_forms({"path": "../rose.txt", "md5": "0" * 32}), "0, forms, 0: .*leaves the data folder"),
        (of_forms({"path": "/rose.txt", "md5": "0" * 32}), "leaves the data folder"),
        (of_forms({"path": "a", "md5": "0" * 32, "sha265": ""}), "0, sha265: Unexpected keyword argument"),
        (of_forms({"md5": "0" * 32}), "0, path: Field required"),
        (toml_entry("rose", ROSE, kind="flower"), "rose, kind: Input should be 'corpus', 'word test'"),
        (toml_entry("rose", ROSE, terms="terms"), "the part of its terms, 'terms', is not its first"),
        (toml_entry("rose"), "rose, files: Field required"),
        ("[rose", "is not valid TOML"),
    ],
)
def test_a_wrong_registry_entry_is_refused_by_name(folders, entry, message):
    folders(entry)
    with pytest.raises(registry.RegistryError, match=message):
        registry.load_registry()


def test_unknown_names_and_parts_are_refused_with_those_there_are(folders):
    folders(toml_entry("rose", ROSE))
    with pytest.raises(registry.RegistryError, match="known: embedded, rose"):
        registry.data_set("tulip")
    with pytest.raises(registry.RegistryError, match="has no part 'train'; it has: all"):
        registry.read_bytes("rose", part="train")


# downloading, from a server on this machine


def test_fetching_downloads_verifies_and_then_needs_no_network(folders, server):
    address, served = server
    write(served, "rose.zip", ROSE_XZ)
    form = stored("rose/rose.txt.xz", ROSE_XZ, address=f"{address}/rose.zip")
    folder = folders(toml_entry("rose", whole(form, text=TEXT)))
    (path,) = registry.fetch_files("rose", progress=False)
    assert path == folder / "cache" / "data" / "rose" / "rose.txt.xz"
    (served / "rose.zip").unlink()
    assert registry.fetch_files("rose", progress=False) == [path]
    assert registry.read_bytes("rose") == TEXT


def test_a_wrong_download_is_not_kept(folders, server):
    address, served = server
    write(served, "rose", b"an error page")
    folder = folders(toml_entry("rose", whole(stored("rose.txt.xz", ROSE_XZ, address=f"{address}/rose"))))
    with pytest.raises(registry.ChecksumError, match=r"/rose was not used: it has 13 bytes where"):
        registry.fetch_files("rose", progress=False)
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("where", ["no server", "no such page"])
def test_offline_the_error_names_file_folder_and_alternative(folders, server, where):
    address, _ = server
    address = "http://127.0.0.1:9" if where == "no server" else address
    folder = folders(toml_entry("rose", whole(stored("rose.txt", TEXT, address=f"{address}/rose.txt"))))
    with pytest.raises(registry.DataMissingError) as refusal:
        registry.fetch_files("rose", progress=False)
    for part in ("could not download", "rose.txt", str(folder / "cache" / "data"), "'embedded'"):
        assert part in str(refusal.value)
    assert not [p for p in (folder / "cache").rglob("*") if p.is_file()], "nothing half-written stays"


def test_fetching_several_goes_on_after_one_that_failed(folders, server):
    address, served = server
    write(served, "rose.txt", TEXT)
    rose = whole(stored("rose.txt", TEXT, address=f"{address}/rose.txt"))
    lost = whole(stored("lost.txt", TEXT, address=f"{address}/lost.txt"))
    folders(toml_entry("lost", lost), toml_entry("rose", rose))
    table = registry.fetch_data(["lost", "rose", "embedded"], progress=False).set_index("name")
    assert table["state"].to_dict() == {"lost": "failed", "rose": "verified", "embedded": "needs no file"}
    assert "lost.txt" in table.loc["lost", "problem"]


# tables


def test_the_tables_tell_what_is_at_hand_verified_absent_and_wrong(folders):
    files = {name: whole(stored(f"{name}.txt", TEXT), text=TEXT) for name in ("good", "bad", "none")}
    folder = folders(*(toml_entry(name, file) for name, file in files.items()))
    write(folder / "mirror", "good.txt", TEXT)
    write(folder / "mirror", "bad.txt", TEXT.upper())
    listed = registry.list_data().set_index("name")["state"].to_dict()
    assert listed == {"embedded": "needs no file", "good": "at hand", "bad": "at hand", "none": "absent"}
    verified = registry.verify_data().set_index("name")["state"].to_dict()
    assert verified == {"good": "verified", "bad": "wrong", "none": "absent"}
    assert len(registry.verify_data(["good"])) == 1
