"""What is measured on released vectors, on tables whose answers are known."""

import numpy as np
import pandas as pd
import pytest

from book.released.experiments import isotropy, meaning, vocabulary
from book.released.experiments.nouns import LANGUAGES, TRANSLATIONS
from embviz.corpora.tokens import token_kinds
from embviz.words.wordvectors import WordVectors


def test_the_mean_cosine_is_that_of_all_pairs():
    rows = np.random.default_rng(0).normal(size=(30, 4)) + 1
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = (units @ units.T)[~np.eye(30, dtype=bool)]
    assert isotropy.mean_cosine(rows) == pytest.approx(pairs.mean())


def test_the_effective_dimension_counts_equal_directions():
    assert isotropy.effective_dimension(np.array([3.0, 3.0, 3.0, 0.0])) == pytest.approx(3)
    assert isotropy.effective_dimension(np.array([1.0, 0.0])) == 1


def test_frequency_is_predicted_where_a_direction_holds_it_and_not_from_ranks_in_random_order():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    y = x @ rng.normal(size=5)
    fold = np.arange(400) % 5
    assert meaning.predicted(x, y, fold) > 0.99
    assert meaning.predicted(x, rng.permutation(y), fold) < 0.05


def test_words_are_tokens_in_small_letters_that_begin_a_word():
    rows = np.arange(10.0).reshape(5, 2)
    made = WordVectors(["sea", "▁sea", "▁Sea", "▁king", "▁9"], rows.astype(np.float32))
    words = meaning.lower_words(made, center=True)
    assert words.vocabulary == ["sea", "king"]
    np.testing.assert_allclose(words.word, rows[[1, 3]] - rows.mean(axis=0))


def test_synonyms_are_nearer_by_the_share_of_pairs():
    table = pd.DataFrame(
        {"kind": ["synonyms", "synonyms", "antonyms", "antonyms"], "centred": [0.9, 0.3, 0.3, 0.1]}
    )
    assert meaning.nearer(table, "antonyms") == pytest.approx((2 + 0.5 + 1) / 4)


def test_shares_are_taken_by_rows_and_by_language():
    own = vocabulary.OWN
    table = pd.DataFrame(
        [(own, "digit", "digit", 3), (own, "digit", "byte", 1)], columns=["rows", "kind", "nearest", "n"]
    )
    assert vocabulary.same_kind(table)[own] == 0.75
    ranks = pd.DataFrame({"language": ["Greek", "Greek", "Hindi"], "rank": [10, 11, 1]})
    assert vocabulary.hits(ranks).to_dict() == {"Greek": 0.5, "Hindi": 1.0}


def test_nearest_rows_leave_the_token_out_and_follow_the_order_asked():
    made = WordVectors(list("abcd"), np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], dtype=np.float32))
    table = vocabulary.table_of(made, center=False)
    assert vocabulary.nearest(table, np.array([3, 0]))[:, 0].tolist() == [2, 1]


def test_translations_are_written_in_their_script():
    assert len(TRANSLATIONS) == 40
    for of in TRANSLATIONS.values():
        for language, word in of.items():
            assert token_kinds(["▁a", "▁b", word])[-1] == LANGUAGES[language], word
