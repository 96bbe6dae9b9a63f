"""A text of 10 GB as a corpus, its pairs, the memory for both: ``long_text write BIG``, ``... read BIG``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from embviz.corpora import make_corpus
from embviz.corpora.corpus import load_text
from embviz.memory import PROC, peak_memory
from embviz.words import count_pairs

N_BYTES = 10_000_000_000
MAX_VOCAB, WINDOW = 10_000, 5
LETTERS = "abcdefghijklmnopqrstuvwxyzé"


def write(path: Path, n_bytes: int = N_BYTES) -> None:
    """Wikipedia again and again: each time 5% of the longer words change places, and 0.6% a letter."""
    words = load_text("enwiki2018_raw").split(" ")
    long_ones = np.array([place for place, word in enumerate(words) if word.isalpha() and len(word) > 3])
    rng, written = np.random.default_rng(0), 0
    with open(path, "w", encoding="utf-8") as file:
        while written < n_bytes:
            again = list(words)
            places = rng.choice(long_ones, size=len(long_ones) // 20, replace=False)
            for place, other in zip(places.tolist(), rng.permutation(places).tolist(), strict=True):
                again[place] = words[other]
            for place in places[: len(places) // 8].tolist():  # new types, as a longer text has
                word, at = again[place], rng.integers(len(again[place]))
                again[place] = word[:at] + LETTERS[rng.integers(len(LETTERS))] + word[at + 1 :]
            written += len(" ".join(again).encode())
            file.write(" ".join([*again, ""]))


def read(path: Path) -> None:
    """Seconds, megabytes a second, and the most memory so far of each step."""
    n_bytes, start = os.path.getsize(path), time.perf_counter()
    _say("imports", 0.0)
    corpus = make_corpus(path, max_vocab=MAX_VOCAB)
    seconds = time.perf_counter() - start
    _say(f"{corpus!r} of {n_bytes / 1e6:,.0f} MB, {n_bytes / 1e6 / seconds:.1f} MB/s", seconds)
    start = time.perf_counter()
    counts = count_pairs(corpus.ids, MAX_VOCAB, window=WINDOW, document_starts=corpus.document_starts)
    seconds = time.perf_counter() - start
    _say(
        f"{counts.nnz:,} pairs, {counts.sum():,} times, {corpus.n_tokens / 1e6 / seconds:.1f} M tokens/s",
        seconds,
    )


def _say(what: str, seconds: float) -> None:
    status = (PROC / "self/status").read_text(encoding="utf-8") if PROC.is_dir() else ""
    now = " ".join(line.replace("\t", "") for line in status.splitlines() if line.startswith("Rss"))
    print(f"{what}; {seconds:,.0f} s; peak {peak_memory() / 1e9:.2f} GB ({now})", flush=True)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
