"""Scores of word vectors on six word tests, with bootstrap replicates that resample word pairs.

Source: Assylbekov & Takhanov (2019), section 4 and Table 2; the tool is that of Levy et al. (2015).
"""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
from scipy import stats

from embviz.corpora import corpus as corpora
from embviz.words.wordtests import analogy_correct, similarity_cosines
from embviz.words.wordvectors import WordVectors

SIMILARITY_TESTS = {"wordsim": "wordsim353", "men": "men", "mturk": "mturk", "rare_words": "rare_words"}
ANALOGY_TESTS = {"google": "google_analogy", "msr": "msr_analogy"}
TESTS = (*SIMILARITY_TESTS, *ANALOGY_TESTS)
N_REPLICATES = 200


def rows_of(quantity: str, values: dict[str, float] | np.ndarray, control: str = "") -> pd.DataFrame:
    """Rows of a tidy table: quantity, control, item (the keys, or 0, 1, ... as text), value."""
    items = list(values) if isinstance(values, dict) else [str(i) for i in range(len(values))]
    numbers = list(values.values()) if isinstance(values, dict) else values
    return pd.DataFrame(
        {"quantity": quantity, "control": control, "item": items, "value": np.asarray(numbers, dtype=float)}
    )


def score_vectors(vectors: WordVectors, *, frequent: set[str]) -> pd.DataFrame:
    """Scores of the six word tests, with replicates that resample alike for every model.

    "score": the paper's tool's way, an unknown word making similarity 0 and an analogy wrong.
    "frequent": only items whose words all occur at least 100 times; the same items for every method.
    "men_as_text": MEN with its ratings ranked as text, a known slip of some public copies.
    Replicates draw the pairs of words of a test again: an analogy question has two of them, and each comes
    in many questions, so that questions are not independent of each other.
    """
    tables = []
    for name, data_set in SIMILARITY_TESTS.items():
        pairs = corpora.load_word_test(data_set)
        cosines, present = similarity_cosines(vectors, pairs)
        known = pairs["word1"].isin(frequent).to_numpy() & pairs["word2"].isin(frequent).to_numpy()
        ratings = pairs["score"].to_numpy(dtype=float)
        tables += _similarity_rows(name, "score", cosines, ratings)
        tables += _similarity_rows(name, "frequent", cosines[known], ratings[known])
        tables.append(rows_of("unknown", {name: float((~present).sum())}))
        if name == "men":
            as_text = stats.rankdata(pairs["score"].astype(str))
            tables.append(rows_of("men_as_text", {name: _spearman(cosines, as_text)}))
    for name, data_set in ANALOGY_TESTS.items():
        questions = corpora.load_word_test(data_set)
        correct, answerable = analogy_correct(vectors, questions, method="3cosmul")
        known = questions[["a", "b", "c", "d"]].isin(frequent).all(axis=1).to_numpy()
        tables += _analogy_rows(name, "score", correct, questions)
        tables += _analogy_rows(name, "frequent", correct[known], questions[known])
        tables.append(rows_of("unknown", {name: float((~answerable).sum())}))
    return pd.concat(tables, ignore_index=True)


def frequent_items(frequent: set[str]) -> dict[str, int]:
    """Items of each word test whose words are all frequent, as "frequent" scores count them."""
    tests = SIMILARITY_TESTS | ANALOGY_TESTS
    found = {}
    for name, data_set in tests.items():
        table = corpora.load_word_test(data_set)
        words = table[["word1", "word2"] if name in SIMILARITY_TESTS else ["a", "b", "c", "d"]]
        found[name] = int(words.isin(frequent).all(axis=1).sum())
    return found


def score_halves(vectors: WordVectors) -> pd.DataFrame:
    """Similarity tests of the coordinates whose sign is +1 alone, and of those with -1 alone."""
    assert vectors.signature is not None
    tables = []
    for quantity, half in {"pulling": vectors.signature > 0, "pushing": vectors.signature < 0}.items():
        part = WordVectors(vectors.vocabulary, vectors.word[:, half])
        for name, data_set in SIMILARITY_TESTS.items():
            pairs = corpora.load_word_test(data_set)
            cosines, _ = similarity_cosines(part, pairs)
            tables.append(rows_of(quantity, {name: _spearman(cosines, pairs["score"].to_numpy(dtype=float))}))
    return pd.concat(tables, ignore_index=True)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])


@functools.lru_cache(maxsize=32)
def _draws(n: int) -> np.ndarray:
    """How often each of n pairs is drawn, (replicates, n); the same for every model."""
    return np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), size=N_REPLICATES)


def _similarity_rows(name: str, way: str, cosines: np.ndarray, ratings: np.ndarray) -> list[pd.DataFrame]:
    if len(ratings) < 10:
        return []
    places = np.arange(len(ratings))
    again = [np.repeat(places, times) for times in _draws(len(ratings))]
    replicates = np.array([_spearman(cosines[take], ratings[take]) for take in again])
    return [rows_of(way, {name: _spearman(cosines, ratings)}), rows_of(f"{way}_replicate", replicates, name)]


def _analogy_rows(name: str, way: str, correct: np.ndarray, questions: pd.DataFrame) -> list[pd.DataFrame]:
    if len(correct) < 10:
        return []
    return [
        rows_of(way, {name: float(correct.mean())}),
        rows_of(f"{way}_replicate", pair_replicates(correct, questions), name),
    ]


def pair_replicates(correct: np.ndarray, questions: pd.DataFrame) -> np.ndarray:
    """Share of questions answered right when the pairs of words are drawn again, not the questions.

    Parameters
    ----------
    correct : array of bool, shape (questions,)
    questions : DataFrame with columns a, b, c, d

    Returns
    -------
    array, shape (replicates,)
        A question whose pairs were drawn m and m' times counts m m' times.

    Source
    ------
    The pigeonhole bootstrap for crossed factors, Owen (2007).
    """
    one = questions["a"].str.cat(questions["b"], sep=" ")
    other = questions["c"].str.cat(questions["d"], sep=" ")
    codes, pairs = pd.factorize(pd.concat([one, other], ignore_index=True))
    first, second = codes[: len(one)], codes[len(one) :]
    weights = (times[first] * times[second] for times in _draws(len(pairs)))
    return np.array([(weight @ correct) / weight.sum() for weight in weights])
