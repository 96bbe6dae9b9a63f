"""Skip-gram with negative sampling: free contexts, or contexts tied to the word vectors.

For a pair of a centre word i and a word j of its window the loss is

    -log sigmoid(w_i . c_j) - sum over K noise words n of log sigmoid(-w_i . c_n)

with c free, or c = q * w for a signature q of signs, or c = Q w for a learned matrix Q.

Source: Mikolov et al. (2013), eq. 4; the tied models: the reflections paper, section 4, eq. 38.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from embviz.arrays import check_array, check_ids, check_int, check_number, check_starts
from embviz.words import skipgram_numba as kernels
from embviz.words.cooccurrence import keep_probability
from embviz.words.skipgram_numba import NumbaSteps, Tables
from embviz.words.wordvectors import WordVectors

BLOCK = 10_000  # words of text handled at once; windows do not reach over its ends
RAREST_NOISE = 1e-7  # share of the draws; a batch of distinct noise words waits for the last of them
SIGNATURES = ("free", "half", "random", "ones", "learned")

State = Mapping[str, Any]  # arrays by name: a training between two blocks of its text


@dataclass(frozen=True)
class SGNSSchedule:
    """How the steps follow each other: plain stochastic gradient descent with a linear decay."""

    n_epochs: int = 15
    batch_size: int = 16  # pairs whose gradient is taken at the same weights, with the same noise words
    learning_rate: float = 0.2  # on the mean loss of a batch
    decay: float = 1.0  # 1.2: the rate reaches its floor after 1/1.2 of the training
    floor: float = 1e-4  # share of the learning rate that stays
    progress: Literal["text", "kept"] = "text"  # counts all words read, or only those subsampling kept

    def rate(self, progress: float) -> float:
        """Learning rate when a share `progress` of the training is done."""
        return self.learning_rate * max(self.floor, 1.0 - self.decay * progress)


@dataclass(frozen=True)
class SGNSConfig:
    """A skip-gram model, its noise, its schedule and its seed.

    `signature` says what the contexts are: "free" (their own table), "half" (the first half of the signs
    +1), "random" (independent fair signs), a number in [0, 1] (that share of +1), "ones" (the word vectors
    themselves), or "learned" (Q w with a D x D matrix Q that is trained too, from a random rotation).
    """

    embedding_dim: int = 200
    window: int = 5  # words to each side; every centre draws its reach from 1..window
    n_negative: int = 100  # noise words a batch
    unique_negatives: bool = True  # False: independent draws, never one of the batch's own targets
    noise_power: float = 0.75  # noise words come with probability count^noise_power
    subsample: float = 1e-3  # share of the text above which a word is thinned out; 0 keeps every word
    signature: str | float = "free"
    bias: bool = False  # one number per context word, added to its inner products
    schedule: SGNSSchedule = field(default_factory=SGNSSchedule)
    seed: int = 0

    @classmethod
    def reference(cls, signature: str | float = "free", *, seed: int = 0) -> SGNSConfig:
        """The reflections paper's setting on text8 (section 4, footnote 11, and its released code).

        15 epochs of batches of 16 pairs that share 100 distinct noise words, rate 0.2 on the batch's mean
        loss. A tied model's rate decays 20% faster; the free model has output biases, as the word2vec
        tutorial of TensorFlow, which the authors took for it. Both codes move the decay by the words that
        subsampling kept over all words, so that the rate never reaches 0: ``progress="kept"``. To be
        trained on a corpus restricted with ``min_count=5, rare="unk"``.
        """
        free = signature == "free"
        schedule = SGNSSchedule(decay=1.0 if free else 1.2, progress="kept")
        return cls(signature=signature, bias=free, schedule=schedule, seed=seed)

    @classmethod
    def word2vec(cls, *, n_epochs: int = 5) -> SGNSConfig:
        """word2vec's and gensim's setting: 5 fresh noise words a pair, rate 0.025, a step a pair.

        To be trained on a corpus restricted with ``min_count=5, rare="drop"``.
        """
        schedule = SGNSSchedule(n_epochs=n_epochs, batch_size=1, learning_rate=0.025)
        return cls(n_negative=5, unique_negatives=False, schedule=schedule)


# --- the parts of a training ------------------------------------------------------------------------


def make_signature(signature: str | float, embedding_dim: int, rng: np.random.Generator) -> np.ndarray:
    """The signs q of a tied model as float32, shape (D,); ones for "free" and "learned"."""
    if signature == "random":
        return rng.choice(np.array([-1, 1], dtype=np.float32), size=embedding_dim)
    shares: dict[str | float, float] = {"free": 1.0, "learned": 1.0, "ones": 1.0, "half": 0.5}
    share = shares.get(signature, signature)
    if isinstance(share, str) or not 0 <= share <= 1:
        names = ", ".join(f'"{name}"' for name in SIGNATURES)
        raise ValueError(
            f"signature is {signature!r}; choose {names}, or the share of +1 as a number in 0..1"
        )
    n_positive = round(share * embedding_dim)
    return np.where(np.arange(embedding_dim) < n_positive, 1, -1).astype(np.float32)


def _make_tables(n_words: int, config: SGNSConfig, rng: np.random.Generator) -> Tables:
    """Words uniform in +-1/(2D), free contexts at zero, as in word2vec; a learned Q at a random rotation."""
    D = config.embedding_dim
    word = (rng.random((n_words, D), dtype=np.float32) - np.float32(0.5)) / np.float32(D)
    context = np.zeros_like(word) if config.signature == "free" else word
    transform = np.zeros((0, 0), dtype=np.float32)
    if config.signature == "learned":
        transform = np.linalg.qr(rng.standard_normal((D, D)))[0].astype(np.float32)
    bias = np.zeros(n_words if config.bias else 0, dtype=np.float32)
    return Tables(word, context, bias, make_signature(config.signature, D, rng), transform)


class Examples:
    """Draws the training examples of a stretch of text, block by block, from its own random stream."""

    def __init__(self, corpus: Any, config: SGNSConfig, first: int, last: int, stream: int) -> None:
        self.corpus = corpus = corpus if isinstance(corpus, _Text) else _check(corpus, config)
        self.config, self.last = config, check_int(last, "last", 0, len(corpus.ids))
        self.first = check_int(first, "first", 0, last)
        n_words = len(corpus.vocabulary)
        self.keep = (
            keep_probability(corpus.counts, config.subsample) if config.subsample else np.ones(n_words)
        )
        self.threshold, self.alias = kernels.alias_table(corpus.counts.astype(float) ** config.noise_power)
        self.state = np.array([stream], dtype=np.uint64)
        self.stamps = np.zeros(n_words + 1, dtype=np.int64)
        self.n_read = self.n_kept = 0  # places of the text handled so far, over all epochs
        self.between: Callable[[], None] | None = None  # called when a block is done
        size = min(BLOCK, last - first)
        self.kept = np.empty(size * (config.window + 1), dtype=np.int32)
        self.pairs = np.empty((2, size * 2 * config.window), dtype=np.int32)

    def progress(self) -> float:
        """Share of the training done, as the schedule counts it."""
        done = self.n_read if self.config.schedule.progress == "text" else self.n_kept
        return done / (self.config.schedule.n_epochs * (self.last - self.first))

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """An epoch, or what is left of it: centres (pairs,), targets (pairs,) and negatives (batches, K)
        of every block.
        """
        starts = self.corpus.document_starts
        done = self.n_read % max(1, self.last - self.first)
        for first in range(self.first + done, self.last, BLOCK):
            last = min(first + BLOCK, self.last)
            ids = self.corpus.ids[first:last].astype(np.int32)
            inside = starts[np.searchsorted(starts, first) : np.searchsorted(starts, last)] - first
            n_kept = kernels.keep_words(ids, inside, self.keep, self.config.window, self.state, self.kept)
            n_pairs = kernels.draw_pairs(
                self.kept, n_kept, self.config.window, self.state, self.pairs[0], self.pairs[1]
            )
            if n_pairs:
                centers, targets = self.pairs[:, :n_pairs]
                yield centers, targets, self._negatives(targets)
            self.n_read += last - first
            self.n_kept += int(np.count_nonzero(self.kept[:n_kept] != kernels.HOLE))
            if self.between is not None:
                self.between()

    def _negatives(self, targets: np.ndarray) -> np.ndarray:
        batch_size = self.config.schedule.batch_size
        batches = np.full((-(-targets.size // batch_size), batch_size), kernels.HOLE, dtype=np.int32)
        batches.reshape(-1)[: targets.size] = targets
        negatives = np.empty((len(batches), self.config.n_negative), dtype=np.int32)
        kernels.draw_negatives(
            self.threshold,
            self.alias,
            batches,
            self.config.unique_negatives,
            self.state,
            self.stamps,
            negatives,
        )
        return negatives


# --- training ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """A text that the compiled loops can read without looking at bounds."""

    ids: np.ndarray  # (N,) 0 to V, which is a hole
    vocabulary: list[str]
    counts: np.ndarray  # (V,) float64
    document_starts: np.ndarray  # int64, rising from 0


def _check(corpus: Any, config: SGNSConfig) -> _Text:
    """The text in a form that the compiled loops can read, once text and configuration fit each other."""
    vocabulary, schedule = list(corpus.vocabulary), config.schedule
    n_words = len(vocabulary)
    ids = check_ids(corpus.ids, n_words)
    if n_words < 2 or len(ids) < 2:
        raise ValueError(
            f"the corpus has {len(ids)} tokens of {n_words} words; skip-gram needs two words: "
            "take a longer text or a lower min_count"
        )
    counts = check_array(corpus.counts, "counts", 1, low=0, high=2**53)
    if len(counts) != n_words:
        raise ValueError(f"counts has {len(counts)} entries for {n_words} words: give each word one")
    check_int(config.window, "window", 1, len(ids))
    for name in ("n_epochs", "batch_size"):
        check_int(getattr(schedule, name), name, 1)
    check_int(config.embedding_dim, "embedding_dim", 1)
    check_int(config.n_negative, "n_negative", 1, n_words - 2)
    check_number(config.subsample, "subsample", 0)
    check_number(config.noise_power, "noise_power", 0, 10)
    for name in ("learning_rate", "decay"):
        check_number(getattr(schedule, name), name, 0)
    check_number(schedule.floor, "floor", 0, 1)
    if schedule.progress not in ("text", "kept"):
        raise ValueError(f'progress is {schedule.progress!r}: use "text" or "kept"')
    if not config.unique_negatives and schedule.batch_size > 1:
        raise ValueError(
            "independent noise words belong to one pair each: set batch_size=1, or unique_negatives=True"
        )
    # a draw waits for words that have not come yet: it would not end where they (almost) never come
    weights = counts**config.noise_power * (counts > 0)
    n_wanted = config.n_negative if config.unique_negatives else 2  # one may be the pair's own target
    if np.sort(weights)[-n_wanted] <= RAREST_NOISE * weights.sum():
        raise ValueError(
            f"counts and noise_power {config.noise_power} leave fewer than {n_wanted} noise words that come "
            "in ten million draws: lower n_negative or noise_power, or count again"
        )
    return _Text(ids, vocabulary, counts, check_starts(corpus.document_starts, len(ids)))


def _train_epoch(steps: NumbaSteps, examples: Examples) -> None:
    """One epoch over one stretch of the text, or what is left of it."""
    schedule = examples.config.schedule
    for centers, targets, negatives in examples.blocks():
        rate = schedule.rate(examples.progress())
        steps.train(centers, targets, negatives, rate / schedule.batch_size)


def _state(steps: NumbaSteps, examples: Examples) -> dict[str, np.ndarray]:
    """All that decides how one thread goes on: the weights, its random stream, how far it has read."""
    tables = steps.tables()
    stream = [int(examples.state.view(np.int64)[0]), examples.n_read, examples.n_kept]
    own_context = {} if tables.context is tables.word else {"context": tables.context}
    parts = {"word": tables.word, "bias": tables.bias, "transform": tables.transform, **own_context}
    return {**parts, "stream": np.array(stream, dtype=np.int64)}


def _restore(tables: Tables, examples: Examples, state: State) -> Tables:
    """The tables of a state, and its place in the text."""
    word = state["word"]
    found = Tables(
        word, state.get("context", word), state["bias"].copy(), tables.signature, state["transform"]
    )
    for name in ("word", "context", "bias", "transform"):
        if getattr(found, name).shape != getattr(tables, name).shape:
            raise ValueError(
                f"the state's {name} has shape {getattr(found, name).shape}, this model's "
                f"{getattr(tables, name).shape}: it belongs to another configuration or corpus"
            )
    random, examples.n_read, examples.n_kept = (int(number) for number in state["stream"])
    examples.state[:] = np.array([random], dtype=np.int64).view(np.uint64)
    return found


def _word_vectors(tables: Tables, vocabulary: list[str], config: SGNSConfig) -> WordVectors:
    signature, transform = None, None
    context = tables.context
    if config.signature == "learned":
        transform = tables.transform
        context = tables.word @ transform.T
    elif config.signature != "free":
        signature = tables.signature.astype(np.int8)
        context = tables.word * tables.signature
    bias = tables.bias if config.bias else None
    return WordVectors(vocabulary, tables.word, context, signature, transform, bias)


def train_sgns(
    corpus: Any,
    config: SGNSConfig,
    *,
    n_threads: int = 1,
    state: State | None = None,
    keep: Callable[[Callable[[], State]], None] | None = None,
) -> WordVectors:
    """Train skip-gram vectors with negative sampling.

    Parameters
    ----------
    corpus : Corpus, or what has its ids, vocabulary, counts and document_starts
        Holes keep their place in windows; windows stay inside documents.
    config : SGNSConfig
    n_threads : int
        1 gives the same bits in every run on a machine. More share the tables without locks (Hogwild): each
        reads its own stretch of the text, and runs differ as seeds do.
    state : mapping of str to array, optional
        To go on from, as `keep` was given it; one thread ends with the bits of an unbroken training.
    keep : callable, optional
        Called whenever a block of 10,000 places is done, with a function that returns the state then; what
        it raises ends the training. ``keep=lambda state: saved.update(state())`` keeps every one.

    Returns
    -------
    WordVectors
        Word and context vectors, (V, D) float32 each.

    Raises
    ------
    FloatingPointError
        If weights overflowed; the message names the epoch.

    Source
    ------
    Mikolov et al. (2013), section 2.2; the reflections paper, section 4.
    """
    text, schedule = _check(corpus, config), config.schedule
    check_int(n_threads, "n_threads", 1, len(text.ids))
    if n_threads > 1 and (state is not None or keep is not None):
        raise ValueError("several threads share the tables without locks and have no state: n_threads=1")
    init, *streams = np.random.SeedSequence(config.seed).spawn(1 + n_threads)
    tables = _make_tables(len(text.vocabulary), config, np.random.default_rng(init))
    bounds = np.linspace(0, len(text.ids), n_threads + 1).astype(int).tolist()
    first, *others = [
        Examples(text, config, start, end, int(stream.generate_state(1, np.uint64)[0]))
        for start, end, stream in zip(bounds[:-1], bounds[1:], streams, strict=True)
    ]
    if state is not None:
        tables = _restore(tables, first, state)
    steps = NumbaSteps(tables, schedule.batch_size)
    if keep is not None:
        first.between = lambda: keep(lambda: _state(steps, first))
    with ThreadPoolExecutor(n_threads) as pool:  # the kernels release the lock; threads share the tables
        for epoch in range(first.n_read // bounds[1] + 1, schedule.n_epochs + 1):
            running = [pool.submit(_train_epoch, steps, examples) for examples in others]
            _train_epoch(steps, first)  # in this thread, whose caller may end it
            for one in running:
                one.result()
            tables = steps.tables()
            parts = (tables.word, tables.context, tables.bias, tables.transform)
            if not all(np.isfinite(part).all() for part in parts):
                raise FloatingPointError(
                    f"the weights are no longer finite after epoch {epoch} of {schedule.n_epochs}: train "
                    f"again with a lower learning rate than {schedule.learning_rate}"
                )
    return _word_vectors(tables, text.vocabulary, config)
