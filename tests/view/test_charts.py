"""Charts: tables in, valid charts with titled axes out; and the measuring functions behind explorers."""

import inspect
import itertools
import re

import numpy as np
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from embviz import view
from embviz.view import charts
from tests.view.test_forms import CELLS, FORMS, POINTS, RANKS, RIDGES, times

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
@pytest.mark.parametrize("binned", [charts.bin_counts, charts.mirrored_bins])
def test_a_histogram_of_nothing_or_of_nan_is_refused(binned, values):
    with pytest.raises(ValueError, match=r"values (is empty|has 1 NaN or infinite)"):
        binned(values)


@pytest.mark.parametrize("seed", range(2))
def test_the_mirror_is_the_histogram_of_the_negated_values(seed):
    values = np.random.default_rng(seed).standard_normal(50) + 0.5
    table, negated = charts.mirrored_bins(values, n_bins=8), charts.mirrored_bins(-values, n_bins=8)
    assert negated["share"].tolist() == table["mirrored"].tolist()
    assert table["left"].tolist() == (-table["right"][::-1]).tolist()
    with pytest.raises(ValueError, match="7 bins: an even number"):
        charts.mirrored_bins(values, n_bins=7)


ENDS = POINTS.assign(low=0.0, high=9.0, kind="a")
NAMED_FORMS = {  # a table, what is drawn of it, by which columns: here each argument that names columns
    **{name: (one[0], one[2], one[3].split(), one[4]) for name, one in FORMS.items()},
    "histogram": (RANKS, view.plot_histogram, ["eigenvalue"], {}),
    "curves with ends": (
        ENDS, view.plot_curves, ["step", "loss"], {"seed": None, "interval": ("low", "high")},
    ),
    "bars of names": (times()[:1], view.plot_bars, ["run", "grok"], {}),
    "scatter of names": (
        times(), view.plot_scatter, ["memorize", "grok"],
        {"label": "run", "event": "grokked", "tooltip": ["seed"]},
    ),
    "paths by kind": (
        ENDS, view.plot_path, ["u", "v"],
        {"order": "step", "by": "kind", "by_names": ["a"], "tooltip": ("high",)},
    ),
}  # fmt: skip
EVERY_FORM = pytest.mark.parametrize("name", NAMED_FORMS)


def renamed(name: str, odd: dict[str, str], asked: list[str] | None = None):
    """A form over its table with other names of columns; those that it reads are written into a list."""
    table, form, columns, options = NAMED_FORMS[name]
    if "seed" in table and "seed" in inspect.signature(form).parameters:
        options = {"seed": "seed", **options}

    def other(value):
        if isinstance(value, list | tuple):
            return type(value)(map(other, value))
        if asked is not None and value in list(table):
            asked.append(value)
        return odd.get(value, value) if isinstance(value, str) else value

    return form(table.rename(columns=odd), *other(columns), **{key: other(options[key]) for key in options})


def n_marks(chart):
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    return len(re.findall(r"<path", svg)), len(re.findall(r"<text", svg))


@EVERY_FORM
def test_names_with_signs_of_other_languages_draw_what_plain_names_draw(name):
    signs = iter(
        ["{0} (nats)", "50% {0}", "{0}>b", "${0}", "{{{0}}}", "a,{0}", "`{0}", "ü {0}", "datum", "*{0}*"]
    )
    odd = {column: next(signs).format(column) for column in NAMED_FORMS[name][0]}
    assert n_marks(renamed(name, odd)) == n_marks(renamed(name, {})) > (0, 0)


def test_hovering_shows_the_titles_of_the_chart_and_not_those_of_the_theme():
    drawn = {
        "share of words": view.plot_histogram(
            RANKS, "eigenvalue", view.Axis("share", title="share of words")
        ),
        "cosine of two words": view.plot_ridges(
            RIDGES,
            view.Axis("angle", title="cosine of two words"),
            "epoch",
            "density",
        ),
        "entry / largest": view.plot_heat_map(
            CELLS, "column", "row", view.Axis("pmi", title="entry / largest")
        ),
        "token": view.plot_heat_map(CELLS, "column", view.Axis("row", title="token"), "pmi"),
    }
    for wanted, chart in drawn.items():
        spec = chart.to_dict()
        assert wanted in {tooltip["title"] for tooltip in spec["layer"][0]["encoding"]["tooltip"]}


TAKEN = ("val.loss", "loss[1]", "a\\b", "it's", 'a"b')


@EVERY_FORM
def test_a_column_that_a_chart_reads_as_a_path_is_refused_by_each_form(name):
    renamed(name, {}, asked := [])
    for column, odd in itertools.product(dict.fromkeys(asked), TAKEN):
        with pytest.raises(ValueError, match="in a name: rename the column"):
            renamed(name, {column: odd})
