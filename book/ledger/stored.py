"""Stored runs for pages: one function, by an experiment's name, without importing its module."""

from __future__ import annotations

import difflib
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from book.ledger.cells import read_file, read_header
from book.ledger.places import results_folder


def load_runs(experiment: str, **fields: Any) -> pd.DataFrame:
    """Stored runs of an experiment as one tidy table.

    Parameters
    ----------
    experiment : str
        ``paper.experiment``, under which the runs are stored: the name that :func:`.in_view` takes.
    **fields
        Runs to take, all without any: the value of a field of their configuration, or a list of such values.

    Returns
    -------
    DataFrame
        Each row led by the fields of its run's configuration, such as the seed, then the experiment's own
        columns; runs stand in the order of their fields. A nested field has the shortest end of its path that
        no other field or column has (``seed``, ``text.vocab_size``); a tuple is text; None is missing.
        ``attrs["provenance"]`` lists the provenance of each run.

    Raises
    ------
    FileNotFoundError
        If no such run is stored; the message has names that are near.
    ValueError
        If their configuration has no such field; the message lists its fields.
    """
    paper, _, name = experiment.partition(".")
    files = list((results_folder() / paper / name).glob("*.parquet")) if name else []
    if not files:
        names = sorted(".".join(path.parts[-2:]) for path in results_folder().glob("*/*"))
        near = difflib.get_close_matches(experiment, names, 5, 0.5) or names
        raise FileNotFoundError(
            f"no run of {experiment!r} is stored, of {', '.join(near)} there are; "
            "`python -m book run CLAIM` computes and stores the runs of a claim"
        )
    runs = _runs(tuple((path, path.stat().st_mtime_ns) for path in files))
    if unknown := [field for field in fields if field not in runs[0][0]]:
        raise ValueError(f"runs of {experiment} have no field {unknown[0]!r}, but {', '.join(runs[0][0])}")
    for field, value in fields.items():
        runs = [run for run in runs if run[0][field] in (value if isinstance(value, list) else [value])]
    if not runs:
        raise FileNotFoundError(f"no run of {experiment} with {fields} is stored")
    stored = [read_file(path) for _, path in runs]
    led = pd.DataFrame([led for led, _ in runs])
    led = led.loc[np.repeat(led.index, [len(table) for table, _ in stored])].reset_index(drop=True)
    table = pd.concat([table for table, _ in stored], ignore_index=True)
    table = pd.concat([led.drop(columns=led.columns.intersection(table.columns)), table], axis=1)
    table.attrs["provenance"] = [provenance for _, provenance in stored]
    return table


@functools.lru_cache(maxsize=64)
def _runs(files: tuple[tuple[Path, int], ...]) -> list[tuple[dict[str, Any], Path]]:
    """The fields of each stored run, and its file, in the order of the fields."""
    headers = [(path, *read_header(path)) for path, _ in files]
    configs = [dict(_leaves(config)) for _, config, _ in headers]
    names = _names(
        (field for config in configs for field in config), {c for *_, columns in headers for c in columns}
    )
    runs = [
        ({name: config.get(field) for field, name in names.items()}, path)
        for config, (path, *_) in zip(configs, headers, strict=True)
    ]
    return sorted(runs, key=lambda run: [(v is not None, isinstance(v, str), v) for v in run[0].values()])


def _leaves(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name, str(tuple(value)) if isinstance(value, list) else value


def _names(fields: Iterable[str], columns: set[str]) -> dict[str, str]:
    """Column names of fields by their paths."""
    ends = {path: [path.split(".", n)[n] for n in range(path.count("."), -1, -1)] for path in fields}
    many = Counter(end for own in ends.values() for end in own)
    return {
        path: next((end for end in own if many[end] == 1 and end not in columns), path)
        for path, own in ends.items()
    }
