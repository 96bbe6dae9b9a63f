"""Tests of word vectors against people's judgements: similarities and analogies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import binomtest, rankdata

from embviz.arrays import check_array
from embviz.compiling import njit
from embviz.metrics import normalize
from embviz.words.wordvectors import WordVectors

WORD_BLOCK = 4096  # words scored at once: a question's scores stay in the nearest cache
NEVER = -1e30  # the score of a word that cannot be the answer
EPSILON = 0.01  # in 3CosMul's denominator, as in hyperwords


@dataclass(frozen=True)
class SimilarityScore:
    """Spearman's rho of cosines with people's scores; its 95% bootstrap interval over pairs."""

    rho: float
    interval: tuple[float, float]
    n_pairs: int  # pairs that entered rho
    n_missing: int  # pairs with a word outside the vocabulary


@dataclass(frozen=True, eq=False)
class AnalogyScore:
    """Share of analogies answered right, with its 95% Wilson interval over questions.

    The interval takes questions as independent, which those of one section are not quite.
    """

    accuracy: float
    interval: tuple[float, float]
    n_questions: int  # questions in the denominator
    n_missing: int  # questions with a word outside the vocabulary
    sections: pd.DataFrame  # section, n_correct, n_questions, n_missing
    excluded: str = "the three words of a question are never its answer"


def _rows_of(vectors: WordVectors, words: pd.Series) -> np.ndarray:
    """Row of each word, -1 outside the vocabulary."""
    return words.astype(str).map(vectors.index).fillna(-1).astype(int).to_numpy()


# --- similarity -------------------------------------------------------------------------------------


def similarity_cosines(vectors: WordVectors, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Cosine of each pair of word1 and word2, 0 where a word is unknown, and whether both words are known.

    Both have shape (pairs,). Cosines are rounded to 12 decimals, so that rounding doesn't choose between
    equal ones.
    """
    first = _rows_of(vectors, table["word1"])
    second = _rows_of(vectors, table["word2"])
    present = (first >= 0) & (second >= 0)
    left, right = vectors.word[first].astype(np.float64), vectors.word[second].astype(np.float64)
    lengths = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    cosines = np.einsum("nd,nd->n", left, right) / np.where(lengths == 0, 1, lengths)
    return np.where(present, cosines.round(12).clip(-1, 1), 0), present


def similarity_test(
    vectors: WordVectors,
    table: pd.DataFrame,
    *,
    n_bootstrap: int = 1000,
) -> SimilarityScore:
    """Rank word pairs by cosine and compare with people's ranking.

    Parameters
    ----------
    vectors : WordVectors
    table : DataFrame with columns word1, word2, score
        A pair with a word outside the vocabulary is left out.
    n_bootstrap : int
        Resamples of pairs for the interval.

    Source
    ------
    Levy, Goldberg & Dagan (2015), section 4.2; the reflections paper, section 4.
    """
    cosines, present = similarity_cosines(vectors, table)
    gold = rankdata(check_array(table["score"].astype(float), "score", 1))
    n_missing = int((~present).sum())
    if present.sum() < 3:
        raise ValueError(
            f"{n_missing} of {len(table)} pairs have a word outside the vocabulary of "
            f"{len(vectors.vocabulary)} words; a rank correlation needs 3 pairs: train on more "
            "text or with a lower min_count"
        )
    cosines, gold = cosines[present], gold[present]
    for values, name in ((cosines, "cosines"), (gold, "scores")):
        if np.ptp(values) == 0:
            raise ValueError(f"all {len(values)} {name} are equal: there is no ranking to compare")
    draws = np.random.default_rng(0).integers(len(gold), size=(n_bootstrap, len(gold)))
    low, high = np.nanquantile(_spearman(cosines[draws], gold[draws]), [0.025, 0.975])
    rho = float(_spearman(cosines[None], gold[None])[0])
    return SimilarityScore(rho, (float(low), float(high)), len(gold), n_missing)


def _spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's rho of each row of (R, n) arrays; NaN where a row is constant."""
    a, b = rankdata(first, axis=1), rankdata(second, axis=1)
    a -= a.mean(axis=1, keepdims=True)
    b -= b.mean(axis=1, keepdims=True)
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return (a * b).sum(axis=1) / np.where(scale == 0, np.nan, scale)


# --- analogies --------------------------------------------------------------------------------------


def analogy_correct(
    vectors: WordVectors,
    table: pd.DataFrame,
    *,
    method: Literal["3cosadd", "3cosmul"] = "3cosadd",
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each question is answered right, and whether all its words are known; bool, shape (questions,).

    Parameters as of :func:`analogy_test`; a question with an unknown word is not answered right.
    """
    questions = np.stack([_rows_of(vectors, table[column]) for column in "abcd"], axis=1)
    present = np.asarray((questions >= 0).all(axis=1))
    correct = np.zeros(len(table), dtype=bool)
    if present.any():
        unit = normalize(vectors.word).astype(np.float32)
        correct[present] = _answers(unit, questions[present, :3], method) == questions[present, 3]
    return correct, present


def analogy_test(
    vectors: WordVectors,
    table: pd.DataFrame,
    *,
    method: Literal["3cosadd", "3cosmul"] = "3cosadd",
) -> AnalogyScore:
    """Answer "a is to b as c is to ?" with a word of the whole vocabulary other than a, b and c.

    Parameters
    ----------
    vectors : WordVectors
    table : DataFrame with columns a, b, c, d and section
        d is the right answer; without a section column all questions are one section. A question with a word
        outside the vocabulary is left out.
    method : "3cosadd" or "3cosmul"
        ``cos(x, b) - cos(x, a) + cos(x, c)``, or ``cos(x, b) cos(x, c) / (cos(x, a) + 0.01)`` with each
        cosine moved to 0..1 as (cos + 1) / 2.

    Source
    ------
    Mikolov et al. (2013); Levy & Goldberg (2014a), eq. 5 and 6.
    """
    correct, present = analogy_correct(vectors, table, method=method)
    if len(circular := np.flatnonzero(table[["a", "b", "c"]].eq(table["d"], axis=0).any(axis=1))):
        words = ", ".join(table.iloc[circular[0]][list("abcd")].astype(str))
        raise ValueError(
            f"question {circular[0] + 1} ({words}) has its answer among its three words, which are never "
            f"answered, as {len(circular)} of {len(table)} do: leave them out"
        )
    if not present.any():
        raise ValueError(
            f"none of the {len(table)} questions has all its words in the vocabulary of "
            f"{len(vectors.vocabulary)} words: train on more text or with a lower min_count"
        )
    sections = table["section"] if "section" in table.columns else pd.Series("all", index=table.index)
    rows = pd.DataFrame(
        {"section": sections.to_numpy(), "n_correct": correct, "n_questions": present, "n_missing": ~present}
    )
    by_section = rows.groupby("section", sort=False).sum().astype(int).reset_index()
    n_correct, n = int(correct.sum()), int(present.sum())
    ends = binomtest(n_correct, n).proportion_ci(method="wilson")
    return AnalogyScore(n_correct / n, (ends.low, ends.high), n, int((~present).sum()), by_section)


def _answers(unit: np.ndarray, questions: np.ndarray, method: str) -> np.ndarray:
    """Best word for each question (n, 3) of rows a, b, c; blocks of words keep memory small."""
    if method not in ("3cosadd", "3cosmul"):
        raise ValueError(f'method is {method!r}; choose "3cosadd" or "3cosmul"')
    asked, places = np.unique(questions, return_inverse=True)
    places = places.reshape(questions.shape)  # numpy 2.0 gave it flat
    best = np.full(len(questions), NEVER, dtype=np.float32)
    answer = np.zeros(len(questions), dtype=np.int64)
    for first in range(0, len(unit), WORD_BLOCK):
        cosines = unit[asked] @ unit[first : first + WORD_BLOCK].T  # (question words, block)
        if method == "3cosmul":
            cosines = (cosines + 1) / 2
        _best_of_block(cosines, places, questions - first, method == "3cosmul", first, best, answer)
    return answer


@njit(nogil=True, fastmath=True)
def _best_of_block(
    cosines: np.ndarray,
    places: np.ndarray,
    own: np.ndarray,
    multiply: bool,
    first: int,
    best: np.ndarray,
    answer: np.ndarray,
) -> None:
    """Improve each question's `best` score and `answer` by a block of words that starts at row `first`.

    `places` (n, 3) are rows of `cosines` (question words, block), `own` (n, 3) a question's own words as
    columns of the block, perhaps outside it. One pass scores, one finds the largest: both run in lanes.
    """
    scores = np.empty(cosines.shape[1], dtype=np.float32)
    for question in range(places.shape[0]):
        a, b, c = cosines[places[question, 0]], cosines[places[question, 1]], cosines[places[question, 2]]
        if multiply:
            for x in range(scores.size):
                scores[x] = b[x] * c[x] / (a[x] + np.float32(EPSILON))
        else:
            for x in range(scores.size):
                scores[x] = b[x] - a[x] + c[x]
        for k in range(3):
            if 0 <= own[question, k] < scores.size:
                scores[own[question, k]] = NEVER
        largest = np.float32(NEVER)
        for x in range(scores.size):
            largest = max(largest, scores[x])
        if largest > best[question]:
            best[question] = largest
            x = 0
            while x < scores.size - 1 and scores[x] != largest:
                x += 1
            answer[question] = first + x
