"""The forms: tidy tables in; what is drawn stands where it should; tables with holes are refused."""

import altair as alt
import numpy as np
import pandas as pd
import pytest

from embviz import view
from embviz.view import theme
from tests import drawing
from tests.drawing import compiled

HEIGHT, WIDTH = 100, 100


def sized(chart):
    """The chart in a plot of 100 by 100 pixels, so that a pixel is a percent."""
    return chart.properties(width=WIDTH, height=HEIGHT).to_dict()


def drawn(chart, marktype):
    return drawing.drawn(sized(chart), marktype)


def written(chart):
    return [item["text"] for item in drawn(chart, "text")]


def axis_titles(chart):
    return {axis["title"] for axis in compiled(chart)["axes"] if axis.get("title")}


def legend_names(spec):
    scales = [scale for scale in spec["scales"] if scale["name"] == "color"]
    return scales[0]["domain"] if scales else []


def seeds(n_seeds=3, kinds=("x", "y"), steps=(0, 10)):
    rng = np.random.default_rng(n_seeds)
    rows = [(step, rng.random(), seed, kind) for step in steps for seed in range(n_seeds) for kind in kinds]
    return pd.DataFrame(rows, columns=["step", "accuracy", "seed", "pair"])


def times():
    return pd.DataFrame(
        {
            "run": ["a", "a", "a", "b", "b", "b"],
            "seed": [0, 1, 2, 0, 1, 2],
            "grok": [10.0, 20.0, 60.0, 30.0, 40.0, 80.0],
            "grokked": [True, True, True, True, True, False],
            "memorize": [5.0, 9.0, 30.0, 20.0, 30.0, 50.0],
        }
    )


NAMED = alt.NamedData(name="measured")
CELLS = pd.DataFrame({"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "pmi": [0.0, -3.0, 1.0, 0.5]})
RIDGES = pd.DataFrame({"angle": [0, 90] * 2, "epoch": [1, 1, 2, 2], "density": [0.0, 1.0, 0.5, 0.5]})
POINTS = pd.DataFrame(
    {"step": [0, 1, 2], "u": [0.0, 4.0, 2.0], "v": [0.0, 1.0, 0.0], "loss": [3.0, 2.0, 1.0]}
)
RANKS = pd.DataFrame({"rank": [1, 2, 3], "eigenvalue": [9.0, 4.0, 1.0]})
FORMS = {
    "curves": (seeds(), "accuracy", lambda t: view.plot_curves(t, "step", "accuracy", kind="pair")),
    "strip": (times(), "grok", lambda t: view.plot_strip(t, "grok", "run")),
    "scatter": (times(), "grok", lambda t: view.plot_scatter(t, "memorize", "grok", kind="run")),
    "bars": (RANKS, "eigenvalue", lambda t: view.plot_bars(t, "rank", "eigenvalue")),
    "histogram": (RANKS, "eigenvalue", lambda t: view.plot_histogram(t, "eigenvalue")),
    "heat map": (CELLS, "pmi", lambda t: view.plot_heat_map(t, "column", "row", "pmi")),
    "ridges": (RIDGES, "density", lambda t: view.plot_ridges(t, "angle", "epoch", "density")),
    "survival": (times(), "grok", lambda t: view.plot_survival(t, "grok", event="grokked", kind="run")),
    "path": (POINTS, "u", lambda t: view.plot_path(t, "u", "v", order="step")),
}
EVERY_FORM = pytest.mark.parametrize("name", FORMS)


# --- all forms ------------------------------------------------------------------------------------------


@EVERY_FORM
def test_a_form_draws_without_a_warning_and_says_what_it_shows(name):
    table, _, draw = FORMS[name]
    spec = draw(table).to_dict()
    compiled(spec)
    assert spec["description"]
    assert spec["width"] == ("container" if name != "path" else theme.SQUARE)


@EVERY_FORM
def test_an_empty_table_is_refused(name):
    table, _, draw = FORMS[name]
    with pytest.raises(ValueError, match="the table is empty"):
        draw(table.iloc[:0])


@EVERY_FORM
def test_a_missing_column_is_refused_with_the_columns_there_are(name):
    table, column, draw = FORMS[name]
    with pytest.raises(ValueError, match=f"no column '{column}' in the table, which has .*other"):
        draw(table.rename(columns={column: "other"}))


@EVERY_FORM
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_a_hole_is_refused(name, hole):
    table, column, draw = FORMS[name]
    with pytest.raises(
        ValueError, match=f"1 of {len(table)} values in column '{column}' are missing or infinite"
    ):
        draw(table.assign(**{column: [hole, *table[column].iloc[1:]]}))


@EVERY_FORM
def test_words_for_numbers_are_refused(name):
    table, column, draw = FORMS[name]
    with pytest.raises(ValueError, match=f"column '{column}' holds .* numbers are drawn there"):
        draw(table.assign(**{column: "much"}))


# --- the strip ------------------------------------------------------------------------------------------


def test_rows_with_several_colours_have_them_below_each_other_and_others_do_not():
    table = times().assign(
        kind=lambda table: table["run"].map({"a": "high", "b": "low"}), reading=["x", "y", "x"] * 2
    )
    one, several = (
        view.plot_strip(table, "grok", "run", by=by, centre="median") for by in ("kind", "reading")
    )
    assert '"yOffset"' not in one.to_json()
    assert '"yOffset"' in several.to_json()
    places = {item["y"] for item in drawn(one, "symbol")}
    assert len(places) == table["run"].nunique()
