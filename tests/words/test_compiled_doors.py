"""What stands before the compiled loops: they look at no bounds, so nothing may reach them unchecked."""

import ast
import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from embviz.corpora import make_corpus
from embviz.corpora.corpus import Corpus
from embviz.storage import cache_folder
from embviz.words.cooccurrence import count_pairs, pmi
from embviz.words.skipgram import Examples, SGNSConfig, SGNSSchedule, train_sgns

ROOT = Path(__file__).resolve().parents[2]
V, N = 9, 60
IDS = np.random.default_rng(0).integers(0, V + 1, N)  # V is a hole
TEXT = {
    "ids": IDS,
    "vocabulary": list("abcdefghi"),
    "counts": np.bincount(IDS, minlength=V + 1)[:V],
    "document_starts": np.array([0, 20]),
}
SCHEDULE = SGNSSchedule(n_epochs=1, batch_size=4, learning_rate=0.1)
CONFIG = SGNSConfig(embedding_dim=4, window=2, n_negative=3, schedule=SCHEDULE)


def with_entry(values, place, value):
    changed = np.asarray(values).astype(type(value) if isinstance(value, float) else object)
    changed[place] = value
    return np.array(changed.tolist())


HOSTILE_TEXTS = [
    *({"ids": with_entry(IDS, 33, bad)} for bad in (-1, 2**40, math.nan, 0.5, V + 1)),
    {"ids": IDS[:, None]},
    {"ids": IDS[:0]},
    {"ids": np.ma.masked_array(IDS, mask=IDS == 1)},
    {"vocabulary": list("ab")},
    *({"document_starts": np.array(bad)} for bad in ([0, 10.9], [20, 0], [-1, 20])),
    *({"counts": with_entry(TEXT["counts"], V - 1, bad)} for bad in (-1, 1e300)),
    {"counts": np.ones(V + 1, dtype=int)},
    {"counts": np.eye(1, V, dtype=int)[0]},  # one word that occurs: the draw of others would not end
]
HOSTILE_CONFIGS = [
    *({"noise_power": math.nan}, {"noise_power": 1e6}, {"subsample": -0.1}, {"signature": math.nan}),
    *({"window": 2.5}, {"window": N + 1}, {"n_negative": 0}, {"n_negative": V}, {"embedding_dim": "2"}),
    *({"schedule": {name: bad}} for name, bad in (("learning_rate", math.inf), ("decay", None))),
    *({"schedule": {name: bad}} for name, bad in (("floor", -0.1), ("n_epochs", 0), ("batch_size", -1))),
]


def test_the_plain_text_trains():
    assert np.isfinite(train_sgns(SimpleNamespace(**TEXT), CONFIG).word).all()


@pytest.mark.parametrize("changes", HOSTILE_TEXTS)
def test_a_text_that_does_not_fit_is_refused_before_anything_is_trained(changes):
    text = SimpleNamespace(**{**TEXT, **changes})
    (name,) = changes
    said = "ids|the corpus|counts" if name == "vocabulary" else name
    for use in (lambda: train_sgns(text, CONFIG), lambda: Examples(text, CONFIG, 0, N, 1)):
        with pytest.raises(ValueError, match=said):
            use()


@pytest.mark.parametrize("changes", HOSTILE_CONFIGS, ids=str)
def test_a_configuration_out_of_range_is_refused_by_its_name(changes):
    ((name, value),) = changes.items()
    if name == "schedule":
        (name,) = value
        changes = {"schedule": dataclasses.replace(SCHEDULE, **value)}
    with pytest.raises(ValueError, match=name):
        train_sgns(SimpleNamespace(**TEXT), dataclasses.replace(CONFIG, **changes))


@pytest.mark.parametrize("n_threads", [0, N + 1, 1.5])
def test_threads_are_a_whole_number_in_range(n_threads):
    with pytest.raises(ValueError, match="n_threads"):
        train_sgns(SimpleNamespace(**TEXT), CONFIG, n_threads=n_threads)


def test_text_of_any_integer_type_and_of_lists_trains_alike():
    first = train_sgns(SimpleNamespace(**TEXT), CONFIG).word
    for kind in (np.uint8, np.uint64, ">i4", list):
        ids = IDS.tolist() if kind is list else IDS.astype(kind)
        counts = TEXT["counts"].tolist() if kind is list else TEXT["counts"]
        text = SimpleNamespace(**{**TEXT, "ids": ids, "counts": counts, "document_starts": [0, 20]})
        assert train_sgns(text, CONFIG).word.tobytes() == first.tobytes()


# --- counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [V, 2**31 - 1, -1])
def test_sparse_counts_with_an_index_outside_the_vocabulary_are_refused(bad):
    counts = count_pairs(IDS, V, window=2)
    counts.indices[3] = bad
    with pytest.raises(ValueError, match="damaged sparse array, build it again"):
        pmi(counts)


def test_counts_of_any_sparse_format_have_the_same_pmi():
    counts = count_pairs(IDS, V, window=5)
    expected = pmi(counts).toarray()
    for kind in ("csc", "coo", "lil", "bsr"):
        np.testing.assert_array_equal(pmi(counts.asformat(kind)).toarray(), expected)
    assert isinstance(pmi(scipy.sparse.csr_array(counts)), scipy.sparse.csr_array)


@pytest.mark.parametrize("window", [708, 709, 1500])
def test_harmonic_weights_of_wide_windows_do_not_overflow(window):
    ids = np.zeros(2000, dtype=int)
    total = count_pairs(ids, 1, window=window, weighting="harmonic")[0, 0]
    expected = 2 * sum((2000 - k) / k for k in range(1, window + 1))
    assert total == pytest.approx(expected, rel=1e-8)  # weights are rounded to 2^-31 or so


# --- corpora ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": np.array([0, 4])}, "ids goes up to 4: it must be 2 or below"),
        ({"counts": np.array([3, 2, 1])}, "counts has 3 entries for 2 words"),
        (
            {"counts": np.array([2, 3])},
            r"counts of 2 word\(s\) disagree with ids, the first 'a': count again",
        ),
        ({"document_starts": np.array([0, 5])}, "document_starts goes up to 5: it must be 4"),
    ],
)
def test_a_corpus_whose_parts_do_not_fit_is_refused(changes, message):
    corpus = make_corpus("a b a b a", name="made")
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(corpus, **changes)


def test_a_corpus_by_another_order_than_falling_counts_is_not_restricted():
    ids = np.array([0, 1, 1, 2, 2, 2])
    corpus = Corpus("made", ids, list("abc"), np.array([1, 2, 3]), np.array([0]), "made")
    with pytest.raises(ValueError, match="counts rise after word 0: the frequent words are not a prefix"):
        corpus.restrict(min_count=2)


# --- the loops themselves ---------------------------------------------------------------------------


def test_compiled_loops_are_called_from_their_doors_alone():
    doors = {}
    for path in [*(ROOT / "embviz").rglob("*.py"), *(ROOT / "book").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                for name in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]:
                    if name and name.endswith("_numba"):
                        doors.setdefault(path.name, set()).add(name.split(".")[-1])
    assert doors == {
        "cooccurrence.py": {"cooccurrence_numba"},
        "skipgram.py": {"skipgram_numba"},
    }


@pytest.mark.slow
def test_no_loop_leaves_its_arrays_on_the_inputs_of_the_tests():
    modules = ["cooccurrence", "skipgram"]
    left_out = "gensim or two_threads or memory"  # the same loops for longer
    apart = str(cache_folder() / "compiled_with_bounds")  # file names do not tell it
    checks = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": apart, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not ({left_out})"]
        + [f"tests/words/test_{name}.py" for name in modules],
        cwd=ROOT,
        env={**os.environ, **checks},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
