"""Findings: their intervals are those of the textbooks, and of scipy's own functions."""

import math

import numpy as np
import pytest
from scipy import stats

from book.ledger import findings
from book.ledger.findings import exact, extreme, once, over_seeds, resampled

MEASURED = [0.31, 0.35, 0.29, 0.42]


@pytest.mark.parametrize("n", [2, 3, 30])
def test_the_interval_over_seeds_is_students_and_one_seed_has_none(n):
    values = (MEASURED * n)[:n]
    found = over_seeds(values)
    ends = stats.t.interval(0.95, df=n - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found.value == pytest.approx(np.mean(values), abs=1e-15)
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-12)
    assert found.n_seeds == n
    one = over_seeds([0.3])
    assert (one.low, one.value, one.high, one.n_seeds) == (0.3, 0.3, 0.3, 1)


@pytest.mark.parametrize("never", [math.inf, -math.inf])
def test_a_mean_with_what_never_happened_is_infinite_and_its_interval_open(never):
    found = over_seeds([1.0, 2.0, never], within=(-5.0, math.inf))
    assert (found.value, found.n_seeds) == (never, 3)
    assert (found.low, found.high) == (min(-5.0, never), math.inf)
    assert over_seeds([never]).low == over_seeds([never]).high == never
    with pytest.raises(ValueError, match="both signs"):
        over_seeds([never, 1.0, -never])


def test_ends_of_replicates_are_never_between_a_finite_and_an_infinite_one():
    found = resampled(3.0, [1.0, 2.0, 3.0, 4.0, math.inf], 5)
    assert (found.low, found.value, found.high) == (1, 3, math.inf)
    assert resampled(math.inf, [-math.inf, *[math.inf] * 39], 5).low == -math.inf


def test_an_interval_is_cut_at_both_ends_of_what_its_number_can_be():
    free, cut = over_seeds([-0.9, 0.9]), over_seeds([-0.9, 0.9], within=(-1.0, 1.0))
    assert free.low < -1 < 1 < free.high
    assert (cut.low, cut.high) == (-1.0, 1.0)
    half = over_seeds([0.9, 1.0], within=(-1.0, 1.0))
    assert (half.low, half.high) == (over_seeds([0.9, 1.0]).low, 1.0)
    rounded = over_seeds([1.0000001, 1.0000001], within=(-1.0, 1.0))
    assert rounded.low <= rounded.value <= rounded.high  # never past its mean


def test_bootstrap_replicates_give_their_middle_95_percent():
    replicates = np.arange(1001) / 1000
    found = resampled(0.5, replicates, 12)
    assert (found.low, found.high) == pytest.approx((0.025, 0.975))
    assert (found.value, found.n_seeds) == (0.5, 12)
    outside = resampled(2.0, replicates, 12)
    assert (outside.low, outside.high) == pytest.approx((0.025, 2.0))


def test_the_worst_of_several_has_their_range_as_interval():
    found = extreme([2.0, 5.0, 3.0], largest=True)
    assert (found.value, found.low, found.high, found.n_seeds) == (5.0, 2.0, 5.0, 3)
    assert extreme([2.0, 5.0, 3.0], largest=False).value == 2.0


def test_two_repetitions_decide_nothing_and_three_or_an_exact_number_do():
    assert not over_seeds([1.0, 2.0]).decides
    assert over_seeds([1.0, 2.0, 3.0]).decides
    assert exact(3).decides
    assert not once(3).decides


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exact(math.nan), "NaN"),
        (lambda: findings.Finding(2.0, 0.0, 1.0), "outside its interval"),
        (lambda: findings.Finding(0.5, 0.0, 1.0, exact=True), "no interval"),
        (lambda: findings.Finding(0.5, 0.5, 0.5, -1), "-1 repetitions"),
        (lambda: over_seeds([]), "no seed"),
    ],
)
def test_a_finding_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_on_a_logarithmic_scale_a_finding_is_the_geometric_mean_with_students_interval_of_the_logarithms():
    values = np.array([0.5, 2.0, 4.0])
    logs = np.log(values)
    interval = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    found = over_seeds(values).on_log_scale()
    assert found.value == pytest.approx(stats.gmean(values))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)))
    known = findings.Finding(0.5, 0.5, 0.5, n_seeds=5, exact=True)
    assert known.on_log_scale() == known
