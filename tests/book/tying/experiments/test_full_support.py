"""Theorem 4.1's inequality: both sides by hand, the optimum it needs, and encodings that don't span."""

import numpy as np
import pytest

from book.tying.experiments import full_support as study
from book.tying.experiments.full_support import EQUIVALENT, FullSupport

SMALL = FullSupport(n_seeds=1, n_contexts=6, n_symbols=5, rank=2, embedding_dim=3)


def ends(kept: int, n_iterations: int = 5_000) -> list:
    rng = np.random.default_rng(3)
    exact, weights = study.draw_language(SMALL, rng)
    models = study.trained(exact, weights, dims=3, kept=kept, n_iterations=n_iterations, rng=rng)
    return [(step, H, E, study._loss(H @ E.T, exact, weights)) for step, H, E in models]


def test_a_language_has_full_support_and_two_symbols_that_are_equally_likely_everywhere():
    exact, weights = study.draw_language(SMALL, np.random.default_rng(0))
    assert exact.shape == (6, 5)
    assert (exact > 0).all()
    np.testing.assert_allclose(exact.sum(axis=1), 1)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(exact[:, EQUIVALENT[0]], exact[:, EQUIVALENT[1]])
    assert np.abs(exact[:, 2] - exact[:, 3]).max() > 0.01


def test_both_sides_of_the_inequality_are_those_of_the_definition():
    H, E = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 2.0], [0.0, 0.0]])
    terms = study.bound_terms(H, E, (0, 1))
    assert terms == pytest.approx(
        {"distance": 5**0.5, "logits": (9 + 64) ** 0.5, "smallest": 3, "largest": 4}
    )


@pytest.mark.parametrize("kept", [2, 3])
def test_no_moment_passes_the_bound_whether_or_not_the_encodings_span(kept):
    for _, H, E, _ in ends(kept):
        for pair in (EQUIVALENT, (2, 3)):
            terms = study.bound_terms(H, E, pair)
            assert terms["distance"] * terms["smallest"] <= terms["logits"] * (1 + 1e-9)


def test_both_kinds_reach_the_optimum_and_the_spanning_one_alone_makes_the_pair_equal():
    for kept, apart in ((3, False), (2, True)):
        start, (_, _, E, loss) = ends(kept)[0], ends(kept)[-1]
        distance = np.linalg.norm(E[0] - E[1])
        assert start[3] > 0.1
        assert loss < 1e-10
        assert (distance > 0.01) == apart
