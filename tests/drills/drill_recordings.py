"""Recordings damaged in two hundred ways, each before training goes on with them: none may pass unnoticed."""

import random
import time
import warnings

import numpy as np
import pytest
import torch

from embviz.training.recorder import RECORDS, Recorder, read_recording
from embviz.training.snapshots import DamagedRunError

N_RECORDS = 40


def record(folder, model, steps, **how):
    with Recorder(model, folder, **how) as recorder:
        for _ in steps:
            recorder.step()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folder of a recording, its model, and the bytes of its records."""
    folder, model = tmp_path_factory.mktemp("whole") / "recording", torch.nn.Linear(20, 20)
    record(folder, model, range(N_RECORDS))
    return folder, model, (folder / RECORDS).read_bytes()


def damaged(data, seed):
    """The records with a bit turned, zeros written over some, some cut out or doubled, or the end cut off."""
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
def test_training_goes_on_with_whole_records_or_says_why_not(whole, seed):
    folder, model, data = whole
    path = folder / RECORDS
    path.write_bytes(damaged(data, seed))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            Recorder(model, folder, resume_at=N_RECORDS).close()
        except DamagedRunError:
            return  # what is damaged is said
    kept = path.read_bytes()
    assert data.startswith(kept)  # what stays is as it was recorded
    n_lost = N_RECORDS - len(kept) // (len(data) // N_RECORDS)
    # the last may be made again by step(step=resume_at); more than that is a gap, and is said
    assert [str(one.message) for one in said if "there is a gap" in str(one.message)] or n_lost <= 1


def test_a_gigabyte_is_verified_in_a_second_or_so(tmp_path):
    model, folder = torch.nn.Linear(5_000, 1_000, bias=False), tmp_path / "recording"  # 20 MB a record
    record(folder, model, range(15))
    start = time.perf_counter()
    Recorder(model, folder, resume_at=15).close()
    seconds = (time.perf_counter() - start) / ((folder / RECORDS).stat().st_size / 1e9)
    print(f"\nverified on resume in {seconds:.1f} s a gigabyte")
    assert seconds < 20
    assert np.isfinite(read_recording(folder, verify=False).tensors["weight"][-1]).all()
