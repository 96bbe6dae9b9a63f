"""Neighbours of a whole vocabulary against brute force, and the plane that keeps them."""

import numpy as np
import pytest

from embviz import neighbors
from embviz.metrics import nearest_neighbors, neighbors_kept
from embviz.neighbors import find_neighbors, lay_out_neighbors, memberships, neighbors_in_plane


def clustered(n: int = 6_000, D: int = 24, seed: int = 0) -> np.ndarray:
    """Rows about 300 centres, with a direction that all share."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(300, D))
    return centers[random.integers(300, size=n)] + 0.7 * random.normal(size=(n, D)) + 3


@pytest.mark.parametrize("center", [True, False])
def test_few_rows_have_exactly_their_neighbours(center):
    rows = clustered(900)
    found = find_neighbors(rows, 8, center=center)
    true, distances = nearest_neighbors(rows - rows.mean(axis=0) * center, 8, metric="cosine")
    assert found.recall == 1.0
    np.testing.assert_array_equal(found.ids, true)
    np.testing.assert_allclose(1 - found.cosines, distances, atol=2e-5)  # products in float32


def test_many_rows_have_the_recall_that_is_said_and_wanted(monkeypatch):
    monkeypatch.setattr(neighbors, "ONE_CELL", 1_000)
    rows = clustered()
    true, _ = nearest_neighbors(rows - rows.mean(axis=0), 8, metric="cosine")
    shares = {}
    for wanted in (0.3, 0.95, 1.0):
        found = find_neighbors(rows, 8, recall=wanted)
        assert (found.ids != np.arange(len(rows))[:, None]).all()
        assert all(len(set(row)) == 8 for row in found.ids.tolist())
        shares[wanted] = neighbors_kept(true, found.ids).mean()
        assert found.recall >= wanted
        # a thousand rows of six thousand were looked at
        assert shares[wanted] == pytest.approx(found.recall, abs=0.02)
    assert shares[0.3] < 0.95 <= shares[0.95] + 0.02
    assert shares[1.0] == 1.0


def test_the_same_seed_gives_the_same_neighbours(monkeypatch):
    monkeypatch.setattr(neighbors, "ONE_CELL", 1_000)
    first, second = (find_neighbors(clustered(3_000), 5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.ids, second.ids)
    assert first.recall == second.recall


def test_interrupted_it_gives_what_was_found_or_stops(monkeypatch):
    monkeypatch.setattr(neighbors, "ONE_CELL", 1_000)
    rounds, whole_round = [], neighbors._round

    def interrupted(*given):
        rounds.append(given[3])
        if len(rounds) > allowed:
            raise KeyboardInterrupt
        whole_round(*given)

    monkeypatch.setattr(neighbors, "_round", interrupted)
    allowed = 1
    found = find_neighbors(clustered(), 8, recall=1 - 1e-9)
    assert 0.3 < found.recall < 1
    rounds, allowed = [], 0
    with pytest.raises(KeyboardInterrupt):
        find_neighbors(clustered(), 8, recall=1 - 1e-9)


def test_what_has_no_neighbours_is_refused():
    with pytest.raises(ValueError, match="row 1 is zero and has no direction"):
        find_neighbors([[1.0, 2], [0, 0], [3, 1]], 1, center=False)
    with pytest.raises(ValueError, match="3 rows have at most 2 neighbours each, not 8"):
        find_neighbors([[1.0, 2], [0, 1], [3, 1]])
    with pytest.raises(ValueError, match="recall is 0"):
        find_neighbors([[1.0, 2], [0, 1], [3, 1]], 1, recall=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_a_layout_keeps_neighbours_and_is_the_same_again(monkeypatch):
    monkeypatch.setattr(neighbors, "EPOCHS", 60)
    rows = clustered(1_200)
    found = find_neighbors(rows, 8)
    start = np.random.default_rng(0).normal(size=(len(rows), 2))
    first, again = (lay_out_neighbors(found, start) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert neighbors_kept(found.ids, neighbors_in_plane(first)).mean() > 0.2
    assert neighbors_kept(found.ids, neighbors_in_plane(start)).mean() < 0.02
    with pytest.raises(ValueError, match="do not place 1,200 points"):
        lay_out_neighbors(found, start[:5])


@pytest.mark.slow  # UMAP compiles its function
@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_weights_of_neighbours_are_those_that_umap_computes():
    from embviz.imports import import_umap

    found = find_neighbors(clustered(300), 8)
    own = np.arange(300, dtype=np.int32)[:, None]
    expected = import_umap().umap_.fuzzy_simplicial_set(
        found.cosines, 9, np.random.RandomState(0), "cosine",
        knn_indices=np.hstack([own, found.ids]),
        knn_dists=np.hstack([np.zeros((300, 1), np.float32), np.maximum(1 - found.cosines, 0)]),
    )[0]  # fmt: skip
    np.testing.assert_allclose(memberships(found).toarray(), expected.toarray(), rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_an_interrupted_layout_gives_the_points_as_they_lie(monkeypatch):
    from embviz.imports import import_umap

    def stop(points, *_, **__):
        points += 1
        raise KeyboardInterrupt

    found = find_neighbors(clustered(60), 8)
    start = np.random.default_rng(0).normal(size=(60, 2))
    monkeypatch.setattr(import_umap().layouts, "optimize_layout_euclidean", stop)
    points = lay_out_neighbors(found, start)
    assert points.shape == (60, 2)
    assert points.min() > 0.9


def test_neighbours_in_a_plane_are_those_of_brute_force():
    points = np.random.default_rng(0).normal(size=(200, 2))
    np.testing.assert_array_equal(neighbors_in_plane(points, 5), nearest_neighbors(points, 5)[0])
    assert 0 not in neighbors_in_plane(np.zeros((9, 2)), 8)[0]  # copies
    with pytest.raises(ValueError, match="at most 2 neighbours"):
        neighbors_in_plane(points[:3], 3)
