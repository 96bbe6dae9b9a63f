"""Sketches: against loops, on average, and how far they are off on a run itself."""

import hashlib
import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz.runs import Run, Sketch, read_run, run_bytes
from embviz.trajectories import read_checkpoints

pytestmark = pytest.mark.usefixtures("one_thread")


# --- sketches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "shape"), [(4, (10, 3)), (8, (8, 2)), (5, (31,)), (1, (70,))])
def test_a_sketch_adds_up_chunks_with_signs_and_turns_drawn_from_its_seed_name_and_shape(size, shape):
    n = int(np.prod(shape))
    key = json.dumps([3, size, "layer.weight", list(shape)]).encode()
    bits = np.random.PCG64(np.random.SeedSequence(int(hashlib.sha256(key).hexdigest(), 16)))
    words = [int(word) for word in bits.random_raw((n + 63) // 64)]
    turns = [int(word) % size for word in bits.random_raw((n + size - 1) // size)]
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = [0.0] * size
    for place, weight in enumerate(weights.flatten().tolist()):
        sign = 1 if words[place // 64] >> (place % 64) & 1 else -1
        expected[(place % size + turns[place // size]) % size] += sign * weight
    found = Sketch(size, seed=3).projection("layer.weight", shape)(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # float64, in another order


def test_a_sketch_never_changes():
    """Runs of today must be read next year: numbers of the first release."""
    found = Sketch(3, seed=1).projection("embedding", (4, 5))(torch.arange(1.0, 21.0).view(4, 5))
    assert found.tolist() == [-57.0, 21.0, -42.0]


def test_a_sketch_is_linear_and_another_name_shape_or_seed_is_another():
    a, b = torch.randn(2, 12, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    project = Sketch(16).projection("w", (12, 10))
    torch.testing.assert_close(project(2 * a + b), 2 * project(a) + project(b))
    others = [Sketch(16).projection("v", (12, 10)), Sketch(16, seed=1).projection("w", (12, 10))]
    others.append(Sketch(16).projection("w", (10, 12)))
    sketches = [project(a), *(other(a) for other in others)]
    for one, other in itertools.combinations(sketches, 2):
        assert not torch.allclose(one, other)


STRUCTURED = {
    "dense": lambda: torch.linspace(-1, 1, 32 * 24).view(32, 24).sin(),
    "one column": lambda: torch.eye(24)[3].expand(32, 24) * torch.arange(32.0)[:, None],
    "two weights a chunk apart": lambda: torch.eye(768)[[0, 16]].sum(0).view(32, 24),
}


@pytest.mark.parametrize("kind", STRUCTURED)
def test_squared_lengths_are_right_on_average_and_vary_by_no_more_than_promised(kind):
    weights, size, n_seeds = STRUCTURED[kind]().double(), 16, 1000
    lengths = [
        float(Sketch(size, seed).projection("w", weights.shape)(weights).square().sum())
        for seed in range(n_seeds)
    ]
    ratios = np.array(lengths) / float(weights.square().sum())
    # five standard errors; fourth moments of sums of signs are below 15 squared variances
    assert abs(ratios.mean() - 1) < 5 * np.sqrt(2 / size / n_seeds)
    assert ratios.var() < 2 / size * (1 + 5 * np.sqrt(14 / n_seeds))


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 90), st.integers(0, 5))
def test_every_weight_counts_once_and_those_of_a_chunk_never_meet(size, n, seed):
    columns = torch.stack([Sketch(size, seed).projection("w", (n,))(unit) for unit in torch.eye(n)])
    assert columns.abs().sum(1).tolist() == [1] * n
    buckets = columns.abs().argmax(1)
    for start in range(0, n, size):
        chunk = buckets[start : start + size]
        assert len(set(chunk.tolist())) == len(chunk)


def test_small_tensors_stay_as_they_are_and_half_precision_is_added_up_in_float32():
    weights = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Sketch(12).projection("w", (3, 4))(weights), weights.flatten())
    half = torch.full((100, 100), 1 / 3, dtype=torch.bfloat16)
    project = Sketch(2).projection("w", half.shape)
    assert project(half).dtype == torch.float32
    assert torch.equal(project(half), project(half.float()))
    assert project(half.double()).dtype == torch.float64


# --- runs of sketches -------------------------------------------------------------------------------


def record(folder, n_steps, sketch, *, n=40, dim=20, still=()):
    """A run of sketches of weights that jitter, and the weights after each step."""
    generator, kept = torch.Generator().manual_seed(0), []
    shapes = {"embedding": (n, dim), "layer.weight": (dim, dim), "bias": (dim,)}
    weights = {name: torch.zeros(shape) for name, shape in shapes.items()}
    with Run.open(folder, sketch=sketch) as run:
        for step in range(1, n_steps + 1):
            for name in weights:
                noise = 0.1 * torch.randn(weights[name].shape, generator=generator)
                weights[name] = weights[name] + noise * (name not in still)
            run.append(step, {**weights, "tied": weights["embedding"]}, {"loss": 1 / step})
            kept.append(dict(weights))
    return read_run(folder), kept


def test_a_run_of_sketches_holds_those_of_its_tensors_and_a_few_snapshots_in_full(tmp_path):
    sketch = Sketch(size=40, seed=5)
    run, weights = record(tmp_path / "run", 18, sketch)
    assert run.sketch == sketch
    assert list(run.tensors()) == ["embedding", "layer.weight", "bias", "tied"]
    assert run.shapes == {"embedding": (40, 20), "layer.weight": (20, 20), "bias": (20,)}
    project = sketch.projection("embedding", (40, 20))
    expected = np.stack([project(one["embedding"]) for one in weights])
    np.testing.assert_array_equal(run.tensor("embedding"), expected)
    np.testing.assert_array_equal(run.tensor("tied"), expected)
    np.testing.assert_array_equal(run.tensor("bias"), [one["bias"].numpy() for one in weights])  # it is small
    small, _ = record(tmp_path / "small", 3, 1000)
    assert small.tensor("embedding").shape == (3, 40, 20)  # no larger than its sketch
    assert [int(path.stem) for path in sorted((run.folder / "weights").iterdir())] == [1, 2, 4, 5, 16, 17]
    record(tmp_path / "full", 18, None)
    sketched = read_checkpoints(run.folder, None)
    for name, path in read_checkpoints(tmp_path / "full", None, sketch=sketch).items():
        np.testing.assert_array_equal(path.weights, sketched[name].weights)
    assert list(sketched) == ["embedding", "layer.weight"]  # which were matrices


def test_snapshots_of_a_run_of_sketches_have_the_same_tensors(tmp_path):
    record(tmp_path / "run", 2, 40)
    with Run.open(tmp_path / "run", sketch=40) as run:
        for other in ({"embedding": torch.ones(40, 20)}, {"embedding": torch.ones(20, 40)}):
            with pytest.raises(ValueError, match=r"step 3 was not stored: .*start another run"):
                run.append(3, other)
        run.truncate(-1)
        run.append(3, other)
    assert read_run(tmp_path / "run").shapes == {"embedding": (20, 40)}


@pytest.mark.parametrize("sketch", [None, 16, Sketch(16, full=False)])
def test_the_size_of_a_run_is_known_before_it_begins(tmp_path, sketch):
    weights = {"a": torch.ones(40, 25), "b": torch.ones(7, dtype=torch.float64)}
    weights |= {"n": torch.ones(90, dtype=torch.int64), "tied": weights["a"]}
    with Run.open(tmp_path / "run", sketch=sketch) as run:
        for step in range(20):
            run.append(step, weights)
    files = sorted((tmp_path / "run" / "weights").iterdir())
    sizes = [len(file.read_bytes()) - 8 - int.from_bytes(file.read_bytes()[:8], "little") for file in files]
    rows = (tmp_path / "run" / "sketches.bin").stat().st_size if sketch else 0
    assert sum(sizes) + rows == run_bytes(weights, 20, sketch=sketch)
