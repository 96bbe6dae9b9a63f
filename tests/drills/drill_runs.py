"""Runs damaged in two hundred ways, each before training goes on with them: none may pass unnoticed."""

import random
import shutil
import time

import pytest
import torch

from embviz.runs import DamagedRunError, Run, read_run

N_STEPS = 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folder of a run."""
    folder, model = tmp_path_factory.mktemp("whole") / "run", torch.nn.Linear(20, 20)
    with Run.open(folder) as run:
        for step in range(N_STEPS):
            run.append(step, model, {"loss": 1 / (step + 1)})
        run.save_state(step, {"model": model.state_dict()})
    return folder


def damaged(data, seed):
    """Bytes with a bit turned, zeros written over some, some cut out or doubled, or the end cut off."""
    rng = random.Random(seed)
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice([1, 100, 1_000, 10_000]))
    kind = seed % 5
    if kind == 0:
        return data[:start] + bytes([data[start] ^ 1 << rng.randrange(8)]) + data[start + 1 :]
    if kind == 1:
        return data[:start] + bytes(end - start) + data[end:]
    if kind == 2:
        return data[:start] + data[end:]
    return data[:end] + data[start:] if kind == 3 else data[:start]


@pytest.mark.parametrize("seed", range(200))
def test_training_goes_on_with_whole_snapshots_or_says_why_not(whole, tmp_path, seed):
    folder = shutil.copytree(whole, tmp_path / "run")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "writer.lock"]
    named = [path for path in files if path.parent == folder or seed % 2]  # the log and run.json more often
    path = random.Random(seed).choice(named)
    data = path.read_bytes()
    path.write_bytes(damaged(data, seed))
    try:
        with Run.open(folder) as run:
            tensors, state = run.tensors(), run.load_state()
            said = ""
    except DamagedRunError as error:
        said = str(error)
    if said:
        assert path.name in said
        return
    intact = read_run(whole)
    n_kept = len(run.steps)  # a log cut short has fewer lines, as after a kill
    assert run.steps == intact.steps[:n_kept]
    assert path.read_bytes() == data or path.name == "metrics.jsonl"
    assert run.metrics().equals(intact.metrics()[:n_kept])
    for name, array in tensors.items():
        assert (array == intact.tensor(name)[:n_kept]).all()
    assert state[0] == N_STEPS - 1


def test_a_gigabyte_is_verified_in_some_seconds(tmp_path):
    model, folder = torch.nn.Linear(5_000, 1_000, bias=False), tmp_path / "run"  # 20 MB a snapshot
    with Run.open(folder) as run:
        for step in range(15):
            run.append(step, model)
    start = time.process_time()
    assert read_run(folder).tensor("weight").shape == (15, 1_000, 5_000)
    seconds = (time.process_time() - start) / 0.3
    print(f"\nread and verified in {seconds:.1f} s a gigabyte")
    assert seconds < 20
