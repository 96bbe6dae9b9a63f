"""Kernels against the paper's formula in slow loops, cases solved by hand, symmetries, refusals."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from embviz import kernels
from embviz.words.cooccurrence import count_pairs
from tests.made_counts import (
    made_counts,
    made_log_counts,
    made_text,
    positive_definite,
    slow_counts,
    slow_fft2,
    symmetric,
)

# A deconvolution multiplies rounding by the condition of fft2(D), 1e2 to 1e5 here: 1e-15 becomes 1e-10.
CLOSE = dict(rtol=1e-8, atol=1e-10)


def circulant(first_row, direction=1):
    return np.stack([np.roll(first_row, direction * i) for i in range(len(first_row))])


def test_counts_are_those_of_the_papers_double_loop():
    ids = made_text(200)
    expected = np.log(1 + slow_counts(ids, 11, 5))
    found = kernels.log_counts(count_pairs(ids, 11, window=5))
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    before = (counts := count_pairs(ids, 11, window=5).toarray()).copy()
    np.testing.assert_array_equal(kernels.log_counts(counts), found)
    np.testing.assert_array_equal(counts, before)


def test_words_without_any_pair_are_refused_by_name():
    counts = made_counts()
    counts[[3, 7]] = counts[:, [3, 7]] = 0
    with pytest.raises(ValueError, match=r"2 word\(s\) have no pair at all \(ids 3, 7\).*Drop them"):
        kernels.log_counts(counts)
    keep = counts.sum(axis=1) > 0
    assert kernels.log_counts(counts[keep][:, keep]).shape == (9, 9)  # as the message says


def test_a_vocabulary_that_does_not_fit_is_refused_before_any_work():
    with pytest.raises(MemoryError, match=r"log counts of a vocabulary of 1,000,000 words"):
        kernels.log_counts(sparse.csr_array((1_000_000, 1_000_000), dtype=np.int64))


def test_d_takes_no_more_memory_than_it_asks_for():
    V = 1200  # twice as many rows as are compared at a time, and some
    counts = count_pairs(np.random.default_rng(0).permutation(np.arange(3 * V) % V), V, window=2)
    tracemalloc.start()
    try:
        kernels.log_counts(counts)
        assert tracemalloc.get_traced_memory()[1] < 16 * V * V
    finally:
        tracemalloc.stop()


def test_d_is_refused_where_it_is_no_matrix_of_log_counts():
    one_sided, silent = made_log_counts(), made_log_counts()
    one_sided[2, 5] += 7
    silent[[3, 7]] = silent[:, [3, 7]] = 0
    with pytest.raises(ValueError, match=r"D is not symmetric: entries \(2, 5\) and \(5, 2\).* differ by 7;"):
        kernels.extract_kernel(np.eye(11), one_sided)
    with pytest.raises(ValueError, match=r"no pair at all \(ids 3, 7\).* keep = abs\(D\)"):
        kernels.extract_kernel(np.eye(11), silent)


def test_the_pair_that_differs_most_is_named_beyond_the_first_block_of_rows():
    counts = np.ones((600, 600))  # more than are compared at a time
    counts[590, 3], counts[599, 570] = 2, 4
    with pytest.raises(ValueError, match=r"entries \(570, 599\) and \(599, 570\).* differ by 3;"):
        kernels.log_counts(counts)
    counts[3, 590], counts[570, 599] = 2, 4
    assert kernels.log_counts(counts).shape == (600, 600)


def test_the_kernel_is_the_papers_formula():
    W, D = positive_definite(7), made_log_counts(7)
    expected = slow_fft2(slow_fft2(W) / slow_fft2(D), sign=1)
    found = kernels.extract_kernel(W, D)
    np.testing.assert_allclose(found.kernel, expected.real, **CLOSE)
    size = np.abs(slow_fft2(D))
    assert found.condition == pytest.approx(size.max() / size.min())
    assert (found.n_zeros, found.n_near_zeros) == (0, 0)
    assert found.imaginary < 1e-10
    np.testing.assert_array_equal(found.k0, found.kernel[0])


@given(V=st.integers(2, 12), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_every_matrix_whatever_has_a_kernel_that_reconstructs_it(V, seed):
    W, D = np.random.default_rng(seed).normal(size=(V, V)), symmetric(V, seed + 1)
    found = kernels.extract_kernel(W, D, zeros="drop")
    assume(found.condition < 1e6 and found.n_zeros + found.n_near_zeros == 0)
    back = np.fft.ifft2(np.fft.fft2(D) * np.fft.fft2(found.kernel)).real
    assert (
        np.linalg.norm(back - W) / np.linalg.norm(W) < 1e-8
    )  # the claim's own bound; rounding times condition stays under 1e-9


@given(
    V=st.integers(3, 11),
    seed=st.integers(0, 10**6),
    direction=st.sampled_from([1, -1]),
    bump=st.floats(0.01, 10) | st.just(0.0),
)
@settings(deadline=None, max_examples=100)
def test_a_kernel_is_circulant_just_if_the_gram_matrix_is(V, seed, direction, bump):
    W = circulant(np.random.default_rng(seed).normal(size=V), direction=direction)
    W[0, 0] += bump  # one entry makes the difference
    D = symmetric(V, seed + 1)
    found = kernels.extract_kernel(W, D, zeros="drop")
    assume(found.condition < 1e6 and found.n_zeros + found.n_near_zeros == 0)
    expected = circulant(found.k0, direction=direction)
    departure = np.abs(found.kernel - expected).max() / np.abs(found.kernel).max()
    # rounding and condition: 1e-9; one entry of 0.01 in W leaves at least 0.01 over the condition's 1e6
    assert departure < 1e-9 if bump == 0 else departure > 1e-9


def test_a_stack_of_gram_matrices_gives_the_kernels_of_each():
    D = made_log_counts(7)
    stack = np.stack([[positive_definite(7, seed), np.eye(7)] for seed in range(3)])
    found = kernels.extract_kernel(stack, D)
    assert found.kernel.shape == (3, 2, 7, 7)
    assert found.k0.shape == (3, 2, 7)
    one = kernels.extract_kernel(stack[2, 0], D)
    np.testing.assert_allclose(found.kernel[2, 0], one.kernel, rtol=1e-12, atol=1e-14)


def test_frequencies_that_cannot_be_divided_are_counted_and_refused_or_left_out():
    D = np.array([[2.0, 1.0], [1.0, 2.0]])  # its transform is 6, 0, 0, 2
    with pytest.raises(ValueError, match=r"exactly 0 at 2 of 4 frequencies and below rounding at 0.*drop"):
        kernels.extract_kernel(np.eye(2), D)
    found = kernels.extract_kernel(np.eye(2), D, zeros="drop")
    assert (found.n_zeros, found.n_near_zeros) == (2, 0)
    assert found.condition == pytest.approx(3)
    np.testing.assert_allclose(np.fft.fft2(found.kernel), [[1 / 3, 0], [0, 1]], atol=1e-15)
    unequal = kernels.extract_kernel(np.diag([2.0, 1.0]), D, zeros="drop")  # fft2(W) is 3, 1, 1, 3
    np.testing.assert_allclose(np.fft.fft2(unequal.kernel), [[1 / 2, 0], [0, 3 / 2]], atol=1e-15)
    D = circulant(1 + np.cos(2 * np.pi * np.arange(7) / 7))  # rounding off the line a + b = 0
    with pytest.raises(ValueError, match=r"fft2\(D\) is exactly 0 at \d+ of 49 .* below rounding at \d+"):
        kernels.extract_kernel(np.eye(7), D)
    found = kernels.extract_kernel(np.eye(7), D, zeros="drop")
    assert found.n_zeros + found.n_near_zeros == 46  # of 7 frequencies on the line three are not 0
    assert found.n_near_zeros > 0
    assert found.condition == pytest.approx(2)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: kernels.log_counts(np.array([[1.0, -2.0], [-2.0, 1.0]])), "down to -2"),
        (lambda: kernels.extract_kernel(np.eye(6), made_log_counts(7)), r"W has shape \(6, 6\), and D is 7"),
        (lambda: kernels.extract_kernel(np.eye(7), made_log_counts(7), zeros="fill"), '"refuse" or "drop"'),
    ],
)
def test_what_makes_no_kernel_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_a_gram_matrix_is_taken_of_tied_embeddings_alone():
    E = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(kernels.tied_gram(E, E.copy()), E @ E.T)
    other = E.copy()
    other[[2, 5]] += 1e-7
    with pytest.raises(ValueError, match=r"not tied: 2 of 7 words have another output vector"):
        kernels.tied_gram(E, other)
    with pytest.raises(ValueError, match=r"not tied: its embedding has shape \(7, 3\), its output \(6, 3\)"):
        kernels.tied_gram(E, E[1:])
