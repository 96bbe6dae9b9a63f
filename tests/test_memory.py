"""How much memory there is, and refusals before it runs out."""

import numpy as np
import psutil
import pytest

from embviz import memory, metrics


def test_what_the_machine_has_left_is_available():
    assert 2**20 < memory.available_memory() <= psutil.virtual_memory().total


def test_a_look_at_the_machine_is_saved_where_the_job_is_tiny(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 0)
    memory.require_memory(memory.NEVER_REFUSED, what="a toy", instead="wait")
    with pytest.raises(MemoryError, match=r"^a toy needs about 1\.05 MB, and 0\.00 kB are available: wait$"):
        memory.require_memory(memory.NEVER_REFUSED + 1, what="a toy", instead="wait")


def test_what_does_not_fit_is_refused_with_its_size_and_the_alternative():
    message = r"^baking needs about 3\.00 GB, and 2\.00 GB are available: buy one$"
    with pytest.raises(MemoryError, match=message):
        memory.require_memory(3 * 10**9, what="baking", instead="buy one", available=2 * 10**9)
    memory.require_memory(3 * 10**9, what="baking", instead="buy one", available=4 * 10**9)
    with pytest.raises(MemoryError, match=r"^a toy needs about 0\.30 GB, and 3\.00 MB are available"):
        memory.require_memory(3 * 10**8, what="a toy", instead="wait", available=3 * 10**6)


def test_all_pairs_of_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1_900_000_000)
    with pytest.raises(MemoryError, match=r"all pairs of 30,000 rows needs about .* 1\.90 GB are available"):
        metrics.pairwise_distances(np.ones((30_000, 1)))
