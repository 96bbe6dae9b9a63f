"""Charts: tables in, valid charts with titled axes out; and the measuring functions behind explorers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz import view
from embviz.view import charts
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
    with pytest.raises(ValueError, match=r"values (is empty|has 1 NaN or infinite)"):
        charts.bin_counts(values)
    with pytest.raises(ValueError, match=r"values (is empty|has 1 NaN or infinite)"):
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


@pytest.mark.parametrize("name", ["val.loss", "loss[1]", "a\\b", "it's", 'a"b'])
def test_a_column_that_a_chart_takes_for_an_expression_is_refused_by_each_form(name):
    table = pd.DataFrame({name: [1.0, 2.0], "step": [0, 1], "row": ["a", "b"], "seed": 0})
    forms = {
        "curves": lambda: view.plot_curves(table, "step", name),
        "kinds": lambda: view.plot_curves(
            table.rename(columns={"row": name, name: "y"}), "step", "y", kind=name
        ),
        "scatter": lambda: view.plot_scatter(table, "step", name),
        "bars": lambda: view.plot_bars(table, "row", name),
        "heat map": lambda: view.plot_heat_map(table, "step", "row", name),
        "survival": lambda: view.plot_survival(table, name),
        "path": lambda: view.plot_path(table, "step", name, order="step"),
        "strip": lambda: view.plot_strip(table, name, "row"),
        "ridges": lambda: view.plot_ridges(table, "step", "row", name),
    }
    for form in forms.values():
        with pytest.raises(ValueError, match=r"in its name, which a chart would read as a path.*rename"):
            form()
