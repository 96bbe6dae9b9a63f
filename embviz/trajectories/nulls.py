"""Controls for weight trajectories, and trajectories compared with each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import linalg

from embviz.arrays import check_array
from embviz.metrics import procrustes_disparity
from embviz.trajectories.phases import couple, path_steps, sharpness, transitions
from embviz.trajectories.traces import Recipe, Trace, trace
from embviz.trajectories.weight_paths import WeightPath, cosine_share, rotate

# --- random walks -----------------------------------------------------------------------------------


def step_correlations(path: WeightPath, n_lags: int) -> np.ndarray:
    """Momentum: mean cosine between a step and the k-th after it, k = 0..n_lags; (n_lags + 1,).

    Sums are divided by the number of all steps whatever the lag, so that a process with these correlations
    exists; steps that don't move count as at right angles to all others.
    """
    directions, _ = _directions(path)
    n = len(directions)
    sums = [np.einsum("sp,sp->", directions[: n - k], directions[k:]) for k in range(n_lags + 1)]
    return np.array(sums) / sums[0]


def _directions(path: WeightPath) -> tuple[np.ndarray, np.ndarray]:
    """Unit steps (S - 1, P) and their lengths (S - 1,)."""
    moves = np.diff(path.weights.astype(float), axis=0)
    lengths = np.linalg.norm(moves, axis=1)
    if not lengths.any():
        raise ValueError(f"{path.name}: nothing moved, so a random walk of its steps wouldn't either")
    return moves / np.where(lengths > 0, lengths, 1)[:, None], lengths


def random_walk(
    path: WeightPath,
    *,
    seed: int | np.random.Generator,
    n_lags: int = 1,
    step_covariance: bool = False,
) -> WeightPath:
    """A walk with a path's step lengths, momentum, number of weights and losses, and no other aim.

    Directions are a Gaussian process in the space of all weights, autoregressive of order `n_lags`: its
    steps correlate as the path's do up to that lag. 0 is a walk without momentum, 1 has the momentum of
    successive steps and lets it fade, so that a slow drift in one direction is not in it; with S - 2, all
    lags there are, it drifts as far, in a direction that is chance.

    By default all directions are equally likely, while a path in training moves more in some than in
    others. With `step_covariance` the walk does so too: its directions have the second moments of the
    path's steps, each scaled to length 1. What a path has above such a walk is not explained by the
    directions in which it moves, only by when it moves there.

    Parameters
    ----------
    path : WeightPath, rotated or not
    seed : int or Generator
    n_lags : int
    step_covariance : bool, default False
        Draw directions with the covariance of the path's own.

    Returns
    -------
    WeightPath
        In at most S - 1 coordinates, distributed exactly as a walk among all `n_weights` is after a
        rotation: the inner products of n Gaussian vectors are a Wishart matrix, drawn by its factor.
        With `step_covariance` in the path's coordinates: sums of its steps with Gaussian weights.

    Source
    ------
    Bartlett (1933) for the factor; Yule-Walker for the momentum.
    """
    directions, lengths = _directions(path)
    n, rng = len(lengths), np.random.default_rng(seed)
    correlations = _extend(step_correlations(path, n_lags), n)
    if step_covariance:
        noise = rng.standard_normal((n, n)) @ directions
    else:
        noise = _gaussian_vectors(n, path.n_weights, rng)
    # rows of L z have covariance L L' = the Toeplitz matrix: steps k apart correlate as the path's do
    moves = np.linalg.cholesky(linalg.toeplitz(correlations)) @ noise
    moves *= (lengths / np.linalg.norm(moves, axis=1))[:, None]
    weights = np.concatenate([np.zeros((1, moves.shape[1])), moves.cumsum(axis=0)])
    kind = "random walk, same step covariance, like" if step_covariance else "random walk like"
    return replace(path, name=f"{kind} {path.name}", weights=weights, rotated=False)


def _extend(correlations: np.ndarray, n: int) -> np.ndarray:
    """Correlations at lags 0..n - 1 of the autoregressive process that has the given first ones."""
    order = len(correlations) - 1
    extended = np.zeros(max(n, order + 1))
    extended[: order + 1] = correlations
    if order:
        # a path on a straight line has correlations of a singular process: kept just inside
        column = correlations[:-1] + np.where(np.arange(order) == 0, 1e-9, 0.0)
        coefficients = linalg.solve_toeplitz(column, correlations[1:])
        for lag in range(order + 1, n):
            extended[lag] = coefficients @ extended[lag - order : lag][::-1]
    extended[0] += 1e-9
    return extended[:n]


def _gaussian_vectors(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """n standard Gaussian vectors of `dim` entries, turned into at most n coordinates; (n, min(n, dim))."""
    if dim <= n:
        return rng.standard_normal((n, dim))
    # Bartlett: of n Gaussian vectors in their own triangular basis, entries below the diagonal are standard
    # normal, and the diagonal is the length that is left in the dimensions that remain
    factor = np.tril(rng.standard_normal((n, n)), -1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(dim - np.arange(n))))
    return factor


def shuffled_losses(path: WeightPath, *, seed: int | np.random.Generator) -> WeightPath:
    """The same weights with losses in random order: what an autoencoder predicts then, it has remembered."""
    losses = np.random.default_rng(seed).permutation(path.losses)
    return replace(path, name=f"{path.name}, losses shuffled", losses=losses)


# --- the same pipeline ------------------------------------------------------------------------------


def measure(traced: Trace, *, seed: int = 0, n_permutations: int = 999) -> dict[str, object]:
    """Numbers of a trace: one row in a table of trajectories, or of a trajectory and its controls.

    Parameters
    ----------
    traced : Trace
    seed : int
        Of the permutations of :func:`~embviz.trajectories.couple`, whose defaults for lag and block are
        taken, or as much as a short path allows.

    Returns
    -------
    dict
        ``name``, ``reconstruction`` and ``prediction`` errors, ``n_phases``, ``noise``, ``dbcv``,
        ``n_transitions``, ``sharpness`` of weights and ``layout_sharpness``, ``cosine_share`` of the layout
        and ``weight_cosine_share``, ``loss_correlation`` at its ``loss_lag`` with ``loss_p`` (of layout steps
        with drops of the loss; None where all drops are equal), and ``notes``.
        A random walk's ``sharpness`` is its path's by construction; its ``layout_sharpness`` is not.
    """
    path, found = traced.path, traced.phases
    errors = None if traced.behaviour is None else traced.behaviour.errors
    moves, drops = path_steps(traced.layout), -np.diff(path.losses)
    coupling = None
    if path.has_losses and np.ptp(moves) > 0 and np.ptp(drops) > 0:
        coupling = couple(
            moves,
            path.losses,
            seed=seed,
            max_lag=min(10, len(moves) // 2 - 1),
            block=min(20, len(moves) // 4),
            n_permutations=n_permutations,
        )
    return {
        "name": path.name,
        "reconstruction": None if errors is None else errors.reconstruction,
        "prediction": None if errors is None else errors.prediction,
        "n_phases": found.n_phases,
        "noise": found.noise,
        "dbcv": found.dbcv,
        "n_transitions": len(transitions(found.labels, path.steps)),
        "sharpness": sharpness(path.weights).share,
        "layout_sharpness": sharpness(traced.layout).share,
        "cosine_share": cosine_share(traced.layout),
        "weight_cosine_share": cosine_share(path.weights),
        "loss_correlation": None if coupling is None else coupling.correlation,
        "loss_lag": None if coupling is None else coupling.lag,
        "loss_p": None if coupling is None else coupling.p,
        "notes": "; ".join(traced.notes),
    }


@dataclass(frozen=True)
class Left:
    """What is left of a value after its control, and over the control's draws."""

    value: float  # after the mean draw
    low: float  # after the draw that leaves least
    high: float  # after the draw that leaves most


@dataclass(frozen=True, eq=False)
class NullComparison:
    """A trajectory and its controls through the same pipeline."""

    table: pd.DataFrame  # a row per path: kind, draw, columns of `measure`, disparity to the path's layout
    traces: dict[str, Trace]  # by kind and draw, as "random walk 0"

    def shape_left(self) -> Left:
        """The share of the layout's variance that no rotated and scaled layout of a walk explains.

        Its Procrustes disparity to the walks. Hold it against :meth:`shape_among`: a path that is as near to
        the walks as they are to each other has no shape of its own.
        """
        found = self.table.loc[self.table["kind"] == "random walk", "disparity"]
        return Left(float(found.mean()), float(found.min()), float(found.max()))

    def shape_among(self) -> Left | None:
        """Disparity between the layouts of random walks; None for a single one."""
        layouts = [
            one.layout for name, one in self.traces.items() if name.rpartition(" ")[0] == "random walk"
        ]
        if len(layouts) < 2:
            return None
        pairs = itertools.combinations(layouts, 2)
        found = [procrustes_disparity(one, other) for one, other in pairs]
        return Left(float(np.mean(found)), min(found), max(found))


def through_nulls(
    path: WeightPath,
    recipe: Recipe | None = None,
    *,
    seed: int,
    n_draws: int = 3,
    step_covariance: bool = False,
    shuffled: bool = True,
) -> NullComparison:
    """A trajectory, random walks and shuffled losses through the same pipeline.

    Parameters
    ----------
    path : WeightPath
    recipe : Recipe, optional
    seed : int
        Of the pipeline for all; draw i of a null is of seed + i.
    n_draws : int
        Of each null.
    step_covariance : bool
        Draw walks with the path's step covariance too, as kind "random walk, same step covariance".
    shuffled : bool
        Draw shuffled losses too, where losses are known.
    """
    path = rotate(path)
    drawn = [("data", 0, path)]
    walks = {"random walk": False, "random walk, same step covariance": True}
    drawn += [
        (kind, i, random_walk(path, seed=seed + i, step_covariance=own))
        for kind, own in walks.items()
        if step_covariance or not own
        for i in range(n_draws)
    ]
    if shuffled and path.has_losses:
        drawn += [("shuffled losses", i, shuffled_losses(path, seed=seed + i)) for i in range(n_draws)]
    traces = {f"{kind} {i}": trace(one, recipe, seed=seed) for kind, i, one in drawn}
    data, rows = traces["data 0"].layout, []
    for (kind, i, _), traced in zip(drawn, traces.values(), strict=True):
        disparity = procrustes_disparity(data, traced.layout)
        rows.append({"kind": kind, "draw": i, **measure(traced, seed=seed), "disparity": disparity})
    return NullComparison(pd.DataFrame(rows), traces)


# --- one shape or many ------------------------------------------------------------------------------


def disparities(paths: Mapping[str, ArrayLike]) -> pd.DataFrame:
    """Procrustes disparity between all paths of the same snapshots, in a plane or in any one dimension.

    Parameters
    ----------
    paths : mapping from name to array (S, D)
        Layouts, bottlenecks, or rotated weights: over tensors, layers, seeds. Of fewer dimensions than the
        widest, zeros stand for the missing ones.

    Returns
    -------
    DataFrame, square, names on both axes; in 0..1, 0 on the diagonal

    Source
    ------
    Geometry paper, sections 4.2 and 7.1, which say "almost identical" and give no number.
    """
    arrays = {name: check_array(points, f"paths[{name!r}]", 2) for name, points in paths.items()}
    width = max(points.shape[1] for points in arrays.values())
    padded = [np.pad(points, ((0, 0), (0, width - points.shape[1]))) for points in arrays.values()]
    square = np.zeros((len(padded), len(padded)))
    for i, one in enumerate(padded):
        for j in range(i):
            square[i, j] = square[j, i] = procrustes_disparity(one, padded[j])
    return pd.DataFrame(square, index=list(arrays), columns=list(arrays))
