"""Charts: tables in, valid charts with titled axes out; and the measuring functions behind explorers."""

import altair as alt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz.ledger import findings
from embviz.view import charts, theme
from tests import drawing
from tests.drawing import compiled

finite = st.floats(-1e6, 1e6, allow_nan=False)


def axis_titles(chart) -> set[str]:
    return {axis["title"] for axis in compiled(chart)["axes"] if axis.get("title")}


@given(st.lists(finite, min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_bins_count_what_a_slow_loop_counts(values, n_bins):
    table = charts.bin_counts(values, n_bins=n_bins)
    last = len(table) - 1
    for index, row in enumerate(table.itertuples()):
        inside = [row.left <= value < row.right or (index == last and value == row.right) for value in values]
        assert row.count == sum(inside)
    assert table["share"].sum() == pytest.approx(1)


def test_values_outside_the_limits_stay_in_the_total():
    table = charts.bin_counts([0.5, 1.5, 9.0, 9.0], n_bins=2, limits=(0, 2))
    assert table["share"].tolist() == [0.25, 0.25]


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_a_histogram_of_nothing_or_of_nan_is_refused(values):
    with pytest.raises(ValueError, match="needs finite values"):
        charts.bin_counts(values)
    with pytest.raises(ValueError, match="needs finite values"):
        charts.mirrored_bins(values)


@pytest.mark.parametrize("seed", range(5))
def test_the_mirror_is_the_histogram_of_the_negated_values(seed):
    values = np.random.default_rng(seed).standard_normal(50) + 0.5
    table, negated = charts.mirrored_bins(values, n_bins=8), charts.mirrored_bins(-values, n_bins=8)
    assert negated["share"].tolist() == table["mirrored"].tolist()
    assert table["left"].tolist() == (-table["right"][::-1]).tolist()


def test_an_odd_number_of_mirrored_bins_is_refused():
    with pytest.raises(ValueError, match="7 bins: an even number"):
        charts.mirrored_bins([1.0], n_bins=7)


def seed_table(n_seeds: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_seeds)
    rows = [
        {"step": step, "accuracy": rng.random(), "seed": seed, "pair": pair}
        for step in (0, 10)
        for seed in range(n_seeds)
        for pair in ("x", "y")
    ]
    return pd.DataFrame(rows)


def drawn(chart, marktype: str) -> list[dict]:
    """Marks in a plot 100 pixels high."""
    return drawing.drawn(chart.properties(width=100, height=100).to_dict(), marktype)


@pytest.mark.parametrize("n_seeds", [2, 5, 40])
def test_the_band_over_seeds_is_students_interval(n_seeds):
    table = seed_table(n_seeds)
    corners = drawn(charts.plot_seed_curves(table, "accuracy", by="pair", limits=(0, 1)), "area")
    expected = [
        findings.over_seeds(part["accuracy"].to_numpy()) for _, part in table.groupby(["pair", "step"])
    ]
    low, high = ([1 - corner[end] / 100 for corner in corners] for end in ("y", "y2"))
    # a pixel is 1/100; values are kept to four digits, and two seeds' quantile is 12.7
    assert low == pytest.approx([f.low for f in expected], abs=1e-3)
    assert high == pytest.approx([f.high for f in expected], abs=1e-3)


def test_a_single_seed_has_no_band():
    corners = drawn(charts.plot_seed_curves(seed_table(1), "accuracy", by="pair", limits=(0, 1)), "area")
    assert [corner["y"] for corner in corners] == [corner["y2"] for corner in corners]


def test_seed_curves_draw_each_seed_and_the_mean_and_name_their_levels():
    chart = charts.plot_seed_curves(seed_table(3), "accuracy", by="pair", reference={"best possible": 0.7})
    widths = [point["strokeWidth"] for point in drawn(chart, "line")]
    assert sorted(set(widths)) == [0.8, 2.5]
    assert widths.count(0.8) == 3 * widths.count(2.5)
    assert "best possible" in [item["text"] for item in drawn(chart, "text")]
    assert axis_titles(chart) == {theme.title("step"), theme.title("accuracy")}


def test_seed_curves_of_an_explorer_need_the_names_of_their_kinds():
    named = alt.NamedData(name="measured")
    with pytest.raises(ValueError, match=r"name the kinds \(names=...\)"):
        charts.plot_seed_curves(named, "accuracy", by="pair")
    chart = charts.plot_seed_curves(named, "accuracy", by="pair", names=["x", "y"])
    assert chart.to_dict()["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["x", "y"]
