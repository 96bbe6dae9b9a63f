"""Environments without something: a locale with letters, a home folder, a place that can be written to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
BARE = {**PYTHON, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
USE = """
import time
start = time.perf_counter()
import numpy as np
from embviz import storage
from embviz.corpora import load_corpus
from embviz.trajectories import traces
from embviz.words import count_pairs
for folder in (storage.cache_folder(), storage.Path("{root}")):
    try:
        storage.check_writable(folder)
    except OSError:
        continue
    raise SystemExit(f"{{folder}} can be written to: nothing was tried")
layout = traces.Layout("umap", n_neighbors=5)
assert traces.lay_out(np.random.default_rng(0).normal(size=(40, 3)), layout, seed=0).shape == (40, 2)
corpus = load_corpus("embedded")
print(corpus.n_tokens, int(count_pairs(np.arange(20) % 5, 5, window=2).sum()), time.perf_counter() - start)
"""


def ledger(environment):
    done = subprocess.run(
        [sys.executable, "-m", "book", "ledger", "kernel.exact", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode("utf-8"))


def test_the_ledger_is_the_same_in_a_locale_without_letters(tmp_path):
    cache = {"EMBVIZ_CACHE_DIR": str(tmp_path)}
    assert ledger(BARE | cache) == ledger(PYTHON | {"LC_ALL": "C.UTF-8"} | cache)


def test_the_embedded_corpus_and_its_pairs_need_no_home_and_nothing_that_can_be_written(tmp_path):
    cache = Path.home() / ".cache"
    code = tmp_path / "use.py"
    code.write_text(USE.format(root=ROOT), encoding="utf-8")
    frozen = [ROOT, Path(sys.prefix)]
    script = (
        "".join(f"mount --bind {at} {at} && mount -o remount,ro,bind {at} && " for at in frozen)
        + f"mkdir -p {cache} && mount -t tmpfs -o ro tmpfs {cache} && exec {sys.executable} {code}"
    )
    path = {"PATH": os.environ["PATH"]}
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"]).returncode:
        pytest.skip("only root can mount a read-only package: it was NOT tried")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], env=PYTHON | path, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    n_tokens, n_pairs, seconds = done.stdout.split()
    print(f"\n{n_tokens} tokens gathered and pairs compiled in {float(seconds):.0f} s")
    assert int(n_tokens) > 1_000_000
    assert int(n_pairs) == 74
