"""Similarity and analogy tests against slow loops and cases known in closed form."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, spearmanr

from embviz.words.wordtests import analogy_test, similarity_test
from embviz.words.wordvectors import WordVectors

WORDS = [f"w{i}" for i in range(30)]


def made_vectors(seed: int = 0, V: int = 30, D: int = 8) -> WordVectors:
    word, context = np.random.default_rng(seed).normal(size=(2, V, D)).astype(np.float32)
    return WordVectors([f"w{i}" for i in range(V)], word, context)


def made_pairs(n: int = 60, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    every = np.stack(np.triu_indices(30, 1))  # distinct pairs of distinct words: no ties up to rounding
    first, second = every[:, rng.choice(every.shape[1], n, replace=False)]
    return pd.DataFrame(
        {
            "word1": [f"w{i}" for i in first],
            "word2": [f"w{i}" for i in second],
            "score": rng.integers(1, 51, n),
        }
    )


def made_questions(n: int = 50, seed: int = 1, V: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = np.array([rng.choice(V, 4, replace=False) for _ in range(n)])
    table = pd.DataFrame({name: [f"w{i}" for i in rows[:, k]] for k, name in enumerate("abcd")})
    return table.assign(section=np.where(np.arange(n) < n // 3, "first", "second"))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


# --- similarity -------------------------------------------------------------------------------------


def cosines_of(rows: np.ndarray, table: pd.DataFrame) -> np.ndarray:
    pairs = table[["word1", "word2"]].values
    return np.array([cosine(rows[WORDS.index(a)], rows[WORDS.index(b)]) for a, b in pairs])


def test_rho_is_spearmans_of_the_cosines():
    vectors, table = made_vectors(), made_pairs()
    cosines = cosines_of(vectors.word, table)
    found = similarity_test(vectors, table)
    assert found.rho == pytest.approx(spearmanr(cosines, table["score"]).statistic)
    assert (found.n_pairs, found.n_missing) == (60, 0)


def test_vectors_of_signs_have_exact_ties():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], (30, 50)).astype(np.float32)
    table = made_pairs()
    first, second = (signs[[WORDS.index(word) for word in table[name]]] for name in ("word1", "word2"))
    exact = spearmanr((first * second).sum(axis=1), table["score"]).statistic
    for rows in (signs, signs / np.float32(7), signs * np.float32(1e-30)):
        assert similarity_test(WordVectors(WORDS, rows), table).rho == pytest.approx(exact, abs=1e-12)


def test_no_cosine_is_above_one():
    rows = np.random.default_rng(0).normal(size=(1, 300)) * np.linspace(0.1, 3, 200)[:, None]
    vectors = WordVectors([f"w{i}" for i in range(200)], rows.astype(np.float32))
    assert max(cosine for _, cosine in vectors.most_similar("w0", 200)) <= 1


def test_the_interval_is_the_middle_95_percent_of_resampled_pairs():
    vectors, table = made_vectors(), made_pairs()
    cosines, scores = cosines_of(vectors.word, table), table["score"].to_numpy()
    draws = np.random.default_rng(0).integers(60, size=(300, 60))
    rhos = [spearmanr(cosines[take], scores[take]).statistic for take in draws]
    found = similarity_test(vectors, table, n_bootstrap=300)
    assert found.interval == pytest.approx(np.quantile(rhos, [0.025, 0.975]), abs=1e-9)


def test_pairs_with_unknown_words_are_left_out():
    vectors = made_vectors()
    table = pd.concat([made_pairs(), pd.DataFrame({"word1": ["w0"], "word2": ["nowhere"], "score": [9]})])
    skipped = similarity_test(vectors, table)
    assert skipped.rho == similarity_test(vectors, made_pairs()).rho
    assert (skipped.n_pairs, skipped.n_missing) == (60, 1)


# --- analogies --------------------------------------------------------------------------------------


def answer_by_slow_loops(vectors: WordVectors, question: tuple[str, str, str], method: str) -> str:
    """Every word of the vocabulary tried in turn, straight from the definition."""
    a, b, c = (vectors.word[vectors.index[word]] for word in question)
    best, answer = -np.inf, ""
    for word, x in zip(vectors.vocabulary, vectors.word, strict=True):
        near = [cosine(x, y) for y in (a, b, c)]
        if method == "3cosmul":
            shifted = [(value + 1) / 2 for value in near]
            score = shifted[1] * shifted[2] / (shifted[0] + 0.01)
        else:
            score = near[1] - near[0] + near[2]
        if word not in question and score > best:
            best, answer = score, word
    return answer


def answers_to(vectors: WordVectors, table: pd.DataFrame, method: str = "3cosadd") -> list[str]:
    return [answer_by_slow_loops(vectors, row, method) for row in table[["a", "b", "c"]].values.tolist()]


def test_the_interval_of_the_share_answered_is_wilsons():
    found = analogy_test(made_vectors(V=12), made_questions(40, V=12))
    n_correct = round(found.accuracy * found.n_questions)
    ends = binomtest(n_correct, found.n_questions).proportion_ci(method="wilson")
    assert found.interval == pytest.approx((ends.low, ends.high))


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_answers_are_those_of_slow_loops(method):
    vectors, table = made_vectors(), made_questions()
    table["d"] = answers = answers_to(vectors, table, method)
    table.loc[::5, "d"] = "nowhere else"
    with pytest.raises(ValueError, match=r"has its answer among its three words.*as 10 of 50 do"):
        analogy_test(vectors, table.assign(d=table["d"].where(table["d"] == answers, table["a"])))
    table.loc[::5, "d"] = [
        next(word for word in WORDS if word not in row)
        for row in np.column_stack([table[["a", "b", "c"]], answers])[::5].tolist()
    ]
    found = analogy_test(vectors, table, method=method)
    assert found.accuracy == pytest.approx(40 / 50)
    assert found.interval[0] < 0.8 < found.interval[1]
    assert found.sections["n_correct"].tolist() == [12, 40 - 12]
    assert found.sections["n_questions"].tolist() == [16, 34]


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_blocks_of_words_change_nothing(method, monkeypatch):
    from embviz.words import wordtests

    vectors, table = made_vectors(V=50), made_questions(V=50)
    table["d"] = answers_to(vectors, table, method)
    monkeypatch.setattr(wordtests, "WORD_BLOCK", 7)
    assert analogy_test(vectors, table, method=method).accuracy == 1


def test_questions_with_unknown_words_are_left_out():
    vectors, table = made_vectors(), made_questions()
    table["d"] = answers_to(vectors, table)
    table.loc[:9, "b"] = "nowhere"
    found = analogy_test(vectors, table)
    assert (found.accuracy, found.n_questions, found.n_missing) == (1, 40, 10)
    assert found.sections["n_missing"].tolist() == [10, 0]


def test_a_word_vector_of_zeros_is_no_answer_of_nan():
    vectors = made_vectors()
    vectors.word[7] = 0
    assert np.isfinite(analogy_test(vectors, made_questions()).accuracy)
    assert np.isfinite(similarity_test(vectors, made_pairs()).rho)


PAIRS, QUESTIONS = made_pairs(), made_questions()
ALIKE = WordVectors(WORDS, np.ones((30, 3), np.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: similarity_test(ALIKE, PAIRS), "all 60 cosines are equal: there is no ranking"),
        (lambda v: similarity_test(v, PAIRS.assign(score=0)), "all 60 scores are equal: there is no ranking"),
        (lambda v: similarity_test(v, PAIRS.assign(score=[np.nan, *range(59)])), "has 1 NaN or infinite"),
        (lambda v: similarity_test(v, PAIRS.assign(score=[np.inf, *range(59)])), "has 1 NaN or infinite"),
        (lambda v: similarity_test(v, PAIRS.assign(word1="x")), "60 of 60 pairs have a word outside the voc"),
        (lambda v: analogy_test(v, QUESTIONS.assign(a="x")), "none of the 50 questions has all its words"),
        (lambda v: analogy_test(v, QUESTIONS, method="cosine"), "method is 'cosine'; choose"),
    ],
)
def test_what_cannot_be_ranked_or_answered_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(made_vectors())
