"""Runs on disk: what is stored comes back, what is damaged is named, and no kill loses anything."""

import contextlib
import errno
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from torch import nn

from embviz import storage
from embviz.runs import DamagedRunError, Run, delete_run, read_run, run, select_weights
from embviz.storage import BusyRunError
from embviz.trajectories import read_checkpoints

CONFIG = {"model": {"dim": 4, "tied": True}, "rates": (0.1, 0.2), "seed": 0}
METRICS = {"loss": [1.0, 0.5], "rate": 0.1}


def make_weights(step, shape=(3, 4)):
    return {"embedding": torch.full(shape, float(step)), "bias": torch.arange(3) + step}


def make_run(folder, steps=(0, 10, 20)):
    """A run with a state after its last snapshot, open for writing."""
    made = Run.open(folder, config=CONFIG)
    for step in steps:
        made.append(step, make_weights(step), METRICS)
    made.save_state(steps[-1], {"moment": torch.ones(2), "rate": 0.5})
    return made


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """Flushing to disk takes most of the time, and only a power cut can tell."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def contents(folder):
    """Checksum of every file of a run but the lock, which names a process."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != run.LOCK
    }


def assert_intact(folder, steps):
    read = read_run(folder)
    assert read.steps == list(steps)
    for step in steps:
        assert torch.equal(read.weights(step)["embedding"], make_weights(step)["embedding"])


# --- what is stored comes back ----------------------------------------------------------------------


def test_tensors_of_every_kind_come_back_bit_for_bit_in_their_order(folder):
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(4, 6, generator=generator)
    weights = {"zeta": base, "scalar": torch.tensor(0.1)}
    weights |= {name: torch.zeros(0, 3) for name in ("empty", "twin")}
    weights["strided"] = torch.randn(6, 8, generator=generator).t()[::2]
    weights["expanded"] = torch.randn(1, 3, generator=generator).expand(5, 3)
    weights["parameter"] = nn.Parameter(base * 2)
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64]
    kinds += [torch.int64, torch.int32, torch.uint8, torch.bool]
    weights |= {str(kind): base.to(kind) for kind in kinds}
    made = Run.open(folder)
    made.append(0, weights)
    made.save_state(0, weights)
    for back in (read_run(folder).weights(0), read_run(folder).load_state()[1]):
        assert list(back) == list(weights)
        for name, tensor in weights.items():
            assert (back[name].dtype, back[name].shape) == (tensor.dtype, tensor.shape), name
            view = (lambda t: t.float()) if tensor.dtype == torch.float8_e4m3fn else (lambda t: t)
            assert torch.equal(view(back[name]), view(tensor.detach())), name


def test_tied_weights_are_stored_once_and_share_memory_again(folder):
    embedding, decoder = nn.Embedding(100, 10), nn.Linear(10, 100, bias=False)
    decoder.weight = embedding.weight
    weights = {"free": torch.ones(3), "in": embedding.weight, "out": decoder.weight}
    weights["view"] = embedding.weight[:]
    made = Run.open(folder)
    made.append(0, weights)
    made.save_state(0, weights)
    for back in (made.weights(0), made.load_state()[1]):
        assert torch.equal(back["out"], embedding.weight)
        back["in"][0, 0] = 7.0
        assert back["out"][0, 0] == back["view"][0, 0] == 7.0
    for file in folder.rglob("0*.safetensors"):
        assert 4000 < file.stat().st_size < 5000  # 100 x 10 floats once, and a header


def test_views_with_other_content_are_not_taken_for_tied(folder):
    square, turned = torch.arange(9.0).view(3, 3), torch.tensor([1j, 2.0])
    weights = {"square": square, "transposed": square.t(), "row": square[1], "other row": square[2]}
    weights |= {"turned": turned, "conjugate": turned.conj(), "bits": square.view(torch.int32)}
    made = Run.open(folder)
    made.append(0, weights)
    back = made.weights(0)
    for name, tensor in weights.items():
        assert torch.equal(back[name], tensor), name
    back["square"][:] = 0
    assert torch.equal(back["transposed"], square.t())


def test_metrics_are_a_table_with_a_row_a_member_and_holes_where_nothing_was_measured(folder):
    made = Run.open(folder)
    made.append(0, {}, {"loss": torch.tensor([1.0, 2.0]), "rate": np.float32(0.5)})
    made.append(5, {}, {"rate": 1})
    table = made.metrics()
    assert list(table) == ["step", "member", "loss", "rate"]
    assert table["step"].tolist() == [0, 0, 5, 5]
    assert table["member"].tolist() == [0, 1, 0, 1]
    assert table["loss"].tolist()[:2] == [1.0, 2.0]
    assert table["loss"].isna().tolist() == [False, False, True, True]
    assert table["rate"].tolist() == [0.5, 0.5, 1.0, 1.0]
    assert not list((folder / "weights").iterdir())  # nothing to keep, no file


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.text(min_size=1))
def test_any_finite_numbers_under_any_name_come_back_exactly(tmp_path_factory, values, name):
    name = "x" + name.encode("utf-8", "replace").decode()
    folder = tmp_path_factory.mktemp("any") / "run"
    with Run.open(folder) as made:
        made.append(0, {}, {name: values})
    assert read_run(folder).metrics()[name].tolist() == values


def test_a_tensor_over_time_is_an_array(folder):
    made = Run.open(folder)
    for step in range(4):
        weights = {"w": torch.full((2, 3), float(step)), "half": torch.full((5,), step / 3).bfloat16()}
        made.append(10 * step, weights, {"loss": 4.0 - step} if step != 2 else {})
    assert made.tensor("w").shape == (4, 2, 3)
    assert made.tensor("w")[:, 1, 2].tolist() == [0, 1, 2, 3]
    assert made.tensor("half").dtype == np.float32
    assert list(made.tensors("*")) == ["w", "half"]
    with pytest.raises(ValueError, match=r"no tensor is called 'v': there are w, half"):
        made.tensor("v")
    made.append(40, {"w": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match=r"'w' has shape \(3, 3\) at step 40, before \(2, 3\)"):
        made.tensor("w")


def test_other_tools_read_a_run(tmp_path):
    """As book/using.md shows it."""
    for name, sketch in (("run", None), ("sketched", 5)):
        with Run.open(tmp_path / name, sketch=sketch) as made:
            for step in range(0, 30, 10):
                made.append(step, make_weights(step), {"loss": 1 / (step + 3)})
            made.save_state(step, {"moment": torch.ones(2)})
    metrics = pd.read_json(tmp_path / "run" / "metrics.jsonl", lines=True)
    pd.testing.assert_frame_equal(metrics[["step", "loss"]], made.metrics())
    weights = load_file(tmp_path / "run" / "weights" / f"{metrics['step'][1]:010d}.safetensors")
    assert (weights["embedding"] == 10).all()
    assert torch.load(tmp_path / "run" / "state.pt")["state"]["moment"].tolist() == [1, 1]
    row = json.loads((tmp_path / "sketched" / "sketches.json").read_text())["row"]
    sketches = np.fromfile(tmp_path / "sketched" / "sketches.bin", [tuple(field) for field in row])
    assert (sketches["embedding"] == made.tensor("embedding")).all()
    assert sketches["bias"].tolist() == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]


def test_a_state_has_the_structure_that_it_was_saved_with(folder):
    model = nn.Linear(3, 2)
    adam = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    adam.step()
    rng = np.random.default_rng(0)
    state = {"model": model.state_dict(), "adam": adam.state_dict(), "torch": torch.get_rng_state()}
    state |= {"numpy": rng.bit_generator.state, "best": float("inf"), 3: [(1, "a"), None, True]}
    made = Run.open(folder)
    for step in (5, 7):
        made.save_state(step, state)
    step, back = read_run(folder).load_state()
    assert step == 7
    assert list(back) == list(state)
    assert back[3] == [(1, "a"), None, True]
    assert back["numpy"] == rng.bit_generator.state
    torch.optim.AdamW(model.parameters()).load_state_dict(back["adam"])
    assert torch.equal(back["adam"]["state"][0]["exp_avg"], adam.state_dict()["state"][0]["exp_avg"])
    with pytest.raises(ValueError, match="a state holds tensors, numbers and text, not <object"):
        made.save_state(8, {"x": object()})
    assert read_run(folder).load_state()[0] == 7


def test_weights_are_selected_by_name_or_pattern_matrices_by_default():
    model = nn.Module()
    model.embedding = nn.Embedding(5, 3)
    model.head = nn.Linear(3, 5)
    model.head.weight = model.embedding.weight
    assert list(select_weights(model)) == ["embedding.weight"]
    assert list(select_weights(model, "*")) == ["embedding.weight", "head.bias"]
    assert list(select_weights(model, ["head.*"])) == ["head.bias"]
    compiled = nn.Module()
    compiled._orig_mod = model
    assert list(select_weights(compiled)) == ["embedding.weight"]
    with pytest.raises(ValueError, match=r"no tensor is called 'hed\.bias': there are head\.bias"):
        select_weights(model, "hed.bias")


def test_a_name_with_the_signs_of_patterns_means_that_tensor_alone(tmp_path):
    names = ["w[1]", "w1", "a*", "abc", "q?", "qu"]
    with Run.open(tmp_path / "run[1]") as made:
        for step in range(3):
            made.append(step, {name: torch.full((2, 2), float(at)) for at, name in enumerate(names)})
    read = read_run(tmp_path / "run[1]")
    for at, name in enumerate(names):
        assert list(read.tensors(name)) == list(read_checkpoints(read.folder, name)) == [name]
        assert (read.tensor(name) == at).all()
    assert list(read.tensors(["w*", "q?"])) == ["w[1]", "w1", "q?"]
    assert list(read.tensors("[aw]*")) == ["w[1]", "w1", "a*", "abc"]


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "metrics", "message"),
    [
        (
            {"w": torch.tensor([1.0, float("nan")])},
            {},
            "step 30 was not stored: 'w' is NaN or infinite in 1 of 2",
        ),
        ({}, {"loss": float("inf")}, "metric 'loss' is inf: give a finite number"),
        ({}, {"loss": "low"}, "metric 'loss' is 'low': give a finite number"),
        ({}, {"loss": [1.0, 2.0, 3.0]}, "or a list of as many as before"),
        ({}, {"step": 1.0}, "a name other than step, member, sha256, crc32"),
    ],
)
def test_what_would_be_read_wrong_is_refused_and_nothing_changes(folder, weights, metrics, message):
    made = make_run(folder)
    before = contents(folder)
    with pytest.raises(ValueError, match=message):
        made.append(30, weights, metrics)
    for weights in ({"w": torch.ones(2, device="meta")}, {"w": torch.eye(2).to_sparse()}):
        with pytest.raises(RuntimeError):  # PyTorch's own
            made.append(30, weights, METRICS)
    assert contents(folder) == before
    made.append(30, make_weights(30), METRICS)


def test_steps_must_increase_also_after_reopening(folder):
    make_run(folder).close()
    with Run.open(folder, config=CONFIG) as made:
        for step in (-1, 0, 20):
            with pytest.raises(ValueError, match=rf"step {step} does not come after 20.*truncate"):
                made.append(step, {}, METRICS)
    with pytest.raises(ValueError, match="is read only, closed, or another process's"):
        made.append(30, {}, METRICS)
    with pytest.raises(KeyError, match="14"):
        read_run(folder).weights(14)


@pytest.mark.parametrize(
    ("config", "sketch", "difference"),
    [
        ({**CONFIG, "seed": 1}, None, "seed is 0 there and 1 now"),
        ({**CONFIG, "new": 1}, None, "new is absent there and 1 now"),
        (CONFIG, 64, "sketch is None there and"),
    ],
)
def test_a_run_of_another_configuration_is_refused_by_the_first_difference(
    folder, config, sketch, difference
):
    make_run(folder).close()
    before = contents(folder)
    with pytest.raises(ValueError, match=f"another configuration: {difference}"):
        Run.open(folder, config=config, sketch=sketch)
    assert contents(folder) == before
    Run.open(folder, config={**CONFIG, "seed": 0.0, "rates": [0.1, 0.2]}).close()


def test_a_folder_with_other_files_is_refused_and_stays_as_it_was(folder):
    with pytest.raises(FileNotFoundError, match=r"holds no run \(there is no run\.json\)"):
        read_run(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(notes\.txt\) and no run\.json"):
        Run.open(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_run_of_an_older_format_is_refused_in_one_sentence(folder):
    make_run(folder).close()
    (folder / run.RUN).write_bytes(run._sealed({"format": 2, "config": CONFIG, "sketch": None}))
    for opened in (read_run, Run.open):
        with pytest.raises(
            DamagedRunError, match=r"format 2, now 3\), and can't be read any more: delete it, and"
        ):
            opened(folder)


# --- writers, readers, forks ------------------------------------------------------------------------


def test_a_second_writer_is_told_who_writes_until_the_first_ends_and_readers_read_on(folder):
    first = make_run(folder)
    with pytest.raises(
        BusyRunError, match=f"being written by process {os.getpid()}: end it, or close its Run"
    ):
        Run.open(folder, config=CONFIG)
    code = f"""
from embviz.runs import Run, read_run
assert read_run({str(folder)!r}).steps == [0, 10, 20]
Run.open({str(folder)!r}, config={CONFIG!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"is being written by process {os.getpid()}: end it" in done.stderr
    reader = read_run(folder)
    first.append(30, make_weights(30), METRICS)
    assert reader.steps == [0, 10, 20]
    assert_intact(folder, [0, 10, 20, 30])
    assert not delete_run(folder)
    first.close()
    with Run.open(folder, config=CONFIG) as second:
        second.append(40, make_weights(40), METRICS)
    assert delete_run(folder)
    assert not folder.exists()
    assert not delete_run(folder)


# --- damage -----------------------------------------------------------------------------------------


def read_everything(folder):
    read = read_run(folder)
    read.tensors()
    read.load_state()


def test_any_altered_byte_of_any_file_is_an_error_that_names_it(folder):
    make_run(folder).close()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != run.LOCK):
        data = path.read_bytes()
        step = (
            7 if path.parent != folder or path.name == run.STATE else 1
        )  # one checksum for all of it, or many lines
        for place in range(0, len(data) - 1, step):  # the last byte ends a line
            path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
            with pytest.raises(DamagedRunError, match=re.escape(path.name)):
                read_everything(folder)
            path.write_bytes(data)
    assert_intact(folder, [0, 10, 20])


@pytest.mark.parametrize(
    "harm", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])]
)
def test_missing_or_shortened_weights_are_named_when_read(folder, harm):
    make_run(folder).close()
    harm(folder / "weights" / "0000000010.safetensors")
    with pytest.raises(
        DamagedRunError, match=r"0000000010\.safetensors (is missing|was altered or cut short)"
    ):
        read_run(folder).tensor("embedding")
    assert read_run(folder).weights(20)["bias"].tolist() == [20, 21, 22]
    with Run.open(folder, config=CONFIG) as made:
        made.truncate(0)  # as the message advises
        made.append(10, make_weights(10), METRICS)
    assert_intact(folder, [0, 10])


def test_a_last_line_cut_anywhere_is_dropped_and_made_again(folder):
    make_run(folder).close()
    path = folder / run.METRICS
    data = path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(data)):
        path.write_bytes(data[:end] + b"\0" * (end % 3))
        assert_intact(folder, [0, 10])
    with Run.open(folder, config=CONFIG) as made:
        with pytest.raises(
            DamagedRunError, match=r"metrics\.jsonl lacks the snapshot of step 20, which the state"
        ):
            made.load_state()  # no kill leaves a state without the snapshots before it
        made.append(20, make_weights(20), METRICS)
        assert made.load_state()[0] == 20
    assert path.read_bytes() == data


def test_truncating_drops_later_snapshots_and_states_as_if_they_never_were(tmp_path):
    long, short = make_run(tmp_path / "long"), make_run(tmp_path / "short", steps=(0, 10))
    short.truncate(5)
    short.append(10, make_weights(10), METRICS)
    long.truncate(10)
    assert long.load_state() is None
    assert contents(tmp_path / "long") == contents(tmp_path / "short")


# --- a disk that refuses ----------------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(n_bytes):
    """The kernel refuses to write past `n_bytes` of any file: real short writes, then EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_with_the_files_name_and_leaves_everything_before_whole(folder):
    made, steps = make_run(folder), [0, 10, 20]
    before, big = contents(folder), {"embedding": torch.zeros(5000)}
    with largest_file(4096):
        with pytest.raises(OSError, match=r"File too large: .*weights/0000000030\.safetensors") as caught:
            made.append(30, big, METRICS)
        assert caught.value.errno == errno.EFBIG
        with pytest.raises(OSError, match=r"File too large: .*state\.pt"):
            made.save_state(30, big)
        assert contents(folder) == before
        with contextlib.suppress(OSError):
            while steps[-1] < 1000:
                made.append(steps[-1] + 10, make_weights(steps[-1] + 10), METRICS)
                steps.append(steps[-1] + 10)
        with pytest.raises(OSError, match=r"File too large: .*metrics\.jsonl"):  # the other files are small
            made.append(steps[-1] + 10, make_weights(steps[-1] + 10), METRICS)
        assert_intact(folder, steps)
        assert set(contents(folder)) == set(before) | {f"weights/{step:010d}.safetensors" for step in steps}
    made.close()
    with Run.open(folder, config=CONFIG) as made:
        assert made.load_state()[0] == 20
        made.append(steps[-1] + 10, make_weights(steps[-1] + 10), METRICS)
    assert_intact(folder, [*steps, steps[-1] + 10])


# --- kills ------------------------------------------------------------------------------------------


def train(folder, n_steps, sketch):
    """Snapshots every 2 steps and states every 3: a state may be older than the last snapshot, or later."""
    with Run.open(folder, config={"seed": 0}, sketch=sketch) as run:
        done, state = run.load_state() or (-1, {"w": torch.arange(64.0).view(8, 8)})
        run.truncate(done)
        for step in range(done + 1, n_steps):
            state["w"] = torch.sin(state["w"] + step)
            if step % 2 == 0:
                run.append(step, state, {"norm": state["w"].norm()})
            if step % 3 == 0:
                run.save_state(step, state)


def what_kills_leave(folder, seen, *how):
    """Train, and copy the folder at each line of the writing code that finds it as it never was before.

    A kill leaves what is in the file system at that moment, and this is all of it.
    """
    files, copies, last = [module.__file__ for module in (run, storage)], [], None

    def trace(frame, event, argument):
        nonlocal last
        if frame.f_code.co_filename not in files:
            return None
        now = [(entry.name, entry.stat().st_mtime_ns, entry.stat().st_size) for entry in scan(folder)]
        if event == "line" and folder.exists() and now != last:
            last, state = now, frozenset(({name: "" for name, *_ in now} | contents(folder)).items())
            if state not in seen:
                copies.append(shutil.copytree(folder, folder.with_name(f"copy{len(seen)}")))
                seen.add(state)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        train(folder, *how)
    finally:
        sys.settrace(before)
    return copies


def scan(folder):
    for path in (folder, folder / run.WEIGHTS):
        if path.exists():
            yield from os.scandir(path)


@pytest.mark.parametrize("sketch", [20, None])
def test_a_run_killed_at_any_line_and_again_while_it_resumes_ends_as_an_unbroken_one(tmp_path, sketch):
    train(tmp_path / "unbroken", 5, sketch)
    unbroken, seen, todo = contents(tmp_path / "unbroken"), set(), [tmp_path / "new"]
    while todo:
        folder = todo.pop()
        if (folder / run.RUN).exists():
            read_run(folder).tensors()  # a reader finds no fault at any moment
            read_run(folder).load_state()
        todo += what_kills_leave(folder, seen, 5, sketch)
        assert contents(folder) == unbroken
    assert len(seen) > 30


FORK = """
import os, signal, sys
from embviz.runs import Run

run = Run.open(sys.argv[1])
hear, tell = os.pipe()
if (child := os.fork()) == 0:
    try:
        run.append(0, {}, {"norm": 1.0})
        os.write(tell, b"nothing was refused")
    except BaseException as error:
        os.write(tell, str(error).encode())
    signal.pause()
print(os.read(hear, 10_000).decode())
run.close()
try:
    Run.open(sys.argv[1]).close()  # while the child lives
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_a_fork_neither_writes_nor_locks(folder):
    done = subprocess.run([sys.executable, "-c", FORK, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "another process's" in done.stdout


def test_a_power_cut_finds_no_line_whose_weights_and_no_state_whose_log_are_not_on_disk(folder, monkeypatch):
    made, events = make_run(folder), []
    replace = os.replace

    def log_sync(descriptor):
        events.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}")

    def log_rename(source, target):
        events.append(f"rename to {os.path.basename(target)[:10]}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", log_sync)
    monkeypatch.setattr(os, "replace", log_rename)
    made.append(30, make_weights(30), METRICS)
    assert events == ["sync partial", "rename to 0000000030"]
    events.clear()
    made.save_state(30, make_weights(30))
    assert events == ["sync weights", "sync metrics.jsonl", "sync partial", "rename to state.pt"]
    made.close()
