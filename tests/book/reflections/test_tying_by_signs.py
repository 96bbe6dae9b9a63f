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
