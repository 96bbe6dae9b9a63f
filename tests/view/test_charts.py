"""Charts: tables in, valid charts with titled axes out; and the measuring functions behind explorers."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz import view
from embviz.view import charts

finite = st.floats(-1e6, 1e6, allow_nan=False)


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


N = 24
RUNS = pd.DataFrame(
    {
        "step": np.tile(np.arange(6), 4),
        "x": np.sin(np.arange(N)),
        "y": np.cos(np.arange(N)) + 2,
        "kind": np.repeat(["a", "b"], 12),
        "seed": np.tile(np.repeat([0, 1], 6), 2),
        "low": 0.5,
        "high": 1.0,
        "event": np.arange(N) % 5 > 0,
        "phase": np.tile(np.repeat([0, 1], 3), 4),
    }
)
ALONE, CELLS = RUNS[RUNS["seed"] == 0], RUNS[RUNS["seed"] == 0][["step", "kind", "y"]]
FORMS = {  # a table, what is drawn of it, and its columns of which the form reads names
    "curves": (RUNS, lambda t, c: view.plot_curves(t, c("step"), c("y"), kind=c("kind"), seed=c("seed"))),
    "curves with ends": (
        ALONE,
        lambda t, c: view.plot_curves(
            t, c("step"), c("y"), kind=c("kind"), seed=None, interval=(c("low"), c("high"))
        ),
    ),
    "survival": (RUNS, lambda t, c: view.plot_survival(t, c("y"), event=c("event"), kind=c("kind"))),
    "scatter": (
        RUNS,
        lambda t, c: view.plot_scatter(
            t, c("x"), c("y"), kind=c("kind"), label=c("phase"), event=c("event"), tooltip=[c("step")]
        ),
    ),
    "bars": (ALONE, lambda t, c: view.plot_bars(t, c("step"), c("y"), kind=c("kind"), tooltip=[c("x")])),
    "bars of names": (ALONE[ALONE["step"] == 0], lambda t, c: view.plot_bars(t, c("kind"), c("y"))),
    "heat map": (CELLS, lambda t, c: view.plot_heat_map(t, c("step"), c("kind"), c("y"), labels=".1f")),
    "histogram": (RUNS, lambda t, c: view.plot_histogram(t, c("y"))),
    "ridges": (ALONE, lambda t, c: view.plot_ridges(t, c("step"), c("kind"), c("y"), null=c("high"))),
    "path": (
        ALONE[ALONE["kind"] == "a"],
        lambda t, c: view.plot_path(
            t, c("x"), c("y"), order=c("step"), loss=c("low"), phase=c("phase"), tooltip=(c("high"),)
        ),
    ),
    "paths by kind": (
        ALONE,
        lambda t, c: view.plot_path(t, c("x"), c("y"), order=c("step"), by=c("kind"), by_names=["a", "b"]),
    ),
    "strip": (
        RUNS,
        lambda t, c: view.plot_strip(
            t, c("y"), c("kind"), by=c("event"), seed=c("seed"), interval=False, tooltip=[c("x")]
        ),
    ),
}


def n_marks(chart):
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    return len(re.findall(r"<path", svg)), len(re.findall(r"<text", svg))


@pytest.mark.parametrize("form", FORMS)
def test_names_with_signs_of_other_languages_draw_what_plain_names_draw(form):
    table, draw = FORMS[form]
    signs = iter(
        ["{0} (nats)", "50% {0}", "{0}>b", "${0}", "{{{0}}}", "a,{0}", "`{0}", "ü {0}", "datum", "*{0}*"]
    )
    odd = {name: next(signs).format(name) for name in table}
    assert n_marks(draw(table.rename(columns=odd), odd.get)) == n_marks(draw(table, str)) > (0, 0)


def test_hovering_shows_the_titles_of_the_chart_and_not_those_of_the_theme():
    drawn = {
        "share of words": view.plot_histogram(RUNS, "y", y_title="share of words"),
        "cosine of two words": view.plot_ridges(ALONE, "step", "kind", "y", x_title="cosine of two words"),
        "entry / largest": view.plot_heat_map(CELLS, "step", "kind", "y", value_title="entry / largest"),
        "token": view.plot_heat_map(CELLS, "step", "kind", "y", y_title="token"),
    }
    for wanted, chart in drawn.items():
        spec = chart.to_dict()
        assert wanted in {tooltip["title"] for tooltip in spec["layer"][0]["encoding"]["tooltip"]}


TAKEN = (  # for an expression, or for something that a chart or a browser has already
    *("val.loss", "loss[1]", "a\\b", "it's", 'a"b', "mean(y)", "count()", "y:Q", "loss: nats", "*"),
    *("toString", "constructor"),
)


@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_a_chart_takes_for_an_expression_is_refused_by_each_form(form):
    table, draw = FORMS[form]
    asked = []
    draw(table, lambda column: asked.append(column) or column)
    for column, name in itertools.product(asked, TAKEN):
        renamed = table.rename(columns={column: name})
        with pytest.raises(
            ValueError, match=r"in its name, which a chart .*rename|has a name that a.*rename"
        ):
            draw(renamed, lambda wanted, column=column, name=name: name if wanted == column else wanted)


@pytest.mark.parametrize("name", ["n", "total", "waiting", "step", "low"])
def test_a_column_that_a_survival_curve_makes_itself_is_refused(name):
    for column in ("y", "kind"):
        renamed = RUNS[["y", "kind"]].rename(columns={column: name})
        with pytest.raises(ValueError, match="the name of one that the chart makes: rename"):
            view.plot_survival(renamed, renamed.columns[0], kind=renamed.columns[1])
