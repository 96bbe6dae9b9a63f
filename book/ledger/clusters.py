"""A sweep on a dask cluster that is there: ``python -m book run CLAIM --scheduler ADDRESS``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import joblib

from embviz.imports import require


@contextlib.contextmanager
def connected(scheduler: Any) -> Iterator[None]:
    """Compute on a dask cluster within the block.

    Parameters
    ----------
    scheduler : str or a cluster of dask
        An address, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    MissingExtraError
        If dask's ``distributed`` is not installed.
    OSError
        If nobody answers there.
    ValueError
        If the address has no port.
    """
    require("cluster", "distributed", purpose="a sweep on a cluster")
    from distributed import Client

    if isinstance(scheduler, str) and not re.search(r":\d+$", scheduler):
        raise ValueError(f"{scheduler!r} is no address of a scheduler: give one such as tcp://10.0.0.1:8786")
    with Client(scheduler, timeout=20, set_as_default=True), joblib.parallel_config(backend="dask"):
        yield
