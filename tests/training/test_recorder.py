"""Recordings: sketches against loops, records against the weights, and whatever may interrupt them."""

import contextlib
import doctest
import errno
import hashlib
import itertools
import json
import os
import resource
import shutil
import signal
import time
import traceback

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from embviz.training import recorder as recording_module
from embviz.training.recorder import ALL, RECORDS, Recorder, Sketch, read_recording
from embviz.training.snapshots import DamagedRunError, create_run, open_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """Flushing to disk takes most of the time, and only a power cut can tell."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "recording"


class Tied(nn.Module):
    """Two matrices, one of them under two names, and a bias."""

    def __init__(self, n_symbols=12, dim=6, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Parameter(torch.randn(n_symbols, dim, generator=generator))
        self.layer = nn.Module()
        self.layer.weight = nn.Parameter(torch.randn(dim, dim, generator=generator))
        self.layer.bias = nn.Parameter(torch.randn(dim, generator=generator))
        self.head = self.embedding

    def forward(self, ids):
        hidden = torch.tanh(self.embedding[ids] @ self.layer.weight + self.layer.bias)
        return hidden @ self.head.T


def move(model, step):
    """Weights of `step`, a function of it alone, as a training that can be resumed has them."""
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            rows = torch.arange(float(parameter.numel())).view_as(parameter)
            parameter.copy_(torch.sin(rows * (place + 1) + 0.1 * step))


def record(folder, steps, *, every=1, resume_at=None, model=None, **how):
    """A recording of `steps`, closed."""
    model = model or Tied()
    move(model, steps[0] - 1)
    with Recorder(model, folder, every=every, resume_at=resume_at, **how) as recorder:
        for step in steps:
            move(model, step)
            recorder.step(loss=1 / step)
    return model


def contents(folder):
    """Checksum of every file but the lock, which names a process."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "writer.lock"
    }


def assert_whole(folder, steps):
    """All weights of the steps, in full, and nothing else."""
    recording, model = read_recording(folder), Tied()
    assert recording.steps.tolist() == list(steps)
    for place, step in enumerate(steps):
        move(model, step)
        assert np.array_equal(recording.full("embedding", place), model.embedding.detach().numpy())


def test_the_examples_of_the_docstrings_hold():
    assert doctest.testmod(recording_module).failed == 0


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
    """Recordings of today must be read next year: numbers of the first release."""
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
    "one row": lambda: torch.eye(32)[:, :1] * torch.linspace(1, 2, 24),
    "rank one": lambda: torch.outer(torch.linspace(1, 2, 32), torch.linspace(-1, 1, 24)),
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


@pytest.mark.parametrize(("size", "seed"), [(0, 0), (-3, 0), (4, -1)])
def test_a_sketch_of_nothing_is_refused(size, seed):
    with pytest.raises(ValueError, match="at least 1 number, and a seed of 0 or more"):
        Sketch(size, seed)


# --- what is recorded comes back --------------------------------------------------------------------


def train(model, n_steps, recorder=None):
    """A user's own loop; every loss, and the weights after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses, weights = [], []
    for step in range(n_steps):
        ids = torch.arange(8) * (step + 1) % 12
        loss = nn.functional.cross_entropy(model(ids), ids.roll(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if recorder:
            recorder.step(loss=loss)
        losses.append(loss.item())
        weights.append({name: p.detach().clone() for name, p in model.named_parameters()})
    return losses, weights


def test_a_loop_of_ones_own_is_recorded_in_full_and_trains_as_it_would_without(folder):
    torch.manual_seed(0)
    with Recorder(Tied(), folder) as recorder:
        losses, weights = train(recorder._model, 7, recorder)
        assert repr(recorder).endswith("recording: 2 tensors in full, 7 snapshots>")
    after = torch.rand(1)
    torch.manual_seed(0)
    alone = train(Tied(), 7)
    assert torch.equal(torch.rand(1), after)
    assert losses == alone[0]
    recording = read_recording(folder)
    assert recording.steps.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert recording.losses.tolist() == losses
    assert list(recording.tensors) == ["embedding", "layer.weight"]  # matrices, shared ones once
    for place, snapshot in enumerate(weights):
        for name in recording.tensors:
            assert np.array_equal(recording.full(name, place), snapshot[name].numpy())
            assert torch.equal(snapshot[name], alone[1][place][name])
    assert recording.tensors["embedding"].shape == (7, 72)
    assert repr(recording).endswith("recording: 2 tensors in full, 7 snapshots, steps 1 to 7>")


def test_a_sketched_recording_holds_the_sketches_of_the_weights(folder):
    sketch = Sketch(size=40, seed=5)
    with Recorder(Tied(), folder, sketch=sketch, every=3) as recorder:
        _, weights = train(recorder._model, 10, recorder)
    recording = read_recording(folder)
    assert recording.steps.tolist() == [3, 6, 9]
    assert recording.sketch == sketch
    assert {name: rows.shape for name, rows in recording.tensors.items()} == {
        "embedding": (3, 40),
        "layer.weight": (3, 36),  # whole, since it is smaller
    }
    project = sketch.projection("embedding", (12, 6))
    for place, step in enumerate(recording.steps):
        np.testing.assert_array_equal(
            recording.tensors["embedding"][place], project(weights[step - 1]["embedding"])
        )
    with pytest.raises(ValueError, match="'embedding' was sketched"):
        recording.full("embedding", 0)


def test_numbers_of_every_precision_come_back_exactly(folder):
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    model = nn.ParameterDict({str(k)[6:].upper(): torch.tensor([[1 / 3, 2.0, -5.0]], dtype=k) for k in kinds})
    with Recorder(model, folder) as recorder:
        recorder.step()
    recording = read_recording(folder)
    for name, parameter in model.items():
        stored = recording.tensors[name]
        assert stored.dtype == (np.float64 if name == "FLOAT64" else np.float32)
        assert np.array_equal(stored[0], parameter.detach().flatten().double().numpy())
    assert np.isnan(recording.losses[0])


def test_tensors_are_chosen_by_name_or_pattern_and_shared_ones_are_found_under_either(folder):
    model = Tied()
    chosen = {
        None: ("embedding", "layer.weight"),
        "*": ("embedding", "layer.weight", "layer.bias"),
        "head": ("head",),
        ("layer.*", "layer.bias"): ("layer.weight", "layer.bias"),
        ("head", "embedding"): ("embedding",),
    }
    for number, (tensors, names) in enumerate(chosen.items()):
        with Recorder(model, folder / str(number), tensors=tensors) as recorder:
            assert recorder.names == names


def test_a_compiled_model_is_recorded_under_its_own_names(folder):
    record(folder, range(1, 3))
    compiled = nn.Module()
    compiled._orig_mod = record(folder.with_name("other"), range(1, 3))
    with Recorder(compiled, folder, resume_at=2) as recorder:
        assert recorder.names == ("embedding", "layer.weight")


def test_steps_may_be_told_and_the_start_may_be_recorded(folder):
    model = Tied()
    with Recorder(model, folder, every=5, tensors="embedding") as recorder:
        stored = [recorder.step(step=step, loss=step) for step in (0, 3, 4, 4, 7, 8, 9, 10, 30)]
        assert recorder.step() is False
        assert recorder.step(step=35)
        with pytest.raises(ValueError, match=r"step 35 does not come after step 35.*resume_at"):
            recorder.step(step=35)
    assert stored == [True, False, False, False, True, False, False, True, True]
    assert read_recording(folder).steps.tolist() == [0, 7, 10, 30, 35]
    with Recorder(model, folder.with_name("other")) as recorder:
        recorder.step()
        with pytest.raises(ValueError, match="step 0 does not come after step 1"):
            recorder.step(step=0)


def test_losses_are_looked_at_only_where_a_snapshot_is_due(folder):
    class Costly:
        def __float__(self):
            asked.append(1)
            return 2.5

    asked = []
    with Recorder(Tied(), folder, every=10) as recorder:
        for _ in range(20):
            recorder.step(loss=Costly())
        recorder.step(step=30, loss=torch.tensor([[float("inf")]]))
        with pytest.raises(ValueError, match=r"step 40 .* loss has shape \(2,\): give one number"):
            recorder.step(step=40, loss=torch.zeros(2))
    assert len(asked) == 2
    assert read_recording(folder).losses.tolist() == [2.5, 2.5, np.inf]


def test_a_recording_says_what_it_is(folder):
    about = {"seed": 3, "rates": (0.1, 0.2)}
    record(folder, range(1, 4), sketch=50, about=about, every=2)
    metadata = read_recording(folder).metadata
    assert metadata.pop("versions")["torch"] == str(torch.__version__)
    assert metadata == {
        "about": {"seed": 3, "rates": [0.1, 0.2]},
        "every": 2,
        "sketch": {"size": 50, "seed": 0},
        "tensors": {
            "embedding": {"shape": [12, 6], "dtype": "<f4", "numbers": 50},
            "layer.weight": {"shape": [6, 6], "dtype": "<f4", "numbers": 36},
        },
    }


def test_a_recording_is_mapped_or_loaded(folder):
    record(folder, range(1, 4))
    mapped, loaded = read_recording(folder), read_recording(folder, load=True)
    rows = mapped.tensors["embedding"]
    assert not rows.flags.writeable
    assert np.array_equal(rows, loaded.tensors["embedding"])
    assert loaded.tensors["embedding"].flags.c_contiguous
    (folder / RECORDS).write_bytes(b"")  # a mapped file sees it; what was loaded doesn't
    assert loaded.tensors["embedding"].any()


def test_an_empty_recording_can_be_read(folder):
    Recorder(Tied(), folder, sketch=50).close()
    recording = read_recording(folder)
    assert len(recording.steps) == 0
    assert recording.tensors["embedding"].shape == (0, 50)
    assert recording.distortion["n_pairs"].tolist() == [0, 0, 0]
    assert repr(recording).endswith("2 tensors 50 numbers each, 0 snapshots>")


def test_a_record_is_appended_to_one_file_and_a_handful_of_snapshots_kept_in_full(folder):
    record(folder, range(1, 301), sketch=8)
    assert sorted(path.name for path in folder.iterdir()) == [
        "log.jsonl", "records.bin", "run.json", "weights", "writer.lock",
    ]  # fmt: skip
    assert open_run(folder).steps == [1, 2, 4, 5, 16, 17, 64, 65, 256, 257]
    assert (folder / RECORDS).stat().st_size == 300 * (8 + 8 + 4 * 8 * 2 + 8)
    assert open_run(folder).verify()["ok"].all()


# --- distortion -------------------------------------------------------------------------------------


def test_the_distortion_is_that_of_loops_over_pairs_of_full_snapshots(folder):
    with Recorder(Tied(40, 20), folder, sketch=30, tensors="*") as recorder:
        _, weights = train_somehow(recorder, 20)
    recording = read_recording(folder)
    table = recording.distortion.set_index("tensor")
    kept, squares = [1, 2, 4, 5, 16, 17], {}
    for name, n_weights in (("embedding", 800), ("layer.weight", 400)):
        project = Sketch(30).projection(name, weights[0][name].shape)
        errors = []
        for a, b in itertools.combinations(kept, 2):
            away = weights[a - 1][name] - weights[b - 1][name]
            true, sketched = float(away.norm()), float(project(away).norm())
            errors.append(abs(sketched / true - 1))
            before = squares.get((a, b), (0.0, 0.0))
            squares[a, b] = before[0] + true**2, before[1] + sketched**2
        assert table.loc[name, ["n_weights", "n_numbers", "n_pairs"]].tolist() == [n_weights, 30, 15]
        quantiles = np.quantile(errors, [0.5, 0.95, 1])
        # sketches are float32 and distances differences of them
        np.testing.assert_allclose(table.loc[name, ["median", "q95", "worst"]].tolist(), quantiles, rtol=1e-3)
    assert table.loc["layer.bias", ["n_weights", "n_numbers", "n_pairs", "worst"]].tolist() == [20, 20, 15, 0]
    for a, b in squares:
        bias = weights[a - 1]["layer.bias"] - weights[b - 1]["layer.bias"]
        squares[a, b] = tuple(square + float(bias.square().sum()) for square in squares[a, b])
    worst = max(abs(np.sqrt(sketched / true) - 1) for true, sketched in squares.values())
    assert table.loc[ALL, "worst"] == pytest.approx(worst, rel=1e-3)
    assert table.loc[ALL, ["n_weights", "n_numbers"]].tolist() == [1220, 80]


def train_somehow(recorder, n_steps):
    generator, weights = torch.Generator().manual_seed(0), []
    for _ in range(n_steps):
        with torch.no_grad():
            for parameter in recorder._model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        recorder.step()
        weights.append({n: p.detach().clone() for n, p in recorder._model.named_parameters()})
    return None, weights


def test_distances_are_off_by_as_much_as_the_size_promises(folder):
    with Recorder(Tied(60, 60), folder, sketch=200) as recorder:
        train_somehow(recorder, 65)
    table = read_recording(folder).distortion
    # 28 pairs, some of them close to each other: a normal error of sd 1 / sqrt(400), five of them at most
    assert table["n_pairs"].tolist() == [28, 28, 28]
    assert table["median"].between(0.005, 0.1).all()
    assert (table["worst"] < 5 / np.sqrt(2 * 200)).all()


def test_tensors_that_never_move_have_no_pairs_and_whole_ones_no_error(folder):
    model = Tied()
    with Recorder(model, folder, sketch=40) as recorder:
        for _ in range(5):
            with torch.no_grad():
                model.layer.weight += 1
            recorder.step()
    table = read_recording(folder).distortion.set_index("tensor")
    assert table.loc["embedding", "n_pairs"] == 0
    assert np.isnan(table.loc["embedding", "worst"])
    assert table.loc["layer.weight", ["n_pairs", "worst"]].tolist() == [6, 0]
    record(folder.with_name("full"), range(1, 9))
    full = read_recording(folder.with_name("full")).distortion
    assert full[["median", "q95", "worst"]].to_numpy().tolist() == [[0.0] * 3] * 3


# --- refusals ---------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused_before_anything_is_made(folder):
    model = Tied()
    for how, message in (
        ({"every": 0}, r"every is 0: record every step \(1\)"),
        ({"every": -5}, "every is -5"),
        ({"resume_at": -1}, "resume_at is -1"),
        ({"tensors": "layer.wieght"}, "no parameter is called layer.wieght; there are layer.weight"),
        ({"tensors": ("embedding", "blocks.*.query")}, r"called blocks\.\*\.query; there are"),
        ({"sketch": 0}, "at least 1 number"),
        ({"about": object()}, "description must be JSON"),
    ):
        with pytest.raises(ValueError, match=message):
            Recorder(model, folder, **how)
    with pytest.raises(ValueError, match=r"no matrix to record: say tensors='\*'"):
        Recorder(nn.LayerNorm(3), folder)
    with pytest.raises(ValueError, match="spin: only real numbers"):
        Recorder(nn.ParameterDict({"spin": torch.ones(2, 2, dtype=torch.complex64)}), folder)
    assert not folder.exists()
    folder.mkdir()
    (folder / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex\)"):
        Recorder(model, folder)


def rename(model):
    model.token_embedding, model.head = model.embedding, None
    del model.embedding


def add(model):
    model.extra = nn.Parameter(torch.zeros(3, 3))


def remove(model):
    del model.layer.weight


def resize(model):
    model.embedding = nn.Parameter(torch.zeros(13, 6))
    model.head = model.embedding


def transpose(model):
    model.embedding = nn.Parameter(model.embedding.detach().T.contiguous())
    model.head = model.embedding


def untie(model):
    model.head = nn.Parameter(model.embedding.detach().clone())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename, "'embedding' was renamed 'token_embedding'"),
        (add, "'extra' was added"),
        (remove, "'layer.weight' is gone"),
        (resize, r"'embedding' had shape \(12, 6\), now \(13, 6\)"),
        (transpose, r"'embedding' had shape \(12, 6\), now \(6, 12\)"),
        (untie, "'head' was added"),
    ],
)
@pytest.mark.parametrize("tensors", [None, ("embedding", "layer.weight", "*e*")])
def test_a_tensor_that_changes_in_mid_run_is_named_and_the_recording_stays_whole(
    folder, change, message, tensors
):
    model = record(folder, range(1, 4), tensors=tensors)
    before = contents(folder)
    with Recorder(model, folder, resume_at=3, tensors=tensors) as recorder:
        change(model)
        with pytest.raises(ValueError, match=f"step 4 was not recorded: .*{message}.*in another folder"):
            recorder.step(loss=0.5)
    assert contents(folder) == before
    assert_whole(folder, [1, 2, 3])


@pytest.mark.parametrize("sketch", [None, 10])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_no_number_is_refused_with_its_tensor_and_step(folder, sketch, value):
    model = record(folder, range(1, 4), sketch=sketch)
    before = contents(folder)
    with Recorder(model, folder, resume_at=3, sketch=sketch) as recorder:
        with torch.no_grad():
            model.layer.weight[2, 3] = value
        with pytest.raises(ValueError, match=r"step 4 was not recorded: 'layer\.weight' is NaN or infinite"):
            recorder.step(loss=0.5)
        assert contents(folder) == before
        move(model, 5)
        assert recorder.step(loss=0.2)  # step 5: the one before was counted
    assert read_recording(folder).steps.tolist() == [1, 2, 3, 5]


def test_a_closed_recorder_and_one_of_another_process_record_nothing(folder):
    model = record(folder, range(1, 4))
    before = contents(folder)
    recorder = Recorder(model, folder, resume_at=3)
    recorder._process += 1  # as after a fork
    with pytest.raises(ValueError, match="is closed, or another process's"):
        recorder.step()
    recorder._process -= 1
    with pytest.raises(ValueError, match="written by this process"):
        Recorder(model, folder, resume_at=3)
    recorder.close()
    recorder.close()
    with pytest.raises(ValueError, match="is closed, or another process's"):
        recorder.step()
    assert contents(folder) == before


# --- going on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, 20])
def test_a_recording_that_goes_on_after_stops_is_that_of_an_unbroken_run(tmp_path, sketch):
    unbroken, stopped = tmp_path / "unbroken", tmp_path / "stopped"
    record(unbroken, range(1, 31), sketch=sketch, every=2)
    record(stopped, range(1, 22), sketch=sketch, every=2)
    record(stopped, range(10, 25), sketch=sketch, every=2, resume_at=9)  # 10 to 20 are made again
    record(stopped, range(25, 31), sketch=sketch, every=2, resume_at=24)
    assert contents(stopped) == contents(unbroken)
    record(stopped, range(1, 31), sketch=sketch, every=2, resume_at=0)
    assert contents(stopped) == contents(unbroken)


def test_a_snapshot_that_a_stop_came_before_is_made_where_the_recording_goes_on(tmp_path):
    """A checkpoint may be saved between an update and its snapshot."""
    unbroken, stopped = tmp_path / "unbroken", tmp_path / "stopped"
    record(unbroken, range(1, 13), every=2)
    model = record(stopped, range(1, 8), every=2)
    move(model, 8)
    with Recorder(model, stopped, every=2, resume_at=8) as recorder:
        assert recorder.step(step=8, loss=1 / 8)
        with pytest.raises(ValueError, match="does not come after step 8"):
            recorder.step(step=8)
        for step in range(9, 13):
            move(model, step)
            recorder.step(loss=1 / step)
    assert contents(stopped) == contents(unbroken)
    for start in (8, 9):  # there already; not due
        move(model, start)
        with (
            Recorder(model, stopped, every=2, resume_at=start) as recorder,
            pytest.raises(ValueError, match="does not come after"),
        ):
            recorder.step(step=start)


def test_full_snapshots_are_dropped_with_their_records(folder):
    model = record(folder, range(1, 21), sketch=20)
    assert open_run(folder).steps == [1, 2, 4, 5, 16, 17]
    move(model, 3)
    with Recorder(model, folder, sketch=20, resume_at=3) as recorder:
        for step in (9, 11):
            recorder.step(step=step)
    assert open_run(folder).steps == [1, 2, 9, 11]
    assert read_recording(folder).steps.tolist() == [1, 2, 3, 9, 11]
    assert read_recording(folder).distortion["n_pairs"].tolist()[0] == 5  # 9 and 11 are alike


def test_a_recording_may_start_where_a_checkpoint_is(folder):
    record(folder, range(1001, 1012), every=5, resume_at=1000)
    assert_whole(folder, [1005, 1010])


def test_a_run_of_its_own_is_not_appended_to_a_recording(folder):
    record(folder, range(1, 4))
    before = contents(folder)
    with pytest.raises(ValueError, match=r"holds a recording of steps 1 to 3.*resume_at.*another folder"):
        Recorder(Tied(), folder)
    with pytest.raises(ValueError, match=r"'embedding' is not what was recorded at step 3, .* off by \d+%"):
        Recorder(Tied(seed=1), folder, resume_at=3)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"about": {"seed": 1}}, "about.seed: 0 -> 1"),
        ({"every": 2}, "every: 1 -> 2"),
        ({"sketch": Sketch(20, seed=1)}, "sketch.seed: 0 -> 1"),
        ({"sketch": None}, "sketch: .* -> null"),
        ({"tensors": "embedding"}, "tensors.layer.weight: .* -> absent"),
        ({"model": Tied(13)}, "tensors.embedding.shape.0: 12 -> 13"),
    ],
)
def test_a_folder_of_another_run_model_or_seed_is_refused_by_what_differs(folder, how, line):
    settings = {"about": {"seed": 0}, "every": 1, "sketch": 20, "tensors": None, "model": Tied()}
    record(folder, range(1, 4), **settings)
    before = contents(folder)
    settings |= how
    with pytest.raises(ValueError, match=line):
        Recorder(settings.pop("model"), folder, resume_at=3, **settings)
    assert contents(folder) == before


def test_a_run_that_is_no_recording_is_refused(folder):
    create_run(folder, {"seed": 0}).close()
    with pytest.raises(ValueError, match=r"no recording.*open_run"):
        read_recording(folder)
    with pytest.raises(ValueError, match="another description"):
        Recorder(Tied(), folder)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        read_recording(folder.with_name("nothing"))


# --- damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_half_written_end_is_left_out_and_made_again(folder, power_cut):
    record(folder, range(1, 6))
    whole, path = contents(folder), folder / RECORDS
    data = path.read_bytes()
    size = len(data) // 5
    for cut in (1, 8, 16, size // 2, size - 8, size - 5):  # the last four bytes are zeros
        torn = data[: 4 * size + cut] + b"\0" * ((size - cut) * power_cut)
        path.write_bytes(torn)
        recording = read_recording(folder)
        assert recording.n_torn == (size if power_cut else cut)
        assert f"{recording.n_torn} bytes of a torn one" in repr(recording)
        assert_whole(folder, [1, 2, 3, 4])
        assert path.read_bytes() == torn  # a reader changes nothing
        record(folder, [5], resume_at=4)
        assert contents(folder) == whole
    path.write_bytes(data[: 2 * size] + b"\0" * 3 * size)
    assert_whole(folder, [1, 2])
    path.write_bytes(b"\0" * size)
    assert_whole(folder, [])


def test_any_altered_byte_is_an_error_that_names_the_record_or_the_end(folder):
    record(folder, range(1, 5))
    path = folder / RECORDS
    data = bytearray(path.read_bytes())
    size = len(data) // 4
    for place in (*range(24), *range(24, len(data), 37), len(data) - 1):
        altered = data.copy()
        altered[place] ^= 1
        path.write_bytes(altered)
        if place >= 3 * size:  # as if a power cut had left it
            assert read_recording(folder).n_torn == size
            continue
        with pytest.raises(DamagedRunError, match=rf"(record {place // size} \(|from its first record on)"):
            read_recording(folder)
    # padding is none of the content, but covered as well
    assert size == 8 + 8 + 4 * (72 + 36) + 8


def test_records_left_out_swapped_or_another_recordings_are_noticed(folder):
    record(folder, range(1, 5))
    record(folder.with_name("other"), range(1, 5), about="another")
    path = folder / RECORDS
    data, size = path.read_bytes(), path.stat().st_size // 4
    a, b, c, d = (data[start : start + size] for start in range(0, 4 * size, size))
    for bad in (b + c + d, a + c + d, b + a + c + d, a + b + b + c + d):
        path.write_bytes(bad)
        with pytest.raises(DamagedRunError, match=r"records\.bin.*restore"):
            read_recording(folder)
    shutil.copy(folder.with_name("other") / RECORDS, path)
    with pytest.raises(DamagedRunError, match="another recording's"):
        read_recording(folder, verify=False)
    with pytest.raises(DamagedRunError, match="another recording's"):
        Recorder(Tied(), folder, resume_at=4)


def test_checksums_may_be_left_to_the_first_and_last_record(folder):
    record(folder, range(1, 6))
    path = folder / RECORDS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert len(read_recording(folder, verify=False).steps) == 5
    with pytest.raises(DamagedRunError, match=r"record 2 \(after step 2\)"):
        read_recording(folder)


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.7, 0.99])
def test_recording_does_not_go_on_after_a_damaged_record(folder, share):
    record(folder, range(1, 6))
    path = folder / RECORDS
    data = bytearray(path.read_bytes())
    size, place = len(data) // 5, int(share * len(data))
    data[place] ^= 1
    path.write_bytes(data)
    damaged = place // size  # of records 0 to 4, of steps 1 to 5
    model = Tied()
    if damaged == 0:
        with pytest.raises(DamagedRunError, match=r"from its first record on"):
            Recorder(model, folder, resume_at=5)
        return
    if damaged < 4:
        with pytest.raises(DamagedRunError, match=rf"from a checkpoint of step {damaged} or before"):
            Recorder(model, folder, resume_at=5)
        assert path.read_bytes() == data
    record(folder, range(damaged + 1, 6), resume_at=damaged)  # what the message says
    assert_whole(folder, [1, 2, 3, 4, 5])


@pytest.mark.parametrize("torn", [b"", b"half a record"])
def test_a_gap_that_a_cut_file_leaves_is_said(folder, torn):
    record(folder, range(1, 6))
    path = folder / RECORDS
    data = path.read_bytes()
    path.write_bytes(data[: 2 * len(data) // 5] + torn)
    model = Tied()
    move(model, 5)
    said = r"last whole record is of step 2(, 13 bytes after it are no whole.*)?: there is a gap up to step 5"
    with pytest.warns(UserWarning, match=said):
        Recorder(model, folder, resume_at=5).close()
    record(folder, range(3, 6), resume_at=2)  # no gap: nothing is said
    assert_whole(folder, [1, 2, 3, 4, 5])


def test_a_damaged_full_snapshot_is_named_when_the_distortion_is_asked_for(folder):
    record(folder, range(1, 6), sketch=20)
    path = folder / "weights" / "0000000004.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    recording = read_recording(folder)
    with pytest.raises(DamagedRunError, match=r"0000000004\.safetensors"):
        _ = recording.distortion


# --- a disk that refuses ----------------------------------------------------------------------------


def test_a_full_disk_is_told_and_earlier_snapshots_stay_readable(folder, monkeypatch):
    model = record(folder, range(1, 4))
    before, write = contents(folder), os.pwrite

    def write_a_part(descriptor, data, offset):
        if len(data) > 300:
            return write(descriptor, data[:200], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    recorder = Recorder(model, folder, resume_at=3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write_a_part)
        for _ in range(2):
            with pytest.raises(
                OSError, match=r"the disk is full; 456 bytes are needed.*records\.bin"
            ) as caught:
                recorder.step(step=4)
            assert caught.value.errno == errno.ENOSPC
            assert contents(folder) == before
    move(model, 4)
    recorder.step(step=4)  # once there is room again
    recorder.close()
    assert_whole(folder, [1, 2, 3, 4])


def test_a_full_disk_at_a_full_snapshot_leaves_neither_it_nor_its_record(folder, monkeypatch):
    model = record(folder, range(1, 4), sketch=20)
    before = contents(folder)

    def refuse(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Recorder(model, folder, resume_at=3, sketch=20) as recorder:
        with monkeypatch.context() as patch:
            patch.setattr("embviz.training.snapshots.whole_file", refuse)
            with pytest.raises(OSError, match=r"the disk is full.*0000000004\.safetensors"):
                recorder.step()
        assert contents(folder) == before
        move(model, 4)
        recorder.step(step=4, loss=1 / 4)
    record(folder.with_name("other"), range(1, 5), sketch=20)
    assert contents(folder) == contents(folder.with_name("other"))


@contextlib.contextmanager
def largest_file(n_bytes):
    """The kernel refuses to write past `n_bytes` of any file: real short writes, then EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_limit_on_file_size_is_told_and_the_recording_goes_on_when_it_is_raised(folder):
    model = record(folder, range(1, 4))
    with Recorder(model, folder, resume_at=3) as recorder:
        with largest_file(2000):
            move(model, 4)
            recorder.step()
            move(model, 5)
            with pytest.raises(OSError, match=r"limit of 2,000 bytes \(ulimit -f\)"):
                recorder.step()
        assert_whole(folder, [1, 2, 3, 4])
        recorder.step(step=5)
    assert_whole(folder, [1, 2, 3, 4, 5])


def test_flushing_is_done_now_and_then_and_at_the_end(folder, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    monkeypatch.setattr(recording_module, "FLUSH_EVERY", 1e9)
    record(folder, range(1, 4))
    assert len(flushed) == 1
    monkeypatch.setattr(recording_module, "FLUSH_EVERY", -1.0)
    record(folder, range(4, 7), resume_at=3)
    assert len(flushed) == 1 + 3 + 1


# --- two processes, and kills -----------------------------------------------------------------------


def test_a_reader_keeps_what_it_has_mapped_when_a_resumed_run_drops_it(folder):
    record(folder, range(1, 10))
    recording = read_recording(folder)
    before = recording.tensors["embedding"].copy()
    record(folder, range(3, 5), resume_at=2)  # a shortened file would end the reader with SIGBUS
    assert np.array_equal(recording.tensors["embedding"], before)
    assert_whole(folder, [1, 2, 3, 4])


def start_recording(folder, done, **how):
    """Another process that records without an end, once it has begun."""
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            model = Tied()
            move(model, done)
            with Recorder(model, folder, resume_at=done, **how) as recorder:
                os.write(begun, b"!")
                for step in itertools.count(done + 1):
                    move(model, step)
                    recorder.step(loss=1 / step)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(begun)
    assert os.read(ready, 1) == b"!", "it has failed"
    os.close(ready)
    return pid


def test_a_recording_is_read_while_another_process_records_and_kills_cost_nothing_whole(tmp_path):
    folder, how, done, grown = tmp_path / "recording", {"sketch": 20, "tensors": "*"}, 0, 0
    for wait in (0.02, 0.003, 0.011, 0.001, 0.03, 0.007):
        writer = start_recording(folder, done, **how)
        seen = len(read_recording(folder).steps)
        time.sleep(wait)
        with pytest.raises(ValueError, match=f"written by process {writer}"):
            Recorder(Tied(), folder, resume_at=done, **how)
        os.kill(writer, signal.SIGKILL)
        assert os.waitpid(writer, 0)[1] == signal.SIGKILL
        recording = read_recording(folder)
        assert recording.steps.tolist() == list(range(1, len(recording.steps) + 1))
        grown += len(recording.steps) - seen
        done = max(0, len(recording.steps) - 3)  # the checkpoint was three steps ago
    assert grown > 0  # some was read while it was written
    record(folder, range(done + 1, done + 101), resume_at=done, **how)
    record(tmp_path / "unbroken", range(1, done + 101), **how)
    assert contents(folder) == contents(tmp_path / "unbroken")
