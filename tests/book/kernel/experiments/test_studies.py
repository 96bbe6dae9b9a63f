"""What the kernel's models begin with, frozen embeddings, and formulas beside the paper's."""

import numpy as np
import pandas as pd
import pytest

from book.kernel import theory
from book.kernel.experiments import (
    chosen,
    extracted,
    frozen,
    hyperparameters,
    models,
    scale,
    starts,
)
from book.kernel.experiments.models import QUICK
from book.kernel.experiments.runs import prepare
from embviz.words.cooccurrence import count_pairs


@pytest.mark.parametrize("kind", ["random", "derived", "permuted", "log counts", "PMI"])
def test_beginnings_have_the_random_ones_norm_and_differ_by_seed_only_where_chance_enters(kind):
    session = starts.prepare(QUICK)
    made_rows = starts.beginnings(session, kind).double()
    norms = session.model.embedding.detach().double().flatten(1).norm(dim=1)
    assert made_rows.flatten(1).norm(dim=1).numpy() == pytest.approx(norms.numpy(), rel=1e-6)
    unit = made_rows / made_rows.flatten(1).norm(dim=1)[:, None, None]
    assert np.allclose(unit[0], unit[1], atol=1e-6) == (kind not in ("random", "permuted"))
    if kind == "permuted":  # the derived rows in another order
        derived = starts.beginnings(session, "derived").double()[0].norm(dim=1)
        assert np.allclose(np.sort(derived), np.sort(made_rows[0].norm(dim=1)), atol=1e-5)


# --- frozen embeddings, terms, plateaus, agreement ----------------------------------------------------------


def test_frozen_embeddings_have_the_learned_norm_and_the_geometry_of_their_names():
    learned = np.random.default_rng(0).standard_normal((30, 16)) * 3
    made_up = frozen.frozen_embeddings(learned, np.random.default_rng(1))
    for own in made_up.values():
        assert np.linalg.norm(own) == pytest.approx(np.linalg.norm(learned))
    W = models.gram(made_up[frozen.ORTHOGONAL])
    assert pytest.approx(W * np.linalg.norm(learned) ** 2 / 16) == W @ W  # a multiple of a projector
    assert np.linalg.matrix_rank(made_up[frozen.NARROW]) == frozen.N_NARROW
    rows = made_up[frozen.EXCHANGED]
    assert rows[np.argsort(rows[:, 0])] == pytest.approx(learned[np.argsort(learned[:, 0])])
    wide = frozen.frozen_embeddings(learned.T, np.random.default_rng(1))[frozen.ORTHOGONAL]
    assert models.gram(wide) == pytest.approx(np.eye(16) * np.linalg.norm(learned) ** 2 / 16)


def test_a_frozen_embedding_stays_what_it_was_while_all_else_learns():
    run = frozen.runs("quick")[0]
    given = np.random.default_rng(0).standard_normal((run.text.vocab_size, run.shape.embedding_dim))
    losses, embedding = frozen._train(frozen.FrozenRuns(run), given)
    assert embedding == pytest.approx(given.astype(np.float32))
    assert losses["held_out_loss"].iloc[-1] < losses["held_out_loss"].iloc[0]
    _, learned = frozen._train(frozen.FrozenRuns(run), None)
    assert np.abs(learned - prepare(run).model.embedding.detach().numpy()[0]).max() > 0.001


def test_larger_vocabularies_are_counted_as_far_as_the_papers_pipeline_does_and_in_other_orders():
    ids = np.random.default_rng(5).integers(0, 5, 60)
    counts = count_pairs(ids, 5, window=5).toarray()
    np.testing.assert_allclose(scale._spectrum(ids, 5).matrix, np.log1p(counts))
    first, *others = scale._orders(9, 3)
    assert first.tolist() == list(range(9))
    assert all(sorted(order) == list(range(9)) and order.tolist() != list(range(9)) for order in others)


def test_a_best_epsilon_at_either_end_of_those_tried_is_marked(monkeypatch):
    run = models.main("quick")
    monkeypatch.setattr(hyperparameters, "prepare", lambda run: without_training(run))
    monkeypatch.setattr(hyperparameters, "EPS", np.array([0.001, 0.02]))
    assert hyperparameters.fitted.function(hyperparameters.EpsRun(run))["at_end"].all()


def without_training(run):
    session = prepare(run)
    session.snapshots = lambda every: []
    return session


def curve(losses: list[float], beginning: str = "random") -> pd.DataFrame:
    steps = np.arange(len(losses)) * 10
    return pd.DataFrame({"seed": 0, "step": steps, "held_out_loss": losses, "beginning": beginning})


def test_steps_to_a_loss_are_read_between_scores_and_are_all_where_it_is_never_reached():
    assert starts.steps_to(curve([4.0, 2.0]), 3.0) == pytest.approx(5)
    assert starts.steps_to(curve([4.0, 2.0]), 4.5) == 0
    assert starts.steps_to(curve([4.0, 3.0, 3.0, 2.0]), 3.0) == 10  # where it is reached first
    assert starts.steps_to(curve([4.0, 2.0]), 1.0) == 10


def test_errors_are_bounded_by_a_power_of_ten_that_does_not_tell_rounding_from_rounding():
    errors = (1.03e-14, 9.7e-15, 0.0, 2e-7, 1e-9)
    assert [extracted.error_power(error) for error in errors] == [-12, -12, -12, -6, -9]


def test_exchanged_rows_are_in_an_order_of_their_draw():
    learned = np.random.default_rng(5).standard_normal((30, 16))
    draws = [frozen.frozen_embeddings(learned, np.random.default_rng(seed)) for seed in (3, 4)]
    assert not np.array_equal(*(made_up[frozen.EXCHANGED] for made_up in draws))
