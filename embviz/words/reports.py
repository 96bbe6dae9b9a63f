"""Reports in one call, each with its controls: the PMI spectrum of a text, reflections of word vectors."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import scipy.sparse

from embviz.arrays import check_int, check_pair
from embviz.corpora.corpus import Corpus
from embviz.metrics import cosines, mirror_distance, positive_share
from embviz.words.cooccurrence import count_pairs, pmi, ppmi
from embviz.words.spectra import eigenvalues, shuffle_tokens
from embviz.words.wordvectors import WordVectors

PMI, SHUFFLED, CLIPPED = MATRICES = ("PMI", "tokens shuffled", "positive PMI")
LEAST_WORDS = 10  # of a spectrum
N_SHUFFLES = 3
DIGITS = 6  # of eigenvalues, so that one that is 0 but for rounding has no sign


@dataclass(frozen=True, eq=False)
class SpectrumReport:
    """What :func:`spectrum_report` found."""

    name: str  # of the corpus
    n_words: int  # of the matrices, V
    n_tokens: int  # places of the text, those of rarer words included
    window: int  # words on each side
    spectra: dict[
        str, np.ndarray
    ]  # ascending eigenvalues (V,), nats, of MATRICES; of shuffled ones the first
    scores: pd.DataFrame  # matrix, seed, positive_share (0..1), mirror_distance (standard deviations)

    @property
    def sentence(self) -> str:
        """What the numbers say, with the control beside each."""
        own = self.scores[self.scores["matrix"] == PMI].iloc[0]
        lots = self.scores[self.scores["matrix"] == SHUFFLED]
        low, high = lots["mirror_distance"].min(), lots["mirror_distance"].max()
        place = "as far from it as"
        if not low <= own["mirror_distance"] <= high:
            place = "closer to it than" if own["mirror_distance"] < low else "farther from it than"
        return (
            f"The PMI of {self.n_words:,} words of {self.name!r} ({self.n_tokens:,} tokens, window "
            f"{self.window}) has {own['positive_share']:.0%} positive eigenvalues, and its spectrum lies "
            f"{own['mirror_distance']:.2f} standard deviations from its mirror image. That is {place} the "
            f"same tokens in {len(lots)} random orders: {_span(lots['mirror_distance'], '.2f')}, with "
            f"{_span(lots['positive_share'], '.0%')} positive."
        )


def _span(values: pd.Series, form: str) -> str:
    ends = dict.fromkeys(format(value, form) for value in (values.min(), values.max()))
    return " to ".join(ends)


def spectrum_report(
    corpus: Corpus,
    *,
    window: int = 5,
    min_count: int = 5,
    max_vocab: int = 2_000,
) -> SpectrumReport:
    """Eigenvalues of PMI for a corpus and for its tokens in three random orders, and of positive PMI.

    The random orders are the control: a text with its word counts and no context.

    Parameters
    ----------
    corpus : Corpus
        Such as ``make_corpus(Path("mine.txt"))``.
    window : int
        Words on each side that count as context.
    min_count, max_vocab : int
        The words that are kept; the places of others stay, empty, and so do those of a word that meets none.
        Time grows with the third power of their number: 2,000 take seconds.

    Returns
    -------
    SpectrumReport

    Source
    ------
    The reflections paper, section 3.1, which reads the mirror image off a histogram and has no control.
    """
    check_int(max_vocab, "max_vocab", low=LEAST_WORDS)
    kept = corpus.restrict(min_count=min_count, max_vocab=max_vocab, rare="hole")

    def counted(ids: np.ndarray) -> scipy.sparse.csr_array:
        found = count_pairs(ids, len(kept.vocabulary), window=window, document_starts=kept.document_starts)
        met = np.flatnonzero(np.diff(found.indptr))  # a word alone in its documents has no PMI
        return found[met][:, met]

    counts = counted(kept.ids)
    n_words = counts.shape[0]
    if n_words < LEAST_WORDS:
        raise ValueError(
            f"{n_words} words of {corpus.name!r} occur {min_count} times or more and meet another, which is "
            "no spectrum to look at: lower min_count, or take a longer text"
        )
    made = {(PMI, 0): pmi(counts), (CLIPPED, 0): ppmi(counts)}
    for order in range(N_SHUFFLES):
        made[SHUFFLED, order] = pmi(counted(shuffle_tokens(kept.ids, seed=order)))
    found = {key: eigenvalues(matrix, dtype="float64").round(DIGITS) for key, matrix in made.items()}
    rows = [
        (matrix, order, positive_share(values), mirror_distance(values))
        for (matrix, order), values in found.items()
    ]
    scores = pd.DataFrame(rows, columns=["matrix", "seed", "positive_share", "mirror_distance"])
    spectra = {PMI: found[PMI, 0], SHUFFLED: found[SHUFFLED, 0], CLIPPED: found[CLIPPED, 0]}
    return SpectrumReport(corpus.name, n_words, corpus.n_tokens, window, spectra, scores)


# --- reflections ------------------------------------------------------------------------------------

TRAINED, OTHER_ROWS, ROTATION, NOISE = KINDS = (
    "word and context",
    "contexts in random order",
    "word and its rotation",
    "random vectors",
)
N_PAIRS = 200_000  # of words whose cosines are compared
NEARLY_REAL = 0.2  # size of an imaginary part over that of the real one


@dataclass(frozen=True)
class MapSummary:
    """What the least-squares map Q from word to context vectors looks like."""

    diagonal: float  # mean of the diagonal of Q Q: 1 for a reflection, which undoes itself
    offdiagonal: float  # standard deviation of the rest of Q Q over `diagonal`: 0 for a reflection
    negative_share: float  # of Q's eigenvalues with a negative real part: of any random Q about half
    reflected_share: float  # of those that are negative and nearly real: of reflected dimensions, half
    similarity_correlation: float  # of word cosines with context cosines, over pairs of words (Pearson)
    norm_correlation: float  # of their lengths, over words


def map_summary(word: np.ndarray, context: np.ndarray) -> MapSummary:
    """Summary of the map from word to context vectors.

    Parameters
    ----------
    word, context : array, shape (V, D), V at least D

    Source
    ------
    The reflections paper, section 3.2, Lemma 3 and Figure 3.
    """
    tables = check_pair(word, context, 2, ("word", "context"))
    word, context = (table.astype(float) for table in tables)
    V, D = word.shape
    if V < D:
        raise ValueError(f"{V} words in {D} dimensions: as many words as dimensions are needed for a map")
    Q = np.linalg.pinv(word) @ context
    squared = Q @ Q
    diagonal, off = np.diag(squared), squared[~np.eye(D, dtype=bool)]
    i, j = np.random.default_rng(0).integers(V, size=(2, N_PAIRS))
    i, j = i[i != j], j[i != j]
    lengths = np.linalg.norm(word, axis=1), np.linalg.norm(context, axis=1)
    alike = cosines(word[i], word[j]), cosines(context[i], context[j])
    if any(np.ptp(values) == 0 for values in (*lengths, *alike)) or not np.isfinite(squared).all():
        raise ValueError("all vectors have one length, or one direction: no correlation is defined")
    values = np.linalg.eigvals(Q)
    return MapSummary(
        float(diagonal.mean()),
        float(off.std() / abs(diagonal.mean())) if D > 1 else 0.0,
        float((values.real < 0).mean()),
        float(((values.real < 0) & (np.abs(values.imag) < NEARLY_REAL * np.abs(values.real))).mean()),
        float(np.corrcoef(*alike)[0, 1]),
        float(np.corrcoef(*lengths)[0, 1]),
    )


def reflection_test(vectors: WordVectors) -> pd.DataFrame:
    """Are the context vectors reflected word vectors? The map between them, beside three controls.

    Parameters
    ----------
    vectors : WordVectors
        With context vectors.

    Returns
    -------
    DataFrame
        One row per kind (KINDS: the vectors, their contexts in a random order, the word vectors under a
        random rotation, and random vectors), a column a number of :class:`MapSummary`.

    >>> rng = np.random.default_rng(0)
    >>> word = rng.standard_normal((50, 4)).astype(np.float32)
    >>> signs = np.array([1, 1, -1, -1], dtype=np.float32)
    >>> table = reflection_test(WordVectors([str(i) for i in range(50)], word, word * signs))
    >>> table.loc["word and context", ["diagonal", "reflected_share"]].round(3).tolist()
    [1.0, 0.5]
    """
    rng = np.random.default_rng(0)
    if vectors.context is None:
        raise ValueError(
            "there are no context vectors (a tied model has one table for both): there is no map between "
            "them and the word vectors to test"
        )
    word, context = vectors.word, vectors.context
    rotation, _ = np.linalg.qr(rng.standard_normal((word.shape[1],) * 2))
    tables = {
        TRAINED: (word, context),
        OTHER_ROWS: (word, rng.permutation(context)),
        ROTATION: (word, word @ rotation),
        NOISE: (rng.standard_normal(word.shape), rng.standard_normal(word.shape)),
    }
    rows = [asdict(map_summary(*pair)) for pair in tables.values()]
    return pd.DataFrame(rows, index=pd.Index(KINDS, name="kind"))
