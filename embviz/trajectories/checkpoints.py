"""Checkpoints that another program left: the path of every tensor, with the losses that it logged."""

from __future__ import annotations

import glob
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from embviz.arrays import check_array
from embviz.corpora.registry import named_path
from embviz.files.weights import Weights
from embviz.inspection import read_weights
from embviz.runs import Run, Sketch, read_run
from embviz.runs.run import is_run
from embviz.runs.tensors import matching
from embviz.trajectories.weight_paths import WeightPath, weight_path

STATE = "trainer_state.json"  # of Hugging Face's Trainer, in a checkpoint's folder
NUMBER = r"(\d+(?:\.\d+)?(?:e\d+)?)(k|m|b)?(?![a-z\d])"
LABELS = ("global[-_ ]?steps?", "(?<![a-z])steps?", "iter(?:ation)?s?", "checkpoints?", "ckpt")
UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
TOGETHER = 2**26  # weights whose maps are in memory together, unless a single tensor has more
Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_checkpoints(
    source: Source,
    tensors: str | Sequence[str] | None = "*",
    *,
    steps: ArrayLike | Callable[[Path], int] | None = None,
    losses: ArrayLike | Mapping[int, float] | None = None,
    sketch: int | Sketch | None = None,
    progress: bool = False,
) -> dict[str, WeightPath]:
    """Paths of a model's tensors through its checkpoints.

    Parameters
    ----------
    source : path, glob pattern, or paths
        The folder of a run (:class:`embviz.runs.Run`), or one with checkpoints in it (``checkpoint-500``,
        ...), a pattern such as ``"run/step*.pt"``, or the checkpoints themselves: whatever
        :func:`embviz.inspection.read_weights` reads.
    tensors : glob pattern or patterns
        Names, as in ``"*.attn.*"``; each must match. Tensors of one number are left out. None: all matrices.
    steps : array of int, shape (S,), or function of a path, optional
        In the order of `source`; by default read from the names (:func:`steps_of`).
    losses : array (S,), or mapping of steps to losses, optional
        By default those that Trainer logged (trainer_state.json), between two entries by a straight line;
        without a log, or where it does not reach from the first to the last step, they are not known.
    sketch : int or Sketch, optional
        Numbers to keep of a tensor, as a recorder does; by default all. Then no more than some tensors of one
        checkpoint are in memory at a time, with five bytes a weight for their maps.
    progress : bool
        Show a bar.

    Returns
    -------
    dict of name to WeightPath, in order of the steps
    """
    if isinstance(source, str | os.PathLike) and is_run(named_path(source)):
        if steps is not None or losses is not None:
            raise ValueError(f"{source} is a run, which has steps and losses: leave steps= and losses= out")
        return _of_run(read_run(named_path(source)), tensors, sketch)
    paths = _found(source)
    if callable(steps):
        steps = [steps(path) for path in paths]
    told = steps_of(paths) if steps is None else check_array(steps, "steps", 1, kind="integer").tolist()
    losses = [losses[step] for step in told] if isinstance(losses, Mapping) else losses
    known = None if losses is None else check_array(losses, "losses", 1)
    if len(told) != len(paths) or (known is not None and len(known) != len(paths)):
        raise ValueError(f"{len(paths)} checkpoints: give as many steps ({len(told)}) and losses")
    order = np.argsort(told, kind="stable")
    known = None if known is None else known[order]
    paths, told = [paths[place] for place in order], [told[place] for place in order]
    known = _logged(paths[-1], told) if known is None else known
    first = read_weights(paths[0])
    names = _chosen(first, [tensors] if isinstance(tensors, str) else tensors)
    shapes = {name: first.arrays[name].shape for name in names}
    sketch = Sketch(sketch) if isinstance(sketch, int) else sketch
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    kept = {name: min(size, sketch.size) if sketch else size for name, size in sizes.items()}
    rows = {name: np.empty((len(paths), n_numbers), dtype=np.float32) for name, n_numbers in kept.items()}
    del first
    groups = _groups(sizes) if sketch else [names]
    bar = tqdm(desc="checkpoints", total=len(groups) * len(paths), disable=not progress)
    for group in groups:
        maps = {name: sketch.projection(name, shapes[name]) for name in group} if sketch else {}
        for place, path in enumerate(paths):
            for name, array in _checked_arrays(path, shapes, paths[0].name, group):
                rows[name][place] = (
                    maps[name](torch.from_numpy(np.require(array, requirements="W")))
                    if maps
                    else array.reshape(-1)
                )
            bar.update()
    bar.close()
    return {name: weight_path(name, own, told, known) for name, own in rows.items()}


def _of_run(
    run: Run, tensors: str | Sequence[str] | None, sketch: int | Sketch | None
) -> dict[str, WeightPath]:
    """Losses are the metric "loss", the mean over members; between those known, a straight line."""
    if tensors is None:
        tensors = [name for name, shape in run.shapes.items() if len(shape) > 1] or list(run.shapes)
    rows = run.tensors(tensors, sketch=Sketch(sketch) if isinstance(sketch, int) else sketch)
    steps = np.array(run.stored_steps)
    table, losses = run.metrics(), None
    if "loss" in table:
        known = table.groupby("step")["loss"].mean().dropna()
        losses = np.interp(steps, known.index, known) if len(known) else None
    return {name: weight_path(name, array, steps, losses) for name, array in rows.items()}


def _groups(sizes: Mapping[str, int]) -> list[list[str]]:
    """Tensors in their order, in groups of :data:`TOGETHER` weights at most, or of one tensor."""
    groups: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if size > room:
            groups.append([])
            room = TOGETHER
        groups[-1].append(name)
        room -= size
    return groups


def _checked_arrays(
    path: Path, shapes: Mapping[str, tuple[int, ...]], first: str, names: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Some tensors of a checkpoint one after another, if all have the shapes of the first's."""
    arrays = read_weights(path).arrays
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            there = arrays[name].shape if name in arrays else "none"
            raise ValueError(f"{path}: {name!r} has shape {there}, in {first} it has {shape}")
    for name in names:
        yield name, arrays[name].read()


def steps_of(paths: Sequence[Path]) -> list[int]:
    """The training step of each checkpoint, read from its name or from what lies beside the weights.

    A number after "global_step", "step", "iter" or "checkpoint" is the step (k, m and e3 are understood);
    else the ``global_step`` of Trainer's own state; else the one number that differs from name to name.

    Examples
    --------
    >>> steps_of([Path(f"epoch={n}-step={n}00-val_loss=2.{n}.ckpt") for n in range(3)])
    [0, 100, 200]
    >>> steps_of([Path("gpt2-5k.pt"), Path("gpt2-10k.pt"), Path("gpt2-1e5.pt")])
    [5000, 10000, 100000]
    """
    names = [path.stem if re.fullmatch(r"\.[a-z]\w*", path.suffix) else path.name for path in paths]
    steps = _labelled(names) or _stated(paths) or _varying(names)
    if not steps:
        raise ValueError(f"which number is the step cannot be told from {', '.join(names[:3])}: give steps=")
    if any(step != int(step) for step in steps) or len(set(steps)) < len(steps):
        read = ", ".join(f"{name}: {step:g}" for name, step in zip(names, steps, strict=True))
        raise ValueError(f"steps must be different whole numbers, and the names say {read}: give steps=")
    return [int(step) for step in steps]


def _numbers(name: str, before: str = "") -> list[float]:
    """Numbers in a name, those after a label alone where one is given; 5k is 5,000."""
    found = re.finditer(before + NUMBER, name, re.IGNORECASE)
    return [float(one[1]) * UNITS[(one[2] or "").lower()] for one in found]


def _labelled(names: Sequence[str]) -> list[float]:
    """Numbers after the first label that every name has."""
    for label in LABELS:
        found = [_numbers(name, f"{label}[-_=. ]*") for name in names]
        if all(found):
            return [numbers[0] for numbers in found]
    return []


def _stated(paths: Sequence[Path]) -> list[float]:
    """``global_step`` of Trainer's state in each folder."""
    states = [path / STATE for path in paths]
    if not all(state.is_file() for state in states):
        return []
    return [float(json.loads(state.read_text(encoding="utf-8"))["global_step"]) for state in states]


def _varying(names: Sequence[str]) -> list[float]:
    """The one number that differs, where names are alike otherwise."""
    values = [_numbers(name) for name in names]
    if len({len(row) for row in values}) != 1:
        return []
    columns = [column for column in zip(*values, strict=True) if len(set(column)) > 1]
    return list(columns[0]) if len(columns) == 1 else []


def _found(source: Source) -> list[Path]:
    if not isinstance(source, str | os.PathLike):
        paths = [Path(path) for path in source]
    elif Path(source).is_dir():
        inside = sorted(Path(source).iterdir())
        paths = [path for path in inside if re.search(r"\d", path.stem) and not path.name.startswith(".")]
    else:
        paths = _matching_files(Path(source))
        if not paths:
            raise FileNotFoundError(f"there is no file or folder {source}")
    if len(paths) < 3:
        raise ValueError(
            f"{len(paths)} checkpoints of {source} are too few for a path: at least three are needed"
        )
    return paths


def _matching_files(pattern: Path) -> list[Path]:
    """Files of a pattern; the folders in it that are there, and a file, are meant by their names."""
    if pattern.exists():
        return [pattern]
    there = next((folder for folder in pattern.parents if folder.is_dir()), Path())
    rest = pattern.relative_to(there)
    return sorted(Path(path) for path in glob.glob(os.path.join(glob.escape(str(there)), str(rest))))


def _logged(last: Path, steps: Sequence[int]) -> np.ndarray | None:
    """Losses at these steps from the log beside the last checkpoint's weights."""
    log = last / STATE
    if not log.is_file():
        return None
    try:
        entries = json.loads(log.read_text(encoding="utf-8"))["log_history"]
        logged = {int(entry["step"]): float(entry["loss"]) for entry in entries if "loss" in entry}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{log} is no log of Trainer's ({error}): give losses=") from error
    if not logged:
        return None
    at = sorted(logged)
    if unknown := [step for step in steps if not at[0] <= step <= at[-1]]:
        warnings.warn(
            f"{log} logs losses from step {at[0]} to {at[-1]}, and there are checkpoints of other steps "
            f"({', '.join(map(str, unknown[:5]))}): no loss is used; give losses=, or leave these out",
            stacklevel=3,
        )
        return None
    return np.interp(steps, at, [logged[step] for step in at])


def _chosen(weights: Weights, patterns: Sequence[str] | None) -> list[str]:
    shapes = {name: array.shape for name, array in weights.arrays.items() if math.prod(array.shape) > 1}
    if patterns is None and (names := [name for name, shape in shapes.items() if len(shape) > 1]):
        return names
    return matching(list(shapes), patterns or ["*"])
