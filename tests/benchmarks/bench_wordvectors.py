"""Skip-gram training beside gensim in the same run, with equal scores; the analogy test at full size."""

import os
import time
from collections.abc import Callable
from dataclasses import replace

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
FULL = os.environ.get("EMBVIZ_BENCH") == "full"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Words with count >= 5 of text8's beginning, or of the embedded corpus where that is not at hand."""
    try:
        whole = load_corpus("text8_prefix")
    except DataMissingError:
        whole = load_corpus("embedded")
    return whole.restrict(min_count=5, rare="drop")


def gensim_model(corpus: Corpus, config: SGNSConfig, n_workers: int):
    """gensim's model at our settings, its vocabulary built, not trained."""
    model = gensim_models.Word2Vec(
        vector_size=config.embedding_dim, window=config.window, sg=1, hs=0, negative=config.n_negative,
        sample=config.subsample, alpha=0.025, min_alpha=2.5e-6, min_count=1, workers=n_workers,
        epochs=config.schedule.n_epochs, seed=config.seed + 1,
    )  # fmt: skip
    words = np.array(corpus.vocabulary)
    sentences = [words[corpus.ids[i : i + 10_000]].tolist() for i in range(0, len(corpus.ids), 10_000)]
    model.build_vocab(sentences)
    return model, sentences


def gensim_words_per_second(corpus: Corpus, config: SGNSConfig) -> float:
    model, sentences = gensim_model(corpus, config, N_THREADS)
    start = time.perf_counter()
    model.train(sentences, total_examples=len(sentences), epochs=config.schedule.n_epochs)
    return config.schedule.n_epochs * len(corpus.ids) / (time.perf_counter() - start)


def words_per_second(benchmark, corpus: Corpus, config: SGNSConfig) -> float:
    # the kernels are compiled before the clock starts
    train_sgns(corpus.head(2000), replace(config, n_negative=5), n_threads=N_THREADS)
    benchmark.pedantic(lambda: train_sgns(corpus, config, n_threads=N_THREADS), rounds=1)
    return config.schedule.n_epochs * len(corpus.ids) / benchmark.stats.stats.min


def test_five_noise_words_a_pair(benchmark, corpus, speed_table: Callable[..., None]):
    text = corpus.head(2_000_000 if FULL else 500_000)
    config = SGNSConfig.word2vec(n_epochs=1)
    ours, peer = words_per_second(benchmark, text, config), gensim_words_per_second(text, config)
    speed_table(
        job="SGNS, d = 200, window 5, 5 negatives, 2 threads", ours=ours, peer=peer, unit="words/s",
        bar="at least gensim's with 2 workers", peer_name="gensim Word2Vec, 2 workers",
    )  # fmt: skip


def test_a_hundred_shared_noise_words(benchmark, corpus, speed_table: Callable[..., None]):
    text = corpus.head(500_000 if FULL else 200_000)
    reference = SGNSConfig.reference()
    config = replace(reference, schedule=replace(reference.schedule, n_epochs=1))
    ours = words_per_second(benchmark, text, config)
    peer = gensim_words_per_second(corpus.head(100_000), config)
    speed_table(
        job="SGNS, d = 200, window 5, 100 shared negatives, 2 threads", ours=ours, peer=peer, unit="words/s",
        bar="at least 5 times gensim's at 100 negatives", peer_name="gensim Word2Vec, 2 workers",
    )  # fmt: skip


def test_all_of_googles_analogies(benchmark, speed_table: Callable[..., None]):
    n_words, n_questions, n_asked = 70_000, 19_544, 905  # the sizes of the Google test and of text8
    rng = np.random.default_rng(0)
    names = [str(i) for i in range(n_words)]
    vectors = WordVectors(names, rng.standard_normal((n_words, 200), dtype=np.float32))
    asked = rng.choice(n_words, n_asked, replace=False)[rng.integers(n_asked, size=(n_questions, 4))]
    questions = pd.DataFrame(asked.astype(str), columns=list("abcd"))
    benchmark.pedantic(lambda: analogy_test(vectors, questions, method="3cosmul"), rounds=1)
    speed_table(
        job="19,544 analogies by 3CosMul, V = 70,000, d = 200", ours=benchmark.stats.stats.min, peer=None,
        unit="s", bar="under 30 s", peer_name="",
    )  # fmt: skip


@pytest.mark.skipif(not FULL, reason="EMBVIZ_BENCH=full trains 6 models on text8's beginning (half an hour)")
def test_scores_lie_within_gensims_interval(corpus):
    ours, theirs = [], []
    for seed in range(3):
        config = replace(SGNSConfig.word2vec(n_epochs=10), seed=seed)
        ours.append(scores_of(train_sgns(corpus, config)))
        model, sentences = gensim_model(corpus, config, 1)
        model.train(sentences, total_examples=len(sentences), epochs=10)
        theirs.append(scores_of(WordVectors(model.wv.index_to_key, model.wv.vectors)))
    gap = np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0))
    # 3 standard errors of a difference of two means of 3 seeds, each spread taken as 0.01 at least
    spread = np.maximum(np.std([ours, theirs], axis=1, ddof=1).max(axis=0), 0.01)
    assert (gap < 3 * spread * (2 / 3) ** 0.5).all(), f"ours {ours}, gensim's {theirs}"


def scores_of(vectors: WordVectors) -> list[float]:
    """WordSim, MEN and Google by 3CosAdd."""
    similarities = [similarity_test(vectors, load_word_test(name)).rho for name in ("wordsim353", "men")]
    return [*similarities, analogy_test(vectors, load_word_test("google_analogy")).accuracy]
