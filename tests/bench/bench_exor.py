"""EXor's models side by side, beside plain runs of PyTorch's layers, one after another; stored snapshots."""

import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

from book.members import Member
from book.tying.experiments.exor_runs import SPLIT_SEED, StackedBatches
from book.tying.languages.exor import EXor, EXorStream, split_strings
from book.tying.models.encoders import Encoder, EncoderConfig
from book.tying.models.stacked import StackedEncoder
from embviz.runs import Run
from embviz.training.loop import AdamW, keep_freed_memory, train

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_STEPS = 3_000 if FULL else 300
N_ROUNDS = 3
MEMBERS = [Member(seed, tied) for seed in range(5) for tied in (False, True)]
WARM_UP = 20  # steps: threads started, code loaded
OPTIMIZER = AdamW(5e-4, 1e-5, weight_decay=0.1, eps=1e-12)

pytestmark = pytest.mark.usefixtures("one_thread")


def batches_of(members: Sequence[Member]) -> StackedBatches:
    train_strings, _ = split_strings(EXor(), seed=SPLIT_SEED)
    return StackedBatches(EXorStream(EXor(), train_strings), members)


def train_batched(members: Sequence[Member], n_steps: int, n_threads: int = 1) -> list[float]:
    """Our loop; the last losses."""
    torch.set_num_threads(n_threads)
    model, batches = StackedEncoder(EncoderConfig(), members), batches_of(members)
    losses: list[torch.Tensor] = []

    def loss(step: int) -> torch.Tensor:
        losses[:] = [model.losses(*batches.at(step))]
        return losses[0]

    for _ in train(model, loss, OPTIMIZER, n_steps=n_steps, snapshot_at=n_steps):
        pass
    return losses[0].tolist()


def train_batched_in_two_processes(n_steps: int) -> list[float]:
    halves = (MEMBERS[:5], MEMBERS[5:])
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(train_batched)(half, n_steps) for half in halves)
    return [loss for part in parts for loss in part]


def train_plainly(n_steps: int, n_threads: int) -> list[float]:
    """A plain, well-written loop, one model after the other; the last losses."""
    torch.set_num_threads(n_threads)
    keep_freed_memory()  # our loop's trick is the peer's too
    last = []
    for member in MEMBERS:
        model, batches = Encoder(EncoderConfig(), tied=member.tied, seed=member.seed), batches_of([member])
        adam = torch.optim.AdamW(model.parameters(), weight_decay=0.1, eps=1e-12, fused=True)
        rows = torch.arange(114)
        for step in range(n_steps):
            adam.param_groups[0]["lr"] = OPTIMIZER.rate(step)
            tokens, places, targets = (part[0] for part in batches.at(step))
            adam.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(tokens)[rows, places], targets)
            loss.backward()
            adam.step()
        last.append(loss.item())
    return last


def fastest_of(
    ways: dict[str, Callable[[int], object]],
    clock: Callable[[], float] = time.perf_counter,
    n_rounds: int = N_ROUNDS,
) -> dict[str, float]:
    """Least seconds of each, all of them once in each round, since a machine's pace changes."""

    def seconds(way: Callable[[int], object]) -> float:
        start = clock()
        way(N_STEPS)
        return clock() - start

    for way in ways.values():
        way(WARM_UP)
    rounds = [[seconds(way) for way in ways.values()] for _ in range(n_rounds)]
    return dict(zip(ways, np.min(rounds, axis=0).tolist(), strict=True))


def test_ten_runs_side_by_side_beside_one_after_the_other(speed_table):
    ours = {
        "one process": functools.partial(train_batched, MEMBERS),
        "one process, 2 threads": functools.partial(train_batched, MEMBERS, n_threads=2),
        "two processes": train_batched_in_two_processes,
    }
    peers = {
        "1 thread": functools.partial(train_plainly, n_threads=1),
        "2 threads": functools.partial(train_plainly, n_threads=2),
    }
    # float32 in another order, through 100 updates
    np.testing.assert_allclose(ours["two processes"](100), peers["1 thread"](100), atol=1e-3)
    took = fastest_of({**ours, **peers})
    best, best_peer = min(ours, key=took.__getitem__), min(peers, key=took.__getitem__)
    speed_table(
        job=f"EXor, 10 runs (5 seeds x tied, untied), {N_STEPS:,} steps",
        ours=took[best],
        peer=took[best_peer],
        unit="s",
        bar="at most 0.167 times the peer",
        peer_name=f"nn.TransformerEncoder, ten plain loops, {best_peer}; ours: {best}",
    )


def test_storing_snapshots_beside_training_without_them(speed_table, tmp_path: Path):
    n_runs = iter(range(1000))

    def with_snapshots(n_steps: int) -> None:
        torch.set_num_threads(1)
        model, batches = StackedEncoder(EncoderConfig(), MEMBERS), batches_of(MEMBERS)
        with Run.open(tmp_path / str(next(n_runs))) as run:
            for _ in train(
                model,
                lambda step: model.losses(*batches.at(step)),
                OPTIMIZER,
                n_steps=n_steps,
                snapshot_at=100,
                run=run,
            ):
                pass

    # the processor's seconds: how long a disk takes is no matter of training
    ways = {"with": with_snapshots, "without": functools.partial(train_batched, MEMBERS)}
    took = fastest_of(ways, clock=time.process_time, n_rounds=7)
    speed_table(
        job=f"EXor, 10 runs, {N_STEPS:,} steps, weights and state stored every 100",
        ours=took["with"],
        peer=took["without"],
        unit="s",
        bar="at most 1.05 times the peer",
        peer_name="the same training, nothing stored",
    )
