"""A path of weights: snapshots of a tensor through training, checked, with the loss at each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from embviz.arrays import check_array


@dataclass(frozen=True, eq=False)
class WeightPath:
    """Snapshots of one tensor, or of several side by side, with the training loss at each.

    Made by :func:`weight_path`, or of a recording, of checkpoints, or by a null.
    """

    name: str
    steps: np.ndarray  # (S,) updates made, increasing
    losses: np.ndarray  # (S,), NaN where they are not known at all
    weights: np.ndarray  # (S, P)
    n_weights: int  # those of the tensor: P before a rotation
    rotated: bool = False  # its mean is 0, its axes the principal ones

    @property
    def has_losses(self) -> bool:
        """Whether losses are recorded and differ: without them nothing is predicted or coupled."""
        return bool(np.isfinite(self.losses).all() and np.ptp(self.losses) > 0)

    @property
    def total(self) -> float:
        """Mean squared distance from the mean snapshot."""
        weights = self.weights.astype(float)
        return float(((weights - weights.mean(axis=0)) ** 2).sum() / len(weights))


def weight_path(
    name: str,
    snapshots: Iterable[ArrayLike | Tensor],
    steps: ArrayLike,
    losses: ArrayLike | None = None,
) -> WeightPath:
    """Check snapshots of a tensor, and flatten them.

    Parameters
    ----------
    name : str
        The tensor's, for messages.
    snapshots : S arrays or tensors of one shape, or one array (S, ...)
        Three or more, finite: weights, or a sketch of them.
    steps : array of int, shape (S,), increasing
    losses : array, shape (S,), optional
        All NaN, as a recorder writes them that was told none, or left out: weights alone are looked at. At
        step 0, where no update has been, NaN stands for the loss of the first one.

    Returns
    -------
    WeightPath

    Examples
    --------
    >>> weight_path("query", np.zeros((4, 2, 3)), steps=[0, 10, 20, 30], losses=[3, 2, 2, 1]).weights.shape
    (4, 6)
    """
    steps = check_array(steps, f"{name}: steps", 1, kind="number")
    losses = _told(name, steps, losses)
    try:
        rows = list(snapshots)
    except TypeError as error:
        raise ValueError(f"{name}: snapshots are no arrays, one a step: {error}") from error
    if not len(rows) == len(steps) == len(losses):
        raise ValueError(
            f"{name}: {len(rows)} snapshots, {steps.shape} steps, {losses.shape} losses: give one of each"
        )
    if len(rows) < 3:
        raise ValueError(f"{name}: {len(rows)} snapshots are too few for a path: take at least three")
    if (np.diff(steps) <= 0).any():
        raise ValueError(f"{name}: steps must increase: sort snapshots, and drop those taken twice")
    arrays = [
        check_array(row, f"{name}: the snapshot of step {step}", kind="floating", empty=True)
        for step, row in zip(steps, rows, strict=True)
    ]
    for step, array in zip(steps, arrays, strict=True):
        if array.shape != arrays[0].shape:
            raise ValueError(
                f"{name}: the snapshot of step {step} has shape {array.shape}, of step {steps[0]} "
                f"{arrays[0].shape}: one path holds one shape; a tensor that was resized starts a new path"
            )
    if arrays[0].size == 0:
        raise ValueError(f"{name} has no weights: the shape of its snapshots is {arrays[0].shape}")
    if isinstance(snapshots, np.ndarray) and snapshots.dtype == arrays[0].dtype:
        weights = np.asarray(snapshots).reshape(len(steps), -1)  # not copied
    else:
        weights = np.stack([array.reshape(-1) for array in arrays])
    return WeightPath(name, steps, losses, weights, weights.shape[1])


def _told(name: str, steps: np.ndarray, losses: ArrayLike | None) -> np.ndarray:
    """Losses (S,), all NaN if none was recorded; step 0, before any update, has the first loss."""
    given = np.full(len(steps), math.nan) if losses is None else np.asarray(losses)
    plain = given.shape == (len(steps),) and np.issubdtype(given.dtype, np.floating)
    if not plain or isinstance(losses, np.ma.MaskedArray):
        return check_array(losses, f"{name}: losses", 1)
    missing = np.isnan(given)
    if missing.all():
        return given.astype(float)
    if steps[0] == 0 and missing[0] and not missing[1:].any():
        given = np.concatenate([given[1:2], given[1:]])
    elif missing.any():
        raise ValueError(
            f"{name}: losses has {missing.sum()} NaN or infinite of {len(given)}: tell the loss of every "
            "snapshot, or give losses=None and look at weights alone"
        )
    return check_array(given, f"{name}: losses", 1)
