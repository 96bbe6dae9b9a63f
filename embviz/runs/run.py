"""A run on disk, which a kill at any moment leaves whole, readable and resumable.

=====================================  ================================================================
file                                   holds
=====================================  ================================================================
``run.json``                           the configuration, the sketch, versions; written once
``weights/0000001000.safetensors``     the weights of one snapshot, or sketches of them; named by step
``log.jsonl``                          a line per snapshot: step, metrics, SHA-256 of its weights
``states/0000001000-SHA.safetensors``  the newest state to resume from, named by step and SHA-256
``writer.lock``                        held by the one process that writes
=====================================  ================================================================

A snapshot counts once its line is in the log; its weights are flushed to disk by then. Weights without a line
are what a kill left behind, and are overwritten. Lines are flushed with each state and at the end: a power
cut, unlike a kill, may cost the last of them.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import hashlib
import json
import math
import operator
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors
import torch
from torch import Tensor, nn

from embviz import __version__
from embviz.runs.log import (
    DamagedRunError,
    Line,
    Metric,
    clean_metrics,
    count_members,
    metrics_table,
    opened,
    read_log,
    sealed,
    verified,
)
from embviz.runs.paths import WeightPath, weight_path
from embviz.runs.sketches import ALL, Projection, Sketch, distances, is_reference, relative_errors
from embviz.runs.tensors import find_ties, flatten, matching, pack, unflatten
from embviz.runs.writer import LOCK, PARTIAL, BusyRunError, WriterLock, flush_folder, naming, write_whole

FORMAT = 2
RUN, LOG, WEIGHTS, STATES = "run.json", "log.jsonl", "weights", "states"
FULL = "full:"  # before the names of what a sketched run stores in full too
VERSIONS = {  # of what decides the bits
    "embviz": __version__,
    "torch": str(torch.__version__),
    "numpy": np.__version__,
    "safetensors": safetensors.__version__,
}


class Run:
    """A training run on disk: opened for writing by :meth:`open`, for reading by :func:`read_run`.

    Attributes
    ----------
    folder : Path
    config : what the run was opened with, after a round trip through JSON
    sketch : Sketch or None
        How weights are sketched; None: they are stored in full.
    versions : dict of str
        Of embviz and of the packages that decide the bits, when the run was made.

    Notes
    -----
    A run is free for another writer after ``with``, after :meth:`close`, or when the process ends in any way.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> model = nn.Linear(3, 2)
    >>> adam = torch.optim.AdamW(model.parameters())
    >>> with Run.open(folder, config={"seed": 0}) as run:
    ...     for step in range(1, 5):
    ...         loss = model(torch.ones(3)).square().sum()
    ...         adam.zero_grad()
    ...         loss.backward()
    ...         adam.step()
    ...         run.append(step, model, {"loss": loss})
    ...     run.save_state(step, {"model": model.state_dict(), "adam": adam.state_dict()})
    >>> run = read_run(folder)
    >>> run.steps, run.tensor("weight").shape, list(run.metrics())
    ([1, 2, 3, 4], (4, 2, 3), ['step', 'loss'])
    """

    def __init__(self, folder: Path, lock: WriterLock | None = None) -> None:
        self.folder, self._lock = folder, lock
        content = _read_run_file(folder / RUN)
        self.config, self.versions = content["config"], content["versions"]
        self.sketch = Sketch(**content["sketch"]) if content["sketch"] else None
        self._lines = read_log(folder / LOG)
        self._projections: dict[tuple[object, ...], Projection] = {}

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], *, config: Any = None, sketch: int | Sketch | None = None
    ) -> Run:
        """Start a run in a new or empty folder, or go on with the run that is there.

        Parameters
        ----------
        folder : path
        config : anything JSON can say, optional
            What the run depends on: configuration, seeds, checksums of data.
        sketch : int or Sketch, optional
            Numbers to store of a tensor, a random projection that keeps distances; by default all. A few
            snapshots are stored in full too, unless ``Sketch(256, full=False)`` leaves them out;
            :func:`embviz.runs.run_bytes` tells what a run will take.

        Raises
        ------
        ValueError
            If the folder holds a run of another configuration or sketch (names the first difference) or
            other files, or the configuration isn't JSON.
        BusyRunError
            If another process is writing it; names the process.
        DamagedRunError
            If ``run.json`` or the log is damaged.
        OSError
            If the disk is full or refuses; names the file.
        """
        path, config = Path(folder).absolute(), _as_json({} if config is None else config)
        sketch = Sketch(sketch) if isinstance(sketch, int) else sketch
        path.mkdir(parents=True, exist_ok=True)
        begun = {LOCK, PARTIAL, WEIGHTS, STATES, LOG}  # by a kill in the midst of making a run
        foreign = sorted(
            file.name
            for file in path.iterdir()
            if file.name not in begun or (file.name == LOG and file.stat().st_size)
        )
        if foreign and not (path / RUN).exists():
            raise ValueError(
                f"{path} holds other files ({', '.join(foreign[:3])}) and no {RUN}: choose an empty folder"
            )
        lock = WriterLock(path)
        try:
            for left in [path / PARTIAL, *_states(path)[:-1]]:  # by a kill
                left.unlink(missing_ok=True)
            if not (path / RUN).exists():
                _begin(path, config, sketch)
            run = cls(path, lock)
            run._require_same(config, sketch)
        except BaseException:
            lock.release()
            raise
        return run

    @property
    def steps(self) -> list[int]:
        """Updates made at each snapshot, increasing; of a run opened for reading, as it was then."""
        return [line.step for line in self._lines]

    @property
    def names(self) -> list[str]:
        """Names of the tensors of the first snapshot."""
        step = self._first_with_weights()
        return list(self._read(step)[0]["names"]) if step is not None else []

    # --- writing ------------------------------------------------------------------------------------

    def append(
        self,
        step: int,
        weights: Mapping[str, Tensor] | nn.Module,
        metrics: Mapping[str, Metric | Tensor] | None = None,
    ) -> None:
        """Store a snapshot; when this returns, a kill can't harm it.

        Parameters
        ----------
        step : int
            Updates made so far, from 0; above that of every earlier snapshot.
        weights : mapping from name to Tensor, or a model
            Of a model its ``state_dict``. Tensors may share memory: tied ones come back tied. May be empty.
        metrics : mapping from name to number or list of R numbers, optional
            Scalars and 1-D arrays of numpy or torch will do.

        Raises
        ------
        ValueError
            If the step doesn't increase, a metric or weight is NaN or infinite or can't be stored, or the
            run isn't open for writing. Nothing is stored.
        OSError
            If the disk is full or refuses. Nothing is stored, earlier snapshots stay.
        """
        self._require_writer()
        step = operator.index(step)
        if step < 0 or (self._lines and step <= self._lines[-1].step):
            raise ValueError(
                f"step {step} does not come after {self._lines[-1].step if self._lines else 'the start'}: "
                "steps count updates and increase; to go back, truncate the run first (-1: all of it)"
            )
        try:
            clean = clean_metrics(metrics or {}, count_members(self._lines))
            data = self._pack(weights, step)
        except ValueError as error:
            raise ValueError(f"the snapshot of step {step} was not stored: {error}") from error
        if data is not None:
            write_whole(self._weights_path(step), data, self.folder / PARTIAL)
        sha256 = None if data is None else hashlib.sha256(data).hexdigest()
        line = sealed({"step": step, "metrics": clean, "sha256": sha256})
        log, end = self.folder / LOG, self._log_end
        try:
            with naming(log), open(log, "r+b") as file:
                file.seek(end)
                file.truncate()
                file.write(line)
        except BaseException:
            os.truncate(log, end)
            self._weights_path(step).unlink(missing_ok=True)  # the room may be needed
            raise
        self._lines.append(Line(step, clean, sha256, end + len(line)))

    def save_state(self, step: int, state: Any) -> None:
        """Replace the state to resume from, whole.

        Parameters
        ----------
        step : int
            Updates made so far.
        state : tensors, numbers and text in dicts, lists and tuples
            Whatever training needs to go on: ``state_dict()`` of model and optimizer, states of generators.

        Raises
        ------
        ValueError, OSError
            As :meth:`append`. The state before stays.
        """
        self._require_writer()
        step = operator.index(step)
        encoded, tensors = flatten(state)
        ties = find_ties(tensors)
        unique = {name: tensors[name] for name in dict.fromkeys(ties.values())}
        last = self._lines[-1].step if self._lines else None
        data = pack(unique, {"step": step, "snapshot": last, "names": ties, "state": encoded})
        self._flush_log()  # a state must never be later than its log
        path = self.folder / STATES / f"{step:010d}-{hashlib.sha256(data).hexdigest()}.safetensors"
        write_whole(path, data, self.folder / PARTIAL)
        flush_folder(path.parent)
        for old in _states(self.folder):
            if old != path:
                old.unlink()

    def truncate(self, after_step: int) -> None:
        """Drop snapshots and states later than `after_step`; -1: all of them.

        Raises
        ------
        ValueError, OSError
            If the run isn't open for writing, or the disk refuses.
        """
        self._require_writer()
        for path in _states(self.folder):
            if int(path.name.partition("-")[0]) > after_step:
                path.unlink()  # first: a state must never be later than its log
        kept = [line for line in self._lines if line.step <= after_step]
        dropped, self._lines = self._lines[len(kept) :], kept
        if dropped:
            os.truncate(self.folder / LOG, self._log_end)
            self._flush_log()
        for line in dropped:
            self._weights_path(line.step).unlink(missing_ok=True)

    def close(self) -> None:
        """Free the run for another writer; this one can read on."""
        if self._lock is not None and self._lock.held:
            with contextlib.suppress(FileNotFoundError):  # it may have been moved meanwhile
                self._flush_log()
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
        return metrics_table(self._lines)

    def weights(self, step: int) -> dict[str, Tensor]:
        """What was stored of the weights at `step`, on the CPU: the tensors, or sketches of them.

        Raises
        ------
        ValueError
            If there is no snapshot of that step; names the nearest.
        DamagedRunError
            If the file is missing, cut short or altered.
        """
        header, tensors = self._read(step)
        return {name: tensors[first] for name, first in header["names"].items()}

    def tensor(self, name: str) -> np.ndarray:
        """One tensor at all snapshots, (S, ...), or its sketches, (S, P); bfloat16 as float32.

        Raises
        ------
        ValueError
            If there is no tensor of that name (says what is near), or its shape changes.
        DamagedRunError
            As :meth:`weights`.
        """
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
        steps = [line.step for line in self._lines if line.sha256 is not None]
        chosen = self.names if names is None else matching(self.names, names)
        arrays: dict[str, np.ndarray] = {}
        for place, step in enumerate(steps):
            weights = self.weights(step)
            for name in chosen:
                if name not in weights:
                    raise ValueError(f"{self.folder} has no {name!r} at step {step}, which it has before")
                row = _as_array(
                    weights[name] if sketch is None else self._project(name, weights[name], sketch)
                )
                if place == 0:
                    arrays[name] = np.empty((len(steps), *row.shape), row.dtype)
                if row.shape != arrays[name].shape[1:]:
                    raise ValueError(
                        f"{self.folder}: {name!r} has shape {row.shape} at step {step}, "
                        f"before {arrays[name].shape[1:]}"
                    )
                arrays[name][place] = row
        return arrays

    def path(self, name: str) -> WeightPath:
        """The path of one tensor, with its losses: what :func:`embviz.trajectories.trace` draws.

        Losses are the metric "loss", the mean over members, between two snapshots that have it by a straight
        line. Three snapshots are needed.
        """
        return self.paths([name])[name]

    def paths(
        self, names: str | Sequence[str] | None = None, *, sketch: int | Sketch | None = None
    ) -> dict[str, WeightPath]:
        """Paths of tensors by name, by default of all matrices; parameters as of :meth:`tensors`."""
        sketch = Sketch(sketch) if isinstance(sketch, int) else sketch
        steps = np.array([line.step for line in self._lines if line.sha256 is not None])
        losses = self._losses(steps)
        chosen = self._matrices() if names is None else names
        rows = self.tensors(chosen, sketch=sketch)
        return {name: weight_path(name, array, steps, losses) for name, array in rows.items()}

    def distortion(self) -> pd.DataFrame:
        """How far the sketches are off, measured on the run itself: between the few snapshots stored in full.

        Returns
        -------
        DataFrame, one row per tensor and one, called "(all)", for all side by side
            ``tensor``; ``n_weights``; ``n_numbers`` kept of them; ``n_pairs`` of snapshots, those without
            any distance left out; ``median``, ``q95`` and ``worst`` of the relative error of a pair's
            distance, ``abs(sketched / true - 1)``: 0 where all numbers are kept, NaN where there is no pair.

        Raises
        ------
        ValueError
            If no snapshot is stored in full (``Sketch(full=False)``).
        """
        if self.sketch is not None and not self.sketch.full:
            raise ValueError(
                f"{self.folder} stores no snapshot in full, so its distortion cannot be measured: distances "
                f"of {self.sketch.size} numbers are off by about {(2 * self.sketch.size) ** -0.5:.1%}"
            )
        numbers = range(1, len(self._lines) + 1)
        steps = [step for number, step in zip(numbers, self.steps, strict=True) if is_reference(number)]
        read = [self._read(step) for step in (steps if self.sketch else steps[:1])]
        rows: list[tuple[Any, ...]] = []
        squares = np.zeros((2, len(read) * (len(read) - 1) // 2))  # of all tensors
        for name, shape in read[0][0]["shapes"].items() if read else ():
            kept = [_as_array(tensors[name]).ravel() for _, tensors in read]
            n_weights, whole = math.prod(shape), f"{FULL}{name}" not in read[0][1]
            full = kept if whole else [_as_array(tensors[f"{FULL}{name}"]).ravel() for _, tensors in read]
            pairs = np.stack([distances(full), distances(kept)])  # (2, pairs)
            squares += pairs**2
            rows.append((name, n_weights, kept[0].size, *relative_errors(*pairs, whole=whole)))
        n_weights, n_numbers = (sum(row[column] for row in rows) for column in (1, 2))
        whole = n_weights == n_numbers
        rows.append((ALL, n_weights, n_numbers, *relative_errors(*np.sqrt(squares), whole=whole)))
        columns = ["tensor", "n_weights", "n_numbers", "n_pairs", "median", "q95", "worst"]
        return pd.DataFrame(rows, columns=columns)

    def load_state(self) -> tuple[int, Any] | None:
        """Step and content of the newest state, or None where none was saved.

        Raises
        ------
        DamagedRunError
            If the file is cut short or altered, or the log lacks a snapshot before it.
        """
        if not (states := _states(self.folder)):
            return None
        step, sha256 = states[-1].stem.split("-")
        header, tensors = verified(states[-1], sha256)
        # a reader may have opened the log before this state was saved
        if self._lock is not None and header["snapshot"] not in {None, *self.steps}:
            raise DamagedRunError(
                f"{self.folder / LOG} lacks the snapshot of step {header['snapshot']}, which the state comes "
                "after: restore it from a copy, or delete the state"
            )
        tied = {name: tensors[first] for name, first in header["names"].items()}
        return int(step), unflatten(header["state"], tied)

    def __repr__(self) -> str:
        steps = f", steps {self.steps[0]} to {self.steps[-1]}" if self._lines else ""
        mode = "writing" if self._lock else "reading"
        return f"<Run {self.folder}: {len(self._lines)} snapshots{steps}; open for {mode}>"

    # --- steps of the above -------------------------------------------------------------------------

    @property
    def _log_end(self) -> int:
        return self._lines[-1].end if self._lines else 0

    def _weights_path(self, step: int) -> Path:
        return self.folder / WEIGHTS / f"{step:010d}.safetensors"

    def _first_with_weights(self) -> int | None:
        return next((line.step for line in self._lines if line.sha256 is not None), None)

    def _require_writer(self) -> None:
        if self._lock is None or not self._lock.held:
            raise ValueError(
                f"{self.folder} is open for reading only, closed, or another process's: open it by Run.open"
            )

    def _require_same(self, config: Any, sketch: Sketch | None) -> None:
        asked = {"config": config, "sketch": sketch and dataclasses.asdict(sketch)}
        stored = {"config": self.config, "sketch": self.sketch and dataclasses.asdict(self.sketch)}
        if difference := next(_differences(stored, asked), None):
            raise ValueError(
                f"{self.folder} holds a run of another configuration: {difference}. Choose another folder, "
                "or open it as it was to go on with it"
            )

    def _flush_log(self) -> None:
        flush_folder(self.folder / WEIGHTS)
        with open(self.folder / LOG, "r+b") as file, naming(self.folder / LOG):
            os.fsync(file.fileno())

    def _pack(self, weights: Mapping[str, Tensor] | nn.Module, step: int) -> bytes | None:
        if isinstance(weights, nn.Module):
            weights = {n.replace("_orig_mod.", ""): tensor for n, tensor in weights.state_dict().items()}
        if not weights:
            return None
        ties = find_ties(weights)
        unique = {name: weights[name] for name in dict.fromkeys(ties.values())}
        shapes = {name: list(tensor.shape) for name, tensor in unique.items()}
        stored = unique
        if self.sketch is not None:
            size = self.sketch.size  # what is no larger stays as it is
            stored = {
                name: self._project(name, tensor, self.sketch)
                if tensor.is_floating_point() and tensor.numel() > size
                else tensor
                for name, tensor in unique.items()
            }
            if self.sketch.full and is_reference(len(self._lines) + 1):
                stored |= {
                    f"{FULL}{name}": tensor
                    for name, tensor in unique.items()
                    if stored[name].numel() < tensor.numel()
                }
        for name, tensor in stored.items():
            _require_finite(name, tensor)
        return pack(stored, {"step": step, "names": ties, "shapes": shapes})

    @torch.no_grad()
    def _project(self, name: str, tensor: Tensor, sketch: Sketch) -> Tensor:
        key = (sketch, name, tensor.shape, tensor.device)
        if key not in self._projections:
            self._projections[key] = sketch.projection(name, tensor.shape, tensor.device)
        return self._projections[key](tensor)

    def _read(self, step: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
        place = bisect.bisect_left(self._lines, step, key=operator.attrgetter("step"))
        if place == len(self._lines) or self._lines[place].step != step:
            near = " and ".join(str(line.step) for line in self._lines[max(place - 1, 0) : place + 1])
            raise ValueError(f"{self.folder} has no snapshot of step {step}; the nearest: {near or 'none'}")
        sha256 = self._lines[place].sha256
        return (
            ({"names": {}, "shapes": {}}, {})
            if sha256 is None
            else verified(self._weights_path(step), sha256)
        )

    def _matrices(self) -> list[str]:
        step = self._first_with_weights()
        shapes = self._read(step)[0]["shapes"] if step is not None else {}
        return [name for name, shape in shapes.items() if len(shape) > 1] or list(shapes)

    def _losses(self, steps: np.ndarray) -> np.ndarray | None:
        table = self.metrics()
        if "loss" not in table:
            return None
        known = table.groupby("step")["loss"].mean().dropna()
        return np.interp(steps, known.index, known) if len(known) else None


# --- opening ----------------------------------------------------------------------------------------


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Open a run for reading; another process may be writing it.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run.
    DamagedRunError
        If ``run.json`` or a line of the log is damaged. Weights are verified when they are read.
    """
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
        lock = WriterLock(path)
    except BusyRunError:
        return False
    try:
        path.rename(done)
        shutil.rmtree(done, ignore_errors=True)  # another process may be at it too
    finally:
        lock.release()
    return True


def _begin(folder: Path, config: Any, sketch: Sketch | None) -> None:
    for name in (WEIGHTS, STATES):
        (folder / name).mkdir(exist_ok=True)
    (folder / LOG).touch()
    content = {
        "format": FORMAT,
        "config": config,
        "sketch": sketch and dataclasses.asdict(sketch),
        "versions": VERSIONS,
    }
    write_whole(folder / RUN, sealed(content), folder / PARTIAL)  # from here on it is a run
    flush_folder(folder)


def _states(folder: Path) -> list[Path]:
    """Files of states by step, the newest last."""
    return sorted((folder / STATES).glob("[0-9]*.safetensors"))


def _as_json(config: Any) -> Any:
    """`config` after a round trip through JSON: tuples are lists, keys are text."""
    try:
        return json.loads(json.dumps(config, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"a run's configuration must be JSON, {error}: use dataclasses.asdict, str or tolist()"
        ) from error


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """Sentences such as ``config.seed is 0 there and 1 now``, one a leaf in which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(
                old.get(key, "absent"), new.get(key, "absent"), f"{name}.{key}".lstrip(".")
            )
    elif old != new or isinstance(old, bool) != isinstance(new, bool):  # True is no 1, yet 1 is 1.0
        yield f"{name} is {str(old)[:80]} there and {str(new)[:80]} now"


def _read_run_file(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {content['format']}, not {FORMAT}: move the run away")
        return opened(path.read_bytes())
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedRunError(f"{path} can't be read: {error}") from error


def _as_array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _require_finite(name: str, tensor: Tensor) -> None:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return
    # eight-bit floats can't be asked
    finite = torch.isfinite(tensor.float() if tensor.element_size() == 1 else tensor)
    if not finite.all():
        raise ValueError(f"{name!r} is NaN or infinite in {(~finite).sum()} of {finite.numel()} places")
