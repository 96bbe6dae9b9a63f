"""Where things lie on disk, and how a file is written so that it is whole or absent.

==================  ====================================  =========================================
what                named by                              default
==================  ====================================  =========================================
downloads, caches   ``EMBVIZ_CACHE_DIR``                  the user's cache folder
local mirror        ``EMBVIZ_DATA_DIR``                   none
==================  ====================================  =========================================

The registry of data sets comes with the package.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
import psutil

NO_HOME = Path("/no-home-folder/embviz")  # of a user without one: nothing is there, nothing can be written
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)\.(?P<place>[0-9a-f]{4})[0-9a-f]{4}(\.[^.]+)?")


class BusyRunError(ValueError):
    """A run on disk that another process, or another part of this one, is writing."""


def registry_file() -> Path:
    """The registry of data sets: in a checkout, or as it is installed."""
    package = Path(__file__).resolve().parent
    ours = (package / "data" / "registry.toml", package.parent / "data" / "registry.toml")
    return next((file for file in ours if file.is_file()), ours[0])


def cache_folder() -> Path:
    """Folder for downloads and derived caches: ``EMBVIZ_CACHE_DIR``, or the user's cache folder.

    Compiled code lies in it too: whoever can write there can run code as you.
    """
    named = os.environ.get("EMBVIZ_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    try:
        folder = Path(platformdirs.user_cache_dir("embviz"))
    except RuntimeError:  # no home folder
        return NO_HOME
    return folder if folder.is_absolute() else NO_HOME


def mirror_folder() -> Path | None:
    """Local mirror of data files named by ``EMBVIZ_DATA_DIR``, or None when the variable is unset."""
    named = os.environ.get("EMBVIZ_DATA_DIR")
    return Path(named).expanduser() if named else None


def file_checksum(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Make sure that files can be written in a folder, or where it would be made; leave nothing there.

    Raises
    ------
    OSError
        If not, naming the folder and why.
    """
    folder = Path(folder)
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        probe = there / f".{os.getpid()}.{secrets.token_hex(4)}"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise type(error)(f"nothing can be written to {folder}: {error.strerror or error}") from error


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], *, temporary: Path | None = None) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success flush it to disk and rename it into place.

    A reader sees the old file or the new one, never a part. On an error the temporary file is
    removed and `path` stays as it was. Two writers may race: the last rename wins, whole. What a
    killed process of this machine left half-written in the folder is removed first.

    A single writer of many files may name the `temporary` path itself, always the same: what a kill
    leaves there is overwritten, and no folder of thousands of files is searched for it.

    Raises
    ------
    OSError
        As the file system tells it (disk full, no permission), naming the file; `path` is untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if temporary is None:
        remove_abandoned(path.parent)
        # the suffix stays last, since writers such as numpy.save choose by it
        name = f".{path.stem}.{os.getpid()}.{_this_place()}{secrets.token_hex(2)}{path.suffix}"
        temporary = path.with_name(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # some libraries leave it out
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_if_possible(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Write a file that only saves time: where it can't be written, go on without.

    Parameters
    ----------
    path : the file
    write : function that writes the content to the path it is given (see :func:`whole_file`)
    """
    with contextlib.suppress(OSError), whole_file(path) as temporary:
        write(temporary)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of :func:`whole_file` whose process, of this machine, has ended."""
    for path in folder.glob(".*"):
        found = TEMPORARY.fullmatch(path.name)
        if found and found["place"] == _this_place() and not _runs(int(found["process"])):
            with contextlib.suppress(OSError):
                path.unlink()


def _runs(process: int) -> bool:
    try:
        return psutil.pid_exists(process)
    except OverflowError:
        return False


@functools.cache
def _this_place() -> str:
    """Four digits for this machine, or container: process numbers mean nothing in another."""
    numbers = "/proc/self/ns/pid"  # each container counts its own
    space = os.readlink(numbers) if os.path.islink(numbers) else ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:4]
