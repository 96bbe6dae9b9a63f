"""Natural text beside what is simpler: word counts instead of a model, and word tests of the two embeddings.

Source: tying paper, research questions 1 and 2, and appendix C.7.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load, read
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.tying.experiments import natural
from book.tying.experiments.natural import NaturalRun, TwinnedText
from embviz.corpora import corpus as corpora
from embviz.words.wordtests import similarity_test
from embviz.words.wordvectors import WordVectors

WORD_TESTS = {"men": "men", "simlex": "simlex999", "wordsim": "wordsim353"}
SYNONYMS = (
    "begin start, begun started, quick rapid, big large, little small, glad happy, near close, child boy, "
    "home house, answer reply, cried exclaimed, said replied, look glance, road path, street road, "
    "fear terror, lady woman, gentleman man, speak talk, shut closed, perhaps maybe"
)
ANTONYMS = (
    "good bad, black white, old young, open shut, long short, great little, day night, right left, up down, "
    "first last, high low, hot cold, rich poor, before after, love hate, morning evening, always never, "
    "more less, life death, light dark, above below"
)


# --- word counts ------------------------------------------------------------------------------------------


@experiment("tying.natural_baselines", threads=1)
def natural_baselines(config: NaturalRun) -> pd.DataFrame:
    """What word counts lose on the questions that a run with mixed spellings is validated on.

    Returns
    -------
    DataFrame
        model ("unigram", "bigram", "exchanged": the bigram with another question's left neighbour), loss in
        nats, n (questions).
    """
    text = natural.load_twinned_text(config.corpus)
    batches = natural.held_out_batches(text, config)
    left = np.concatenate([left_neighbours(batch.tokens.numpy(), batch.asked.numpy()) for batch in batches])
    answers = np.concatenate([batch.answers.numpy() for batch in batches])
    other = np.random.default_rng(0).permutation(left)
    neighbours = {"unigram": np.full_like(left, -1), "bigram": left, "exchanged": other}
    rows = [(name, count_loss(text, seen, answers), len(left)) for name, seen in neighbours.items()]
    table = pd.DataFrame(rows, columns=["model", "loss", "n"])
    table.attrs["data"] = {config.setting.source: text.checksum}
    return table


def left_neighbours(tokens: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The token shown left of each place that is asked, (n,), for (B, T) tokens; -1 at the start."""
    before = np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    return before[asked]


def count_loss(text: TwinnedText, left: np.ndarray, answers: np.ndarray) -> float:
    """Mean cross entropy of answers (n,) given left neighbours (n,), nats, by counts of the training text.

    Bigrams are smoothed by Witten and Bell's rule: a word that was followed c times, by t different words,
    leaves the share t / (c + t) to the unigram, which has one count more of each token. Spellings are not
    told apart, and a twinned word's probability is halved. A masked neighbour, or none (-1), tells nothing.
    """
    n = text.first_twin
    unigram = text.counts[:n] + 1.0
    unigram[text.mask] = 0.0
    unigram /= unigram.sum()
    ones = np.ones(len(text.train) - 1)
    pairs = sparse.csr_array((ones, (text.train[:-1], text.train[1:])), shape=(n, n))
    followed, kinds = pairs.sum(axis=1), np.diff(pairs.indptr)
    shown = (left >= 0) & (left != text.mask)
    word, target = text.unspell(np.where(shown, left, 0)), text.unspell(answers)
    met = np.where(shown, np.asarray(pairs[word, target]).ravel(), 0.0)
    c, t = np.where(shown, followed[word], 0.0), np.where(shown, kinds[word], 0.0)
    mixed = np.where(c > 0, (met + t * unigram[target]) / np.where(c > 0, c + t, 1.0), unigram[target])
    return float(-np.log(np.where(np.isin(target, text.common), mixed / 2, mixed)).mean())


def _baseline_cells(preset: str) -> list[Cell]:
    return [natural_baselines.cell(run) for run in natural.cosine_runs(preset)[:1]]


def _loss_cells(preset: str) -> list[Cell]:
    runs = [*natural.cosine_runs(preset), *natural.more_cosine_runs(preset)]
    return [*_baseline_cells(preset), *(natural.natural_text.cell(run) for run in runs)]


def baseline_losses(preset: str) -> dict[str, Finding]:
    """Held-out losses at the end, beside the losses of word counts on the same questions."""
    runs = mixed_runs(preset)
    table, corpus = natural.curves_of(runs), runs[0].corpus
    end = table[table["step"] == table["step"].max()].astype({"loss": float})
    counted = load(_baseline_cells(preset)).set_index("model")["loss"]
    exchanged = {"exchanged": float(counted["exchanged"])}
    return {
        "loss_untied": findings.over_seeds(end.loc[~end["tied"], "loss"].to_numpy(), corpus=corpus),
        "loss_tied": findings.over_seeds(end.loc[end["tied"], "loss"].to_numpy(), corpus=corpus),
        "loss_unigram": findings.exact(float(counted["unigram"]), corpus=corpus),
        "loss_bigram": findings.exact(float(counted["bigram"]), controls=exchanged, corpus=corpus),
    }


def mixed_runs(preset: str) -> list[NaturalRun]:
    """All runs under the cosine whose spellings are mixed."""
    runs = [*natural.cosine_runs(preset), *natural.more_cosine_runs(preset)]
    return [run for run in runs if run.spelling == "mixed"]


# --- word tests -------------------------------------------------------------------------------------------


@experiment("tying.natural_word_scores", threads=1)
def natural_word_scores(config: NaturalRun) -> pd.DataFrame:
    """Word tests of the rows that a run's cell keeps, which must be stored.

    Returns
    -------
    DataFrame
        matrix, test, exchanged (whether the rows were put into a random order before), n (pairs), score:
        Spearman's correlation with ratings, or a ratio of distances.
    """
    words = read(natural.natural_words.cell(natural.Words(_plain(config.corpus))))[0]
    named = words.set_index("token")["word"]
    tokens = pd.Series(natural.stored_tokens(config))
    here = tokens.isin(named.index) & ~tokens.duplicated()
    names = named[tokens[here]].tolist()
    parts = []
    for matrix, rows in natural.stored_rows(config).items():
        own = rows[here.to_numpy()]
        for exchanged in (False, True):
            E = np.random.default_rng(config.seed).permutation(own) if exchanged else own
            parts.append(scores_of(names, E).assign(matrix=matrix, exchanged=exchanged))
    return pd.concat(parts, ignore_index=True)


def _plain(corpus: str) -> str:
    """The setting with the same words under a constant rate, whose words are stored."""
    return corpus.removesuffix(", cosine")


def scores_of(names: Sequence[str], rows: np.ndarray) -> pd.DataFrame:
    """Word tests of rows (V, D) by their words: test, n and score."""
    vectors, found = WordVectors(list(names), rows), []
    for test, data_set in WORD_TESTS.items():
        pairs = corpora.load_word_test(data_set)
        known = pairs["word1"].isin(names) & pairs["word2"].isin(names)
        found.append((test, int(known.sum()), similarity_test(vectors, pairs[known], n_bootstrap=1).rho))
    inflected = [(word, word + "s") for word in names if len(word) > 2 and word.isalpha()]
    lists = {"plural": inflected, "synonyms": _pairs(SYNONYMS), "antonyms": _pairs(ANTONYMS)}
    for test, listed in lists.items():
        at = {word: index for index, word in enumerate(names)}
        met = np.array([(at[u], at[v]) for u, v in listed if u in at and v in at])
        found.append((test, len(met), distance_ratio(rows, met)))
    return pd.DataFrame(found, columns=["test", "n", "score"])


def _pairs(text: str) -> list[tuple[str, str]]:
    return [tuple(pair.split()) for pair in text.split(", ")]  # type: ignore[misc]


def distance_ratio(rows: np.ndarray, pairs: np.ndarray) -> float:
    """Mean distance of pairs (n, 2) of rows, over the mean distance of shifted pairs."""
    first, second = rows[pairs[:, 0]], rows[pairs[:, 1]]
    own, other = (np.linalg.norm(first - one, axis=1) for one in (second, np.roll(second, 1, axis=0)))
    return float(own.mean() / other.mean())


def _score_cells(preset: str) -> list[Cell]:
    return [natural_word_scores.cell(run) for run in mixed_runs(preset)]


def word_scores(preset: str) -> dict[str, Finding]:
    """Each test's score in each matrix over seeds; the control has the same rows in a random order."""
    runs = mixed_runs(preset)
    table = pd.concat([read(natural_word_scores.cell(run))[0].assign(seed=run.seed) for run in runs])
    found = {}
    for (test, matrix), rows in table.groupby(["test", "matrix"]):
        if test == "wordsim" or (matrix == "tied" and test != "men"):
            continue
        own, control = (
            rows[rows["exchanged"] == flag].sort_values("seed")["score"] for flag in (False, True)
        )
        found[f"{test}_{matrix}"] = findings.over_seeds(
            own.to_numpy(), controls={"exchanged": float(control.mean())}, corpus=runs[0].corpus
        )
    return found


_NATURAL = natural.STUDIES["tying.natural"]

STUDIES: dict[str, Study] = {
    "tying.natural": dataclasses.replace(
        _NATURAL, parts=(*_NATURAL.parts, Part(_loss_cells, baseline_losses))
    ),
    "tying.words_in_both": Study(_score_cells, word_scores),
}
