"""Half the dimensions: tables against loops and closed forms, charts that compile, and what they draw."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from book.reflections import half_the_dimensions as chapter
from book.reflections.experiments import theory, vectors
from embviz.view import theme
from tests.drawing import compiled


@pytest.fixture
def few_cells(monkeypatch, tmp_path):
    """Tiny cells of every claim, stored in a folder of their own."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    forms = itertools.product((4, 8), chapter.FORMS, range(2))
    cells = {
        "lemma1": [
            theory.quadratic_form.cell(theory.QuadraticForm(d, kind, dist, 200, seed))
            for d, (dist, kind), seed in forms
        ],
        "lemma2": [
            theory.partition.cell(theory.Partition(n, 10, alpha, case, 40, 0))
            for n, alpha, case in itertools.product((50, 200), theory.ALPHAS, chapter.CASES)
        ],
        "lemma3": [
            theory.recovered_map.cell(theory.RecoveredMap(n, 6, 0.25, kind, seed))
            for n, kind, seed in itertools.product((30, 60), chapter.MAPS, range(2))
        ],
        "pmi_random": [
            theory.random_pmi.cell(theory.RandomPMI(30, 10, *kind, 5, 0)) for kind in chapter.DRAWS
        ],
    }
    monkeypatch.setattr(chapter, "stored_cells", lambda claim: theory_table(cells[claim.split(".")[1]]))


def theory_table(cells) -> pd.DataFrame:
    parts = [cell.experiment.function(cell.config).assign(**vars(cell.config)) for cell in cells]
    return pd.concat(parts, ignore_index=True)


def test_the_charts_of_all_lemmas_compile(few_cells):
    for table, plot in [
        (chapter.exceedances(), chapter.plot_exceedances),
        (chapter.partition_means(), chapter.plot_partition_means),
        (chapter.partition_variances(), chapter.plot_partition_variances),
        (chapter.recovered_errors(), chapter.plot_recovered_errors),
        (chapter.entry_variances(), chapter.plot_entry_variances),
    ]:
        titles = {axis.get("title") for axis in compiled(plot(table))["axes"]}
        assert titles & {label for label in map(theme.title, theme.LABELS)}


def test_exceedances_are_the_seeds_mean_times_t_squared(few_cells):
    cells = chapter.stored_cells("reflections.lemma1")
    own = cells[(cells["d"] == 4) & (cells["t"] == 2.0) & (cells["distribution"] == "student_t")]
    table = chapter.exceedances()
    row = table[(table["d"] == 4) & (table["t"] == 2.0) & (table["variant"] == "Student t, Q = I")]
    assert row["scaled_exceedance"].item() == pytest.approx(4 * own["exceedance"].mean(), abs=1e-4)


def test_predicted_variance_of_uniform_words_is_that_of_one_term_over_n(few_cells):
    table = chapter.partition_variances().set_index(["variant", "n"])
    one_term = math.exp(2 / 10) - math.exp(1 / 10)  # of exp(w'c) at |w| = 1, d = 10
    assert table.loc[("alpha 1.0", 200), "predicted"] == pytest.approx(one_term / 200, rel=1e-3)
    floor = table.loc[("alpha 1.0, word redrawn", 200), "predicted"] - one_term / 200
    assert floor == pytest.approx(1 / (2 * 10**3), rel=0.01)


def test_the_floor_is_the_variance_of_the_mean_given_the_word():
    d = 100
    norms = np.random.default_rng(0).chisquare(d, 200_000) / d
    # a fourth-moment standard error of 0.3%, and terms of relative order 1/d left out of 1/(2 d^3)
    assert np.exp(norms / (2 * d)).var() == pytest.approx(1 / (2 * d**3), rel=0.03)


def test_squared_probabilities_agree_with_a_loop():
    weights = [rank ** (0.5 - 1) for rank in range(1, 8)]
    total = sum((weight / sum(weights)) ** 2 for weight in weights)
    assert chapter.squared_probabilities(7, 0.5) == pytest.approx(total)


def test_local_slopes_are_minus_one_for_uniform_words_and_lag_at_one_half():
    table = chapter.local_slopes(n_decades=5)
    decades = table.columns[1:]
    assert (table.loc[1.0, decades] == -1.0).all()
    assert (table.loc[0.5, decades] > -0.95).all()  # the factor log n that the exponent leaves out
    assert table.loc[0.25, "eq. 24"] == -0.5


def test_only_a_symmetric_map_gives_a_nearly_symmetric_joint_distribution():
    table = chapter.joint_asymmetries(n=200, d=20)
    assert (table["orthogonality error"] == 0).all()
    symmetric = table.drop(index="orthogonal")
    assert (symmetric["involution error"] == 0).all()
    assert table.loc["orthogonal", "asymmetry"] > 3 * symmetric["asymmetry"].max()


def test_the_random_maps_involution_error_is_that_of_its_symmetric_part():
    q = theory.draw_orthogonal(200, "orthogonal", np.random.default_rng(0))
    half = (q + q.T) / 2
    error = np.linalg.norm(half @ half - np.eye(200)) / math.sqrt(200)
    assert error == pytest.approx(chapter.RANDOM_INVOLUTION_ERROR, abs=0.02)


def test_pairs_do_not_know_the_share_of_plus_signs_but_trace_and_triples_do():
    table = chapter.signature_sweep(120, 20, n_seeds=2, shares=(0.0, 0.5, 1.0))
    mean = table.pivot_table(index="positive", columns="quantity", values="moment")
    names = chapter.STATISTICS
    for known in ("trace", "triangles"):
        assert mean[names[known]].tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=0.25)
    assert mean[names["offdiag_variance"]].tolist() == pytest.approx([1.0, 1.0, 1.0], abs=0.1)
    assert np.abs(mean[names["correlation"]]).max() < 0.25


def test_triples_agree_with_loops_over_distinct_words():
    n, d = 7, 3
    matrix = theory.simulated_pmi(n, d, 2, seed=0)
    triples = [matrix[i, j] * matrix[j, k] * matrix[k, i] for i, j, k in itertools.permutations(range(n), 3)]
    table = chapter.signature_sweep(n, d, n_seeds=1, shares=(2 / 3,)).set_index("quantity")
    assert table.loc[chapter.STATISTICS["triangles"], "moment"] == pytest.approx(
        np.mean(triples) * d**2, abs=1e-4
    )


def test_flipping_all_signs_mirrors_every_ridge_of_the_portrait():
    plus, minus = chapter.pmi_portrait(10, 1.0, n_words=40), chapter.pmi_portrait(10, 0.0, n_words=40)
    assert minus["top"].tolist() == pytest.approx(plus["mirrored"].tolist(), abs=1e-3)
    assert set(plus["base"]) == {0, 1, 2}
    assert plus["top"].groupby(plus["base"]).max().tolist() == [0.8, 1.8, 2.8]


def test_a_ridge_is_its_values_histogram_on_its_base():
    table = chapter.ridge(np.array([-0.5, 0.5, 0.5, 9.0]), np.array([-1.0, 0.0, 1.0]), 2)
    assert table["top"].tolist() == pytest.approx([2 + 0.8 / 3, 2.8], abs=1e-3)
    assert table["mirrored"].tolist() == table["top"].tolist()[::-1]


def test_the_portrait_is_drawn_for_an_explorer_and_for_a_table():
    assert compiled(chapter.plot_portrait(chapter.pmi_portrait(10, 0.5, n_words=40)))["axes"]


@pytest.fixture
def made_maps() -> pd.DataFrame:
    """Rows as trained vectors store them, of a made model that is exactly 0.8 times a reflection."""
    rng = np.random.default_rng(0)
    word = rng.standard_normal((60, 4))
    context = 0.8 * word * np.array([1.0, 1.0, -1.0, -1.0])
    model = vectors.WordVectors([f"w{i}" for i in range(60)], word, context, None)
    table = vectors.map_statistics(model, seed=0)
    return table.assign(run="made", seed=0, control=table["control"].map(chapter.CONTROLS)).dropna()


def test_a_scaled_reflection_has_its_scale_squared_on_the_diagonal(made_maps):
    summary = chapter.map_summary(made_maps)
    assert summary.loc["made", "diagonal"] == pytest.approx(0.64)
    entries = chapter.map_entries(made_maps)
    trained = entries[(entries["control"] == "trained") & (entries["entries"] == "diagonal")]
    tallest = trained.loc[trained["top"].idxmax()]
    assert tallest["left"] <= 0.64 <= tallest["right"]
    assert compiled(chapter.plot_map_entries(entries))["axes"]


def test_correlations_cannot_tell_a_rotation_from_a_reflection(made_maps):
    spans = chapter.map_correlations(made_maps).set_index(["comparison", "control"])["correlation"]
    rotation = chapter.CONTROLS["random_rotation"]
    for comparison in chapter.COMPARISONS.values():
        assert spans[comparison, "trained"] == spans[comparison, rotation] == 1.0
    assert compiled(chapter.plot_map_correlations(chapter.map_correlations(made_maps)))["axes"]


def test_a_copy_reflects_nothing_and_a_signature_half():
    assert chapter.reflection_shares(np.eye(6)) == {"reflected": 0.0, "trace": 1.0}
    basis = theory.draw_orthogonal(6, "orthogonal", np.random.default_rng(1))
    half = basis @ np.diag([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]) @ basis.T
    assert chapter.reflection_shares(half) == {"reflected": 0.5, "trace": 0.0}


def test_a_claim_without_results_is_refused_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"run `embviz run reflections\.lemma1 --preset quick`"):
        chapter.stored_cells("reflections.lemma1")


def test_the_map_eigenvalues_chart_draws_every_control_and_an_empty_table():
    table = pd.DataFrame(
        {
            "control": ["trained", "C = W R"],
            "real": [-1.0, 1.0],
            "imaginary": 0.0,
            "seed": 0,
            "corpus": "x",
        }
    )
    points = chapter.plot_map_eigenvalues(table).to_dict()["layer"][1]
    assert points["encoding"]["color"]["scale"]["domain"] == list(chapter.EIGENVALUE_CONTROLS.values())
    chapter.plot_map_eigenvalues(table.iloc[:0]).to_dict()


def test_map_eigenvalues_reads_the_stored_cells_of_the_largest_scale():
    table = chapter.map_eigenvalues()
    assert list(table.columns) == ["control", "real", "imaginary", "seed", "corpus"]
    assert set(table["control"]) <= set(chapter.EIGENVALUE_CONTROLS.values())
