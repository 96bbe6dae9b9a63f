"""Files of compiled code cut short or altered, each before a process that needs them: none may end it."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COUNTS = """
import numpy as np
from embviz.words import count_pairs
print(int(count_pairs(np.arange(1000) % 50, 50, window=5).sum()))
"""


def count(folder):
    done = subprocess.run(
        [sys.executable, "-c", COUNTS],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Folder of compiled code, and the right answer."""
    folder = tmp_path_factory.mktemp("compiled")
    return folder, count(folder)


@pytest.mark.parametrize("seed", range(36))
def test_a_process_starts_whatever_became_of_its_compiled_code(compiled, seed):
    folder, right = compiled
    rng = random.Random(seed)
    path = rng.choice(sorted(folder.iterdir()))
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    if seed % 3 == 2:
        content[at] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    else:
        path.write_bytes(content[:at])
    assert count(folder) == right
