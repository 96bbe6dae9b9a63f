"""Work that pauses at a given moment: what whoever hands out the time and a training loop agree on."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

_moment: ContextVar[float] = ContextVar("moment", default=math.inf)  # as time.monotonic()


class Paused(Exception):  # noqa: N818 - it is no error
    """The time is over; what was done is on disk, and the same call goes on from there."""


class BusyRunError(ValueError):
    """A run on disk that another process, or another part of this one, is writing."""


@contextlib.contextmanager
def pausing_at(moment: float | None) -> Iterator[None]:
    """Within the block, work that can pause does so from `moment` on, in seconds as ``time.time()``.

    None: never, or when a block around this one says. A clock that is set meanwhile changes nothing.
    """
    found = math.inf if moment is None else time.monotonic() + moment - time.time()
    token = _moment.set(min(found, _moment.get()))
    try:
        yield
    finally:
        _moment.reset(token)


def time_is_over() -> bool:
    """Whether work should pause now.

    >>> with pausing_at(0.0):
    ...     time_is_over()
    True
    >>> time_is_over()
    False
    """
    return time.monotonic() >= _moment.get()
