"""Snapshots: a training run on disk that a kill at any moment leaves whole, readable and resumable.

A run is a folder:

==================================  ===================================================================
file                                holds
==================================  ===================================================================
``run.json``                        what the run is: its description and versions; written once
``weights/0000001000.safetensors``  the weights of one snapshot, named by step
``log.jsonl``                       one line per snapshot: step, metrics, size and SHA-256 of its weights
``state.safetensors``               the newest state to resume from; replaced whole
``writer.lock``                     held by the one process that writes; freed when it ends
==================================  ===================================================================

A snapshot counts once its line is in the log. Its weights are on disk by then, so weights without a line
are what a kill left behind, and are overwritten. A line's checksum covers the line before it too, and the
first one's the run's identity: no line can be altered, moved or left out unnoticed. Nothing stored depends
on time or process: a resumed run ends with the files of an unbroken one, bit for bit.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import math
import operator
import os
import re
import shutil
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import safetensors
import torch
from filelock import lock_descriptor
from safetensors.torch import load, save
from torch import Tensor

from embviz import __version__
from embviz.pausing import BusyRunError
from embviz.storage import file_checksum, whole_file

FORMAT = 1
RUN, LOG, WEIGHTS, STATE, LOCK = "run.json", "log.jsonl", "weights", "state.safetensors", "writer.lock"
VERSIONS = {  # of what decides the bits
    "embviz": __version__,
    "torch": str(torch.__version__),
    "numpy": np.__version__,
    "safetensors": safetensors.__version__,
}

T = TypeVar("T")
Metric = float | Sequence[float]  # of one model, or of R models side by side

_TEMPORARY = re.compile(r"\.(run|state|\d{10,})\.\d+\.[0-9a-f]{8}\.(json|safetensors)")  # whole_file's
_BLANK = "0" * 64  # stands for a checksum while it is computed
_LINE_END = ',"line":"{}"}}'  # of the log, around the line's checksum
_STATE_START = rb'{"__metadata__":{"embviz":"{\"sha256\":\"'  # of the state's header, up to its checksum
_RESTORE = "restore it from a copy, or move the run's folder away and train again"


class DamagedRunError(ValueError):
    """A file of a run that is missing, cut short, altered or another run's; the message says which."""


class Run:
    """A training run on disk. Made by :func:`open_or_create_run`, :func:`create_run`, :func:`open_run`.

    Attributes
    ----------
    folder : Path
    description : what the run was created with, after a round trip through JSON
    versions : dict of str
        Versions of embviz and of the packages that decide the bits, when the run was created.
    steps : list of int
        Updates made at each snapshot, increasing; of a run opened for reading, as it was then.

    Notes
    -----
    At a snapshot a training loop calls :meth:`append` first, then :meth:`save_state`; when it starts, it
    loads the state and truncates what is later. The run is closed, and free for another writer, by
    ``with``, by :meth:`close`, or when the process ends in any way.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> with open_or_create_run(folder, {"seed": 0}) as run:
    ...     done, weights = run.load_state() or (-1, {"embedding": torch.zeros(2, 3)})
    ...     run.truncate(done)
    ...     for step in range(done + 1, 201):
    ...         weights["embedding"] += 1
    ...         if step % 100 == 0:
    ...             run.append(step, {"rate": 0.5, "loss": [3.0 - step / 100, 4.0]}, weights)
    ...             run.save_state(step, weights)
    >>> run = open_run(folder)
    >>> run.metrics()
       step  member  rate  loss
    0     0       0   0.5   3.0
    1     0       1   0.5   4.0
    2   100       0   0.5   2.0
    3   100       1   0.5   4.0
    4   200       0   0.5   1.0
    5   200       1   0.5   4.0
    >>> run.weights(100)["embedding"][0]
    tensor([101., 101., 101.])
    >>> bool(run.verify()["ok"].all())
    True
    """

    def __init__(self, folder: Path, lock: _WriterLock | None = None) -> None:
        self.folder, self._lock = folder, lock
        content = _read_run_file(folder / RUN)
        self.description, self.versions = content["description"], content["versions"]
        self._identity = _identity(self.description)
        self._snapshots, n_bytes = _read_log(folder / LOG, self._identity)
        self._state_step: int | None = None  # of the state on disk, once it was read or written
        if lock is not None:
            if n_bytes != self._log_end:
                self._cut_log(self._log_end)
            _remove_temporaries(folder)

    @property
    def steps(self) -> list[int]:
        return [snapshot.step for snapshot in self._snapshots]

    def append(self, step: int, metrics: Mapping[str, Metric], weights: Mapping[str, Tensor]) -> None:
        """Store a snapshot; when this returns, it is on disk and survives whatever comes.

        Parameters
        ----------
        step : int
            Updates made so far, from 0; above that of every earlier snapshot.
        metrics : mapping from name to number or list of R numbers
            The same names and lengths at every snapshot; scalars and 1-D arrays of numpy or torch will do.
        weights : mapping from name to Tensor
            Copied. Names that share one tensor (tied weights) share it again when read.

        Raises
        ------
        ValueError
            If the step doesn't increase, a metric or weight is NaN or infinite or can't be stored, or the
            run is open for reading only. Nothing is stored.
        OSError
            If the disk is full or refuses. Nothing is stored; every earlier snapshot stays.
        """
        self._require_writer()
        step, what = operator.index(step), f"the snapshot of step {step} was not stored"
        last = self._snapshots[-1] if self._snapshots else None
        if step < 0 or (last and step <= last.step):
            raise ValueError(
                f"{what}: steps count updates from 0 and increase, the last is "
                f"{last.step if last else 'none'}: to resume, truncate the run to its state's step first"
            )
        clean = _clean_metrics(metrics, last.metrics if last else None, what)
        blob = _pack(weights, {"format": FORMAT, "run": self._identity, "step": step}, what)
        path = self._weights_path(step)
        _store(path, [blob])
        line, snapshot = _seal_line(
            {"step": step, "metrics": clean, "bytes": len(blob), "sha256": _digest(blob)},
            before=last.seal if last else self._identity,
            start=self._log_end,
        )
        try:
            self._write_line(line)
        except BaseException:
            with contextlib.suppress(OSError):  # what fails here, the next append or opening does
                os.truncate(self.folder / LOG, self._log_end)
                path.unlink()  # the room may be needed
            raise
        self._snapshots.append(snapshot)

    def metrics(self) -> pd.DataFrame:
        """Table of what was measured: ``step`` and one column per metric, one row per snapshot.

        Where metrics are lists of R numbers there are R rows a snapshot, told apart by ``member``
        (0 to R - 1); numbers are repeated.
        """
        steps = np.array(self.steps, dtype=np.int64)
        if not self._snapshots:
            return pd.DataFrame({"step": steps})
        first = self._snapshots[0].metrics
        n_members = next((len(value) for value in first.values() if isinstance(value, list)), None)
        columns = {"step": np.repeat(steps, n_members or 1)}
        if n_members:
            columns["member"] = np.tile(np.arange(n_members), len(steps))
        for name, value in first.items():
            values = np.array([snapshot.metrics[name] for snapshot in self._snapshots])  # (S,) or (S, R)
            columns[name] = values.ravel() if isinstance(value, list) else np.repeat(values, n_members or 1)
        return pd.DataFrame(columns)

    def weights(self, step: int) -> dict[str, Tensor]:
        """Weights of the snapshot of `step`, on the CPU, verified against the log.

        Raises
        ------
        ValueError
            If there is no snapshot of that step.
        DamagedRunError
            If the file is missing, cut short or altered.
        """
        place = bisect.bisect_left(self._snapshots, step, key=operator.attrgetter("step"))
        near = self._snapshots[max(place - 1, 0) : place + 1]
        snapshot = near[-1] if near else None
        if snapshot is None or snapshot.step != step:
            steps = " and ".join(str(other.step) for other in near) or "none at all"
            raise ValueError(f"{self.folder} has no snapshot of step {step}; the nearest: {steps}")
        path = self._weights_path(step)
        blob = _read(path)
        _check_weights(path, snapshot, len(blob), lambda: _digest(blob))
        return _unpack(blob, path)[1]

    def save_state(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Replace the state to resume from, whole.

        Parameters
        ----------
        step : int
            Updates made so far; not below that of the last snapshot.
        tensors : mapping from name to Tensor
            Weights, moments of the optimizer, whatever training needs to go on; bytes as uint8 tensors.
            Copied; tied tensors as in :meth:`append`.

        Raises
        ------
        ValueError, OSError
            As :meth:`append`. The state before stays.
        """
        self._require_writer()
        step, what = operator.index(step), f"the state of step {step} was not stored"
        last = self._snapshots[-1].step if self._snapshots else None
        if step < (0 if last is None else last):
            raise ValueError(
                f"{what}: the last snapshot is of step {last}: truncate the run to the state first"
            )
        header = {"sha256": _BLANK, "format": FORMAT, "run": self._identity, "step": step, "snapshot": last}
        blob = _pack(tensors, header, what)
        seal, digest = _seal_state(blob)
        assert blob[8 : seal.stop] == _STATE_START + _BLANK.encode(), "safetensors orders its header anew"
        view = memoryview(blob)  # a state may be large: no second copy
        _store(self.folder / STATE, [view[: seal.start], digest, view[seal.stop :]])
        self._state_step = step

    def load_state(self) -> tuple[int, dict[str, Tensor]] | None:
        """Step and tensors of the newest state, or None where none was saved.

        Raises
        ------
        DamagedRunError
            If the file is cut short, altered or another run's, or the log lacks a snapshot before it.
        """
        if not (self.folder / STATE).exists():
            return None
        header, tensors = self._read_state()
        if self._lock is not None:  # a reader may have opened the log before this state was saved
            self._require_snapshot_before(header, self._snapshots)
        self._state_step = header["step"]
        return header["step"], tensors

    def truncate(self, after_step: int) -> None:
        """Drop the snapshots of steps above `after_step`, and the state if it is later than that; -1: all.

        After a kill the state may be older than the last snapshot, which training then makes anew.

        Raises
        ------
        ValueError, OSError
            If the run is open for reading only, or the disk refuses.
        """
        self._require_writer()
        after_step, state = operator.index(after_step), self.folder / STATE
        if state.exists() and self._state_step is None:
            self._state_step = self._read_state()[0]["step"]
        if state.exists() and self._state_step is not None and self._state_step > after_step:
            with explaining_failures(state):
                state.unlink()  # first: a state must never be later than its log
                sync(self.folder)
            self._state_step = None
        kept = [snapshot for snapshot in self._snapshots if snapshot.step <= after_step]
        dropped = self._snapshots[len(kept) :]
        if dropped:
            self._cut_log(kept[-1].end if kept else 0)
            self._snapshots = kept
        for snapshot in dropped:
            with explaining_failures(self._weights_path(snapshot.step)):
                self._weights_path(snapshot.step).unlink(missing_ok=True)

    def verify(self) -> pd.DataFrame:
        """Read every byte of the run, and check it.

        Returns
        -------
        DataFrame, one row per file
            ``file`` (relative to the folder), ``ok`` and ``problem``: what is wrong and what to do. A file
            that isn't the run's is ok, and the problem says so.
        """
        has_state = (self.folder / STATE).exists()
        state, state_problem = _attempt(self._read_state) if has_state else (None, "")
        # the log after the state, since a writer may lengthen it meanwhile
        log, log_problem = _attempt(lambda: _read_log(self.folder / LOG, self._identity)[0])
        snapshots = self._snapshots if log is None else log
        if state is not None and log is not None:
            _, state_problem = _attempt(functools.partial(self._require_snapshot_before, state[0], log))
        problems = {RUN: _attempt(lambda: _read_run_file(self.folder / RUN))[1], LOG: log_problem}
        if has_state:
            problems[STATE] = state_problem
        for snapshot in snapshots:
            path = self._weights_path(snapshot.step)
            problems[f"{WEIGHTS}/{path.name}"] = _attempt(functools.partial(_check_file, path, snapshot))[1]
        rows = [(file, not problem, problem) for file, problem in problems.items()]
        for path in sorted(self.folder.rglob("*")):
            file = path.relative_to(self.folder).as_posix()
            if path.is_file() and file not in {*problems, LOCK}:
                rows.append((file, True, f"not in {LOG}: left by a kill, or not the run's"))
        return pd.DataFrame(rows, columns=["file", "ok", "problem"])

    def close(self) -> None:
        """Free the run for another writer; this one can read on."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        steps = f", steps {self.steps[0]} to {self.steps[-1]}" if self._snapshots else ""
        mode = "writing" if self._lock else "reading"
        return f"<Run {self.folder}: {len(self._snapshots)} snapshots{steps}; open for {mode}>"

    @property
    def _log_end(self) -> int:
        return self._snapshots[-1].end if self._snapshots else 0

    def _weights_path(self, step: int) -> Path:
        return self.folder / WEIGHTS / f"{step:010d}.safetensors"

    def _require_writer(self) -> None:
        if self._lock is None or not self._lock.held:
            raise ValueError(
                f"{self.folder} is open for reading only, was closed, or is another process's: "
                "open it with open_or_create_run(folder, description) to write"
            )

    def _read_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        path = self.folder / STATE
        blob = _read(path)
        seal, blank_digest = _seal_state(blob)
        if blob[seal] != blank_digest:
            raise DamagedRunError(
                f"{path} is cut short or altered: restore it from a copy, or delete it; then training starts "
                "from the beginning and makes every snapshot again"
            )
        header, tensors = _unpack(blob, path)
        if header["run"] != self._identity:
            raise DamagedRunError(f"{path} is the state of another run: {_RESTORE}")
        return header, tensors

    def _require_snapshot_before(self, state: dict[str, Any], snapshots: Sequence[_Snapshot]) -> None:
        if state["snapshot"] not in {None, *(snapshot.step for snapshot in snapshots)}:
            raise DamagedRunError(
                f"{self.folder / LOG} lacks the snapshot of step {state['snapshot']}, which {STATE} comes "
                f"after: {_RESTORE}"
            )

    def _write_line(self, line: bytes) -> None:
        path, end = self.folder / LOG, self._log_end
        with explaining_failures(path, len(line)):
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
            try:
                os.ftruncate(descriptor, end)
                os.lseek(descriptor, end, os.SEEK_SET)
                done = 0
                while done < len(line):  # a disk nearly full takes a part, and refuses the rest
                    done += os.write(descriptor, line[done:])
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _cut_log(self, end: int) -> None:
        path = self.folder / LOG
        with explaining_failures(path):
            os.truncate(path, end)
            sync(path)


# --- opening ----------------------------------------------------------------------------------------


def create_run(folder: str | os.PathLike[str], description: Any) -> Run:
    """Start a run in a new or empty folder, open for writing.

    Parameters
    ----------
    folder : path
    description : anything JSON can say
        What the run is and depends on: configurations, seeds, checksums of data.

    Raises
    ------
    ValueError
        If the folder holds a run or other files, or the description isn't JSON.
    OSError
        If the disk is full or refuses.
    """
    description, path = _as_json(description), Path(folder).absolute()
    if (path / RUN).exists():
        raise ValueError(f"{path} holds a run: resume it with open_or_create_run, or choose another folder")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: choose a new or empty folder for the run")
    with explaining_failures(path):
        path.mkdir(parents=True, exist_ok=True)
    _require_unborn(path)
    lock = _WriterLock(path / LOCK)
    try:
        _require_unborn(path)  # two processes may have come this far
        with explaining_failures(path):
            (path / WEIGHTS).mkdir(exist_ok=True)
            (path / LOG).touch()
            sync(path.parent)
        content = {"format": FORMAT, "description": description, "versions": VERSIONS}
        sealed = {**content, "sha256": _digest(_canonical(content))}
        _store(path / RUN, [json.dumps(sealed, indent=1).encode() + b"\n"])  # from here on it is a run
        return Run(path, lock)
    except BaseException:
        lock.release()
        raise


def open_run(folder: str | os.PathLike[str]) -> Run:
    """Open a run for reading; another process may be writing it.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run.
    DamagedRunError
        If ``run.json`` or a line of ``log.jsonl`` is damaged. Weights are verified when they are read.
    """
    path = Path(folder).absolute()
    if not (path / RUN).exists():
        raise FileNotFoundError(f"{path} holds no run (there is no {RUN}): create_run starts one")
    return Run(path)


def open_or_create_run(folder: str | os.PathLike[str], description: Any) -> Run:
    """Open the run of `description` for writing: a new one, or the one in `folder` to resume it.

    Raises
    ------
    ValueError
        If the folder holds a run of another description (the message lists what differs) or other
        files.
    BusyRunError
        If another process is writing it.
    DamagedRunError, OSError
        As :func:`open_run` and :func:`create_run`.
    """
    path = Path(folder).absolute()
    if not (path / RUN).exists():
        return create_run(path, description)
    stored = _read_run_file(path / RUN)["description"]
    differences = list(_differences(stored, _as_json(description)))
    if differences:
        shown = differences[:20] + [f"and {len(differences) - 20} more"] * (len(differences) > 20)
        raise ValueError(
            f"{path} holds a run of another description (stored -> asked for):\n  "
            + "\n  ".join(shown)
            + "\nChoose another folder for the new one, or go back to the stored one to resume."
        )
    lock = _WriterLock(path / LOCK)
    try:
        return Run(path, lock)
    except BaseException:
        lock.release()
        raise


def delete_run(folder: str | os.PathLike[str]) -> bool:
    """Delete a run, which a kill leaves whole or not there; False if there is none, or somebody writes it."""
    path = Path(folder).absolute()
    done = path.with_name(f"{path.name}.done")
    shutil.rmtree(done, ignore_errors=True)  # a kill left it
    if not (path / RUN).exists():
        return False
    try:
        lock = _WriterLock(path / LOCK)
    except BusyRunError:
        return False
    try:
        path.rename(done)
        shutil.rmtree(done, ignore_errors=True)  # another process may be at it too
    finally:
        lock.release()
    return True


class _WriterLock:
    """The right to write a run: an advisory lock that ends with its process, however that ends."""

    _all: ClassVar[weakref.WeakSet[_WriterLock]] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        with explaining_failures(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            free = lock_descriptor(descriptor, blocking=False)
        except OSError as error:
            os.close(descriptor)
            text = f"{error.strerror}: its file system has no locks, choose a folder on another"
            raise OSError(error.errno, text, str(path)) from error
        if not free:
            holder = "of an unknown number"
            with contextlib.suppress(OSError):  # on Windows a locked byte can't be read
                holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            own = holder == str(os.getpid())
            who = "this process: close() that Run" if own else f"process {holder}: end it"
            raise BusyRunError(f"{path.parent} is being written by {who}, or open_run it for reading")
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
    os.register_at_fork(after_in_child=_WriterLock.drop_all)


def _require_unborn(folder: Path) -> None:
    """Refuse a folder that holds anything but what a kill leaves of a run being created."""
    names = {path.name for path in folder.iterdir() if not _TEMPORARY.fullmatch(path.name)}
    foreign = sorted(names - {RUN, LOG, WEIGHTS, STATE, LOCK})
    if foreign:
        raise ValueError(
            f"{folder} holds other files ({', '.join(foreign[:3])}{', ...' * (len(foreign) > 3)}): "
            "choose a new or empty folder for the run"
        )
    if RUN in names:
        raise ValueError(f"{folder} holds a run: resume it with open_or_create_run")
    logged = LOG in names and (folder / LOG).stat().st_size
    kept = [p for p in (folder / WEIGHTS).glob("*") if not _TEMPORARY.fullmatch(p.name)]
    if logged or kept or STATE in names:
        raise DamagedRunError(f"{folder / RUN} is missing beside the snapshots of a run: {_RESTORE}")


def _remove_temporaries(folder: Path) -> None:
    """What a kill left half-written; only the holder of the lock may, lest another is still writing."""
    for path in [*folder.glob(".*"), *(folder / WEIGHTS).glob(".*")]:
        if _TEMPORARY.fullmatch(path.name):
            with explaining_failures(path):
                path.unlink()


# --- the description --------------------------------------------------------------------------------


def _as_json(description: Any) -> Any:
    """`description` after a round trip through JSON: tuples are lists, keys are text."""

    def refuse(value: object) -> None:
        raise TypeError(f"it holds {value!r}, a {type(value).__name__}")

    try:
        return json.loads(json.dumps(description, allow_nan=False, default=refuse))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"a run's description must be JSON, {error}: use dataclasses.asdict, str or tolist()"
        ) from error


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _identity(description: Any) -> str:
    return _digest(_canonical({"format": FORMAT, "description": description}))


def _read_run_file(path: Path) -> dict[str, Any]:
    data = _read(path)
    try:
        content = json.loads(data)
        sealed = content.pop("sha256")
        whole = _digest(_canonical(content)) == sealed
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRunError(f"{path} is not whole ({error}): {_RESTORE}") from error
    if not whole:
        raise DamagedRunError(f"{path} was altered, it does not match its checksum: {_RESTORE}")
    if content["format"] != FORMAT:
        raise ValueError(f"{path} has format {content['format']}, this embviz reads {FORMAT}: update embviz")
    return content


_ABSENT = object()


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """Lines ``nested.key: old -> new``, one a leaf in which two JSON values differ."""
    prefix = f"{name}." if name else ""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), prefix + key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{prefix}{place}")
    elif old != new or isinstance(old, bool) != isinstance(new, bool):  # True is no 1, yet 1 is 1.0
        yield f"{name or 'description'}: {_shorten(old)} -> {_shorten(new)}"


def _shorten(value: Any) -> str:
    text = "absent" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- the log ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """A line of the log."""

    step: int
    metrics: dict[str, Metric]
    n_bytes: int  # of the weights file
    sha256: str  # of the weights file
    seal: str  # the line's checksum
    end: int  # of the line in the log, in bytes


def _seal_line(record: dict[str, Any], *, before: str, start: int) -> tuple[bytes, _Snapshot]:
    body = json.dumps(record, separators=(",", ":"), allow_nan=False)[:-1]
    line = f"{body}{_LINE_END.format(_digest(before.encode(), body.encode()))}\n".encode()
    return line, _parse_line(line[:-1], before, start)


def _parse_line(line: bytes, before: str, start: int) -> _Snapshot:
    """A line without its newline; ValueError if it is not as it was written, after the line `before`."""
    size = len(_LINE_END.format(_BLANK))
    body = line[:-size]
    seal = _digest(before.encode(), body)
    if line[-size:] != _LINE_END.format(seal).encode():
        raise ValueError("it does not match its checksum")
    record = json.loads(line)
    end = start + len(line) + 1
    return _Snapshot(record["step"], record["metrics"], record["bytes"], record["sha256"], seal, end)


def _read_log(path: Path, identity: str) -> tuple[list[_Snapshot], int]:
    """The committed snapshots, and the size of the file, which a torn last line makes larger."""
    data = _read(path)
    *lines, _torn = data.split(b"\n")
    if lines and b"\0" in lines[-1]:
        lines.pop()  # a power cut may leave a line's length without its content
    snapshots: list[_Snapshot] = []
    seal, end = identity, 0
    for number, line in enumerate(lines, 1):
        try:
            snapshots.append(_parse_line(line, seal, end))
        except ValueError as error:
            where = f"after the snapshot of step {snapshots[-1].step}" if snapshots else "the first snapshot"
            raise DamagedRunError(
                f"{path}: line {number} ({where}) is damaged, {error}: {_RESTORE}"
            ) from error
        seal, end = snapshots[-1].seal, snapshots[-1].end
    return snapshots, len(data)


def _clean_metrics(
    metrics: Mapping[str, Any], earlier: Mapping[str, Metric] | None, what: str
) -> dict[str, Metric]:
    """Plain finite numbers and lists of them, under the names and lengths of `earlier`."""
    clean: dict[str, Metric] = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or name in ("step", "member"):
            raise ValueError(f"{what}: {name!r} can't name a metric (step and member are columns already)")
        value = value.tolist() if hasattr(value, "tolist") else value
        clean[name] = (
            [_number(v, f"{what}: metric {name!r} of member {r}") for r, v in enumerate(value)]
            if isinstance(value, list | tuple)
            else _number(value, f"{what}: metric {name!r}")
        )
    lengths = _lengths(clean)
    if len(set(lengths.values()) - {None}) > 1 or 0 in lengths.values():
        text = f"{what}: lists of metrics must have one length, one number per member, got {lengths}"
        raise ValueError(text)
    before = lengths if earlier is None else _lengths(earlier)
    if before != lengths:
        raise ValueError(
            f"{what}: it has metrics {lengths}, earlier snapshots {before} (None: one number): "
            "measure the same at each"
        )
    return clean


def _lengths(metrics: Mapping[str, Metric]) -> dict[str, int | None]:
    return {name: len(value) if isinstance(value, Sequence) else None for name, value in metrics.items()}


def _number(value: Any, what: str) -> float:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is {value!r}: give a number or a list of numbers")
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}")
    return value


# --- tensors as bytes -------------------------------------------------------------------------------


def _pack(tensors: Mapping[str, Tensor], header: dict[str, Any], what: str) -> bytes:
    """Safetensors bytes, what shares memory and shape once; `header` and the names before the data."""
    names: dict[str, str] = {}
    stored: dict[str, Tensor] = {}
    first_names: dict[tuple[object, ...], str] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        _require_storable(name, tensor, what)
        view = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        bits = (tensor.is_conj(), tensor.is_neg())
        names[name] = first_names.setdefault((*view, *bits), name) if tensor.numel() else name
        if names[name] != name:
            continue
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        # other views of a storage, such as a transpose, have content of their own in a file
        shared = plain.untyped_storage().data_ptr() in storages
        stored[name] = plain.clone() if shared else plain
        storages.add(plain.untyped_storage().data_ptr())
    # one entry: several would be written in an order that varies
    metadata = {"embviz": json.dumps({**header, "names": names}, separators=(",", ":"))}
    try:
        return save(stored, metadata=metadata)
    except KeyError as error:
        wrong = [name for name, tensor in stored.items() if tensor.dtype in error.args]
        raise ValueError(
            f"{what}: {wrong} have type {error}, which safetensors lacks: convert them"
        ) from error


def _require_storable(name: object, tensor: object, what: str) -> None:
    if not isinstance(name, str) or name == "__metadata__":
        raise ValueError(f"{what}: {name!r} can't name a tensor")
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_meta:
        kind = f"{tensor.layout} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ValueError(f"{what}: {name!r} is {kind}: give a dense tensor with data")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return
    # eight-bit floats can't be asked
    finite = torch.isfinite(tensor.float() if tensor.element_size() == 1 else tensor)
    if not finite.all():
        places = (~finite).nonzero()
        raise ValueError(
            f"{what}: {name!r} is NaN or infinite in {len(places)} of {finite.numel()} places, "
            f"first at {tuple(places[0].tolist())}"
        )


def _unpack(blob: bytes, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of :func:`_pack`'s bytes; names that were tied share one tensor again."""
    header = _read_header(path, blob)
    try:
        stored = load(blob)
        return header, {name: stored[first] for name, first in header["names"].items()}
    except (safetensors.SafetensorError, KeyError) as error:
        raise DamagedRunError(f"{path} is not whole ({error}): {_RESTORE}") from error


def _read_header(path: Path, blob: bytes) -> dict[str, Any]:
    try:
        size = int.from_bytes(blob[:8], "little")
        return json.loads(json.loads(blob[8 : 8 + size])["__metadata__"]["embviz"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedRunError(f"{path} has no whole header ({error}): {_RESTORE}") from error


def _seal_state(blob: bytes) -> tuple[slice, bytes]:
    """Where a state's checksum lies in its bytes, and what it is: that of the bytes with zeros there."""
    start = 8 + len(_STATE_START)
    seal = slice(start, start + len(_BLANK))
    view = memoryview(blob)
    return seal, _digest(view[: seal.start], _BLANK.encode(), view[seal.stop :]).encode()


# --- bytes on disk ----------------------------------------------------------------------------------


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedRunError(f"{path} is missing: {_RESTORE}") from error


def _check_weights(path: Path, snapshot: _Snapshot, n_bytes: int, checksum: Callable[[], str]) -> None:
    if n_bytes != snapshot.n_bytes:
        raise DamagedRunError(f"{path} has {n_bytes:,} bytes, {snapshot.n_bytes:,} were stored: {_RESTORE}")
    if checksum() != snapshot.sha256:
        raise DamagedRunError(f"{path} was altered, it does not match its checksum in {LOG}: {_RESTORE}")


def _check_file(path: Path, snapshot: _Snapshot) -> None:
    if not path.exists():
        raise DamagedRunError(f"{path} is missing: {_RESTORE}")
    _check_weights(path, snapshot, path.stat().st_size, lambda: file_checksum(path))


def _attempt(check: Callable[[], T]) -> tuple[T | None, str]:
    """What `check` returns, and what it finds wrong."""
    try:
        return check(), ""
    except (ValueError, OSError) as error:
        return None, str(error)


def _store(path: Path, parts: list[bytes | memoryview]) -> None:
    """Write a file whole, and flush it and its name to disk."""
    n_bytes = sum(len(part) for part in parts)
    with explaining_failures(path, n_bytes):
        with whole_file(path) as temporary, open(temporary, "wb") as file:
            file.writelines(parts)
        sync(path.parent)


def sync(path: Path) -> None:
    """Flush a folder's names to disk (or a file's content): a rename is not durable before."""
    if sys.platform == "win32" and path.is_dir():
        return  # folders can't be opened there
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explaining_failures(path: Path, n_bytes: int = 0) -> Iterator[None]:
    """Turn an OSError while `n_bytes` are written to `path` into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, _advice(error, path, n_bytes), str(path)) from error


def _file_size_limit() -> str:
    try:
        import resource
    except ImportError:  # Windows
        return ""
    return f" of {resource.getrlimit(resource.RLIMIT_FSIZE)[0]:,} bytes (ulimit -f)"


def _advice(error: OSError, path: Path, n_bytes: int) -> str:
    folder = next(parent for parent in path.parents if parent.is_dir())
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
        free = shutil.disk_usage(folder).free
        cause = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        remedy = f"{n_bytes:,} bytes are needed, {free:,} are free: make room, then resume the run"
    elif error.errno == errno.EFBIG:
        cause = f"the file would exceed this process's limit{_file_size_limit()}"
        remedy = f"{n_bytes:,} more bytes are needed: raise the limit, then resume the run"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        cause = f"no permission to write ({error.strerror})"
        remedy = f"let this user write in {folder}, or choose another folder"
    else:
        cause, remedy = str(error.strerror), "see to the disk, then resume the run"
    return f"{cause}; {remedy}; what was stored before is whole"
