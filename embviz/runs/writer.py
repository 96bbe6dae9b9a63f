"""The one writer of a run: a lock on its folder, and files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from filelock import lock_descriptor

from embviz.storage import BusyRunError

LOCK, PARTIAL = "writer.lock", "partial"


class WriterLock:
    """The right to write in a folder: an advisory lock that ends with its process, however that ends.

    Raises
    ------
    BusyRunError
        If another process, or this one, has it; the message names the process.
    OSError
        If the file system refuses, or has no locks.
    """

    _all: ClassVar[weakref.WeakSet[WriterLock]] = weakref.WeakSet()

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with naming(path):
                free = lock_descriptor(descriptor, blocking=False)
            if not free:
                raise BusyRunError(
                    f"{folder} is being written by {_holder(descriptor)}, or read it: read_run"
                )
        except BaseException:
            os.close(descriptor)
            raise
        with contextlib.suppress(OSError):  # for the message above only
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        self.release = weakref.finalize(self, os.close, descriptor)
        self._all.add(self)

    @property
    def held(self) -> bool:
        return self.release.alive

    @classmethod
    def drop_all(cls) -> None:
        """A forked child must neither write its parent's runs nor keep them locked."""
        for lock in list(cls._all):
            lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which doesn't fork
    os.register_at_fork(after_in_child=WriterLock.drop_all)


def _holder(descriptor: int) -> str:
    number = "of an unknown number"
    with contextlib.suppress(OSError):  # on Windows a locked byte can't be read
        number = os.read(descriptor, 20).decode(errors="replace").strip()
    return "this process: close that Run" if number == str(os.getpid()) else f"process {number}: end it"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError name the file that it is about: writing and flushing leave it out."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_whole(path: Path, data: bytes, partial: Path) -> None:
    """Write a file, flush it to disk, and rename it into place; only the holder of the lock may.

    A kill leaves the `partial` file of this one writer behind, and the next call overwrites it.
    """
    with naming(path):
        try:
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)  # the room may be needed
            raise


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk; on Windows folders can't be opened."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
