"""How much memory there is, and refusals before it runs out."""

import doctest

import pytest

from embviz import memory


def test_available_memory_is_some_but_not_absurd():
    assert 10**7 < memory.available_memory() < 10**14


def test_a_container_may_leave_less_than_the_machine(monkeypatch, tmp_path):
    limit, use = tmp_path / "memory.max", tmp_path / "memory.current"
    limit.write_text("5000\n")
    use.write_text("2000\n")
    monkeypatch.setattr(memory, "CGROUP_FILES", ((str(limit), str(use)),))
    assert memory.available_memory() == 3000
    use.write_text("6000\n")
    assert memory.available_memory() == 0


def test_a_container_without_a_limit_leaves_what_the_machine_has(monkeypatch, tmp_path):
    limit, use = tmp_path / "memory.max", tmp_path / "memory.current"
    limit.write_text("max\n")
    use.write_text("2000\n")
    monkeypatch.setattr(memory, "CGROUP_FILES", ((str(limit), str(use)),))
    assert memory.available_memory() > 10**7


def test_what_does_not_fit_is_refused_with_its_size_and_the_alternative():
    with pytest.raises(
        MemoryError, match=r"^baking needs about 3\.00 GB, and 2\.00 GB are allowed .*: buy one$"
    ):
        memory.require_memory(3 * 10**9, what="baking", instead="buy one", max_memory=2 * 10**9)
    memory.require_memory(3 * 10**9, what="baking", instead="buy one", max_memory=4 * 10**9)


def test_a_small_size_is_not_written_as_zero_gigabytes():
    message = r"^a toy needs about 0\.30 GB, and 3\.00 MB are allowed"
    with pytest.raises(MemoryError, match=message):
        memory.require_memory(3 * 10**8, what="a toy", instead="wait", max_memory=3 * 10**6)
    with pytest.raises(MemoryError, match=r"^a toy needs about 6\.00 kB, and 1\.00 kB are allowed"):
        memory.require_memory(6_000, what="a toy", instead="wait", max_memory=1_000)
    assert doctest.testmod(memory).failed == 0
