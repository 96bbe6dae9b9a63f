"""What the claims on the kernel are held against: models, formulas, beginnings, scale; all in miniature."""

import numpy as np
import pandas as pd
import pytest

from embviz import cells, kernels, ledger
from embviz.cells import missing
from embviz.experiments.kernel import STUDIES, extracted, fits, hyperparameters, models, orthogonality, starts
from embviz.experiments.kernel.counts import Counts
from embviz.experiments.kernel.models import MAIN, QUICK, Trained


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the quick cells of every claim but the three that train most."""
    slow = ("kernel.initialization", "kernel.open_scale", "kernel.open_eps")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        todo = [
            cell
            for name, study in STUDIES.items()
            if name not in slow
            for cell in study.preset_cells("quick")
        ]
        cells.run(todo, n_jobs=1, progress=False)
        yield [name for name in STUDIES if name not in slow]


def made(W_of_c: float = 2.0, V: int = 12, n_seeds: int = 3) -> Trained:
    """Models whose Gram matrix is exactly c I, on random counts."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, 50, (V, V)).astype(float)
    E = np.stack([np.linalg.qr(rng.standard_normal((V, V)))[0] for _ in range(n_seeds)]) * np.sqrt(W_of_c)
    path = np.stack([rng.standard_normal(E.shape), E])
    table = pd.DataFrame({"seed": range(n_seeds), "step": 1, "dropout_loss": 1.0})
    counts = Counts([str(i) for i in range(V)], half + half.T)
    return Trained("made", [0, 1], path, E, table, counts, np.ones(V, bool))


def test_every_claim_has_a_study_and_every_figure_a_finding(results):
    for name in results:
        found = STUDIES[name].findings("quick")
        wanted = {figure.name for figure in ledger.find_claim(name).figures}
        assert wanted == set(found), name


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
    planted = kernels.alpha_scan(trained.spectrum, [0.01], form="fft")
    best, where = fits.best_over_eps(trained.spectrum, planted, "fft")
    assert best[0] == pytest.approx(1, abs=1e-5)  # the grid's nearest epsilon is 2% off
    assert where[0] == pytest.approx(0.01, rel=0.06)  # neighbours lie 5% apart


def test_the_papers_five_eigenvalues_belong_to_another_epsilon():
    assert fits.eigenvalue_table()[0] == pytest.approx(10**-1.994)
    assert 0.005 < fits.fitted_eps() < 0.02


def test_a_reading_is_chosen_by_its_distance_to_the_papers_cosine():
    labels = [f"{name} (a)" for name in fits.PAPER_TABLE_1] + ["H1 (b)", "H12 (alpha 0.003)"]
    table = {label: np.array([0.0, 0.0]) for label in labels}
    table["H1 (b)"] = np.array([0.2, 0.24])
    chosen = fits.nearest_readings(table)
    assert chosen["H1"] == "H1 (b)"
    assert chosen["H12"] == "H12 (alpha 0.003)"


def test_variance_between_groups_is_all_none_or_a_known_share():
    groups = np.array([0, 0, 1, 1])
    assert hyperparameters.explained(np.array([1.0, 1, 3, 3]), groups) == pytest.approx(1)
    assert hyperparameters.explained(np.array([1.0, 3, 1, 3]), groups) == pytest.approx(0)
    assert hyperparameters.explained(np.ones(4), groups) == 0
    assert hyperparameters.explained(np.array([0.0, 2, 2, 4]), groups) == pytest.approx(0.5)
    assert hyperparameters.dealt(np.arange(40.0), np.repeat(range(20), 2)) < 0.8


def curve(losses: list[float], beginning: str = "random") -> pd.DataFrame:
    steps = np.arange(len(losses)) * 10
    return pd.DataFrame({"seed": 0, "step": steps, "held_out_loss": losses, "beginning": beginning})


def test_steps_to_a_loss_are_read_between_scores_and_are_all_where_it_is_never_reached():
    assert starts.steps_to(curve([4.0, 2.0]), 3.0) == pytest.approx(5)
    assert starts.steps_to(curve([4.0, 2.0]), 4.5) == 0
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


def test_permuted_beginnings_are_the_derived_ones_in_another_order():
    session = starts.prepare(QUICK)
    derived, permuted = (starts.beginnings(session, kind)[0] for kind in ("derived", "permuted"))
    assert not np.allclose(derived, permuted)
    assert np.allclose(np.sort(derived.norm(dim=1)), np.sort(permuted.norm(dim=1)), atol=1e-5)


def test_an_unknown_beginning_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="log counts"):
        starts.StartRun(QUICK, "svd")  # type: ignore[arg-type]


def test_the_main_reading_is_the_one_whose_loss_lies_nearest_to_the_papers(monkeypatch):
    monkeypatch.delenv("EMBVIZ_RESULTS_DIR", raising=False)
    runs = models.readings("paper")
    stored = {label: run for label, run in runs.items() if not missing(models.cells_of(run))}
    if len(stored) < len(runs):
        pytest.skip("not all readings are stored")
    distance = {
        label: abs(models.final_losses(models.load(run)).mean() - models.PAPER_LOSS)
        for label, run in stored.items()
    }
    assert min(distance, key=distance.get) == MAIN.label
