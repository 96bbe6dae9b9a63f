"""Phases of a path of snapshots: density clusters, the transitions between them, and drops of the loss."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from embviz.arrays import check_array
from embviz.imports import require

NOISE = -1  # the label of a snapshot that belongs to no phase


# --- density clusters -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clustering:
    """HDBSCAN's settings."""

    min_cluster_size: int = 25  # snapshots
    min_samples: int = 5  # the core distance is that to this neighbour
    selection: Literal["eom", "leaf"] = "eom"  # the most persistent clusters, or the finest
    cluster_selection_epsilon: float = 0.0  # in the points' unit: clusters closer than this stay one


@dataclass(frozen=True, eq=False)
class Phases:
    """Density clusters of S snapshots, and how sure they are."""

    labels: np.ndarray  # (S,) phases 0, 1, ... by their first snapshot; -1 is noise
    order: np.ndarray  # (n_phases,) what HDBSCAN called each phase
    reachability: np.ndarray  # (S - 1,) mutual reachability distances of the spanning tree, increasing
    largest_split: int  # snapshots on the smaller side of the most even split of all
    points: np.ndarray  # (S, D), what was clustered
    clustering: Clustering
    fitted: Any  # hdbscan.HDBSCAN

    @property
    def n_phases(self) -> int:
        return len(self.order)

    @functools.cached_property
    def dbcv(self) -> float | None:
        """Density-based validity, -1..1, noise counted against it.

        None below two phases, or where its powers of distances overflow (hundreds of dimensions). It takes
        longer than the clusters, so it is found when it is asked for.
        """
        return _validity(self.points, self.labels, self.n_phases)

    @property
    def noise(self) -> float:
        """Share of snapshots in no phase."""
        return float(np.mean(self.labels == NOISE))

    @property
    def explanation(self) -> str:
        """What was found, in words; if all is noise, why."""
        n, least = len(self.labels), self.clustering.min_cluster_size
        if self.n_phases:
            return f"{self.n_phases} phases; {self.noise:.0%} of {n} snapshots are noise"
        middle, longest = np.median(self.reachability), self.reachability[-1]
        return (
            f"all {n} snapshots are noise: wherever the tree of mutual reachability distances (median "
            f"{middle:.3g}, longest {longest:.3g}) is cut, at most {self.largest_split} snapshots come off, "
            f"and a phase needs {least}. Only min_cluster_size <= {self.largest_split} splits this path"
        )


def find_phases(points: ArrayLike, clustering: Clustering | None = None) -> Phases:
    """HDBSCAN on snapshots in a layout or in a bottleneck; time is not used.

    Parameters
    ----------
    points : array, shape (S, D)
    clustering : Clustering, optional

    Returns
    -------
    Phases
        If all is noise, its `explanation` says why.

    Source
    ------
    Geometry paper, section 4.1; Campello, Moulavi & Sander (2013); DBCV: Moulavi et al. (2014).
    """
    clustering = clustering or Clustering()
    # a copy, since the caller may write into it before validity is asked for; by rows, since hdbscan's
    # membership is wrong by columns
    points = np.array(check_array(points, "points", 2), order="C")
    require_enough(len(points), clustering)
    require("trajectories", "hdbscan", purpose="finding phases")
    hdbscan = importlib.import_module("hdbscan")
    fitted = hdbscan.HDBSCAN(
        min_cluster_size=clustering.min_cluster_size,
        min_samples=clustering.min_samples,
        cluster_selection_method=clustering.selection,
        cluster_selection_epsilon=float(clustering.cluster_selection_epsilon),
        approx_min_span_tree=False,
        core_dist_n_jobs=1,
    ).fit(points)
    labels, order = _by_first_snapshot(fitted.labels_)
    tree = fitted.single_linkage_tree_.to_numpy()  # left, right, distance, size
    # over all merges of the tree, the most snapshots on the smaller side
    sizes = np.concatenate([np.ones(len(points)), tree[:, 3]])
    largest_split = int(sizes[tree[:, :2].astype(int)].min(axis=1).max())
    return Phases(labels, order, tree[:, 2], largest_split, points, clustering, fitted)


def require_enough(n_snapshots: int, clustering: Clustering, *, name: str = "") -> None:
    """ValueError, led by `name`, if there are fewer snapshots than two clusters or a core distance need."""
    needed = max(2 * clustering.min_cluster_size, clustering.min_samples + 1)
    if n_snapshots < needed:
        raise ValueError(
            f"{name}{': ' if name else ''}{n_snapshots} snapshots are too few for {clustering}: take "
            f"{needed} at least, or lower min_cluster_size and min_samples"
        )


def _by_first_snapshot(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels renumbered as they come up in time, and the old label of each new one."""
    found, first = np.unique(labels[labels != NOISE], return_index=True)
    order = found[np.argsort(first)]
    renamed = np.full(len(labels), NOISE)
    for new, old in enumerate(order):
        renamed[labels == old] = new
    return renamed, order


def _validity(points: np.ndarray, labels: np.ndarray, n_phases: int) -> float | None:
    if n_phases < 2:
        return None
    validity_index = importlib.import_module("hdbscan.validity").validity_index
    distinct = np.unique(points, axis=0, return_index=True)[1]  # repeated points have no density
    kept = np.sort(distinct)
    if min(np.sum(labels[kept] == phase) for phase in range(n_phases)) < 2:
        return None
    with np.errstate(all="ignore"):  # what isn't finite is told below
        value = float(validity_index(np.ascontiguousarray(points[kept]), labels[kept]))
    return value if math.isfinite(value) else None


# --- transitions ------------------------------------------------------------------------------------


def visits(labels: ArrayLike, steps: ArrayLike) -> pd.DataFrame:
    """Stays in a phase, in order of time; noise within or between stays is passed over.

    Parameters
    ----------
    labels : array of int, shape (S,), -1 for noise
    steps : array of int, shape (S,)

    Returns
    -------
    DataFrame, one row per stay
        ``phase``, ``first`` and ``last`` (steps), ``n_snapshots`` (of the phase; noise isn't counted).
    """
    every, when = _labels_and_steps(labels, steps)
    phase, when = every[every != NOISE], when[every != NOISE]
    starts = np.flatnonzero(np.diff(phase, prepend=NOISE))
    ends = np.append(starts[1:], len(phase))[: len(starts)] - 1
    return pd.DataFrame(
        {
            "phase": phase[starts],
            "first": when[starts],
            "last": when[ends],
            "n_snapshots": ends - starts + 1,
        }
    )


def transitions(labels: ArrayLike, steps: ArrayLike) -> pd.DataFrame:
    """Changes of phase; a phase that comes back after noise alone makes none.

    Parameters
    ----------
    labels, steps
        As of :func:`visits`.

    Returns
    -------
    DataFrame, one row per transition
        ``before``, ``after`` (phases), ``leaves`` (last step of the old), ``enters`` (first of the new) and
        ``step``, the middle of the two.
    """
    stays = visits(labels, steps)
    leaves, enters = stays["last"].to_numpy()[:-1], stays["first"].to_numpy()[1:]
    return pd.DataFrame(
        {
            "before": stays["phase"].to_numpy()[:-1],
            "after": stays["phase"].to_numpy()[1:],
            "leaves": leaves,
            "enters": enters,
            "step": (leaves + enters) / 2,
        }
    )


def transition_activity(labels: ArrayLike, steps: ArrayLike) -> np.ndarray:
    """1 for each interval between snapshots with the middle of a transition in it, else 0; (S - 1,)."""
    labels, steps = _labels_and_steps(labels, steps)
    activity = np.zeros(len(steps) - 1)
    middles = transitions(labels, steps)["step"].to_numpy()
    activity[np.clip(np.searchsorted(steps, middles, side="left") - 1, 0, None)] = 1.0
    return activity


def _labels_and_steps(labels: ArrayLike, steps: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels = check_array(labels, "labels", 1, kind="integer", low=NOISE)
    steps = check_array(steps, "steps", 1, kind="number")
    if labels.shape != steps.shape:
        raise ValueError(f"labels have shape {labels.shape}, steps {steps.shape}: give one a snapshot")
    if (np.diff(steps) <= 0).any():
        raise ValueError("steps must increase: sort snapshots by step")
    return labels, steps


@dataclass(frozen=True)
class Sharpness:
    """How much of a path's length lies in its longest steps."""

    share: float  # of the length
    even: float  # the same of a path whose steps are all as long: the share of steps counted


def sharpness(points: ArrayLike) -> Sharpness:
    """Share of a path's length (S, D) in the longest twentieth of its steps, one step at least.

    >>> sharpness([[0.0], [1.0], [2.0], [12.0], [13.0]]).share
    0.7692307692307693
    """
    lengths = path_steps(points)
    if not lengths.any():
        raise ValueError("the path doesn't move: it has no sharpness")
    n_longest = max(1, round(len(lengths) / 20))
    longest = np.sort(lengths)[-n_longest:].sum()
    return Sharpness(float(longest / lengths.sum()), n_longest / len(lengths))


def path_steps(points: ArrayLike) -> np.ndarray:
    """Lengths of the S - 1 steps of a path (S, D)."""
    return np.linalg.norm(np.diff(check_array(points, "points", 2), axis=0), axis=1)


# --- transitions and drops of the loss --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coupling:
    """Correlation of activity with drops of the loss; lags in snapshots, above 0 if the loss falls later."""

    lags: np.ndarray  # (2 max_lag + 1,)
    correlations: np.ndarray  # one a lag, of ranks
    lag: int  # of the highest correlation
    p: float  # that permuted blocks reach the highest over all lags
    p_at_zero: float  # that they reach the correlation at lag 0
    block: int  # snapshots

    @property
    def correlation(self) -> float:
        """The highest over all lags."""
        return float(self.correlations.max())


def couple(
    activity: ArrayLike,
    losses: ArrayLike,
    *,
    seed: int | np.random.Generator,
    max_lag: int = 10,
    block: int = 20,
    n_permutations: int = 999,
) -> Coupling:
    """Do drops of the loss correlate with movement? Rank cross-correlation, block-permutation p-value.

    Weights move most, and the loss falls most, early in training: that alone correlates. Take a running
    median off activity and drops (``scipy.ndimage.median_filter``) and report both.

    Parameters
    ----------
    activity : array, shape (S - 1,)
        Of each interval between snapshots: :func:`path_steps`, or :func:`transition_activity`.
    losses : array, shape (S,)
    seed : int or Generator
        Of the permutations.
    max_lag : int, in snapshots
    block : int, in snapshots
        Drops are permuted in blocks of so many neighbours, cut at a random place, which keeps what
        neighbours have in common. Blocks must be longer than that, and many.
    n_permutations : int

    Returns
    -------
    Coupling
        The test is one-sided: drops go with movement. The search over lags is paid for in `p`.
    """
    activity, losses = check_array(activity, "activity", 1), check_array(losses, "losses", 1)
    if len(losses) != len(activity) + 1:
        raise ValueError(
            f"activity has {len(activity)} intervals, losses {len(losses)}: S snapshots have S - 1 intervals"
        )
    n = len(activity)
    if not (1 <= block <= n // 4 and 0 <= max_lag < n // 2 and n_permutations >= 1):
        raise ValueError(
            f"block = {block}, max_lag = {max_lag}, n_permutations = {n_permutations}: of {n} intervals "
            "of activity blocks take a quarter at most, lags less than half"
        )
    moves, drops = _ranks(activity, "activity"), _ranks(-np.diff(losses), "the loss's drops")
    rng, orders = np.random.default_rng(seed), []
    for _ in range(n_permutations):
        # neighbours in time move alike, so whole blocks change places; the circle is cut anywhere, lest
        # the borders of blocks be the same in all draws
        circle = np.roll(np.arange(n), -int(rng.integers(n)))
        blocks = np.split(circle, range(block, n, block))
        orders.append(np.concatenate([blocks[i] for i in rng.permutation(len(blocks))]))
    permuted = drops[np.stack(orders)]
    observed = _cross_correlations(moves, drops[None], max_lag)[0]
    null = _cross_correlations(moves, permuted, max_lag)  # (n_permutations, lags)
    return Coupling(
        np.arange(-max_lag, max_lag + 1),
        observed,
        int(observed.argmax()) - max_lag,
        _exceeding(null.max(axis=1), observed.max()),
        _exceeding(null[:, max_lag], observed[max_lag]),
        block,
    )


def _ranks(values: np.ndarray, name: str) -> np.ndarray:
    """Ranks, mean 0 and mean square 1."""
    if np.ptp(values) == 0:
        raise ValueError(f"{name} are constant over {len(values)} intervals: there is nothing to correlate")
    ranks = stats.rankdata(values)
    return (ranks - ranks.mean()) / ranks.std()


def _cross_correlations(moves: np.ndarray, drops: np.ndarray, max_lag: int) -> np.ndarray:
    """Sum of moves[t] drops[:, t + lag] / n for lags -max_lag..max_lag; beyond the ends are zeros."""
    n = len(moves)
    # padded to twice the length, so that the circular correlation of the transforms wraps round into zeros
    size = 2 ** math.ceil(math.log2(2 * n))
    spectrum = np.fft.rfft(drops, size) * np.conj(np.fft.rfft(moves, size))
    circular = np.fft.irfft(spectrum, size) / n
    return np.concatenate([circular[:, size - max_lag :], circular[:, : max_lag + 1]], axis=1)


def _exceeding(null: np.ndarray, observed: float) -> float:
    """Share of control draws, the observation included, that reach the observation up to rounding."""
    return float((1 + np.sum(null >= observed - 1e-9)) / (1 + len(null)))


# --- a grid of settings -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PhaseGrid:
    """Phases under many settings, and how far they agree."""

    table: pd.DataFrame  # one row per setting: layout, HDBSCAN's settings, n_phases, noise, and dbcv
    labels: np.ndarray  # (settings, S)
    agreement: np.ndarray  # (settings, settings) adjusted Rand index; noise counts as one more phase

    @property
    def n_without(self) -> int:
        """Settings under which all is noise."""
        return int((self.table["n_phases"] == 0).sum())

    @property
    def stability(self) -> float | None:
        """Mean adjusted Rand index over pairs of settings that find phases; None if fewer than two do.

        Settings that find none agree perfectly, and about nothing: they are left out.
        """
        found = np.flatnonzero(self.table["n_phases"] > 0)
        if len(found) < 2:
            return None
        return float(self.agreement[np.ix_(found, found)][np.triu_indices(len(found), 1)].mean())


def phase_grid(
    layouts: Mapping[str, ArrayLike], clusterings: Sequence[Clustering], *, validity: bool = True
) -> PhaseGrid:
    """Phases of the same snapshots for every layout with every clustering.

    Parameters
    ----------
    layouts : mapping from name to array (S, D)
        Of the same snapshots; :func:`embviz.trajectories.traces.lay_out` under several settings.
    clusterings : sequence of Clustering
    validity : bool
        With the column ``dbcv``, which takes most of the time; below two phases it may be missing.

    Returns
    -------
    PhaseGrid
    """
    arrays = {name: check_array(points, f"layouts[{name!r}]", 2) for name, points in layouts.items()}
    if len({len(points) for points in arrays.values()}) != 1 or not clusterings:
        raise ValueError("give one clustering at least, and layouts of the same snapshots")
    rows, labels = [], []
    for name, points in arrays.items():
        for clustering in clusterings:
            phases = find_phases(points, clustering)
            labels.append(phases.labels)
            found = {"n_phases": phases.n_phases, "noise": phases.noise}
            rows.append({"layout": name, **asdict(clustering), **found})
            if validity:
                rows[-1]["dbcv"] = phases.dbcv
    agreement = [[adjusted_rand_score(one, other) for other in labels] for one in labels]
    return PhaseGrid(pd.DataFrame(rows), np.array(labels), np.array(agreement))
