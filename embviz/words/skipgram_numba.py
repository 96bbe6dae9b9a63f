"""Compiled kernels of skip-gram training: drawing pairs and negatives, and stochastic gradient steps.

The text is read block by block. :func:`draw_pairs` and :func:`draw_negatives` write a block's training
examples into plain arrays; :func:`train_pairs` steps through them.

Why it is fast: with batches of one pair a step is one function, whose own arrays the compiler knows to
overlap no table (:func:`train_each`). In larger batches pairs come centre by centre, so that 16 pairs
hold only about four distinct centres: the gradient at the shared negatives is computed once a centre and
weighted by its number of pairs, which is the batch's exact gradient at a quarter of the work. And the
rows of the next batch's negatives are asked for ahead, since they lie anywhere in a table larger than the
caches.

Tables are padded with zero columns to a multiple of 16 floats (whole cache lines, no loop remainders);
zero columns stay zero under every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from embviz.compiling import njit, prefetch

PADDING = 16  # floats in a cache line of 64 bytes
HOLE = -1  # a place in the text with no word

# A learned Q is moved by every pair, a word's row by few: at the rate of the rows Q overflows within an
# epoch of the reference setting.
TRANSFORM_SHARE = 0.005

# sums may be reordered into lanes, but NaN and infinity keep their meaning, so that the guard sees them
FAST = {"reassoc", "contract", "nsz", "arcp"}


@dataclass
class Tables:
    """The weights; `context` is `word` itself in a tied model, `bias` and `transform` may be empty."""

    word: np.ndarray  # (V, D)
    context: np.ndarray  # (V, D)
    bias: np.ndarray  # (V,) or (0,)
    signature: np.ndarray  # (D,), ones unless tied by signs
    transform: np.ndarray  # (D, D) or (0, 0)


def padded(table: np.ndarray) -> np.ndarray:
    """Copy of a (rows, D) table as float32 with zero columns up to a multiple of :data:`PADDING`."""
    n_rows, n_columns = table.shape
    result = np.zeros((n_rows, -(-n_columns // PADDING) * PADDING), dtype=np.float32)
    result[:, :n_columns] = table
    return result


# --- drawing ----------------------------------------------------------------------------------------


@njit(nogil=True)
def next_random(state: np.ndarray) -> np.uint64:
    """Next 64 random bits of a SplitMix64 stream; `state` is its (1,) uint64 array."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True)
def random_below(state: np.ndarray, n: int) -> np.int64:
    """Random integer in 0..n-1 from the upper 32 random bits (bias below n / 2^32)."""
    return np.int64(((next_random(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit()
def alias_table(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias table of a distribution over V words: a threshold in 32 bits and an alias a word."""
    n = probabilities.size
    scaled = probabilities * (n / probabilities.sum())
    threshold = np.empty(n, dtype=np.uint64)
    alias = np.arange(n).astype(np.int32)
    poor, rich = np.flatnonzero(scaled < 1.0), np.flatnonzero(scaled >= 1.0)
    n_poor, n_rich = poor.size, rich.size
    stack = np.empty(n, dtype=np.int64)
    stack[:n_poor] = poor
    # a word below the average is filled up from one above it: each column then holds two words at most,
    # so that a draw costs one random number, however large the vocabulary
    while n_poor > 0 and n_rich > 0:
        n_poor -= 1
        low, high = stack[n_poor], rich[n_rich - 1]
        alias[low] = high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            n_rich -= 1
            stack[n_poor] = high
            n_poor += 1
    for word in range(
        n
    ):  # what is left on either stack differs from 1 by rounding only, and is its own alias
        share = min(max(scaled[word], 0.0), 1.0) if alias[word] != word else 1.0
        threshold[word] = np.uint64(share * 4294967296.0)
    return threshold, alias


@njit(nogil=True)
def draw_word(threshold: np.ndarray, alias: np.ndarray, state: np.ndarray) -> np.int32:
    """One word from an alias table: the upper bits choose the column, the lower ones its side."""
    bits = next_random(state)
    column = ((bits >> np.uint64(32)) * np.uint64(threshold.size)) >> np.uint64(32)
    if (bits & np.uint64(0xFFFFFFFF)) < threshold[column]:
        return np.int32(column)
    return alias[column]


@njit(nogil=True)
def keep_words(
    ids: np.ndarray,
    document_starts: np.ndarray,
    keep: np.ndarray,
    window: int,
    state: np.ndarray,
    kept: np.ndarray,
) -> int:
    """Write the subsampled words of a block `ids` to `kept`; return how many places it fills.

    `keep` (V,) is the probability that a word stays. Ids from V up are holes and keep their place. Each
    of `document_starts` (places in the block) writes `window` holes, over which no window reaches.
    """
    document, n_kept = 0, 0
    for place in range(ids.size):
        if document < document_starts.size and document_starts[document] == place:
            document += 1
            kept[n_kept : n_kept + window] = HOLE
            n_kept += window
        word = ids[place]
        if word >= keep.size:
            kept[n_kept] = HOLE
            n_kept += 1
        elif keep[word] >= 1.0 or (next_random(state) >> np.uint64(11)) * 2.0**-53 < keep[word]:
            kept[n_kept] = word
            n_kept += 1
    return n_kept


@njit(nogil=True)
def draw_pairs(
    kept: np.ndarray, n_kept: int, window: int, state: np.ndarray, centers: np.ndarray, targets: np.ndarray
) -> int:
    """Write the (centre, target) pairs of a block, centre by centre; return their number.

    Each centre draws its own reach from 1..window, as word2vec does.
    """
    n_pairs = 0
    for place in range(n_kept):
        if kept[place] == HOLE:
            continue
        reach = 1 + random_below(state, window)
        for other in range(max(0, place - reach), min(n_kept, place + reach + 1)):
            if other != place and kept[other] != HOLE:
                centers[n_pairs] = kept[place]
                targets[n_pairs] = kept[other]
                n_pairs += 1
    return n_pairs


@njit(nogil=True)
def draw_negatives(
    threshold: np.ndarray,
    alias: np.ndarray,
    targets: np.ndarray,
    unique: bool,
    state: np.ndarray,
    stamps: np.ndarray,
    negatives: np.ndarray,
) -> None:
    """Fill `negatives` (batches, K) from an alias table; `targets` are (batches, B), unused places HOLE.

    With `unique` a batch's negatives differ from each other and may hit its targets (the reference
    code of the reflections paper); otherwise they are independent, and a draw that hits a target is
    drawn again. `stamps` (V + 1,) int64 remembers the last batch that drew a word; its last entry counts
    batches.
    """
    for batch in range(negatives.shape[0]):
        stamps[-1] += 1
        for i in range(negatives.shape[1]):
            word = draw_word(threshold, alias, state)
            if unique:
                while stamps[word] == stamps[-1]:
                    word = draw_word(threshold, alias, state)
                stamps[word] = stamps[-1]
            else:
                while _among(word, targets, batch):
                    word = draw_word(threshold, alias, state)
            negatives[batch, i] = word


@njit(nogil=True)
def _among(word: np.int32, targets: np.ndarray, batch: int) -> bool:
    found = False  # np.any makes an array at each call, which took two thirds of the drawing
    for i in range(targets.shape[1]):
        found |= targets[batch, i] == word
    return found


# --- rows -------------------------------------------------------------------------------------------


@njit(nogil=True)
def prefetch_rows(table: np.ndarray, rows: np.ndarray) -> None:
    """Ask for whole rows of a table, a cache line at a time."""
    for i in range(rows.size):
        for k in range(0, table.shape[1], PADDING):
            prefetch(table, (np.int64(rows[i]), np.int64(k)))


@njit(nogil=True, fastmath=FAST)
def dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    """Inner product of two rows."""
    total = np.float32(0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@njit(nogil=True, fastmath=FAST)
def add_scaled(a: np.ndarray, factor: float, b: np.ndarray) -> None:
    """``a += factor * b`` on rows."""
    for k in range(a.size):
        a[k] += factor * b[k]


# --- one gradient step ------------------------------------------------------------------------------


@njit(nogil=True, fastmath=FAST, inline="always")
def sigmoid(x: float) -> np.float32:
    """Logistic function in float32, absolute error below 5e-7 (arguments beyond +-30 count as +-30).

    exp(-x) is a Taylor polynomial at x/16, squared four times: plain products, which run in lanes.
    """
    t = min(max(x, np.float32(-30)), np.float32(30)) * np.float32(-1 / 16)
    e = t * np.float32(1 / 5040) + np.float32(1 / 720)
    e = e * t + np.float32(1 / 120)
    e = e * t + np.float32(1 / 24)
    e = e * t + np.float32(1 / 6)
    e = e * t + np.float32(1 / 2)
    e = e * t + np.float32(1)
    e = e * t + np.float32(1)
    e *= e
    e *= e
    e *= e
    e *= e
    return np.float32(1) / (np.float32(1) + e)


@njit(nogil=True, fastmath=FAST)
def four_centres_logits(
    rows: np.ndarray, first: int, context: np.ndarray, negatives: np.ndarray, logits: np.ndarray
) -> None:
    """Inner products of four centres' rows with every negative; each negative is read once."""
    r0, r1, r2, r3 = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
    for i in range(negatives.size):
        x = context[negatives[i]]
        a0 = a1 = a2 = a3 = np.float32(0)
        for k in range(x.size):
            a0 += x[k] * r0[k]
            a1 += x[k] * r1[k]
            a2 += x[k] * r2[k]
            a3 += x[k] * r3[k]
        logits[first, i], logits[first + 1, i] = a0, a1
        logits[first + 2, i], logits[first + 3, i] = a2, a3


@njit(nogil=True)
def negative_logits(
    reflected: np.ndarray, n_runs: int, context: np.ndarray, negatives: np.ndarray, logits: np.ndarray
) -> None:
    """Inner products of a batch's centres with its negatives, into the first rows of `logits`."""
    if n_runs == 1:
        for i in range(negatives.size):
            logits[0, i] = dot(reflected[0], context[negatives[i]])
        return
    for first in range(0, n_runs, 4):
        four_centres_logits(reflected, first, context, negatives, logits)
    logits[n_runs:] = np.float32(0)  # rows that only fill up the last four


@njit(nogil=True, fastmath=FAST)
def add_negative_rows(
    sums: np.ndarray, n_runs: int, context: np.ndarray, negatives: np.ndarray, factors: np.ndarray
) -> None:
    """``sums[u] += factors[u, i] * context[negatives[i]]`` over all i, four negatives a pass."""
    whole = negatives.size - negatives.size % 4
    for i in range(0, whole, 4):
        x0, x1 = context[negatives[i]], context[negatives[i + 1]]
        x2, x3 = context[negatives[i + 2]], context[negatives[i + 3]]
        for u in range(n_runs):
            row, f = sums[u], factors[u]
            f0, f1, f2, f3 = f[i], f[i + 1], f[i + 2], f[i + 3]
            for k in range(row.size):
                row[k] += f0 * x0[k] + f1 * x1[k] + f2 * x2[k] + f3 * x3[k]
    for i in range(whole, negatives.size):
        for u in range(n_runs):
            add_scaled(sums[u], factors[u, i], context[negatives[i]])


@njit(nogil=True, fastmath=FAST)
def move_negatives(
    rows: np.ndarray, first: int, context: np.ndarray, negatives: np.ndarray, factors: np.ndarray
) -> None:
    """``context[negatives[i]] += factors[u, i] * rows[u]`` summed over four centres u."""
    r0, r1, r2, r3 = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
    for i in range(negatives.size):
        x = context[negatives[i]]
        f0, f1 = factors[first, i], factors[first + 1, i]
        f2, f3 = factors[first + 2, i], factors[first + 3, i]
        for k in range(x.size):
            x[k] += f0 * r0[k] + f1 * r1[k] + f2 * r2[k] + f3 * r3[k]


@njit(nogil=True, fastmath=FAST)
def reflect(
    vectors: np.ndarray, n_runs: int, signature: np.ndarray, transform: np.ndarray, reflected: np.ndarray
) -> None:
    """Bring centres into the frame in which a context is a row of the context table.

    ``w_i . (q * w_j) = (q * w_i) . w_j`` for a signature q, and ``w_i . (Q w_j) = (Q' w_i) . w_j`` for a
    learned Q, given as `transform` (D, D) or an empty array.
    """
    for u in range(n_runs):
        if transform.size == 0:
            for k in range(signature.size):
                reflected[u, k] = signature[k] * vectors[u, k]
        else:
            reflected[u] = np.float32(0)
            for a in range(signature.size):
                add_scaled(reflected[u], vectors[u, a], transform[a])


@njit(nogil=True, fastmath=FAST)
def move_centers(
    word: np.ndarray,
    run_words: np.ndarray,
    n_runs: int,
    vectors: np.ndarray,
    sums: np.ndarray,
    signature: np.ndarray,
    transform: np.ndarray,
) -> None:
    """Step the centres' own vectors, and Q when it is learned; `sums` are in the reflected frame."""
    for u in range(n_runs):
        row = word[run_words[u]]
        if transform.size == 0:
            for k in range(signature.size):
                row[k] += signature[k] * sums[u, k]
        else:
            for a in range(signature.size):
                row[a] += dot(transform[a], sums[u])
    if transform.size:  # after every centre has used the old Q
        for a in range(signature.size):
            for u in range(n_runs):
                add_scaled(transform[a], np.float32(TRANSFORM_SHARE) * vectors[u, a], sums[u])


@njit(nogil=True)
def find_runs(
    centers: np.ndarray, run_words: np.ndarray, run_sizes: np.ndarray, run_of_pair: np.ndarray
) -> int:
    """Gather a batch's pairs by centre, neighbours only; return the number of runs."""
    n_runs = 0
    for pair in range(centers.size):
        if n_runs == 0 or run_words[n_runs - 1] != centers[pair]:
            run_words[n_runs] = centers[pair]
            run_sizes[n_runs] = 0
            n_runs += 1
        run_sizes[n_runs - 1] += 1
        run_of_pair[pair] = n_runs - 1
    return n_runs


@njit(nogil=True, fastmath=FAST)
def positive_terms(
    reflected: np.ndarray,
    context: np.ndarray,
    bias: np.ndarray,
    targets: np.ndarray,
    run_of_pair: np.ndarray,
    rate: float,
    factors: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Step sizes of a batch's true pairs into `factors`, their pull on the centres into `sums`."""
    for pair in range(targets.size):
        u, target = run_of_pair[pair], targets[pair]
        logit = dot(reflected[u], context[target])
        if bias.size:
            logit += bias[target]
        factors[pair] = rate * (np.float32(1) - sigmoid(logit))
        add_scaled(sums[u], factors[pair], context[target])


@njit(nogil=True, fastmath=FAST)
def negative_factors(
    logits: np.ndarray,
    n_runs: int,
    run_sizes: np.ndarray,
    bias: np.ndarray,
    negatives: np.ndarray,
    rate: float,
) -> None:
    """Turn logits (runs, K) in place into step sizes, a run weighing as many pairs as it holds."""
    for u in range(n_runs):
        row, weight = logits[u], np.float32(-rate * run_sizes[u])
        if bias.size:
            for i in range(negatives.size):
                row[i] += bias[negatives[i]]
        for i in range(row.size):
            row[i] = weight * sigmoid(row[i])


@njit(nogil=True, fastmath=FAST)
def move_context(
    reflected: np.ndarray,
    n_runs: int,
    context: np.ndarray,
    bias: np.ndarray,
    targets: np.ndarray,
    run_of_pair: np.ndarray,
    pulls: np.ndarray,
    negatives: np.ndarray,
    pushes: np.ndarray,
) -> None:
    """Step the context rows (and biases) of a batch's negatives and targets."""
    if n_runs == 1:
        for i in range(negatives.size):
            add_scaled(context[negatives[i]], pushes[0, i], reflected[0])
    else:
        for first in range(0, n_runs, 4):
            move_negatives(reflected, first, context, negatives, pushes)
    for pair in range(targets.size):
        add_scaled(context[targets[pair]], pulls[pair], reflected[run_of_pair[pair]])
    if bias.size:
        for u in range(n_runs):
            for i in range(negatives.size):
                bias[negatives[i]] += pushes[u, i]
        for pair in range(targets.size):
            bias[targets[pair]] += pulls[pair]


@njit(nogil=True, fastmath=FAST)
def train_each(
    word: np.ndarray,
    context: np.ndarray,
    bias: np.ndarray,
    signature: np.ndarray,
    centers: np.ndarray,
    targets: np.ndarray,
    negatives: np.ndarray,
    rate: np.float32,
) -> None:
    """:func:`train_pairs` with batches of one pair and no Q, to the bit, in half the time.

    All in one function: its own arrays overlap no table, which the compiler knows here and nowhere else.
    """
    D, K = word.shape[1], negatives.shape[1]
    reflected, total = np.zeros(D, dtype=np.float32), np.zeros(D, dtype=np.float32)
    pushes = np.zeros(K, dtype=np.float32)
    by_fours = K - K % 4
    for pair in range(centers.size):
        prefetch_rows(context, negatives[min(pair + 1, centers.size - 1)])
        center, target = np.uint64(centers[pair]), np.uint64(targets[pair])
        for k in range(D):
            reflected[k] = signature[k] * word[center, k]
        logit = _row_dot(context, target, reflected)
        if bias.size:
            logit += bias[target]
        missing = np.float32(1) - sigmoid(logit)
        pull = rate * missing
        for k in range(D):
            total[k] = pull * context[target, k]
        for i in range(K):
            pushes[i] = _row_dot(context, np.uint64(negatives[pair, i]), reflected)
            if bias.size:
                pushes[i] += bias[negatives[pair, i]]
        for i in range(K):
            pushes[i] = -rate * sigmoid(pushes[i])
        for i in range(0, by_fours, 4):
            x0, x1 = np.uint64(negatives[pair, i]), np.uint64(negatives[pair, i + 1])
            x2, x3 = np.uint64(negatives[pair, i + 2]), np.uint64(negatives[pair, i + 3])
            f0, f1, f2, f3 = pushes[i], pushes[i + 1], pushes[i + 2], pushes[i + 3]
            for k in range(D):
                total[k] += (
                    f0 * context[x0, k] + f1 * context[x1, k] + f2 * context[x2, k] + f3 * context[x3, k]
                )
        for i in range(by_fours, K):
            x0, f0 = np.uint64(negatives[pair, i]), pushes[i]
            for k in range(D):
                total[k] += f0 * context[x0, k]
        for i in range(K):
            x0, f0 = np.uint64(negatives[pair, i]), pushes[i]
            for k in range(D):
                context[x0, k] += f0 * reflected[k]
            if bias.size:
                bias[x0] += f0
        for k in range(D):
            context[target, k] += pull * reflected[k]
        if bias.size:
            bias[target] += pull
        for k in range(D):
            word[center, k] += signature[k] * total[k]


@njit(nogil=True, fastmath=FAST)
def _row_dot(table: np.ndarray, row: np.uint64, vector: np.ndarray) -> np.float32:
    total = np.float32(0)
    for k in range(vector.size):
        total += vector[k] * table[row, k]
    return total


@njit(nogil=True)
def train_pairs(
    word: np.ndarray,
    context: np.ndarray,
    bias: np.ndarray,
    signature: np.ndarray,
    transform: np.ndarray,
    centers: np.ndarray,
    targets: np.ndarray,
    negatives: np.ndarray,
    batch_size: int,
    rate: float,
) -> None:
    """Stochastic gradient steps over a block's pairs, in place.

    Every gradient of a batch is taken at the weights before it; only then is anything moved. D is padded.
    `word` and `context` (V, D) are one array when the vectors are tied, `bias` (V,) and `transform` (D, D),
    which moves at :data:`TRANSFORM_SHARE` of the rate, may be empty, and `signature` (D,) is the diagonal q
    of tied contexts, or ones. `centers` and `targets` (pairs,) come in batches, the last one perhaps
    shorter, whose pairs share the noise words of a row of `negatives` (batches, K). `rate` is the step size
    of one pair's loss: the learning rate over the batch size.
    """
    if batch_size == 1 and transform.size == 0:
        train_each(word, context, bias, signature, centers, targets, negatives, np.float32(rate))
        return
    n_rows = batch_size + 3  # centres are handled by fours
    vectors = np.zeros((n_rows, word.shape[1]), dtype=np.float32)
    reflected, sums = np.zeros_like(vectors), np.zeros_like(vectors)
    pushes = np.zeros((n_rows, negatives.shape[1]), dtype=np.float32)
    pulls = np.zeros(batch_size, dtype=np.float32)
    run_words, run_of_pair = np.zeros(n_rows, dtype=np.int64), np.zeros(batch_size, dtype=np.int64)
    run_sizes = np.zeros(n_rows, dtype=np.int64)
    rate = np.float32(rate)
    for batch in range(negatives.shape[0]):
        pairs = slice(batch * batch_size, min((batch + 1) * batch_size, centers.size))
        prefetch_rows(context, negatives[min(batch + 1, negatives.shape[0] - 1)])
        n_runs = find_runs(centers[pairs], run_words, run_sizes, run_of_pair)
        for u in range(n_runs):
            vectors[u] = word[run_words[u]]
        sums[:n_runs] = np.float32(0)
        reflect(vectors, n_runs, signature, transform, reflected)
        positive_terms(reflected, context, bias, targets[pairs], run_of_pair, rate, pulls, sums)
        negative_logits(reflected, n_runs, context, negatives[batch], pushes)
        negative_factors(pushes, n_runs, run_sizes, bias, negatives[batch], rate)
        add_negative_rows(sums, n_runs, context, negatives[batch], pushes)
        move_context(
            reflected, n_runs, context, bias, targets[pairs], run_of_pair, pulls, negatives[batch], pushes
        )
        move_centers(word, run_words, n_runs, vectors, sums, signature, transform)


class NumbaSteps:
    """Steps compiled for this processor."""

    def __init__(self, tables: Tables, batch_size: int) -> None:
        self.batch_size, self.embedding_dim = batch_size, tables.word.shape[1]
        self.word = padded(tables.word)
        self.context = self.word if tables.context is tables.word else padded(tables.context)
        self.bias = tables.bias
        self.signature = padded(tables.signature[None])[0]
        self.transform = padded(padded(tables.transform).T).T.copy()

    def train(self, centers: np.ndarray, targets: np.ndarray, negatives: np.ndarray, rate: float) -> None:
        """Step through a block's pairs, batch by batch."""
        train_pairs(
            self.word, self.context, self.bias, self.signature, self.transform,
            centers, targets, negatives, self.batch_size, rate,
        )  # fmt: skip

    def tables(self) -> Tables:
        """The present weights, without the padding; a copy."""
        D = self.embedding_dim
        word = self.word[:, :D].copy()
        context = word if self.context is self.word else self.context[:, :D].copy()
        transform = self.transform[:D, :D].copy()
        return Tables(word, context, self.bias.copy(), self.signature[:D].copy(), transform)
