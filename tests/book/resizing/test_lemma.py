"""The bound is the paper's line; distortions and the least width are those of slow loops over all pairs."""

import itertools
import math

import numpy as np

from book.resizing import lemma
from embviz import projections
from embviz.projections import draw

D = 16


def vectors(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


def test_the_bound_is_the_papers_line():
    for eps, n, delta in ((0.1, 1000, 0.01), (0.5, 256, 0.05)):
        assert lemma.bound(eps, n, delta, C=3) == math.ceil(3 / eps**2 * math.log(n / delta))
        m = lemma.bound(eps, n, delta)
        assert 8 - 8 / m < lemma.constant(m - 1, eps, n, delta) < 8 <= lemma.constant(m, eps, n, delta)


def slow_distortions(x, found):
    pairs = itertools.combinations(x, 2)
    return [((found.matrix @ (a - b)) ** 2).sum() / ((a - b) ** 2).sum() for a, b in pairs]


def test_distortions_are_ratios_of_squared_distances_over_all_pairs():
    x, found = vectors(6), draw("gaussian", 4, D, seed=2)
    np.testing.assert_allclose(lemma.distortions(x, found), slow_distortions(x, found), rtol=1e-12)
    assert len(lemma.distortions(np.concatenate([x, x[:1]]), found)) == 20  # 21 pairs, one of equals


def test_a_full_rotation_and_a_full_hadamard_map_keep_every_distance():
    x = vectors(9)
    rotations = draw("orthonormal", D, D, seed=1), draw("orthonormal", 20, D, seed=1)
    for found in (*rotations, draw("hadamard", D, D, seed=1), projections.signed_permutation(D, 1)):
        np.testing.assert_allclose(lemma.distortions(x, found), 1, rtol=1e-12)


def test_the_smallest_width_loses_as_many_draws_as_it_may_and_the_one_before_loses_more():
    def n_kept(x, m, seed):
        maps = (draw("gaussian", m, D, seed=[seed, i]) for i in range(10))
        return sum(all(abs(ratio - 1) <= 0.5 for ratio in slow_distortions(x, found)) for found in maps)

    for seed in range(6):
        x = vectors(4, seed)
        m = lemma.smallest_width(x, "gaussian", eps=0.5, delta=0.2, n_draws=10, seed=seed)
        assert n_kept(x, m - 1, seed) < 8 <= n_kept(x, m, seed)
