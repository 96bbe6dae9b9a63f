"""Gradient projections and the Sounding Hammer: slow definitions, closed forms, symmetries, refusals."""

import cmath
import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from embviz.training import fourier
from embviz.training.fourier import Adaptive, Prescribed, RandomSubspace, Shuffled, attach, project_gradients

P, D = 97, 6

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
# a float64 transform of n numbers of size 1 errs by about log2(n) eps, the slow one by n eps; then squares
# of up to 1,000 are summed
EXACT = 1e-10


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def slow_spectrum(rows):
    """Transform of rows (n, D) by its definition, bins 0..n//2."""
    n, width = rows.shape
    return [
        [
            sum(complex(rows[t, d]) * cmath.exp(-2j * math.pi * k * t / n) for t in range(n))
            for d in range(width)
        ]
        for k in range(n // 2 + 1)
    ]


def slow_projection(rows, modes):
    """Equation 2 by loops: each kept mode counts twice, but those that are their own mirror image."""
    n, width = rows.shape
    spectrum, kept = slow_spectrum(rows), np.zeros((n, width))
    for t in range(n):
        for d in range(width):
            for k in modes:
                twice = 1 if 2 * k in (0, n) else 2
                kept[t, d] += twice * (spectrum[k][d] * cmath.exp(2j * math.pi * k * t / n)).real / n
    return kept


def slow_power(rows):
    return [sum(abs(value) ** 2 for value in bin_) for bin_ in slow_spectrum(rows)]


PROJECTIONS = [
    Prescribed((0, 3)),
    Prescribed((4, 1)),
    Adaptive(2),
    RandomSubspace(3, seed=1),
    Shuffled(Prescribed((1, 2)), seed=2),
    Shuffled(Adaptive(2), seed=2),
    Shuffled(Shuffled(RandomSubspace(2, seed=0), seed=1), seed=2),
]
LINEAR = [projection for projection in PROJECTIONS if not projection.adapts]
gradients = st.builds(
    noise, st.integers(8, 13), st.integers(1, 4), seed=st.integers(0, 10**6)
)  # even and odd axes
projections = st.sampled_from(PROJECTIONS)
quick = settings(max_examples=40, deadline=None)  # examples differ in seeds and sizes alone


# --- projections ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "modes"), [(8, (0, 4)), (8, (1, 4)), (9, (4, 2)), (9, (0,)), (7, (3, 1, 2))])
def test_prescribed_modes_equal_the_slow_transform(n, modes):
    gradient = noise(n, 3)
    expected = torch.from_numpy(slow_projection(gradient.numpy(), modes))
    torch.testing.assert_close(Prescribed(modes).apply(gradient), expected, rtol=0, atol=EXACT)


@quick
@given(gradients, st.integers(1, 4))
def test_adaptive_keeps_the_strongest_modes_of_the_slow_spectrum(gradient, k):
    power = slow_power(gradient.numpy())
    strongest = sorted(range(len(power)), key=lambda mode: -power[mode])[:k]
    kept = Adaptive(k).apply(gradient)
    torch.testing.assert_close(kept, Prescribed(tuple(strongest)).apply(gradient), rtol=0, atol=EXACT)
    spike = torch.eye(9, 2)[:, :1]  # all modes are as strong: the lower are kept
    torch.testing.assert_close(Adaptive(2).apply(spike), Prescribed((0, 1)).apply(spike))


@pytest.mark.parametrize("n", [8, 9])
@pytest.mark.parametrize("projection", LINEAR)
def test_fixed_projections_are_those_of_a_symmetric_matrix_that_is_its_own_square(projection, n):
    matrix, gradient = projection.apply(torch.eye(n, dtype=torch.float64)), noise(n, 3)
    torch.testing.assert_close(matrix.T, matrix, rtol=0, atol=EXACT)
    torch.testing.assert_close(matrix @ matrix, matrix, rtol=0, atol=EXACT)
    torch.testing.assert_close(projection.apply(gradient), matrix @ gradient, rtol=0, atol=EXACT)


@pytest.mark.parametrize(("n", "modes"), [(8, (0, 1, 4)), (9, (0, 4))])
def test_the_number_of_directions_is_the_rank(n, modes):
    projection = Prescribed(modes)
    matrix = projection.apply(torch.eye(n, dtype=torch.float64))
    assert torch.linalg.matrix_rank(matrix) == projection.n_directions(n)


def test_a_random_subspace_has_its_size_and_depends_on_its_seed_alone():
    eye = torch.eye(P, dtype=torch.float64)
    matrix = RandomSubspace(10, seed=3).apply(eye)
    assert torch.linalg.matrix_rank(matrix) == 10
    fourier._orthonormal.cache_clear()
    torch.testing.assert_close(RandomSubspace(10, seed=3).apply(eye), matrix, rtol=0, atol=0)
    assert (RandomSubspace(10, seed=4).apply(eye) - matrix).abs().max() > 0.01


def test_shuffling_is_permuting_projecting_and_permuting_back():
    gradient, order = noise(9, 3), torch.from_numpy(np.random.default_rng(5).permutation(9))
    expected = torch.empty_like(gradient)
    expected[order] = Prescribed((1, 3)).apply(gradient[order])
    torch.testing.assert_close(Shuffled(Prescribed((1, 3)), seed=5).apply(gradient), expected)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_any_axis_of_any_tensor_is_projected_as_its_matrix_would_be(projection):
    gradient = noise(3, 9, 2, 2)
    for dim in (1, -3):
        matrix = gradient.movedim(1, 0).reshape(9, -1)
        expected = projection.apply(matrix).reshape(9, 3, 2, 2).movedim(0, 1)
        torch.testing.assert_close(projection.apply(gradient, dim=dim, stacked=False), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("match_norm", [False, True])
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_members_side_by_side_are_projected_as_if_alone(projection, match_norm, device):
    members = noise(4, 10, 3).to(device)
    together = projection.apply(members, dim=1, stacked=True, match_norm=match_norm, n_rows=9)
    alone = [projection.apply(member, match_norm=match_norm, n_rows=9) for member in members]
    torch.testing.assert_close(together, torch.stack(alone), rtol=0, atol=EXACT)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_rows_beyond_the_task_are_left_alone(projection):
    gradient = noise(10, 3)
    projected = projection.apply(gradient, n_rows=9)
    torch.testing.assert_close(projected[:9], projection.apply(gradient[:9]))
    assert torch.equal(projected[9], gradient[9])


@quick
@given(gradients, projections)
def test_a_matched_norm_changes_the_length_alone(gradient, projection):
    kept, matched = projection.apply(gradient), projection.apply(gradient, match_norm=True)
    torch.testing.assert_close(matched.norm(), gradient.norm())
    torch.testing.assert_close(matched * (kept.norm() / gradient.norm()), kept, rtol=0, atol=EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_are_not_blown_up_to_the_full_norm(dtype):
    constant = noise(1, 3, dtype=dtype).expand(P, 3)  # all of it in mode 0
    for gradient in (constant, torch.zeros(P, 3, dtype=dtype)):
        assert not Prescribed((48,)).apply(gradient, match_norm=True).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single_and_comes_back_as_half(dtype):
    gradient = noise(9, 3, dtype=dtype)
    projected = Adaptive(2).apply(gradient)
    assert projected.dtype == dtype
    assert torch.equal(projected, Adaptive(2).apply(gradient.float()).to(dtype))


def test_a_nan_stays_visible():
    gradient = noise(9, 2)
    gradient[3, 0] = torch.nan
    for projection in PROJECTIONS:
        assert projection.apply(gradient)[:, 0].isnan().all()


# --- the memory of an adaptive projection -----------------------------------------------------------


def test_modes_are_kept_between_choices():
    projection, memory = Adaptive(2, every=3), {}
    for step in range(8):
        gradient = noise(9, 3, seed=step)
        chooser = noise(9, 3, seed=step - step % 3)
        modes = sorted(range(5), key=lambda mode: -slow_power(chooser.numpy())[mode])[:2]
        kept = projection.apply(gradient, step=step, memory=memory)
        torch.testing.assert_close(kept, Prescribed(tuple(modes)).apply(gradient), rtol=0, atol=EXACT)


def test_a_resumed_memory_goes_on_as_if_nothing_had_happened(tmp_path):
    projection = Shuffled(Adaptive(2, every=4), seed=0)
    module, memory, unbroken = nn.Embedding(9, 3), {}, []
    for step in range(8):
        module.weight.grad = noise(9, 3, seed=step, dtype=torch.float32)
        if step == 6:
            torch.save(memory, tmp_path / "memory.pt")
        project_gradients(module, projection, step=step, memory=memory)
        unbroken.append(module.weight.grad)
    resumed = torch.load(tmp_path / "memory.pt", weights_only=True)
    assert {name: modes.shape for name, modes in resumed.items()} == {"weight": (1, 2)}
    for step in (6, 7):
        module.weight.grad = noise(9, 3, seed=step, dtype=torch.float32)
        project_gradients(module, projection, step=step, memory=resumed)
        assert torch.equal(module.weight.grad, unbroken[step])


# --- around the backward pass -----------------------------------------------------------------------


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


class Counting(Prescribed):
    """A projection that counts its uses."""

    def apply(self, gradient, **options):
        calls.append(gradient)
        return super().apply(gradient, **options)


calls = []


def test_a_tied_tensor_is_projected_once():
    module = Tied()
    cross_entropy(module, TOKENS).backward()
    expected = Prescribed((1, 2)).apply(module.embedding.weight.grad)
    middle = module.middle.weight.grad.clone()
    calls.clear()
    project_gradients([module.embedding.weight, module.output.weight], Counting((1, 2)))
    assert len(calls) == 1
    torch.testing.assert_close(module.output.weight.grad, expected)
    assert torch.equal(module.middle.weight.grad, middle)
    calls.clear()
    project_gradients(nn.ModuleList([module.embedding, module.output]), Counting((1, 2)))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("projection", "match_norm"),
    [(Adaptive(2, every=3), False), (PROJECTIONS[4], True)],
)
def test_the_hook_trains_as_the_function_does(projection, match_norm):
    by_hook, by_function = Tied(), Tied()
    memory = {}
    attachment = attach(by_hook.embedding.weight, projection, n_rows=11, match_norm=match_norm)
    rules = [torch.optim.AdamW(module.parameters(), lr=0.1) for module in (by_hook, by_function)]
    for step in range(7):
        for module, rule in zip((by_hook, by_function), rules, strict=True):
            rule.zero_grad()
            cross_entropy(module, TOKENS).backward()
            if module is by_function:
                project_gradients(
                    module.embedding,
                    projection,
                    n_rows=11,
                    match_norm=match_norm,
                    step=step,
                    memory=memory,
                )
            rule.step()
    assert torch.equal(by_hook.embedding.weight, by_function.embedding.weight)
    assert attachment.step == 7
    assert [modes.tolist() for modes in attachment.memory.values()] == [m.tolist() for m in memory.values()]


def test_a_removed_hook_lets_everything_through():
    module, plain = Tied(), Tied()
    attach(module.embedding.weight, Prescribed((1,))).remove()
    for one in (module, plain):
        cross_entropy(one, TOKENS).backward()
    assert torch.equal(module.embedding.weight.grad, plain.embedding.weight.grad)


def test_a_refused_projection_changes_no_gradient():
    first, second = nn.Embedding(12, 3), nn.Embedding(5, 3)
    for module in (first, second):
        module.weight.grad = noise(*module.weight.shape, dtype=torch.float32)
    before = first.weight.grad.clone()
    with pytest.raises(ValueError, match=r"modes \[4\] lie outside 0..2, all that an axis of 5 rows has"):
        project_gradients([first.weight, second.weight], Prescribed((1, 4)))
    assert torch.equal(first.weight.grad, before)


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
    np.testing.assert_array_equal(fourier.sound(with_more, n_rows=P, n_permutations=3).power, one.power)


@pytest.mark.parametrize("device", DEVICES)
def test_spectra_of_members_are_theirs(device):
    members = noise(3, 9, 2).to(device)
    spectra = fourier.power_spectrum(members, dim=1, stacked=True)
    np.testing.assert_allclose(spectra, [slow_power(member) for member in members.cpu().numpy()], rtol=EXACT)


def struck(module, n_batches=1, **options):
    """Soundings of the tied model's gradients."""
    options = {"top": 2, "n_permutations": 4, **options}
    return fourier.strike(module, cross_entropy, [TOKENS] * n_batches, **options)


def test_rows_may_be_chosen_for_one_tensor_alone():
    embedding, middle = "embedding.weight", "middle.weight"
    whole, part = struck(Tied()), struck(Tied(), n_rows={embedding: 11})
    alone = struck(Tied(), tensors=[embedding], n_rows=11)
    np.testing.assert_array_equal(part[embedding].power, alone[embedding].power)
    assert part[embedding].regularity != whole[embedding].regularity
    np.testing.assert_array_equal(part[middle].power, whole[middle].power)


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
    both, one = struck(Tied(), seed=3), struck(Tied(), seed=3, tensors=["middle.weight"])
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


def later(projection, *, step=4, memory=None):
    """The projection of a step between two choices of modes."""
    return projection.apply(noise(9, 3), step=step, memory=memory)


def blow(**options):
    arguments = {"module": Pull(9, 3), "loss": pull, "batches": [noise(9, 3)], "top": 3, **options}
    return fourier.strike(**arguments)


TWO, ZERO, ONE = Adaptive(2, every=3), Prescribed((0,)), Prescribed((1,))
REMEMBERED = {"gradient": torch.tensor([[1, 2]])}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Prescribed((1, 1)), "name at least one, each once"),
        (lambda: Adaptive(0), "must be at least 1"),
        (lambda: RandomSubspace(0, seed=0), "at least one dimension"),
        (lambda: Prescribed((-1,)).apply(noise(9, 3)), r"modes \[-1\] lie outside 0..4"),
        (lambda: Shuffled(Prescribed((5,)), 0).apply(noise(9, 3)), r"modes \[5\] lie outside 0..4"),
        (lambda: Adaptive(6).apply(noise(9, 3)), "an axis of 9 rows is too short for 6 modes"),
        (lambda: RandomSubspace(10, 0).apply(noise(9, 3)), "too short for 10 dimensions"),
        (lambda: ZERO.apply(noise(9, 3), n_rows=10), "10 rows along dim 0 .* take 2 to 9"),
        (lambda: ZERO.apply(noise(9, 3), dim=2), "dim 2 is not an axis to take"),
        (lambda: ZERO.apply(noise(9, 3), stacked=True), "axis 0 holds the members"),
        (lambda: Adaptive(1).apply(noise(2, 9, 3), dim=1), "say stacked=True"),
        (lambda: ONE.apply(noise(2, 9, 3), dim=1, match_norm=True), "say stacked=True"),
        (lambda: ONE.apply(torch.ones(9, 3, dtype=torch.int64)), "a dense, real tensor"),
        (lambda: later(TWO, step=0), "remembers modes between its choices: give memory="),
        (lambda: later(TWO, memory={}), "no 2 modes are remembered for 'gradient' at step 4"),
        (lambda: later(replace(TWO, k=1), memory=REMEMBERED), "resume a run with the memory stored beside"),
        (lambda: project_gradients(Tied(), ONE), r"no gradient in embedding.weight, middle.bias, middle.w"),
        (lambda: project_gradients([], ONE), "no trainable parameter"),
        (lambda: project_gradients(nn.Embedding(9, 3).requires_grad_(False), ONE), "no trainable parameter"),
        (lambda: attach(torch.zeros(9, 3), ONE), "requires no gradient"),
        (lambda: attach(nn.Embedding(9, 3).weight, Prescribed((9,))), r"modes \[9\] lie outside 0..4"),
        (lambda: blow(tensors=["matrx"]), r"parameter is called matrx; there are \['matrix', 'bias'\]"),
        (lambda: blow(tensors=["bias"]), "the loss gives no gradient to bias"),
        (lambda: blow(tensors=[]), "no parameter has over 3 modes"),
        (lambda: blow(tensors=["matrix"], top=5), "an axis of 9 rows has 5 modes"),
        (lambda: blow(n_permutations=1), "at least two permutations are needed"),
        (lambda: blow(batches=[]), "there is no batch"),
        (lambda: blow(batches=[torch.zeros(9, 3)]), "the loss gives no gradient to matrix"),
        (lambda: blow(batches=[torch.full((9, 3), torch.nan)]), "zero or not finite"),
        (lambda: blow(loss=lambda module, _: module.matrix.sum(1)), r"one number .* shape \(9,\)"),
        (lambda: blow(loss=lambda _, batch: batch.sum()), "requires_grad False"),
        (lambda: blow(module=nn.ReLU()), "no trainable parameter"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
