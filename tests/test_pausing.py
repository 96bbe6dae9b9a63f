"""Work that pauses: moments, and blocks within blocks."""

import math
import time

import pytest

from embviz.pausing import pausing_at, time_is_over


def test_time_is_over_from_the_moment_on():
    with pausing_at(time.time() + 3600):
        assert not time_is_over()
    with pausing_at(time.time()):
        assert time_is_over()
    assert not time_is_over()


def test_the_earlier_of_two_moments_counts_and_none_changes_nothing():
    for outer, inner in ((0.0, math.inf), (math.inf, 0.0), (0.0, None)):
        with pausing_at(outer), pausing_at(inner):
            assert time_is_over()
    with pausing_at(None):
        assert not time_is_over()


def test_a_clock_that_is_set_back_lengthens_nothing(monkeypatch):
    start, stopwatch = 1_000_000.0, [50.0]
    monkeypatch.setattr(time, "time", lambda: start)
    monkeypatch.setattr(time, "monotonic", lambda: stopwatch[0])
    with pausing_at(start + 10):
        monkeypatch.setattr(time, "time", lambda: start - 3600)
        assert not time_is_over()
        stopwatch[0] += 10
        assert time_is_over()


def test_an_error_ends_the_block_too():
    with pytest.raises(KeyError), pausing_at(0.0):
        raise KeyError
    assert not time_is_over()
