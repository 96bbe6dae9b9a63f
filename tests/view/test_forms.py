"""The forms: tidy tables in; what is drawn stands where it should; tables with holes are refused."""

import json
import re
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pytest

from book.ledger import findings
from embviz import view
from embviz.view import Axis, charts, curves, forms, histograms, paths, theme
from tests import drawing
from tests.drawing import compiled
from tests.view.test_theme import contrast

HEIGHT, WIDTH = 100, 100


def sized(chart):
    """The chart in a plot of 100 by 100 pixels, so that a pixel is a percent."""
    return chart.properties(width=WIDTH, height=HEIGHT).to_dict()


def drawn(chart, marktype):
    return drawing.drawn(sized(chart), marktype)


def written(chart):
    return [str(item["text"]) for item in drawn(chart, "text")]


def axis_labels(chart):
    return [item["text"] for item in drawing.drawn(sized(chart), "text", "axis-label")]


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
BINS = charts.mirrored_bins(RANKS["eigenvalue"], n_bins=4)
ONE, OTHER = {"names": ["a", "b"]}, {"names": ["x", "y"]}
# a table, a column whose holes must be refused, the form, its columns and options, and what an explorer's
# data needs besides
FORMS = {
    "curves": (seeds(), "accuracy", view.plot_curves, "step accuracy", {"kind": "pair"}, OTHER),
    "strip": (times(), "grok", view.plot_strip, "grok run", {"event": "grokked"}, ONE),
    "scatter": (times(), "grok", view.plot_scatter, "memorize grok", {"kind": "run"}, ONE),
    "bars": (RANKS, "eigenvalue", view.plot_bars, "rank eigenvalue", {}, {}),
    "histogram": (BINS, "share", view.plot_histogram, "eigenvalue", {"mirrored": True}, {}),
    "heat map": (
        CELLS, "pmi", view.plot_heat_map, "column row pmi", {"signed": True},
        {"value": Axis("pmi", limits=(-3, 3))},
    ),
    "ridges": (RIDGES, "density", view.plot_ridges, "angle epoch density", {}, {"names": [1, 2]}),
    "path": (POINTS, "u", view.plot_path, "u v", {"order": "step", "limits": (-1, 5), "loss": "loss"}, {}),
}  # fmt: skip


def draw(name, table):
    """A form over a table or an explorer's data, which needs some names."""
    _, _, form, columns, options, more = FORMS[name]
    more = more if table is NAMED else {}
    fields = columns.split()[: 2 if "value" in more else None]
    return form(table, *fields, **options, **more)


EVERY_FORM = pytest.mark.parametrize("name", FORMS)


# --- all forms ------------------------------------------------------------------------------------------


@EVERY_FORM
def test_a_form_draws_without_a_warning_and_says_what_it_shows(name):
    spec = draw(name, FORMS[name][0]).to_dict()
    compiled(spec)
    assert spec["description"]
    assert spec.get("width", "container") == "container"


@EVERY_FORM
def test_an_explorer_draws_what_the_table_draws(name):
    table = FORMS[name][0]
    grid = pd.concat([table.assign(shown=value) for value in ("one", "other")], ignore_index=True)
    controls = {"shown": view.Choice(["one", "other"], "shown")}
    explorer = view.Explorer(
        None, controls, lambda data: draw(name, NAMED), title="A.", caption="B.", grid=grid
    )
    live, fixed = explorer.static_spec(), draw(name, table).to_dict()
    for spec in (live, fixed):
        if "concat" not in spec:
            spec |= {"width": WIDTH, "height": HEIGHT}
    for mark in ("line", "symbol", "rect", "area", "rule"):
        ours, theirs = ([_placed(item) for item in drawing.drawn(spec, mark)] for spec in (live, fixed))
        assert ours == theirs


def _placed(item):
    return {
        key: item[key] for key in ("x", "y", "x2", "y2", "fill", "stroke", "shape", "size") if key in item
    }


@EVERY_FORM
def test_a_table_that_is_empty_or_has_a_hole_or_a_wrong_column_is_refused(name):
    table, column, *_ = FORMS[name]
    hole = f"1 of {len(table)} values in column '{column}' are missing or infinite"
    for wrong, message in (
        (table.iloc[:0], "the table is empty"),
        (table.rename(columns={column: "other"}), f"no column '{column}' in the table, which has .*other"),
        (table.assign(**{column: [np.nan, *table[column].iloc[1:]]}), hole),
        (table.assign(**{column: [np.inf, *table[column].iloc[1:]]}), hole),
        (table.assign(**{column: "much"}), f"column '{column}' holds .* numbers are drawn there"),
    ):
        with pytest.raises(ValueError, match=message):
            draw(name, wrong)


@pytest.mark.parametrize("module", [curves, forms, histograms, paths])
def test_sizes_and_colours_come_from_the_theme_by_name(module):
    code = Path(module.__file__).read_text(encoding="utf-8")
    look = r"\b(size|opacity|strokeWidth|fontSize|thickness|width|height|strokeDash)=[\[\d]|#[0-9a-fA-F]{6}"
    assert not re.search(look, code)


def test_six_kinds_are_refused_and_a_null_beside_five_is_not():
    table = pd.concat([seeds(kinds=[kind]) for kind in "abcdef"])
    with pytest.raises(ValueError, match="6 kinds in one chart, but only 5 looks"):
        view.plot_curves(table, "step", "accuracy", kind="pair")
    compiled(view.plot_curves(table, "step", "accuracy", kind="pair", null="f"))


def twice(table):
    return pd.concat([table, table])


ENDS = r"give the ends of both axes \(limits=...\)"


@pytest.mark.parametrize(
    ("form", "table", "arguments", "options", "message"),
    [
        (view.plot_curves, seeds(), "step accuracy", {"null": "z"}, "null='z' is none of the kinds: x, y"),
        (view.plot_curves, seeds(), "step accuracy", {"names": ["x"]}, r"has 'y', .* none of names=\['x'\]"),
        (view.plot_curves, NAMED, "step accuracy", {}, r"name the kinds of 'pair' \(names=...\)"),
        (
            view.plot_curves, twice(seeds()), "step accuracy", {},
            "more than one row at step = 0, pair = x, seed = 0: name the column",
        ),
        (
            view.plot_curves, seeds(), "step accuracy", {"seed": None},
            "more than one row at step = 0, pair = x: name",
        ),
        (
            lambda data, x, y, **more: view.plot_curves(data, Axis(x, "log"), y, **more),
            seeds(2, ["x"], (0, 1, 2)), "step accuracy", {},
            "2 of 6 values in column 'step' are not above 0",
        ),
        (
            view.plot_strip, twice(times()), "grok run", {},
            "more than one row at run = a, seed = 0: average them first",
        ),
        (
            lambda data, x, y: view.plot_bars(data, x, Axis(y, "log")), NAMED, "rank eigenvalue", {},
            "the ends of the logarithmic axis",
        ),
        (view.plot_path, NAMED, "u v", {"order": "step", "by": "a", "limits": (0, 1)}, "name the kinds of"),
        (view.plot_strip, times(), "grok run", {"published": {"c": 1}}, "'c', .* none of the rows: a, b"),
        (view.plot_scatter, NAMED, "memorize grok", {"equals": True}, ENDS),
        (view.plot_scatter, POINTS.assign(mark="a"), "u v", {"kind": "mark"}, "'mark' can't be coloured"),
        (
            view.plot_bars, twice(RANKS), "rank eigenvalue", {},
            "more than one row at rank = 1: one bar would hide the other",
        ),
        (
            view.plot_ridges, RIDGES.assign(density=[0, -1, 1, 1]), "angle epoch density", {},
            "'density' has heights below 0",
        ),
        (
            view.plot_heat_map, twice(CELLS), "column row pmi", {},
            "more than one row at column = 0, row = 0: a cell shows one number",
        ),
        (view.plot_heat_map, NAMED, "column row pmi", {"signed": True}, r"the ends of the colours \(limits"),
        (view.plot_histogram, BINS, "eigenvalue", {"null": [1.0, 2.0]}, "the table holds bins"),
        (view.plot_path, NAMED, "u v", {"order": "step"}, ENDS),
        (lambda charts: view.panels(charts), {}, "", {}, "no panels: give at least one chart"),
    ],
)  # fmt: skip
def test_what_would_be_drawn_wrong_is_refused(form, table, arguments, options, message):
    kind = {"kind": "pair"} if form is view.plot_curves else {}
    with pytest.raises(ValueError, match=message):
        form(table, *arguments.split(), **kind, **options)


# --- curves ---------------------------------------------------------------------------------------------


def curves_of(table, **more):
    return view.plot_curves(table, "step", Axis("accuracy", limits=(0, 1)), kind="pair", **more)


@pytest.mark.parametrize("n_seeds", [2, 5, 40])
def test_the_band_over_seeds_is_students_interval(n_seeds):
    table = seeds(n_seeds)
    corners = drawn(curves_of(table), "area")
    expected = [
        findings.over_seeds(part["accuracy"].to_numpy()) for _, part in table.groupby(["pair", "step"])
    ]
    low, high = ([1 - corner[end] / 100 for corner in corners] for end in ("y", "y2"))
    # a pixel is 1/100; values are kept to four digits, and two seeds' quantile is 12.7
    assert low == pytest.approx([f.low for f in expected], abs=1e-3)
    assert high == pytest.approx([f.high for f in expected], abs=1e-3)


def test_every_seed_is_a_thin_line_and_the_mean_a_thick_one():
    table = seeds(3)
    points = drawn(curves_of(table), "line")
    widths = [point["strokeWidth"] for point in points]
    thin, thick = theme.WIDTHS["seed"], theme.WIDTHS["line"]
    assert widths.count(thin) == len(table)
    assert widths.count(thick) == len(table) / 3
    # one line per seed and kind, from the first step to the last
    assert [point["x"] for point in points if point["strokeWidth"] == thin] == [0, WIDTH] * 6
    means = table.groupby(["pair", "step"])["accuracy"].mean()
    assert [1 - p["y"] / 100 for p in points if p["strokeWidth"] == thick] == pytest.approx(
        means.tolist(), abs=1e-3
    )  # four digits are kept


def test_columns_of_an_interval_make_the_band():
    table = POINTS.assign(low=POINTS["loss"] - 1, high=POINTS["loss"] + 1)
    chart = view.plot_curves(table, "step", Axis("loss", limits=(0, 4)), seed=None, interval=("low", "high"))
    corners = drawn(chart, "area")
    assert [4 - corner["y"] / 25 for corner in corners] == pytest.approx([2, 1, 0])
    assert [4 - corner["y2"] / 25 for corner in corners] == pytest.approx([4, 3, 2])


# --- strip ----------------------------------------------------------------------------------------------


def strip(table, **more):
    return view.plot_strip(table, Axis("grok", limits=(0, 100)), "run", **more)


def test_marks_of_a_strip_stand_in_the_row_of_their_kind_with_students_interval_about_the_mean():
    marks = drawn(strip(times()), "symbol")
    assert [mark["x"] for mark in marks] == times()["grok"].tolist()
    assert [mark["y"] for mark in marks] == [25] * 3 + [75] * 3
    expected = [findings.over_seeds(part.to_numpy()) for _, part in times().groupby("run")["grok"]]
    chart = view.plot_strip(times(), Axis("grok", limits=(-100, 200)), "run")
    found = [(rule["x"] * 3 - 100, rule["x2"] * 3 - 100) for rule in drawn(chart, "rule")]
    assert found == [pytest.approx((f.low, f.high), abs=1e-2) for f in expected]
    middles = [tick["x"] * 3 - 100 + tick["width"] * 1.5 for tick in drawn(chart, "rect")]
    assert middles == pytest.approx([f.value for f in expected])


def test_a_median_has_a_tick_and_no_interval():
    chart = strip(times(), centre="median")
    assert not drawn(chart, "rule")
    assert [tick["x"] + tick["width"] / 2 for tick in drawn(chart, "rect")] == [20, 40]


@pytest.mark.parametrize("rows", ["run", "part"])
def test_the_papers_values_of_kinds_stand_in_their_part_of_the_row(rows):
    tables = [times().assign(model=model) for model in ("tied", "free")]
    table = pd.concat(tables).rename(columns={"run": rows})
    paper = pd.DataFrame({rows: ["a", "b"], "model": ["free", "tied"], "grok": [50.0, 90.0]})
    chart = view.plot_strip(table, Axis("grok", limits=(0, 100)), rows, by="model", published=paper)
    marks = drawn(chart, "symbol")
    crosses = {(mark["x"], mark["y"]) for mark in marks if mark["shape"] == theme.PUBLISHED_SHAPE}
    ours = {mark["y"]: mark["shape"] for mark in marks if mark["shape"] != theme.PUBLISHED_SHAPE}
    shapes = dict(zip(("tied", "free"), theme.SHAPES, strict=False))
    assert {(x, ours[y]) for x, y in crosses} == {(50, shapes["free"]), (90, shapes["tied"])}


def test_a_run_that_was_given_up_is_an_open_mark_and_a_row_without_a_mark_stays():
    assert "not measured" in axis_labels(strip(times(), names=["a", "b", "not measured"]))
    shown = [mark for mark in drawn(strip(times(), event="grokked"), "symbol") if mark["size"] > 0]
    is_open = [
        mark["shape"] == "triangle-right" and mark.get("fill") in (None, "transparent") for mark in shown
    ]
    assert sorted(mark["x"] for mark, open_ in zip(shown, is_open, strict=True) if open_) == [80]
    assert is_open.count(False) == 5


# --- scatter --------------------------------------------------------------------------------------------


def scatter(**more):
    return view.plot_scatter(
        times(), Axis("memorize", limits=(0, 100)), Axis("grok", limits=(0, 100)), **more
    )


def test_marks_of_a_scatter_stand_at_their_two_numbers():
    marks = drawn(scatter(), "symbol")
    assert [mark["x"] for mark in marks] == times()["memorize"].tolist()
    assert [100 - mark["y"] for mark in marks] == times()["grok"].tolist()


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_line_of_equals_runs_from_corner_to_corner(scale):
    chart = view.plot_scatter(times(), Axis("memorize", scale), Axis("grok", scale), equals=True)
    assert [(point["x"], point["y"]) for point in drawn(chart, "line")] == [(0, 100), (100, 0)]
    assert all(mark["y"] < 100 - mark["x"] for mark in drawn(chart, "symbol"))  # grok > memorize


# --- bars -----------------------------------------------------------------------------------------------


def test_each_bar_is_one_wide_about_its_rank():
    marks = drawn(view.plot_bars(RANKS, "rank", Axis("eigenvalue", limits=(0, 10))), "rect")
    assert [bar["height"] for bar in marks] == pytest.approx([90, 40, 10])
    assert [bar["x"] + bar["width"] / 2 for bar in marks] == pytest.approx([100 / 6, 50, 500 / 6], abs=0.5)


def test_bars_begin_at_the_lower_end_of_a_logarithmic_axis():
    table = pd.DataFrame({"rank": [1, 2, 3], "eigenvalue": [100.0, 10.0, 1.0], "part": ["a", "b", "b"]})
    chart = view.plot_bars(table, "rank", Axis("eigenvalue", "log", (0.1, 100)), kind="part")
    assert [bar["height"] for bar in drawn(chart, "rect")] == pytest.approx([100, 200 / 3, 100 / 3])
    free = drawn(view.plot_bars(table, "rank", Axis("eigenvalue", "log")), "rect")
    assert all(bar["height"] > 0 for bar in free)  # the least one too


# --- histogram and ridges -------------------------------------------------------------------------------


def test_a_histogram_counts_what_numpy_counts():
    values = np.random.default_rng(0).standard_normal(200)
    marks = drawn(view.plot_histogram(pd.DataFrame({"pmi": values}), "pmi", n_bins=10), "rect")
    counts, _ = np.histogram(values, bins=10)
    heights = np.array([bar["height"] for bar in marks])
    assert heights / heights.sum() == pytest.approx(counts / 200, abs=1e-3)  # shares have four digits


def test_the_mirror_image_and_the_controls_values_are_stepped_lines():
    values, control = np.array([-1.0, 2.0, 2.0, 3.0]), np.array([-4.0, -4.0, 4.0, 4.0])
    chart = view.plot_histogram(pd.DataFrame({"pmi": values}), "pmi", mirrored=True, null=control, n_bins=8)
    rows = (
        chart.to_dict()["datasets"] if "datasets" in chart.to_dict() else [chart.to_dict()["data"]["values"]]
    )
    (row,) = rows[0] if isinstance(rows, list) else next(iter(rows.values()))
    assert row["left"] == [-4, -3, -2, -1, 0, 1, 2, 3]
    assert row["share"] == [0, 0, 0, 0.25, 0, 0, 0.5, 0.25]
    assert row["mirrored"] == row["share"][::-1]
    assert row["control"] == [0.5, 0, 0, 0, 0, 0, 0, 0.5]
    assert legend_names(compiled(chart)) == ["measured", "its mirror image", "control"]


def test_ridges_stand_on_their_rows_with_one_scale():
    chart = view.plot_ridges(RIDGES, "angle", "epoch", "density", overlap=1.0)
    corners = drawn(chart, "area")  # two rows, so that a height of 1 is half the plot
    assert [corner["y2"] for corner in corners] == [50, 50, 100, 100]
    assert [corner["y2"] - corner["y"] for corner in corners] == pytest.approx([0, 50, 25, 25])
    assert {"1", "2"} <= set(axis_labels(chart))


# --- heat map -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [True, False])
def test_numbers_stand_out_from_the_colours_of_their_cells(signed):
    values = np.linspace(-3 if signed else 0, 3, 25)
    table = pd.DataFrame({"row": 0, "column": range(25), "pmi": values})
    chart = view.plot_heat_map(table, "column", "row", "pmi", signed=signed, labels=".1f")
    named = {"white": "255, 255, 255", "black": "0, 0, 0"}
    cells, texts = (
        [tuple(map(int, re.findall(r"\d+", named.get(mark["fill"], mark["fill"])))) for mark in marks]
        for marks in (drawn(chart, "rect"), drawn(chart, "text"))
    )
    assert min(map(contrast, cells, texts)) >= 3


# --- path and panels ------------------------------------------------------------------------------------


def test_a_layout_is_square_with_equal_units_and_names_its_seed():
    chart = view.plot_path(POINTS, "u", "v", order="step", seed_text="seed 7")
    marks = drawn(chart, "symbol")
    (x0, y0), (x1, y1) = ((mark["x"], mark["y"]) for mark in marks[:2])
    assert (x1 - x0) / 4 == pytest.approx(y0 - y1)  # 4 to the right and 1 up
    assert all(0 < mark[way] < WIDTH for mark in marks for way in ("x", "y"))
    assert "seed 7" in written(chart)
    assert chart.to_dict()["width"] == chart.to_dict()["height"] == theme.SQUARE


def test_the_path_is_joined_in_its_order_whatever_the_tables():
    whole, shuffled = (
        [(p["x"], p["y"]) for p in drawn(view.plot_path(table, "u", "v", order="step"), "line")]
        for table in (POINTS, POINTS.iloc[[2, 0, 1]])
    )
    assert whole == shuffled


def test_clusters_have_colours_of_their_own_with_their_numbers_beside_and_no_ramp():
    table = pd.DataFrame({"step": range(72), "u": np.arange(72.0), "v": 0.0, "phase": np.arange(72) // 4})
    spec = view.plot_path(table, "u", "v", order="step", phase="phase").to_dict()
    marks = drawing.drawn(spec, "symbol")
    looks = [(mark["fill"], mark["shape"]) for mark in marks]
    assert len(set(looks)) == 18
    assert {fill for fill, _ in looks} == set(theme.CLUSTERS)
    assert "scheme" not in json.dumps(spec["layer"])
    numbers = drawing.drawn(spec, "text")
    assert [int(mark["text"]) for mark in numbers] == list(range(18))
    assert [mark["x"] for mark in numbers] == [mark["x"] for mark in marks[1::4]]  # second of four points


@pytest.mark.parametrize("phases", [(0, 0, 1), (-1, -1, -1), (0, -1, 1)])
def test_points_in_a_phase_and_in_none_are_one_mark_which_is_never_empty(phases):
    table = POINTS.assign(phase=phases)
    how = {"order": "step", "phase": "phase"}
    marks = drawn(view.plot_path(table, "u", "v", **how), "symbol")
    assert [mark["shape"] == "cross" for mark in marks] == [phase == -1 for phase in phases]
    assert [mark["fill"] == "transparent" for mark in marks] == [phase == -1 for phase in phases]
    plane, beside = view.plot_path(NAMED, "u", "v", **how, loss="loss", limits=(0, 1)).to_dict()["concat"]
    assert [len(part["layer"]) for part in (plane, beside)] == [3, 1]  # line, points, numbers of clusters


def test_paths_of_two_kinds_stand_side_by_side_each_with_its_loss_below():
    table = pd.concat([POINTS.assign(kind="training"), POINTS.assign(kind="random walk", u=0.0)])
    beside = {"by": "kind", "by_names": ["training", "random walk"], "limits": (-1, 5)}
    spec = view.plot_path(table, "u", "v", order="step", loss="loss", **beside).to_dict()
    assert (len(spec["concat"]), spec["columns"]) == (4, 2)
    assert len(drawing.drawn(spec, "symbol")) == 4 * 3
    numbered = table.assign(kind=table["kind"].map({"training": 0, "random walk": 1}))
    beside["by_names"] = {0: "training", 1: "random walk"}
    again = view.plot_path(numbered, "u", "v", order="step", loss="loss", **beside)
    assert {item["text"] for item in drawing.drawn(again.to_dict(), "text")} >= {"training", "random walk"}


def test_panels_over_one_table_each_draw_their_own_column():
    rows = {"step": [0, 1, 0, 1], "seed": [0, 0, 1, 1], "kind": ["a"] * 4}
    table = pd.DataFrame(rows | {"loss": [4.0, 2.0, 4.0, 2.0], "accuracy": [0.1, 0.9, 0.1, 0.9]})
    explorer = view.Explorer(
        lambda rate: table,
        {"rate": view.Choice([1, 2])},
        lambda data: view.panels(
            [
                view.plot_curves(data, "step", Axis(column, limits=(0, 4)), kind="kind", names=["a"])
                for column in ("loss", "accuracy")
            ]
        ),
        title="Both",
        caption="Made.",
    )
    lines = drawing.drawn(explorer.static_spec(), "line")
    ends = {round(item["y"]) for item in lines if item.get("strokeWidth") == theme.WIDTHS["line"]}
    assert len(ends) == 4, "one column's mean was drawn in both panels"
