"""How much memory there is, and refusals before it runs out."""

import numpy as np
import pytest
from scipy import sparse

from embviz import memory, metrics, projections
from embviz.kernels import tied_gram
from embviz.trajectories.traces import Layout, lay_out
from embviz.words.spectra import semicircle, truncated_eigen
from embviz.words.wordvectors import factorize_pmi


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A made-up /proc with 10 GB of free memory and no limits; returns a writer of files beside it."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    write("proc/meminfo", "MemTotal: 20000000 kB\nMemAvailable: 10000000 kB\n")
    return write


def mounted(point, *, kind, root="/", options="rw"):
    return f"35 31 0:32 {root} {point} rw,relatime - {kind} cgroup {options}\n"


def test_without_limits_the_machine_decides(machine):
    assert memory.available_memory() == 10_000_000 * 1024


def test_a_group_of_version_2_may_leave_less_and_so_may_the_groups_above_it(machine, tmp_path):
    machine("proc/self/cgroup", "0::/batch/job7\n")
    machine("proc/self/mountinfo", mounted(tmp_path / "cg", kind="cgroup2"))
    for name, limit, use in (("cg/batch/job7", "8000\n", "1000\n"), ("cg/batch", "max\n", "9000\n")):
        machine(f"{name}/memory.max", limit)
        machine(f"{name}/memory.current", use)
        machine(f"{name}/memory.stat", "anon 400\ninactive_file 500\n")
    assert memory.available_memory() == 7500  # a file's cache goes when memory is asked for
    machine("cg/batch/memory.max", "9600\n")
    assert memory.available_memory() == 1100
    machine("cg/batch/memory.current", "12000\n")
    assert memory.available_memory() == 0


def test_a_group_of_version_1_may_leave_less(machine, tmp_path):
    machine("proc/self/cgroup", "7:cpu,cpuacct:/other\n4:memory:/job\n0::/\n")
    machine(
        "proc/self/mountinfo",
        mounted(tmp_path / "cpu", kind="cgroup", options="rw,cpu,cpuacct")
        + mounted(tmp_path / "mem", kind="cgroup", options="rw,memory"),
    )
    machine("mem/job/memory.limit_in_bytes", "5000\n")
    machine("mem/job/memory.usage_in_bytes", "2000\n")
    machine("mem/job/memory.stat", "inactive_file 7\ntotal_inactive_file 100\n")
    assert memory.available_memory() == 3100


def test_a_container_whose_group_is_mounted_as_the_root_is_read_there(machine, tmp_path):
    machine("proc/self/cgroup", "4:memory:/docker/4f3a\n")
    mount = mounted(tmp_path / "mem", kind="cgroup", root="/docker/4f3a", options="rw,memory")
    machine("proc/self/mountinfo", mount)
    machine("mem/memory.limit_in_bytes", "5000\n")
    machine("mem/memory.usage_in_bytes", "2000\n")
    machine("mem/memory.stat", "")
    assert memory.available_memory() == 3000
    machine("proc/self/cgroup", "4:memory:/elsewhere\n")  # of a group that can't be seen, the mount's
    assert memory.available_memory() == 3000


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


# Jobs of n rows that would take more than 1.9 GB, on arguments that take little.
LARGE = {
    "pairwise_distances": lambda: metrics.pairwise_distances(np.ones((30_000, 1))),
    "principal_plane": lambda: metrics.principal_plane(np.ones((1, 30_000, 2))),
    **{
        f"draw {family}": lambda family=family: projections.draw(family, 30_000, 30_000, seed=0)
        for family in ("gaussian", "rademacher", "sparse", "orthonormal")
    },
    "pca": lambda: projections.pca(np.ones((2, 15_000)), 3),
    "coordinates": lambda: projections.coordinates(10, 30_000, 0),
    "signed_permutation": lambda: projections.signed_permutation(30_000, 0),
    "tied_gram": lambda: tied_gram(np.ones((30_000, 1)), np.ones((30_000, 1))),
    "semicircle": lambda: semicircle(40_000, variance=1.0, seed=0),
    "truncated_eigen": lambda: truncated_eigen(sparse.csr_array(sparse.eye_array(15_000)), 5_000, seed=0),
    "truncated_eigen, few of many": lambda: truncated_eigen(
        sparse.csr_array(sparse.eye_array(200_000)), 1_000, seed=0
    ),
    "factorize_pmi": lambda: factorize_pmi(sparse.csr_array(sparse.eye_array(15_000)), 5_000, seed=0),
    "lay_out": lambda: lay_out(np.ones((200_000, 2)), seed=0),
    "lay_out, principal components": lambda: lay_out(np.ones((6_000, 6_000)), Layout("pca"), seed=0),
}


@pytest.mark.parametrize("job", LARGE)
def test_a_large_job_is_refused_with_its_size_what_is_there_and_another_way(job, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1_900_000_000)
    with pytest.raises(MemoryError, match=r"needs about \d+\.\d\d GB, and 1\.90 GB are available: \w+"):
        LARGE[job]()
