"""Vectors in view: what is stored in hundredths is shown again, and nothing is trained for it."""

import numpy as np
import pytest

from book.reflections.trained import vectors_in_view
from embviz.words.wordvectors import WordVectors

WORDS = ["king", "sea", "gold"]
ROWS = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("context", [ROWS[1], None])
def test_stored_vectors_are_the_trained_ones_in_hundredths(tmp_path, monkeypatch, context):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EMBVIZ_GRIDS", "1")
    monkeypatch.setenv("EMBVIZ_COMPUTE", "store")
    vectors_in_view("reflections.made", lambda: WordVectors(WORDS, ROWS[0], context))
    monkeypatch.delenv("EMBVIZ_COMPUTE")
    shown = vectors_in_view("reflections.made", lambda: 1 / 0)
    assert shown.vocabulary == WORDS
    np.testing.assert_allclose(shown.word, ROWS[0], atol=0.00501)
    if context is None:
        assert shown.context is None
    else:
        np.testing.assert_allclose(shown.context, ROWS[1], atol=0.00501)


@pytest.mark.parametrize(("moved", "said"), [(0.005, ""), (0.03, "differs by")])
def test_a_page_says_when_trained_vectors_are_not_the_stored_ones(tmp_path, monkeypatch, capsys, moved, said):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EMBVIZ_GRIDS", "1")
    for mode, rows in (("store", ROWS[0]), ("1", ROWS[0] + np.float32(moved))):
        monkeypatch.setenv("EMBVIZ_COMPUTE", mode)
        vectors_in_view("reflections.made", lambda rows=rows: WordVectors(WORDS, rows))
    printed = capsys.readouterr().out
    assert said in printed
    assert bool(printed) == bool(said)
