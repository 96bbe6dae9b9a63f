"""The rows of a vocabulary by kind of token: isotropy, under-trained tokens, twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse
from scipy.stats import binomtest, rankdata

from embviz.corpora.tokens import BYTE, SPECIAL, UNUSED, token_texts
from embviz.files.weights import StoredArray
from embviz.inspection.measures import Measured
from embviz.inspection.tables import TableMoments, blocks, inverse_lengths, nearest_rows
from embviz.metrics import normalize

LEAST_UNUSED = 20  # unused tokens that are needed: half of them give the direction, half test it
NEAR = 0.95  # share of the held-out unused tokens below the threshold
TWINS = {
    "leading space": lambda word: (f" {word}", word),
    "capital": lambda word: (f" {word}", f" {word.capitalize()}"),
    "plural": lambda word: (f" {word}", f" {word}s"),
}


def kinds_table(array: StoredArray, moments: TableMoments, kinds: list[str]) -> pd.DataFrame:
    """Isotropy and lengths of the rows of each kind of token; `kinds` has one for each row, (V,).

    Returns
    -------
    DataFrame, the most frequent kind first
        kind, tokens, length (mean), and the mean cosine of two rows of that kind, as they are and with the
        table's mean taken off (`mean_cosine`, `centred_mean_cosine`); NaN for a kind of one token.
    """
    names = sorted(set(kinds))
    place = np.array([names.index(kind) for kind in kinds])
    sums = np.zeros((2, len(names), array.shape[1]))
    counts = np.zeros((2, len(names)))
    mean = moments.mean.astype(np.float32)
    for block, rows in blocks(array):
        for which in range(2):
            if which:
                rows -= mean
            inverse = inverse_lengths(rows)
            member = scipy.sparse.csr_array(
                (inverse, (place[block], np.arange(len(block)))), shape=(len(names), len(block))
            )
            sums[which] += member @ rows
            counts[which] += np.bincount(place[block], inverse > 0, len(names))
    pairs = counts * (counts - 1)
    cosines = ((sums**2).sum(axis=2) - counts) / np.where(pairs > 0, pairs, np.nan)
    n_tokens = np.bincount(place, minlength=len(names))
    found = pd.DataFrame(
        {
            "kind": names,
            "tokens": n_tokens,
            "length": np.bincount(place, moments.lengths) / n_tokens,
            "mean_cosine": cosines[0],
            "centred_mean_cosine": cosines[1],
        }
    )
    return found.sort_values("tokens", ascending=False, ignore_index=True, kind="stable")


# --- under-trained tokens ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UndertrainedTokens:
    """Tokens whose rows are like the rows of tokens that were never used.

    A distance is the cosine distance from the mean row of half of the unused tokens, the first principal
    component taken off: the smaller, the more like an unused token.
    """

    distances: np.ndarray  # (V,)
    held_out: np.ndarray  # (V,) bool, the other half of the unused tokens
    in_use: np.ndarray  # (V,) bool, neither unused, bytes nor special, of rows that are not zero
    threshold: float  # distance below which 95% of the held-out unused tokens lie
    candidates: np.ndarray  # rows of tokens in use that are as near, the nearest first
    auc: Measured  # chance that a held-out unused token is nearer than a token in use; 0.5: nothing is told


def undertrained_tokens(
    array: StoredArray, moments: TableMoments, kinds: list[str], *, n_draws: int, seed: int
) -> UndertrainedTokens:
    """Find tokens that training has hardly touched.

    Parameters
    ----------
    array : StoredArray, shape (V, D)
        The output matrix; of a tied model, and of one without an output matrix, the input embedding.
    kinds : list of str, length V
        "unused" marks the tokens that are known to be unused, at least 20.
    n_draws : int
        Of the control, in which as many random tokens take the place of the held-out ones.

    Source
    ------
    Land and Bartolo (2024), Fishing for Magikarp, section 2.2: unused tokens of a model share a direction in
    the matrix of outputs; cosine distances are taken after the first principal component is removed. The
    halves are added here, so that the distances are tested on tokens that did not define them.
    """
    kind = np.array(kinds)
    unused = np.flatnonzero((kind == UNUSED) & (moments.lengths > 0))
    if len(unused) < LEAST_UNUSED:
        raise ValueError(f"{len(unused)} tokens are known to be unused: at least {LEAST_UNUSED} are needed")
    rng = np.random.default_rng(seed)
    mixed = rng.permutation(unused)
    given, tested = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
    last = array.shape[1] - 1
    # all rows share their first component, which would make any two of them alike
    top = scipy.linalg.eigh(moments.centred_gram, subset_by_index=(last, last))[1][:, 0]
    component = top.astype(np.float32)
    reference = array.read(np.sort(given)).sum(axis=0).astype(np.float64) / len(given)
    reference -= (reference @ component) * component
    reference = (reference / np.linalg.norm(reference)).astype(np.float32)
    distances = np.empty(len(kind), dtype=np.float32)
    for block, rows in blocks(array):
        along = rows @ component
        squared = np.einsum("ij,ij->i", rows, rows) - along**2  # length once the component is off
        cosines = (rows @ reference) / np.sqrt(np.maximum(squared, 1e-12))
        distances[block] = 1 - np.where(squared > 1e-12, cosines, 0)
    held_out = np.zeros(len(kind), dtype=bool)
    held_out[tested] = True
    in_use = np.flatnonzero(~np.isin(kind, [UNUSED, BYTE, SPECIAL]) & (moments.lengths > 0))
    threshold = float(np.quantile(distances[tested], NEAR))
    near = in_use[distances[in_use] <= threshold]
    n_drawn = min(len(tested), len(in_use))
    draws = (rng.choice(in_use, size=n_drawn, replace=False) for _ in range(n_draws))
    control = [_auc(distances[drawn], distances[in_use]) for drawn in draws]
    auc = Measured("unused tokens told apart", _auc(distances[tested], distances[in_use]), np.array(control))
    order = np.argsort(distances[near], kind="stable")
    used = np.zeros(len(kind), dtype=bool)
    used[in_use] = True
    return UndertrainedTokens(distances, held_out, used, threshold, near[order], auc)


def _auc(low: np.ndarray, high: np.ndarray) -> float:
    """Chance that a value of `low` is below one of `high`; ties count half."""
    ranks = rankdata(np.concatenate([low, high]))
    above = ranks[: len(low)].sum() - len(low) * (len(low) + 1) / 2
    return float(1 - above / (len(low) * len(high)))


# --- twins ------------------------------------------------------------------------------------------


def twin_pairs(tokens: list[str], *, most: int, seed: int) -> dict[str, np.ndarray]:
    """Rows of pairs of tokens that are one word but for a leading space, a capital, or a plural's s.

    A dict from sort to rows, (n, 2), at most `most` pairs of each; sorts without a pair are left out. Words
    are of at least three lower-case Latin letters.
    """
    row_of: dict[str, int] = {}
    for row, text in enumerate(token_texts(tokens)):
        row_of.setdefault(text, row)
    marked = any(text.startswith(" ") for text in row_of)
    words = [text.strip() for text in row_of if text.startswith(" ") or not marked]
    words = [word for word in words if len(word) > 2 and word.isascii() and word.isalpha() and word.islower()]
    rng = np.random.default_rng(seed)
    found = {}
    for sort, make in TWINS.items():
        texts = [make(word) for word in words]
        if not marked:
            texts = [(first.strip(), second.strip()) for first, second in texts]
        pairs = [
            (row_of[first], row_of[second])
            for first, second in texts
            if first != second and first in row_of and second in row_of
        ]
        if pairs:
            chosen = np.sort(rng.choice(len(pairs), size=min(most, len(pairs)), replace=False))
            found[sort] = np.array(pairs)[chosen]
    return found


def twin_measures(
    array: StoredArray, moments: TableMoments, pairs: dict[str, np.ndarray]
) -> tuple[list[Measured], pd.DataFrame]:
    """How often the two tokens of a pair are each other's nearest among all rows, by cosine.

    A share of the pairs of :func:`twin_pairs` has Wilson's 95% interval; its control is the chance for a
    random row, 1 / (V - 1). The table has sort, first, second (rows), cosine, mutual.
    """
    if not pairs:
        return [], pd.DataFrame(columns=["sort", "first", "second", "cosine", "mutual"])
    asked = np.unique(np.concatenate([each.ravel() for each in pairs.values()]))
    queries = array.read(asked)
    near = dict(
        zip(
            asked.tolist(), nearest_rows(array, queries, asked, moments.mean).rows[:, 0].tolist(), strict=True
        )
    )
    unit = normalize(queries)
    place = {row: i for i, row in enumerate(asked.tolist())}
    measures, rows = [], []
    for sort, each in pairs.items():
        mutual = [near[first] == second and near[second] == first for first, second in each.tolist()]
        interval = binomtest(sum(mutual), len(mutual)).proportion_ci(method="wilson")
        control = np.array([1 / (array.shape[0] - 1)])
        interval = (interval.low, interval.high)
        share = float(np.mean(mutual))
        measures.append(Measured(f"nearest twins, {sort}", share, control, interval, n_rows=len(mutual)))
        for (first, second), both in zip(each.tolist(), mutual, strict=True):
            cosine = float(unit[place[first]] @ unit[place[second]])
            rows.append({"sort": sort, "first": first, "second": second, "cosine": cosine, "mutual": both})
    return measures, pd.DataFrame(rows)
