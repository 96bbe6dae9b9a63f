"""Who is computing a cell: a file in the cache folder, locked for as long as its process does.

The lock ends with the process, however that ends. Where the cache folder can't be written to, or its file
system has no locks, nobody is known to compute anything, and two processes may compute the same cell: the
results are equal, and the last one stored stays.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from filelock import lock_descriptor

from embviz.storage import cache_folder

WATCH_EVERY = 0.5  # seconds


@contextlib.contextmanager
def held(key: str, *, by: int) -> Iterator[bool]:
    """Hold a cell within the block in the name of process `by`; False if another process holds it."""
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(path)
    except OSError:  # no folder, or no locks in it
        yield True
        return
    if descriptor is None:
        yield False
        return
    try:
        since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        os.write(descriptor, f"process {by} since {since}".encode())
        yield True
    finally:
        with contextlib.suppress(OSError):  # Windows removes no file that is open: an empty one stays there
            path.unlink()
        os.close(descriptor)


def holder(key: str) -> str | None:
    """Who computes a cell, as "process 123 since 2026-11-23T06:40:34+00:00"; None if nobody is known to."""
    try:
        with open(_path(key), "r+", encoding="utf-8") as file:
            free = lock_descriptor(file.fileno(), blocking=False)
        return None if free else _path(key).read_text(encoding="utf-8") or None
    except OSError:  # there is no such file, or on Windows its locked byte can't be read
        return None


def end_with(parent: int) -> None:
    """Let this process, a worker, end when `parent` has: one that is killed tells its workers nothing."""
    if any(thread.name == f"end with {parent}" for thread in threading.enumerate()):
        return
    threading.Thread(target=_watch, args=(parent,), name=f"end with {parent}", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent and psutil.pid_exists(parent):  # Windows gives orphans no other parent
        time.sleep(WATCH_EVERY)
    os._exit(1)


def _path(key: str) -> Path:
    return cache_folder() / "held" / f"{key}.lock"


def _locked(path: Path) -> int | None:
    """Descriptor of the locked file at `path`, which its last holder may be deleting; None if it is held."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not lock_descriptor(descriptor, blocking=False):
                os.close(descriptor)
                return None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    os.ftruncate(descriptor, 0)  # what a killed holder wrote
                    return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
