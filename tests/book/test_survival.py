"""Survival curves: Kaplan and Meier's estimate with its interval, as SciPy has it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.survival import plot_survival
from tests import drawing


def curve_and_band(table, limit):
    """Steps of the drawn curve and the ends of its band, as shares, by time."""
    chart = plot_survival(table.assign(run="a"), "grok", event="grokked", kind="run", limit=limit)
    spec = chart.properties(width=100, height=100).to_dict()
    line = {round(p["x"], 6): 1 - p["y"] / 100 for p in drawing.drawn(spec, "line")}
    band = {round(p["x"], 6): (1 - p["y"] / 100, 1 - p["y2"] / 100) for p in drawing.drawn(spec, "area")}
    return line, band


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_and_its_interval_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    times, came = rng.integers(1, 100, 40), rng.random(40) < 0.7
    line, band = curve_and_band(pd.DataFrame({"grok": times, "grokked": came}), 100)
    curve = stats.ecdf(stats.CensoredData(uncensored=times[came], right=times[~came])).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # undefined where all or none are left
        low, high = (end.evaluate for end in curve.confidence_interval(method="log-log"))
    for time in np.unique(times):
        share = float(curve.evaluate(time))
        assert line[time] == pytest.approx(share, abs=1e-9)
        if 0 < share < 1:
            assert band[time] == pytest.approx((float(low(time)), float(high(time))), abs=1e-6)
    assert line[0] == 1


def test_a_limit_makes_later_events_unseen():
    line, _ = curve_and_band(pd.DataFrame({"grok": [10, 20, 90, 95], "grokked": True}), 50)
    assert line == {0: 1, 20: pytest.approx(0.75), 40: pytest.approx(0.5), 100: pytest.approx(0.5)}
