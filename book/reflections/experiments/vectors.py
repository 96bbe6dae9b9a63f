"""Skip-gram vectors, free and tied by signs: trained, scored, and compared with factorized PMI.

Source: Assylbekov & Takhanov (2019), sections 3.2 and 4. The paper's setting: d = 200, window 5, 100
negatives shared by batches of 16, learning rate 0.2, 15 epochs, words with count >= 5, rarer ones one
unknown word; the rate decays 20% faster when tied.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from book.ledger import findings
from book.ledger.cells import Cell, experiment, load, training_run
from book.ledger.findings import Finding
from book.ledger.studies import Part, Study
from book.reflections.experiments.scores import TESTS, frequent_items, rows_of, score_halves, score_vectors
from embviz import metrics
from embviz.corpora import corpus as corpora
from embviz.words import spectra
from embviz.words.cooccurrence import count_pairs, pmi, ppmi
from embviz.words.reports import NEARLY_REAL
from embviz.words.skipgram import SGNSConfig, State, train_sgns
from embviz.words.wordvectors import WordVectors, chosen_rows, factorize_pmi

NAMES = {"free": "sgns", "half": "wt", "random": "wtr", "ones": "plain"}
PLAIN = {"plain_with_bias": "ones with bias", "plain": "ones"}  # controls; the first decides
BIASES = {"with bias": True, "without bias": False}
SECONDS = 60.0  # between two states on disk
SHARES = (
    *(0.0, 0.1, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7),
    *(0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 1.0),
)
SAME_SIGNS = {0.5: "half", 1.0: "ones"}  # one model under two names: trained once
PLATEAU = (0.35, 0.65)  # shares of +1 between which the paper sees no change
BORDERS = (0.225, 0.925, 0.95)  # shares that three seeds left open
FIRST = (0.0, 0.1, 0.2, 0.35, 0.4, 0.5, 0.6, 0.65, 0.975, 1.0)  # those that they decided
JUDGED_AGAIN = tuple(share for share in SHARES if share in BORDERS or PLATEAU[0] <= share <= PLATEAU[1])


# --- training and measuring one model ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SkipGram:
    """One skip-gram model."""

    corpus: str  # name in the registry
    # "free", "half", "random", "ones", "learned", or the share of +1 as text; "free without bias", "half with
    # bias" and "ones with bias" have what the reference setting gives to the free model alone, or lack it
    signature: str
    seed: int
    embedding_dim: int = 200
    n_epochs: int = 15
    n_negative: int = 100  # shared by a batch
    min_count: int = 5  # rarer words become one unknown word
    word_tests: bool = True  # the word tests need their files

    @property
    def text(self) -> corpora.Corpus:
        """What is trained on, its rare words still in it."""
        return corpora.load_corpus(self.corpus)

    @property
    def training(self) -> SGNSConfig:
        """The reference setting at this size."""
        signature, _, bias = self.signature.partition(" ")
        named = signature in NAMES or signature == "learned"
        reference = SGNSConfig.reference(signature if named else float(signature), seed=self.seed)
        return dataclasses.replace(
            reference,
            bias=BIASES[bias] if bias else reference.bias,
            embedding_dim=self.embedding_dim,
            n_negative=self.n_negative,
            schedule=dataclasses.replace(reference.schedule, n_epochs=self.n_epochs),
        )


@dataclasses.dataclass(frozen=True)
class SkipGramOnHead(SkipGram):
    """The same on the beginning of a text, to separate the text from its length."""

    n_tokens: int = 2_139_749  # as many as text8's first eighth has

    @property
    def text(self) -> corpora.Corpus:
        """The first tokens alone."""
        return corpora.load_corpus(self.corpus, n_tokens=self.n_tokens)


@experiment("reflections.skipgram")
def skipgram(config: SkipGram) -> pd.DataFrame:
    """Train, then measure; a run that is killed goes on from its last minute.

    Returns
    -------
    DataFrame
        quantity, control, item, value: scores with bootstrap replicates
        (:func:`book.reflections.experiments.scores.score_vectors`), agreement with PMI; of a free model the
        map between word and context vectors with its controls, of a tied one what each half of the
        coordinates does, of a learned Q its eigenvalues.
    """
    whole = config.text
    data = {config.corpus: whole.checksum}
    with training_run(skipgram.cell(config), data) as (run, slices):
        found = run.load_state()
        state = None if found is None else {name: part.numpy() for name, part in found[1].items()}
        text = whole.restrict(min_count=config.min_count, rare="unk")
        vectors = train_sgns(text, config.training, state=state, keep=_keeper(run.save_state))
        table = _measure(config, whole, vectors)
    table.attrs |= {"data": data, "slices": slices}
    return table


def _keeper(save: Callable[[int, dict[str, torch.Tensor]], None]) -> Callable[[Callable[[], State]], None]:
    """Saves a training's state each minute."""
    last = time.monotonic()

    def keep(state: Callable[[], State]) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS:
            parts = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in state().items()}
            save(int(parts["stream"][1]), parts)  # a step is a place read
            last = time.monotonic()

    return keep


def _measure(config: SkipGram, whole: corpora.Corpus, vectors: WordVectors) -> pd.DataFrame:
    top = whole.restrict(max_vocab=min(1000, len(whole.vocabulary)), rare="hole")
    tables = [_agreement(top, vectors)]
    if config.word_tests:
        tables.append(score_vectors(vectors, frequent=_frequent_words(whole)))
    if config.training.signature == "free":
        tables.append(map_statistics(vectors, seed=config.seed))
    if vectors.signature is not None and len(set(vectors.signature.tolist())) == 2:
        tables.append(_halves(top, vectors, seed=config.seed))
        if config.word_tests:
            tables.append(score_halves(vectors))
    if vectors.transform is not None:
        tables.append(_learned(vectors.transform))
    return pd.concat(tables, ignore_index=True)


def _frequent_words(corpus: corpora.Corpus) -> set[str]:
    return {word for word, n in zip(corpus.vocabulary, corpus.counts, strict=True) if n >= 100}


def _pairs(top: corpora.Corpus, vectors: WordVectors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """20,000 random pairs of a corpus' words, and the row of each of its words among the vectors'."""
    i, j = np.random.default_rng(0).integers(len(top.vocabulary), size=(2, 20_000))
    return i[i != j], j[i != j], np.array([vectors.index[word] for word in top.vocabulary])


def _agreement(top: corpora.Corpus, vectors: WordVectors) -> pd.DataFrame:
    """Spearman correlation of word cosines with cosines of rows of positive PMI, over pairs of the 1,000
    most frequent words: a test of quality that needs no file.
    """
    counts = count_pairs(top.ids, len(top.vocabulary), window=5, document_starts=top.document_starts)
    rows = ppmi(counts).toarray()
    i, j, places = _pairs(top, vectors)
    words = metrics.cosines(vectors.word[places[i]], vectors.word[places[j]])
    return rows_of("agreement", {"ppmi": _spearman(words, metrics.cosines(rows[i], rows[j]))})


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])


def _halves(top: corpora.Corpus, vectors: WordVectors, *, seed: int) -> pd.DataFrame:
    """Remark 2.3: Spearman correlation with PMI of x_i'x_j, over coordinates with +1, and of y_i'y_j, over
    those with -1; pairs of the 1,000 most frequent words that met. The null splits at random.
    """
    counts = count_pairs(top.ids, len(top.vocabulary), window=5, document_starts=top.document_starts)
    matrix = pmi(counts).toarray()
    i, j, places = _pairs(top, vectors)
    met = matrix[i, j] != 0
    i, j = i[met], j[met]
    word = vectors.word[places].astype(float)
    assert vectors.signature is not None
    shuffled = np.random.default_rng(seed).permutation(vectors.signature)
    tables = []
    for control, signs in {"": vectors.signature, "random_split": shuffled}.items():
        products = {
            name: np.einsum("nd,nd->n", word[i][:, half], word[j][:, half])
            for name, half in {"pull": signs > 0, "push": signs < 0}.items()
        }
        found = {name: _spearman(product, matrix[i, j]) for name, product in products.items()}
        tables.append(rows_of("halves", found, control))
    return pd.concat(tables, ignore_index=True)


def _learned(transform: np.ndarray) -> pd.DataFrame:
    """A trained Q: eigenvalues of its symmetric part, and what share of its squares that part has."""
    symmetric = (transform + transform.T) / 2
    values = np.linalg.eigvalsh(symmetric.astype(float))
    summary = {
        "positive_share": float((values > 0).mean()),
        "symmetric_share": float((symmetric**2).sum() / (transform**2).sum()),
    }
    return pd.concat([rows_of("learned", summary), rows_of("learned_eigenvalue", values)], ignore_index=True)


# --- the map between word and context vectors -------------------------------------------------------


def map_statistics(vectors: WordVectors, *, seed: int) -> pd.DataFrame:
    """The map pinv(W) C of a free model, its square and its eigenvalues, beside the controls.

    Quantities: "map" (a number each: diag_mean, offdiag_mean, offdiag_spread of the square; negative_share
    and trace of the eigenvalues; similarity_correlation, norm_correlation), "square_diagonal",
    "square_offdiagonal" (shares of bins), "eigenvalue_real" and "eigenvalue_imaginary". A copy, C = W,
    passes the test of the square and reflects nothing.
    """
    rng = np.random.default_rng(seed)
    word, context = vectors.word.astype(float), chosen_rows(vectors, "context").astype(float)
    rotation = stats.ortho_group.rvs(word.shape[1], random_state=rng)
    pairs = {
        "": (word, context),
        "shuffled_rows": (word, rng.permutation(context)),
        "random_rotation": (word, word @ rotation),
        "random": (rng.standard_normal(word.shape), rng.standard_normal(word.shape)),
        "copy": (word, word),
    }
    i, j = rng.integers(len(word), size=(2, 200_000))
    i, j = i[i != j], j[i != j]
    tables = []
    for control, (w, c) in pairs.items():
        norms = np.linalg.norm(w, axis=1), np.linalg.norm(c, axis=1)
        cosines = metrics.cosines(w[i], w[j]), metrics.cosines(c[i], c[j])
        alike = {
            "similarity_correlation": float(np.corrcoef(*cosines)[0, 1]),
            "norm_correlation": float(np.corrcoef(*norms)[0, 1]),
        }
        tables += [rows_of("map", alike, control), *_square_and_eigenvalues(np.linalg.pinv(w) @ c, control)]
    return pd.concat(tables, ignore_index=True)


def _square_and_eigenvalues(q: np.ndarray, control: str) -> list[pd.DataFrame]:
    square, values = q @ q, np.linalg.eigvals(q)
    values = values[np.lexsort((values.imag, values.real))]
    off = square[~np.eye(len(q), dtype=bool)]
    summary = {
        "diag_mean": float(np.diag(square).mean()),
        "offdiag_mean": float(off.mean()),
        "offdiag_spread": float(off.std() / abs(np.diag(square).mean())),
        "negative_share": float((values.real < 0).mean()),
        "trace": float(values.real.sum() / np.abs(values.real).sum()),
    }
    tables = [rows_of("map", summary, control)]
    if control == "copy":
        return tables
    share, edges = np.histogram(np.clip(off, -1.5, 1.5), bins=np.linspace(-1.5, 1.5, 121))
    centres = dict(zip((f"{x:.4f}" for x in (edges[1:] + edges[:-1]) / 2), share / off.size, strict=True))
    return [
        *tables,
        rows_of("square_diagonal", np.diag(square), control),
        rows_of("square_offdiagonal", centres, control),
        rows_of("eigenvalue_real", values.real, control),
        rows_of("eigenvalue_imaginary", values.imag, control),
    ]


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


@experiment("reflections.factorized_pmi", version=2, threads=2)
def factorized_pmi(config: FactorizedPMI) -> pd.DataFrame:
    """W = U sqrt|L| from the leading eigenpairs of PMI: its scores, and the share of +1 in Q = sgn L."""
    whole = corpora.load_corpus(config.corpus)
    corpus = whole.restrict(min_count=config.min_count, rare="hole")
    ids = spectra.shuffle_tokens(corpus.ids, seed=0) if config.shuffled else corpus.ids
    size = len(corpus.vocabulary)
    counts = count_pairs(ids, size, window=config.window, document_starts=corpus.document_starts)
    vectors = factorize_pmi(pmi(counts), config.embedding_dim, vocabulary=corpus.vocabulary, seed=0)
    assert vectors.signature is not None  # every factorization has its signs
    tables = [rows_of("share", {"positive": float((vectors.signature > 0).mean())})]
    tables.append(_agreement(whole.restrict(max_vocab=1000, rare="hole"), vectors))
    if config.word_tests:
        tables.append(score_vectors(vectors, frequent=_frequent_words(whole)))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["data"] = {config.corpus: corpus.checksum}
    return table


@dataclasses.dataclass(frozen=True)
class TestedWords:
    """A text whose frequent words the tests are cut down to."""

    corpus: str  # name in the registry


@experiment("reflections.tested_items")
def tested_items(config: TestedWords) -> pd.DataFrame:
    """How many items of each word test have words of at least 100 occurrences alone."""
    whole = corpora.load_corpus(config.corpus)
    counts = {name: float(n) for name, n in frequent_items(_frequent_words(whole)).items()}
    table = rows_of("items", counts)
    table.attrs["data"] = {config.corpus: whole.checksum}
    return table


# --- presets ----------------------------------------------------------------------------------------

SEEDS = {"quick": (0, 1), "laptop": (1, 2, 3), "paper": (1, 2, 3)}  # seed 0 was seen before ranges moved
MORE_SEEDS = (4, 5, 6)  # not looked at when the amendments that name them were made
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "corpus": "embedded",
        "embedding_dim": 50,
        "n_epochs": 2,
        "n_negative": 20,
        "word_tests": False,
    },
    "laptop": {"corpus": "text8_prefix"},  # the true first eighth of text8, for the paper's epochs
    "paper": {"corpus": "enwiki2018"},
}


def model_cells(
    preset: str, signatures: Sequence[str] = tuple(NAMES), *, seeds: Sequence[int] | None = None
) -> list[Cell]:
    """Models of a preset: each signature from each of its seeds, or of others."""
    return [
        skipgram.cell(SkipGram(signature=signature, seed=seed, **SIZES[preset]))
        for seed in seeds or SEEDS[preset]
        for signature in signatures
    ]


def free_cells(preset: str) -> list[Cell]:
    """The free models of a preset."""
    return model_cells(preset, ("free",))


def more_cells(preset: str, signature: str) -> list[Cell]:
    """Models from the seeds that amended claims name; the quick preset has none."""
    return [] if preset == "quick" else model_cells(preset, (signature,), seeds=MORE_SEEDS)


def learned_cells(preset: str) -> list[Cell]:
    """Models that learn Q, beside those whose Q is chosen."""
    return model_cells("laptop", ("learned",)) if preset == "laptop" else []


def plain_with_bias_cells(preset: str) -> list[Cell]:
    """Plain tying with the output bias of the free model; the quick preset has none."""
    return [] if preset == "quick" else model_cells(preset, ("ones with bias",))


def head_cells(preset: str) -> list[Cell]:
    """A free model on the stand-in's beginning, as long as text8's first eighth."""
    if preset != "paper":
        return []
    return [skipgram.cell(SkipGramOnHead("enwiki2018", "free", SEEDS[preset][0], word_tests=False))]


def bias_cells(preset: str) -> list[Cell]:
    """Tying by signs with the free model's bias, and the free model without it, on text8's first eighth."""
    return model_cells(preset, ("half with bias", "free without bias")) if preset == "laptop" else []


def sweep_cells(preset: str) -> list[Cell]:
    """Models of Figure 4 over the share of +1: with its epochs and negatives, on text8's first eighth."""
    if preset != "laptop":
        return []
    return model_cells("laptop", [SAME_SIGNS.get(share, str(share)) for share in SHARES])


def factor_cells(preset: str) -> list[Cell]:
    """Factorizations of a preset: PMI at the paper's threshold, and its control."""
    if preset == "quick":
        return []
    corpus = SIZES[preset]["corpus"]
    return [factorized_pmi.cell(FactorizedPMI(corpus, 5, 100, shuffled)) for shuffled in (False, True)]


def factor_readings(preset: str) -> list[Cell]:
    """Other readings of Remark 4.2: the default window of the paper's tool, and all words from count 5."""
    if preset == "quick":
        return []
    readings = ((2, 100), (5, 5))
    return [
        factorized_pmi.cell(FactorizedPMI(SIZES[preset]["corpus"], *reading, False)) for reading in readings
    ]


# --- findings ---------------------------------------------------------------------------------------


def _map_findings(preset: str, names: Sequence[str]) -> dict[str, Finding]:
    table = load(free_cells(preset))
    table = table[table["quantity"] == "map"]
    corpus = str(table["corpus"].iloc[0])
    found = {}
    for name in names:
        rows = table[table["item"] == name]
        controls = rows[rows["control"] != ""].groupby("control")["value"].mean()
        values = rows.loc[rows["control"] == "", "value"].to_numpy()
        found[name] = findings.over_seeds(
            values, controls={str(k): float(v) for k, v in controls.items()}, corpus=corpus
        )
    return found


def _involution_findings(preset: str) -> dict[str, Finding]:
    return _map_findings(preset, ("diag_mean", "offdiag_spread"))


def _correlation_findings(preset: str) -> dict[str, Finding]:
    return _map_findings(preset, ("similarity_correlation", "norm_correlation"))


def _half_findings(preset: str) -> dict[str, Finding]:
    return _map_findings(preset, ("negative_share", "trace"))


def reflected_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Share of eigenvalues of the map that are negative and nearly real, as a reflected dimension's is.

    Parameters
    ----------
    table : DataFrame
        Stored cells of free models, or of one.

    Returns
    -------
    DataFrame
        A row a seed and a column a control; the model's own map is "".
    """
    parts = {
        part: table[table["quantity"] == f"eigenvalue_{part}"].set_index(["seed", "control", "item"])["value"]
        for part in ("real", "imaginary")
    }
    real, imaginary = parts["real"], parts["imaginary"]
    reflected = (real < 0) & (imaginary.abs() < NEARLY_REAL * real.abs())
    return reflected.groupby(["seed", "control"]).mean().unstack("control")


def _reflected_findings(preset: str) -> dict[str, Finding]:
    shares = reflected_shares(load(more_cells(preset, "free")))
    controls = {str(name): float(share) for name, share in shares.drop(columns="").mean().items()}
    corpus = str(SIZES[preset]["corpus"])
    return {"reflected_share": findings.over_seeds(shares[""].to_numpy(), controls=controls, corpus=corpus)}


def scores(cells: Sequence[Cell], way: str = "score") -> pd.DataFrame:
    """Scores of stored models: corpus, signature, seed, test, score."""
    table = load(cells)
    rows = table[table["quantity"] == way].rename(columns={"item": "test", "value": "score"})
    return rows[["corpus", "signature", "seed", "test", "score"]].reset_index(drop=True)


def tied_cells(preset: str) -> list[Cell]:
    """The models of Table 2, and plain tying with the free model's bias, their control."""
    return [*model_cells(preset), *plain_with_bias_cells(preset)]


def _tied_findings(preset: str) -> dict[str, Finding]:
    """Scores over seeds; ratios of models that share a seed."""
    if preset == "quick":
        return {}
    table = scores(tied_cells(preset))
    corpus = str(table["corpus"].iloc[0])
    found, kept = {}, []
    for test in TESTS:
        of = table[table["test"] == test].pivot(index="seed", columns="signature", values="score")
        free = findings.over_seeds(of["free"].to_numpy(), corpus=corpus)
        if test in ("wordsim", "men"):
            found[f"{test}_sgns"] = free
        if not free.low > 0:
            continue  # a test that free vectors don't pass: a ratio of its scores says nothing
        null = {name: float((of[plain] / of["free"]).mean()) for name, plain in PLAIN.items()}
        ratio = (of["half"] / of["free"]).to_numpy()
        found[f"{test}_kept"] = findings.over_seeds(ratio, controls=null, corpus=corpus)
        kept.append(of[["random", *PLAIN.values()]].div(of["half"], axis=0))
    if not kept:
        return found
    ratios = pd.concat(kept).groupby(level="seed").mean()  # over the tests
    null = {name: float(ratios[plain].mean()) for name, plain in PLAIN.items()}
    found["wtr_over_wt"] = findings.over_seeds(ratios["random"].to_numpy(), controls=null, corpus=corpus)
    return found


def _halves_findings(preset: str) -> dict[str, Finding]:
    table = load(model_cells(preset, ("half",)))
    rows = table[table["quantity"] == "halves"]
    push = rows[rows["item"] == "push"]
    null = {"random_split": float(push.loc[push["control"] != "", "value"].mean())}
    own = push.loc[push["control"] == "", "value"].to_numpy()
    corpus = str(rows["corpus"].iloc[0])
    return {"push_correlation": findings.over_seeds(own, controls=null, corpus=corpus)}


def _pull_findings(preset: str) -> dict[str, Finding]:
    """How much more the half with +1 correlates with PMI than a half dealt at random, by seed."""
    rows = load(more_cells(preset, "half")).query("quantity == 'halves' and item == 'pull'")
    by_seed = rows.pivot(index="seed", columns="control", values="value")
    over = (by_seed[""] - by_seed["random_split"]).to_numpy()
    corpus = str(SIZES[preset]["corpus"])
    return {"pull_over_random": findings.over_seeds(over, corpus=corpus, within=(-2.0, 2.0))}


def sweep_scores(cells: Sequence[Cell] | None = None) -> pd.DataFrame:
    """Figure 4: score of each test, and of their mean, over the share of +1.

    Returns
    -------
    DataFrame
        share, seed, test, score, relative (over the test's mean on the plateau, 35 to 65% of +1, of the
        same seed); the test "mean" averages the relative scores of the tests that some model of the whole
        sweep passes.
    """
    whole = sweep_cells("laptop")
    table = scores(whole if cells is None else cells)
    named = {signature: share for share, signature in SAME_SIGNS.items()}
    table["share"] = [float(named.get(signature, signature)) for signature in table["signature"]]
    flat = table[table["share"].between(*PLATEAU)].groupby(["test", "seed"])["score"].mean()
    table["relative"] = (
        table["score"] / flat.loc[pd.MultiIndex.from_frame(table[["test", "seed"]])].to_numpy()
    )
    passed = table[table["test"].isin(passed_tests(load(whole)))]
    mean = passed.groupby(["share", "seed"], as_index=False)["relative"].mean()
    mean = mean.assign(test="mean", score=mean["relative"])
    return pd.concat([table, mean], ignore_index=True)[["share", "seed", "test", "score", "relative"]]


def passed_tests(table: pd.DataFrame) -> list[str]:
    """Tests on which some model's 95% interval lies above 0; the scores of the others are no scale."""
    rows = table[table["quantity"] == "score_replicate"]
    low = rows.groupby(["control", "signature", "seed"])["value"].quantile(0.025).groupby("control").max()
    return [test for test in TESTS if low.get(test, 0.0) > 0]


def _sweep_findings(preset: str) -> dict[str, Finding]:
    """The mean relative score at shares beyond the plateau and on it."""
    found = _against_plateau(_by_share(sweep_scores()))
    return {name: found[name] for share in FIRST if (name := f"share_{1000 * share:04.0f}") in found}


def _by_share(table: pd.DataFrame) -> pd.DataFrame:
    """Mean relative scores, a row a seed and a column a share of +1."""
    return table[table["test"] == "mean"].pivot(index="seed", columns="share", values="relative")


def _against_plateau(by_share: pd.DataFrame) -> dict[str, Finding]:
    """Each share of +1 against the plateau; the control: what a share of the plateau falls to by chance."""
    flat = by_share.loc[:, by_share.columns.to_series().between(*PLATEAU)].to_numpy().ravel()
    drawn = np.random.default_rng(0).choice(flat, size=(2000, len(by_share))).mean(axis=1)
    null = {"plateau": float(np.quantile(drawn, 0.05)) - 1}
    corpus = SIZES["laptop"]["corpus"]
    return {
        f"share_{1000 * share:04.0f}": findings.over_seeds(
            by_share[share].to_numpy() - 1, controls=null, corpus=corpus
        )
        for share in by_share.columns
    }


def border_cells(preset: str) -> list[Cell]:
    """Models of three more seeds at the shares that were left open, and at the shares of the plateau."""
    if preset != "laptop":
        return []
    return model_cells(
        "laptop", [SAME_SIGNS.get(share, str(share)) for share in JUDGED_AGAIN], seeds=MORE_SEEDS
    )


def _border_findings(preset: str) -> dict[str, Finding]:
    """Of the later seeds alone, each against its own plateau."""
    found = _against_plateau(_by_share(sweep_scores(border_cells(preset))))
    return {f"later_{1000 * share:04.0f}": found[f"share_{1000 * share:04.0f}"] for share in BORDERS}


def _factor_findings(preset: str) -> dict[str, Finding]:
    if preset == "quick":
        return {}
    table = load(factor_cells(preset))
    of = {bool(flag): rows for flag, rows in table.groupby("shuffled")}
    free = load(free_cells(preset))
    corpus = str(free["corpus"].iloc[0])
    items = load([tested_items.cell(TestedWords(corpus))]).set_index("item")["value"]
    found = {}
    for test in TESTS:
        score = {flag: _score(rows, test) for flag, rows in of.items()}
        rows = free[(free["quantity"] == "frequent") & (free["item"] == test)]
        base = rows["value"].to_numpy()
        null = {"shuffled": float(score[True] - base.mean())}
        drawn = _gap_replicates(of[False], free, test)
        found[f"{test}_over_items"] = findings.resampled(
            float(score[False] - base.mean()),
            drawn,
            int(items[test]),
            repeats="items",
            controls=null,
            corpus=corpus,
        )
    share = {flag: float(rows.loc[rows["quantity"] == "share", "value"].iloc[0]) for flag, rows in of.items()}
    found["positive_share"] = findings.exact(share[False], controls={"shuffled": share[True]}, corpus=corpus)
    return found


def _gap_replicates(factors: pd.DataFrame, free: pd.DataFrame, test: str) -> np.ndarray:
    """Bootstrap replicates of the gap: the items of a test drawn again, alike for all models, and the seeds.

    Items alone would take the three free models for all there are, seeds alone the few items of a small
    text for the test.
    """

    def replicates(table: pd.DataFrame) -> np.ndarray:
        rows = table[(table["quantity"] == "frequent_replicate") & (table["control"] == test)]
        return rows["value"].to_numpy()

    by_seed = np.stack([replicates(rows) for _, rows in free.groupby("seed")])  # (seeds, replicates)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(by_seed), size=by_seed.T.shape)  # (replicates, seeds)
    drawn = np.take_along_axis(by_seed.T, chosen, axis=1).mean(axis=1)
    gaps: np.ndarray = replicates(factors) - drawn
    return gaps


def _score(table: pd.DataFrame, test: str) -> float:
    return float(table.loc[(table["quantity"] == "frequent") & (table["item"] == test), "value"].iloc[0])


def _compared_cells(preset: str) -> list[Cell]:
    return [*free_cells(preset), tested_items.cell(TestedWords(SIZES[preset]["corpus"]))]


STUDIES = {
    "reflections.involution": Study(free_cells, _involution_findings),
    "reflections.half_reflected": Study(
        free_cells,
        _half_findings,
        parts=(Part(lambda preset: more_cells(preset, "free"), _reflected_findings),),
        beside=head_cells,
    ),
    "reflections.similarity_correlation": Study(free_cells, _correlation_findings),
    "reflections.tied_sgns": Study(
        tied_cells, _tied_findings, beside=lambda preset: [*bias_cells(preset), *learned_cells(preset)]
    ),
    "reflections.pull_and_push": Study(
        lambda preset: model_cells(preset, ("half",)),
        _halves_findings,
        parts=(Part(lambda preset: more_cells(preset, "half"), _pull_findings),),
    ),
    "reflections.proportion": Study(
        sweep_cells,
        _sweep_findings,
        needs="a sweep of 19 shares",
        parts=(Part(border_cells, _border_findings),),
    ),
    "reflections.factorize": Study(
        lambda preset: [*factor_cells(preset), *(_compared_cells(preset) if preset != "quick" else [])],
        _factor_findings,
        beside=factor_readings,
    ),
}
