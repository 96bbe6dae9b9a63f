"""Trajectories: a tensor's 1,000 snapshots to phases; an update of the autoencoder, rotated and not."""

import os
import time

import joblib
import numpy as np
import pytest
import torch

from embviz.imports import import_pymde
from embviz.trajectories.autoencoders import Autoencoder, _fit, _standardize, _Standardized
from embviz.trajectories.nulls import measure
from embviz.trajectories.traces import trace
from embviz.trajectories.weight_paths import WeightPath, weight_path

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_SNAPSHOTS = 1_000
SQUARE, MLP = 256 * 256, 256 * 1024  # the paper's query, key and value; the MLP's two
TENSORS = [*[SQUARE] * 15, *[MLP] * 10]
N_PROCESSES = 2
N_UPDATES = 2  # without rotation one takes seconds

pytestmark = pytest.mark.usefixtures("one_thread")


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


def seconds_to_phases(n_weights: int, seed: int) -> float:
    """Of one tensor's snapshots, made here, through the whole pipeline."""
    torch.set_num_threads(1)
    path = made_path(n_weights, seed)
    start = time.perf_counter()
    measure(trace(path, seed=0), n_permutations=999)
    return time.perf_counter() - start


def test_a_tensors_snapshots_to_phases(speed_table):
    import_pymde()
    seconds_to_phases(50, 0)  # code loaded
    speed_table(
        job=f"trajectories, 1 tensor(s) x {N_SNAPSHOTS:,} snapshots, 1 thread",
        ours=seconds_to_phases(SQUARE, 0),
        peer=None,
        unit="s",
        bar="at most 12 s",
        peer_name="none",
    )


@pytest.mark.skipif(not FULL, reason="minutes: EMBVIZ_BENCH=full make bench")
def test_all_matrices_of_the_papers_model_on_two_cores(speed_table):
    """Two processes at once, as a sweep has them; making the paths isn't counted."""
    jobs = (joblib.delayed(seconds_to_phases)(n_weights, seed) for seed, n_weights in enumerate(TENSORS))
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        took = joblib.Parallel(n_jobs=N_PROCESSES)(jobs)
    speed_table(
        job=f"trajectories, {len(TENSORS)} matrices x {N_SNAPSHOTS:,} snapshots, {N_PROCESSES} processes",
        ours=sum(took) / N_PROCESSES,
        peer=None,
        unit="s",
        bar="at most 300 s",
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
        bar="at most 1 times the peer",
        peer_name="the same network on all weights",
    )
