"""The chapter on the spectrum: binning, the mean's bound, the explorer's measurement, the densities."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from book.reflections import spectrum as chapter
from embviz import metrics
from embviz.corpora.corpus import make_corpus
from embviz.view import charts
from embviz.words.cooccurrence import count_pairs, shifted_pmi
from tests.drawing import compiled

values_of = st.lists(st.floats(-50, 50).filter(lambda x: abs(x) > 1e-6), min_size=3, max_size=40)


def made_counts(n_words=30, n_tokens=3000, seed=0) -> scipy.sparse.csr_array:
    ids = np.random.default_rng(seed).zipf(1.5, n_tokens) % n_words
    return count_pairs(ids, n_words, window=2)


@pytest.fixture
def made(monkeypatch):
    """Counts of made tokens in place of the embedded corpus's."""
    monkeypatch.setattr(chapter, "embedded_counts", lambda window, min_count, shuffled=False: made_counts())


def table_of(**spectra) -> pd.DataFrame:
    parts = [pd.DataFrame({"window": 5, "matrix": name, "eigenvalue": v}) for name, v in spectra.items()]
    return pd.concat(parts, ignore_index=True)


@given(values_of)
@settings(max_examples=60, deadline=None)
def test_no_mirror_distance_is_below_the_bound_of_its_mean(values):
    if np.ptp(values) > 1e-6:
        assert metrics.mirror_distance(values) >= chapter.mean_bound(values) - 1e-9


def test_a_shifted_symmetric_sample_meets_the_bound():
    values = np.array([-3.0, -1, 1, 3]) + 0.25
    assert metrics.mirror_distance(values) == pytest.approx(chapter.mean_bound(values))


def test_bins_count_what_a_loop_counts_and_leave_out_what_is_farther():
    values = np.array([-9.0, -0.6, -0.4, 0.2, 0.7, 9.0])
    bins = chapter._bins_within(values, 1.0, 4)
    assert bins["left"].tolist() == [-1, -0.5, 0, 0.5]
    assert (bins["share"] * 6).tolist() == pytest.approx([1, 1, 1, 1])
    assert (chapter._bins_within(np.append(values, 1.0), 1.0, 4)["share"] * 7).iloc[-1] == pytest.approx(2)


def test_exact_zeros_count_half_on_each_side():
    bins = chapter._bins_within(np.zeros(8), 1.0, 4)
    assert bins["share"].tolist() == bins["mirrored"].tolist() == [0, 0.5, 0.5, 0]


def test_negating_a_spectrum_swaps_bars_and_mirror_image():
    values = np.random.default_rng(1).standard_normal(200) + 0.3
    one, other = (chapter.spectrum_bins(table_of(pmi=v), n_bins=20, inside=1.0) for v in (values, -values))
    assert one["share"].tolist() == pytest.approx(other["mirrored"].tolist())


def test_spectra_of_two_matrices_are_not_mixed():
    with pytest.raises(ValueError, match="one window and one matrix"):
        chapter.spectrum_bins(table_of(pmi=[1.0, 2.0], ppmi=[1.0, 2.0]))
    two = pd.concat([table_of(pmi=[1.0]), table_of(pmi=[1.0]).assign(window=2)])
    with pytest.raises(ValueError, match="one window are needed"):
        chapter.ridge_table(two, ["pmi"])
    with pytest.raises(ValueError, match="no eigenvalues of 'ppmi'"):
        chapter.ridge_table(table_of(pmi=[1.0, 2.0]), ["ppmi"])


def test_ridges_do_not_depend_on_a_spectrums_unit():
    values = np.random.default_rng(2).standard_normal(300)
    ridges = chapter.ridge_table(table_of(pmi=values, ppmi=8 * values), ["pmi", "ppmi"])
    heights = ridges.pivot(index="left", columns="row", values="height")
    assert heights[0].tolist() == heights[1].tolist()
    assert heights.to_numpy().max() == 1


def test_a_semicircle_lies_on_the_ridge_of_a_gaussian_matrix():
    noise = np.random.default_rng(3).standard_normal((800, 800))
    values = np.linalg.eigvalsh((noise + noise.T) / np.sqrt(2))
    ridges = chapter.ridge_table(table_of(gaussian=values), ["gaussian"], n_bins=24)
    curve = chapter.semicircle_ridges(ridges)
    middle = (ridges["left"] + ridges["right"]) / 2
    expected = np.interp(middle, curve["x"], curve["height"], left=0, right=0)
    assert np.abs(ridges["height"] - expected).max() < 0.12  # 800 eigenvalues: some 60 a bin


@pytest.mark.parametrize(("n_negative", "smoothing", "clipped"), [(1, 0, False), (5, 0, True), (2, 1, False)])
def test_the_explorer_shows_the_spectrum_of_the_matrix_its_controls_name(
    made, n_negative, smoothing, clipped
):
    table = chapter.measured_spectrum(2, 1, n_negative, smoothing, clipped, False)
    counts = made_counts().toarray()
    matrix = shifted_pmi(counts, n_negative=n_negative, smoothing=smoothing, positive=clipped)
    values = np.linalg.eigvalsh(matrix)
    limit = table["right"].iloc[-1]
    inside = np.abs(values) <= limit
    positive = table.loc[table["left"] >= 0, "share"].sum() * len(values)
    assert positive == pytest.approx(
        (inside & (values > 0)).sum() + 0.5 * (np.abs(values) < 1e-9).sum(), abs=0.6
    )
    note = table["note"].iloc[0].split("\n")
    assert note[0] == "30 words"
    assert note[3] == f"{(~inside).sum()} farther out"
    assert (table["note"].iloc[1:] == "").all()


def test_a_matrix_with_nothing_left_says_so(made):
    table = chapter.measured_spectrum(2, 1, 1e9, 0, True, False)
    assert "nothing is left" in table["note"].iloc[0]
    assert table["share"].tolist() == table["mirrored"].tolist()


def test_the_mean_eigenvalue_is_the_mean_of_the_diagonal(made):
    table = chapter.diagonal_table([1, 2], 1)
    assert table["mean eigenvalue"].tolist() == table["mean diagonal entry"].tolist()


def test_the_stochastic_density_agrees_with_the_exact_histogram(made):
    exact = chapter.exact_density(2, 1, limit=40.0, n_bins=8)
    found = chapter.stochastic_density(2, 1, n_probes=30, n_steps=30, limit=40.0, bandwidth=0.5)
    for bins in exact.itertuples():
        rows = found[found["eigenvalue"].between(bins.left, bins.right)]
        assert np.trapezoid(rows["density"], rows["eigenvalue"]) == pytest.approx(
            bins.density * 10, abs=0.15
        )  # a bin holds a tenth or two; 30 eigenvalues smoothed across its edges


def test_the_trace_survives_on_a_text_without_repeats():
    corpus = make_corpus(" ".join(f"w{chr(97 + i)}" for i in range(20)), name="new")
    counts = count_pairs(corpus.ids, 20, window=3)
    assert np.linalg.eigvalsh(
        shifted_pmi(counts.toarray(), n_negative=1, positive=False)
    ).sum() == pytest.approx(0, abs=1e-9)


def test_every_chart_compiles(made):
    values = np.random.default_rng(5).standard_normal(100)
    ridges = chapter.ridge_table(table_of(pmi=values, ppmi=values + 1), ["pmi", "ppmi"])
    compiled(chapter.plot_ridges(ridges))
    compiled(chapter.plot_ridges(ridges, chapter.semicircle_ridges(ridges)))
    compiled(chapter.plot_measured_spectrum(chapter.measured_spectrum(2, 1, 1, 0, False, False)))
    exact = chapter.exact_density(2, 1, limit=40.0)
    found = chapter.stochastic_density(2, 1, n_probes=2, n_steps=5, limit=40.0, bandwidth=1.0)
    compiled(chapter.plot_densities(exact, found))
    compiled(charts.plot_mirrored_spectrum(chapter.spectrum_bins(table_of(pmi=values)), "pmi_eigenvalue"))
