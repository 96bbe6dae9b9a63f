"""Numbers that judge claims on the kernel, each against its definition on made data."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.kernel import theory
from book.kernel.experiments import (
    extracted,
    fits,
    frozen,
    hyperparameters,
    models,
    orthogonality,
    scale,
    scan,
    starts,
    word_vectors,
)
from book.kernel.experiments.runs import prepare
from embviz.words.cooccurrence import count_pairs
from tests.book.kernel.experiments.test_studies import QUICK, made

RNG = np.random.default_rng(5)


# --- the scan of texts ------------------------------------------------------------------------------------


def test_medians_of_resampled_texts_are_some_texts_numbers():
    values = [1.0, 2.0, 3.0, 4.0, 90.0]
    found = scan.median_of(pd.Series(values), "made")
    assert found.value == 3
    assert {found.low, found.high} <= set(values)
    assert found.low < 3 < found.high


def test_the_ratio_of_the_terms_has_epsilon_in_two_readings_of_four():
    table = pd.DataFrame({"sd_log": [2.0], "sd_identity": [4.0], "sd_matrix": [8.0], "sd_power": [12.0]})
    ratios = {name: float(values.iloc[0]) for name, values in scan._ratios(table).items()}
    assert ratios.pop("magnitude_power") == 3
    plain = {"magnitude": 0.5, "magnitude_matrix": 0.25}
    assert ratios == plain | {f"{name}_eps": theory.EPS * value for name, value in plain.items()}
    assert scan._nearest_to_printed({"a factor of 2.7 below": 15, "2.5 above": 100}) == "2.5 above"


def test_the_ratio_that_is_judged_and_its_shuffled_control_are_medians(monkeypatch):
    of_texts = {False: [20.0, 30.0, 1e6], True: [1.0, 2.0, 1e6]}
    monkeypatch.setattr(scan, "log_terms_cell", lambda preset, shuffled: shuffled)
    monkeypatch.setattr(
        scan,
        "table_of",
        lambda own: pd.DataFrame(
            {"sd_log": of_texts[own], "sd_identity": 1.0, "sd_matrix": 1e9, "sd_power": 1e-3}
        ),
    )
    found = scan._active("quick")
    assert found["nearest_of_five"].value == found["magnitude"].value == 30
    assert found["nearest_of_five"].controls == {"shuffled": 2}


def test_departures_from_table_5_that_cancel_have_slope_1(monkeypatch):
    steps = np.array([2, 0.5, 2, 0.5, 1.0])
    row = dict(zip(scan.PAIRS, 1 - (1 - np.array(scan.TABLE_5)) * steps, strict=True))
    monkeypatch.setattr(scan, "nearest", lambda *_: pd.DataFrame([row] * 3))
    monkeypatch.setattr(scan, "table", lambda preset: None)
    monkeypatch.setattr(fits, "table_5_of_text", lambda preset: {})
    assert scan._table_5("quick")["text_slope"].value == pytest.approx(1)


# --- fits of formulas -------------------------------------------------------------------------------------


def test_a_reading_is_chosen_by_its_mean_over_models():
    paper = fits.PAPER_TABLE_1["H6"]
    table = {f"{name} ({fits.AS_WRITTEN.get(name, 'a')})": np.zeros(2) for name in fits.PAPER_TABLE_1}
    table |= {"H6 (a)": np.array([paper, paper + 1]), "H6 (b)": np.array([paper + 0.2, paper - 0.2])}
    assert fits.nearest_readings(table)["H6"] == "H6 (b)"


def test_epsilon_is_fitted_to_logarithms_of_the_printed_values():
    tried = np.linspace(0, 0.1, 10_001)
    far = [(np.log(fits.eigenvalue_table(eps) / np.array(fits.PRINTED)) ** 2).sum() for eps in tried]
    assert fits.fitted_eps() == pytest.approx(tried[np.argmin(far)], abs=1e-5)


def test_what_a_text_says_of_the_identity_is_in_powers_of_ten(monkeypatch):
    trained = made()
    monkeypatch.setattr(models, "trained", lambda preset: trained)
    rows = theory.k0_eigen(trained.spectrum), theory.impulse_row(trained.spectrum)
    ratio = np.std(rows[0]) / np.std(rows[1])
    assert fits.identity_of_text("quick")["spread_eigen"].value == pytest.approx(np.log(ratio) / np.log(10))


def test_the_spread_of_best_cosines_is_that_of_a_sample_and_epsilon_a_median(monkeypatch):
    better, where = np.array([0.1, 0.2, 0.6]), np.array([1.0, 2.0, 9.0])
    monkeypatch.setattr(models, "trained", lambda preset: made())
    monkeypatch.setattr(models, "all_readings", lambda preset: [("a", made())])
    monkeypatch.setattr(fits, "_with_words", lambda preset: {})
    monkeypatch.setattr(fits, "better_form", lambda *_: better)
    monkeypatch.setattr(fits, "best_over_eps", lambda *_: (better, where))
    found = fits._table_4("quick")
    assert found["sd"].value == pytest.approx(np.sqrt(((better - 0.3) ** 2).sum() / 2))
    assert found["best_epsilon"].value == 2
    assert (found["best_reading"].value, found["cosine_fft"].n_seeds) == (pytest.approx(0.3), 3)


def test_correlations_of_matrices_leave_the_diagonal_out_and_count_a_pair_once():
    W, matrix = RNG.standard_normal((2, 6, 6)), RNG.standard_normal((6, 6))
    slow = [
        stats.pearsonr(
            *zip(*[(own[i, j], matrix[i, j]) for i in range(6) for j in range(i + 1, 6)], strict=True)
        )
        for own in W
    ]
    assert fits.off_diagonal_correlations(W, matrix) == pytest.approx([one.statistic for one in slow])


@pytest.mark.parametrize("correlation", [fits.rank_correlation, orthogonality._rho])
def test_a_rank_correlation_is_1_for_whatever_rises(correlation):
    assert correlation(np.arange(5.0), np.array([0, 1, 10, 100, 1e6])) == pytest.approx(1)
    assert correlation(np.arange(3.0), np.ones(3)) == 0


# --- over seeds and orders --------------------------------------------------------------------------------


def test_cosines_between_seeds_are_of_different_seeds_and_so_are_resampled_ones():
    rows = np.linalg.cholesky([[1, 0.1, 0.2], [0.1, 1, 0.6], [0.2, 0.6, 1]])
    assert extracted.mean_between(rows) == pytest.approx(0.3)
    found = extracted.resampled(rows, "made", {})
    assert (found.low, found.value, found.high) == pytest.approx((0.1, 0.3, 0.6))


def test_words_in_other_orders_have_other_scores():
    trained = made()
    plain, permuted = (
        trained.scores(trained.first),
        extracted.permuted_scores(trained, 3, embeddings=trained.first),
    )
    assert permuted.shape == (3, 3)
    assert np.abs(permuted - plain).min() > 1e-6


def test_models_that_are_kept_score_at_least_what_the_paper_asks(monkeypatch):
    trained = made()
    monkeypatch.setattr(models, "trained", lambda preset: trained)
    monkeypatch.setattr(models, "all_readings", lambda preset: [("a", trained)])
    monkeypatch.setattr(models, "load", lambda run: trained)
    monkeypatch.setattr(models, "untied", lambda preset: None)
    monkeypatch.setattr(models, "shuffled", lambda preset: None)
    monkeypatch.setattr(models, "final_losses", lambda trained: np.ones(3))
    monkeypatch.setattr(extracted, "N_RANDOM", 2)
    assert extracted._circulant("quick")["kept"].value == 1


def test_a_diagnostic_is_compared_with_the_loss_after_the_first_snapshot():
    path = pd.DataFrame({"seed": 0, "step": range(5), "held_out_loss": [0, 1, 2, 3, 4.0]})
    assert orthogonality.rank_correlations(path.assign(d=[99, 1, 4, 9, 16.0]), "d") == pytest.approx([1])


def test_each_draw_of_untrained_embeddings_is_another():
    text = orthogonality.UntrainedModels(QUICK.text, 8, 3)
    assert orthogonality.untrained.function(text)[["fft", "eigen", "identity"]].nunique().tolist() == [3] * 3


# --- hyperparameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_groups", "size"), [(12, 3), (5, 4)])
def test_agreement_and_its_interval_follow_from_the_f_test(n_groups, size):
    values = RNG.standard_normal((n_groups, 1)) + RNG.standard_normal((n_groups, size))
    ratio = stats.f_oneway(*values).statistic
    quantiles = stats.f.ppf([0.975, 0.025], n_groups - 1, n_groups * (size - 1))
    wanted = [(x - 1) / (x + size - 1) for x in (ratio, *(ratio / quantiles))]
    assert hyperparameters.agreement(values.ravel(), np.repeat(range(n_groups), size)) == pytest.approx(
        wanted
    )


def test_the_control_of_agreement_is_exceeded_by_one_deal_in_twenty():
    groups = np.repeat(range(12), 3)
    limit = hyperparameters._dealt_agreement(RNG.standard_normal(36), groups)
    ratio = stats.f.ppf(0.95, 11, 24)
    assert limit == pytest.approx((ratio - 1) / (ratio + 2), abs=0.1)


def test_epsilons_agree_on_logarithms_and_their_ranges_are_a_median(monkeypatch):
    groups = np.repeat(range(4), 3)
    table = pd.DataFrame({"setting": groups, "eps": 10.0 ** RNG.integers(-4, 3, 12), "at_end": False})
    table["range"] = [0.1] * 11 + [9.0]
    monkeypatch.setattr(hyperparameters, "best_eps", lambda preset, first_seed=0: table)
    monkeypatch.setattr(hyperparameters, "N_DEALS", 3)
    found = hyperparameters._fresh("quick")["agreement"]
    assert found.value == pytest.approx(
        hyperparameters.agreement(np.log10(table["eps"].to_numpy()), groups)[0]
    )
    assert hyperparameters._open_eps("quick")["flat"].value == pytest.approx(0.1)


def test_a_best_epsilon_at_either_end_of_those_tried_is_marked(monkeypatch):
    run = models.main("quick")
    monkeypatch.setattr(hyperparameters, "prepare", lambda run: without_training(run))
    monkeypatch.setattr(hyperparameters, "EPS", np.array([0.001, 0.02]))
    assert hyperparameters.fitted.function(hyperparameters.EpsRun(run))["at_end"].all()


def without_training(run):
    session = prepare(run)
    session.snapshots = lambda every: []
    return session


# --- starts, frozen embeddings, larger vocabularies -------------------------------------------------------


def test_a_derived_start_is_permuted_by_the_seed_of_its_model():
    rows = starts.beginnings(prepare(QUICK), "permuted")
    assert not torch.equal(rows[0] / rows[0].norm(), rows[1] / rows[1].norm())


def test_losses_are_compared_at_the_random_starts_third_and_at_the_end_less_its_own(monkeypatch):
    steps = np.arange(0, 91, 10)
    losses = {"random": 9 - steps / 10, "derived": 9 - steps / 5, "permuted": 9 - steps / 10}
    tables = {
        kind: pd.concat(
            [
                pd.DataFrame(
                    {"seed": seed, "step": steps, "held_out_loss": losses.get(kind, losses["random"])}
                )
                for seed in range(3)
            ]
        ).assign(beginning=kind)
        for kind in starts.get_args(starts.Beginning)
    }
    monkeypatch.setattr(starts, "curves", lambda run, kinds: pd.concat([tables[kind] for kind in kinds]))
    found = starts._initialization("quick")
    assert found["saving"].value == pytest.approx(50)
    assert found["final"].value == pytest.approx(-9)


def test_what_a_frozen_embedding_loses_is_between_the_least_losses_of_both():
    kinds = {frozen.LEARNED: [3.0, 1.0, 2.0], frozen.NARROW: [3.0, 1.5, 1.7]}
    rows = [(seed, kind, loss) for seed in (1, 2) for kind, losses in kinds.items() for loss in losses]
    table = pd.DataFrame(rows, columns=["seed", "kind", "held_out_loss"])
    assert frozen.lost(table, frozen.NARROW) == pytest.approx([0.5, 0.5])


def test_frozen_embeddings_are_drawn_by_the_seed_of_their_model(monkeypatch):
    drawn = []
    losses = pd.DataFrame({"step": [0], "held_out_loss": [1.0]})
    monkeypatch.setattr(frozen, "_train", lambda config, made: (losses, np.eye(30, 16)))
    monkeypatch.setattr(frozen, "frozen_embeddings", lambda learned, rng: drawn.append(rng.random()) or {})
    monkeypatch.setattr(frozen, "relations", lambda *_: [0.0])
    for run in frozen.runs("quick"):
        frozen.frozen.function(frozen.FrozenRuns(run))
    assert len(set(drawn)) == 2


def test_exchanged_rows_are_in_an_order_of_their_draw():
    learned = RNG.standard_normal((30, 16))
    draws = [frozen.frozen_embeddings(learned, np.random.default_rng(seed)) for seed in (3, 4)]
    assert not np.array_equal(*(made_up[frozen.EXCHANGED] for made_up in draws))


def test_a_loss_is_reached_where_it_first_stands():
    table = pd.DataFrame({"step": [0, 10, 20, 30], "held_out_loss": [4.0, 3.0, 3.0, 2.0]})
    assert starts.steps_to(table, 3.0) == 10


def test_products_of_vectors_are_symmetric_as_counts_are(monkeypatch):
    word, context = RNG.standard_normal((2, 3, 2))
    table = pd.DataFrame({"word": word.ravel(), "context": context.ravel(), "vocab_size": 3})
    monkeypatch.setattr(word_vectors, "table_of", lambda cell: table)
    slow = [[(word[i] @ context[j] + word[j] @ context[i]) / 2 for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(word_vectors.products(None), slow)


def test_larger_vocabularies_are_counted_as_far_as_the_papers_pipeline_does_and_in_other_orders():
    ids = RNG.integers(0, 5, 60)
    counts = count_pairs(ids, 5, window=5).toarray()
    np.testing.assert_allclose(scale._spectrum(ids, 5).matrix, np.log1p(counts))
    first, *others = scale._orders(9, 3)
    assert first.tolist() == list(range(9))
    assert all(sorted(order) == list(range(9)) and order.tolist() != list(range(9)) for order in others)


def test_a_loss_falls_from_the_snapshot_before_the_last():
    losses = [4.0, 2.0, 1.0]
    table = pd.concat(
        [
            pd.DataFrame({"seed": 0, "step": step, "quantity": name, "index": 0, "value": [value]})
            for step, value in enumerate(losses)
            for name in ("held_out_loss", "dropout_loss", "embedding")
        ]
        + [pd.DataFrame({"seed": 0, "step": 0, "quantity": "vocab_size", "index": 0, "value": [1.0]})]
    )
    session = SimpleNamespace(config=SimpleNamespace(members=[SimpleNamespace(seed=0)]))
    falls = {step: found["fall"] for step, (_, found) in scale._losses_and_ends(session, table).items()}
    assert falls == {0: 0, 2: 0.5}
