"""Skip-gram vectors, free and tied by signs: the involution, the word tests, the proportion of signs, PMI.

Source: Assylbekov & Takhanov (2019), sections 3.2 and 4. The paper's setting: d = 200, window 5, 100
negatives shared by batches of 16, learning rate 0.2, 15 epochs, words with count >= 5, rarer ones one
unknown word; the rate decays 20% faster when tied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from embviz import metrics
from embviz.corpora import corpus as corpora
from embviz.ledger import findings
from embviz.ledger.cells import Cell, experiment, load
from embviz.ledger.findings import Finding
from embviz.ledger.studies import Study
from embviz.words import spectra
from embviz.words.cooccurrence import count_pairs, pmi, ppmi
from embviz.words.skipgram import SGNSConfig, train_sgns
from embviz.words.wordtests import analogy_correct, similarity_cosines
from embviz.words.wordvectors import WordVectors, chosen_rows, factorize_pmi

SIMILARITY_TESTS = {"wordsim": "wordsim353", "men": "men", "mturk": "mturk", "rare_words": "rare_words"}
ANALOGY_TESTS = {"google": "google_analogy", "msr": "msr_analogy"}
TESTS = (*SIMILARITY_TESTS, *ANALOGY_TESTS)
N_REPLICATES = 400
SHARES = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 0.95, 1.0)
NAMES = {"free": "sgns", "half": "wt", "random": "wtr", "ones": "plain"}


# --- training and scoring one model -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TrainedVectors:
    """One skip-gram model."""

    corpus: str  # name in the registry
    signature: str  # "free", "half", "random", "ones", or the share of +1 as text
    seed: int
    embedding_dim: int = 200
    n_epochs: int = 15
    n_negative: int = 100  # shared by a batch
    min_count: int = 5  # rarer words become one unknown word
    word_tests: bool = True  # the word tests need their files


@experiment("reflections.trained_vectors")
def trained_vectors(config: TrainedVectors) -> pd.DataFrame:
    """Train, then measure: scores with bootstrap replicates, agreement with PMI, and, for a free model,
    the map between word and context vectors with its nulls. Columns: quantity, control, item, value.
    """
    whole = corpora.load_corpus(config.corpus)
    vectors = _train(config, whole)
    tables = [_agreement_with_cooccurrence(whole, vectors)]
    if config.word_tests:
        tables.append(score_vectors(vectors, frequent=_frequent_words(whole)))
    if config.signature == "free":
        tables.append(_map_statistics(vectors, seed=config.seed))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {config.corpus: whole.checksum}
    return table


def _train(config: TrainedVectors, whole: corpora.Corpus) -> WordVectors:
    """The reference setting with the configuration's size, on the corpus with rare words made one."""
    signature = config.signature if config.signature in NAMES else float(config.signature)
    reference = SGNSConfig.reference(signature, seed=config.seed)
    training = dataclasses.replace(
        reference,
        embedding_dim=config.embedding_dim,
        n_negative=config.n_negative,
        schedule=dataclasses.replace(reference.schedule, n_epochs=config.n_epochs),
    )
    return train_sgns(whole.restrict(min_count=config.min_count, rare="unk"), training, n_threads=1)


def _frequent_words(corpus: corpora.Corpus) -> set[str]:
    return {word for word, n in zip(corpus.vocabulary, corpus.counts, strict=True) if n >= 100}


def _rows(quantity: str, values: dict[str, float] | np.ndarray, control: str = "") -> pd.DataFrame:
    items = list(values) if isinstance(values, dict) else [str(i) for i in range(len(values))]
    numbers = list(values.values()) if isinstance(values, dict) else values
    return pd.DataFrame(
        {"quantity": quantity, "control": control, "item": items, "value": np.asarray(numbers, dtype=float)}
    )


# --- word tests, two ways of treating unknown words -------------------------------------------------


def score_vectors(vectors: WordVectors, *, frequent: set[str]) -> pd.DataFrame:
    """Scores of the six word tests, with bootstrap replicates that resample alike for every model.

    "score": the paper's tool's way, an unknown word making similarity 0 and an analogy wrong.
    "frequent": only items whose words all occur at least 100 times; the same items for every method.
    "men_as_text": MEN with its ratings ranked as text, a known slip of some public copies.
    """
    tables = []
    for name, data_set in SIMILARITY_TESTS.items():
        pairs = corpora.load_word_test(data_set)
        cosines, present = similarity_cosines(vectors, pairs)
        known = pairs["word1"].isin(frequent).to_numpy() & pairs["word2"].isin(frequent).to_numpy()
        ratings = pairs["score"].to_numpy(dtype=float)
        tables += _similarity_rows(name, "score", cosines, ratings)
        tables += _similarity_rows(name, "frequent", cosines[known], ratings[known])
        tables.append(_rows("unknown", {name: float((~present).sum())}))
        if name == "men":
            as_text = stats.rankdata(pairs["score"].astype(str))
            tables.append(_rows("men_as_text", {name: _spearman(cosines, as_text)}))
    for name, data_set in ANALOGY_TESTS.items():
        questions = corpora.load_word_test(data_set)
        correct, answerable = analogy_correct(vectors, questions, method="3cosmul")
        known = questions[["a", "b", "c", "d"]].isin(frequent).all(axis=1).to_numpy()
        tables += _analogy_rows(name, "score", correct.astype(float))
        tables += _analogy_rows(name, "frequent", correct[known].astype(float))
        tables.append(_rows("unknown", {name: float((~answerable).sum())}))
    return pd.concat(tables, ignore_index=True)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])


def _resamples(n: int) -> list[np.ndarray]:
    """Bootstrap resamples of n items, the same for every model: differences of replicates are paired."""
    rng = np.random.default_rng(n)
    return [rng.integers(n, size=n) for _ in range(N_REPLICATES)]


def _similarity_rows(name: str, way: str, cosines: np.ndarray, ratings: np.ndarray) -> list[pd.DataFrame]:
    if len(ratings) < 10:
        return []
    replicates = np.array([_spearman(cosines[take], ratings[take]) for take in _resamples(len(ratings))])
    return [_rows(way, {name: _spearman(cosines, ratings)}), _rows(f"{way}_replicate", replicates, name)]


def _analogy_rows(name: str, way: str, correct: np.ndarray) -> list[pd.DataFrame]:
    if len(correct) < 10:
        return []
    replicates = np.array([correct[take].mean() for take in _resamples(len(correct))])
    return [_rows(way, {name: float(correct.mean())}), _rows(f"{way}_replicate", replicates, name)]


def _agreement_with_cooccurrence(corpus: corpora.Corpus, vectors: WordVectors) -> pd.DataFrame:
    """Spearman correlation of word cosines with cosines of PPMI rows, 20,000 pairs of the 1,000 most
    frequent words: a test of quality that needs no file.
    """
    top = corpus.restrict(max_vocab=min(1000, len(corpus.vocabulary)), rare="hole")
    rows = ppmi(
        count_pairs(top.ids, len(top.vocabulary), window=5, document_starts=top.document_starts)
    ).toarray()
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(top.vocabulary), size=(2, 20_000))
    i, j = i[i != j], j[i != j]
    places = {word: at for at, word in enumerate(vectors.vocabulary)}
    index = np.array([places[word] for word in top.vocabulary])
    words = metrics.cosines(vectors.word[index[i]], vectors.word[index[j]])
    return _rows("agreement", {"ppmi": _spearman(words, metrics.cosines(rows[i], rows[j]))})


# --- the map between word and context vectors -------------------------------------------------------


def _map_statistics(vectors: WordVectors, *, seed: int) -> pd.DataFrame:
    """(pinv(W) C)^2 on and off its diagonal, and how similarities and norms agree, with the nulls."""
    rng = np.random.default_rng(seed)
    word, context = vectors.word.astype(float), chosen_rows(vectors, "context").astype(float)
    d = word.shape[1]
    rotation = stats.ortho_group.rvs(d, random_state=rng)
    pairs = {
        "": (word, context),
        "shuffled_rows": (word, rng.permutation(context)),
        "random_rotation": (word, word @ rotation),
        "random": (rng.standard_normal(word.shape), rng.standard_normal(word.shape)),
    }
    tables = []
    i, j = rng.integers(len(word), size=(2, 200_000))
    i, j = i[i != j], j[i != j]
    for control, (w, c) in pairs.items():
        square = np.linalg.matrix_power(np.linalg.pinv(w) @ c, 2)
        off = square[~np.eye(d, dtype=bool)]
        norms = np.linalg.norm(w, axis=1), np.linalg.norm(c, axis=1)
        cosines = metrics.cosines(w[i], w[j]), metrics.cosines(c[i], c[j])
        summary = {
            "diag_mean": float(np.diag(square).mean()),
            "offdiag_mean": float(off.mean()),
            "offdiag_spread": float(off.std() / abs(np.diag(square).mean())),
            "similarity_correlation": float(np.corrcoef(*cosines)[0, 1]),
            "norm_correlation": float(np.corrcoef(*norms)[0, 1]),
        }
        tables += [_rows("map", summary, control), _rows("square_diagonal", np.diag(square), control)]
        share, edges = np.histogram(np.clip(off, -1.5, 1.5), bins=np.linspace(-1.5, 1.5, 121))
        centres = dict(zip((f"{x:.4f}" for x in (edges[1:] + edges[:-1]) / 2), share / off.size, strict=True))
        tables.append(_rows("square_offdiagonal", centres, control))
    return pd.concat(tables, ignore_index=True)


@experiment("reflections.map_eigenvalues")
def map_eigenvalues(config: TrainedVectors) -> pd.DataFrame:
    """Eigenvalues of pinv(W) C of a free model: a reflection has as many -1 as reflected dimensions.

    Columns: control ("" for the model, "copy" for C = W, "shuffled_rows"), real, imaginary.
    """
    whole = corpora.load_corpus(config.corpus)
    vectors = _train(config, whole)
    word, context = vectors.word.astype(float), chosen_rows(vectors, "context").astype(float)
    shuffled = np.random.default_rng(config.seed).permutation(context)
    tables = []
    for control, c in {"": context, "copy": word, "shuffled_rows": shuffled}.items():
        values = np.linalg.eigvals(np.linalg.pinv(word) @ c)
        values = values[np.lexsort((values.imag, values.real))]
        tables.append(pd.DataFrame({"control": control, "real": values.real, "imaginary": values.imag}))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {config.corpus: whole.checksum}
    return table


# --- factorized PMI ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FactorizedPMI:
    """One factorization of PMI."""

    corpus: str  # name in the registry
    window: int  # words to each side
    min_count: int  # rarer words leave holes
    shuffled: bool  # the null: tokens in random order
    embedding_dim: int = 200
    word_tests: bool = True


@experiment("reflections.factorized_pmi", threads=2)
def factorized_pmi(config: FactorizedPMI) -> pd.DataFrame:
    """W = U sqrt|L| from the leading eigenpairs of PMI: its scores, and the share of +1 in Q = sgn L."""
    whole = corpora.load_corpus(config.corpus)
    corpus = whole.restrict(min_count=config.min_count, rare="hole")
    ids = spectra.shuffle_tokens(corpus.ids, seed=0) if config.shuffled else corpus.ids
    size = len(corpus.vocabulary)
    counts = count_pairs(ids, size, window=config.window, document_starts=corpus.document_starts)
    vectors = factorize_pmi(pmi(counts), config.embedding_dim, vocabulary=corpus.vocabulary, seed=0)
    assert vectors.signature is not None  # every factorization has its signs
    tables = [_rows("share", {"positive": float((vectors.signature > 0).mean())})]
    tables.append(_agreement_with_cooccurrence(whole, vectors))
    if config.word_tests:
        tables.append(score_vectors(vectors, frequent=_frequent_words(whole)))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {config.corpus: corpus.checksum}
    return table


# --- presets ----------------------------------------------------------------------------------------


def _model(preset: str, signature: str, seed: int) -> Cell:
    sizes: dict[str, dict[str, Any]] = {
        "quick": {
            "corpus": "embedded",
            "embedding_dim": 50,
            "n_epochs": 2,
            "n_negative": 20,
            "word_tests": False,
        },
        "laptop": {"corpus": "enwiki2018", "n_epochs": 3},
        "paper": {"corpus": "enwiki2018"},
    }
    return trained_vectors.cell(TrainedVectors(signature=signature, seed=seed, **sizes[preset]))


def model_cells(preset: str, signatures: Sequence[str] = tuple(NAMES)) -> list[Cell]:
    """Models of a preset: each signature from each seed."""
    n_seeds = {"quick": 2, "laptop": 1, "paper": 1}[preset]
    return [_model(preset, signature, seed) for seed in range(n_seeds) for signature in signatures]


def prefix_cells() -> list[Cell]:
    """The check on text8's true first eighth, in the paper's setting, for the chapter."""
    return [trained_vectors.cell(TrainedVectors("text8_prefix", signature, 0)) for signature in NAMES]


def _free_cells(preset: str) -> list[Cell]:
    return model_cells(preset, ("free",))


def eigenvalue_cells(preset: str) -> list[Cell]:
    """The map's eigenvalues for the free models of a preset, trained once more."""
    return [
        map_eigenvalues.cell(dataclasses.replace(c.config, word_tests=False)) for c in _free_cells(preset)
    ]


def sweep_cells(preset: str) -> list[Cell]:
    """Models of Figure 4, over the share of +1 among the signs."""
    if preset == "paper":
        return [_model("paper", str(share), 0) for share in SHARES]
    if preset == "laptop":
        return [
            trained_vectors.cell(TrainedVectors("text8_prefix", str(share), 0, n_epochs=5, n_negative=25))
            for share in SHARES
        ]
    return []


def factor_cells(preset: str) -> list[Cell]:
    """Factorizations of a preset: PMI at the paper's threshold, and its null."""
    if preset == "quick":
        return []
    return [factorized_pmi.cell(FactorizedPMI("enwiki2018", 5, 100, shuffled)) for shuffled in (False, True)]


def factor_readings() -> list[Cell]:
    """Other readings of Remark 4.2: the default window of the paper's tool, and all words from count 5."""
    return [
        factorized_pmi.cell(FactorizedPMI("enwiki2018", *reading, False)) for reading in ((2, 100), (5, 5))
    ]


# --- findings ---------------------------------------------------------------------------------------


def _map_findings(preset: str, names: Sequence[str]) -> dict[str, Finding]:
    table = load(_free_cells(preset))
    table = table[table["quantity"] == "map"]
    corpus = str(table["corpus"].iloc[0])
    found = {}
    for name in names:
        rows = table[table["item"] == name]
        nulls = rows[rows["control"] != ""].groupby("control")["value"].mean()
        values = rows.loc[rows["control"] == "", "value"].to_numpy()
        found[name] = findings.over_seeds(
            values, nulls={str(k): float(v) for k, v in nulls.items()}, corpus=corpus
        )
    return found


def _involution_findings(preset: str) -> dict[str, Finding]:
    return _map_findings(preset, ("diag_mean", "offdiag_mean", "offdiag_spread"))


def _correlation_findings(preset: str) -> dict[str, Finding]:
    return _map_findings(preset, ("similarity_correlation", "norm_correlation"))


def _half_findings(preset: str) -> dict[str, Finding]:
    table = load(eigenvalue_cells(preset))
    corpus = str(table["corpus"].iloc[0])
    by_run = table.groupby(["control", "seed"])["real"]
    measured = {
        "negative_share": by_run.agg(lambda real: (real < 0).mean()),
        "trace": by_run.agg(lambda real: real.sum() / real.abs().sum()),
    }
    found = {}
    for name, series in measured.items():
        values = series.unstack("control")  # rows seeds
        nulls = {control: float(values[control].mean()) for control in ("copy", "shuffled_rows")}
        found[name] = findings.over_seeds(values[""].to_numpy(), nulls=nulls, corpus=corpus)
    return found


def scores(cells: Sequence[Cell], way: str = "score") -> pd.DataFrame:
    """Scores of stored models: signature, seed, test, score."""
    table = load(cells)
    rows = table[table["quantity"] == way].rename(columns={"item": "test", "value": "score"})
    return rows[["corpus", "signature", "seed", "test", "score"]].reset_index(drop=True)


def _replicates(table: pd.DataFrame, test: str, way: str) -> pd.DataFrame:
    """Bootstrap replicates of a test, averaged over seeds: rows replicates, columns signatures."""
    rows = table[(table["quantity"] == f"{way}_replicate") & (table["control"] == test)]
    return rows.pivot_table(index="item", columns="signature", values="value", aggfunc="mean")


def _difference(
    one: np.ndarray, other: np.ndarray, point: float, *, null: Mapping[str, float], corpus: str
) -> Finding:
    """Difference of two scores with the 95% interval of its paired replicates about the point.

    Replicates resample the items of a test, so that the interval is over these and not over runs.
    """
    spread = (one - other) - np.mean(one - other)
    return findings.resampled(point, point + spread, 1, repeats="runs", nulls=null, corpus=corpus)


def _tied_findings(preset: str) -> dict[str, Finding]:
    cells = model_cells(preset)
    table = load(cells)
    corpus = str(table["corpus"].iloc[0])
    mean = scores(cells).groupby(["test", "signature"])["score"].mean()
    found = {}
    for test in TESTS if preset != "quick" else ():
        replicates = _replicates(table, test, "score")
        plain = {"plain": float(mean[test, "ones"] - mean[test, "free"])}
        for one, other, null in (("half", "free", plain), ("random", "half", {})):
            found[f"{test}_{NAMES[one]}_{NAMES[other]}"] = _difference(
                replicates[one].to_numpy(),
                replicates[other].to_numpy(),
                float(mean[test, one] - mean[test, other]),
                null=null,
                corpus=corpus,
            )
        for signature in ("free", "half", "random"):
            spread = replicates[signature].to_numpy()
            found[f"{test}_{NAMES[signature]}"] = _difference(
                spread,
                np.zeros_like(spread),
                float(mean[test, signature]),
                null={},
                corpus=corpus,
            )
    return found


def sweep_scores(preset: str) -> pd.DataFrame:
    """Figure 4: score of each test, and of their mean, over the share of +1.

    Returns
    -------
    DataFrame
        share, seed, test, score, relative (score over the test's best); the test "mean" averages the
        relative scores of the tests that some model passes.
    """
    table = scores(sweep_cells(preset))
    table["share"] = table["signature"].astype(float)
    best = table.groupby(["test", "share"])["score"].mean().groupby("test").max()
    table["relative"] = table["score"] / table["test"].map(best)
    passed = table[table["test"].isin(_passed_tests(load(sweep_cells(preset))))]
    mean = passed.groupby(["share", "seed"], as_index=False)["relative"].mean()
    mean = mean.assign(test="mean", score=mean["relative"])
    return pd.concat([table, mean], ignore_index=True)[["share", "seed", "test", "score", "relative"]]


def _passed_tests(table: pd.DataFrame) -> list[str]:
    """Tests on which some model's 95% interval lies above 0; the best of the others can't be a scale."""
    rows = table[table["quantity"] == "score_replicate"]
    low = rows.groupby(["control", "signature"])["value"].quantile(0.025).groupby("control").max()
    return [test for test in TESTS if low.get(test, 0.0) > 0]


def _sweep_findings(preset: str) -> dict[str, Finding]:
    cells = sweep_cells(preset)
    table = load(cells)
    corpus = str(table["corpus"].iloc[0])
    tests = _passed_tests(table)
    mean = scores(cells).pivot_table(index="signature", columns="test", values="score")[tests]
    drops = _drops(mean)
    replicates = pd.DataFrame([_drops(replicate[tests]) for replicate in _sweep_replicates(table)])
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame(
        [_drops(mean.set_axis(rng.permutation(mean.index), axis=0)) for _ in range(100)]
    ).mean()
    return {
        name: _difference(
            replicates[name].to_numpy(),
            np.zeros(len(replicates)),
            value,
            null={"shuffled": float(shuffled[name])},
            corpus=corpus,
        )
        for name, value in drops.items()
    }


def _sweep_replicates(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Bootstrap replicates of the sweep's scores, rows signatures, columns tests, averaged over seeds."""
    rows = table[table["quantity"] == "score_replicate"]
    wide = rows.pivot_table(index=["item", "signature"], columns="control", values="value")
    for _, replicate in wide.groupby(level="item"):
        yield replicate.droplevel("item")


def _drops(scores_of: pd.DataFrame) -> dict[str, float]:
    """Plateau and drops of the mean relative score; rows shares of +1 as text, columns tests."""
    share = scores_of.index.to_numpy(dtype=float)
    mean = (scores_of / scores_of.max()).mean(axis=1).to_numpy()
    plateau = mean[(share >= 0.35) & (share <= 0.65)].mean()
    return {
        "plateau": float(plateau / mean.max()),
        "drop_low": float(mean[share < 0.25].mean() / plateau - 1),
        "drop_high": float(mean[share > 0.90].mean() / plateau - 1),
    }


def _factor_findings(preset: str) -> dict[str, Finding]:
    factors = load(factor_cells(preset))
    main = factors[(factors["window"] == 5) & (factors["min_count"] == 100)]
    free = load(_free_cells(preset))
    corpus = str(free["corpus"].iloc[0])
    found = {}
    for test in TESTS:
        sgns = _replicates(free, test, "frequent")["free"].to_numpy()
        pmi_rows = {bool(flag): rows for flag, rows in main.groupby("shuffled")}
        score = {flag: _score(rows, test, "frequent") for flag, rows in pmi_rows.items()}
        base = _score(free, test, "frequent")
        own = pmi_rows[False]
        replicates = own[(own["quantity"] == "frequent_replicate") & (own["control"] == test)]
        ours = replicates.set_index("item")["value"].sort_index().to_numpy()
        found[f"{test}_difference"] = _difference(
            ours,
            sgns,
            score[False] - base,
            null={"shuffled": score[True] - base},
            corpus=corpus,
        )
    share = main[(main["quantity"] == "share") & ~main["shuffled"]]["value"].iloc[0]
    null = main[(main["quantity"] == "share") & main["shuffled"]]["value"].iloc[0]
    found["positive_share"] = findings.exact(share, nulls={"shuffled": float(null)}, corpus=corpus)
    return found


def _score(table: pd.DataFrame, test: str, way: str) -> float:
    return float(table[(table["quantity"] == way) & (table["item"] == test)]["value"].mean())


STUDIES = {
    "reflections.involution": Study(_free_cells, _involution_findings),
    "reflections.half_reflected": Study(eigenvalue_cells, _half_findings),
    "reflections.similarity_correlation": Study(_free_cells, _correlation_findings),
    "reflections.tied_sgns": Study(model_cells, _tied_findings),
    "reflections.proportion": Study(sweep_cells, _sweep_findings, needs="a sweep of 14 models"),
    "reflections.factorize": Study(
        lambda preset: [*factor_cells(preset), *(_free_cells(preset) if preset != "quick" else [])],
        _factor_findings,
    ),
}
