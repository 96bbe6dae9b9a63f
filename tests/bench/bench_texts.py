"""A text on disk to words, and to counts of pairs, beside what a practitioner would write in some lines."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from embviz.corpora.corpus import load_corpus
from embviz.corpora.making import make_corpus
from embviz.corpora.registry import DataMissingError
from embviz.words.cooccurrence import count_pairs
from tests.bench.bench_cooccurrence import WINDOW, scipy_counts

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_BYTES = 100_000_000 if FULL else 20_000_000
PEER_BYTES = 5_000_000  # of the text, for a peer that needs tens of gigabytes on the whole
N_ROUNDS = 3


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Beginnings of a text with all kinds of letters and of one in text8's form, where they are at hand."""
    folder, found = tmp_path_factory.mktemp("texts"), {}
    for kind, names in {"unicode": ("enwiki2018_raw",), "text8": ("enwiki2018", "text8_prefix")}.items():
        for name in (*names, "embedded"):
            try:
                corpus = load_corpus(name)
            except DataMissingError:
                continue
            words = np.array(corpus.vocabulary, dtype=object)[corpus.ids[: N_BYTES // 5]]
            found[kind] = folder / f"{kind}.txt"
            lines = (" ".join(words[at : at + 20]) for at in range(0, len(words), 20))
            found[kind].write_bytes("\n".join(lines).encode()[:N_BYTES])
            break
    return found


def best(function: Callable[[], object], n_rounds: int = N_ROUNDS) -> float:
    took = []
    for _ in range(n_rounds):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return min(took)


@pytest.mark.parametrize(("kind", "bar"), [("unicode", 1.0), ("text8", 1.5)])
def test_words_of_a_text_beside_pyarrow(texts: dict[str, Path], speed_table: Callable[..., None], kind, bar):
    path = texts[kind]
    n_bytes = path.stat().st_size

    def peer() -> object:
        words = pc.list_flatten(pc.utf8_split_whitespace(pa.array(path.read_text().splitlines())))
        return words.dictionary_encode()

    speed_table(
        job=f"words of a text on disk, {kind}", ours=n_bytes / best(lambda: make_corpus(path)) / 1e6,
        peer=n_bytes / best(peer) / 1e6, unit="MB/s", bar=f"at least {bar} times the peer",
        peer_name="pyarrow's split and dictionary, a smaller job", text=f"{n_bytes / 1e6:.0f} MB",
    )  # fmt: skip


def test_a_text_on_disk_to_counts_beside_scikit_learn_and_scipy(
    texts: dict[str, Path], tmp_path: Path, speed_table: Callable[..., None]
):
    path, part = texts["unicode"], tmp_path / "part.txt"
    part.write_bytes(path.read_bytes()[:PEER_BYTES])

    def ours() -> object:
        corpus = make_corpus(path)
        return count_pairs(corpus.ids, len(corpus.vocabulary), window=WINDOW, n_jobs=2)

    def peer() -> object:
        counter = CountVectorizer()
        text = part.read_text(errors="replace")
        counter.fit([text])
        ids = np.array([counter.vocabulary_[word] for word in counter.build_analyzer()(text)])
        return scipy_counts(ids, len(counter.vocabulary_), WINDOW)

    sizes = [one.stat().st_size / 1e6 for one in (path, part)]
    speed_table(
        job=f"text on disk to counts, window {WINDOW}", ours=sizes[0] / best(ours),
        peer=sizes[1] / best(peer), unit="MB/s", bar="at least 3 times the peer",
        peer_name="CountVectorizer, then scipy's coo_array",
        text=f"{sizes[0]:.0f} MB, the peer {sizes[1]:.0f} MB",
    )  # fmt: skip
