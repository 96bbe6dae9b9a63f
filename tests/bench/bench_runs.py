"""Recording every weight matrix beside training without it; our sketch beside a dense one; reading back."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from book.transformer import Transformer, TransformerConfig
from embviz.runs import Run, Sketch, read_run, select_weights
from tests.bench.speed_table import fastest

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_STEPS = 400 if FULL else 50
# 0.4 million parameters in 14 matrices: embedding, positions, 2 x (query, key, value, out, up, down)
SHAPE = TransformerConfig(n_symbols=256, length=128, embedding_dim=128, n_layers=2, n_heads=4, tied=True)
WAYS = {
    "every step, 256 numbers a matrix": (1, 256),
    "every 10 steps, in full": (10, None),
}

pytestmark = pytest.mark.usefixtures("one_thread")


def train(run: Run, model: nn.Module, every: int, n_steps: int) -> tuple[float, float]:
    """A plain loop of a user's own: seconds of the processor for training, and for recording.

    Both in one loop, since what differs between two, on a machine with other work, is more than recording
    takes. Waiting for the disk isn't in it.
    """
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(256, (16, 129), generator=torch.Generator().manual_seed(0))
    training = recording = 0.0
    first = run.steps[-1] + 1 if run.steps else 0
    for step in range(first, first + n_steps):
        start = time.thread_time()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        trained = time.thread_time()
        if step % every == 0:
            run.append(step, select_weights(model), {"loss": loss})
        training, recording = training + trained - start, recording + time.thread_time() - trained
    return training, recording


@pytest.mark.parametrize("way", WAYS)
def test_recording_beside_training_alone(speed_table, tmp_path: Path, way: str):
    model = Transformer(SHAPE, seed=0)
    every, sketch = WAYS[way]
    with Run.open(tmp_path / "run", sketch=sketch) as run:
        train(run, model, every, 20)  # the first steps, and first full snapshots, cost more than later ones
        training, recording = train(run, model, every, N_STEPS)
    assert read_run(tmp_path / "run").steps == run.steps != []
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    speed_table(
        job=f"a training step of {n_weights:,} parameters, recorded {way}",
        ours=(training + recording) / N_STEPS,
        peer=training / N_STEPS,
        unit="s",
        bar="at most 1.05 times the peer",
        peer_name="the same training, not recorded; 16 x 128 tokens, 1 thread",
    )


def hadamard(x: torch.Tensor) -> torch.Tensor:
    """Fast Walsh-Hadamard transform of 2^k numbers, in k passes."""
    n_passes = x.numel().bit_length() - 1
    for width in (1 << k for k in range(n_passes)):
        halves = x.view(-1, 2, width)
        x = torch.cat([halves[:, :1] + halves[:, 1:], halves[:, :1] - halves[:, 1:]], 1)
    return x.flatten()


def test_a_sketch_beside_a_dense_one_and_a_hadamard_transform(speed_table):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(512, 128, generator=generator)
    project = Sketch(256).projection("up", weights.shape)
    gaussian = torch.randn(256, weights.numel(), generator=generator) / 16
    signs = torch.randint(0, 2, (weights.numel(),), generator=generator) * 2.0 - 1
    kept = torch.randperm(weights.numel(), generator=generator)[:256]
    ours = fastest(lambda: project(weights), 40)
    peers = {
        "a dense Gaussian matrix": lambda: gaussian @ weights.flatten(),
        "a subsampled Hadamard transform": lambda: hadamard(weights.flatten() * signs)[kept] / 16,
    }
    for name, peer in peers.items():
        length = float(peer().norm() / weights.norm())
        assert length == pytest.approx(1, abs=0.3)  # five standard errors of 256 numbers: it is a sketch
        speed_table(
            job=f"sketch of 512 x 128 weights to 256 numbers, beside {name.split()[-2]}",
            ours=ours,
            peer=fastest(peer, 40),
            unit="s",
            bar="at most 1 times the peer",
            peer_name=name,
        )


def test_reading_thousands_of_snapshots(speed_table, tmp_path: Path):
    model = Transformer(SHAPE, seed=0)
    with Run.open(tmp_path / "run", sketch=256) as run:
        for step in range(1000):
            run.append(step, select_weights(model), {"loss": 1.0})
    start = time.perf_counter()
    tensors = read_run(tmp_path / "run").tensors()
    total = sum(float(rows.sum()) for rows in tensors.values())
    took = time.perf_counter() - start
    assert np.isfinite(total)
    speed_table(
        job=f"reading 1,000 snapshots of {len(tensors)} sketched matrices, verified",
        ours=took,
        peer=None,
        unit="s",
        bar="at most 1 s",
        peer_name="none",
    )
