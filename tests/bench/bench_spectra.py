"""Eigenvalues beside torch.linalg.eigvalsh in the same run, and their memory."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from embviz.words.spectra import eigenvalues

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_DENSE = 11_700 if FULL else 2_500
N_ROUNDS = 5  # ours and the peer in turn
N_LARGEST = 29_145  # the paper's larger vocabulary

PEAK_MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
from scipy import sparse
from embviz.words.spectra import eigenvalues

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

n = int(sys.argv[1])
rows, columns = np.random.default_rng(0).integers(0, n, size=(2, 20 * n))
matrix = sparse.coo_array((np.ones(20 * n, np.float32), (rows, columns)), shape=(n, n)).tocsr()
matrix = sparse.csr_array(matrix + matrix.T)
eigenvalues(matrix[:100, :100])  # libraries loaded, threads started
Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is in memory now
before = peak()
eigenvalues(matrix)
print(before, peak())
"""


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_dense_eigenvalues_beside_torch(speed_table):
    half = np.random.default_rng(0).standard_normal((N_DENSE, N_DENSE), dtype=np.float32)
    matrix = half + half.T
    eigenvalues(matrix[:100, :100])
    tensor = torch.from_numpy(matrix)
    rounds = [
        (seconds(lambda: eigenvalues(matrix)), seconds(lambda: torch.linalg.eigvalsh(tensor)))
        for _ in range(N_ROUNDS)
    ]
    ours, peer = np.median(rounds, axis=0).tolist()
    speed_table(
        job=f"eigenvalues, n = {N_DENSE:,}, float32",
        ours=ours,
        peer=peer,
        unit="s",
        bar="at most 1.05 times the peer",
        peer_name="torch.linalg.eigvalsh",
        rounds=rounds,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads peak memory from /proc")
def test_memory_of_dense_eigenvalues(speed_table):
    n = 6_000 if FULL else 3_000
    output = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY, str(n)], capture_output=True, text=True, check=True
    ).stdout
    before, peak = (int(n_bytes) for n_bytes in output.split())
    per_entry = (peak - before) / n**2  # our dense copy and torch's own: 8 bytes
    speed_table(
        job=f"eigenvalues, memory at n = {N_LARGEST:,}, extrapolated from n = {n:,}",
        ours=per_entry * N_LARGEST**2 / 1e9,
        peer=8 * N_LARGEST**2 / 1e9,
        unit="GB",
        bar="at most 8 GB",
        peer_name="two float32 arrays",
    )
