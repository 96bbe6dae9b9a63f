"""The chapter on the spectrum: bins inside their limits, and ridges in their own scale."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book.reflections import spectrum as chapter
from embviz import metrics
from embviz.corpora import make_corpus
from embviz.words import count_pairs, pmi

values_of = st.lists(st.floats(-50, 50).filter(lambda x: abs(x) > 1e-6), min_size=3, max_size=40)


def table_of(**spectra) -> pd.DataFrame:
    parts = [pd.DataFrame({"window": 5, "matrix": name, "eigenvalue": v}) for name, v in spectra.items()]
    return pd.concat(parts, ignore_index=True)


@given(values_of)
@settings(max_examples=60, deadline=None)
def test_no_mirror_distance_is_below_twice_the_mean_in_standard_deviations(values):
    if np.ptp(values) > 1e-6:
        bound = 2 * abs(np.mean(values)) / np.std(values)
        assert metrics.mirror_distance(values) >= bound - 1e-9


def test_bins_count_what_a_loop_counts_and_leave_out_what_is_farther():
    values = np.array([-9.0, -0.6, -0.4, 0.2, 0.7, 9.0])
    bins = chapter._bins_within(values, 1.0, 4)
    assert bins["left"].tolist() == [-1, -0.5, 0, 0.5]
    assert (bins["share"] * 6).tolist() == pytest.approx([1, 1, 1, 1])
    assert (chapter._bins_within(np.append(values, 1.0), 1.0, 4)["share"] * 7).iloc[-1] == pytest.approx(2)


def test_the_limits_hold_the_share_that_was_asked_for():
    values = np.arange(1, 101.0)
    assert chapter.bins_inside(values, 0.9)["count"].sum() == 90


def test_exact_zeros_count_half_on_each_side():
    bins = chapter.bins_inside(np.zeros(8), n_bins=4)
    assert bins["share"].tolist() == bins["mirrored"].tolist() == [0, 0.5, 0.5, 0]


def test_negating_a_spectrum_swaps_bars_and_mirror_image():
    values = np.random.default_rng(1).standard_normal(200) + 0.3
    one, other = (chapter.bins_inside(v, 1.0, n_bins=20) for v in (values, -values))
    assert one["share"].tolist() == pytest.approx(other["mirrored"].tolist())


def test_spectra_of_two_windows_are_not_mixed():
    two = pd.concat([table_of(pmi=[1.0]), table_of(pmi=[1.0]).assign(window=2)])
    with pytest.raises(ValueError, match="one window are needed"):
        chapter.ridge_table(two, ["pmi"])
    with pytest.raises(ValueError, match="no eigenvalues of 'ppmi'"):
        chapter.ridge_table(table_of(pmi=[1.0, 2.0]), ["ppmi"])


def test_ridges_do_not_depend_on_a_spectrums_unit():
    values = np.random.default_rng(2).standard_normal(300)
    ridges = chapter.ridge_table(table_of(pmi=values, ppmi=8 * values), ["pmi", "ppmi"])
    heights = ridges.pivot(index="eigenvalue_rms", columns="name", values="height")
    assert heights["PMI"].tolist() == heights["positive PMI"].tolist()
    assert heights.to_numpy().max() == 1


def test_a_semicircle_lies_on_the_ridge_of_a_gaussian_matrix():
    noise = np.random.default_rng(3).standard_normal((800, 800))
    values = np.linalg.eigvalsh((noise + noise.T) / np.sqrt(2))
    ridges = chapter.ridge_table(table_of(gaussian=values), ["gaussian"], n_bins=24)
    assert np.abs(ridges["height"] - ridges["semicircle"]).max() < 0.12  # 800 eigenvalues: some 60 a bin
    far = chapter.ridge_table(table_of(pmi=values**3), ["pmi"], n_bins=24)
    assert np.abs(far["height"] - far["semicircle"]).max() > 0.3


def test_the_trace_vanishes_on_a_text_without_repeats():
    corpus = make_corpus(" ".join(f"w{chr(97 + i)}" for i in range(20)), name="new")
    counts = count_pairs(corpus.ids, 20, window=3)
    assert np.linalg.eigvalsh(pmi(counts.toarray())).sum() == pytest.approx(0, abs=1e-9)
