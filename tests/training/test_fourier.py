"""The Sounding Hammer: slow definitions, closed forms, symmetries, refusals."""

import cmath
import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from embviz.training import fourier

P = 97
# a float64 transform of n numbers of size 1 errs by about log2(n) eps, the slow one by n eps; then squares
# of up to 1,000 are summed
EXACT = 1e-10


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def slow_power(rows):
    """Of rows (n, D) by the transform's definition, bins 0..n//2."""
    n, width = rows.shape
    wave = [cmath.exp(-2j * math.pi * t / n) for t in range(n)]
    return [
        sum(abs(sum(complex(rows[t, d]) * wave[k * t % n] for t in range(n))) ** 2 for d in range(width))
        for k in range(n // 2 + 1)
    ]


class Tied(nn.Module):
    """A model of one's own: embedding and output share a tensor."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(12, 4)
        self.middle = nn.Linear(4, 4)
        self.output = nn.Linear(4, 12, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens):
        return self.output(torch.tanh(self.middle(self.embedding(tokens))))


@pytest.fixture(autouse=True)
def untouched_random_state():
    with torch.random.fork_rng():
        yield


TOKENS = torch.arange(12)


def cross_entropy(module, tokens):
    return nn.functional.cross_entropy(module(tokens), tokens.roll(1))


# --- the Sounding Hammer ----------------------------------------------------------------------------


class Pull(nn.Module):
    """A matrix that its loss pulls towards whatever the batch holds: the gradient is known."""

    def __init__(self, n, width):
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(n, width, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(n, dtype=torch.float64))


def pull(module, batch):
    return (module.matrix * batch).sum()


def planted(n, width, modes, *, amplitude=1.0, seed=0):
    """Cosines of two modes with random phases in each column, in white noise."""
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, (len(modes), 1, width))
    angles = 2 * np.pi * np.array(modes)[:, None, None] * np.arange(n)[:, None] / n
    return torch.from_numpy(amplitude * np.cos(angles + phases).sum(0)) + noise(n, width, seed=seed + 1)


def test_a_planted_pair_of_cosines_is_read_off_and_lost_with_the_order_of_rows():
    gradient = planted(P, 32, (7, 41))
    sounding = fourier.strike(Pull(P, 32), pull, [gradient], top=5)["matrix"]
    assert set(sounding.modes[:2]) == {7, 41}
    assert sounding.p == 1 / 201  # no order of 200 is as regular
    assert sounding.z > 10
    order = torch.from_numpy(np.random.default_rng(0).permutation(P))
    lost = fourier.strike(Pull(P, 32), pull, [gradient[order]], top=5)["matrix"]
    assert not {7, 41} <= set(lost.modes[:2])
    assert abs(lost.z) < 4
    assert lost.regularity < sounding.regularity / 2


def test_the_spectrum_of_the_mean_gradient_equals_the_slow_transform():
    batches = [noise(9, 3, seed=seed) for seed in range(4)]
    mean = torch.stack(batches).mean(0).numpy()
    sounding = fourier.strike(Pull(9, 3), pull, iter(batches), top=2, n_permutations=5)["matrix"]
    expected = np.array(slow_power(mean))
    np.testing.assert_allclose(sounding.power, expected, rtol=EXACT)
    assert sounding.regularity == pytest.approx(np.sort(expected)[-2:].sum() / expected.sum(), rel=EXACT)
    assert sounding.modes.tolist() == np.argsort(-expected).tolist()
    assert sounding.flat == 2 / 5


def test_permuted_baselines_are_those_of_slowly_transformed_permutations():
    gradient = planted(9, 2, (2, 3))
    sounding = fourier.sound(gradient, top=2, n_permutations=6, seed=4)
    rng, expected = np.random.default_rng(4), []
    for _ in range(6):
        power = slow_power(gradient.numpy()[rng.permutation(9)])
        expected.append(sum(sorted(power)[-2:]) / sum(power))
    np.testing.assert_allclose(sounding.permuted, expected, rtol=EXACT)
    z = (sounding.regularity - np.mean(expected)) / np.std(expected, ddof=1)
    assert sounding.z == pytest.approx(z, rel=1e-8)


@pytest.mark.parametrize("width", [1, 4])
def test_white_noise_gives_the_baseline_of_its_order_statistics(width):
    n, top = 512, 16
    soundings = [fourier.sound(noise(n, width, seed=seed), top=top, n_permutations=2) for seed in range(100)]
    rho = np.mean([sounding.regularity for sounding in soundings])
    # the closed form is that of infinitely many bins; 257 of them, and the two real ones, differ by 2%
    assert rho == pytest.approx(soundings[0].noise, rel=0.02)
    assert rho > 1.2 * soundings[0].flat
    if width == 1:  # the power of exponentials above their quantile
        assert soundings[0].noise == pytest.approx(16 / 257 * (1 - math.log(16 / 257)))


def test_a_single_long_row_is_flat_in_any_order():
    gradient = torch.zeros(64, 3)
    gradient[5] = 1
    sounding = fourier.sound(gradient, n_permutations=20)
    assert sounding.z == 0
    assert sounding.p == 1
    assert sounding.regularity == pytest.approx(16 / 33, rel=1e-5)  # float32


def test_a_row_beyond_the_task_is_left_out():
    gradient = planted(P, 8, (7, 41))
    with_more = torch.cat([gradient, 100 * noise(1, 8)])
    one = fourier.sound(gradient, n_permutations=3)
    part = fourier.sound(with_more.T, dim=1, n_rows=P, n_permutations=3)
    np.testing.assert_allclose(part.power, one.power, rtol=1e-12)  # sums in another order


def struck(module, n_batches=1, **options):
    """Soundings of the tied model's gradients."""
    options = {"top": 2, "n_permutations": 4, **options}
    return fourier.strike(module, cross_entropy, [TOKENS] * n_batches, **options)


def test_striking_leaves_the_module_as_it_was():
    module = Tied()
    cross_entropy(module, TOKENS).backward()
    state = copy.deepcopy(module.state_dict())
    before = [p.grad.clone() for p in module.parameters()]
    struck(module, n_batches=2)
    assert all(torch.equal(state[name], value) for name, value in module.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), before, strict=True))


def test_by_default_every_matrix_is_struck_once_and_any_name_of_a_tied_one_will_do():
    module = Tied()
    assert list(struck(module)) == ["embedding.weight", "middle.weight"]
    named = struck(module, tensors=["middle.weight", "output.weight", "embedding.weight"])
    assert list(named) == ["middle.weight", "output.weight"]  # as they were asked for
    cross_entropy(module, TOKENS).backward()
    expected = fourier.power_spectrum(module.embedding.weight.grad)
    np.testing.assert_allclose(named["output.weight"].power, expected, rtol=1e-4, atol=1e-12)


def test_what_was_heard_does_not_depend_on_what_else_was_struck():
    both, one = struck(Tied()), struck(Tied(), tensors=["middle.weight"])
    np.testing.assert_array_equal(both["middle.weight"].permuted, one["middle.weight"].permuted)


def test_the_table_has_a_row_for_each_tensor():
    soundings = struck(Tied(), n_permutations=9)
    table = fourier.tabulate(soundings)
    assert table["tensor"].tolist() == ["embedding.weight", "middle.weight"]
    assert table["flat"].tolist() == [2 / 7, 2 / 3]
    assert table["regularity"].tolist() == [one.regularity for one in soundings.values()]
    assert table["modes"][0] == " ".join(str(mode) for mode in soundings["embedding.weight"].modes[:2])
    assert np.isfinite(table[["noise", "permuted", "z", "p"]].to_numpy()).all()


# --- refusals ---------------------------------------------------------------------------------------


def blow(**options):
    arguments = {"module": Pull(9, 3), "loss": pull, "batches": [noise(9, 3)], "top": 3, **options}
    return fourier.strike(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blow(tensors=["bias"]), "the loss gives no gradient to bias"),
        (lambda: blow(tensors=[]), "no parameter has over 3 modes"),
        (lambda: blow(tensors=["matrix"], top=5), "an axis of 9 rows has 5 modes"),
        (lambda: blow(n_permutations=1), "at least two permutations are needed"),
        (lambda: blow(batches=[]), "there is no batch"),
        (lambda: blow(batches=[torch.zeros(9, 3)]), "the loss gives no gradient to matrix"),
        (lambda: blow(batches=[torch.full((9, 3), torch.nan)]), "zero or not finite"),
        (lambda: blow(loss=lambda module, _: module.matrix.sum(1)), r"one number .* shape \(9,\)"),
        (lambda: blow(loss=lambda _, batch: batch.sum()), "requires_grad False"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
