"""How much memory a computation may take, and the refusal when it would take more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

PROC = Path("/proc")
NEVER_REFUSED = 2**20  # bytes: fits wherever Python runs, and looking costs more than the work
GROUP_FILES = {  # limit, use, and which line of memory.stat counts file caches that can go; by kind of mount
    "cgroup2": ("memory.max", "memory.current", "inactive_file"),
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available_memory() -> int:
    """Bytes that a computation can still take: the least that the machine and its control groups leave.

    Control groups are the process's own and those above it, as containers and batch systems set them, of
    version 2 or 1. A limit of the address space (``ulimit -v``) needs no look: nothing is killed for it.
    """
    return max(0, min([_machine_available(), *_left_in_groups()]))


def _machine_available() -> int:
    try:
        lines = (PROC / "meminfo").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not Linux
        return int(psutil.virtual_memory().available)


def peak_memory() -> int:
    """Bytes that this process held at its fullest."""
    if resource is None:
        return int(psutil.Process().memory_info().peak_wset)  # what Windows calls it
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _left_in_groups() -> Iterator[int]:
    for kind, folder, top in _memory_groups():
        limit_file, use_file, cache_line = GROUP_FILES[kind]
        while True:
            try:
                limit, use = (
                    int((folder / name).read_text(encoding="utf-8")) for name in (limit_file, use_file)
                )
                stat = dict(
                    line.split() for line in (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
                )
                yield limit - use + int(stat.get(cache_line, 0))
            except (OSError, ValueError):  # no such controller here, or "max"
                pass
            if folder == top or folder.parent == folder:
                break
            folder = folder.parent


def _memory_groups() -> Iterator[tuple[str, Path, Path]]:
    """Kind of mount, folder of the process's own group, and folder of the highest group that it can see."""
    try:
        own = [
            line.split(":", 2)[1:]
            for line in (PROC / "self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        ]
        mounts = (PROC / "self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return
    for mount in mounts:
        place, _, rest = mount.partition(" - ")
        root, point = place.split()[3:5]
        kind, _, options = rest.split()[:3]
        controller = {"cgroup2": "", "cgroup": "memory"}.get(kind)
        if controller is None or (controller and controller not in options.split(",")):
            continue
        for group in (group for names, group in own if controller in names.split(",")):
            inside = os.path.relpath(group, root)  # in a container the mount may begin at its own group
            seen = not inside.startswith("..")
            yield kind, Path(point, inside) if seen else Path(point), Path(point)


def require_memory(n_bytes: int, *, what: str, instead: str, available: int | None = None) -> None:
    """Refuse a computation that would not fit, before it starts.

    Parameters
    ----------
    n_bytes : int
        What it needs, by estimate.
    what, instead : str
        The computation, and what the user can do instead; they end up in the message.
    available : int, optional
        Bytes that there were before the computation began; without it, :func:`available_memory`.

    Raises
    ------
    MemoryError
        If `n_bytes` is more than there is.
    """
    if n_bytes <= NEVER_REFUSED:
        return
    limit = available_memory() if available is None else available
    if n_bytes > limit:
        raise MemoryError(
            f"{what} needs about {written(n_bytes)}, and {written(limit)} are available: {instead}"
        )


def written(n_bytes: int) -> str:
    """A size in the largest unit of which there is a tenth at least.

    Examples
    --------
    >>> written(2_500_000_000), written(48_000)
    ('2.50 GB', '48.00 kB')
    """
    unit, size = next(
        ((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if n_bytes >= size / 10), ("kB", 1e3)
    )
    return f"{n_bytes / size:.2f} {unit}"
