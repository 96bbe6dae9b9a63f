"""Do trained vectors meet what the theory assumes? Isotropy, an orthogonal map that fits, a constant Z.

Source: Assylbekov & Takhanov (2019), Assumptions 1 to 3; the cone is that of Mimno & Thompson (2017).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from embviz import metrics
from embviz.words.wordvectors import WordVectors, chosen_rows

N_FREQUENT = 200  # most frequent words that are looked at alone
N_PAIRS = 20_000  # of words whose cosines are compared
NOISE_POWER = 0.75  # noise words come with probability count^0.75
THEORY = {
    "mean cosine of two word vectors": 0.0,
    "mean cosine of two context vectors": 0.0,
    "mean cosine of a word vector and the mean word vector": 0.0,
    "mean cosine of a context vector and the mean word vector": 0.0,
    "smallest singular value of Q": 1.0,
    "median singular value of Q": 1.0,
    "largest singular value of Q": 1.0,
    "share of C's squared norm in WQ": 1.0,
    "the same with C in random order": 0.0,
    "standard deviation of ln Z": 0.0,
    "Pearson correlation of cosines": 1.0,
    "Spearman correlation of cosines": 1.0,
}


def assumption_statistics(vectors: WordVectors, counts: np.ndarray, *, seed: int = 0) -> pd.DataFrame:
    """What the theory assumes of word and context vectors, measured.

    Parameters
    ----------
    vectors : WordVectors
        With context vectors, shape (V, D), the most frequent word first.
    counts : array, (V,)
        Occurrences of each word.
    seed : int
        Of the pairs of words and of the random order.

    Returns
    -------
    DataFrame
        A row per quantity of THEORY; columns "theory", "frequent words" (the 200 most frequent) and "all
        words". The map Q is the least-squares solution of C = W Q over all words. Z of a word sums
        exp(w'c + b), the contexts weighted as noise words are drawn.
    """
    rng = np.random.default_rng(seed)
    w, c = vectors.word.astype(float), chosen_rows(vectors, "context").astype(float)
    inverse, mixed = np.linalg.pinv(w), rng.permutation(c)
    q = inverse @ c
    values = np.linalg.svd(q, compute_uv=False)
    logits = w @ c.T + (0.0 if vectors.bias is None else vectors.bias)
    log_z = np.log(np.exp(logits) @ (counts**NOISE_POWER / (counts**NOISE_POWER).sum()))
    axis = np.broadcast_to(w.mean(axis=0), w.shape)
    found: dict[str, list[float]] = {}
    for name, n in {"frequent words": min(N_FREQUENT, len(w)), "all words": len(w)}.items():
        i, j = rng.integers(n, size=(2, N_PAIRS))
        i, j = i[i != j], j[i != j]
        words, contexts = metrics.cosines(w[i], w[j]), metrics.cosines(c[i], c[j])
        numbers = [
            words.mean(),
            contexts.mean(),
            *(metrics.cosines(x[:n], axis[:n]).mean() for x in (w, c)),
            *(values[-1], np.median(values), values[0]),
            _share(c[:n], w[:n] @ q),
            _share(mixed[:n], w[:n] @ (inverse @ mixed)),
            log_z[:n].std(),
            np.corrcoef(words, contexts)[0, 1],
            np.corrcoef(stats.rankdata(words), stats.rankdata(contexts))[0, 1],
        ]
        found[name] = [float(x) for x in numbers]
    return pd.DataFrame({"theory": list(THEORY.values()), **found}, index=pd.Index(THEORY, name="quantity"))


def _share(c: np.ndarray, fitted: np.ndarray) -> float:
    """Share of the squared norm of c that a fit explains."""
    return float(1 - ((c - fitted) ** 2).sum() / (c**2).sum())
