"""Cells: the independent pieces of an experiment, stored as soon as they are done.

An experiment is a pure function from a small frozen configuration to a tidy table. A cell is one
configuration of it. Its table lies in one Parquet file whose name derives from the configuration and
whose schema carries the provenance, so a cell on disk is whole, self-describing, or absent: a killed
sweep resumes by skipping what is stored.

Layout: ``results_folder()/<paper>/<experiment>/<key>.parquet``, the paper being the part of the
experiment's name before its first dot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import threadpoolctl
from tqdm.auto import tqdm

from book.ledger.places import results_folder
from embviz import __version__
from embviz.imports import installed, require
from embviz.memory import peak_memory
from embviz.storage import BusyRunError, cache_folder, check_writable, whole_file

if TYPE_CHECKING:
    from embviz.runs import Run

PROVENANCE_KEY = b"embviz"  # of the schema's metadata
LIBRARIES = ("numpy", "scipy", "torch", "numba", "pandas", "pyarrow", "scikit-learn")
ADVICE = "move it away and run the cell again"
MOST_TABLES = 300  # that are kept while a process runs

_stored_alone: ContextVar[bool] = ContextVar("stored_alone", default=False)
_storing: ContextVar[str] = ContextVar("storing", default="")  # key of the cell that compute() will keep


class DamagedResultError(ValueError):
    """A stored result that is cut short, altered, or belongs to another cell."""


class FailedCellsError(ValueError):
    """Cells of a sweep that raised, named by their configurations; the others are stored."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A pure function of a frozen configuration, with a name and a version."""

    name: str  # paper.experiment
    version: int  # raised when a change of the code changes a result: old cells are then not found
    function: Callable[[Any], pd.DataFrame]  # from the configuration to a tidy table
    threads: int = 1  # that a cell uses well: cells of 2 run one after the other on a 2-core machine

    def __post_init__(self) -> None:
        if not all(self.name.partition(".")):
            raise ValueError(f"an experiment is called paper.experiment, not {self.name!r}")

    def cell(self, config: Any) -> Cell:
        """Return the cell of `config`, a frozen dataclass."""
        return Cell(self, config)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.function.__module__ == "__main__":  # of a notebook or a script, which no worker can import
            return Experiment, (self.name, self.version, self.function, self.threads)
        # workers look the experiment up by name: its function, hidden behind the decorator, can't be
        return _find_experiment, (self.function.__module__, self.function.__qualname__)


def _find_experiment(module: str, name: str) -> Experiment:
    return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One configuration of an experiment."""

    experiment: Experiment
    config: Any

    @functools.cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits that derive from the experiment, its version and the configuration."""
        named = {
            "experiment": self.experiment.name,
            "version": self.experiment.version,
            "config": dataclasses.asdict(self.config),
        }
        text = json.dumps(named, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def path(self) -> Path:
        """File that holds, or will hold, the result."""
        paper, name = self.experiment.name.split(".", 1)
        return results_folder() / paper / name / f"{self.key}.parquet"

    def stored(self) -> bool:
        """Whether a result file is there (its content is verified when it is read)."""
        return self.path.is_file()


def experiment(
    name: str, *, version: int = 1, threads: int = 1
) -> Callable[[Callable[[Any], pd.DataFrame]], Experiment]:
    """Decorator that makes an :class:`Experiment` of a function from configuration to tidy table."""
    return lambda function: Experiment(name, version, function, threads)


# --- one cell on disk -------------------------------------------------------------------------------


@functools.cache
def commit() -> str:
    """The commit that is checked out where the package lies; empty outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def versions() -> dict[str, str]:
    """Versions of the libraries that results depend on, as far as they are installed."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def device() -> str:
    """Processor, number of cores and GPU of this machine, in words."""
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    gpu = None
    if installed("torch"):
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return f"{name}, {os.cpu_count()} cores" + (f"; {gpu}" if gpu else "")


def _provenance(cell: Cell, table: pd.DataFrame, seconds: float) -> dict[str, Any]:
    return {
        "experiment": cell.experiment.name,
        "version": cell.experiment.version,
        "config": dataclasses.asdict(cell.config),
        "data": table.attrs.get("data", {}),  # corpus name -> checksum, told by the experiment
        "embviz": __version__,
        "code": {"commit": commit()},
        "python": platform.python_version(),
        "packages": versions(),
        "device": device(),
        "wall_seconds": round(seconds, 3),  # of the last slice, if there were several
        "slices": table.attrs.get("slices", []),
        "peak_memory_bytes": peak_memory(),
        "date": _now(),
    }


@contextlib.contextmanager
def training_run(cell: Cell, data: Mapping[str, str]) -> Iterator[tuple[Run, list[dict[str, Any]]]]:
    """A run on disk for a cell that trains for long: kept when the block is left early, deleted at its end.

    Within :func:`compute` it is kept until the table is stored: what comes between takes time, and a kill
    then would lose all of the work.

    Parameters
    ----------
    cell : Cell
    data : mapping from corpus to checksum
        What the cell reads: a run on other data is refused.

    Yields
    ------
    Run
        In the cache folder, new or left by a slice before.
    list of dict
        A slice each, this one last: date, device, torch, and seconds unless it was killed; for the table's
        ``attrs["slices"]``, from where they go into the cell's provenance.
    """
    with sliced_run(_run_folder(cell), {**dataclasses.asdict(cell.config), "data": dict(data)}) as found:
        yield found
    if _storing.get() != cell.key:
        _delete_run(cell)


@contextlib.contextmanager
def sliced_run(
    folder: Path, config: Any, *, sketch: int | None = None
) -> Iterator[tuple[Run, list[dict[str, Any]]]]:
    """A run in `folder`, new or left by a slice before, and its slices as in :func:`training_run`."""
    import torch

    from embviz.runs import Run

    start = time.perf_counter()
    with Run.open(folder, config=config, sketch=sketch) as run:
        file = folder / "slices.json"
        slices = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
        this: dict[str, Any] = {"date": _now(), "device": device(), "torch": str(torch.__version__)}
        slices.append(this)
        _write_json(file, slices)
        try:
            yield run, slices
        finally:
            this["seconds"] = round(time.perf_counter() - start, 3)
            if folder.is_dir():  # it may have been moved to where it belongs
                _write_json(file, slices)


def _run_folder(cell: Cell) -> Path:
    return cache_folder() / "runs" / cell.key


def _delete_run(cell: Cell) -> None:
    """What a cell's training left behind, unless another process is at it."""
    folder = _run_folder(cell)
    if any(folder.parent.glob(f"{folder.name}*")):
        from embviz.runs import delete_run

        delete_run(folder)


def _write_json(path: Path, content: Any) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def compute(cell: Cell) -> Path:
    """Run `cell` and store its table and provenance; returns the file.

    Raises
    ------
    ValueError
        If the table holds a NaN or an infinity: a result must be a number or absent.
    OSError
        If the result can't be written where it belongs; nothing is computed then.
    """
    check_writable(cell.path.parent)
    return _store(cell, *_result(cell))


def _result(cell: Cell) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table of a cell, and its provenance."""
    start, token = time.perf_counter(), _storing.set(cell.key)
    try:
        with _threads(cell.experiment.threads):
            table = cell.experiment.function(cell.config).reset_index(drop=True)
    finally:
        _storing.reset(token)
    numbers = table.select_dtypes("number").to_numpy(dtype=float)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{cell.experiment.name} gave NaN or infinity for {cell.config}; nothing was stored")
    return table, _provenance(cell, table, time.perf_counter() - start)


def _store(cell: Cell, table: pd.DataFrame, provenance: dict[str, Any]) -> Path:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    metadata = {**(arrow.schema.metadata or {}), PROVENANCE_KEY: json.dumps(provenance).encode()}
    arrow = arrow.replace_schema_metadata(metadata)
    with whole_file(cell.path) as temporary:
        pq.write_table(arrow, temporary, compression="zstd", compression_level=19, write_page_checksum=True)
    _delete_run(cell)
    return cell.path


def read(cell: Cell) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a stored cell: its table, and its provenance.

    Raises
    ------
    FileNotFoundError
        If the cell is not stored; the message gives the command that computes it.
    DamagedResultError
        If the file is cut short or altered, or holds another cell's result. Nothing is deleted.
    """
    if not cell.stored():
        raise FileNotFoundError(
            f"{cell.path} is not stored: compute it with `python -m book run`, or book.ledger.cells.run"
        )
    path = cell.path
    table, provenance = read_file(path)
    expected = (cell.experiment.name, cell.experiment.version, _as_json(dataclasses.asdict(cell.config)))
    found = (provenance["experiment"], provenance["version"], provenance["config"])
    if found != expected:
        raise DamagedResultError(f"{path} holds the result of {found}, not of {expected}: {ADVICE}")
    return table.copy(deep=False), provenance  # pandas copies what is written to, and no sooner


def read_file(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A stored file's table, not to be written to, and its provenance; :func:`read` checks whose it is."""
    state = path.stat()
    return _read_file(path, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_size)


def read_header(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Configuration of a stored file's cell and columns of its table, which is not read."""
    schema = pq.read_schema(path)
    config: dict[str, Any] = json.loads(schema.metadata[PROVENANCE_KEY])["config"]
    return config, schema.names


@functools.lru_cache(maxsize=MOST_TABLES)
def _read_file(path: Path, *state: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A stored table and its provenance; a file whose `state` has not changed is read once."""
    try:
        arrow = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        return arrow.to_pandas(), json.loads(arrow.schema.metadata[PROVENANCE_KEY])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedResultError(f"{path} is cut short or altered ({error}): {ADVICE}") from error


def table_of(cell: Cell) -> pd.DataFrame:
    """A cell's table: as it is stored, or else computed here with its threads, and kept while this runs.

    Raises
    ------
    FileNotFoundError
        Within :func:`stored_alone`, if the cell is not stored.
    """
    return read(cell)[0] if cell.stored() or _stored_alone.get() else _computed(cell)


@contextlib.contextmanager
def stored_alone() -> Iterator[None]:
    """Compute nothing in this block: what judges a claim reads what is stored, and never trains a model."""
    token = _stored_alone.set(True)
    try:
        yield
    finally:
        _stored_alone.reset(token)


@functools.cache
def _computed(cell: Cell) -> pd.DataFrame:
    with _threads(cell.experiment.threads):
        return cell.experiment.function(cell.config).reset_index(drop=True)


@contextlib.contextmanager
def _threads(n: int) -> Iterator[None]:
    """Within the block libraries use `n` threads: more would give other bits."""
    with threadpoolctl.threadpool_limits(n):
        if not installed("torch"):
            yield
            return
        import torch  # here, even if the cell may not need it: imported within, it would use all cores

        before = torch.get_num_threads()
        try:
            torch.set_num_threads(n)
            yield
        finally:
            torch.set_num_threads(before)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


# --- many cells -------------------------------------------------------------------------------------


def missing(cells: Sequence[Cell]) -> list[Cell]:
    """The members of `cells` that are not stored, each once, in order."""
    unique = {cell.path: cell for cell in cells}
    return [cell for cell in unique.values() if not cell.stored()]


def run(cells: Sequence[Cell], *, n_jobs: int | None = None, progress: bool = True) -> list[Path]:
    """Compute and store whichever of `cells` are missing.

    Parameters
    ----------
    n_jobs : int, optional
        Worker processes of joblib's current backend: loky by default, or what ``joblib.parallel_config``
        names, such as dask. Workers need share no folder with this process, which stores what they return.
        None: as many as there are cores, fewer for experiments whose cells use several threads.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    list of Path
        The files written, as they finished.

    Raises
    ------
    OSError
        If results can't be written where they belong; nothing is computed then.
    FailedCellsError
        If cells raised: names their configurations. The others were computed and stored before.
    """
    todo = missing(cells)
    for folder in {cell.path.parent for cell in todo}:
        check_writable(folder)  # before anything is computed for it
    for cell in cells:
        if cell.stored():
            _delete_run(cell)  # a kill came between storing and deleting
    threads = max((cell.experiment.threads for cell in todo), default=1)
    workers = max(1, min(n_jobs or joblib.effective_n_jobs(-1) // threads, len(todo)))
    jobs = [joblib.delayed(_attempt)(place, cell) for place, cell in enumerate(todo)]
    results = joblib.Parallel(workers, return_as=_in_any_order(), pre_dispatch=workers, batch_size=1)(jobs)
    written: list[Path] = []
    failures: dict[int, str] = {}
    for place, found in tqdm(results, "cells", len(todo), disable=not progress or not todo):
        if isinstance(found, str):
            failures[place] = found
        elif found is not None:
            written.append(_store(todo[place], *found))
    if failures:
        lines = [
            f"{todo[place].experiment.name} of {todo[place].config}: {failures[place]}"
            for place in sorted(failures)
        ]
        more = [f"and {len(lines) - 10} more"] if len(lines) > 10 else []
        head = f"{len(failures)} cells failed, {len(written)} were stored:"
        raise FailedCellsError("\n  ".join([head, *lines[:10], *more]))
    # a cell that reads another one's model finds it busy while that is trained beside it: once more then
    return written + (run(todo, n_jobs=n_jobs, progress=progress) if written and missing(todo) else [])


def _attempt(place: int, cell: Cell) -> tuple[int, tuple[pd.DataFrame, dict[str, Any]] | str | None]:
    """A cell's result; what it raised and where; or None if another process trains its model."""
    try:
        return place, _result(cell)
    except BusyRunError:
        return place, None
    except OSError:  # a full disk, data that are not at hand: other cells would fare no better
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return place, f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"


def _in_any_order() -> str:
    backend, _ = joblib.parallel.get_active_backend()
    return "generator_unordered" if backend.supports_return_generator else "list"


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[None]:
    """Compute on a dask cluster within the block; `scheduler` is an address like ``tcp://10.0.0.1:8786``.

    Raises
    ------
    MissingExtraError
        If dask's ``distributed`` is not installed.
    OSError
        If nobody answers there.
    """
    require("cluster", "distributed", purpose="a sweep on a cluster")
    from distributed import Client

    if not re.search(r":\d+$", scheduler):
        raise ValueError(f"{scheduler!r} is no address of a scheduler: give one such as tcp://10.0.0.1:8786")
    with Client(scheduler, timeout=20, set_as_default=True), joblib.parallel_config(backend="dask"):
        yield


def load(cells: Sequence[Cell]) -> pd.DataFrame:
    """Concatenate the tables of stored cells, each row led by its configuration's fields.

    Returns
    -------
    pandas.DataFrame
        Columns: the configuration's fields (tuples as text), then the experiment's own.

    Raises
    ------
    FileNotFoundError, DamagedResultError
        As :func:`read` does.
    """
    tables = []
    for cell in cells:
        table, _ = read(cell)
        fields = dataclasses.asdict(cell.config)
        flat = {k: v if isinstance(v, (int, float, str, bool)) else str(v) for k, v in fields.items()}
        clash = set(flat) & set(table.columns)
        if clash:
            raise ValueError(f"{cell.experiment.name}: columns {sorted(clash)} are also configuration fields")
        tables.append(table.assign(**flat)[[*flat, *table.columns]])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
