"""Gradient projections: definitions by sums of cosines, closed forms, symmetries."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book import projected
from book.projected import Adaptive, Prescribed, RandomSubspace, Shuffled, stretched

P = 97
EXACT = 1e-10  # a float64 transform of numbers of size 1 errs by some eps


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def slow_projection(rows, modes):
    """Equation 2 by cosines: each kept mode counts twice, but those that are their own mirror image."""
    n = len(rows)
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    return sum((1 if 2 * k in (0, n) else 2) / n * np.cos(2 * np.pi * k * lags / n) for k in modes) @ rows


def strongest(rows, k):
    """The k modes of most power, by the transform's definition."""
    n = len(rows)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n)
    power = (np.abs(waves @ rows) ** 2).sum(1)
    return np.argsort(-power)[:k].tolist()


LINEAR = [
    Prescribed((0, 3)),
    Prescribed((4, 1)),
    RandomSubspace(3, seed=1),
    Shuffled(Prescribed((1, 2)), seed=2),
    Shuffled(Shuffled(RandomSubspace(2, seed=0), seed=1), seed=2),
]
PROJECTIONS = [*LINEAR, Adaptive(2), Shuffled(Adaptive(2), seed=2)]
gradients = st.builds(
    noise, st.integers(8, 13), st.integers(1, 4), seed=st.integers(0, 10**6)
)  # even and odd axes
quick = settings(max_examples=40, deadline=None)  # examples differ in seeds and sizes alone


@pytest.mark.parametrize(("n", "modes"), [(8, (0, 4)), (8, (1, 4)), (9, (4, 2)), (9, (0,)), (7, (3, 1, 2))])
def test_prescribed_modes_equal_the_slow_transform(n, modes):
    gradient = noise(n, 3)
    expected = torch.from_numpy(slow_projection(gradient.numpy(), modes))
    torch.testing.assert_close(Prescribed(modes).apply(gradient), expected, rtol=0, atol=EXACT)


@quick
@given(gradients, st.integers(1, 4))
def test_adaptive_keeps_the_strongest_modes_of_the_slow_spectrum(gradient, k):
    expected = Prescribed(strongest(gradient.numpy(), k)).apply(gradient)
    torch.testing.assert_close(Adaptive(k).apply(gradient), expected, rtol=0, atol=EXACT)
    spike = torch.eye(9, 2)[:, :1]  # all modes are as strong: the lower are kept
    torch.testing.assert_close(Adaptive(2).apply(spike), Prescribed((0, 1)).apply(spike))


def test_adaptive_modes_are_kept_between_choices():
    projection = Adaptive(2, every=3)
    for step in range(8):
        gradient, chooser = noise(9, 3, seed=step), noise(9, 3, seed=step - step % 3)
        expected = Prescribed(strongest(chooser.numpy(), 2)).apply(gradient)
        torch.testing.assert_close(projection.apply(gradient), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("n", [8, 9])
@pytest.mark.parametrize("projection", LINEAR)
def test_fixed_projections_are_those_of_a_symmetric_matrix_that_is_its_own_square(projection, n):
    matrix, gradient = projection.apply(torch.eye(n, dtype=torch.float64)), noise(n, 3)
    torch.testing.assert_close(matrix.T, matrix, rtol=0, atol=EXACT)
    torch.testing.assert_close(matrix @ matrix, matrix, rtol=0, atol=EXACT)
    torch.testing.assert_close(projection.apply(gradient), matrix @ gradient, rtol=0, atol=EXACT)


@pytest.mark.parametrize(("n", "modes"), [(8, (0, 1, 4)), (9, (0, 4))])
def test_the_number_of_directions_is_the_rank(n, modes):
    matrix = Prescribed(modes).apply(torch.eye(n, dtype=torch.float64))
    assert torch.linalg.matrix_rank(matrix) == Prescribed(modes).n_directions(n)
    with pytest.raises(ValueError, match=rf"modes \[-1, 5\] lie outside 0..4, all that {n} rows have"):
        Prescribed((-1, 0, 5)).apply(noise(n, 3))


def test_a_random_subspace_has_its_size_and_depends_on_its_seed_alone():
    eye = torch.eye(P, dtype=torch.float64)
    matrix = RandomSubspace(10, seed=3).apply(eye)
    assert torch.linalg.matrix_rank(matrix) == 10
    projected._orthonormal.cache_clear()
    torch.testing.assert_close(RandomSubspace(10, seed=3).apply(eye), matrix, rtol=0, atol=0)
    assert (RandomSubspace(10, seed=4).apply(eye) - matrix).abs().max() > 0.01


def test_shuffling_is_permuting_projecting_and_permuting_back():
    gradient, order = noise(9, 3), torch.from_numpy(np.random.default_rng(5).permutation(9))
    expected = torch.empty_like(gradient)
    expected[order] = Prescribed((1, 3)).apply(gradient[order])
    torch.testing.assert_close(Shuffled(Prescribed((1, 3)), seed=5).apply(gradient), expected)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_a_gradient_at_the_full_norm_differs_in_its_length_alone_and_nan_stays_visible(projection):
    gradient = noise(9, 3)
    kept = projection.apply(gradient)
    matched = stretched(kept, gradient)
    torch.testing.assert_close(matched.norm(), gradient.norm())
    torch.testing.assert_close(matched * (kept.norm() / gradient.norm()), kept, rtol=0, atol=EXACT)
    gradient[3, 0] = torch.nan
    assert projection.apply(gradient)[:, 0].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_are_not_blown_up_to_the_full_norm(dtype):
    constant = noise(1, 3, dtype=dtype).expand(P, 3)  # all of it in mode 0
    for gradient in (constant, torch.zeros(P, 3, dtype=dtype)):
        assert not stretched(Prescribed((48,)).apply(gradient), gradient).any()
