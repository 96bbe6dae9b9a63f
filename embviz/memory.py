"""How much memory a computation may take, and the refusal when it would take more."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP_FILES = (  # (limit, use) of containers: version 2, then version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> int:
    """Bytes that a computation can still take: the smaller of the machine's and the container's."""
    free = [_machine_available()]
    for limit, use in CGROUP_FILES:
        if (left := _cgroup_left(Path(limit), Path(use))) is not None:
            free.append(left)
    return max(0, min(free))


def _machine_available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not Linux: all the memory that there is, for want of a better number
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_left(limit: Path, use: Path) -> int | None:
    try:
        return int(limit.read_text()) - int(use.read_text())
    except (OSError, ValueError):  # no such controller, or "max"
        return None


def require_memory(n_bytes: int, *, what: str, instead: str, max_memory: int | None = None) -> None:
    """Refuse a computation that would not fit, before it starts.

    Parameters
    ----------
    n_bytes : int
        What it needs, by estimate.
    what, instead : str
        The computation, and what the user can do instead; they end up in the message.
    max_memory : int, optional
        Limit in bytes; without it, :func:`available_memory`.

    Raises
    ------
    MemoryError
        If `n_bytes` is above the limit.
    """
    limit = available_memory() if max_memory is None else max_memory
    if n_bytes > limit:
        source = "are available" if max_memory is None else "are allowed (max_memory)"
        raise MemoryError(
            f"{what} needs about {_written(n_bytes)}, and {_written(limit)} {source}: {instead}"
        )


def _written(n_bytes: int) -> str:
    """A size in the largest unit of which there is a tenth at least.

    Examples
    --------
    >>> _written(2_500_000_000), _written(48_000)
    ('2.50 GB', '48.00 kB')
    """
    unit, size = next(
        ((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if n_bytes >= size / 10), ("kB", 1e3)
    )
    return f"{n_bytes / size:.2f} {unit}"
