"""The formulas for k0 against the paper's in slow loops, cases solved by hand, symmetries, refusals."""

import re

import numpy as np
import pytest
import scipy.linalg

from book.kernel import theory
from embviz import kernels, metrics
from embviz.words.cooccurrence import ppmi
from tests.made_counts import (
    made_counts,
    made_log_counts,
    made_text,
    positive_definite,
    slow_counts,
    slow_fft2,
    symmetric,
)

CLOSE = dict(rtol=1e-8, atol=1e-10)


# --- the paper, word for word, in loops ---------------------------------------------------------------


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


def slow_deconvolution(M, D):
    return np.fft.ifft2(np.fft.fft2(M) / np.fft.fft2(D))


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
    return E


def negative_projector(D):
    """The projector on the eigenvectors with negative eigenvalues."""
    values, vectors = np.linalg.eigh(getattr(D, "matrix", D))
    return vectors[:, values < 0] @ vectors[:, values < 0].T


def log_matrix(D, kind="clamp", floor=1e-15):
    spectrum = theory.decompose(D)
    return (spectrum.vectors * theory.log_values(spectrum.values, kind, floor)) @ spectrum.vectors.T


# --- powers and logarithms ----------------------------------------------------------------------------


def test_a_reordered_spectrum_is_that_of_the_reordered_matrix():
    D, order = made_log_counts(), np.random.default_rng(1).permutation(11)
    found = theory.decompose(D).permuted(order)
    np.testing.assert_array_equal(found.matrix, theory.permute(D, order))
    assert all(found.matrix[i, j] == D[order[i], order[j]] for i in range(11) for j in range(11))
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
    found = theory.spectral_power(values, 0.5, negative=negative, floor=1e-4)
    if negative == "shift":
        expected = [(value + 4 + 1e-4) ** 0.5 for value in values]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_complex_logarithm_is_the_principal_one_and_its_imaginary_part_pi_times_the_projector():
    D = made_log_counts()
    found = log_matrix(D, "complex")
    np.testing.assert_allclose(found, scipy.linalg.logm(D.astype(complex)), atol=1e-10)
    np.testing.assert_allclose(found.real, log_matrix(D, "magnitude"), atol=1e-12)
    np.testing.assert_allclose(found.imag, np.pi * negative_projector(D), atol=1e-12)


def test_the_clamped_logarithm_adds_log_of_the_floor_on_the_projector_alone():
    D = made_log_counts()
    values = np.linalg.eigvalsh(D)
    for floor in (1e-15, 1e-5):
        trace = np.log(values[values > 0]).sum() + (values < 0).sum() * np.log(floor)
        assert np.trace(log_matrix(D, floor=floor)) == pytest.approx(trace)
    assert np.iscomplexobj(log_matrix(positive_definite(), "complex"))
    np.testing.assert_allclose(
        log_matrix(positive_definite()), scipy.linalg.logm(positive_definite()), atol=1e-10
    )


# --- extraction ---------------------------------------------------------------------------------------


def test_the_circulant_share_is_one_for_circulants_and_one_over_v_for_noise():
    rng = np.random.default_rng(0)
    assert theory.circulant_share(theory.circulant(rng.normal(size=8))) == pytest.approx(1)
    found = theory.circulant_share(rng.normal(size=(200, 20, 20)))
    assert found.mean() == pytest.approx(1 / 20, rel=0.1)  # a standard error of 0.02 of it
    matrix = rng.normal(size=(6, 6))
    nearest = theory.circulant(theory.cyclic_diagonals(matrix) / 6)
    left = 1 - ((matrix - nearest) ** 2).sum() / (matrix**2).sum()  # Pythagoras: it is a projection
    assert theory.circulant_share(matrix) == pytest.approx(left)


def test_scores_of_a_stack_are_those_of_each_matrix():
    stack = np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    stack[0, 0, 3] = 0  # a row without a direction counts as 0
    expected = [[metrics.circulant_score(m) for m in row] for row in stack]
    np.testing.assert_allclose(theory.circulant_scores(stack), expected, atol=1e-14)
    left = theory.circulant(stack[0, 0, 0], direction=-1)
    assert theory.circulant_scores(left, direction=-1) == pytest.approx(1)
    assert theory.circulant_scores(left) < 0.9


def test_random_embeddings_score_what_the_gain_of_noise_lets_expect():
    D, d = made_log_counts(30, 0), 400
    rows = np.random.default_rng(0).normal(size=(300, 30, d))
    found = kernels.extract_kernel(rows @ rows.transpose(0, 2, 1), D)
    expected = float(theory.expected_score(D, d**-0.5))
    # medians against a ratio of means: measured 0.00 to 0.03 above it, while scores go from 0.2 to 0.99
    assert np.median(theory.circulant_scores(found.kernel)) == pytest.approx(expected, abs=0.04)
    identity = np.tile(kernels.extract_kernel(np.eye(30), D).k0, (300, 1))
    assert np.median(metrics.cosines(found.k0, identity)) == pytest.approx(expected**0.5, abs=0.04)


def test_the_gain_of_noise_is_the_mean_energy_of_deconvolved_symmetric_noise():
    D = np.fft.ifft2(3.0 - 2 * np.eye(9)).real  # fft2(D) is 1 where a = b, where symmetric noise is louder
    half = np.random.default_rng(0).normal(size=(4000, 9, 9))
    noise = (half + half.transpose(0, 2, 1)) / np.sqrt(2)  # variance 1 off the diagonal, 2 on it
    louder = (kernels.extract_kernel(noise, D).kernel ** 2).sum(axis=(1, 2)).mean()
    identity = (kernels.extract_kernel(np.eye(9), D).kernel ** 2).sum()
    assert theory.noise_gain(D) == pytest.approx(louder / identity, rel=0.02)  # standard error 0.004


@pytest.mark.parametrize("direction", [1, -1])
def test_reconstruction_from_a_row_is_the_convolution_with_its_circulant(direction):
    D, k0 = made_log_counts(5), np.random.default_rng(0).normal(size=5)
    expected = np.zeros((5, 5))
    for i, j, p, q in np.ndindex(5, 5, 5, 5):
        expected[i, j] += D[p, q] * k0[(j - q - direction * (i - p)) % 5]
    found = theory.reconstruct_from_row(D, k0, direction=direction)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # whatever D is, the result is a circulant of that kind: it knows of a word its id alone
    np.testing.assert_allclose(found, theory.circulant(found[0], direction=direction), atol=1e-12)


# --- k0 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("V", [7, 8])  # the half plane of frequencies ends otherwise for even V
@pytest.mark.parametrize("eps", [0.003, 1.0])
def test_both_listings_are_those_of_the_paper(V, eps):
    D = made_log_counts(V)
    np.testing.assert_allclose(theory.k0_eigen(D, eps), slow_first_listing(D, eps), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(theory.k0_fft(D, eps), slow_second_listing(D, eps), **CLOSE)


def singular() -> np.ndarray:
    """D of counts that are circulant: off the line a + b = 0 its transform is 0."""
    return kernels.log_counts(theory.circulant([20, 7, 3, 1, 3, 7]))


@pytest.mark.parametrize(
    "function",
    [
        theory.k0_fft,
        theory.impulse_row,
        lambda D, **safe: theory.responses(D, "fft", **safe),
        lambda D, **safe: theory.candidates(np.expm1(D).round(), D, embedding_dim=2, **safe),
    ],
)
def test_zeros_of_the_transform_are_counted_and_refused_unless_the_listings_number_is_asked_for(function):
    D = singular()
    # 30 of 36 lie off the line; how many of them are exactly 0 is rounding's to say
    with pytest.raises(
        ValueError, match=r"exactly 0 at \d+ of 36 .*1e-10 at \d+: .*safe=theory.SAFE"
    ) as caught:
        function(D)
    told = [int(word) for word in re.findall(r" at (\d+)", str(caught.value))]
    assert sum(told) == 30
    function(D, safe=theory.SAFE)


@pytest.mark.parametrize("V", [3, 4])  # the half plane ends otherwise for even V; both are exact, unlike 5
def test_zeros_are_counted_over_all_frequencies_as_extraction_counts_them(V):
    D = np.ones((V, V))  # its transform is V^2 once, and 0
    for function in (theory.impulse_row, lambda D: kernels.extract_kernel(np.eye(V), D)):
        with pytest.raises(ValueError, match=rf"exactly 0 at {V * V - 1} of {V * V} frequencies"):
            function(D)
    with pytest.raises(ValueError, match=rf"a \+ b = 0 is exactly 0 at {V - 1} of {V} frequencies"):
        theory.row_identity(D)


def test_what_divides_by_no_zero_asks_for_nothing():
    D = singular()
    extracted = kernels.extract_kernel(np.eye(6), D, zeros="drop")
    np.testing.assert_allclose(theory.row_identity(D), extracted.k0, **CLOSE)  # its line alone has no zero
    whole = theory.k0_eigen(D, 0.5)
    np.testing.assert_allclose(theory.alpha_scan(D, [0.5], form="eigen")[0], whole, rtol=1e-12)


def test_a_frequency_between_rounding_and_the_listings_number_is_refused_too():
    transform = np.full((5, 5), 3.0)
    transform[0, 0], transform[1, 1], transform[4, 4] = 9.0, 2e-11, 2e-11
    D = np.fft.ifft2(transform).real  # 1e-15, rounding, is far below 2e-11
    with pytest.raises(ValueError, match=r"exactly 0 at 0 of 25 .* 1e-10 at 2: "):
        theory.k0_fft(D)
    assert kernels.extract_kernel(np.eye(5), D).n_near_zeros == 0  # it can be divided: the listing does not
    large = 1e8 * theory.circulant(1 + np.cos(2 * np.pi * np.arange(7) / 7))
    with pytest.raises(ValueError, match=r"exactly 0 at \d+ of 49 frequencies, and below rounding"):
        theory.k0_fft(large)  # rounding, 1e-8 here, is above the listing's number: nothing else would see it
    for nothing in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"safe is .*must be above 0"):
            theory.k0_fft(D, safe=nothing)


def test_what_stands_for_small_frequencies_is_the_callers_number():
    D = made_log_counts(8)
    safe = 1.01 * float(np.median(np.abs(slow_fft2(D))))  # between two sizes, not on one
    below = np.where(np.abs(slow_fft2(D)) > safe, slow_fft2(D), safe)
    expected = slow_fft2(slow_fft2(slow_power(D, 0.5)) / below, sign=1).real[0]
    np.testing.assert_allclose(theory.k0_fft(D, 0.5, safe=safe), expected, **CLOSE)
    found = theory.alpha_scan(D, [0.5], safe=safe)[0]
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("form", ["eigen", "fft"])
@pytest.mark.parametrize("negative", ["clamp", "magnitude", "signed", "shift", "positive"])
def test_a_slider_by_one_product_gives_what_the_long_way_does(form, negative):
    spectrum = theory.decompose(made_log_counts(10))
    alphas = [0.5, 0.003]
    long_way = theory.k0_eigen if form == "eigen" else theory.k0_fft
    found = theory.alpha_scan(spectrum, alphas, negative=negative, form=form)
    for alpha, values in zip(alphas, found, strict=True):
        expected = long_way(spectrum, alpha, negative=negative)
        np.testing.assert_allclose(values, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_any_row_of_a_deconvolution_is_that_row_of_all_of_it():
    D, M = made_log_counts(8), symmetric(8, seed=3)
    whole = slow_deconvolution(M, D)
    np.testing.assert_allclose(whole, kernels.extract_kernel(M, D).kernel, **CLOSE)
    for row in (0, 3, 7):
        np.testing.assert_allclose(theory.deconvolved_row(M, D, row=row), whole[row], **CLOSE)
    np.testing.assert_allclose(theory.row_identity(D), slow_deconvolution(np.eye(8), D)[0], **CLOSE)
    impulse = np.outer(np.eye(8)[0], np.eye(8)[0])
    np.testing.assert_allclose(theory.impulse_row(D), slow_deconvolution(impulse, D)[0], **CLOSE)


def test_the_eigen_form_follows_its_word_and_the_fft_form_does_not():
    D, order = made_log_counts(), np.random.default_rng(2).permutation(11)
    place = int(np.flatnonzero(order == 0)[0])
    spectrum = theory.decompose(D)
    moved = spectrum.permuted(order)
    eigen = theory.k0_eigen(spectrum)
    np.testing.assert_allclose(theory.k0_eigen(moved, row=place), eigen[order], rtol=1e-8)
    fft = theory.k0_fft(spectrum)
    assert np.abs(theory.k0_fft(moved, row=place) - fft[order]).max() > 0.1 * np.abs(fft).max()


@pytest.mark.parametrize("step", [1, 5])
def test_words_moved_round_leave_the_fft_form_where_it_was_and_steps_between_ids_reorder_it(step):
    V, shift = 11, 4
    order = (step * np.arange(V) + shift) % V
    D = made_log_counts(V)
    found = theory.k0_fft(theory.permute(D, order))
    expected = theory.k0_fft(D)[(step * np.arange(V)) % V]  # whatever word comes first
    np.testing.assert_allclose(found, expected, **CLOSE)


def test_the_share_of_clamped_eigenvalues_is_what_is_gone_without_them():
    D = made_log_counts()
    values, vectors = np.linalg.eigh(D)
    D = (vectors * np.where(values < 0, 1e-16, values)) @ vectors.T  # below the floor, and barely so
    spectrum = theory.decompose(D)
    low, eps = spectrum.values < theory.FLOOR, 1.0
    whole = theory.k0_eigen(spectrum, eps)
    part = spectrum.vectors[:, low] @ spectrum.vectors[0, low]
    assert theory.clamped_share(spectrum, eps) == pytest.approx((part @ part) / (whole @ whole))
    assert theory.clamped_share(positive_definite()) == 0


def test_the_terms_of_the_expansion_leave_an_error_of_second_order():
    D = positive_definite()
    errors = []
    for eps in (0.02, 0.01):
        terms, power = theory.taylor_terms(D, eps), theory.k0_fft(D, eps)
        errors.append(np.linalg.norm(terms.both - power) / np.linalg.norm(terms.identity))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)  # the third order: 0.02 |log D| / 3
    assert errors[1] < 1e-3


def test_the_terms_are_rows_of_the_matrices_that_they_name():
    D = made_log_counts(8)
    for kind in ("clamp", "magnitude", "complex"):
        terms = theory.taylor_terms(D, kind=kind)
        log = slow_deconvolution(log_matrix(D, kind), D)[0]
        np.testing.assert_allclose(terms.log, log, **CLOSE)
        np.testing.assert_allclose(terms.identity, theory.row_identity(D), **CLOSE)
        np.testing.assert_allclose(terms.both, terms.identity + 0.003 * log.real, **CLOSE)


# --- fourteen formulas --------------------------------------------------------------------------------

IDS = [*(f"H{i}" for i in range(1, 13)), "H_cI", "H_logD"]


@pytest.fixture(scope="module")
def found():
    return theory.candidates(made_counts(12), embedding_dim=4)


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
        "H5 (as written)": slow_deconvolution(ppmi(counts), D)[0],
        "H8 (as written)": D.sum(axis=0) / 12,
        "H8 (rows rolled back)": np.mean([np.roll(D[i], -i) for i in range(12)], axis=0),
        "H10 (as written)": np.correlate(*[np.linalg.eigvalsh(D)[::-1]] * 2, mode="full")[11:],
        "H12 (alpha 0.01)": slow_second_listing(D, 0.01),
        "H_cI (identity matrix)": slow_deconvolution(np.eye(12), D)[0],
        "H_cI (as written: an impulse)": np.fft.ifft2(1 / transform).real[0],
        "H_logD (clamped)": slow_deconvolution(log_matrix(D), D)[0],
    }
    for label, values in expected.items():
        np.testing.assert_allclose(found[label].values, values, rtol=1e-7, atol=1e-9, err_msg=label)


def test_the_logarithm_of_frequency_is_finite_where_a_word_never_meets_itself():
    counts = made_counts(12)
    counts[3, 3] = 0
    found = theory.candidates(counts)
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


# --- embeddings without training ----------------------------------------------------------------------


def test_the_pipeline_is_the_papers_listing():
    ids, V = made_text(150, vocab_size=6), 6
    E = slow_embeddings(ids, V, 4, window=5, eps=0.003)
    found = theory.training_free_embeddings(ids, V, 4)
    scale = np.abs(E @ E.T).max()
    np.testing.assert_allclose(found @ found.T / scale, E @ E.T / scale, atol=1e-8)


@pytest.mark.parametrize("form", ["eigen", "fft"])
def test_embeddings_of_one_row_depend_on_the_distance_of_two_ids_alone(form):
    E = theory.training_free_embeddings(made_text(), 11, 11, form=form)
    gram = E @ E.T
    np.testing.assert_allclose(gram, theory.circulant(gram[0]), atol=1e-9 * np.abs(gram).max())
