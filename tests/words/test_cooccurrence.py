"""Counts of pairs against slow loops straight from their definition; the PMI family; what is refused."""

import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz.words import cooccurrence
from embviz.words.cooccurrence import (
    count_pairs,
    dynamic_reach,
    keep_probability,
    pmi,
    ppmi,
    shifted_pmi,
    subsample_places,
)


def slow_counts(ids, vocab_size, window, *, starts=(0,), weighting="flat", reach=None) -> np.ndarray:
    """Every ordered pair of places of one document, weighed one by one."""
    weights = {
        "flat": lambda distance: 1.0,
        "linear": lambda distance: (window + 1 - distance) / window,
        "harmonic": lambda distance: 1 / distance,
    }
    document = np.searchsorted(starts, np.arange(len(ids)), side="right")
    counts = np.zeros((vocab_size, vocab_size))
    for i, centre in enumerate(ids):
        for j, other in enumerate(ids):
            distance = abs(i - j)
            if distance == 0 or distance > window or document[i] != document[j]:
                continue
            if centre >= vocab_size or other >= vocab_size:
                continue
            ends = 2 if reach is None else int(reach[i] >= distance) + int(reach[j] >= distance)
            counts[centre, other] += weights[weighting](distance) * ends / 2
    return counts


@st.composite
def texts(draw):
    """(ids with holes, vocab_size, window, document_starts) of a small text."""
    vocab_size = draw(st.integers(1, 70))  # over 64: more than one machine word of flags
    ids = draw(st.lists(st.integers(0, vocab_size), min_size=2, max_size=60))
    window = draw(st.integers(1, len(ids)))
    breaks = draw(st.sets(st.integers(1, len(ids) - 1), max_size=4))
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.int64]))
    return np.array(ids, kind), vocab_size, window, np.array([0, *sorted(breaks)])


@settings(max_examples=60, deadline=None)
@given(
    text=texts(),
    weighting=st.sampled_from(["flat", "linear", "harmonic"]),
    dynamic=st.booleans(),
    seed=st.integers(0, 2**32),
    n_jobs=st.sampled_from([1, 2]),
)
def test_counts_are_those_of_slow_loops(text, weighting, dynamic, seed, n_jobs):
    ids, vocab_size, window, starts = text
    options = {"window": window, "document_starts": starts, "weighting": weighting}
    counts = count_pairs(ids, vocab_size, **options, dynamic=dynamic, seed=seed, n_jobs=n_jobs)
    reach = dynamic_reach(len(ids), window, seed) if dynamic else None
    expected = slow_counts(ids, vocab_size, window, starts=starts, weighting=weighting, reach=reach)
    if weighting == "harmonic" and window > 20:  # weights rounded to 2^-20 or better, up to 120 neighbours
        np.testing.assert_allclose(counts.toarray(), expected, rtol=0, atol=120 * 2**-20)
    else:
        np.testing.assert_allclose(counts.toarray(), expected, rtol=1e-12)
    assert (counts.toarray() == counts.toarray().T).all()
    assert (counts.data != 0).all()
    assert (counts.nnz == 0) or counts.indices.max() < vocab_size
    rebuilt = scipy.sparse.csr_array((counts.data, counts.indices, counts.indptr), shape=counts.shape)
    assert rebuilt.has_canonical_format


@settings(max_examples=40, deadline=None)
@given(text=texts(), threshold=st.floats(1e-3, 0.5), seed=st.integers(0, 1000))
def test_subsampling_counts_the_places_that_it_keeps(text, threshold, seed):
    ids, vocab_size, window, starts = text
    kept, kept_starts = subsample_places(ids, vocab_size, threshold, document_starts=starts, seed=seed)
    counts = count_pairs(
        ids, vocab_size, window=window, document_starts=starts, subsample=threshold, seed=seed
    )
    expected = slow_counts(kept, vocab_size, window, starts=kept_starts)
    np.testing.assert_array_equal(counts.toarray(), expected)


def test_subsampling_removes_places_and_keeps_documents_and_holes():
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(400) < 0.2, 400, np.arange(400))  # each place its own word, or a hole
    ids[::2] = 0  # and one word that is frequent
    starts = np.array([0, 100, 250])
    kept, kept_starts = subsample_places(ids, 400, 0.05, document_starts=starts, seed=5)
    stays = np.isin(ids, kept) & (ids != 0)
    assert (stays == (ids != 0)).all()  # rare words and holes stay
    assert 20 < (kept == 0).sum() < 180
    np.testing.assert_array_equal(kept[kept != 0], ids[ids != 0])  # in their order
    for start, kept_start in zip(starts, kept_starts, strict=True):
        assert (kept[:kept_start] != 0).sum() == (ids[:start] != 0).sum()


def test_words_stay_as_often_as_the_rule_says():
    keep = 0.1 + math.sqrt(0.1)
    np.testing.assert_allclose(keep_probability(np.array([100, 0]), 0.1), [keep, 1])
    n = 100_000
    kept, _ = subsample_places(np.zeros(n, np.uint8), 1, 0.1, document_starts=np.array([0]), seed=1)
    assert abs(len(kept) / n - keep) < 5 * math.sqrt(keep * (1 - keep) / n)  # five standard errors


def test_dynamic_reach_is_uniform_and_a_function_of_seed_and_place():
    reach = dynamic_reach(60_000, 6, seed=3)
    shares = np.bincount(reach, minlength=7)[1:] / len(reach)
    np.testing.assert_allclose(shares, 1 / 6, atol=5 * math.sqrt(5 / 36 / len(reach)))  # five errors
    np.testing.assert_array_equal(reach[:100], dynamic_reach(100, 6, seed=3))
    assert (reach != dynamic_reach(60_000, 6, seed=4)).any()


@settings(max_examples=60, deadline=None)
@given(text=texts(), weighting=st.sampled_from(["flat", "linear", "harmonic"]), block=st.integers(1, 9))
def test_a_text_counted_in_blocks_has_the_counts_of_the_whole(text, weighting, block):
    ids, vocab_size, window, starts = text
    options = {"window": window, "document_starts": starts, "weighting": weighting}
    whole = count_pairs(ids, vocab_size, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "BLOCK_PLACES", block)
        counts = count_pairs(ids, vocab_size, **options)
    assert counts.nnz == whole.nnz
    assert counts.dtype == whole.dtype
    assert counts.has_canonical_format
    assert (counts != whole).nnz == 0


def test_memory_of_counting_does_not_grow_with_the_text(monkeypatch):
    monkeypatch.setattr(cooccurrence, "BLOCK_PLACES", 1 << 16)
    peaks = []
    for n_places in (1 << 18, 1 << 18, 1 << 20):  # the first time loops are loaded
        ids = np.random.default_rng(0).integers(50, size=n_places).astype(np.uint8)
        tracemalloc.start()
        count_pairs(ids, 50, window=3)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[1], peaks  # with the text of each block kept, 2 times as much


def test_small_texts_are_counted_as_by_hand():
    counts = count_pairs(np.array([0, 1, 0, 1]), 2, window=2)
    np.testing.assert_array_equal(counts.toarray(), [[2, 3], [3, 2]])
    assert counts.dtype.kind == "i"
    np.testing.assert_array_equal(count_pairs(np.array([0, 0]), 1, window=1).toarray(), [[2]])
    assert count_pairs(np.array([0, 200, 1], np.uint8), 2, window=1).nnz == 0  # a hole keeps its place
    assert count_pairs(np.array([0, 200, 1], np.uint8), 2, window=2)[0, 1] == 1
    assert count_pairs(np.zeros(20, np.uint8), 1, window=2, subsample=1e-12).nnz == 0  # nothing is left


def test_rows_with_every_word_and_rows_with_few_are_both_in_order():
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.geometric(0.002, 30_000) - 1, 5_000).astype(np.uint16)
    counts = count_pairs(ids, 5_000, window=3)
    i, j = np.concatenate([[np.arange(len(ids) - d), np.arange(d, len(ids))] for d in (1, 2, 3)], axis=1)
    met = (ids[i] < 5_000) & (ids[j] < 5_000)
    half = scipy.sparse.coo_array((np.ones(met.sum(), int), (ids[i[met]], ids[j[met]])), (5_000, 5_000))
    expected = (half + half.T).tocsr()
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(counts, part), getattr(expected, part))
    assert (np.diff(counts.indptr) == 0).any()  # some words never occur


@pytest.mark.parametrize("weighting", ["flat", "harmonic"])
def test_any_number_of_workers_gives_the_same_bits(weighting, monkeypatch):
    monkeypatch.setattr("embviz.words.cooccurrence.ENTRIES_PER_TASK", 500)  # many tasks of a small text
    ids = np.random.default_rng(3).integers(0, 200, 5_000)
    options = {"window": 4, "weighting": weighting, "dynamic": True, "subsample": 1e-2}
    one, *others = (count_pairs(ids, 200, **options, n_jobs=n_jobs) for n_jobs in (1, 2, 5))
    for other in others:
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


# --- pointwise mutual information -------------------------------------------------------------------


def slow_pmi(counts, smoothing=0.0, context_power=1.0) -> np.ndarray:
    counts = counts + smoothing
    words = counts.sum(axis=1) / counts.sum()
    contexts = counts.sum(axis=0) ** context_power
    contexts = contexts / contexts.sum()
    result = np.zeros(counts.shape)
    for i, j in np.ndindex(counts.shape):
        if counts[i, j] > 0:
            result[i, j] = math.log(counts[i, j] / counts.sum() / (words[i] * contexts[j]))
    return result


@st.composite
def count_matrices(draw):
    n = draw(st.integers(2, 8))
    cells = draw(st.lists(st.integers(0, 5), min_size=n * n, max_size=n * n))
    half = np.array(cells).reshape(n, n)
    return half + half.T + np.eye(n, dtype=int)  # so that every word has a pair


@settings(max_examples=60, deadline=None)
@given(
    counts=count_matrices(),
    smoothing=st.sampled_from([0.0, 0.5, 2.0]),
    context_power=st.sampled_from([1.0, 0.75]),
    n_negative=st.sampled_from([1, 5]),
)
def test_the_pmi_family_is_that_of_slow_loops(counts, smoothing, context_power, n_negative):
    options = {"smoothing": smoothing, "context_power": context_power}
    expected = slow_pmi(counts, **options)
    shifted = np.where(counts + smoothing > 0, expected - math.log(n_negative), 0)
    for given_counts in (counts, counts.astype(np.float32), scipy.sparse.csr_array(counts)):
        sparse = scipy.sparse.issparse(given_counts)
        for result, reference in (
            (pmi(given_counts, **options), expected),
            (shifted_pmi(given_counts, n_negative=1, **options), np.maximum(expected, 0)),
            (ppmi(given_counts), np.maximum(slow_pmi(counts), 0)),
            (shifted_pmi(given_counts, n_negative=n_negative, **options), np.maximum(shifted, 0)),
            (shifted_pmi(given_counts, n_negative=n_negative, positive=False, **options), shifted),
        ):
            assert scipy.sparse.issparse(result) == sparse
            assert result.dtype == np.float64
            dense = result.toarray() if sparse else result
            np.testing.assert_allclose(dense, reference, rtol=0, atol=1e-12)


def test_pmi_is_symmetric_to_the_bit_unless_contexts_are_smoothed():
    ids = np.random.default_rng(5).integers(0, 40, 3_000)
    counts = count_pairs(ids, 40, window=2)
    for given_counts in (counts, counts.toarray()):
        result = pmi(given_counts)
        assert abs(result - result.T).max() == 0
        skewed = pmi(given_counts, context_power=0.75)
        assert abs(skewed - skewed.T).max() > 0


def test_pmi_leaves_the_counts_as_they_were():
    counts = count_pairs(np.array([0, 1, 2, 0, 1]), 3, window=2)
    before = counts.toarray()
    result = shifted_pmi(counts, n_negative=5)
    result.data[:] = 7
    np.testing.assert_array_equal(counts.toarray(), before)


def test_stored_zeros_and_repeated_cells_of_sparse_counts_are_read_as_their_sum():
    counts = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 4]])
    rows, columns = np.indices((3, 3)).reshape(2, -1)
    twice = scipy.sparse.coo_array(
        (np.tile(counts.ravel(), 2), (np.tile(rows, 2), np.tile(columns, 2))), (3, 3)
    )
    np.testing.assert_allclose(pmi(twice).toarray(), pmi(2 * counts), atol=1e-14)


# --- refusals ---------------------------------------------------------------------------------------


def counted(ids=(0, 1, 1, 0), vocab_size=2, **options):
    return count_pairs(np.array(ids, None if len(ids) else np.uint8), vocab_size, **{"window": 1, **options})


def shifted_by(n_negative=5, **options):
    return shifted_pmi(np.ones((2, 2)), n_negative=n_negative, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: counted(ids=[]), "ids is empty"),
        (lambda: counted(ids=[0.0, 1.0]), "ids has type float64: give integers"),
        (lambda: counted(ids=[0, -1]), "ids goes down to -1: it must be 0"),
        (lambda: counted(vocab_size=0), "vocab_size is 0: it must be a whole number, 1 to"),
        (lambda: counted(window=0), "window is 0: it must be a whole number, 1 or more"),
        (lambda: counted(window=7), "window is 7, longer than the text of 4 places"),
        (lambda: counted(document_starts=np.array([1, 2])), "document_starts must start at 0"),
        (lambda: counted(document_starts=np.array([0, 3, 2])), "document_starts must start at 0"),
        (lambda: counted(document_starts=np.array([0, 9])), "document_starts goes up to 9"),
        (lambda: counted(weighting="square"), 'weighting is \'square\': use "flat", "linear" or "harmonic"'),
        (lambda: counted(subsample=0.0), "subsample is 0.0: it must be above 0"),
        (lambda: shifted_by(smoothing=-1.0), "smoothing is -1.0"),
        (lambda: shifted_by(smoothing=math.nan), "smoothing is nan"),
        (lambda: shifted_by(context_power=0.0), "context_power is 0.0"),
        (lambda: shifted_by(context_power=2.0), "context_power is 2.0"),
        (lambda: shifted_by(n_negative=0), "n_negative is 0: it must be at least 1"),
    ],
)
def test_what_cannot_be_counted_or_shifted_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_counts_too_large_for_memory_are_refused_with_their_size_and_a_way_out(monkeypatch):
    for module in ("memory", "words.cooccurrence"):
        monkeypatch.setattr(f"embviz.{module}.available_memory", lambda: 2_000_000)
    monkeypatch.setattr("embviz.words.cooccurrence.ENTRIES_PER_TASK", 500)
    ids = np.random.default_rng(0).integers(0, 1_000, 20_000)
    with pytest.raises(MemoryError, match=r"counting .* M pairs of 1,000 words .*min_count.*smaller window"):
        count_pairs(ids, 1_000, window=10, n_jobs=2)
    count_pairs(ids[:1_000], 1_000, window=3)
    with pytest.raises(MemoryError, match=r"needs about .* GB.*smooth with 0, or keep fewer words"):
        pmi(scipy.sparse.eye_array(300_000, format="csr"), smoothing=1.0)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones((2, 3)), "it must be square"),
        (np.ones((1, 1)), "the vocabulary has one word"),
        (np.array([[1, -2], [-2, 1]]), "counts goes down to -2: it must be 0 or above"),
        (np.array([[1, 2], [3, 1]]), r"not symmetric: cells \(0, 1\) and \(1, 0\) differ"),
        (np.array([[10**9, 2], [1, 10**9]]), r"not symmetric: cells \(0, 1\) and \(1, 0\) differ"),
        (np.array([[1, 0], [3, 1]], np.uint8), r"not symmetric: cells \((0, 1|1, 0)\)"),
        (np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1]]), "have no pair at all .ids 1"),
    ],
)
def test_counts_without_a_pmi_are_refused(counts, message):
    for given_counts in (counts, scipy.sparse.csr_array(counts)):
        for function in (pmi, ppmi, lambda matrix: shifted_pmi(matrix, n_negative=5)):
            with pytest.raises(ValueError, match=message):
                function(given_counts)


@settings(max_examples=200, deadline=None)
@given(
    half=st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=6, max_size=6), min_size=6, max_size=6),
    cell=st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda cell: cell[0] != cell[1]),
)
def test_the_cell_named_as_asymmetric_is_the_one_that_was_altered(half, cell):
    counts = np.array(half) + np.array(half).T
    counts[cell] += 1
    for matrix in (counts, scipy.sparse.csr_array(counts)):
        with pytest.raises(ValueError, match=r"counts are not symmetric") as refused:
            pmi(matrix)
        assert str(cell) in str(refused.value)


def test_a_shift_moves_smoothed_pairs_whose_mutual_information_is_exactly_zero():
    counts = np.array([[8, 0, 6, 8], [0, 2, 2, 2], [6, 2, 8, 5], [8, 2, 5, 8]])
    options = {"n_negative": 3, "positive": False, "smoothing": 0.5}
    assert pmi(counts, smoothing=0.5)[1, 3] == 0  # as rounded, so that a sparse array might not store it
    assert shifted_pmi(counts, **options)[1, 3] == -math.log(3)
    sparse = shifted_pmi(scipy.sparse.csr_array(counts), **options)
    np.testing.assert_array_equal(sparse.toarray(), shifted_pmi(counts, **options))


def test_a_vocabulary_may_be_a_small_number_of_numpys():
    ids = np.arange(5_000, dtype=np.uint16) % 30  # 16 bits: no room for the bytes that counting needs
    counts = count_pairs(ids, ids.max() + 1, window=2)
    assert (counts != count_pairs(ids, 30, window=2)).nnz == 0
