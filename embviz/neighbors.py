"""A whole vocabulary: the nearest neighbours of every row with their measured recall, and a plane for them.

All pairs of 262,144 rows of 640 numbers take ten minutes on two cores. Here a row is compared with the rows
of the cells nearest to it, more cells in each round, until enough of its true neighbours are found.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.cluster.vq import kmeans2
from tqdm.auto import tqdm

from embviz.arrays import check_array, check_int
from embviz.compiling import njit
from embviz.imports import import_umap
from embviz.memory import require_memory

BLOCK = 4_096  # rows whose products are in memory together
N_CHECKED = 1_000  # rows whose true neighbours are looked for among all
ONE_CELL = 4_000  # rows up to which all pairs are compared
RANKED = 64  # of a row's cells that are sorted by their nearness, more than are looked at in most cases
CELL_SAMPLE = 40  # rows a cell that its centre is computed from
EPOCHS = 200  # UMAP's own for more than 10,000 points


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Nearest rows of every row, by cosine.

    Parameters
    ----------
    ids : array of int32, shape (V, k)
        Nearest first, the row itself left out.
    cosines : array of float32, shape (V, k)
    recall : float
        Share of the true k nearest that are among them, 0..1; 1.0 where all pairs were compared.
    n_checked : int
        Random rows on which the recall was measured, each compared with all rows.
    """

    ids: np.ndarray
    cosines: np.ndarray
    recall: float
    n_checked: int


def unit_rows(vectors: ArrayLike, *, center: bool = True) -> np.ndarray:
    """Rows at length 1, with the mean row taken off first.

    Parameters
    ----------
    vectors : array, shape (V, D), finite, each row with a direction
    center : bool, default True
        Whether the mean of all rows is subtracted: a direction that all rows share decides raw cosines.

    Returns
    -------
    array of float32, shape (V, D), a copy

    Examples
    --------
    >>> unit_rows([[3, 4], [1, 0]], center=False).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [1.0, 0.0]]
    """
    vectors = check_array(vectors, "vectors", 2, kind="floating")
    rows = vectors.astype(np.float32)
    if center:
        rows -= vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    for first in range(0, len(rows), BLOCK):
        block = rows[first : first + BLOCK]
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        if not lengths.all():
            place = first + int(np.argmin(lengths))
            raise ValueError(
                f"vectors: row {place} is {'the mean' if center else 'zero'} and has no direction"
            )
        block /= lengths
    return rows


def find_neighbors(
    vectors: ArrayLike,
    n_neighbors: int = 8,
    *,
    center: bool = True,
    recall: float = 0.95,
    seed: int = 0,
    progress: bool = False,
) -> Neighbors:
    """The nearest rows of every row of a vocabulary, by cosine, with the share of true ones among them.

    Up to 4,000 rows all pairs are compared. Of more rows, each is compared with those of the cells (k-means)
    nearest to it, in rounds, until on 1,000 random rows the wanted recall is measured. Interrupted
    (Ctrl-C), it returns what was found once every row has neighbours.

    Parameters
    ----------
    vectors : array, shape (V, D)
    n_neighbors : int, default 8
        k, below V.
    center : bool, default True
        Whether the mean row is subtracted first.
    recall : float, default 0.95
        Least share of the true neighbours found, 0..1; 1 compares all pairs.
    seed : int, default 0
        Of the cells, and of the rows on which the recall is measured.
    progress : bool, default False
        Whether a bar shows how far the round is.

    Returns
    -------
    Neighbors

    Raises
    ------
    ValueError
        If a value is not finite, a row has no direction, or there are no more rows than neighbours.
    MemoryError
        If the work would not fit.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(50, 4))
    >>> found = find_neighbors(rows, 3)
    >>> found.ids.shape, found.recall
    ((50, 3), 1.0)
    """
    vectors = check_array(vectors, "vectors", 2, kind="floating")
    V, D = vectors.shape
    check_int(n_neighbors, "n_neighbors", 1)
    if n_neighbors >= V:
        raise ValueError(f"vectors: {V} rows have at most {V - 1} neighbours each, not {n_neighbors}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall is {recall}: it must lie above 0 and be at most 1")
    require_memory(
        V * (8 * D + 24 * n_neighbors + 200),
        what=f"the neighbours of {V:,} rows of {D:,} numbers",
        instead="take fewer rows",
    )
    rows = unit_rows(vectors, center=center)
    random = np.random.default_rng(seed)
    return _search(rows, n_neighbors, recall, random, progress)


def _search(
    rows: np.ndarray, k: int, recall: float, random: np.random.Generator, progress: bool
) -> Neighbors:
    V = len(rows)
    n_cells = max(1, round(np.sqrt(V))) if V > ONE_CELL and recall < 1 else max(1, V // ONE_CELL)
    centers = _centers(rows, n_cells, random)
    ranked = _ranked_cells(rows, centers)
    order = np.argsort(ranked[:, 0], kind="stable")
    rows, ranked = rows[order], ranked[order]  # those of a cell beside each other
    edges = np.searchsorted(ranked[:, 0], np.arange(n_cells + 1))
    sample = np.sort(random.choice(V, size=min(V, N_CHECKED), replace=False))
    least = _kth_cosines(rows, sample, k)
    ids = np.full((V, k), -1, dtype=np.int32)
    cosines = np.full((V, k), -2, dtype=np.float32)  # below any cosine
    first, share = 0, 0.0
    while first < n_cells:
        last = min(n_cells, max(first + 4, first * 5 // 4))
        try:
            _round(rows, ranked[:, first:last], edges, ids, cosines, progress)
        except KeyboardInterrupt:
            if (cosines < -1.5).any():
                raise  # some row has no neighbours yet
            break
        first = last
        share = float((cosines[sample] >= least[:, None] - 1e-5).mean())
        if share >= recall and (cosines > -1.5).all():
            break
    share = 1.0 if first == n_cells else float((cosines[sample] >= least[:, None] - 1e-5).mean())
    found, near = np.empty_like(ids), np.empty_like(cosines)
    found[order], near[order] = order[ids], cosines
    return Neighbors(found, near, share, len(sample))


def _centers(rows: np.ndarray, n_cells: int, random: np.random.Generator) -> np.ndarray:
    if n_cells == 1:
        return np.ones((1, rows.shape[1]), dtype=np.float32)
    sample = random.choice(len(rows), size=min(len(rows), CELL_SAMPLE * n_cells), replace=False)
    start = rows[sample[:n_cells]]  # distinct rows; a cell that loses all of its rows keeps its centre
    centers, _ = kmeans2(rows[sample], start, iter=4, minit="matrix", missing="warn", check_finite=False)
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    return np.ascontiguousarray(centers / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _kth_cosines(rows: np.ndarray, sample: np.ndarray, k: int) -> np.ndarray:
    """The cosine of each sampled row's true k-th neighbour, among all rows."""
    limits = np.empty(len(sample), dtype=np.float32)
    for first in range(0, len(sample), 100):
        some = sample[first : first + 100]
        cosines = rows[some] @ rows.T
        cosines[np.arange(len(some)), some] = -2
        limits[first : first + 100] = np.partition(cosines, len(rows) - k, axis=1)[:, len(rows) - k]
    return limits


def _ranked_cells(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """All cells of each row, the nearest ones first."""
    n_cells = len(centers)
    ranked = np.empty((len(rows), n_cells), dtype=np.int16 if n_cells < 2**15 else np.int32)
    for start in range(0, len(rows), BLOCK):
        away = -(rows[start : start + BLOCK] @ centers.T)
        near = np.argpartition(away, RANKED, axis=1) if n_cells > RANKED else np.argsort(away, axis=1)
        first = near[:, :RANKED]
        inside = np.argsort(np.take_along_axis(away, first, axis=1), axis=1, kind="stable")
        near[:, :RANKED] = np.take_along_axis(first, inside, axis=1)
        ranked[start : start + BLOCK] = near
    return ranked


def _round(
    rows: np.ndarray,
    wanted: np.ndarray,
    edges: np.ndarray,
    ids: np.ndarray,
    cosines: np.ndarray,
    progress: bool,
) -> None:
    """Compare each row with the rows of the cells that it wants, in both directions."""
    n_cells, n_wanted = len(edges) - 1, wanted.shape[1]
    by_cell = np.argsort(wanted.ravel(), kind="stable")
    starts = np.searchsorted(wanted.ravel()[by_cell], np.arange(n_cells + 1))
    limits = np.ascontiguousarray(cosines[:, -1])
    name = f"neighbours, {n_wanted} more cells of {n_cells}"
    for cell in tqdm(range(n_cells), desc=name, disable=not progress, leave=False):
        asking = by_cell[starts[cell] : starts[cell + 1]] // n_wanted
        held = rows[edges[cell] : edges[cell + 1]]
        for start in range(0, len(asking), BLOCK):
            some = asking[start : start + BLOCK]
            _merge(rows[some] @ held.T, some, edges[cell], ids, cosines, limits)


@njit(nogil=True)
def _merge(
    products: np.ndarray,
    asking: np.ndarray,
    first: int,
    ids: np.ndarray,
    cosines: np.ndarray,
    limits: np.ndarray,
) -> None:
    """Cosines of the rows `asking` with those from `first` on: each may be a neighbour of the other."""
    k = ids.shape[1]
    for a in range(asking.size):
        i = asking[a]
        for b in range(products.shape[1]):
            cosine = products[a, b]
            j = first + b
            if (cosine > limits[i] or cosine > limits[j]) and i != j:
                for way in range(2):
                    one, other = (i, j) if way == 0 else (j, i)
                    if cosine <= limits[one]:
                        continue
                    known = False
                    for place in range(k):
                        known = known or ids[one, place] == other
                    if known:
                        continue
                    place = k - 1
                    while place > 0 and cosines[one, place - 1] < cosine:
                        cosines[one, place] = cosines[one, place - 1]
                        ids[one, place] = ids[one, place - 1]
                        place -= 1
                    cosines[one, place], ids[one, place] = cosine, other
                    limits[one] = cosines[one, k - 1]


# --- a plane ----------------------------------------------------------------------------------------


def lay_out_neighbors(
    neighbors: Neighbors,
    start: ArrayLike,
    *,
    seed: int = 0,
    progress: bool = False,
) -> np.ndarray:
    """Points in a plane that keep neighbours, by UMAP from neighbours that are known.

    Interrupted (Ctrl-C), it returns the points as they lie.

    Parameters
    ----------
    neighbors : Neighbors
        Of V rows.
    start : array, shape (V, 2)
        Where the points begin, such as the plane of the principal components.
    seed : int, default 0
        Of the pairs that are pushed apart. One thread works, so that the result is the same each time on a
        machine.
    progress : bool, default False
        Whether a bar shows the epochs.

    Returns
    -------
    array of float32, shape (V, 2), without a unit

    Source
    ------
    McInnes, Healy & Melville (2018).
    """
    start = check_array(start, "start", 2)
    V = len(neighbors.ids)
    if start.shape != (V, 2):
        raise ValueError(f"start: coordinates of shape {start.shape} do not place {V:,} points")
    umap: Any = import_umap()
    random = np.random.RandomState(seed)  # what UMAP takes
    graph = memberships(neighbors).tocoo()
    kept = graph.data >= graph.data.max() / EPOCHS  # the others would never be drawn
    head, tail, weight = graph.row[kept], graph.col[kept], graph.data[kept]
    points = start - start.min(axis=0)
    points = 10 * points / np.maximum(points.max(axis=0), 1e-12) + 1e-4 * random.normal(size=(V, 2))
    points = points.astype(np.float32, order="C")
    a, b = umap.umap_.find_ab_params(1.0, 0.0)  # a least distance of 0 keeps more neighbours than UMAP's 0.1
    with contextlib.suppress(KeyboardInterrupt):
        umap.layouts.optimize_layout_euclidean(
            points,  # moved in place
            points,
            head,
            tail,
            EPOCHS,
            V,
            umap.umap_.make_epochs_per_sample(weight, EPOCHS),
            a,
            b,
            random.randint(-(2**31) + 1, 2**31 - 1, 3).astype(np.int64),
            tqdm_kwds={"disable": not progress, "desc": "layout, epochs", "leave": False},
            move_other=True,
        )
    return points


N_HALVINGS = 64  # of the interval in which a row's scale lies
LEAST_SCALE = 1e-3  # of a row's mean distance


def memberships(neighbors: Neighbors) -> scipy.sparse.csr_array:
    """UMAP's weights of the pairs of neighbours, 0..1, the same in both directions.

    UMAP's own function gives the same weights and is compiled at every start, which takes longer than small
    layouts.

    Parameters
    ----------
    neighbors : Neighbors
        Of V rows.

    Returns
    -------
    sparse array, shape (V, V)

    Source
    ------
    McInnes, Healy & Melville (2018), section 3.1: each row's weights fall off from 1 at its nearest neighbour
    and add up to the logarithm of the number of neighbours.
    """
    V, k = neighbors.ids.shape
    distances = np.maximum(1 - neighbors.cosines.astype(np.float64), 0)
    nearest = np.where(distances > 0, distances, np.inf).min(axis=1)
    nearest = np.where(np.isfinite(nearest), nearest, 0)[:, None]
    beyond = np.maximum(distances - nearest, 0)
    low, high, scale = np.zeros((V, 1)), np.full((V, 1), np.inf), np.ones((V, 1))
    for _ in range(N_HALVINGS):
        too_large = np.exp(-beyond / scale).sum(axis=1, keepdims=True) > np.log2(k + 1)
        high, low = np.where(too_large, scale, high), np.where(too_large, low, scale)
        scale = np.where(np.isinf(high), 2 * scale, (low + high) / 2)
    own_mean = distances.sum(axis=1, keepdims=True) / (k + 1)  # the row itself is at distance 0
    least = LEAST_SCALE * np.where(nearest > 0, own_mean, own_mean.mean())
    weights = np.exp(-beyond / np.maximum(scale, least))
    rows = np.repeat(np.arange(V), k)
    directed = scipy.sparse.csr_array((weights.ravel(), (rows, neighbors.ids.ravel())), shape=(V, V))
    both = directed.T.tocsr()
    return directed + both - directed * both


def neighbors_in_plane(points: ArrayLike, n_neighbors: int = 8) -> np.ndarray:
    """The nearest points of each point of a plane, by a tree.

    Parameters
    ----------
    points : array, shape (V, 2)
    n_neighbors : int, default 8

    Returns
    -------
    array of int, shape (V, n_neighbors), nearest first, the point itself left out

    Examples
    --------
    >>> neighbors_in_plane([[0, 0], [1, 0], [3, 0]], 1).ravel().tolist()
    [1, 0, 1]
    """
    from scipy.spatial import cKDTree

    points = check_array(points, "points", 2)
    if not 1 <= n_neighbors < len(points):
        raise ValueError(
            f"points: {len(points)} have at most {len(points) - 1} neighbours, not {n_neighbors}"
        )
    found = cKDTree(points).query(points, k=n_neighbors + 1)[1]
    last = np.argsort(found == np.arange(len(points))[:, None], axis=1, kind="stable")  # itself comes last
    ids: np.ndarray = np.take_along_axis(found, last, axis=1)[:, :n_neighbors]
    return ids
