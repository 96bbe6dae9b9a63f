"""Released models: what a page shows is what is stored, and with the weights it is compared."""

import numpy as np
import pandas as pd
import pytest

from book.released import models
from embviz.words.wordvectors import WordVectors

STORED = pd.DataFrame({"word": ["king", "sea"], "length": [5.0, 13.0]})


def lengths(made):
    return pd.DataFrame({"word": made.vocabulary, "length": np.linalg.norm(made.word, axis=1)})


@pytest.fixture
def weights(monkeypatch):
    made = WordVectors(["king", "sea"], np.array([[3.0, 4.0], [5.0, 12.0]], dtype=np.float32))
    monkeypatch.setattr(models, "at_hand", lambda *names: True)
    monkeypatch.setattr(models, "vectors", lambda name: made)
    return made


def test_without_weights_the_stored_table_is_shown_and_nothing_is_computed(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("EMBVIZ_DATA_DIR", str(tmp_path))
    assert not models.at_hand(models.MINILM)
    assert models.with_weights(STORED, lengths, models.MINILM) is STORED


@pytest.mark.usefixtures("weights")
def test_with_weights_the_stored_table_is_shown_and_compared():
    assert models.with_weights(STORED, lengths, models.MINILM) is STORED
    with pytest.raises(AssertionError, match="length"):
        models.with_weights(STORED.assign(length=[5.0, 13.1]), lengths, models.MINILM)
    with pytest.raises(AssertionError):
        models.with_weights(STORED.iloc[:1], lengths, models.MINILM)


def test_a_models_words_are_whole_tokens_in_the_order_of_frequency():
    ranking = ["the", "of", "king", "Sea", "dom", "sea"]
    marked = models.ranked_words(["dom", "▁sea", "▁the", "sea", "▁king", "▁of"], ranking)
    assert marked.to_dict("list") == {"word": ["the", "king", "sea"], "row": [2, 4, 1], "rank": [1, 3, 6]}
    plain = models.ranked_words(["sea", "the", "dom"], ranking)
    assert plain["word"].tolist() == ["the", "dom", "sea"]


def test_a_page_says_which_weights_its_numbers_are_of():
    said = models.sources(models.GEMMA, models.MINILM)
    for part in ("Gemma 3 270M", "a5fd3b62", "Gemma Terms of Use", "Apache-2.0"):
        assert part in said
    assert "embviz data fetch gemma3_270m minilm_l6`" in said


def test_rows_without_a_direction_stay_zero():
    rows = models.unit(np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32), center=False)
    np.testing.assert_allclose(rows, [[0, 0], [0.6, 0.8]], rtol=1e-6)
