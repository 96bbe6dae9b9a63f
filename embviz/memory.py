"""How much memory a computation may take, and the refusal when it would take more."""

from __future__ import annotations

import sys

import psutil

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

NEVER_REFUSED = 2**20  # bytes: fits wherever Python runs, and looking costs more than the work


def available_memory() -> int:
    """Bytes that a computation can still take on this machine; limits of a container are not looked at."""
    return int(psutil.virtual_memory().available)


def peak_memory() -> int:
    """Bytes that this process held at its fullest."""
    if resource is None:
        return int(psutil.Process().memory_info().peak_wset)  # what Windows calls it
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


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
            f"{what} needs about {format_bytes(n_bytes)}, and {format_bytes(limit)} are available: {instead}"
        )


def format_bytes(n_bytes: int) -> str:
    """A size in the largest unit of which there is a tenth at least.

    Examples
    --------
    >>> format_bytes(2_500_000_000), format_bytes(48_000)
    ('2.50 GB', '48.00 kB')
    """
    unit, size = next(
        ((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if n_bytes >= size / 10), ("kB", 1e3)
    )
    return f"{n_bytes / size:.2f} {unit}"
