"""A run on disk, which a kill at any moment leaves whole and resumable, and which other tools can read.

==================================  ===================================================================
file                                holds
==================================  ===================================================================
``run.json``                        the configuration, the sketch, versions; written once
``metrics.jsonl``                   a line per snapshot: step, metrics, SHA-256 of its weights, CRC-32
``weights/0000001000.safetensors``  the weights of one snapshot in full, named by its step
``sketches.bin``                    in a run of sketches: a row of numbers per snapshot, one after another
``sketches.json``                   name, type and count of the numbers that a row holds of each tensor
``state.pt``                        the newest state to resume from, for ``torch.load``
``writer.lock``                     held by the one process that writes, whose number it names
==================================  ===================================================================

A snapshot counts once its line is written, which comes last. When ``append`` returns, the weights are flushed
to disk and the line is handed to the operating system, so that a kill costs nothing. Lines are flushed with
each state and at the end: a power cut may cost the last of them. Weights without a line are what a kill left
behind, and are overwritten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import math
import operator
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from embviz import __version__
from embviz.runs.sketches import Projection, Sketch, is_reference
from embviz.runs.tensors import find_ties, matching, pack, to_numpy, unpack
from embviz.storage import BusyRunError, whole_file

FORMAT = 3
RUN, METRICS, WEIGHTS, STATE = "run.json", "metrics.jsonl", "weights", "state.pt"
SKETCHES, LAYOUT = "sketches.bin", "sketches.json"
LOCK, PARTIAL = "writer.lock", "partial"
COLUMNS = ("step", "member", "sha256", "crc32")  # which no metric may be called
N_DIGITS = 64  # of a SHA-256

Metric = float | Sequence[float]  # of one model, or of R models side by side


class DamagedRunError(ValueError):
    """A file of a run that is missing, cut short or altered; the message names it."""


class Line(NamedTuple):
    """A line of the metrics: a snapshot that is stored."""

    metrics: dict[str, Metric]
    sha256: str | None  # of the row and the file of its weights; None where none were stored
    number: int  # of the snapshot among those with weights, from 1
    end: int  # of the line, in bytes


START = Line({}, None, 0, 0)


class Run:
    """A training run on disk: opened for writing by :meth:`open`, for reading by :func:`read_run`.

    Attributes
    ----------
    folder : Path
    config : dict
        What the run was opened with, after a round trip through JSON.
    sketch : Sketch or None
        How weights are sketched; None: they are stored in full.

    Notes
    -----
    A run is free for another writer after ``with``, after :meth:`close`, or when the process ends in any way.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> model = nn.Linear(3, 2)
    >>> with Run.open(folder, config={"seed": 0}) as run:
    ...     for step in range(1, 5):
    ...         run.append(step, model, {"loss": 1 / step})
    ...     run.save_state(step, {"model": model.state_dict()})
    >>> run = read_run(folder)
    >>> run.steps, run.tensor("weight").shape, list(run.metrics())
    ([1, 2, 3, 4], (4, 2, 3), ['step', 'loss'])
    """

    def __init__(self, folder: Path, lock: FileLock | None = None) -> None:
        self.folder, self._lock = folder, lock
        content = _read_json(folder / RUN)
        if content["format"] != FORMAT:
            raise DamagedRunError(
                f"{folder} was recorded by an embviz that stored runs otherwise (format {content['format']}, "
                f"now {FORMAT}), and can't be read any more: delete it, and record the run again"
            )
        self.config = content["config"]
        self.sketch = Sketch(**content["sketch"]) if content["sketch"] else None
        self._lines = _read_lines(folder / METRICS)
        self._n_members = _count_members(self._lines.values())
        self._projections: dict[tuple[object, ...], Projection] = {}

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        config: Mapping[str, Any] | None = None,
        sketch: int | Sketch | None = None,
    ) -> Run:
        """Start a run in a new or empty folder, or go on with the run that is there.

        Parameters
        ----------
        folder : path
        config : dict that JSON can hold, optional
            What the run depends on: configuration, seeds, checksums of data. A run that is there must have
            been opened with the same.
        sketch : int or Sketch, optional
            Numbers to store of a tensor, a random projection that keeps distances; by default all. A few
            snapshots are stored in full too, unless ``Sketch(256, full=False)`` leaves them out;
            :func:`embviz.runs.run_bytes` tells what a run will take.

        Raises
        ------
        BusyRunError
            If another process is writing it; names the process.
        DamagedRunError
            If a file is damaged, or of an older format.
        """
        path, sketch = Path(folder).absolute(), Sketch(sketch) if isinstance(sketch, int) else sketch
        config = json.loads(json.dumps(config or {}, allow_nan=False))
        path.mkdir(parents=True, exist_ok=True)
        begun = (LOCK, PARTIAL, WEIGHTS)  # beside empty files, by a kill in the midst of making a run
        foreign = sorted(
            f.name for f in path.iterdir() if f.name not in begun and (f.is_dir() or f.stat().st_size)
        )
        if foreign and not is_run(path):
            raise ValueError(
                f"{path} holds other files ({', '.join(foreign[:3])}) and no {RUN}: choose an empty folder"
            )
        lock = _lock(path)
        try:
            (path / PARTIAL).unlink(missing_ok=True)  # a kill left it
            if not is_run(path):
                _begin(path, config, sketch)
            run = cls(path, lock)
            there, now = {"sketch": run.sketch, **run.config}, {"sketch": sketch, **config}
            for key in there | now:
                if (one := there.get(key, "absent")) != (other := now.get(key, "absent")):
                    raise ValueError(
                        f"{path} holds a run of another configuration: {key} is {one} there and {other} now. "
                        "Choose another folder, or open it as it was to go on with it"
                    )
        except BaseException:
            lock.release()
            raise
        return run

    @property
    def steps(self) -> list[int]:
        """Updates made at each snapshot, increasing; of a run opened for reading, as it was then."""
        return list(self._lines)

    @property
    def stored_steps(self) -> list[int]:
        """Steps of the snapshots with weights."""
        return [step for step, line in self._lines.items() if line.sha256]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors of the first of these, as they were in training; tied ones once."""
        steps = self.stored_steps
        if steps and self.sketch:
            return {name: tuple(shape) for name, shape in self._layout["shapes"].items()}
        return (
            {name: tuple(tensor.shape) for name, tensor in self._read(steps[0])[1].items()} if steps else {}
        )

    # --- writing ------------------------------------------------------------------------------------

    def append(
        self,
        step: int,
        weights: Mapping[str, Tensor] | nn.Module,
        metrics: Mapping[str, Metric | Tensor] | None = None,
    ) -> None:
        """Store a snapshot; when this returns, a kill can't harm it. Where it raises, nothing is stored.

        Parameters
        ----------
        step : int
            Updates made so far, from 0; above that of every earlier snapshot.
        weights : mapping from name to Tensor, or a model
            Of a model its ``state_dict``. Tensors may share memory: tied ones come back tied. May be empty.
            NaN and infinity are refused. In a run of sketches all snapshots have the same tensors.
        metrics : mapping from name to number or list of R numbers, optional
            Scalars and 1-D arrays of numpy or torch will do.
        """
        self._require_writer()
        step, last = operator.index(step), self._last_step
        if step <= last:
            raise ValueError(
                f"step {step} does not come after {last}: steps count updates and increase; to go back, "
                "truncate the run first (-1: all of it)"
            )
        clean = _clean_metrics(metrics or {}, self._n_members)
        row, file = self._encode(step, weights)
        sha256 = hashlib.sha256(row + file).hexdigest() if row or file else None
        line = _sealed({"step": step, **clean, "sha256": sha256})
        number, end = self._last.number, self._last.end
        try:
            if file:
                self._write(self._weights_path(step), file)
            if row:
                _extend(self.folder / SKETCHES, number * len(row), row, flush=True)
            _extend(self.folder / METRICS, end, line)
        except BaseException:
            self._weights_path(step).unlink(missing_ok=True)  # the room may be needed
            raise
        self._lines[step] = Line(clean, sha256, number + (sha256 is not None), end + len(line))
        self._n_members = self._n_members or _count_members([self._last])

    def save_state(self, step: int, state: Any) -> None:
        """Replace the state to resume from, whole; where this raises, the state before stays.

        Parameters
        ----------
        step : int
            Updates made so far.
        state : tensors, numbers and text in dicts, lists and tuples
            Whatever training needs to go on: ``state_dict()`` of model and optimizer, states of generators.
        """
        self._require_writer()
        archive = io.BytesIO()
        torch.save(_plain({"step": step, "snapshot": self._last_step, "state": state}), archive)
        # torch.save writes a ZIP archive, whose comment, at its end, may be anything: here its own checksum
        archive.seek(-2, io.SEEK_END)
        archive.write(N_DIGITS.to_bytes(2, "little"))
        archive.write(hashlib.sha256(archive.getbuffer()).hexdigest().encode())
        self._flush()  # a state must never be later than its log
        self._write(self.folder / STATE, archive.getbuffer())

    def truncate(self, after_step: int) -> None:
        """Drop snapshots and states later than `after_step`; -1: all of them."""
        self._require_writer()
        state = self.folder / STATE
        # first, since a state must never be later than its log; "meta" reads no tensor
        if state.exists() and (
            after_step < 0 or torch.load(state, map_location="meta", weights_only=True)["step"] > after_step
        ):
            state.unlink()
        dropped = [step for step in self._lines if step > after_step]
        self._lines = {step: line for step, line in self._lines.items() if step <= after_step}
        if dropped:
            os.truncate(self.folder / METRICS, self._last.end)
            self._flush()
        if dropped and self.sketch:
            n_bytes = self._last.number * self._row_type.itemsize if self._last.number else 0
            os.truncate(self.folder / SKETCHES, n_bytes)
        for step in dropped:
            self._weights_path(step).unlink(missing_ok=True)
        self._n_members = _count_members(self._lines.values())

    def close(self) -> None:
        """Free the run for another writer; this one can read on."""
        if self._lock is not None and self._lock.is_locked:
            with contextlib.suppress(FileNotFoundError):  # it may have been moved meanwhile
                self._flush()
            self._lock.release()
        self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- reading ------------------------------------------------------------------------------------

    def metrics(self) -> pd.DataFrame:
        """Table of what was measured: ``step`` and one column per metric, one row per snapshot.

        Where metrics are lists of R numbers there are R rows a snapshot, told apart by ``member``
        (0 to R - 1); numbers are repeated. A metric that a snapshot doesn't have is NaN there.
        """
        n = self._n_members or 1
        columns = {"step": np.repeat(np.array(self.steps, dtype=np.int64), n)}
        if self._n_members:
            columns["member"] = np.tile(np.arange(n), len(self._lines))
        for name in dict.fromkeys(name for line in self._lines.values() for name in line.metrics):
            values = [line.metrics.get(name, math.nan) for line in self._lines.values()]
            columns[name] = np.array([v if isinstance(v, list) else [v] * n for v in values]).ravel()
        return pd.DataFrame(columns)

    def weights(self, step: int) -> dict[str, Tensor]:
        """What was stored of the weights at `step`, on the CPU: the tensors, or sketches of them.

        What is missing or was altered since raises :class:`DamagedRunError`.
        """
        ties, kept = self._read(step)
        return {name: kept[first] for name, first in ties.items()}

    def tensor(self, name: str) -> np.ndarray:
        """One tensor at all snapshots, (S, ...), or its sketches, (S, P); bfloat16 as float32."""
        return self.tensors([name])[name]

    def tensors(
        self, names: str | Sequence[str] | None = None, *, sketch: Sketch | None = None
    ) -> dict[str, np.ndarray]:
        """Tensors at all snapshots by name, each file read once; see :meth:`tensor`.

        Parameters
        ----------
        names : str or sequence of str, optional
            Names or patterns, each of which must match; by default all.
        sketch : Sketch, optional
            Read sketches of tensors that were stored in full.
        """
        steps = self.stored_steps
        known = list(self.weights(steps[0])) if steps else []
        chosen = known if names is None else matching(known, names)
        arrays: dict[str, np.ndarray] = {}
        for place, step in enumerate(steps):
            weights = self.weights(step)
            for name in chosen:
                tensor = weights[name]
                row = to_numpy(tensor if sketch is None else self._project(name, tensor, sketch))
                if place == 0:
                    arrays[name] = np.empty((len(steps), *row.shape), row.dtype)
                if row.shape != arrays[name].shape[1:]:
                    raise ValueError(
                        f"{self.folder}: {name!r} has shape {row.shape} at step {step}, "
                        f"before {arrays[name].shape[1:]}"
                    )
                arrays[name][place] = row
        return arrays

    def load_state(self) -> tuple[int, Any] | None:
        """Step and content of the newest state, on the CPU, or None where none was saved."""
        path = self.folder / STATE
        if not path.exists():
            return None
        data = path.read_bytes()
        if hashlib.sha256(data[:-N_DIGITS]).hexdigest().encode() != data[-N_DIGITS:]:
            raise DamagedRunError(f"{path} was altered or cut short: restore it from a copy, or delete it")
        stored = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        # a reader may have opened the log before this state was saved
        if self._lock is not None and stored["snapshot"] not in {-1, *self.steps}:
            raise DamagedRunError(
                f"{self.folder / METRICS} lacks the snapshot of step {stored['snapshot']}, which the state "
                "comes after: restore it from a copy, or delete the state"
            )
        return stored["step"], stored["state"]

    def __repr__(self) -> str:
        mode = "writing" if self._lock else "reading"
        return f"<Run {self.folder}: {len(self._lines)} snapshots; open for {mode}>"

    # --- steps of the above -------------------------------------------------------------------------

    @property
    def _last(self) -> Line:
        return next(reversed(self._lines.values()), START)

    @property
    def _last_step(self) -> int:
        return next(reversed(self._lines), -1)

    @functools.cached_property
    def _layout(self) -> dict[str, Any]:
        """Of a row of sketches: ties, a (name, type, count) per tensor, and the shapes that tensors had."""
        return _read_json(self.folder / LAYOUT)

    @property
    def _row_type(self) -> np.dtype:
        return np.dtype([tuple(field) for field in self._layout["row"]])

    def _weights_path(self, step: int) -> Path:
        return self.folder / WEIGHTS / f"{step:010d}.safetensors"

    def _has_file(self, number: int) -> bool:
        """Whether snapshot `number` is stored in full."""
        return self.sketch is None or (self.sketch.full and is_reference(number))

    def _require_writer(self) -> None:
        if self._lock is None or not self._lock.is_locked:
            raise ValueError(f"{self.folder} is read only, closed, or another process's: open it by Run.open")

    def _write(self, path: Path, data: bytes | memoryview) -> None:
        with whole_file(path, temporary=self.folder / PARTIAL) as temporary, open(temporary, "wb") as file:
            file.write(data)

    def _flush(self) -> None:
        """Let what was appended outlast a power cut."""
        if sys.platform != "win32":  # where folders can't be opened
            folder = os.open(self.folder / WEIGHTS, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        with open(self.folder / METRICS, "r+b") as file:
            os.fsync(file.fileno())

    def _encode(self, step: int, weights: Mapping[str, Tensor] | nn.Module) -> tuple[bytes, bytes]:
        """A snapshot's row of sketches, and its file of weights in full; what it has not is empty."""
        if isinstance(weights, nn.Module):
            weights = {n.replace("_orig_mod.", ""): tensor for n, tensor in weights.state_dict().items()}
        if not weights:
            return b"", b""
        ties = find_ties(weights)
        full = kept = {name: weights[name] for name in dict.fromkeys(ties.values())}
        if self.sketch is not None:
            kept = {
                name: self._project(name, tensor, self.sketch)
                if tensor.is_floating_point() and tensor.numel() > self.sketch.size
                else tensor
                for name, tensor in full.items()
            }
        for name, tensor in kept.items():
            # eight-bit floats can't be asked
            finite = torch.isfinite(tensor.float() if tensor.element_size() == 1 else tensor)
            if not finite.all():
                raise ValueError(
                    f"the snapshot of step {step} was not stored: {name!r} is NaN or infinite in "
                    f"{(~finite).sum()} of {finite.numel()} places"
                )
        file = pack(full, ties) if self._has_file(self._last.number + 1) else b""
        if self.sketch is None:
            return b"", file
        arrays = {name: to_numpy(tensor) for name, tensor in kept.items()}
        layout = {
            "names": ties,
            "row": [[name, array.dtype.str, array.size] for name, array in arrays.items()],
            "shapes": {name: list(tensor.shape) for name, tensor in full.items()},
        }
        if self._last.number == 0:
            self._write(self.folder / LAYOUT, _sealed(layout))
            self._layout = layout
        elif layout != self._layout:
            raise ValueError(
                f"the snapshot of step {step} was not stored: {self.folder} holds sketches of other tensors, "
                "or of other shapes, and a row has one layout: start another run"
            )
        return b"".join(array.tobytes() for array in arrays.values()), file

    @torch.no_grad()
    def _project(self, name: str, tensor: Tensor, sketch: Sketch) -> Tensor:
        key = (sketch, name, tensor.shape, tensor.device)
        if key not in self._projections:
            self._projections[key] = sketch.projection(name, tensor.shape, tensor.device)
        return self._projections[key](tensor)

    def _read(self, step: int) -> tuple[dict[str, str], dict[str, Tensor]]:
        """A snapshot's ties, and what is kept of its tensors; what was altered since is refused."""
        line = self._lines[step]
        if line.sha256 is None:
            return {}, {}
        row, file, path = b"", b"", self._weights_path(step)
        if self.sketch is not None:
            n_bytes = self._row_type.itemsize
            with open(self.folder / SKETCHES, "rb") as rows:
                rows.seek((line.number - 1) * n_bytes)
                row = rows.read(n_bytes)
        if self._has_file(line.number) and path.exists():
            file = path.read_bytes()
        if hashlib.sha256(row + file).hexdigest() != line.sha256:
            where = f"{self.folder / SKETCHES}, or {path.name}," if row else path
            raise DamagedRunError(
                f"{where} is missing, or was altered or cut short: restore it from a copy, or truncate the "
                "run before it"
            )
        if self.sketch is None:
            return unpack(file)
        values, shapes = np.frombuffer(row, self._row_type)[0], self._layout["shapes"]
        kept = {name: torch.from_numpy(values[name].copy()) for name, *_ in self._layout["row"]}
        whole = {
            name: t.view(shapes[name]) for name, t in kept.items() if t.numel() == math.prod(shapes[name])
        }
        return self._layout["names"], kept | whole


# --- files ------------------------------------------------------------------------------------------


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Open a run for reading; another process may be writing it. Weights are verified when they are read."""
    path = Path(folder).absolute()
    if not is_run(path):
        raise FileNotFoundError(f"{path} holds no run (there is no {RUN}): Run.open starts one")
    return Run(path)


def is_run(folder: Path) -> bool:
    """Whether a run is in the folder."""
    return (folder / RUN).is_file()


def delete_run(folder: str | os.PathLike[str]) -> bool:
    """Delete a run, which a kill leaves whole or not there; False if there is none, or somebody writes it."""
    path = Path(folder).absolute()
    done = path.with_name(f"{path.name}.done")
    shutil.rmtree(done, ignore_errors=True)  # a kill left it
    if not is_run(path):
        return False
    try:
        lock = _lock(path)
    except BusyRunError:
        return False
    path.rename(done)
    lock.release()
    shutil.rmtree(done, ignore_errors=True)  # another process may be at it too
    return True


def _lock(folder: Path) -> FileLock:
    """The right to write in a folder, which ends with its process, however that ends, and is no child's."""
    lock = FileLock(folder / LOCK, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        who = (folder / LOCK).read_text(encoding="utf-8") if sys.platform != "win32" else "of unknown number"
        raise BusyRunError(
            f"{folder} is being written by process {who}: end it, or close its Run, or read by read_run"
        ) from error
    with contextlib.suppress(OSError):  # for the message above; Windows lets nobody read or write it
        (folder / LOCK).write_text(str(os.getpid()), encoding="utf-8")
    return lock


def _begin(folder: Path, config: Any, sketch: Sketch | None) -> None:
    (folder / WEIGHTS).mkdir(exist_ok=True)
    for name in (METRICS, SKETCHES) if sketch else (METRICS,):
        (folder / name).touch()
    about = {"format": FORMAT, "config": config, "sketch": sketch and dataclasses.asdict(sketch)}
    versions = {"embviz": __version__, "torch": str(torch.__version__)}
    with whole_file(folder / RUN, temporary=folder / PARTIAL) as temporary, open(temporary, "wb") as file:
        file.write(_sealed({**about, **versions}))  # from here on it is a run


def _extend(path: Path, end: int, data: bytes, *, flush: bool = False) -> None:
    """Write `data` after the first `end` bytes, where a kill may have left some; it is all there or not."""
    try:
        with open(path, "r+b") as file:
            file.truncate(end)
            file.seek(end)
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
    except BaseException as error:
        os.truncate(path, end)
        if isinstance(error, OSError) and error.filename is None:  # writing leaves it out
            error.filename = str(path)
        raise


def _sealed(record: dict[str, Any]) -> bytes:
    """A line of JSON that ends with the checksum of what comes before."""
    body = json.dumps(record, allow_nan=False)[:-1].encode()
    return body + b', "crc32": %d}\n' % zlib.crc32(body)


def _unsealed(line: bytes) -> dict[str, Any]:
    """The record of a line; ValueError if the line is not as it was written."""
    body, _, checksum = line.rstrip(b"\n").rpartition(b', "crc32": ')
    if checksum != b"%d}" % zlib.crc32(body):
        raise ValueError("it does not match its checksum")
    record: dict[str, Any] = json.loads(body + b"}")
    return record


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return _unsealed(path.read_bytes())
    except ValueError as error:
        raise DamagedRunError(f"{path} is damaged: {error}") from error


def _read_lines(path: Path) -> dict[int, Line]:
    """The committed snapshots by step; a last line that has no end yet is not one of them."""
    lines: dict[int, Line] = {}
    end = number = 0
    for place, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            record = _unsealed(line)
        except ValueError as error:
            raise DamagedRunError(f"{path}: line {place} is damaged: {error}") from error
        step, sha256 = record.pop("step"), record.pop("sha256")
        end, number = end + len(line) + 1, number + (sha256 is not None)
        lines[step] = Line(record, sha256, number, end)
    return lines


def _plain(state: Any) -> Any:
    """A state in types that are loaded without running any code; of equal states the same bytes.

    Strings are interned, since pickle writes one object twice otherwise than two that are equal.
    """
    if isinstance(state, Mapping):
        return {_plain(key): _plain(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return (tuple if isinstance(state, tuple) else list)(map(_plain, state))
    if isinstance(state, Tensor):
        return state.detach()
    for kind in (bool, int, float):
        if isinstance(state, kind):
            return kind(state)
    if state is None or isinstance(state, str):
        return state and sys.intern(str(state))
    raise ValueError(f"a state holds tensors, numbers and text, not {state!r}: convert it")


def _clean_metrics(metrics: Mapping[str, Any], n_members: int | None) -> dict[str, Metric]:
    """Finite numbers, and lists of finite numbers with the same length as in earlier snapshots."""
    clean: dict[str, Metric] = {}
    for name, value in metrics.items():
        array = np.asarray(value.tolist() if hasattr(value, "tolist") else value)
        n_members = n_members or array.size if array.ndim else n_members
        numbers = array.dtype.kind in "iuf" and np.isfinite(array).all()
        if name in COLUMNS or not numbers or array.shape not in ((), (n_members,)):
            raise ValueError(
                f"metric {name!r} is {value!r}: give a finite number, or a list of as many as before, and a "
                f"name other than {', '.join(COLUMNS)}"
            )
        clean[name] = array.tolist()
    return clean


def _count_members(lines: Iterable[Line]) -> int | None:
    """Length R of the lists among the metrics; None where there are only numbers."""
    values = (value for line in lines for value in line.metrics.values())
    return next((len(value) for value in values if isinstance(value, list)), None)
