"""Skip-gram training beside gensim in the same run, with equal scores; the analogy test at full size."""

import dataclasses
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from embviz.corpora.corpus import Corpus, load_corpus, load_word_test
from embviz.corpora.registry import DataMissingError
from embviz.words.skipgram import SGNSConfig, train_sgns
from embviz.words.wordtests import analogy_test, similarity_test
from embviz.words.wordvectors import WordVectors

gensim_models = pytest.importorskip("gensim.models")

N_THREADS = 2
N_ROUNDS = 5  # ours and gensim in turn
FULL = os.environ.get("EMBVIZ_BENCH") == "full"


@dataclass
class Beginning:
    """The first places of a text, with the vocabulary and the counts of all of it."""

    ids: np.ndarray
    vocabulary: list[str]
    counts: np.ndarray
    document_starts: np.ndarray
    text: str = ""

    @classmethod
    def of(cls, corpus: Corpus, n_places: int) -> "Beginning":
        """The first `n_places`, at most."""
        n_places = min(n_places, len(corpus.ids))
        starts = corpus.document_starts[corpus.document_starts < n_places]
        text = f"the first {n_places:,} words of {corpus.name}, {len(corpus.vocabulary):,} types in all of it"
        return cls(corpus.ids[:n_places], corpus.vocabulary, corpus.counts, starts, text)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Words with count >= 5 of the longest text that is at hand."""
    for name in ("enwiki2018", "text8_prefix", "embedded"):
        try:
            return load_corpus(name).restrict(min_count=5, rare="drop")
        except DataMissingError:
            continue
    pytest.skip("no text")


def gensim_model(corpus: Corpus | Beginning, config: SGNSConfig, n_workers: int):
    """gensim's model at our settings, its vocabulary built, not trained."""
    model = gensim_models.Word2Vec(
        vector_size=config.embedding_dim, window=config.window, sg=1, hs=0, negative=config.n_negative,
        sample=config.subsample, alpha=0.025, min_alpha=2.5e-6, min_count=1, workers=n_workers,
        epochs=config.schedule.n_epochs, seed=config.seed + 1,
    )  # fmt: skip
    words = np.array(corpus.vocabulary)
    sentences = [words[corpus.ids[i : i + 10_000]].tolist() for i in range(0, len(corpus.ids), 10_000)]
    model.build_vocab_from_freq(dict(zip(corpus.vocabulary, corpus.counts.tolist(), strict=True)))
    return model, sentences


def by_gensim(text: Beginning, config: SGNSConfig) -> tuple[float, WordVectors]:
    """Words a second, and the vectors."""
    model, sentences = gensim_model(text, config, N_THREADS)
    start = time.perf_counter()
    model.train(sentences, total_words=len(text.ids), epochs=config.schedule.n_epochs)
    seconds = time.perf_counter() - start
    vectors = WordVectors(model.wv.index_to_key, model.wv.vectors)
    return config.schedule.n_epochs * len(text.ids) / seconds, vectors


def by_us(text: Beginning, config: SGNSConfig) -> tuple[float, WordVectors]:
    start = time.perf_counter()
    vectors = train_sgns(text, config, n_threads=N_THREADS)
    return config.schedule.n_epochs * len(text.ids) / (time.perf_counter() - start), vectors


def compile_for(text: Beginning, config: SGNSConfig) -> None:
    """Before the clock starts."""
    starts = text.document_starts[text.document_starts < 2000]
    few = dataclasses.replace(text, ids=text.ids[:2000], document_starts=starts)
    train_sgns(few, config, n_threads=N_THREADS)


def similarities(vectors: WordVectors) -> list[float]:
    """WordSim and MEN."""
    return [similarity_test(vectors, load_word_test(name)).rho for name in ("wordsim353", "men")]


def assert_same_scores(ours: list[list[float]], theirs: list[list[float]]) -> None:
    n = len(ours)
    gap = np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0))
    # 3 standard errors of a difference of two means of n seeds, each spread taken as 0.01 at least
    spread = np.maximum(np.std([ours, theirs], axis=1, ddof=1).max(axis=0), 0.01)
    assert (gap < 3 * spread * (2 / n) ** 0.5).all(), f"ours {ours}, gensim's {theirs}"


def test_five_noise_words_a_pair(corpus, speed_table: Callable[..., None]):
    text = Beginning.of(corpus, 2_000_000)
    config = SGNSConfig.word2vec(n_epochs=1)
    compile_for(text, config)
    rounds, scores = [], []
    for seed in range(N_ROUNDS):
        runs = [train(text, replace(config, seed=seed)) for train in (by_us, by_gensim)]
        rounds.append([rate for rate, _ in runs])
        scores.append([similarities(vectors) for _, vectors in runs])
    assert_same_scores(*([of_round[i] for of_round in scores] for i in range(2)))
    ours, peer = np.median(rounds, axis=0).tolist()
    speed_table(
        job="SGNS, d = 200, window 5, 5 negatives, 2 threads", ours=ours, peer=peer, unit="words/s",
        bar="at least 1.6 times the peer", peer_name="gensim Word2Vec, 2 workers",
        text=text.text, rounds=rounds,
    )  # fmt: skip


def test_a_hundred_shared_noise_words(corpus, speed_table: Callable[..., None]):
    text = Beginning.of(corpus, 500_000 if FULL else 200_000)
    reference = SGNSConfig.reference()
    config = replace(reference, schedule=replace(reference.schedule, n_epochs=1))
    compile_for(text, config)
    ours, (peer, _) = by_us(text, config)[0], by_gensim(Beginning.of(corpus, 100_000), config)
    speed_table(
        job="SGNS, d = 200, window 5, 100 shared negatives, 2 threads", ours=ours, peer=peer, unit="words/s",
        bar="at least 10 times the peer", peer_name="gensim Word2Vec, 2 workers",
        text=text.text,
    )  # fmt: skip


def test_all_of_googles_analogies(benchmark, speed_table: Callable[..., None]):
    n_words, n_questions, n_asked = 70_000, 19_544, 905  # the sizes of the Google test and of text8
    rng = np.random.default_rng(0)
    names = [str(i) for i in range(n_words)]
    vectors = WordVectors(names, rng.standard_normal((n_words, 200), dtype=np.float32))
    four = rng.random((n_questions, n_asked), dtype=np.float32).argpartition(4, axis=1)[:, :4]  # each once
    asked = rng.choice(n_words, n_asked, replace=False)[four]
    questions = pd.DataFrame(asked.astype(str), columns=list("abcd"))
    benchmark.pedantic(lambda: analogy_test(vectors, questions, method="3cosmul"), rounds=1)
    speed_table(
        job="19,544 analogies by 3CosMul, V = 70,000, d = 200", ours=benchmark.stats.stats.min, peer=None,
        unit="s", bar="at most 30 s", peer_name="",
    )  # fmt: skip


@pytest.mark.skipif(not FULL, reason="EMBVIZ_BENCH=full trains 6 models on text8's beginning (half an hour)")
def test_scores_lie_within_gensims_interval():
    corpus = load_corpus("text8_prefix").restrict(min_count=5, rare="drop")
    ours, theirs = [], []
    for seed in range(3):
        config = replace(SGNSConfig.word2vec(n_epochs=10), seed=seed)
        ours.append(scores_of(train_sgns(corpus, config)))
        model, sentences = gensim_model(corpus, config, 1)
        model.train(sentences, total_words=len(corpus.ids), epochs=10)
        theirs.append(scores_of(WordVectors(model.wv.index_to_key, model.wv.vectors)))
    assert_same_scores(ours, theirs)


def scores_of(vectors: WordVectors) -> list[float]:
    """WordSim, MEN and Google by 3CosAdd."""
    return [*similarities(vectors), analogy_test(vectors, load_word_test("google_analogy")).accuracy]
