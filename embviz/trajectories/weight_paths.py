"""Paths of weights: snapshots of a matrix through training, rotated into as few numbers as they span.

S snapshots span at most S - 1 dimensions about their mean, however many weights there are. :func:`rotate`
turns a path into those, exactly: every distance, and with it every nearest neighbour, principal component
and reconstruction error, stays what it was, and all that follows costs the same for any matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from embviz.arrays import check_array

CHUNK = 16_384  # weights at a time, where all snapshots of all of them in float64 would not fit


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
        Left out, or all NaN, where no losses were recorded: weights alone are looked at. At step 0, before
        any update, NaN stands for the loss of the first one.

    Returns
    -------
    WeightPath

    Examples
    --------
    >>> weight_path("query", np.zeros((4, 2, 3)), steps=[0, 10, 20, 30], losses=[3, 2, 2, 1]).weights.shape
    (4, 6)
    """
    steps = check_array(steps, f"{name}: steps", 1, kind="number")
    if not isinstance(snapshots, np.ndarray):
        snapshots = np.stack([check_array(one, f"{name}: a snapshot", kind="floating") for one in snapshots])
    flat = snapshots.reshape(len(snapshots), -1)  # not copied
    weights = check_array(flat, f"{name}: snapshots", 2, kind="floating")
    known = (
        np.full(len(steps), math.nan) if losses is None else np.array(losses)
    )  # a copy: it may be filled in
    if known.dtype.kind != "f" or isinstance(losses, np.ma.MaskedArray):
        known = check_array(losses, f"{name}: losses", 1).astype(float)
    if not len(weights) == len(steps) == len(known):
        raise ValueError(
            f"{name}: {len(weights)} snapshots, {len(steps)} steps, {len(known)} losses: give one of each"
        )
    if len(weights) < 3 or (np.diff(steps) <= 0).any():
        raise ValueError(f"{name}: a path has three snapshots or more, at increasing steps, got {steps}")
    if steps[0] == 0 and np.isnan(known[0]) and not np.isnan(known[1:]).any():
        known[0] = known[1]  # before any update there is the first one's loss
    if not np.isnan(known).all():
        known = check_array(known, f"{name}: losses", 1)
    return WeightPath(name, steps, known, weights, weights.shape[1])


def rotate(path: WeightPath, *, device: str = "cpu") -> WeightPath:
    """The same path in at most S - 1 coordinates: its mean at 0, its principal axes, all distances kept.

    Parameters
    ----------
    path : WeightPath
    device : str
        Where the S x S inner products are computed, in float64.

    Returns
    -------
    WeightPath
        Weights (S, K) in units of the weights, the widest axis first; the coordinate largest in magnitude
        is positive. Axes of no more than rounding errors (1e-7 of the widest) are left out.
    """
    if path.rotated:
        return path
    # the inner products X X' of centred snapshots are S x S, however many weights there are; their
    # eigenvectors are the scores on the principal axes, and their eigenvalues the scores' squared lengths
    gram = _inner_products(path.weights, device)
    squares, axes = (part.cpu().numpy()[..., ::-1] for part in torch.linalg.eigh(gram))  # the widest first
    if squares[0] <= 0:
        raise ValueError(
            f"{path.name}: all {len(squares)} snapshots are the same: nothing moved. (AdamW multiplies "
            "weight decay by the learning rate: at rate 0 not even decay moves a weight)"
        )
    kept = squares > 1e-14 * squares[0]
    scores = axes[:, kept] * np.sqrt(squares[kept])
    extreme = scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])]
    scores = np.ascontiguousarray(scores * np.where(extreme < 0, -1, 1))
    return WeightPath(path.name, path.steps, path.losses, scores, path.n_weights, rotated=True)


def _inner_products(weights: np.ndarray, device: str) -> Tensor:
    """Inner products (S, S) of snapshots about their mean.

    The first snapshot is subtracted before: what doesn't move is then exactly 0.
    """
    n = len(weights)
    gram = torch.zeros(n, n, dtype=torch.float64, device=device)
    for start in range(0, weights.shape[1], CHUNK):
        part = torch.from_numpy(np.ascontiguousarray(weights[:, start : start + CHUNK])).to(device).double()
        part -= part[0].clone()
        gram.addmm_(part, part.mT)
    means = gram.mean(0)
    return gram - means - means[:, None] + means.mean()


def join(paths: Sequence[WeightPath], name: str = "all") -> WeightPath:
    """Several tensors as one path, each scaled so that all move equally far in mean square.

    Parameters
    ----------
    paths : sequence of WeightPath
        Of one run: the same steps and losses. Rotated ones are smaller and give the same distances.
    name : str
    """
    for path in paths[1:]:
        if not np.array_equal(path.steps, paths[0].steps) or not np.array_equal(
            path.losses, paths[0].losses, equal_nan=True
        ):
            raise ValueError(
                f"{path.name} and {paths[0].name} differ in steps or losses: join tensors of one run"
            )
    if still := [path.name for path in paths if path.total == 0]:
        raise ValueError(f"{', '.join(still)} never moved: leave it out")
    parts = [path.weights / math.sqrt(path.total) for path in paths]
    return WeightPath(
        name, paths[0].steps, paths[0].losses, np.hstack(parts), sum(path.n_weights for path in paths)
    )


def cosine_share(points: ArrayLike) -> float:
    """The two-arm figure: how much of a path's variance two half and whole turns of a cosine of time hold.

    The first principal components of a long random walk in many dimensions are cosines of time, cos(pi k t),
    and the plane of the first two is the parabola with two arms that is called a horseshoe. So a high share
    says that a path is smooth in time, and nothing about training: hold it against a walk's.

    Parameters
    ----------
    points : array, shape (S, D)
        A layout, a bottleneck or rotated weights; turning or scaling them changes nothing.

    Returns
    -------
    float in 0..1; 2 / (S - 1) for points without any order

    Source
    ------
    Antognini & Sohl-Dickstein (2018), PCA of high dimensional random walks.

    Examples
    --------
    >>> t = (np.arange(50) + 0.5) / 50
    >>> round(cosine_share(np.stack([3 * np.cos(np.pi * t), np.cos(2 * np.pi * t)], axis=1)), 6)
    1.0
    """
    points = check_array(points, "points", 2)
    n = len(points)
    time = (np.arange(n) + 0.5) / n
    centered = points - points.mean(axis=0)
    if not centered.any():
        raise ValueError("the path doesn't move: it has no shape")
    waves = np.cos(np.pi * time[:, None] * np.array([1, 2]))
    basis = np.linalg.qr(waves - waves.mean(axis=0)).Q  # (S, 2)
    return float(((basis.T @ centered) ** 2).sum() / (centered**2).sum())
