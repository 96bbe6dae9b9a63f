"""The chapter on fourteen formulas: cosines, the two identities, what three vectors can have, charts."""

import numpy as np
import pandas as pd
import pytest

from book.kernel import formulas as chapter
from book.kernel.experiments import fits, models
from book.kernel.experiments.counts import Counts
from book.kernel.experiments.models import Trained
from embviz import kernels
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled, drawn

V, DIM, SEEDS = 16, 20, 2
CLEARED = ("trained", "candidates", "table_1", "products")


def made(E: np.ndarray) -> Trained:
    """Models with these embeddings (R, V, D) after training, random ones before, on random counts."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, 50, (V, V)).astype(float)
    path = np.stack([rng.standard_normal(E.shape), E])
    table = pd.DataFrame({"seed": range(len(E)), "step": 1, "dropout_loss": 1.0})
    counts = Counts([f"w{i}" for i in range(V)], half + half.T)
    return Trained("made", [0, 1], path, E, table, counts, np.ones(V, bool))


@pytest.fixture(autouse=True)
def orthogonal(monkeypatch):
    """Models whose Gram matrix is exactly 2 I."""
    rng = np.random.default_rng(1)
    frames = [np.linalg.qr(rng.standard_normal((DIM, V)))[0].T for _ in range(SEEDS)]
    found = made(np.sqrt(2) * np.stack(frames))
    products = rng.standard_normal((SEEDS, V, V))
    monkeypatch.setattr(models, "trained", lambda preset: found)
    monkeypatch.setattr(models, "shuffled", lambda preset: preset)
    monkeypatch.setattr(models, "load", lambda run: found)
    monkeypatch.setattr(fits, "vector_products", lambda preset, own: products + products.swapaxes(1, 2))
    clear()
    yield found
    clear()


def pmi_of(found: Trained) -> np.ndarray:
    pairs, words = found.counts.pairs, found.counts.pairs.sum(axis=1)
    return np.log(pairs * pairs.sum() / np.outer(words, words))


def clear() -> None:
    for name in CLEARED:
        getattr(chapter, name).cache_clear()


def test_the_table_has_the_cosines_of_slow_loops_after_and_before_training(orthogonal):
    table = chapter.table_1("quick")
    row = table[(table["label"] == "H8 (as written)") & (table["seed"] == 1)].iloc[0]
    mean = np.log1p(orthogonal.counts.pairs).mean(axis=0)
    for name, E in (("after", orthogonal.last[1]), ("before", orthogonal.first[1])):
        quotient = np.fft.fft2(E @ E.T) / np.fft.fft2(np.log1p(orthogonal.counts.pairs))
        k0 = np.fft.ifft2(quotient).real[0]
        assert row[name] == pytest.approx(mean @ k0 / np.linalg.norm(mean) / np.linalg.norm(k0))


def test_each_formula_of_the_paper_has_one_nearest_reading(orthogonal):
    table = chapter.table_1("quick")
    near = table[table["nearest"]].groupby("id")["label"].nunique()
    assert set(near.index) == set(fits.PAPER_TABLE_1)
    assert (near == 1).all()
    H9 = table[table["id"] == "H9"].groupby("label")["after"].mean() - fits.PAPER_TABLE_1["H9"]
    chosen = table[table["nearest"] & (table["id"] == "H9")]["label"].iloc[0]
    assert H9.abs().idxmin() == chosen
    shown = chapter.readings_table("quick")
    assert shown.loc["H2 row energy", "readings"] == 3
    assert shown.loc["H4 power, no transform", "paper"] == ""


def test_a_multiple_of_the_identity_is_fitted_by_the_identity_matrix_and_not_by_the_impulse():
    table = chapter.table_1("quick").groupby("label")["after"].mean()
    assert table["H_cI (identity matrix)"] == pytest.approx(1)
    assert abs(table["H_cI (as written: an impulse)"]) < 0.99
    assert chapter.table_1_finding("quick").endswith("the identity matrix without any power 1.000")
    assert ", identity matrix 1.000; before any training" in chapter.table_4_finding("quick")


def test_rows_of_the_explorer_have_length_one_and_their_product_is_the_cosine(orthogonal):
    own = chapter.fitted_rows("quick", "H12 (alpha 0.003)", "seed 1")
    assert (own**2).sum().tolist() == pytest.approx([1, 1])
    expected = fits.cosines(kernels.k0_fft(orthogonal.spectrum), orthogonal.k0[1])
    assert (own["predicted"] * own["extracted"]).sum() == pytest.approx(float(expected))
    before = chapter.fitted_rows("quick", "H12 (alpha 0.003)", "seed 0, before training")
    assert before["extracted"].to_numpy() == pytest.approx(
        chapter.unit(orthogonal.k0_of(orthogonal.first)[0])
    )
    assert chapter.unit(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_power_of_one_with_signs_kept_leaves_the_first_entrys_share(orthogonal):
    curves = chapter.power_curves("quick", "fft", "signed")
    ends = curves[(curves["alpha"] == 1) & (curves["kind"] == chapter.AFTER)]["k0_cosine"]
    assert ends.tolist() == pytest.approx(
        (orthogonal.k0[:, 0] / np.linalg.norm(orthogonal.k0, axis=1)).tolist()
    )


def test_a_power_of_one_as_listed_is_no_impulse_where_eigenvalues_are_negative(orthogonal):
    assert orthogonal.spectrum.n_negative > 1
    row = chapter.unit(chapter.candidates("quick")["H12 (alpha 1)"].values)
    clamped = np.maximum(orthogonal.spectrum.values, 1e-15)
    positive = (orthogonal.spectrum.vectors * clamped) @ orthogonal.spectrum.vectors.T
    quotient = np.fft.fft2(positive) / np.fft.fft2(orthogonal.spectrum.matrix)
    assert row == pytest.approx(chapter.unit(np.fft.ifft2(quotient).real[0]))
    assert np.abs(row[1:]).max() > 0.1  # an impulse has zeros there
    said = chapter.power_of_one_finding("quick")
    share = (orthogonal.k0[:, 0] / np.linalg.norm(orthogonal.k0, axis=1)).mean()
    assert f"is {share:.2f} with signs kept" in said
    assert f"a cosine of {row[0]:.2f} with the impulse" in said


def test_what_fits_section_6_has_the_names_of_its_figure():
    means = chapter.pmi_strips("quick").groupby(["kind", "formula"])["k0_cosine"].mean()
    assert f"PPMI kernel {means[chapter.VECTORS, 'PPMI kernel']:.2f}" in chapter.pmi_fit_finding("quick")


def test_the_papers_slips_come_from_its_own_figures():
    table = chapter.paper_slips()
    assert table.loc["8.4", "arithmetic"] == "its square does: 93.5%"
    assert table.loc["4.2", "arithmetic"].endswith("1,600")
    assert table.loc["4.4", "arithmetic"].endswith("98.98%")
    assert table.loc["Table 2", "arithmetic"] == "0.966 at 0.001, 0.967 at 0.003"


def test_the_identity_as_written_is_an_impulse_and_not_the_identity_matrix(orthogonal):
    rows, transform = chapter.identity_rows("quick"), np.fft.fft2(orthogonal.spectrum.matrix)
    assert rows[chapter.WRITTEN] == pytest.approx(np.fft.ifft2(1 / transform).real[0])
    matrix = np.fft.ifft2(np.fft.fft2(np.eye(V)) / transform).real[0]
    assert rows[chapter.MATRIX] == pytest.approx(matrix)
    table = chapter.identity_table("quick")
    assert table.loc[chapter.MATRIX, "with trained models"] == "1.000 (1.000 to 1.000)"
    assert table.loc[chapter.WRITTEN, f"with {chapter.WRITTEN}"] == "1.000"


@pytest.mark.parametrize("n_dimensions", [2, 3, 5])
def test_no_three_vectors_have_a_log_cosine_below_the_bound_and_some_come_near(n_dimensions):
    rng, k = np.random.default_rng(0), np.eye(n_dimensions)[0]

    def leaning(cosine: float, n: int) -> np.ndarray:
        across = rng.standard_normal((n, n_dimensions - 1))
        across *= np.sqrt(1 - cosine**2) / np.linalg.norm(across, axis=1, keepdims=True)
        return np.column_stack([np.full(n, cosine), across])

    for identity in (-0.9, -0.3, 0.0, 0.247, 0.6, 0.95, 0.99):
        for both in (0.2, 0.967):
            length = np.exp(rng.uniform(-8, 8, 40_000))[:, None]
            b = length * leaning(both, 40_000) - leaning(identity, 40_000)
            cosines = b @ k / np.linalg.norm(b, axis=1)
            least = chapter.least_log_cosine(identity, both)
            assert cosines.min() > least - 1e-9
            if n_dimensions == 2:  # random directions in more dimensions seldom lie in one plane with k
                assert cosines.min() < least + 0.02  # lengths are drawn, not chosen


def test_table_3_is_impossible_and_terms_that_are_summed_are_not():
    said = chapter.terms_finding("quick")
    assert said.startswith("Table 3 has cosines that no three vectors can have")
    assert said.endswith(f"0 of {SEEDS} with the identity matrix")


def test_random_vectors_follow_the_square_root_and_the_closed_form():
    for dim, order in ((256, "frequency"), (64, "random 2")):
        table = chapter.random_scores("quick", dim, order)
        assert len(table) == chapter.N_RANDOM
        assert table["expected"].nunique() == 1
        # cosines with one row of 16, of which the score is a median: the spread over drawings is a tenth
        assert table["identity_cosine"].mean() == pytest.approx(np.sqrt(table["score"].mean()), abs=0.1)
        assert table["score"].mean() == pytest.approx(table["expected"].iloc[0], abs=0.15)
    assert sorted(chapter.order_of("random 3", V)) == list(range(V))
    assert chapter.order_of("frequency", V).tolist() == list(range(V))


def test_the_papers_scores_and_their_roots_stand_beside_its_cosines():
    table = chapter.paper_roots()
    difference = table["square root of it"].astype(float) - table["cosine"]
    assert difference.abs().max() < 0.011  # what the chapter says of them: about a hundredth
    assert table["square root of it"].tolist()[0] == "0.963"


def test_pairs_of_words_are_drawn_once_and_in_units_of_their_spread(orthogonal):
    table = chapter.pmi_pairs("quick")
    own = table[table["model"] == chapter.VECTORS]
    assert len(own) == V * (V - 1) // 2
    assert own["pair"].is_unique
    assert own["product"].std() == pytest.approx(1, abs=0.02)  # n and n - 1, and three decimals
    rows, columns = np.triu_indices(V, 1)  # after training these products are rounding alone
    before = [
        np.corrcoef((E @ E.T)[rows, columns], pmi_of(orthogonal)[rows, columns])[0, 1]
        for E in orthogonal.first
    ]
    assert f"{np.mean(before):.2f} before training" in chapter.pmi_finding("quick")
    assert chapter.pmi_fit_finding("quick").startswith("Cosines, transformer: PPMI kernel")


def test_notes_say_what_the_models_read():
    assert chapter.data_note("quick") == (
        f"1,500 tokens of the package's own docstrings in {V} words; d = 16, 10 epochs, 2 seeds"
    )
    assert chapter.spread(np.array([0.5])) == "0.500"
    assert chapter.chance(100) == pytest.approx(0.2)
    assert "8 of the 13 cosines" in chapter.chance_finding()
    assert chapter.shown("\n") == "'\\n'"
    assert chapter.shown("the") == "the"


def test_the_drawn_table_has_every_mark():
    spec = compiled(chapter.plot_table_1("quick"))
    table = chapter.table_1("quick")
    n_marks = table["label"].nunique() + len(fits.PAPER_TABLE_1) * (SEEDS + 1 + 1)
    assert spec
    assert len(drawn(chapter.plot_table_1("quick").to_dict(), "symbol")) == n_marks


def test_all_charts_and_explorers_compile(orthogonal):
    compiled(chapter.plot_identities("quick"))
    compiled(chapter.plot_terms("quick"))
    compiled(
        chapter.plot_strips(chapter.table_4_strips("quick"), chapter.TABLE_4_ROWS, chapter.TABLE_4_KINDS)
    )
    kinds = (chapter.TRANSFORMER, chapter.VECTORS, chapter.PAPER)
    compiled(chapter.plot_strips(chapter.pmi_strips("quick"), list(chapter.PMI_ROWS), kinds))
    labels = list(chapter.candidates("quick"))[:3]
    explorers = [
        (
            chapter.row_measure("quick"),
            {"label": Choice(labels, "f"), "model": Choice(chapter.model_choices("quick"), "m")},
            chapter.draw_rows(orthogonal.counts.tokens),
            None,
        ),
        (
            chapter.power_measure("quick"),
            {"form": Choice(["fft", "eigen"], "f"), "negative": Choice(["clamp", "shift"], "n")},
            chapter.draw_powers("quick"),
            None,
        ),
        (
            chapter.random_measure("quick"),
            {"embedding_dim": Choice([4, 64], "d"), "order": Choice(["frequency", "random 1"], "o")},
            chapter.draw_scores("quick"),
            None,
        ),
        (
            None,
            {"model": Choice([chapter.TRANSFORMER, chapter.VECTORS], "m")},
            chapter.plot_pmi_pairs,
            chapter.pmi_pairs("quick"),
        ),
    ]
    for measure, controls, draw, grid in explorers:
        compiled(Explorer(measure, controls, draw, title="t", caption="c", grid=grid))
