"""Word counts against slow loops, pairs of rows against a loop, and word tests that tell order from none."""

import itertools

import numpy as np
import pandas as pd
import pytest

from book.tying.experiments import natural, natural_words
from embviz.corpora import corpus as corpora
from tests.book.tying.experiments.test_natural import TEXT


def slow_loss(left: np.ndarray, answers: np.ndarray) -> float:
    """By Witten and Bell's rule, one question after the other."""
    train, total = TEXT.train.tolist(), 0.0
    smoothed = {word: train.count(word) + 1 for word in range(8)}
    original = dict(enumerate(range(8))) | {9: 2, 10: 0, 11: 5}
    for seen, answer in zip(left.tolist(), answers.tolist(), strict=True):
        word = original[answer]
        p = smoothed[word] / sum(smoothed.values())
        after = [b for a, b in itertools.pairwise(train) if a == original.get(seen)]
        if after:
            p = (after.count(word) + len(set(after)) * p) / (len(after) + len(set(after)))
        total -= np.log(p / 2 if word in (2, 0, 5) else p)
    return total / len(answers)


def test_losses_of_word_counts_are_those_of_a_slow_loop():
    rng = np.random.default_rng(1)
    answers = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11], 60)
    left = rng.choice([-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 60)  # none, the mask and twins among them
    assert natural_words.count_loss(TEXT, left, answers) == pytest.approx(slow_loss(left, answers))
    nothing = np.full(60, -1)
    assert natural_words.count_loss(TEXT, nothing, answers) == pytest.approx(slow_loss(nothing, answers))


def test_a_left_neighbour_is_the_token_shown_before_and_none_at_the_start():
    tokens = np.array([[4, 5, 6], [7, 8, 9]])
    asked = np.array([[True, False, True], [False, True, False]])
    assert natural_words.left_neighbours(tokens, asked).tolist() == [-1, 5, 7]


def test_counts_are_asked_what_a_run_is_validated_on(monkeypatch):
    monkeypatch.setattr(natural, "load_twinned_text", lambda name: TEXT)
    run = natural.NaturalRun("novels in 2,000 pieces", False, 0, length=10)
    table = natural_words.natural_baselines.function(run).set_index("model")
    batches = natural.held_out_batches(TEXT, run)
    asked = np.concatenate([batch.answers.numpy() for batch in batches])
    assert (table["n"] == len(asked)).all()
    alone = natural_words.count_loss(TEXT, np.full(len(asked), -1), asked)
    assert table["loss"]["unigram"] == pytest.approx(alone)


def test_a_ratio_of_distances_is_over_the_next_pairs_second_row():
    rows = np.random.default_rng(0).normal(size=(6, 3))
    pairs = np.array([[0, 1], [2, 3], [4, 5]])
    own = sum(np.linalg.norm(rows[u] - rows[v]) for u, v in pairs)
    other = sum(np.linalg.norm(rows[u] - rows[v]) for u, v in ((0, 5), (2, 1), (4, 3)))
    assert natural_words.distance_ratio(rows, pairs) == pytest.approx(own / other)


def test_rows_in_the_order_of_ratings_pass_every_test_and_exchanged_ones_do_not(monkeypatch):
    names = ["red", "reds", "blue", "blues", "big", "large", "good", "bad", "little", "small", "day", "night"]
    angle = np.repeat(np.arange(6), 2) + np.tile([0, 0.1], 6)  # pairs lie beside each other
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    u, v = np.triu_indices(len(names), 1)
    rated = pd.DataFrame({"word1": np.array(names)[u], "word2": np.array(names)[v]})
    rated["score"] = (rows[u] * rows[v]).sum(1)
    unknown = pd.DataFrame({"word1": ["big"], "word2": ["xylophone"], "score": [9.0]})
    monkeypatch.setattr(corpora, "load_word_test", lambda name: pd.concat([rated, unknown]))
    found = natural_words.scores_of(names, rows).set_index("test")
    assert found["n"].to_dict() == {"men": 66, "simlex": 66, "wordsim": 66, "plural": 2, "synonyms": 2,
                                    "antonyms": 2}  # fmt: skip
    assert (found["score"][["men", "simlex", "wordsim"]] > 0.99).all()
    assert (found["score"][["plural", "synonyms", "antonyms"]] < 0.3).all()
    mixed = natural_words.scores_of(names, np.random.default_rng(0).permutation(rows)).set_index("test")
    assert abs(mixed["score"]["men"]) < 0.3
