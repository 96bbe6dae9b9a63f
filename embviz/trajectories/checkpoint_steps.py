"""Training steps of checkpoints, read from their names or from what lies beside the weights."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

NUMBER = r"(\d+(?:\.\d+)?(?:e\d+)?)(k|m|b)?(?![a-z\d])"
LABELS = ("global[-_ ]?steps?", "(?<![a-z])steps?", "iter(?:ation)?s?", "checkpoints?", "ckpt")
UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
STATE = "trainer_state.json"  # of Hugging Face's Trainer, in a checkpoint's folder


def steps_of(paths: Sequence[Path]) -> list[int]:
    """The training step of each checkpoint.

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
    for find in (_labelled, lambda _: _stated(paths), _varying):
        steps = find(names)
        if steps is not None:
            break
    else:
        raise ValueError(_ambiguous(names))
    for name, step in zip(names, steps, strict=True):
        if step != int(step):
            raise ValueError(f"{name}: its step would be {step:g}, which is no whole number: give steps=")
    whole = [int(step) for step in steps]
    if len(set(whole)) < len(whole):
        twice = next(step for step in whole if whole.count(step) > 1)
        both = [name for name, step in zip(names, whole, strict=True) if step == twice]
        raise ValueError(f"{both[0]} and {both[1]} are both read as step {twice}: give steps=")
    return whole


def _value(found: tuple[str, str]) -> float:
    return float(found[0]) * UNITS[found[1].lower()]


def _labelled(names: Sequence[str]) -> list[float] | None:
    """Numbers after the first label that every name has."""
    for label in LABELS:
        pattern = re.compile(f"{label}[-_=. ]*{NUMBER}", re.IGNORECASE)
        found = [pattern.search(name) for name in names]
        if all(found):
            return [_value((one[1], one[2] or "")) for one in found if one]
    return None


def _stated(paths: Sequence[Path]) -> list[float] | None:
    """``global_step`` of Trainer's state in each folder."""
    steps = []
    for path in paths:
        try:
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            steps.append(float(state["global_step"]))
        except (OSError, KeyError, TypeError, ValueError):
            return None
    return steps


def _varying(names: Sequence[str]) -> list[float] | None:
    """The one number that differs, where names are alike otherwise."""
    values = [[_value(found) for found in _numbers(name)] for name in names]
    if len({len(row) for row in values}) != 1:
        return None
    columns = [column for column in zip(*values, strict=True) if len(set(column)) > 1]
    return list(columns[0]) if len(columns) == 1 else None


def _numbers(name: str) -> list[tuple[str, str]]:
    return [(found[1], found[2] or "") for found in re.finditer(NUMBER, name, re.IGNORECASE)]


def _ambiguous(names: Sequence[str]) -> str:
    numbers = [[found[0] + found[1] for found in _numbers(name)] for name in names[:3]]
    if not any(numbers):
        return f"{names[0]} has no number that could be its step: give steps="
    shown = "; ".join(
        f"{name}: {', '.join(own) or 'none'}" for name, own in zip(names, numbers, strict=False)
    )
    return f"which number is the step cannot be told from the names ({shown}): give steps="
