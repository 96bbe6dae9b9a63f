"""Kernels against the paper's formulas in slow loops, cases solved by hand, symmetries, refusals."""

import doctest
import re
import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from embviz import kernels, metrics
from embviz.words.cooccurrence import count_pairs, ppmi

# A deconvolution multiplies rounding by the condition of fft2(D), 1e2 to 1e5 here: 1e-15 becomes 1e-10.
CLOSE = dict(rtol=1e-8, atol=1e-10)


def made_text(n: int = 600, vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    """Ids with frequencies that fall as 1 / rank; every word occurs."""
    weights = 1 / np.arange(1, vocab_size + 1)
    drawn = np.random.default_rng(seed).choice(vocab_size, n, p=weights / weights.sum())
    return np.concatenate([np.arange(vocab_size), drawn])


def made_counts(vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    return count_pairs(made_text(vocab_size=vocab_size, seed=seed), vocab_size, window=2).toarray()


def made_log_counts(vocab_size: int = 11, seed: int = 0) -> np.ndarray:
    return kernels.log_counts(made_counts(vocab_size, seed))


def positive_definite(vocab_size: int = 9, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(vocab_size, 3 * vocab_size))
    return rows @ rows.T / vocab_size


def symmetric(vocab_size: int, seed: int) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(vocab_size, vocab_size))
    return half + half.T


# --- the paper, word for word, in loops ---------------------------------------------------------------


def slow_counts(ids, vocab_size, window):
    """One place after another, all places within the window of it but itself."""
    counts = np.zeros((vocab_size, vocab_size))
    for here, word in enumerate(ids):
        for there in range(here - window, here + window + 1):
            if there != here and 0 <= there < len(ids):
                counts[word, ids[there]] += 1
    return counts


def slow_fft2(matrix, sign=-1):
    """The sum that defines the transform, entry by entry."""
    V = len(matrix)
    found = np.zeros((V, V), complex)
    for a in range(V):
        for b in range(V):
            for i in range(V):
                for j in range(V):
                    found[a, b] += matrix[i, j] * np.exp(sign * 2j * np.pi * (a * i + b * j) / V)
    return found if sign < 0 else found / V**2


def slow_power(D, exponent, clamp=1e-15):
    values, vectors = np.linalg.eigh(D)
    power = np.zeros_like(D)
    for value, vector in zip(values, vectors.T, strict=True):
        power += max(value, clamp) ** exponent * np.outer(vector, vector)
    return power


def slow_first_listing(D, eps):
    return slow_power(D, eps - 1)[0]


def slow_second_listing(D, eps):
    below, above = slow_fft2(D), slow_fft2(slow_power(D, eps))
    for place, value in np.ndenumerate(below):
        if abs(value) <= 1e-10:
            below[place] = 1e-10
    return slow_fft2(above / below, sign=1).real[0]


def slow_embeddings(ids, vocab_size, embedding_dim, window, eps):
    D = np.log(1 + slow_counts(ids, vocab_size, window))
    k0 = slow_first_listing(D, eps)
    kernel = np.array([[k0[(j - i) % vocab_size] for j in range(vocab_size)] for i in range(vocab_size)])
    W = np.zeros_like(D)
    for i in range(vocab_size):  # the cyclic convolution itself, without any transform
        for j in range(vocab_size):
            for p in range(vocab_size):
                for q in range(vocab_size):
                    W[i, j] += D[p, q] * kernel[(i - p) % vocab_size, (j - q) % vocab_size]
    values, vectors = np.linalg.eigh((W + W.T) / 2)
    columns = sorted(range(vocab_size), key=lambda k: -values[k])[:embedding_dim]
    E = np.stack([vectors[:, k] * max(values[k], 0) ** 0.5 for k in columns], axis=1)
    return E, k0, D


# --- D ------------------------------------------------------------------------------------------------


def test_counts_are_those_of_the_papers_double_loop():
    ids = made_text(200)
    expected = np.log(1 + slow_counts(ids, 11, 5))
    found = kernels.log_counts(count_pairs(ids, 11, window=5))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_log_counts_of_sparse_and_dense_are_equal_and_the_counts_stay():
    counts = made_counts()
    before = counts.copy()
    np.testing.assert_array_equal(kernels.log_counts(counts), kernels.log_counts(sparse.csr_array(counts)))
    np.testing.assert_array_equal(counts, before)


def test_counts_of_one_direction_are_refused_with_the_pair_that_differs_most():
    counts = made_counts().astype(float)
    counts[2, 5] += 7
    counts[1, 3] += 2
    with pytest.raises(ValueError, match=r"not symmetric: entries \(2, 5\) and \(5, 2\).* differ by 7;"):
        kernels.log_counts(counts)


def test_words_without_any_pair_are_refused_by_name():
    counts = made_counts()
    counts[[3, 7]] = counts[:, [3, 7]] = 0
    with pytest.raises(ValueError, match=r"2 word\(s\) have no pair at all \(ids 3, 7\).*Drop them"):
        kernels.log_counts(counts)
    keep = counts.sum(axis=1) > 0
    assert kernels.log_counts(counts[keep][:, keep]).shape == (9, 9)  # as the message says


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\).*must be square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), r"2 NaN or infinite"),
        (np.array([[1.0, -2.0], [-2.0, 1.0]]), r"down to -2"),
    ],
)
def test_what_is_no_count_is_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        kernels.log_counts(counts)


def test_every_convention_is_what_its_name_says():
    ids = made_text(300)
    starts = np.array([0, 100, 101, 250])
    found = kernels.conventions(ids, 11, document_starts=starts, windows=(2, 5))
    counts = slow_counts(ids, 11, 5)
    diagonal = np.diag(counts.diagonal())
    within = sum(slow_counts(part, 11, 5) for part in np.split(ids, starts[1:]))
    expected = {
        "window 2": slow_counts(ids, 11, 2),
        "window 5": counts,
        "halved": counts / 2,
        "diagonal once": counts - diagonal / 2,
        "no diagonal": counts - diagonal,
        "borders kept": within,
    }
    assert set(found) == set(expected)
    for name, matrix in expected.items():
        np.testing.assert_allclose(found[name], np.log(1 + matrix), rtol=1e-15, err_msg=name)


def test_a_reordered_matrix_holds_the_same_pairs_of_words():
    counts, order = made_counts(), np.random.default_rng(1).permutation(11)
    found = kernels.permute(counts, order)
    assert all(found[i, j] == counts[order[i], order[j]] for i in range(11) for j in range(11))
    np.testing.assert_array_equal(kernels.permute(sparse.csr_array(counts), order).toarray(), found)
    with pytest.raises(ValueError, match="each of the 11 words once"):
        kernels.permute(counts, np.zeros(11, int))


# --- powers and logarithms ----------------------------------------------------------------------------


def test_a_reordered_spectrum_is_that_of_the_reordered_matrix():
    D, order = made_log_counts(), np.random.default_rng(1).permutation(11)
    found = kernels.decompose(D).permuted(order)
    np.testing.assert_array_equal(found.matrix, kernels.permute(D, order))
    np.testing.assert_allclose((found.vectors * found.values) @ found.vectors.T, found.matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("negative", "expected"),
    [
        ("clamp", [0.01, 2, 3]),
        ("magnitude", [2, 2, 3]),
        ("signed", [-2, 2, 3]),
        ("shift", [0.01, 8.01**0.5, 13.01**0.5]),
        ("positive", [0, 2, 3]),
    ],
)
def test_what_stands_for_a_negative_eigenvalue(negative, expected):
    values = np.array([-4.0, 4.0, 9.0])
    found = kernels.spectral_power(values, 0.5, negative=negative, floor=1e-4)
    if negative == "shift":
        expected = [(value + 4 + 1e-4) ** 0.5 for value in values]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_powers_and_floors_broadcast():
    values = np.array([-1.0, 2.0, 5.0])
    for negative in ("clamp", "magnitude", "signed", "shift", "positive"):
        found = kernels.spectral_power(
            values, np.array([[0.5], [-1.0]]), negative=negative, floor=[1e-3, 1e-6, 1e-9]
        )
        assert found.shape == (2, 3, 3)
        one = kernels.spectral_power(values, -1.0, negative=negative, floor=1e-6)
        np.testing.assert_array_equal(found[1, 1], one)


def test_an_unknown_choice_for_negative_eigenvalues_is_refused():
    with pytest.raises(ValueError, match="negative is 'absolute': use one of clamp, magnitude"):
        kernels.matrix_power(made_log_counts(), 0.5, negative="absolute")
    with pytest.raises(ValueError, match="floor is 0: it must be above 0"):
        kernels.matrix_power(made_log_counts(), 0.5, floor=0.0)


def test_the_power_one_with_signs_is_the_matrix_itself():
    D = made_log_counts()
    np.testing.assert_allclose(kernels.matrix_power(D, 1.0, negative="signed"), D, atol=1e-12)


def test_the_square_of_the_power_one_half_is_a_positive_definite_matrix_itself():
    D = positive_definite()
    for negative in ("clamp", "magnitude", "signed", "positive"):
        root = kernels.matrix_power(D, 0.5, negative=negative)
        np.testing.assert_allclose(root @ root, D, atol=1e-12)


def test_a_small_power_is_the_identity_less_a_tenth_of_the_negative_projector():
    spectrum = kernels.decompose(made_log_counts())
    assert 3 <= spectrum.n_negative <= 8
    P = kernels.negative_projector(spectrum)
    np.testing.assert_allclose(P @ P, P, atol=1e-13)
    assert np.trace(P) == pytest.approx(spectrum.n_negative)
    left = kernels.matrix_power(spectrum, 0.003) - (np.eye(11) - (1 - 1e-15**0.003) * P)
    assert np.abs(left).max() < 0.02  # 0.003 log 100 is 0.014, the other eigenvalues' share
    assert pytest.approx(0.0984, abs=1e-4) == 1 - 1e-15**0.003


@pytest.mark.parametrize("eps", [0.0, -0.1, 1.5, np.nan])
def test_powers_outside_zero_to_one_are_refused(eps):
    D = made_log_counts()
    for refused in (
        lambda: kernels.matrix_power(D, eps),
        lambda: kernels.k0_eigen(D, eps),
        lambda: kernels.k0_fft(D, eps),
        lambda: kernels.alpha_scan(D, [0.5, eps]),
        lambda: kernels.clamped_share(D, eps),
        lambda: kernels.taylor_terms(D, eps),
    ):
        with pytest.raises(
            ValueError, match=r"(eps|alphas) (has 1 NaN|is .*: D\^eps is defined here above 0 and up to 1)"
        ):
            refused()


def test_the_complex_logarithm_is_the_principal_one_and_its_imaginary_part_pi_times_the_projector():
    D = made_log_counts()
    found = kernels.log_matrix(D, "complex")
    np.testing.assert_allclose(found, scipy.linalg.logm(D.astype(complex)), atol=1e-10)
    np.testing.assert_allclose(found.real, kernels.log_matrix(D, "magnitude"), atol=1e-12)
    np.testing.assert_allclose(found.imag, np.pi * kernels.negative_projector(D), atol=1e-12)


def test_the_clamped_logarithm_adds_log_of_the_floor_on_the_projector_alone():
    D = made_log_counts()
    values = np.linalg.eigvalsh(D)
    for floor in (1e-15, 1e-5):
        trace = np.log(values[values > 0]).sum() + (values < 0).sum() * np.log(floor)
        assert np.trace(kernels.log_matrix(D, floor=floor)) == pytest.approx(trace)
    assert np.iscomplexobj(kernels.log_matrix(positive_definite(), "complex"))
    np.testing.assert_allclose(
        kernels.log_matrix(positive_definite()), scipy.linalg.logm(positive_definite()), atol=1e-10
    )
    with pytest.raises(ValueError, match="kind is 'real': use one of clamp, magnitude, complex"):
        kernels.log_matrix(D, "real")


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.arange(9.0).reshape(3, 3), r"D is not symmetric: entries \(0, 2\) and \(2, 0\).* differ by 4"),
        (np.zeros((2, 3)), r"D has shape \(2, 3\)"),
        (np.full((2, 2), np.inf), "4 NaN or infinite"),
    ],
)
def test_a_matrix_that_is_not_symmetric_has_no_spectrum_here(D, message):
    with pytest.raises(ValueError, match=message):
        kernels.decompose(D)
    with pytest.raises(ValueError, match=message):
        kernels.extract_kernel(np.eye(len(D)), D)


def test_a_vocabulary_that_does_not_fit_is_refused_before_any_work():
    message = r"vocabulary of 11 words.* needs about 5\.81 kB, and 1\.00 kB are .*most frequent words only"
    with pytest.raises(MemoryError, match=message):
        kernels.decompose(made_log_counts(), max_memory=1000)
    with pytest.raises(MemoryError, match=r"a kernel of shape \(11, 11\) needs .* most frequent words only"):
        kernels.extract_kernel(np.eye(11), made_log_counts(), max_memory=1000)
    for refused in (
        lambda: kernels.training_free_embeddings(np.array([0, 1]), 1_000_000, 64),
        lambda: kernels.log_counts(sparse.csr_array((1_000_000, 1_000_000), dtype=np.int64)),
        lambda: kernels.conventions(np.array([0, 1]), 1_000_000),
    ):
        with pytest.raises(MemoryError, match=r"vocabulary of 1,000,000 words"):
            refused()
    with pytest.raises(MemoryError, match="log counts of a vocabulary of 11 words"):
        kernels.log_counts(made_counts(), max_memory=1000)
    with pytest.raises(MemoryError, match="5 ways of counting of a vocabulary of 11 words"):
        kernels.conventions(made_text(), 11, windows=(2, 5), max_memory=5000)


def peak_bytes(function) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_d_takes_no_more_memory_than_it_asks_for():
    V = 1200  # twice as many rows as are compared at a time, and some
    ids = np.random.default_rng(0).permutation(np.arange(3 * V) % V)
    counts = count_pairs(ids, V, window=2)
    d = 8 * V * V
    assert peak_bytes(lambda: kernels.log_counts(counts, max_memory=2 * d)) < 2 * d
    assert peak_bytes(lambda: kernels.conventions(ids, V, windows=(2,), max_memory=7 * d)) < 7 * d


def not_symmetric() -> np.ndarray:
    D = made_log_counts()
    D[2, 5] += 7
    return D


def with_silent_words() -> np.ndarray:
    D = made_log_counts()
    D[[3, 7]] = D[:, [3, 7]] = 0
    return D


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (not_symmetric(), r"D is not symmetric: entries \(2, 5\) and \(5, 2\).* differ by 7;"),
        (with_silent_words(), r"2 word\(s\) have no pair at all \(ids 3, 7\).* keep = abs\(D\)"),
        (np.where(np.eye(11), np.nan, 1.0), "D has 11 NaN or infinite"),
    ],
    ids=["asymmetric", "empty rows", "NaN"],
)
@pytest.mark.parametrize(
    "function",
    [
        kernels.decompose,
        kernels.k0_eigen,
        kernels.k0_fft,
        kernels.row_identity,
        kernels.impulse_row,
        kernels.clamped_share,
        kernels.taylor_terms,
        kernels.noise_gain,
        lambda D: kernels.alpha_scan(D, [0.5]),
        lambda D: kernels.responses(D, "fft"),
        lambda D: kernels.deconvolve(np.eye(11), D),
        lambda D: kernels.deconvolved_row(np.eye(11), D),
        lambda D: kernels.extract_kernel(np.eye(11), D, zeros="drop"),
        lambda D: kernels.reconstruct(D, np.eye(11)),
        lambda D: kernels.reconstruct_from_row(D, np.ones(11)),
    ],
)
def test_whatever_takes_d_refuses_a_matrix_that_is_none(function, D, message):
    with pytest.raises(ValueError, match=message):
        function(D)


def test_the_pair_that_differs_most_is_named_beyond_the_first_block_of_rows():
    counts = np.ones((600, 600))  # more than are compared at a time
    counts[590, 3], counts[599, 570] = 2, 4
    with pytest.raises(ValueError, match=r"entries \(570, 599\) and \(599, 570\).* differ by 3;"):
        kernels.log_counts(counts)
    counts[3, 590], counts[570, 599] = 2, 4
    assert kernels.log_counts(counts).shape == (600, 600)


def test_the_estimate_grows_with_the_square_in_memory_and_the_cube_in_time():
    small, large = kernels.estimate(1_000), kernels.estimate(15_000)
    assert large.n_bytes == 225 * small.n_bytes
    assert large.seconds == pytest.approx(3375 * small.seconds)
    assert 8 * 15_000**2 < large.n_bytes < 16e9


# --- extraction ---------------------------------------------------------------------------------------


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


def test_a_kernel_of_two_words_by_hand():
    # fft2 of [[a, b], [b, c]] is [[a + 2b + c, a - c], [a - c, a - 2b + c]]; D: 6, 1, 1, 2; W = I: 2, 0, 0, 2
    found = kernels.extract_kernel(np.eye(2), np.array([[2.5, 1.0], [1.0, 1.5]]))
    x, y = 2 / 6, 2 / 2
    expected = np.array([[x + y, x - y], [x - y, x + y]]) / 4
    np.testing.assert_allclose(found.kernel, expected, atol=1e-15)
    assert found.condition == pytest.approx(6)


@given(V=st.integers(2, 12), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_every_matrix_whatever_has_a_kernel_that_reconstructs_it(V, seed):
    W, D = np.random.default_rng(seed).normal(size=(V, V)), symmetric(V, seed + 1)
    found = kernels.extract_kernel(W, D, zeros="drop")
    assume(found.condition < 1e6 and found.n_zeros + found.n_near_zeros == 0)
    error = np.linalg.norm(kernels.reconstruct(D, found.kernel) - W) / np.linalg.norm(W)
    assert error < 1e-8  # the claim's own bound; rounding times condition stays under 1e-9


@given(
    V=st.integers(3, 11),
    seed=st.integers(0, 10**6),
    direction=st.sampled_from([1, -1]),
    bump=st.floats(0.01, 10) | st.just(0.0),
)
@settings(deadline=None, max_examples=100)
def test_a_kernel_is_circulant_just_if_the_gram_matrix_is(V, seed, direction, bump):
    W = kernels.circulant(np.random.default_rng(seed).normal(size=V), direction=direction)
    W[0, 0] += bump  # one entry makes the difference
    D = symmetric(V, seed + 1)
    found = kernels.extract_kernel(W, D, zeros="drop")
    assume(found.condition < 1e6 and found.n_zeros + found.n_near_zeros == 0)
    expected = kernels.circulant(found.k0, direction=direction)
    departure = np.abs(found.kernel - expected).max() / np.abs(found.kernel).max()
    # rounding and condition: 1e-9; one entry of 0.01 in W leaves at least 0.01 over the condition's 1e6
    assert departure < 1e-9 if bump == 0 else departure > 1e-9


def test_a_circulant_matrix_lives_on_one_line_of_frequencies():
    V = 9
    for direction in (1, -1):
        transform = np.fft.fft2(
            kernels.circulant(np.random.default_rng(0).normal(size=V), direction=direction)
        )
        a, b = np.divmod(np.arange(V * V), V)
        on_the_line = ((a + direction * b) % V == 0).reshape(V, V)
        assert np.abs(transform[~on_the_line]).max() < 1e-12 < np.abs(transform[on_the_line]).min()


def test_of_an_orthogonal_embedding_the_kernel_is_circulant_and_its_row_the_identitys():
    D = made_log_counts(12)
    found = kernels.extract_kernel(2.5 * np.eye(12), D)
    assert kernels.circulant_scores(found.kernel) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found.k0, 2.5 * kernels.row_identity(D), **CLOSE)
    for direction in (1, -1):
        shifted = kernels.extract_kernel(kernels.circulant(np.eye(12)[0], direction=direction), D)
        assert kernels.circulant_scores(shifted.kernel, direction=direction) == pytest.approx(1, abs=1e-12)


def test_a_stack_of_gram_matrices_gives_the_kernels_of_each():
    D = made_log_counts(7)
    stack = np.stack([[positive_definite(7, seed), np.eye(7)] for seed in range(3)])
    found = kernels.extract_kernel(stack, kernels.decompose(D))
    assert found.kernel.shape == (3, 2, 7, 7)
    assert found.k0.shape == (3, 2, 7)
    one = kernels.extract_kernel(stack[2, 0], D)
    np.testing.assert_allclose(found.kernel[2, 0], one.kernel, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernels.reconstruct(D, found.kernel), stack, atol=1e-10)


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


def test_a_frequency_below_rounding_counts_as_lost_though_it_is_not_exactly_zero():
    D = kernels.circulant(1 + np.cos(2 * np.pi * np.arange(7) / 7))  # rounding off the line a + b = 0
    with pytest.raises(ValueError, match=r"fft2\(D\) is exactly 0 at \d+ of 49 .* below rounding at \d+"):
        kernels.extract_kernel(np.eye(7), D)
    found = kernels.extract_kernel(np.eye(7), D, zeros="drop")
    assert found.n_zeros + found.n_near_zeros == 46  # of 7 frequencies on the line three are not 0
    assert found.n_near_zeros > 0
    assert found.condition == pytest.approx(2)


def test_matrices_that_do_not_fit_are_refused():
    D = made_log_counts(7)
    with pytest.raises(ValueError, match=r"W has shape \(6, 6\), and D is 7 x 7"):
        kernels.extract_kernel(np.eye(6), D)
    with pytest.raises(ValueError, match=r"W has 1 NaN"):
        kernels.extract_kernel(np.diag([np.nan, 1, 1, 1, 1, 1, 1]), D)
    with pytest.raises(ValueError, match=r'use "refuse" or "drop"'):
        kernels.extract_kernel(np.eye(7), D, zeros="replace")
    with pytest.raises(ValueError, match="form is 'listing'"):
        kernels.alpha_scan(D, [0.5], form="listing")
    with pytest.raises(ValueError, match="form is 'listing'"):
        kernels.training_free_embeddings(made_text(), 11, 3, form="listing")
    with pytest.raises(ValueError, match="direction is 2"):
        kernels.circulant([1, 2, 3], direction=2)


def test_a_gram_matrix_is_taken_of_tied_embeddings_alone():
    E = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(kernels.tied_gram(E, E.copy()), E @ E.T)
    other = E.copy()
    other[[2, 5]] += 1e-7
    with pytest.raises(ValueError, match=r"not tied: 2 of 7 words have another output vector"):
        kernels.tied_gram(E, other)
    with pytest.raises(ValueError, match=r"not tied: its embedding has shape \(7, 3\), its output \(6, 3\)"):
        kernels.tied_gram(E, E[1:])
    E[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"embedding has 1 NaN"):
        kernels.tied_gram(E, E)  # NaN is not equal to itself: that alone would read as another vector


@pytest.mark.parametrize("direction", [1, -1])
def test_scores_of_a_stack_are_those_of_each_matrix(direction):
    stack = np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    stack[0, 0, 3] = 0  # a row without a direction counts as 0
    found = kernels.circulant_scores(stack, direction=direction)
    expected = [[metrics.circulant_score(m, direction=direction) for m in row] for row in stack]
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_the_circulant_share_is_one_for_circulants_and_one_over_v_for_noise():
    rng = np.random.default_rng(0)
    assert kernels.circulant_share(kernels.circulant(rng.normal(size=8))) == pytest.approx(1)
    found = kernels.circulant_share(rng.normal(size=(200, 20, 20)))
    assert found.mean() == pytest.approx(1 / 20, rel=0.1)  # a standard error of 0.02 of it
    matrix = rng.normal(size=(6, 6))
    nearest = kernels.circulant(kernels.cyclic_diagonals(matrix) / 6)
    left = 1 - ((matrix - nearest) ** 2).sum() / (matrix**2).sum()  # Pythagoras: it is a projection
    assert kernels.circulant_share(matrix) == pytest.approx(left)


@pytest.mark.parametrize("seed", range(4))
def test_random_embeddings_score_what_the_gain_of_noise_lets_expect(seed):
    D, d = made_log_counts(30, seed), 400
    rows = np.random.default_rng(seed).normal(size=(300, 30, d))
    found = kernels.extract_kernel(rows @ rows.transpose(0, 2, 1), D)
    expected = float(kernels.expected_score(D, d**-0.5))
    # medians against a ratio of means: measured 0.00 to 0.03 above it, while scores go from 0.2 to 0.99
    assert np.median(kernels.circulant_scores(found.kernel)) == pytest.approx(expected, abs=0.04)
    identity = np.tile(kernels.row_identity(D), (300, 1))
    assert np.median(metrics.cosines(found.k0, identity)) == pytest.approx(expected**0.5, abs=0.04)


def test_the_gain_of_noise_is_the_mean_energy_of_deconvolved_symmetric_noise():
    D = np.fft.ifft2(3.0 - 2 * np.eye(9)).real  # fft2(D) is 1 where a = b, where symmetric noise is louder
    half = np.random.default_rng(0).normal(size=(4000, 9, 9))
    noise = (half + half.transpose(0, 2, 1)) / np.sqrt(2)  # variance 1 off the diagonal, 2 on it
    louder = (kernels.extract_kernel(noise, D).kernel ** 2).sum(axis=(1, 2)).mean()
    identity = (kernels.extract_kernel(np.eye(9), D).kernel ** 2).sum()
    assert kernels.noise_gain(D) == pytest.approx(louder / identity, rel=0.02)  # standard error 0.004
    with pytest.raises(ValueError, match=r"exactly 0 at 2 frequencies"):
        kernels.noise_gain(np.array([[2.0, 1.0], [1.0, 2.0]]))


@pytest.mark.parametrize("direction", [1, -1])
def test_reconstruction_from_a_row_is_the_convolution_with_its_circulant(direction):
    D, k0 = made_log_counts(5), np.random.default_rng(0).normal(size=5)
    expected = np.zeros((5, 5))
    for i, j, p, q in np.ndindex(5, 5, 5, 5):
        expected[i, j] += D[p, q] * k0[(j - q - direction * (i - p)) % 5]
    found = kernels.reconstruct_from_row(D, k0, direction=direction)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # whatever D is, the result is a circulant of that kind: it knows of a word its id alone
    np.testing.assert_allclose(found, kernels.circulant(found[0], direction=direction), atol=1e-12)


# --- k0 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("V", [7, 8])  # the half plane of frequencies ends otherwise for even V
@pytest.mark.parametrize("eps", [0.001, 0.003, 0.5, 1.0])
def test_both_listings_are_those_of_the_paper(V, eps):
    D = made_log_counts(V)
    np.testing.assert_allclose(kernels.k0_eigen(D, eps), slow_first_listing(D, eps), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(kernels.k0_fft(D, eps), slow_second_listing(D, eps), **CLOSE)


def test_the_second_listing_replaces_small_frequencies_as_the_paper_does():
    D = kernels.circulant([3.0, 1.0, 0.5, 1.0])
    found, expected = kernels.k0_fft(D, 0.5, safe=kernels.SAFE), slow_second_listing(D, 0.5)
    np.testing.assert_allclose(found, expected, atol=1e-4)  # rounding, 1e-15, over the listing's 1e-10


def singular() -> np.ndarray:
    """D of counts that are circulant: off the line a + b = 0 its transform is 0."""
    return kernels.log_counts(kernels.circulant([20, 7, 3, 1, 3, 7]))


@pytest.mark.parametrize(
    "function",
    [
        kernels.k0_fft,
        kernels.impulse_row,
        kernels.clamped_share,
        kernels.taylor_terms,
        lambda D, **safe: kernels.alpha_scan(D, [0.5], **safe),
        lambda D, **safe: kernels.responses(D, "fft", **safe),
        lambda D, **safe: kernels.deconvolve(np.eye(len(D)), D, **safe),
        lambda D, **safe: kernels.deconvolved_row(np.eye(len(D)), D, **safe),
        lambda D, **safe: kernels.candidates(np.expm1(D).round(), D, embedding_dim=2, **safe),
    ],
)
def test_zeros_of_the_transform_are_counted_and_refused_unless_the_listings_number_is_asked_for(function):
    D = singular()
    # 30 of 36 lie off the line; how many of them are exactly 0 is rounding's to say
    with pytest.raises(
        ValueError, match=r"exactly 0 at \d+ of 36 .*1e-10 at \d+: .*safe=kernels.SAFE"
    ) as caught:
        function(D)
    told = [int(word) for word in re.findall(r" at (\d+)", str(caught.value))]
    assert sum(told) == 30
    function(D, safe=kernels.SAFE)


@pytest.mark.parametrize("V", [3, 4])  # the half plane ends otherwise for even V; both are exact, unlike 5
def test_zeros_are_counted_over_all_frequencies_as_extraction_counts_them(V):
    D = np.ones((V, V))  # its transform is V^2 once, and 0
    for function in (kernels.impulse_row, lambda D: kernels.extract_kernel(np.eye(V), D)):
        with pytest.raises(ValueError, match=rf"exactly 0 at {V * V - 1} of {V * V} frequencies"):
            function(D)
    with pytest.raises(ValueError, match=rf"a \+ b = 0 is exactly 0 at {V - 1} of {V} frequencies"):
        kernels.row_identity(D)


def test_what_divides_by_no_zero_asks_for_nothing():
    D = singular()
    extracted = kernels.extract_kernel(np.eye(6), D, zeros="drop")
    np.testing.assert_allclose(kernels.row_identity(D), extracted.k0, **CLOSE)  # its line alone has no zero
    whole = kernels.k0_eigen(D, 0.5)
    np.testing.assert_allclose(kernels.alpha_scan(D, [0.5], form="eigen")[0], whole, rtol=1e-12)
    assert np.isfinite(kernels.taylor_terms(D, form="eigen").both).all()


def test_without_zeros_the_listings_number_changes_nothing():
    counts = made_counts(12)
    plain, safe = (kernels.candidates(counts, embedding_dim=4, safe=safe) for safe in (None, kernels.SAFE))
    for label, candidate in plain.items():
        np.testing.assert_array_equal(candidate.values, safe[label].values, err_msg=label)


def test_a_frequency_between_rounding_and_the_listings_number_is_refused_too():
    transform = np.full((5, 5), 3.0)
    transform[0, 0], transform[1, 1], transform[4, 4] = 9.0, 2e-11, 2e-11
    D = np.fft.ifft2(transform).real  # 1e-15, rounding, is far below 2e-11
    with pytest.raises(ValueError, match=r"exactly 0 at 0 of 25 .* 1e-10 at 2: "):
        kernels.k0_fft(D)
    assert kernels.extract_kernel(np.eye(5), D).n_near_zeros == 0  # it can be divided: the listing does not
    large = 1e8 * kernels.circulant(1 + np.cos(2 * np.pi * np.arange(7) / 7))
    with pytest.raises(ValueError, match=r"exactly 0 at \d+ of 49 frequencies, and below rounding"):
        kernels.k0_fft(large)  # rounding, 1e-8 here, is above the listing's number: nothing else would see it
    for nothing in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"safe is .*must be above 0"):
            kernels.k0_fft(D, safe=nothing)


def test_zeros_in_the_transform_of_one_row_are_refused_in_the_formula_that_divides_by_it():
    counts = made_counts(12)
    counts[4] = counts[:, 4] = 2  # a row without any wave
    with pytest.raises(ValueError, match=r"fft of D's row is exactly 0 at 11 of 12 frequencies"):
        kernels.candidates(counts, row=4)
    found = kernels.candidates(counts, row=4, safe=kernels.SAFE)
    assert np.isfinite(found["H1 (as written)"].values).all()
    assert np.isfinite(kernels.candidates(counts)["H1 (as written)"].values).all()


def test_embeddings_in_the_fft_form_are_refused_for_a_text_whose_transform_has_zeros():
    ids = np.arange(100) % 2  # either word meets itself and the other equally often
    with pytest.raises(ValueError, match="exactly 0 at 2 of 4 frequencies"):
        kernels.training_free_embeddings(ids, 2, 1, form="fft")
    found = kernels.training_free_embeddings(ids, 2, 1, form="fft", safe=kernels.SAFE)
    np.testing.assert_array_equal(found.k0, kernels.k0_fft(found.D, safe=kernels.SAFE))
    assert np.isfinite(kernels.training_free_embeddings(ids, 2, 1).E).all()  # the eigen form divides by none


@pytest.mark.parametrize("row", [11, -12, 2.0, "0"])
def test_rows_that_d_has_not_are_refused(row):
    D = made_log_counts()
    for refused in (
        lambda: kernels.k0_eigen(D, row=row),
        lambda: kernels.k0_fft(D, row=row),
        lambda: kernels.row_identity(D, row=row),
        lambda: kernels.impulse_row(D, row=row),
        lambda: kernels.deconvolved_row(D, D, row=row),
        lambda: kernels.responses(D, "eigen", row=row),
        lambda: kernels.alpha_scan(D, [0.5], row=row),
        lambda: kernels.clamped_share(D, row=row),
        lambda: kernels.taylor_terms(D, row=row),
        lambda: kernels.candidates(made_counts(), row=row),
    ):
        with pytest.raises(ValueError, match=rf"row is {row!r}: D has rows 0 to 10, and -1 is the last"):
            refused()


def test_many_powers_are_refused_where_one_is_taken():
    D = made_log_counts()
    for function in (kernels.k0_eigen, kernels.k0_fft, kernels.matrix_power, kernels.taylor_terms):
        with pytest.raises(ValueError, match=r"eps has shape \(2,\): .*alpha_scan takes many"):
            function(D, [0.1, 0.2])


def test_the_power_one_deconvolved_is_an_impulse_where_signs_are_kept_and_is_not_where_they_are_clamped():
    spectrum = kernels.decompose(made_log_counts())
    assert spectrum.n_negative > 0
    impulse = np.eye(11)[0]
    np.testing.assert_allclose(kernels.k0_fft(spectrum, 1.0, negative="signed"), impulse, **CLOSE)
    clamped = kernels.k0_fft(spectrum, 1.0)
    assert clamped @ impulse < 0.9 * np.linalg.norm(clamped)  # D without its negative half is another matrix
    whole = kernels.decompose(positive_definite())
    np.testing.assert_allclose(kernels.k0_fft(whole, 1.0), np.eye(9)[0], **CLOSE)


def test_what_stands_for_small_frequencies_is_the_callers_number():
    D = made_log_counts(8)
    safe = 1.01 * float(np.median(np.abs(slow_fft2(D))))  # between two sizes, not on one
    below = np.where(np.abs(slow_fft2(D)) > safe, slow_fft2(D), safe)
    expected = slow_fft2(slow_fft2(slow_power(D, 0.5)) / below, sign=1).real[0]
    np.testing.assert_allclose(kernels.k0_fft(D, 0.5, safe=safe), expected, **CLOSE)
    found = kernels.alpha_scan(D, [0.5], safe=safe)[0]
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("form", ["eigen", "fft"])
@pytest.mark.parametrize("negative", ["clamp", "magnitude", "signed", "shift", "positive"])
def test_a_slider_by_one_product_gives_what_the_long_way_does(form, negative):
    spectrum = kernels.decompose(made_log_counts(10))
    alphas = [0.5, 0.003]
    long_way = kernels.k0_eigen if form == "eigen" else kernels.k0_fft
    for row in (0, 4, -1):
        found = kernels.alpha_scan(spectrum, alphas, negative=negative, form=form, floor=1e-9, row=row)
        for alpha, values in zip(alphas, found, strict=True):
            expected = long_way(spectrum, alpha, negative=negative, floor=1e-9, row=row)
            np.testing.assert_allclose(values, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_any_row_of_a_deconvolution_is_that_row_of_all_of_it():
    D, M = made_log_counts(8), symmetric(8, seed=3)
    whole = kernels.deconvolve(M, D)
    np.testing.assert_allclose(whole, kernels.extract_kernel(M, D).kernel, **CLOSE)
    for row in (0, 3, 7):
        np.testing.assert_allclose(kernels.deconvolved_row(M, D, row=row), whole[row], **CLOSE)
        np.testing.assert_allclose(
            kernels.row_identity(D, row=row), kernels.deconvolve(np.eye(8), D)[row], **CLOSE
        )
        impulse = np.zeros((8, 8))
        impulse[0, 0] = 1
        np.testing.assert_allclose(
            kernels.impulse_row(D, row=row), kernels.deconvolve(impulse, D)[row], **CLOSE
        )
    twice = kernels.deconvolve(M + 2j * M, D)
    np.testing.assert_allclose(twice, (1 + 2j) * whole, **CLOSE)


def test_where_d_is_circulant_too_both_forms_are_one():
    first = np.array([3.0, 1.0, 0.4, 0.2, 0.4, 1.0])
    D = kernels.circulant(first)
    assert np.linalg.eigvalsh(D).min() > 0
    deconvolved = kernels.extract_kernel(kernels.matrix_power(D, 0.3), D, zeros="drop").kernel
    np.testing.assert_allclose(6 * deconvolved[0], kernels.k0_eigen(D, 0.3), rtol=1e-10)


def test_the_eigen_form_follows_its_word_and_the_fft_form_does_not():
    D, order = made_log_counts(), np.random.default_rng(2).permutation(11)
    place = int(np.flatnonzero(order == 0)[0])
    spectrum = kernels.decompose(D)
    moved = spectrum.permuted(order)
    eigen = kernels.k0_eigen(spectrum)
    np.testing.assert_allclose(kernels.k0_eigen(moved, row=place), eigen[order], rtol=1e-8)
    fft = kernels.k0_fft(spectrum)
    assert np.abs(kernels.k0_fft(moved, row=place) - fft[order]).max() > 0.1 * np.abs(fft).max()


@pytest.mark.parametrize("step", [1, 5, -1])
def test_words_moved_round_leave_the_fft_form_where_it_was_and_steps_between_ids_reorder_it(step):
    V, shift = 11, 4
    order = (step * np.arange(V) + shift) % V
    D = made_log_counts(V)
    found = kernels.k0_fft(kernels.permute(D, order))
    expected = kernels.k0_fft(D)[(step * np.arange(V)) % V]  # whatever word comes first
    np.testing.assert_allclose(found, expected, **CLOSE)
    W = positive_definite(V)
    before, after = (
        kernels.extract_kernel(kernels.permute(W, o), kernels.permute(D, o)).kernel
        for o in (np.arange(V), order)
    )
    assert kernels.circulant_scores(after) == pytest.approx(kernels.circulant_scores(before), abs=1e-9)


def test_in_the_eigen_form_the_clamp_decides_and_eps_does_not_matter():
    spectrum = kernels.decompose(made_log_counts())
    scan = kernels.alpha_scan(spectrum, [0.001, 0.003, 0.01, 0.5], form="eigen")
    projector = np.tile(kernels.negative_projector(spectrum)[0], (4, 1))
    np.testing.assert_allclose(metrics.cosines(scan, projector), 1, atol=1e-12)
    np.testing.assert_allclose(kernels.clamped_share(spectrum, [0.001, 0.5]).eigen, 1, atol=1e-12)


def test_shares_of_clamped_eigenvalues_are_what_is_gone_without_them():
    D = made_log_counts()
    spectrum = kernels.decompose(D)
    values, vectors = np.linalg.eigh(D)
    eps, floor = 0.01, 0.05
    found = kernels.clamped_share(D, eps, floor=floor)
    low = values < floor
    whole = kernels.k0_eigen(D, eps, floor=floor)
    part = (vectors[:, low] * floor ** (eps - 1)) @ vectors[0, low]
    assert found.eigen == pytest.approx((part @ part) / (whole @ whole))
    identity = kernels.row_identity(D)
    away = kernels.k0_fft(D, eps, floor=floor) - identity
    clamped = (floor**eps - 1) * kernels.deconvolved_row(vectors[:, low] @ vectors[:, low].T, spectrum)
    left = away - clamped
    assert found.fft == pytest.approx(1 - (left @ left) / (away @ away))
    assert found.departure == pytest.approx(np.linalg.norm(away) / np.linalg.norm(identity))


def test_shares_on_a_grid_of_floors_and_powers_are_those_one_by_one():
    D = made_log_counts()
    eps, floors = np.array([0.001, 0.02])[:, None], np.array([1e-15, 1e-6, 1e-2])
    found = kernels.clamped_share(D, eps, floor=floors)
    one = kernels.clamped_share(D, 0.02, floor=1e-6)
    for name in ("eigen", "fft", "departure"):
        assert getattr(found, name).shape == (2, 3)
        assert getattr(found, name)[1, 1] == pytest.approx(float(getattr(one, name)))


def test_without_eigenvalues_below_the_floor_nothing_is_clamped():
    found = kernels.clamped_share(positive_definite(), 0.003)
    assert found.eigen == 0
    assert found.fft == 0


def test_the_terms_of_the_expansion_leave_an_error_of_second_order():
    D = positive_definite()
    for form in ("fft", "eigen"):
        errors = []
        for eps in (0.02, 0.01):
            terms = kernels.taylor_terms(D, eps, form=form)
            errors.append(np.linalg.norm(terms.both - terms.power) / np.linalg.norm(terms.identity))
        assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)  # the third order: 0.02 |log D| / 3
        assert errors[1] < 1e-3


def test_the_terms_are_rows_of_the_matrices_that_they_name():
    D = made_log_counts(8)
    for kind in ("clamp", "magnitude", "complex"):
        terms = kernels.taylor_terms(D, kind=kind)
        log = kernels.deconvolve(kernels.log_matrix(D, kind), D)[0]
        np.testing.assert_allclose(terms.log, log, **CLOSE)
        np.testing.assert_allclose(terms.identity, kernels.row_identity(D), **CLOSE)
        np.testing.assert_allclose(terms.power, kernels.k0_fft(D), **CLOSE)
        np.testing.assert_allclose(terms.both, terms.identity + 0.003 * log.real, **CLOSE)
    np.testing.assert_allclose(
        kernels.taylor_terms(D, unit="impulse").identity, kernels.impulse_row(D), **CLOSE
    )
    plain = kernels.taylor_terms(D, kind="magnitude", form="eigen")
    np.testing.assert_allclose(plain.identity, np.linalg.inv(D)[0], rtol=1e-8, atol=1e-9)


# --- fourteen formulas --------------------------------------------------------------------------------

IDS = [*(f"H{i}" for i in range(1, 13)), "H_cI", "H_logD"]


@pytest.fixture(scope="module")
def found():
    return kernels.candidates(made_counts(12), embedding_dim=4)


def test_every_formula_of_the_table_has_readings_of_finite_numbers(found):
    assert list(dict.fromkeys(c.id for c in found.values())) == IDS
    assert all(label == c.label == f"{c.id} ({c.reading})" for label, c in found.items())
    for candidate in found.values():
        assert candidate.values.shape == (12,), candidate.label
        assert candidate.values.dtype == float, candidate.label
        assert np.isfinite(candidate.values).all(), candidate.label
        assert candidate.values.any(), candidate.label


def test_formulas_that_the_text_defines_are_as_it_defines_them(found):
    counts, D = made_counts(12), made_log_counts(12)
    transform = np.fft.fft2(D)
    expected = {
        "H1 (as written)": np.fft.ifft(1 / np.sqrt(np.abs(np.fft.fft(D[0])))).real,
        "H2 (as written)": np.sqrt((D**2).sum(axis=1)),
        "H3 (frequency of the words)": -np.log(counts.sum(axis=1) / counts.sum()),
        "H4 (alpha 0.003)": slow_first_listing(D, 0.003),
        "H5 (as written)": np.fft.ifft2(np.fft.fft2(ppmi(counts)) / transform).real[0],
        "H8 (as written)": D.sum(axis=0) / 12,
        "H8 (rows rolled back)": np.mean([np.roll(D[i], -i) for i in range(12)], axis=0),
        "H10 (as written)": np.correlate(*[np.linalg.eigvalsh(D)[::-1]] * 2, mode="full")[11:],
        "H12 (alpha 0.01)": slow_second_listing(D, 0.01),
        "H_cI (identity matrix)": np.fft.ifft2(np.fft.fft2(np.eye(12)) / transform).real[0],
        "H_cI (as written: an impulse)": np.fft.ifft2(1 / transform).real[0],
        "H_logD (clamped)": kernels.deconvolve(kernels.log_matrix(D), D)[0],
    }
    for label, values in expected.items():
        np.testing.assert_allclose(found[label].values, values, rtol=1e-7, atol=1e-9, err_msg=label)


def test_the_logarithm_of_frequency_is_finite_where_a_word_never_meets_itself():
    counts = made_counts(12)
    counts[3, 3] = 0
    found = kernels.candidates(counts)
    assert found["H3 (as written, zeros kept 0)"].values[3] == 0
    assert found["H3 (as written, zeros clamped)"].values[3] == pytest.approx(-np.log(1e-10))
    kept = counts.diagonal() > 0
    expected = -np.log(np.log1p(counts.diagonal()[kept]))
    np.testing.assert_allclose(found["H3 (as written, zeros kept 0)"].values[kept], expected)


@pytest.mark.parametrize("rank", ["10", "d", "V/2", "at the largest gap"])
def test_what_is_kept_and_what_is_left_add_up_to_the_deconvolution_of_d_an_impulse(found, rank):
    total = found[f"H6 (rank {rank}, deconvolved)"].values + found[f"H9 (rank {rank}, deconvolved)"].values
    np.testing.assert_allclose(total, np.eye(12)[0], atol=1e-9)


def test_the_closest_matrix_of_a_rank_is_that_of_the_singular_values(found):
    D = made_log_counts(12)
    u, s, vt = np.linalg.svd(D)
    np.testing.assert_allclose(found["H6 (rank d, row)"].values, ((u[:, :4] * s[:4]) @ vt[:4])[0], atol=1e-12)
    inverse = np.linalg.pinv((u[:, :4] * s[:4]) @ vt[:4], rcond=1e-10)
    np.testing.assert_allclose(found["H6 (rank d, pseudo-inverse)"].values, inverse[0], atol=1e-12)
    gap = int(np.argmax(s[1:-1] - s[2:])) + 2
    kept = ((u[:, :gap] * s[:gap]) @ vt[:gap])[0]
    np.testing.assert_allclose(found["H6 (rank at the largest gap, row)"].values, kept, atol=1e-12)


def test_the_low_pass_leaves_no_high_frequency(found):
    passed = np.abs(np.fft.fft(found["H7 (half kept)"].values))
    np.testing.assert_allclose(passed[:3], np.abs(np.fft.fft(made_log_counts(12)[0]))[:3], rtol=1e-12)
    np.testing.assert_allclose(passed[3:10], 0, atol=1e-12)


def test_candidates_of_another_row_and_of_a_spectrum_at_hand_are_consistent():
    counts = made_counts(12)
    spectrum = kernels.decompose(kernels.log_counts(counts))
    here = kernels.candidates(sparse.csr_array(counts), spectrum, embedding_dim=4, row=5)
    np.testing.assert_allclose(
        here["H12 (alpha 0.01)"].values, kernels.k0_fft(spectrum, 0.01, row=5), **CLOSE
    )
    np.testing.assert_allclose(
        here["H_cI (identity matrix)"].values, kernels.row_identity(spectrum, row=5), **CLOSE
    )
    rolled = np.mean([np.roll(spectrum.matrix[i], 5 - i) for i in range(12)], axis=0)
    np.testing.assert_allclose(here["H8 (rows rolled back)"].values, rolled, **CLOSE)
    with pytest.raises(ValueError, match="counts have 12 words and D has 7"):
        kernels.candidates(counts, made_log_counts(7))


# --- embeddings without training ----------------------------------------------------------------------


def test_the_pipeline_is_the_papers_listing():
    ids, V = made_text(150, vocab_size=6), 6
    E, k0, D = slow_embeddings(ids, V, 4, window=5, eps=0.003)
    found = kernels.training_free_embeddings(ids, V, 4)
    np.testing.assert_allclose(found.D, D, rtol=1e-14)
    np.testing.assert_allclose(found.k0, k0, rtol=1e-8)
    scale = np.abs(E @ E.T).max()
    if found.gap > 1e-6:  # else the cut parts a pair of equal eigenvalues, and both are arbitrary
        np.testing.assert_allclose(found.E @ found.E.T / scale, E @ E.T / scale, atol=1e-8)
    W = kernels.reconstruct_from_row(D, k0)
    values = np.linalg.eigvalsh((W + W.T) / 2)
    assert found.kept_share == pytest.approx((E**2).sum() / np.abs(values).sum())
    assert found.negative_share == pytest.approx(-values[values < 0].sum() / np.abs(values).sum())


@pytest.mark.parametrize("form", ["eigen", "fft"])
@pytest.mark.parametrize("negative", ["clamp", "magnitude"])
def test_embeddings_of_one_row_know_of_two_words_the_distance_of_their_ids_alone(form, negative):
    found = kernels.training_free_embeddings(made_text(), 11, 11, form=form, negative=negative)
    gram = found.E @ found.E.T
    np.testing.assert_allclose(gram, kernels.circulant(gram[0]), atol=1e-9 * np.abs(gram).max())


def test_borders_of_documents_and_the_window_reach_the_counts():
    ids, starts = made_text(300), np.array([0, 50, 200])
    found = kernels.training_free_embeddings(ids, 11, 3, window=3, document_starts=starts, form="fft")
    expected = sum(slow_counts(part, 11, 3) for part in np.split(ids, starts[1:]))
    np.testing.assert_allclose(found.D, np.log(1 + expected), rtol=1e-14)
    np.testing.assert_allclose(found.k0, kernels.k0_fft(found.D), rtol=1e-12)
    assert found.E.shape == (11, 3)


def test_more_dimensions_than_words_are_refused():
    with pytest.raises(ValueError, match="embedding_dim is 12: 11 words span 1 to 11"):
        kernels.training_free_embeddings(made_text(), 11, 12)


# --- what must not change the answer ------------------------------------------------------------------


@pytest.fixture(scope="module")
def invariances():
    counts = made_counts(12)
    E = np.random.default_rng(0).normal(size=(12, 5))
    table = kernels.invariances(counts, E, words=[f"w{-i % 7}{i}" for i in range(12)], n_random=3)
    return table.set_index(["property", "quantity"]).holds


@pytest.mark.parametrize(
    ("change", "quantity", "holds"),
    [
        ("words in random order, same word's row", "k0, eigen form", True),
        ("words in random order, first row", "k0, eigen form", False),
        ("words in random order, same word's row", "k0, fft form", False),
        ("words in random order, same word's row", "k0, extracted", False),
        ("words in random order, same word's row", "circulant score", False),
        ("words in random order, same word's row", "cosine, fft form", False),
        ("words in alphabetical order, same word's row", "k0, eigen form", True),
        ("words in alphabetical order, same word's row", "k0, fft form", False),
        ("words moved on by one place, first row", "k0, fft form", True),
        ("words moved on by one place, first row", "k0, extracted", True),
        ("words moved on by one place, first row", "k0, eigen form", False),
        ("words moved on by one place, same word's row", "k0, fft form", False),
        ("words moved on by one place, first row", "circulant score", True),
        ("words in reverse order, first row", "circulant score", True),
        ("words in reverse order, first row", "k0, extracted", False),
        ("embeddings rotated", "k0, extracted", True),
        ("embeddings rotated", "circulant score", True),
        ("embeddings ten times as long", "k0, extracted", True),
        ("embeddings ten times as long", "circulant score", True),
        ("embeddings ten times as long", "cosine, fft form", True),
        ("row for column", "k0, extracted", True),
        ("last row, rolled back", "k0, extracted", False),
        ("last row, rolled back", "k0, eigen form", False),
        ("logarithm to base 2", "k0, eigen form", True),
        ("logarithm to base 2", "k0, extracted", True),
        ("logarithm to base 2", "circulant score", True),
        ("logarithm to base 2", "k0, fft form", False),
        ("counts doubled", "k0, fft form", False),
        ("counts doubled", "circulant score", False),
        ("diagonal of D left out", "circulant score", False),
        ("eps from 0.001 to 0.02", "k0, eigen form", True),
        ("eps from 0.001 to 0.02", "k0, fft form", False),
    ],
)
def test_what_changes_an_answer_and_what_does_not(invariances, change, quantity, holds):
    assert invariances[change, quantity] == holds


def test_the_table_of_invariances_names_every_change_once(invariances):
    assert invariances.index.is_unique
    assert len(invariances) > 60


def test_the_examples_in_docstrings_hold():
    for module in (kernels.spectrum, kernels.extraction):
        found = doctest.testmod(module)
        assert found.failed == 0 < found.attempted
