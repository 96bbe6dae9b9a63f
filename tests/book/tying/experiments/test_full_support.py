"""Theorem 4.1's inequality: both sides by hand, the optimum it needs, and encodings that don't span."""

import numpy as np
import pytest

from book.tying.experiments import full_support as study
from book.tying.experiments.full_support import EQUIVALENT, FullSupport
from embviz.ledger.cells import Cell, compute

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


def test_the_loss_has_the_gradient_that_differences_give():
    first, second = ends(3, n_iterations=1)[0], ends(3, n_iterations=1)[-1]
    assert second[3] < first[3]
    assert [step for step, *_ in ends(3, n_iterations=9)][:5] == [0, 1, 2, 4, 8]


def test_the_largest_share_of_the_bound_is_taken_over_all_models_and_moments(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    for cell in study.support_cells("quick").values():
        compute(Cell(cell.experiment, cell.config), cell.path)
    table, found = study.support_table("quick"), study.support_findings("quick")
    assert np.isinf(table.loc[table["encodings"] == "rank_3", "bound"]).all()
    finite = table[np.isfinite(table["bound"])]
    assert found["bound_share"].value == pytest.approx((finite["distance"] / finite["bound"]).max())
    assert found["bound_share"].value <= 1 + 1e-9
    last = table[(table["pair"] == "equivalent")].groupby(["encodings", "seed"]).last()
    ratio = last["distance"] / last["unrelated"]
    assert found["optimum_ratio"].value == pytest.approx(ratio["spanning"].mean())
    assert found["optimum_ratio"].controls["rank_3"] == pytest.approx(ratio["rank_3"].mean())
