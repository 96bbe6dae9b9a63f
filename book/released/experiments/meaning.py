"""Which words have close vectors: twins, synonyms and antonyms, word tests, and the frequency of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from book.ledger import findings
from book.ledger.cells import experiment, load
from book.ledger.findings import Finding
from book.ledger.studies import Part
from book.released.experiments.isotropy import MODELS, Model, of_models, study, words_of
from book.released.experiments.nouns import ANTONYMS, SYNONYMS
from book.released.experiments.vocabulary import nearest, table_of
from book.released.models import GEMMA, GLOVE, MINILM, TITLES, origin, unit, vectors
from embviz.corpora.corpus import load_word_test
from embviz.corpora.tokens import token_texts
from embviz.inspection.tables import table_moments
from embviz.inspection.vocabulary import twin_pairs
from embviz.inspection.weight_files import read_weights
from embviz.words.wordtests import similarity_cosines
from embviz.words.wordvectors import WordVectors

TESTS = ("simlex999", "wordsim353", "men")
N_RESAMPLES = 500
SORTS = {"leading space": "space", "capital": "capital", "plural": "plural"}
ALPHA = 1.0  # of the ridge regression, for vectors of length 1


def lower_words(made: WordVectors, *, center: bool) -> WordVectors:
    """The rows of a vocabulary that write a word from its beginning, in small letters, by that word; of two
    rows of one word the first. The mean of all rows is taken off first, or not.
    """
    texts = token_texts(made.vocabulary)
    marked = any(text.startswith(" ") for text in texts)
    row_of: dict[str, int] = {}
    for row, text in enumerate(texts):
        if not marked or text.startswith(" "):
            word = text.removeprefix(" ")
            if word == word.lower() and word.isalpha():
                row_of.setdefault(word, row)
    rows = np.fromiter(row_of.values(), dtype=np.int64)
    mean = made.word.mean(axis=0, dtype=np.float64).astype(np.float32) if center else 0
    return WordVectors(list(row_of), made.word[rows] - mean)


# --- twins ------------------------------------------------------------------------------------------


@experiment("released.twins", threads=2)
def twins(config: Model) -> pd.DataFrame:
    """Pairs of spellings: sort, first, second (tokens), cosine (centred), mutual (each other's nearest among
    all rows), random_order (the same for the seconds of the sort in random order), nearest (to the first).
    """
    made = vectors(config.model)
    table, rng = table_of(made), np.random.default_rng(config.seed)
    pairs = twin_pairs(made.vocabulary, most=2_000, seed=config.seed)
    asked = np.unique(np.concatenate([each.ravel() for each in pairs.values()]))
    near = dict(zip(asked.tolist(), nearest(table, asked)[:, 0].tolist(), strict=True))
    units = table.read()
    parts = []
    for sort, each in pairs.items():
        first, second = each.T.tolist()
        other = rng.permutation(second).tolist()
        parts.append(
            pd.DataFrame(
                {
                    "sort": sort,
                    "first": [made.vocabulary[row] for row in first],
                    "second": [made.vocabulary[row] for row in second],
                    "cosine": np.einsum("nd,nd->n", units[first], units[second]).astype(np.float32),
                    "mutual": [near[a] == b and near[b] == a for a, b in zip(first, second, strict=True)],
                    "random_order": [
                        near[a] == b and near[b] == a for a, b in zip(first, other, strict=True)
                    ],
                    "nearest": [made.vocabulary[near[a]] for a in first],
                }
            )
        )
    answer = pd.concat(parts)
    answer.attrs["data"] = origin(config.model)
    return answer


def _twin_findings(preset: str) -> dict[str, Finding]:
    return {
        SORTS[str(sort)]: findings.share(
            int(rows["mutual"].sum()),
            len(rows),
            repeats="words",
            controls={"random_order": float(rows["random_order"].mean())},
        )
        for sort, rows in load([twins.cell(Model(GEMMA))]).groupby("sort")
    }


# --- synonyms and antonyms --------------------------------------------------------------------------


@experiment("released.pairs")
def pairs(config: Model) -> pd.DataFrame:
    """Pairs of words: kind (synonyms, antonyms, unrelated), first, second, raw and centred cosine. Unrelated
    are the antonyms with their second words exchanged. Pairs with a word that is no token are left out.
    """
    made = vectors(config.model)
    rng = np.random.default_rng(config.seed)
    seconds = [ANTONYMS[place][1] for place in rng.permutation(len(ANTONYMS))]
    unrelated = [(first, second) for (first, _), second in zip(ANTONYMS, seconds, strict=True)]
    listed = {"synonyms": SYNONYMS, "antonyms": ANTONYMS, "unrelated": unrelated}
    table = pd.concat(
        pd.DataFrame(some, columns=["word1", "word2"]).assign(kind=kind) for kind, some in listed.items()
    ).reset_index(drop=True)
    present = table["word1"] != table["word2"]
    for name, center in (("raw", False), ("centred", True)):
        table[name], known = similarity_cosines(lower_words(made, center=center), table)
        present &= known
    answer = table[present].rename(columns={"word1": "first", "word2": "second"})
    answer.attrs["data"] = origin(config.model)
    return answer


@dataclass(frozen=True)
class RemovedRun:
    """A model's pairs of words without the leading principal directions of all its vectors."""

    model: str
    removed: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 50)


@experiment("released.pairs_removed")
def pairs_removed(config: RemovedRun) -> pd.DataFrame:
    """Pairs as of :func:`pairs`; a column of centred cosines a number of directions ("0", ...)."""
    made = vectors(config.model)
    table = pairs.function(Model(config.model))[["kind", "first", "second"]]
    moments = table_moments(read_weights(made).arrays["embedding.weight"])
    axes = np.linalg.eigh(moments.centred_gram)[1][:, ::-1]
    centred = lower_words(made, center=True)
    asked = table.rename(columns={"first": "word1", "second": "word2"})
    for n in config.removed:
        rest = centred.word - (centred.word @ axes[:, :n]) @ axes[:, :n].T
        cosine, _ = similarity_cosines(WordVectors(centred.vocabulary, rest), asked)
        table[str(n)] = cosine.astype(np.float32)
    table.attrs["data"] = origin(config.model)
    return table


def nearer(table: pd.DataFrame, kind: str, column: str = "centred") -> float:
    """Chance that a pair of synonyms has a larger cosine than a pair of `kind`; ties count half."""
    one = table.loc[table["kind"] == "synonyms", column].to_numpy()[:, None]
    other = table.loc[table["kind"] == kind, column].to_numpy()
    return float((one > other).mean() + (one == other).mean() / 2)


def _pair_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for model in MODELS:
        table = load([pairs.cell(Model(model))])
        rng = np.random.default_rng(0)
        parts = [part for _, part in table[table["kind"] != "unrelated"].groupby("kind")]
        drawn = [
            nearer(
                pd.concat(part.iloc[rng.integers(len(part), size=len(part))] for part in parts), "antonyms"
            )
            for _ in range(N_RESAMPLES)
        ]
        found[TITLES[model].lower()] = findings.resampled(
            nearer(table, "antonyms"),
            drawn,
            min(len(part) for part in parts),
            repeats="pairs",
            controls={"unrelated": nearer(table, "unrelated")},
        )
    return found


# --- word tests -------------------------------------------------------------------------------------


@experiment("released.word_tests")
def word_tests(config: Model) -> pd.DataFrame:
    """Rank correlation of cosines with people's scores: test, vectors ("raw", "centred", "random order"),
    pairs, draw (0 for all pairs, then bootstrap draws of them, the same for all vectors), rho.
    """
    made = vectors(config.model)
    words = {"raw": lower_words(made, center=False), "centred": lower_words(made, center=True)}
    rng = np.random.default_rng(config.seed)
    mixed = words["centred"]
    words["random order"] = WordVectors(mixed.vocabulary, rng.permutation(mixed.word))
    parts = []
    for test in TESTS:
        table = load_word_test(test)
        found = {name: similarity_cosines(some, table) for name, some in words.items()}
        present = found["raw"][1]
        score = table["score"].to_numpy()[present]
        n = len(score)
        draws = [np.arange(n), *(rng.integers(n, size=n) for _ in range(N_RESAMPLES))]
        for name, (cosine, _) in found.items():
            rho = [_spearman(cosine[present][draw], score[draw]) for draw in draws]
            parts.append(
                pd.DataFrame(
                    {"test": test, "vectors": name, "pairs": n, "draw": np.arange(len(rho)), "rho": rho}
                )
            )
    answer = pd.concat(parts).astype({"rho": np.float32})
    answer.attrs["data"] = origin(config.model)
    return answer


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of one model by draw (rows) and by (vectors, test) (columns)."""
    return table.pivot_table(index="draw", columns=["vectors", "test"], values="rho")


def _relatedness(rho: pd.DataFrame, name: str) -> pd.Series:
    one = rho[name]
    difference: pd.Series = (one["wordsim353"] + one["men"]) / 2 - one["simlex999"]
    return difference


def _test_findings(preset: str, *, centring: bool) -> dict[str, Finding]:
    found = {}
    for model in MODELS:
        table = load([word_tests.cell(Model(model))])
        rho = correlations(table)
        if centring:
            means = rho.T.groupby(level="vectors").mean().T
            value, mixed = means["centred"] - means["raw"], means["random order"]
        else:
            value, mixed = _relatedness(rho, "centred"), _relatedness(rho, "random order")
        found[TITLES[model].lower()] = findings.resampled(
            value[0],
            value[1:].to_numpy(),
            int(table["pairs"].min()),
            repeats="pairs",
            controls={"random_order": float(mixed[0])},
        )
    return found


# --- frequency --------------------------------------------------------------------------------------


@experiment("released.frequency", threads=2)
def frequency(config: Model) -> pd.DataFrame:
    """Variance of log rank that ridge regression predicts on held-out words, in five folds: fold_seed,
    predicted, random_order (the ranks in random order); and words.
    """
    words, rows = words_of(config.model)
    x, y = unit(rows, center=True).astype(np.float64), np.log(words["rank"].to_numpy())
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        fold = rng.permutation(len(y)) % 5
        found.append((seed, predicted(x, y, fold), predicted(x, rng.permutation(y), fold), len(y)))
    table = pd.DataFrame(found, columns=["fold_seed", "predicted", "random_order", "words"])
    table.attrs["data"] = origin(*dict.fromkeys((config.model, GLOVE)))
    return table


def predicted(x: np.ndarray, y: np.ndarray, fold: np.ndarray) -> float:
    """Share of the variance of y (n,) that ridge regression on x (n, D) predicts on folds held out."""
    answer = np.empty_like(y)
    for one in np.unique(fold):
        train, test = fold != one, fold == one
        mean, level = x[train].mean(axis=0), y[train].mean()
        centred = x[train] - mean
        weights = np.linalg.solve(
            centred.T @ centred + ALPHA * np.eye(x.shape[1]), centred.T @ (y[train] - level)
        )
        answer[test] = (x[test] - mean) @ weights + level
    return float(1 - ((y - answer) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def _frequency_findings(preset: str) -> dict[str, Finding]:
    found = {}
    for model in MODELS:
        table = load([frequency.cell(Model(model))])
        found[TITLES[model].lower()] = findings.over_seeds(
            table["predicted"].to_numpy(),
            repeats="ways to fold",
            controls={"random_order": float(table["random_order"].mean())},
        )
    return found


STUDIES = {
    "released.twins": study(
        [twins.cell(Model(GEMMA))],
        _twin_findings,
        [twins.cell(Model(model)) for model in (MINILM, GLOVE)],
    ),
    "released.antonyms": study(
        of_models(pairs.cell), _pair_findings, [pairs_removed.cell(RemovedRun(model)) for model in MODELS]
    ),
    "released.relatedness": study(
        of_models(word_tests.cell), lambda preset: _test_findings(preset, centring=False)
    ),
    "released.centring": study(
        of_models(word_tests.cell), lambda preset: _test_findings(preset, centring=True)
    ),
    "released.frequency": study(of_models(frequency.cell), _frequency_findings),
}
