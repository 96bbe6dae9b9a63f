"""A moved slider beside the listing it redraws, embeddings without training beside the double loop."""

import os
import time
from collections.abc import Callable

import numpy as np
import pytest

from embviz import kernels
from embviz.corpora.corpus import load_corpus
from embviz.corpora.registry import DataMissingError
from embviz.words.cooccurrence import count_pairs

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_WORDS = 5_000 if FULL else 1_000
N_PLACES = 50_000  # of the double loop, in Python: seconds


def milliseconds(function: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1e3 * min(times)


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    """Ids of English by falling frequency, rarer words left out below."""
    for name in ("enwiki2018", "text8_prefix") if FULL else ("text8_prefix", "embedded"):
        try:
            return load_corpus(name, n_tokens=3_000_000).ids
        except DataMissingError:
            continue
    pytest.skip("EMBVIZ_BENCH=full needs enwiki2018 or text8: set EMBVIZ_DATA_DIR")


def log_counts(text: np.ndarray, vocab_size: int) -> np.ndarray:
    return kernels.log_counts(count_pairs(text[text < vocab_size], vocab_size, window=5))


def as_listed(D: np.ndarray, eps: float) -> np.ndarray:
    """The second listing's steps, each in full: what a redraw costs without a spectrum at hand."""
    values, vectors = np.linalg.eigh(D)
    power = (vectors * np.maximum(values, 1e-15) ** eps) @ vectors.T
    below = np.fft.fft2(D)
    return np.fft.ifft2(np.fft.fft2(power) / np.where(np.abs(below) > 1e-10, below, 1e-10)).real[0]


def test_a_moved_slider_of_300_words(text, speed_table):
    spectrum = kernels.decompose(log_counts(text, 300))
    columns = kernels.responses(spectrum, "fft")
    ours = milliseconds(lambda: kernels.k0_fft(spectrum, 0.003))
    at_hand = milliseconds(lambda: columns @ kernels.spectral_power(spectrum.values, 0.003))
    peer = milliseconds(lambda: as_listed(spectrum.matrix, 0.003))
    speed_table(
        job="k0 for a moved slider, V = 300, from a spectrum",
        ours=ours,
        peer=peer,
        unit="ms",
        bar="under 50 ms",
        peer_name="the FFT listing anew",
    )
    speed_table(
        job="k0 for a moved slider, V = 300, from responses",
        ours=at_hand,
        peer=peer,
        unit="ms",
        bar="under 50 ms",
        peer_name="the FFT listing anew",
    )


def test_a_new_order_of_300_words(text, speed_table):
    spectrum = kernels.decompose(log_counts(text, 300))
    order = np.random.default_rng(0).permutation(300)
    speed_table(
        job="k0 in a new order of the vocabulary, V = 300",
        ours=milliseconds(lambda: kernels.k0_fft(spectrum.permuted(order), 0.003)),
        peer=milliseconds(lambda: as_listed(kernels.permute(spectrum.matrix, order), 0.003)),
        unit="ms",
        bar="under 50 ms",
        peer_name="the FFT listing anew",
    )


def test_k0_of_a_large_vocabulary(text, speed_table):
    D = log_counts(text, N_WORDS)
    began = time.perf_counter()
    kernels.k0_fft(D)
    ours = time.perf_counter() - began
    began = time.perf_counter()
    as_listed(D, 0.003)
    speed_table(
        job=f"k0 from D, V = {N_WORDS:,}",
        ours=ours,
        peer=time.perf_counter() - began,
        unit="s",
        bar="at most the peer's time",
        peer_name="the FFT listing",
    )


def test_embeddings_without_training(text, speed_table):
    ids = np.unique(text[text < 300][:N_PLACES], return_inverse=True)[1]  # words that occur, numbered anew
    V = int(ids.max()) + 1
    kernels.training_free_embeddings(ids[:1000] % 10, 10, 4)  # compiled before the clock runs
    ours = milliseconds(lambda: kernels.training_free_embeddings(ids, V, 64))
    began = time.perf_counter()
    counts = np.zeros((V, V))
    for i in range(len(ids)):
        for j in range(max(0, i - 5), min(len(ids), i + 6)):
            if i != j:
                counts[ids[i], ids[j]] += 1
    peer = 1e3 * (time.perf_counter() - began)
    np.testing.assert_array_equal(counts, count_pairs(ids, V, window=5).toarray())
    speed_table(
        job=f"embeddings without training, {N_PLACES:,} places, V about 300",
        ours=ours,
        peer=peer,
        unit="ms",
        bar="10 times the peer's speed",
        peer_name="the double loop over places alone",
    )
