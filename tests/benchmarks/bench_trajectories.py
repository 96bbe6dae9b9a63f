"""Trajectories: a tensor's 1,000 snapshots to phases; an update of the autoencoder, rotated and not."""

import os
import time

import numpy as np
import pytest
import torch

from embviz.autoencoders import Autoencoder, _fit, _standardize, _Standardized
from embviz.imports import import_pymde
from embviz.trajectories import trace
from embviz.trajectory_nulls import measure
from embviz.weight_paths import WeightPath, weight_path

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_SNAPSHOTS = 1_000
SQUARE, MLP = 256 * 256, 256 * 1024  # the paper's query, key and value; the MLP's two
TENSORS = [*[SQUARE] * 15, *[MLP] * 10] if FULL else [SQUARE]
N_UPDATES = 2  # without rotation one takes seconds


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made_path(n_weights: int, seed: int = 0) -> WeightPath:
    """A walk with momentum that decays towards 0, steps that grow and then shrink, as in training."""
    rng = np.random.default_rng(seed)
    n = N_SNAPSHOTS
    sizes = 0.01 * np.interp(np.arange(n), [0, n // 10, n], [0.1, 1.0, 0.1])
    weights = np.empty((n, n_weights), dtype=np.float32)
    place, step = rng.standard_normal((2, n_weights), dtype=np.float32)
    for i, size in enumerate(sizes):
        weights[i] = place
        step = 0.8 * step + 0.6 * rng.standard_normal(n_weights, dtype=np.float32) - 0.02 * place
        place = place + np.float32(size) * step
    losses = 1 + 4 * np.exp(-np.arange(n) / (0.15 * n)) + 0.05 * rng.standard_normal(n)
    return weight_path(f"tensor {seed}", weights, 5 * np.arange(n), losses)


def test_a_tensors_snapshots_to_phases(speed_table):
    import_pymde()
    trace(made_path(50), seed=0)  # code loaded
    took = []
    for seed, n_weights in enumerate(TENSORS):
        path = made_path(n_weights, seed)
        start = time.perf_counter()
        measure(trace(path, seed=0), n_permutations=999)
        took.append(time.perf_counter() - start)
    speed_table(
        job=f"trajectories, {len(TENSORS)} tensor(s) x {N_SNAPSHOTS:,} snapshots, 1 thread",
        ours=sum(took),
        peer=None,
        unit="s",
        bar="below 12 s a tensor: 25 in 5 minutes",
        peer_name="none",
    )


def seconds_an_update(data: _Standardized) -> float:
    everyone = torch.ones(len(data.x), dtype=torch.bool)
    start = time.perf_counter()
    _fit(data, everyone, Autoencoder(n_epochs=N_UPDATES), seed=0)
    return (time.perf_counter() - start) / N_UPDATES


def test_an_update_of_the_autoencoder_with_and_without_rotation(speed_table):
    path, config = made_path(SQUARE), Autoencoder(n_components=N_SNAPSHOTS)  # all: nothing is lost
    start = time.perf_counter()
    rotated = _standardize(path, config, "cpu")
    rotation = time.perf_counter() - start
    weights = torch.from_numpy(path.weights - path.weights.mean(axis=0))
    weights /= weights.square().sum(1).mean().sqrt()
    whole = _Standardized(weights, rotated.y, 0.0)
    first, second = (data.x @ data.x.T for data in (rotated, whole))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-4)  # the same snapshots; sums of float32
    n_epochs = Autoencoder().n_epochs
    speed_table(
        job=f"behavioural autoencoder, {SQUARE:,} weights, rotation included, an update of {n_epochs}",
        ours=rotation / n_epochs + min(seconds_an_update(rotated) for _ in range(3)),
        peer=seconds_an_update(whole),
        unit="s",
        bar="below the peer",
        peer_name="the same network on all weights",
    )
