"""Weighted leading signs as the chapter shows them."""

import numpy as np
import pandas as pd
import pytest

from book.reflections import tying_by_signs as chapter
from book.reflections.experiments import spectrum
from embviz.corpora.registry import DataMissingError


def test_a_stored_weight_gives_its_eigenvalues_by_size():
    table = chapter.weighted_leading(0.5, "positive PMI")
    assert table["weight"].unique().tolist() == [0.5]
    assert len(table) == spectrum.N_SIGNS
    assert (np.diff(table["eigenvalue"].abs()) <= 0).all()
    stored = spectrum.weighted_shares(spectrum.slider_cells("laptop")).set_index(["matrix", "power"])["share"]
    assert (table["sign"] == "plus").mean() == pytest.approx(stored["ppmi", 0.5])


def test_without_the_text_the_nearest_stored_weight_is_shown(monkeypatch):
    def missing(name):
        raise DataMissingError(f"{name} is not here")

    monkeypatch.setattr(spectrum.corpora, "load_corpus", missing)
    near = chapter.weighted_leading(0.45001, "PMI")
    assert near["weight"].unique().tolist() == [0.5]
    pd.testing.assert_frame_equal(near, chapter.weighted_leading(0.5, "PMI"))


def test_the_finding_names_both_ends_of_the_slider():
    rows = [("PMI", 0.0, 0.78), ("PMI", 0.5, 0.55), ("positive PMI", 0.0, 0.8), ("positive PMI", 0.5, 0.65)]
    text = chapter.weighted_finding(pd.DataFrame(rows, columns=["matrix", "power", "share"]))
    assert [number in text for number in ("55.0%", "78.0%", "65.0%", "80.0%")] == [True] * 4


def test_the_title_of_the_slider_has_the_share_of_each_matrix():
    table = pd.concat([chapter.weighted_leading(0.5, name).assign(matrix=name) for name in chapter.MATRICES])
    stored = spectrum.weighted_shares(spectrum.slider_cells("laptop")).set_index(["matrix", "power"])["share"]
    shares = [f"{stored[name, 0.5]:.1%}" for name in chapter.MATRICES.values()]
    assert chapter.weighted_shares_in_words(table).startswith("At a = 0.5, ")
    assert all(share in chapter.weighted_shares_in_words(table) for share in shares)
