"""How long a newcomer waits: importing, the command's help, reading a text into word ids."""

import statistics
import subprocess
import sys
import time

import pandas as pd

from embviz import storage
from embviz.corpora import corpus as corpora


def seconds(*command):
    """Median wall time of a fresh process over five runs, in seconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def test_importing_embviz_beside_an_empty_program(speed_table):
    ours = seconds(sys.executable, "-c", "import embviz")
    peer = seconds(sys.executable, "-c", "pass")
    speed_table(
        job="import embviz", ours=ours, peer=peer, unit="s", bar="under 0.3 s", peer_name="python -c pass"
    )
    assert ours < 0.3


def test_the_commands_help_beside_an_empty_program(speed_table):
    ours = seconds(sys.executable, "-m", "embviz.cli", "--help")
    peer = seconds(sys.executable, "-c", "pass")
    speed_table(
        job="embviz --help", ours=ours, peer=peer, unit="s", bar="under 0.3 s", peer_name="python -c pass"
    )


def test_reading_words_beside_pandas(speed_table):
    text = " ".join(corpora.load_corpus("embedded", n_tokens=1_000_000).words())
    start = time.perf_counter()
    corpus = corpora.text8_corpus(text, name="bench")
    ours = time.perf_counter() - start
    start = time.perf_counter()
    codes, _ = pd.factorize(pd.Series(text.split()))
    peer = time.perf_counter() - start
    assert len(codes) == len(corpus.ids)
    speed_table(
        job="text to word ids",
        ours=len(codes) / ours / 1e6,
        peer=len(codes) / peer / 1e6,
        unit="M tokens/s",
        bar="100 MB in seconds",
        peer_name="pandas.factorize of split text",
    )


def test_loading_a_corpus_the_second_time(speed_table, tmp_path, monkeypatch):
    corpora.load_corpus("embedded")
    start = time.perf_counter()
    corpora.load_corpus("embedded")
    again = time.perf_counter() - start
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path))
    assert storage.cache_folder() == tmp_path
    start = time.perf_counter()
    corpora.load_corpus("embedded")
    first = time.perf_counter() - start
    speed_table(
        job="embedded corpus, second load",
        ours=again,
        peer=first,
        unit="s",
        bar="under 1 s",
        peer_name="the first load, from docstrings",
    )
