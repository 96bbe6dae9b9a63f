"""Random matrices against what they must keep and destroy; edge switching against all that it may make."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import sparse, stats

from book.reflections.nulls import configuration_model, permute_entries, semicircle, switch_edges

GRAPHS = {
    "three separate edges": [(0, 1), (2, 3), (4, 5)],  # 15 perfect matchings
    # 7 graphs: the paths with these ends, and a triangle beside an edge
    "a path": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "a star with a tail": [(0, 1), (0, 2), (0, 3), (3, 4)],
}


def test_a_gaussian_matrix_has_its_variance_and_fills_the_semicircle():
    matrix = semicircle(900, variance=2.5, seed=0)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert matrix.dtype == np.float32
    assert matrix.var() == pytest.approx(2.5, rel=0.02)  # 400,000 entries: 0.2 percent is one sd
    values = np.linalg.eigvalsh(matrix)
    assert stats.kstest(values, stats.semicircular(scale=2 * np.sqrt(900 * 2.5)).cdf).statistic < 0.01
    assert np.abs(values).max() == pytest.approx(2 * np.sqrt(900 * 2.5), rel=0.03)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_permuted_entries_are_the_same_values_in_other_places(kind):
    matrix = np.random.default_rng(0).normal(size=(300, 300))
    matrix += matrix.T
    permuted = permute_entries(kind(matrix), seed=0)
    upper = np.triu_indices(300)
    np.testing.assert_array_equal(np.sort(permuted[upper]), np.sort(matrix[upper].astype(np.float32)))
    np.testing.assert_array_equal(permuted, permuted.T)
    np.testing.assert_array_equal(permuted, permute_entries(matrix, seed=0))
    # 45,150 pairs: 0.0047 is one standard deviation
    assert np.corrcoef(permuted[upper], matrix[upper])[0, 1] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("kind", [sparse.csr_array, lambda matrix: matrix.toarray()])
def test_the_configuration_model_keeps_every_degree(kind):
    rng = np.random.default_rng(0)
    pattern = np.triu(rng.random((300, 300)) < np.minimum(1, np.outer(*2 * [rng.pareto(1, size=300) / 3])), 1)
    matrix = sparse.csr_array((pattern + pattern.T) * 2.5)
    graph = configuration_model(kind(matrix), seed=1)
    assert (graph != graph.T).nnz == 0
    assert not graph.diagonal().any()
    assert set(graph.data) == {1.0}
    np.testing.assert_array_equal(graph.sum(axis=0), np.diff(matrix.indptr))
    assert np.diff(matrix.indptr).max() > 250  # hubs that meet nearly all others keep their degree too
    assert (graph != configuration_model(matrix, seed=1)).nnz == 0
    assert (graph != configuration_model(matrix, seed=2)).nnz > 0


def test_the_diagonal_and_stored_zeros_are_no_edges():
    zeros = sparse.csr_array(np.array([[3.0, 1.0], [1.0, 2.0]]))
    zeros.data[1:3] = 0
    assert configuration_model(zeros, seed=0).nnz == 0


def degrees(edges, n):
    return np.bincount(np.ravel(edges), minlength=n).tolist()


def all_graphs_with_the_degrees_of(edges, n):
    pairs = itertools.combinations(range(n), 2)
    graphs = itertools.combinations(pairs, len(edges))
    return {frozenset(graph) for graph in graphs if degrees(graph, n) == degrees(edges, n)}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_every_graph_with_the_same_degrees_comes_equally_often(edges):
    n = 1 + max(map(max, edges))
    expected = all_graphs_with_the_degrees_of(edges, n)
    n_draws = 400 * len(expected)
    found = Counter()
    for seed in range(n_draws):
        heads, tails = np.array(edges).T.copy()
        switch_edges(heads, tails, n, 40 * len(edges), seed)
        edges_now = zip(heads.tolist(), tails.tolist(), strict=True)
        found[frozenset(tuple(sorted(edge)) for edge in edges_now)] += 1
    assert set(found) == expected  # so no loop, no repeated edge, every degree kept, nothing left out
    counts = np.array(list(found.values()))
    chi_squared = ((counts - 400) ** 2 / 400).sum()
    freedom = len(expected) - 1
    assert chi_squared < freedom + 5 * np.sqrt(2 * freedom)  # five standard deviations above its mean


def test_a_graph_that_is_alone_with_its_degrees_stays():
    edges = list(itertools.combinations(range(5), 2))  # complete: each node joined to every other
    heads, tails = np.array(edges).T.copy()
    assert switch_edges(heads, tails, 5, 1000, 0) == 0
    assert list(zip(heads.tolist(), tails.tolist(), strict=True)) == edges
