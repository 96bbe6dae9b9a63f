"""Counting pairs beside a plain scipy counter, in the same run, with equal counts.

The text is all of enwiki2018 where it is at hand; the peer counts its beginning: it would need tens of
gigabytes on the whole, and its rate changes little with length.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse

from embviz.corpora.corpus import Corpus, load_corpus
from embviz.corpora.registry import DataMissingError
from embviz.words.cooccurrence import count_pairs

N_JOBS = 2
WINDOW = 5
N_ROUNDS = 5  # ours and the peer in turn
PEER_TOKENS = 2_000_000

PEAK_MEMORY = """
import re, sys
from pathlib import Path
from embviz.corpora.corpus import load_corpus
from embviz.words.cooccurrence import count_pairs

corpus = load_corpus(sys.argv[1])
count_pairs(corpus.ids, len(corpus.vocabulary), window=int(sys.argv[2]), n_jobs=int(sys.argv[3]))
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])  # kB
"""


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """The longest text that is at hand."""
    for name in ("enwiki2018", "text8_prefix"):
        try:
            return load_corpus(name)
        except DataMissingError:
            continue
    return load_corpus("embedded")


def described(corpus: Corpus) -> str:
    return f"{corpus.name}, {corpus.n_tokens:,} tokens"


def scipy_counts(ids: np.ndarray, vocab_size: int, window: int) -> scipy.sparse.csr_array:
    """The straightforward counter: the text beside itself, shifted; scipy adds up what repeats."""
    pairs = [(ids[:-k], ids[k:]) for k in range(1, window + 1)]
    rows, columns = np.concatenate(pairs, axis=1).astype(np.int32)
    met = (rows < vocab_size) & (columns < vocab_size)
    shape = (vocab_size, vocab_size)
    ones = np.ones(int(met.sum()), np.int32)
    half = scipy.sparse.coo_array((ones, (rows[met], columns[met])), shape=shape).tocsr()
    return half + half.T


def rate(count: Callable, ids: np.ndarray, vocab_size: int) -> tuple[float, scipy.sparse.csr_array]:
    """Million tokens a second, and the counts."""
    start = time.perf_counter()
    counts = count(ids, vocab_size, WINDOW)
    return len(ids) / (time.perf_counter() - start) / 1e6, counts


def ours(ids: np.ndarray, vocab_size: int, window: int) -> scipy.sparse.csr_array:
    return count_pairs(ids, vocab_size, window=window, n_jobs=N_JOBS)


def assert_same_counts(one: scipy.sparse.csr_array, other: scipy.sparse.csr_array) -> None:
    assert one.nnz == other.nnz
    assert (one != other).nnz == 0


@pytest.mark.parametrize(
    ("min_count", "bar"),
    [(1, "at least 8 times the peer"), (100, "at least 12 times the peer")],
)
def test_counting_beside_scipy(corpus, speed_table, min_count, bar):
    kept = corpus.restrict(min_count=min_count)
    vocab_size, part = len(kept.vocabulary), kept.ids[:PEER_TOKENS]
    assert_same_counts(ours(part, vocab_size, WINDOW), scipy_counts(part, vocab_size, WINDOW))
    rounds = [
        (rate(ours, kept.ids, vocab_size)[0], rate(scipy_counts, part, vocab_size)[0])
        for _ in range(N_ROUNDS)
    ]
    words = "whole vocabulary" if min_count == 1 else f"words with count >= {min_count}"
    our_rate, peer_rate = np.median(rounds, axis=0).tolist()
    speed_table(
        job=f"co-occurrence, window {WINDOW}, {words}",
        ours=our_rate,
        peer=peer_rate,
        unit="M tokens/s",
        bar=bar,
        peer_name="scipy: coo_array of shifted pairs",
        text=described(corpus),
        rounds=rounds,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads peak memory from /proc")
def test_memory_of_counting(corpus, speed_table):
    command = [sys.executable, "-c", PEAK_MEMORY, corpus.name, str(WINDOW), str(N_JOBS)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    speed_table(
        job=f"peak memory of co-occurrence, window {WINDOW}, whole vocabulary, text and libraries included",
        ours=int(output) * 1024 / 1e9,
        peer=None,
        unit="GB",
        bar="at most 3 GB",
        peer_name="",
        text=described(corpus),
    )
