"""What the claims on the kernel are held against: models, formulas, beginnings, scale; all in miniature."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from book.kernel import theory
from book.kernel.experiments import (
    STUDIES,
    chosen,
    extracted,
    fits,
    frozen,
    hyperparameters,
    models,
    orthogonality,
    scale,
    starts,
)
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import MAIN, QUICK, Trained
from book.kernel.experiments.runs import prepare
from embviz import kernels
from embviz.ledger.cells import missing
from embviz.words.cooccurrence import count_pairs


def made(W_of_c: float = 2.0, V: int = 12, n_seeds: int = 3) -> Trained:
    """Models whose Gram matrix is exactly c I, on random counts."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, 50, (V, V)).astype(float)
    E = np.stack([np.linalg.qr(rng.standard_normal((V, V)))[0] for _ in range(n_seeds)]) * np.sqrt(W_of_c)
    path = np.stack([rng.standard_normal(E.shape), E])
    table = pd.DataFrame({"seed": range(n_seeds), "step": 1, "dropout_loss": 1.0})
    counts = Counts([str(i) for i in range(V)], half + half.T)
    return Trained("made", [0, 1], path, E, table, counts, np.ones(V, bool))


def test_a_multiple_of_the_identity_is_what_identity_deconvolution_fits_exactly():
    trained = made()
    assert fits.cosines(trained.identity, trained.k0) == pytest.approx(np.ones(3))
    assert trained.scores(trained.last) == pytest.approx(np.ones(3))
    assert fits.better_form(trained.spectrum, trained.k0).min() > 0.9  # the formula is near the identity
    assert extracted.mean_between(trained.k0) == pytest.approx(1)


def test_orthogonal_rows_have_no_cosine_and_random_ones_what_theory_expects():
    assert orthogonality.mean_cosines(made().last).max() < 1e-12
    assert orthogonality.diagonal_shares(made().last) == pytest.approx(np.ones(3))
    random = extracted.random_embeddings(300, 64, 2)
    expected = orthogonality.expected_cosine(64)
    assert orthogonality.mean_cosines(random) == pytest.approx([expected] * 2, rel=0.02)  # 45,000 pairs


def test_a_random_matrix_is_reconstructed_as_exactly_as_a_model():
    trained = made()
    assert extracted.round_trip(trained, extracted.random_symmetric(12, 4)).max() < 1e-10


def test_the_best_epsilon_is_found_where_it_was_planted():
    trained = made()
    planted = theory.alpha_scan(trained.spectrum, [0.01], form="fft")
    best, where = fits.best_over_eps(trained.spectrum, planted, "fft")
    assert best[0] == pytest.approx(1, abs=1e-5)  # the grid's nearest epsilon is 2% off
    assert where[0] == pytest.approx(0.01, rel=0.06)  # neighbours lie 5% apart


def test_the_papers_five_eigenvalues_belong_to_another_epsilon():
    assert fits.eigenvalue_table()[0] == pytest.approx(10**-1.994)
    assert 0.005 < fits.fitted_eps() < 0.02


def test_a_reading_is_chosen_by_its_distance_to_the_papers_cosine():
    table = table_of_readings({"H6 (b)": [0.15, 0.2], "H1 (b)": [0.2, 0.24]})
    chosen = fits.nearest_readings(table)
    assert chosen["H6"] == "H6 (b)"
    assert chosen["H1"] == "H1 (as written)"  # Table 1 prints its formula: nothing to choose
    assert chosen["H12"] == "H12 (alpha 0.003)"


def table_of_readings(others: dict[str, list[float]]) -> dict[str, np.ndarray]:
    """Two models' cosines of a reading of every formula, all 0, and of the given ones."""
    labels = [f"{name} ({fits.AS_WRITTEN.get(name, 'a')})" for name in fits.PAPER_TABLE_1]
    zeros = {label: np.zeros(2) for label in labels}
    return zeros | {label: np.array(values) for label, values in others.items()}


def test_readings_as_written_are_those_that_the_formulas_have():
    trained = made()
    labels = fits.table_1(trained)
    assert {f"{name} ({reading})" for name, reading in fits.AS_WRITTEN.items()} <= set(labels)


def test_the_papers_own_cosines_are_in_its_order_and_their_negatives_in_the_reverse():
    chosen = fits.nearest_readings(table_of_readings({}))
    table = {
        label: np.array([fits.PAPER_TABLE_1[name], -fits.PAPER_TABLE_1[name]])
        for name, label in chosen.items()
    }
    assert fits.order_agreement(table) == pytest.approx([1, -1])


def test_the_best_sum_of_rows_finds_a_gram_matrix_made_of_the_identity_and_the_counts():
    spectrum, V = made().spectrum, 12
    k0 = kernels.extract_kernel(2.0 * np.eye(V) - 0.3 * spectrum.matrix, spectrum.matrix, zeros="drop").k0[
        None
    ]
    identity, impulse = theory.row_identity(spectrum), np.eye(V)[0]
    assert fits.best_sum(np.stack([identity, impulse]), k0) == pytest.approx([1])
    assert fits.with_counts(spectrum, k0) == pytest.approx([1])
    assert fits.best_sum(identity[None], k0) == pytest.approx(np.abs(fits.cosines(identity, k0)))
    with_ones = kernels.extract_kernel(np.eye(V) + 0.5, spectrum.matrix, zeros="drop").k0[None]
    assert fits.best_sum(np.stack([identity, np.ones(V)]), with_ones) == pytest.approx([1])


def test_the_formula_has_over_the_identity_what_was_planted():
    spectrum = made().spectrum
    planted = theory.alpha_scan(spectrum, [0.01], form="eigen")
    formula, over = fits.over_identity(spectrum, planted)
    identity = theory.row_identity(spectrum)
    assert formula[0] == pytest.approx(1, abs=1e-4)  # the grid's nearest epsilon is 2% off
    assert over[0] == pytest.approx(formula[0] - fits.cosines(identity, planted)[0])
    assert fits.over_identity(spectrum, identity[None])[1][0] <= 0


def curve(losses: list[float], beginning: str = "random") -> pd.DataFrame:
    steps = np.arange(len(losses)) * 10
    return pd.DataFrame({"seed": 0, "step": steps, "held_out_loss": losses, "beginning": beginning})


def test_steps_to_a_loss_are_read_between_scores_and_are_all_where_it_is_never_reached():
    assert starts.steps_to(curve([4.0, 2.0]), 3.0) == pytest.approx(5)
    assert starts.steps_to(curve([4.0, 2.0]), 4.5) == 0
    assert starts.steps_to(curve([4.0, 3.0, 3.0, 2.0]), 3.0) == 10  # where it is reached first
    assert starts.steps_to(curve([4.0, 2.0]), 1.0) == 10


def test_a_beginning_twice_as_fast_saves_half_and_the_same_one_nothing():
    random = curve([4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0])  # a third of its 60 steps: 2.0
    same, faster = random.assign(beginning="same"), curve([4.0, 2.0, 1, 1, 1, 1, 1], "faster")
    table = pd.concat([random, same, faster])
    assert starts.savings(table, "same") == pytest.approx([0])
    assert starts.savings(table, "faster") == pytest.approx([50])


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


def test_other_orders_are_averaged_without_the_plain_one_and_over_the_seeds_of_their_size(monkeypatch):
    models_of_each = [(size, seed) for size, n_seeds in ((1_000, 5), (5_000, 2)) for seed in range(n_seeds)]
    rows = [
        (size, seed, step, order, 0.5 + 0.4 * (step > 0) - 0.01 * order)
        for (size, seed), step, order in itertools.product(models_of_each, (0, 100), range(3))
    ]
    table = pd.DataFrame(rows, columns=["name", "seed", "step", "order", "fft"])
    table = table.assign(eigen=0.1, score=0.3, with_counts=0.95, with_mean=0.5)
    monkeypatch.setattr(scale, "table", lambda preset: table)
    monkeypatch.setattr(scale, "table_of", lambda cell: pd.DataFrame([{"clamped": 1.0, "listings": 0.2}]))
    found = scale._open_scale("paper")
    assert found["orders_1000"].value == pytest.approx(0.885)
    assert [found[f"counts_{size}"].n_seeds for size in (1_000, 5_000)] == [5, 2]


def test_the_main_reading_is_the_one_whose_loss_lies_nearest_to_the_papers(monkeypatch):
    monkeypatch.delenv("EMBVIZ_RESULTS_DIR", raising=False)
    runs = models.readings("paper")
    stored = {label: run for label, run in runs.items() if not missing(models.cells_of(run))}
    if len(stored) < len(runs):
        pytest.skip("not all readings are stored")
    distance = {
        label: abs(models.final_losses(models.load(run)).mean() - 1.404)  # Table 4
        for label, run in stored.items()
    }
    assert min(distance, key=distance.get) == MAIN.label


def test_errors_are_bounded_by_a_power_of_ten_that_does_not_tell_rounding_from_rounding():
    errors = (1.03e-14, 9.7e-15, 0.0, 2e-7, 1e-9)
    assert [extracted.error_power(error) for error in errors] == [-12, -12, -12, -6, -9]


# --- frozen embeddings, terms, plateaus, agreement ----------------------------------------------------------


def test_agreement_is_whole_where_groups_do_not_vary_within_and_none_where_nothing_varies():
    assert hyperparameters.agreement(np.array([1.0, 1, 3, 3]), np.array([0, 0, 1, 1])) == (1, 1, 1)
    assert hyperparameters.agreement(np.ones(4), np.array([0, 0, 1, 1])) == (0, 0, 0)


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


def plateau_table() -> pd.DataFrame:
    """Three models whose loss is flat, before and after training."""
    rows = [
        {"seed": seed, "step": step, "order": 0, "fall": fall * (step > 0), "dropout_loss": 2.0}
        | {"eigen": 0.5, "fft": 0.6 + seed / 1000, "identity": 0.4, "with_counts": 0.7, "score": 0.1}
        for seed, fall in ((100, 0.01), (101, 0.015), (102, 0.005))
        for step in (0, 10)
    ]
    return pd.DataFrame(rows)


def test_a_loss_that_still_falls_decides_nothing_and_a_flat_one_does(monkeypatch):
    table = plateau_table()
    monkeypatch.setattr(scale, "table_of", lambda cell: table)
    flat = scale.at_plateau("paper")
    assert flat["cosine_wide"].n_seeds == 3
    assert flat["cosine_wide"].value == pytest.approx(0.701)
    assert flat["over_small"].value == pytest.approx(0.301)
    table["fall"] *= 10
    falling = scale.at_plateau("paper")
    assert not falling["cosine_wide"].decides
    assert falling["cosine_wide"].n_seeds == 0
    assert falling["fall_wide"].value == pytest.approx(10.0)


def test_the_complex_power_of_a_positive_definite_matrix_is_the_clamped_one():
    rng = np.random.default_rng(0)
    half = rng.uniform(size=(9, 9))
    positive = theory.decompose(half @ half.T + 0.1)
    assert chosen.complex_power_row(positive) == pytest.approx(theory.k0_fft(positive))
    signed = theory.decompose(half + half.T)
    power = (signed.vectors * (signed.values.astype(complex) ** theory.EPS).real) @ signed.vectors.T
    assert chosen.complex_power_row(signed) == pytest.approx(theory.deconvolved_row(power, signed))


def test_a_best_epsilon_at_either_end_of_those_tried_is_marked(monkeypatch):
    run = models.main("quick")
    monkeypatch.setattr(hyperparameters, "prepare", lambda run: without_training(run))
    monkeypatch.setattr(hyperparameters, "EPS", np.array([0.001, 0.02]))
    assert hyperparameters.fitted.function(hyperparameters.EpsRun(run))["at_end"].all()


def without_training(run):
    session = prepare(run)
    session.snapshots = lambda every: []
    return session


def test_a_derived_start_is_permuted_by_the_seed_of_its_model():
    rows = starts.beginnings(prepare(QUICK), "permuted")
    assert not torch.equal(rows[0] / rows[0].norm(), rows[1] / rows[1].norm())


def test_exchanged_rows_are_in_an_order_of_their_draw():
    learned = np.random.default_rng(5).standard_normal((30, 16))
    draws = [frozen.frozen_embeddings(learned, np.random.default_rng(seed)) for seed in (3, 4)]
    assert not np.array_equal(*(made_up[frozen.EXCHANGED] for made_up in draws))


def test_larger_vocabularies_are_counted_as_far_as_the_papers_pipeline_does_and_in_other_orders():
    ids = np.random.default_rng(5).integers(0, 5, 60)
    counts = count_pairs(ids, 5, window=5).toarray()
    np.testing.assert_allclose(scale._spectrum(ids, 5).matrix, np.log1p(counts))
    first, *others = scale._orders(9, 3)
    assert first.tolist() == list(range(9))
    assert all(sorted(order) == list(range(9)) and order.tolist() != list(range(9)) for order in others)
