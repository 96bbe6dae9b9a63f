"""Paths of weights: snapshots of a matrix through training, rotated into as few numbers as they span.

S snapshots span at most S - 1 dimensions about their mean, however many weights there are. :func:`rotate`
turns a path into those, exactly: every distance, and with it every nearest neighbour, principal component
and reconstruction error, stays what it was, and all that follows costs the same for any matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from embviz.arrays import check_array
from embviz.runs.paths import WeightPath as WeightPath
from embviz.runs.paths import weight_path as weight_path

CHUNK = 16_384  # weights at a time, where all snapshots of all of them in float64 would not fit


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
    if not paths:
        raise ValueError("there is no path to join")
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
    if n < 4:
        raise ValueError(f"{n} points: give four at least")
    time = (np.arange(n) + 0.5) / n
    centered = points - points.mean(axis=0)
    if not centered.any():
        raise ValueError("the path doesn't move: it has no shape")
    waves = np.cos(np.pi * time[:, None] * np.array([1, 2]))
    basis = np.linalg.qr(waves - waves.mean(axis=0)).Q  # (S, 2)
    return float(((basis.T @ centered) ** 2).sum() / (centered**2).sum())
