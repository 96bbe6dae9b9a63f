"""Weighted leading signs as the chapter shows them."""

import pandas as pd

from book.reflections import tying_by_signs as chapter
from book.reflections.experiments import spectrum
from embviz.corpora.registry import DataMissingError


def test_without_the_text_the_nearest_stored_weight_is_shown(monkeypatch):
    def missing(name):
        raise DataMissingError(f"{name} is not here")

    monkeypatch.setattr(spectrum.corpora, "load_corpus", missing)
    near = chapter.weighted_leading(0.45001, "PMI")
    assert near["weight"].unique().tolist() == [0.5]
    pd.testing.assert_frame_equal(near, chapter.weighted_leading(0.5, "PMI"))
