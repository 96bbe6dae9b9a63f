"""Weight trajectories: from snapshots of a matrix through a bottleneck to a layout and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from embviz.arrays import check_array
from embviz.imports import import_pymde, import_umap, require
from embviz.trajectories.autoencoders import Autoencoder, Behaviour, encode_together
from embviz.trajectories.phases import Clustering, Phases, find_phases, require_enough
from embviz.trajectories.weight_paths import WeightPath, rotate

# --- layouts ----------------------------------------------------------------------------------------

ALL_PAIRS = 5_000  # points of which all pairs are looked at: exact neighbours, and 0.6 GB


@dataclass(frozen=True)
class Layout:
    """How points are laid out in two dimensions: the method and its settings."""

    method: Literal["pymde", "pca", "umap"] = "pymde"
    n_neighbors: int = 15  # pulled together; not used by "pca"
    repulsive: float = 1.0  # pairs pushed apart, drawn at random, for each pair of neighbours; PyMDE's own
    max_iter: int = 300  # PyMDE's own
    min_dist: float = 0.1  # UMAP's own

    def __post_init__(self) -> None:
        if self.method not in ("pymde", "pca", "umap"):
            raise ValueError(f'method is {self.method!r}: use "pymde", "pca" or "umap"')


def lay_out(points: ArrayLike, layout: Layout | None = None, *, seed: int) -> np.ndarray:
    """Points in two dimensions.

    Parameters
    ----------
    points : array, shape (S, D)
        A bottleneck, the rotated snapshots themselves, or an embedding. Of more than 5,000 points the
        neighbours are approximate (pynndescent), so that memory grows with S, not with its square.
    layout : Layout, optional
    seed : int
        Of the pairs that PyMDE pushes apart, of approximate neighbours, or of UMAP.

    Returns
    -------
    array, shape (S, 2), without a unit; the same bits for the same seed on one machine

    Source
    ------
    Agrawal, Ali & Boyd (2021), section 4: the distortion of PyMDE's ``preserve_neighbors``. Its start and
    its pairs are drawn here, since it draws them from global generators.
    """
    layout, points = layout or Layout(), check_array(points, "points", 2)
    if layout.method == "pca":
        return principal_coordinates(points)
    if len(points) <= layout.n_neighbors:
        raise ValueError(
            f"{len(points)} snapshots are too few for {layout.n_neighbors} neighbours of each: take more "
            f"snapshots, or n_neighbors below {len(points)}"
        )
    if layout.method == "umap":
        umap: Any = import_umap()
        model = umap.UMAP(
            n_neighbors=layout.n_neighbors, min_dist=layout.min_dist, random_state=seed, n_jobs=1
        )
        n_threads = torch.get_num_threads()
        try:
            return np.asarray(model.fit_transform(points), dtype=float)
        finally:
            torch.set_num_threads(
                n_threads
            )  # starting its own, numba gives PyTorch as many as there are cores
    return _minimum_distortion(points, layout, seed)


def principal_coordinates(points: ArrayLike, n_axes: int = 2) -> np.ndarray:
    """Principal components (S, n_axes); the coordinate largest in magnitude is positive.

    Where D is below `n_axes`, the rest are zeros.
    """
    points = check_array(points, "points", 2)
    centered = points - points.mean(axis=0)
    if not np.ptp(points, axis=0).any():
        raise ValueError("all points are the same: there is nothing to lay out")
    parts = torch.linalg.svd(torch.from_numpy(centered), full_matrices=False)
    left, scales = parts.U.numpy(), parts.S.numpy()
    scores = left[:, :n_axes] * scales[:n_axes]
    extreme = scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])]
    scores = scores * np.where(extreme < 0, -1, 1)
    return np.pad(scores, ((0, 0), (0, n_axes - scores.shape[1])))


def _nearest(points: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Rows (S, n_neighbors), the point itself left out."""
    finder = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(points)
    rows: np.ndarray = finder.kneighbors(return_distance=False)
    return rows


def _nearly_nearest(points: np.ndarray, n_neighbors: int, seed: int) -> np.ndarray:
    """The same by nearest-neighbour descent; where a point has a copy, that may stand for itself."""
    require("trajectories", "pynndescent", purpose="a layout of many points")
    import pynndescent

    found, _ = pynndescent.NNDescent(
        points, n_neighbors=n_neighbors + 1, random_state=seed, low_memory=True
    ).neighbor_graph
    own = np.arange(len(points))[:, None]
    if (found < 0).any():  # none found: rare, and of points far from all others
        found = np.where(found < 0, own, found)
    last = np.argsort(found == own, axis=1, kind="stable")  # the point itself comes last
    rows: np.ndarray = np.take_along_axis(found, last, axis=1)[:, :n_neighbors].astype(np.int64)
    return rows


def _pairs(nearest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i < j of a table of neighbours, and how often each comes; without a point's pair with itself."""
    n_points, n_neighbors = nearest.shape
    own = np.repeat(np.arange(n_points), n_neighbors)
    low, high = np.minimum(own, nearest.ravel()), np.maximum(own, nearest.ravel())
    codes, counts = np.unique((low * n_points + high)[low < high], return_counts=True)
    return np.stack(np.divmod(codes, n_points), axis=1), counts


def _distant_pairs(near: np.ndarray, n_points: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Random pairs i < j that aren't near, `share` times as many as near ones, or all there are."""
    first, second = np.triu_indices(n_points, 1)
    taken = first * n_points + second
    free = np.flatnonzero(~np.isin(taken, near[:, 0] * n_points + near[:, 1], assume_unique=True))
    chosen = rng.choice(free, size=min(len(free), round(share * len(near))), replace=False)
    return np.stack([first[chosen], second[chosen]], axis=1)


def _distant_among_many(
    near: np.ndarray, n_points: int, share: float, rng: np.random.Generator
) -> np.ndarray:
    """The same where near pairs are few among all: drawn, and those that are near or came before left out."""
    wanted, taken = round(share * len(near)), near[:, 0] * n_points + near[:, 1]
    far = np.empty(0, dtype=np.int64)
    while len(far) < wanted:
        drawn = np.sort(rng.integers(n_points, size=(wanted - len(far) + 1_000, 2)), axis=1)
        codes = drawn[:, 0] * n_points + drawn[:, 1]
        codes = codes[(drawn[:, 0] < drawn[:, 1]) & ~np.isin(codes, taken)]
        far = rng.permutation(np.unique(np.concatenate([far, codes])))[:wanted]
    return np.stack(np.divmod(far, n_points), axis=1)


def _minimum_distortion(points: np.ndarray, layout: Layout, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    start = principal_coordinates(points)
    start = start / start.std() + 1e-4 * rng.standard_normal(start.shape)  # no two points in one place
    start -= start.mean(axis=0)  # the constraint
    few = len(points) <= ALL_PAIRS
    near, weight = _pairs(
        _nearest(points, layout.n_neighbors) if few else _nearly_nearest(points, layout.n_neighbors, seed)
    )
    far = (_distant_pairs if few else _distant_among_many)(near, len(points), layout.repulsive, rng)
    pymde = import_pymde()
    # near pairs are pulled together by log(1 + d), as often as they are neighbours; random distant ones are
    # pushed apart by -log(d), which is weak from afar, so that clusters keep their places
    problem = pymde.MDE(
        n_items=len(points),
        embedding_dim=2,
        edges=torch.from_numpy(np.concatenate([near, far])),
        distortion_function=pymde.penalties.PushAndPull(
            torch.tensor(np.concatenate([weight, -np.ones(len(far))]), dtype=torch.float32),
            attractive_penalty=pymde.penalties.Log1p,
            repulsive_penalty=pymde.penalties.Log,
        ),
        constraint=pymde.Centered(),
    )
    rows = torch.from_numpy(np.ascontiguousarray(start, dtype=np.float32))  # its gradient is viewed as a row
    placed = problem.embed(X=rows, max_iter=layout.max_iter)
    return placed.detach().numpy().astype(float)


# --- the pipeline -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """From a path to phases."""

    autoencoder: Autoencoder | None = field(default_factory=Autoencoder)  # None: the rotated snapshots
    layout: Layout = field(default_factory=Layout)
    clustering: Clustering = field(default_factory=Clustering)
    clustered: Literal["layout", "bottleneck"] = "layout"  # where phases are looked for


@dataclass(frozen=True, eq=False)
class Trace:
    """A path, drawn: what the pipeline made of it."""

    path: WeightPath  # rotated
    behaviour: Behaviour | None  # None of a recipe without an autoencoder
    layout: np.ndarray  # (S, 2)
    phases: Phases
    recipe: Recipe
    seed: int

    @property
    def encoded(self) -> np.ndarray:
        """What was laid out: the bottleneck (S, E), or rotated snapshots (S, K)."""
        return self.path.weights if self.behaviour is None else self.behaviour.bottleneck

    @property
    def table(self) -> pd.DataFrame:
        """One row per snapshot: `step`, `x` and `y` of the layout, `phase` (-1 is noise), `loss` in nats."""
        x, y = self.layout.T
        columns = {"step": self.path.steps, "x": x, "y": y, "phase": self.phases.labels}
        return pd.DataFrame(columns | {"loss": self.path.losses})

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must be told: a constant loss, all points noise."""
        told = () if self.behaviour is None else self.behaviour.notes
        return told if self.phases.n_phases else (*told, self.phases.explanation)


def trace(
    path: WeightPath,
    recipe: Recipe | None = None,
    *,
    seed: int,
    device: str = "cpu",
    progress: bool = False,
) -> Trace:
    """Rotate, encode, lay out and find the phases of a path.

    Parameters
    ----------
    path : WeightPath
    recipe : Recipe, optional
    seed : int
        Of the autoencoder and of the layout.
    device : str
        Of the rotation and the autoencoder; a layout of some thousand points is made on the CPU.
    progress : bool
        Show a bar while the autoencoder is trained, which takes the longest.

    Returns
    -------
    Trace

    Source
    ------
    Geometry paper, section 4.1.
    """
    return trace_together([path], recipe, seed=seed, device=device, progress=progress)[0]


def trace_together(
    paths: Sequence[WeightPath],
    recipe: Recipe | None = None,
    *,
    seed: int,
    device: str = "cpu",
    progress: bool = False,
) -> list[Trace]:
    """:func:`trace` of several paths with one autoencoder for all: each is laid out and cut by itself."""
    recipe = recipe or Recipe()
    for path in paths:
        if recipe.layout.method != "pca" and len(path.steps) <= recipe.layout.n_neighbors:
            raise ValueError(
                f"{path.name}: {len(path.steps)} snapshots are too few for {recipe.layout.n_neighbors} "
                "neighbours of each: take snapshots more often, or fewer neighbours"
            )
        require_enough(len(path.steps), recipe.clustering, name=path.name)
    rotated = [rotate(path, device=device) for path in paths]
    seen: list[Behaviour | None] = [None] * len(rotated)
    if recipe.autoencoder is not None:
        seen[:] = encode_together(rotated, recipe.autoencoder, seed=seed, device=device, progress=progress)
    traces = []
    for path, behaviour in zip(rotated, seen, strict=True):
        encoded = path.weights if behaviour is None else behaviour.bottleneck
        plane = lay_out(encoded, recipe.layout, seed=seed)
        phases = find_phases(plane if recipe.clustered == "layout" else encoded, recipe.clustering)
        traces.append(Trace(path, behaviour, plane, phases, recipe, seed))
    return traces
