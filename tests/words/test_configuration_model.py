"""Edge switching against the list of all graphs that it may make."""

import itertools
from collections import Counter

import numpy as np
import pytest

from embviz.words.cooccurrence_numba import switch_edges

GRAPHS = {
    "three separate edges": [(0, 1), (2, 3), (4, 5)],  # 15 perfect matchings
    # 7 graphs: the paths with these ends, and a triangle beside an edge
    "a path": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "a star with a tail": [(0, 1), (0, 2), (0, 3), (3, 4)],
}


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
