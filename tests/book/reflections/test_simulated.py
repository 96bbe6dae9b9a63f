"""The simulated PMI matrix: its signs decide the signs of its eigenvalues."""

import numpy as np
import pytest

from book.reflections import simulated


def test_all_plus_signs_make_every_eigenvalue_positive():
    table = simulated.simulated_pmi_spectrum(20, 1.0, n_words=60)
    assert table.loc[table["right"] <= 0, "share"].sum() == 0
    assert table["count"].sum() == 20


def test_flipping_every_sign_mirrors_the_spectrum():
    plus = simulated.simulated_pmi_spectrum(20, 1.0, n_words=60)
    minus = simulated.simulated_pmi_spectrum(20, 0.0, n_words=60)
    # bins hold their left end only, so that an eigenvalue on an edge may fall beside
    assert np.abs(minus["share"] - plus["mirrored"]).sum() <= 2 / 20 + 1e-12


def test_half_the_signs_give_half_the_eigenvalues_each_sign():
    table = simulated.simulated_pmi_spectrum(40, 0.5, n_words=120)
    assert table.loc[table["left"] >= 0, "count"].sum() == 20


def test_the_largest_eigenvalue_is_that_of_the_matrix_built_by_loops():
    d, n = 3, 8
    words = np.random.default_rng(5).standard_normal((n, d)) / np.sqrt(d)
    signs = [1.0, 1.0, -1.0]
    matrix = [
        [sum(words[i, k] * signs[k] * words[j, k] for k in range(d)) for j in range(n)] for i in range(n)
    ]
    table = simulated.simulated_pmi_spectrum(d, 2 / 3, n_words=n, seed=5)
    assert table["right"].max() == pytest.approx(np.abs(np.linalg.eigvalsh(matrix)).max())
