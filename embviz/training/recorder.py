"""A recorder: weights of a training loop of your own, step by step, full or as small sketches, on disk.

A recording is a folder. It is a :class:`embviz.training.snapshots.Run` with one file more:

====================  ================================================================================
file                  holds
====================  ================================================================================
``run.json``          what is recorded: tensors and shapes, how often, the sketch, what you say about it
``records.bin``       a record a snapshot, each of the same size, appended: step, loss, numbers, checksum
``weights/``          of a sketched recording, a handful of full snapshots that its distortion is told by
``log.jsonl``         a line each of those
``writer.lock``       held by the process that records
====================  ================================================================================

The length of ``records.bin`` tells how many records are whole; a kill in mid-write costs the last one. A
checksum covers the one before it too, and the first what is recorded: no record can be altered, moved or left
out unnoticed. A process may read while another records. Flushing to disk takes longer than a snapshot, so it
is done every ten seconds: a power cut, unlike a kill, may cost as much.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import functools
import hashlib
import itertools
import json
import math
import operator
import os
import shutil
import time
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from embviz.runs.paths import WeightPath, weight_path
from embviz.storage import whole_file
from embviz.training.snapshots import (
    DamagedRunError,
    Run,
    explaining_failures,
    open_or_create_run,
    open_run,
    sync,
)

FORMAT = 1
RECORDS = "records.bin"
ALL = "(all)"  # tensors side by side, as one vector
FLUSH_EVERY = 10.0  # seconds
# of the norm: a checkpoint in half precision is off by less, the weights of another seed by far more
SAME_WEIGHTS = 0.01

Projection = Callable[[Tensor], Tensor]


# --- sketches ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sketch:
    """A random projection to `size` numbers that keeps distances: a function of its seed, name and shape.

    Chunks of `size` weights are given random signs, turned around by a random number of places each, and
    added up. So every weight counts once, and two of them meet in one number with probability 1 / size at
    most: the squared length comes out right on average, with a relative variance of 2 / size at most, and
    a distance is off by about 1 / sqrt(2 size). Measured on one core: 0.7 ns a weight, where a dense
    Gaussian matrix takes 33, and a subsampled Hadamard transform 9 (tests/benchmarks/bench_recorder.py).

    >>> Sketch(size=4).projection("embedding", (10, 3))(torch.ones(10, 3)).shape
    torch.Size([4])

    Source
    ------
    M. Charikar, K. Chen and M. Farach-Colton (2002), with the buckets of a chunk chosen together.
    """

    size: int = 256  # numbers that stand for a tensor; a smaller tensor stays as it is
    seed: int = 0

    def __post_init__(self) -> None:
        if operator.index(self.size) < 1 or operator.index(self.seed) < 0:
            raise ValueError(f"a sketch has at least 1 number, and a seed of 0 or more, got {self}")

    def projection(self, name: str, shape: Sequence[int], device: torch.device | str = "cpu") -> Projection:
        """The map from a tensor of that name and shape, on `device`, to (size,); linear.

        It keeps 5 bytes a weight in memory. Half precision is computed in float32. A tensor of no more than
        `size` numbers is flattened only.
        """
        n = math.prod(shape)
        if n <= self.size:
            return _flat
        signs, turns = self._draw(name, shape, n)
        width: type = np.int32 if n + self.size < 2**31 else np.int64  # of places, the last chunk's included
        chunks: np.ndarray = np.arange(0, n, self.size, dtype=width)[:, None]
        places: np.ndarray = np.arange(self.size, dtype=width) - turns.astype(width)[:, None]
        places %= width(self.size)
        places += chunks  # that each number adds up
        short = places >= n  # the last chunk may be
        np.minimum(places, width(n - 1), out=places)
        signs = signs[places]
        signs[short] = 0
        index = torch.from_numpy(places.ravel()).to(device)
        sign = torch.from_numpy(signs.ravel()).to(device)

        def project(tensor: Tensor) -> Tensor:
            signed = _flat(tensor).index_select(0, index).mul_(sign)
            return signed.view(-1, self.size).sum(0)

        return project

    def _draw(self, name: str, shape: Sequence[int], n: int) -> tuple[np.ndarray, np.ndarray]:
        """A sign for each of n weights, and how far each chunk is turned; the same with every numpy."""
        key = json.dumps([self.seed, self.size, name, list(shape)]).encode()
        bits = np.random.PCG64(np.random.SeedSequence(int.from_bytes(hashlib.sha256(key).digest())))
        raw = bits.random_raw(-(-n // 64)).astype("<u8").view(np.uint8)
        signs = 2 * np.unpackbits(raw, count=n, bitorder="little").astype(np.int8) - 1
        turns = bits.random_raw(-(-n // self.size)) % np.uint64(self.size)
        return signs, turns.astype(np.int64)


def _flat(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    return flat if flat.dtype == torch.float64 else flat.float()


def _is_reference(number: int) -> bool:
    """Whether snapshot `number`, from 1, is kept in full: 1, 2, 4, 5, 16, 17, 64, 65, ...

    A handful however long the run becomes, far from each other and next to each other, and none to drop.
    """
    return any(n > 0 and n & (n - 1) == 0 and n.bit_length() % 2 for n in (number, number - 1))


# --- records ----------------------------------------------------------------------------------------


class _Records:
    """The records of a run: their layout, and which of the file's bytes are whole ones."""

    def __init__(self, run: Run) -> None:
        if run.description.get("recording") != FORMAT:
            raise ValueError(
                f"{run.folder} holds a run that is no recording of format {FORMAT}: "
                "embviz.training.snapshots.open_run reads it"
            )
        self.path = run.folder / RECORDS
        tensors = [(name, t["dtype"], (t["numbers"],)) for name, t in run.description["tensors"].items()]
        fields = [("step", "<i8"), ("loss", "<f8"), ("tensors", np.dtype(tensors, align=True))]
        self.dtype = np.dtype([*fields, ("checksum", "<u8")], align=True)
        self.start = zlib.crc32(json.dumps(run.description, sort_keys=True).encode())

    def open(self) -> tuple[np.ndarray, int]:
        """The whole records, memory-mapped, (S,), and how many bytes at the end are none.

        Raises
        ------
        DamagedRunError
            If the records are another run's, or none of several is whole.
        """
        size = self.path.stat().st_size if self.path.exists() else 0
        n_records = size // self.dtype.itemsize
        if not n_records:
            return np.zeros(0, self.dtype), size
        records = np.asarray(np.memmap(self.path, self.dtype, "r", shape=(n_records,)))
        n_whole = n_records
        while n_whole and not self.is_whole(records, n_whole - 1):  # a power cut may leave several
            n_whole -= 1
        if n_records > 1 and (not n_whole or not self.is_whole(records, 0)):
            raise DamagedRunError(
                f"{self.path} is damaged from its first record on, or another recording's: restore it from "
                "a copy, or record again in another folder"
            )
        return records[:n_whole], size - n_whole * self.dtype.itemsize

    def is_whole(self, records: np.ndarray, place: int) -> bool:
        before = int(records["checksum"][place - 1]) if place else self.start
        return self.checksum(records[place : place + 1], before) == int(records["checksum"][place])

    def checksum(self, record: np.ndarray, before: int) -> int:
        covered = record.view(np.uint8)[: -self.dtype["checksum"].itemsize]
        return zlib.crc32(covered.data, before)

    def require_whole(self, records: np.ndarray) -> None:
        for place in range(len(records)):
            if not self.is_whole(records, place):
                last = int(records["step"][place - 1]) if place else None
                where = "at the first" if last is None else f"after step {last}"
                back = "" if last is None else f" go on from a checkpoint of step {last} or before, or"
                raise DamagedRunError(
                    f"{self.path}: record {place} ({where}) does not match its checksum: restore the file "
                    f"from a copy, or{back} read_recording(folder, verify=False) and trust no record from "
                    "there on"
                )


# --- recording --------------------------------------------------------------------------------------


class Recorder:
    """Records a model's weights during training: one object, called after each update.

    Parameters
    ----------
    model : nn.Module
        Only read. As it is before ``DistributedDataParallel``; compiled or not is the same.
    folder : path
        New or empty; or a recording's, with `resume_at`.
    every : int
        Updates between two snapshots, which are of the steps that it divides.
    tensors : str or sequence of str, optional
        Names of parameters, or patterns such as ``"blocks.*.query.weight"``; "*" is all of them. By default
        all matrices: parameters with two axes or more. What two names share is recorded once.
    sketch : int or Sketch, optional
        Numbers to keep of a tensor. By default all, as float32 (float64 of float64).
    about : anything JSON can say, optional
        What the run depends on (configuration, seeds, checksums of data): a recording goes on only under
        the same.
    resume_at : int, optional
        Updates that the model has had already. Of a recording in `folder` the snapshots up to there are
        kept, and later ones are dropped, to be made again. The one of this very step, if it was due and a
        stop came before it, can be made by ``step(step=resume_at)``.

    Attributes
    ----------
    folder : Path
    names : tuple of str
        Tensors that are recorded.
    n_snapshots : int
        Recorded so far.

    Raises
    ------
    ValueError
        If `every` is below 1, a name is unknown or names no tensor of real numbers, the folder holds other
        files, a recording and `resume_at` isn't said, a recording of other tensors, settings or `about`
        (the message lists what differs), or one whose weights at that step are not the model's.
    DamagedRunError
        If a record that is to be kept is damaged (a gigabyte takes 0.6 s to verify); the message says where.
    OSError
        If the disk is full or refuses.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "recording"
    >>> model = nn.Linear(30, 20)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with Recorder(model, folder, every=5, sketch=64) as recorder:
    ...     for _ in range(20):
    ...         loss = model(torch.ones(30)).square().mean()
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         stored = recorder.step(loss=loss)
    >>> recording = read_recording(folder)
    >>> recording.steps.tolist(), recording.tensors["weight"].shape
    ([5, 10, 15, 20], (4, 64))

    To go on after a stop, load your checkpoint of the model and the optimizer, saved after ``step``, and say
    how many updates it has had: ``Recorder(model, folder, every=5, sketch=64, resume_at=20)``.
    """

    def __init__(
        self,
        model: nn.Module,
        folder: str | os.PathLike[str],
        *,
        every: int = 1,
        tensors: str | Sequence[str] | None = None,
        sketch: int | Sketch | None = None,
        about: Any = None,
        resume_at: int | None = None,
    ) -> None:
        if operator.index(every) < 1:
            raise ValueError(f"every is {every}: record every step (1), or every so many")
        if resume_at is not None and operator.index(resume_at) < 0:
            raise ValueError(f"resume_at is {resume_at}: it counts updates, from 0")
        self._model, self._every = model, every
        self._patterns = (tensors,) if isinstance(tensors, str) else tensors and tuple(tensors)
        if not (sketch is None or isinstance(sketch, Sketch)):
            sketch = Sketch(operator.index(sketch))
        self._sketch = sketch
        chosen = _choose(model, self._patterns)
        self.names = tuple(chosen)
        self._shapes = {name: tuple(tensor.shape) for name, tensor in chosen.items()}
        self._projections: dict[tuple[str, torch.device], Projection] = {}
        self._process, self._flushed = os.getpid(), time.monotonic()
        self.n_snapshots = 0
        self._done = self._last = resume_at or 0  # updates made, and those that need no snapshot any more
        self._run = open_or_create_run(folder, _describe(chosen, every, self._sketch, about))
        self.folder = self._run.folder
        try:
            self._records = _Records(self._run)
            self._open_records(chosen, resume_at)
        except BaseException:
            self._run.close()
            raise

    def step(self, *, loss: float | Tensor | None = None, step: int | None = None) -> bool:
        """Say that the optimizer has made an update; a snapshot is stored if one is due.

        Parameters
        ----------
        loss : number, optional
            That the update came from: the loss of the weights before it. Looked at where a snapshot is due
            only, so that a GPU needn't be waited for; NaN in the recording where it isn't told.
        step : int, optional
            Updates made so far; by default one more than before. 0, before training, records the weights
            that it starts from. Where numbers are left out a snapshot is taken at the next one.

        Returns
        -------
        bool
            Whether a snapshot was stored.

        Raises
        ------
        ValueError
            If the step doesn't increase, a tensor was added, removed, renamed or resized, a weight is NaN
            or infinite, or the recorder is closed. Nothing is stored, what was stays.
        OSError
            If the disk is full or refuses. Nothing is stored, what was stays, and it can be tried again.
        """
        if self._closed or os.getpid() != self._process:
            raise ValueError(f"the recorder of {self.folder} is closed, or another process's: make a new one")
        step = self._done + 1 if step is None else operator.index(step)
        starts = step == self._missing == self._last
        if step <= self._last and not starts:
            raise ValueError(
                f"step {step} does not come after step {self._last}: steps count updates, and increase; "
                "to go back, close the recorder and make one with resume_at"
            )
        self._done = step
        due = starts or step // self._every > self._last // self._every
        if due:
            self._store(step, loss)
        return due

    def flush(self) -> None:
        """Flush what was recorded to disk, where it survives a power cut too."""
        with explaining_failures(self._records.path):
            os.fdatasync(self._descriptor)
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flush, and free the folder for another recorder."""
        if not self._closed and os.getpid() == self._process:
            try:
                self.flush()
            finally:
                self._release()
                self._run.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kept = f"{self._sketch.size} numbers each" if self._sketch else "in full"
        return f"<Recorder {self.folder}: {len(self.names)} tensors {kept}, {self.n_snapshots} snapshots>"

    @property
    def _closed(self) -> bool:
        return not self._release.alive

    def _open_records(self, chosen: Mapping[str, Tensor], resume_at: int | None) -> None:
        """Open the file at the place where recording goes on."""
        path = self._records.path
        for temporary in self.folder.glob(f".{path.stem}.*{path.suffix}"):  # a kill left it
            temporary.unlink()
        records, n_torn = self._records.open()
        if len(records) and resume_at is None:
            raise ValueError(
                f"{self.folder} holds a recording of steps {records['step'][0]} to {records['step'][-1]}: to "
                "go on with it, load the model's checkpoint and pass resume_at, the updates that it has had; "
                "for a run of its own choose another folder"
            )
        n_kept = int(np.searchsorted(records["step"], resume_at or 0, side="right"))
        kept = records[:n_kept]
        self._records.require_whole(kept)
        self._warn_of_a_gap(kept, n_torn, resume_at)
        self._record = np.zeros(1, self._records.dtype)
        self._rows = {name: torch.from_numpy(self._record["tensors"][name][0]) for name in self.names}
        if n_kept and kept["step"][-1] == resume_at:
            self._require_same_weights(chosen, kept[-1])
        start = resume_at or 0
        recorded = n_kept and kept["step"][-1] == start
        self._missing = None if recorded or start % self._every else start  # due where it starts
        self._cut(n_kept, drops=n_kept < len(records), n_torn=n_torn)
        self._run.truncate(-1 if resume_at is None else resume_at)
        self.n_snapshots = n_kept
        self._checksum = int(kept["checksum"][-1]) if n_kept else self._records.start
        with explaining_failures(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
            self._release = weakref.finalize(self, os.close, self._descriptor)
            sync(self.folder)  # the file's name

    def _warn_of_a_gap(self, kept: np.ndarray, n_torn: int, resume_at: int | None) -> None:
        """Say what is gone from the end and will not be made again: what came before `resume_at`."""
        last = int(kept["step"][-1]) if len(kept) else 0
        begun = len(kept) > 0 or n_torn > 0  # or it starts here, at a checkpoint
        if begun and resume_at is not None and last + self._every < resume_at:
            torn = f", {n_torn:,} bytes after it are no whole records and are dropped" * bool(n_torn)
            warnings.warn(
                f"{self._records.path}: the last whole record is of step {last}{torn}: there is a gap up to "
                f"step {resume_at}; to fill it go on from a checkpoint of step {last} or before",
                stacklevel=4,
            )

    def _cut(self, n_kept: int, *, drops: bool, n_torn: int) -> None:
        """Shorten the file to `n_kept` records."""
        path, end = self._records.path, n_kept * self._records.dtype.itemsize
        with explaining_failures(path, end):
            if drops:  # a copy, since readers may have mapped what is dropped
                with whole_file(path) as temporary, open(path, "rb") as old, open(temporary, "wb") as new:
                    shutil.copyfileobj(old, new, 1 << 20)
                    new.truncate(end)
            elif n_torn:
                os.truncate(path, end)

    def _require_same_weights(self, chosen: Mapping[str, Tensor], record: np.ndarray) -> None:
        for name, tensor in chosen.items():
            stored = record["tensors"][name]
            now = self._project(name, tensor).cpu().numpy()
            away, norm = np.linalg.norm(now - stored), np.linalg.norm(stored)
            if not away <= SAME_WEIGHTS * norm:
                off = away / norm if norm else math.inf
                raise ValueError(
                    f"{self.folder}: {name!r} is not what was recorded at step {record['step']}, it is off "
                    f"by {off:.0%}: load the checkpoint of that step before the recorder is made, or choose "
                    "another folder"
                )

    def _store(self, step: int, loss: float | Tensor | None) -> None:
        what = f"the snapshot of step {step} was not recorded"
        chosen = _matching(_parameters(self._model), self._patterns)
        if changes := list(_changes(self._shapes, chosen)):
            raise ValueError(
                f"{what}: {'; '.join(changes)}. A recording holds the same tensors throughout, and keeps "
                "what it has: record the changed model in another folder"
            )
        record = self._record
        record["step"], record["loss"] = step, _number(loss, what)
        for name, tensor in chosen.items():
            row = self._rows[name].copy_(self._project(name, tensor))
            if not torch.isfinite(row).all():
                raise ValueError(f"{what}: {name!r} is NaN or infinite: training has diverged before it")
        record["checksum"] = self._records.checksum(record, self._checksum)
        self._refer(step, chosen)
        self._write(record)
        self._checksum, self._last, self._missing = int(record["checksum"][0]), step, None
        self.n_snapshots += 1
        if time.monotonic() - self._flushed > FLUSH_EVERY:
            self.flush()

    @torch.no_grad()
    def _project(self, name: str, tensor: Tensor) -> Tensor:
        if self._sketch is None:
            return _flat(tensor)
        key = (name, tensor.device)
        if key not in self._projections:
            self._projections[key] = self._sketch.projection(name, tensor.shape, tensor.device)
        return self._projections[key](tensor)

    def _write(self, record: np.ndarray) -> None:
        end, data = self.n_snapshots * record.itemsize, record.view(np.uint8).data
        try:
            with explaining_failures(self._records.path, record.itemsize):
                done = 0
                while done < len(data):  # a disk nearly full takes a part, and refuses the rest
                    done += os.pwrite(self._descriptor, data[done:], end + done)
        except BaseException:
            with contextlib.suppress(OSError):  # the next record is written over what is left
                os.ftruncate(self._descriptor, end)
            raise

    def _refer(self, step: int, chosen: Mapping[str, Tensor]) -> None:
        """Keep the snapshot that comes next in full too, if it is one of the handful."""
        if self._sketch is None or not _is_reference(self.n_snapshots + 1) or step in self._run.steps:
            return
        sketched = {name: chosen[name] for name in self.names if chosen[name].numel() > self._sketch.size}
        self._run.append(step, {}, sketched)


def _parameters(model: nn.Module) -> dict[str, Tensor]:
    return {
        name.replace("_orig_mod.", ""): tensor  # which torch.compile adds
        for name, tensor in model.named_parameters(remove_duplicate=False)
    }


def _matching(named: Mapping[str, Tensor], patterns: Sequence[str] | None) -> dict[str, Tensor]:
    """Tensors that match a pattern, or all matrices; one that has two names under the first of these."""
    if patterns is None:
        names = [name for name, tensor in named.items() if tensor.ndim >= 2]
    else:
        hits = {hit for pattern in patterns for hit in _hits(named, pattern)}
        names = [name for name in named if name in hits]
    first = {id(named[name]): name for name in reversed(names)}
    return {name: named[name] for name in names if first[id(named[name])] == name}


def _hits(named: Mapping[str, Tensor], pattern: str) -> list[str]:
    return [pattern] if pattern in named else fnmatch.filter(named, pattern)


def _choose(model: nn.Module, patterns: Sequence[str] | None) -> dict[str, Tensor]:
    """What is to be recorded; ValueError if it can't be."""
    named = _parameters(model)
    if unknown := [pattern for pattern in patterns or () if not _hits(named, pattern)]:
        near = difflib.get_close_matches(unknown[0], named, n=5, cutoff=0.3) or list(named)[:5]
        raise ValueError(f"no parameter is called {', '.join(unknown)}; there are {', '.join(near)}")
    chosen = _matching(named, patterns)
    if not chosen:
        raise ValueError("the model has no matrix to record: say tensors='*' for all of its parameters")
    if odd := [name for name, tensor in chosen.items() if not tensor.is_floating_point()]:
        raise ValueError(f"{', '.join(odd)}: only real numbers are recorded: leave out the others")
    return chosen


def _describe(chosen: Mapping[str, Tensor], every: int, sketch: Sketch | None, about: Any) -> dict[str, Any]:
    return {
        "recording": FORMAT,
        "about": about,
        "every": every,
        "sketch": sketch and asdict(sketch),
        "tensors": {
            name: {
                "shape": list(tensor.shape),
                "dtype": "<f8" if tensor.dtype == torch.float64 else "<f4",
                "numbers": min(tensor.numel(), sketch.size) if sketch else tensor.numel(),
            }
            for name, tensor in chosen.items()
        },
    }


def _changes(shapes: Mapping[str, tuple[int, ...]], chosen: Mapping[str, Tensor]) -> Iterator[str]:
    """What became of the tensors that were recorded so far."""
    gone = [name for name in shapes if name not in chosen]
    new = [name for name in chosen if name not in shapes]
    for name in gone:
        heirs = [other for other in new if tuple(chosen[other].shape) == shapes[name]]
        yield f"{name!r} was renamed {heirs[0]!r}" if len(heirs) == 1 else f"{name!r} is gone"
        new = [other for other in new if heirs != [other]]
    yield from (f"{name!r} was added" for name in new)
    for name, shape in shapes.items():
        if name in chosen and tuple(chosen[name].shape) != shape:
            yield f"{name!r} had shape {shape}, now {tuple(chosen[name].shape)}"


def _number(loss: float | Tensor | None, what: str) -> float:
    if loss is None:
        return math.nan
    if isinstance(loss, Tensor) and loss.numel() != 1:
        raise ValueError(f"{what}: its loss has shape {tuple(loss.shape)}: give one number")
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


# --- reading ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Recording:
    """What a :class:`Recorder` has recorded.

    Attributes
    ----------
    folder : Path
    steps : array of int64, shape (S,)
        Updates made at each snapshot, increasing.
    losses : array of float64, shape (S,), in the loss's unit
        Of the update that led to each snapshot; NaN where it wasn't told.
    tensors : dict of array, shape (S, P) each
        One row per snapshot: all P numbers of a tensor, or its sketch. Memory-mapped, read-only, or loaded.
    metadata : dict
        about, every, sketch (None or its fields), tensors (shape, dtype and numbers of each), versions.
    n_torn : int
        Bytes at the end of the file that make no whole record: a kill's, or one being written.
    """

    folder: Path
    steps: np.ndarray
    losses: np.ndarray
    tensors: dict[str, np.ndarray]
    metadata: dict[str, Any]
    n_torn: int

    @property
    def sketch(self) -> Sketch | None:
        fields = self.metadata["sketch"]
        return Sketch(**fields) if fields else None

    def full(self, name: str, place: int) -> np.ndarray:
        """A tensor in its own shape at snapshot `place`, 0..S - 1, of a recording that has it in full."""
        shape = tuple(self.metadata["tensors"][name]["shape"])
        if self.tensors[name].shape[1] != math.prod(shape):
            raise ValueError(f"{name!r} was sketched: its numbers tell distances, not weights")
        return self.tensors[name][place].reshape(shape)

    def path(self, name: str) -> WeightPath:
        """The path of one tensor through the recording, with its losses: what ``trace`` draws.

        Parameters
        ----------
        name : str
            As in `tensors`. Of a sketched recording the path is that of the sketch.

        Returns
        -------
        WeightPath
            Where the loss was told at some snapshots only, the others have it by a straight line between.

        Raises
        ------
        ValueError
            If no tensor of that name was recorded (says what is near), or there are fewer than three
            snapshots.
        """
        if name not in self.tensors:
            near = difflib.get_close_matches(name, self.tensors, n=3, cutoff=0.3) or list(self.tensors)[:3]
            raise ValueError(f"no tensor {name!r} was recorded: there are {', '.join(near)}")
        told = np.flatnonzero(np.isfinite(self.losses))
        losses = np.interp(self.steps, self.steps[told], self.losses[told]) if len(told) else None
        return weight_path(name, self.tensors[name], self.steps, losses)

    @functools.cached_property
    def distortion(self) -> pd.DataFrame:
        """How far the sketches are off, measured on the run itself: between full snapshots kept beside them.

        Returns
        -------
        DataFrame, one row per tensor and one, called "(all)", for all side by side
            ``tensor``; ``n_weights``; ``n_numbers`` kept of them; ``n_pairs`` of snapshots, those without
            any distance left out; ``median``, ``q95`` and ``worst`` of the relative error of a pair's
            distance, ``abs(sketched / true - 1)``: 0 where all numbers are kept, NaN where there is no pair.

        Raises
        ------
        DamagedRunError
            If a full snapshot is damaged.
        """
        run, places = open_run(self.folder), {int(step): place for place, step in enumerate(self.steps)}
        kept = [step for step in run.steps if step in places] if self.sketch else []
        full = [run.weights(step) for step in kept]
        rows: list[tuple[Any, ...]] = []
        squares = np.zeros((2, len(kept) * (len(kept) - 1) // 2))  # of all tensors
        for name, tensor in self.metadata["tensors"].items():
            numbers = [self.tensors[name][places[step]] for step in kept]
            n_weights, n_numbers = math.prod(tensor["shape"]), tensor["numbers"]
            whole = n_weights == n_numbers
            weights = numbers if whole else [snapshot[name].flatten().numpy() for snapshot in full]
            distances = np.stack([_distances(weights), _distances(numbers)])  # (2, pairs)
            squares += distances**2
            rows.append((name, n_weights, n_numbers, *_errors(*distances, whole=whole)))
        n_weights, n_numbers = (sum(row[column] for row in rows) for column in (1, 2))
        rows.append((ALL, n_weights, n_numbers, *_errors(*np.sqrt(squares), whole=n_weights == n_numbers)))
        columns = ["tensor", "n_weights", "n_numbers", "n_pairs", "median", "q95", "worst"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        steps = f", steps {self.steps[0]} to {self.steps[-1]}" if len(self.steps) else ""
        torn = f", {self.n_torn} bytes of a torn one" if self.n_torn else ""
        kept = f"{self.sketch.size} numbers each" if self.sketch else "in full"
        return (
            f"<Recording {self.folder}: {len(self.tensors)} tensors {kept}, "
            f"{len(self.steps)} snapshots{steps}{torn}>"
        )


def read_recording(folder: str | os.PathLike[str], *, load: bool = False, verify: bool = True) -> Recording:
    """Read a recording; another process may be recording it, and its whole snapshots are read.

    Parameters
    ----------
    folder : path
    load : bool
        Whether to copy everything into memory; else the file is mapped, and read where it is looked at.
    verify : bool
        Whether to compare every record with its checksum (a gigabyte takes 0.6 s), or the first and last.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run.
    DamagedRunError
        If a file is damaged; the message says which, and where.
    ValueError
        If the run is no recording.
    """
    run = open_run(folder)
    layout = _Records(run)
    records, n_torn = layout.open()
    if verify:
        layout.require_whole(records)
    taken = np.ascontiguousarray if load else np.asarray
    about = {key: value for key, value in run.description.items() if key != "recording"}
    return Recording(
        folder=run.folder,
        steps=np.array(records["step"]),
        losses=np.array(records["loss"]),
        tensors={name: taken(records["tensors"][name]) for name in run.description["tensors"]},
        metadata={**about, "versions": run.versions},
        n_torn=n_torn,
    )


def _distances(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Euclidean distances of all pairs of n rows, (n (n - 1) / 2,)."""
    pairs = itertools.combinations([row.astype(np.float64) for row in rows], 2)
    return np.array([np.linalg.norm(a - b) for a, b in pairs], dtype=np.float64)


def _errors(true: np.ndarray, sketched: np.ndarray, *, whole: bool) -> tuple[int, float, float, float]:
    """Pairs, and median, 95% quantile and maximum of the relative errors."""
    apart = true > 0
    if whole:
        return int(apart.sum()), 0.0, 0.0, 0.0
    if not apart.any():
        return 0, math.nan, math.nan, math.nan
    errors = np.abs(sketched[apart] / true[apart] - 1)
    median, q95, worst = np.quantile(errors, [0.5, 0.95, 1.0]).tolist()
    return len(errors), median, q95, worst
