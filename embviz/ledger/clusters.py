"""Where a sweep is computed: this machine, a dask cluster that is there, or workers as jobs of SLURM."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import joblib

from embviz.imports import require

RESOURCES = ("jobs", "cores", "memory", "walltime", "queue", "account", "interface")


@contextlib.contextmanager
def backend_of(arguments: argparse.Namespace) -> Iterator[None]:
    """The backend that ``embviz run`` was told, for the block; workers that were started end with it.

    Raises
    ------
    ValueError
        If options contradict each other or a resource is not known.
    MissingExtraError
        If a cluster is asked for and its libraries are not installed.
    OSError
        If no scheduler answers.
    """
    if arguments.scheduler and arguments.slurm:
        raise ValueError("--scheduler names a cluster that is there, --slurm starts one: give one of them")
    if (arguments.backend or arguments.scheduler) and not arguments.scheduler and not arguments.slurm:
        raise ValueError("--backend dask needs --scheduler ADDRESS, or --slurm RESOURCES to start workers")
    with contextlib.ExitStack() as stack:
        if arguments.slurm:
            stack.enter_context(_workers_of_slurm(parsed_resources(arguments.slurm)))
        elif arguments.scheduler:
            stack.enter_context(connected(arguments.scheduler))
        yield


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


@contextlib.contextmanager
def _workers_of_slurm(resources: dict[str, Any]) -> Iterator[None]:
    require("cluster", "dask_jobqueue", "distributed", purpose="a sweep on SLURM")
    from dask_jobqueue import SLURMCluster

    n_jobs = resources.pop("jobs")
    with SLURMCluster(**resources) as cluster:
        cluster.scale(jobs=n_jobs)
        with connected(cluster):
            yield


def parsed_resources(text: str) -> dict[str, Any]:
    """What a job of SLURM asks for, of RESOURCES.

    >>> parsed_resources("jobs=20,cores=4,memory=8GB")
    {'jobs': 20, 'cores': 4, 'memory': '8GB'}
    """
    found: dict[str, Any] = {"jobs": 1, "cores": 1, "memory": "4GB"}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or name not in RESOURCES:
            raise ValueError(f"--slurm: {part!r} is not name=value with a name of {', '.join(RESOURCES)}")
        if name in ("jobs", "cores"):
            if not value.isdigit() or int(value) < 1:
                raise ValueError(f"--slurm: {name} is {value!r}: give a whole number above 0")
            found[name] = int(value)
        else:
            found[name] = value
    return found
