"""Explorers: one declaration, whose two faces draw the same; refusals that say what to do."""

import json

import altair as alt
import ipywidgets
import numpy as np
import pandas as pd
import pytest
import traitlets
import vl_convert
from threadpoolctl import threadpool_info

from embviz.view import explorers, theme
from embviz.view.explorers import Choice, Explorer, Range, Toggle, compact_row
from embviz.view.pages import MIME, portable
from tests.view.asking import replies


def measure(power: int, scale: float, upward: bool) -> pd.DataFrame:
    x = np.arange(4)
    return pd.DataFrame({"x": x, "y": (1 if upward else -1) * scale * x**power, "name": list("abcd")})


def draw(data: alt.NamedData) -> alt.LayerChart:
    base = alt.Chart(data).encode(x="x:Q", y="y:Q", tooltip=["name:N"])
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule().encode(y=alt.YDatum(0))
    return alt.LayerChart(layer=[base.mark_line(), base.mark_point(), zero])


def controls() -> dict:
    return {
        "power": Choice([1, 2, 3], "power", format="to the {}"),
        "scale": Range(0.1, 0.5, 0.2, "scale", live_step=0.1),
        "upward": Toggle("upward", initial=True),
    }


def make_explorer(measure=measure, controls=controls, draw=draw, **changes) -> Explorer:
    own = controls() if callable(controls) else controls
    return Explorer(measure, own, draw, **{"title": "Curves bend", "caption": "Made numbers.", **changes})


def one_column(**values) -> pd.DataFrame:
    return pd.DataFrame({"x": [1.0]})


def draw_x(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x="x:Q")


def explore_x(measure, controls, draw=draw_x, **changes) -> Explorer:
    return make_explorer(measure, controls, draw, **changes)


def measure_two(n: int, power: int) -> dict[str, pd.DataFrame]:
    points = pd.DataFrame({"x": np.arange(n), "y": np.arange(n) ** power})
    return {"points": points, "level": pd.DataFrame({"height": [power], "name": ["a power"]})}


def draw_two(points: alt.NamedData, level: alt.NamedData) -> alt.LayerChart:
    line = alt.Chart(points).mark_line().encode(x="x:Q", y="y:Q")
    return alt.layer(line, line.mark_point(), alt.Chart(level).mark_rule().encode(y="height:Q"))


TWO = {"n": [3, 4], "power": range(1, 4)}


def make_two(measure=measure_two, controls=TWO, draw=draw_two, **changes) -> Explorer:
    return make_explorer(measure, controls, draw, **{"title": "Two tables", **changes})


def returns(result):
    def made(n: int, power: int):
        return result

    return make_two(made)


def by_toggle(at_true, at_false) -> Explorer:
    return explore_x(lambda a: at_true if a else at_false, {"a": Toggle("a")})


def drawing(spec: dict) -> str:
    """The SVG of a specification with its controls where they stand."""
    return vl_convert.vegalite_to_svg(spec, vl_version="6.4")


def meta(explorer: Explorer) -> dict:
    return explorer.static_spec()["usermeta"]["embviz"]


# --- two faces ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("explorer", "states"),
    [
        (make_explorer(), [(1, 0.1, True), (1, 0.3, False), (3, 0.1, True), (3, 0.3, False)]),
        (make_two(), [(3, 2), (4, 1), (4, 3)]),
    ],
)
def test_the_static_twin_draws_what_the_live_face_draws(explorer, states):
    static, live = explorer.static_spec(), explorer.live_spec()
    drawings = set()
    for state in states:
        values = dict(zip(explorer.controls, state, strict=True))
        for param in static["params"]:
            param["value"] = values[param["name"]]
        tables = explorer.answer(values)["tables"]
        if "datasets" in live:
            live["datasets"] = tables
        else:
            live["data"]["values"] = tables["measured"]
        assert drawing(static) == drawing(live)
        drawings.add(drawing(static))
    assert len(drawings) == len(states)


def test_the_drawing_is_that_of_the_tables_themselves():
    tables = measure_two(4, 2)
    values = {name: alt.Data(values=table.to_dict("records")) for name, table in tables.items()}
    by_hand = theme.captioned(draw_two(**values), finding="Two tables", caption="Made numbers.").to_dict()
    spec = make_two(controls={"n": [4], "power": [2]}).static_spec()
    assert spec.pop("params") == [{"name": "n", "value": 4}, {"name": "power", "value": 2}]
    assert drawing(spec) == drawing(portable(by_hand))


@pytest.mark.parametrize("combine", [alt.hconcat, alt.vconcat, alt.layer, lambda one, _: one.facet("x:N")])
def test_charts_beside_each_other_all_show_the_chosen_rows(combine):
    def pair(data: alt.NamedData) -> alt.TopLevelMixin:
        return combine(draw_x(data), draw_x(data).mark_tick())

    spec = explore_x(one_column, {"a": Toggle("a")}, pair).static_spec()
    assert json.dumps(spec).count(f'"name": "{explorers.MEASURED}"') == 1
    compiled = vl_convert.vegalite_to_vega(spec, vl_version="6.4")
    assert sum("flatten" in json.dumps(data.get("transform", [])) for data in compiled["data"]) == 1


def test_a_given_grid_is_shown_without_measuring_and_a_move_measures():
    grid = pd.DataFrame({"n": [1, 2], "x": [10.0, 20.0]})
    asked = []

    def measure(n):
        asked.append(n)
        return pd.DataFrame({"x": [float(n)]})

    explorer = explore_x(measure, {"n": [1, 2]}, draw_x, grid=grid)
    assert [row["x"] for row in explorer.static_spec()["data"]["values"]] == [[10], [20]]
    assert explorer.spec["data"]["values"][0]["x"] == [10]
    assert not asked
    assert explorer.answer({"n": 2})["tables"]["measured"][0]["x"] == [2]


def test_a_drawing_keeps_its_own_transforms_after_ours():
    def doubled(data: alt.NamedData) -> alt.Chart:
        return draw_x(data).transform_calculate(twice="2 * datum.x")

    spec = explore_x(one_column, {"a": Toggle("a")}, doubled).static_spec()
    assert [next(iter(step)) for step in spec["transform"]] == ["filter", "flatten", "calculate"]


def test_measuring_takes_one_thread_and_leaves_the_others_as_they_were():
    def threads(a: bool) -> pd.DataFrame:
        np.eye(2) @ np.eye(2)
        return pd.DataFrame({"x": [max(pool["num_threads"] for pool in threadpool_info())]})

    before = threads(True)["x"][0]
    explorer = explore_x(threads, {"a": Toggle("a")})
    assert explorer.grid()["x"].tolist() == [1, 1]
    assert explorer.answer({"a": True})["tables"]["measured"][0]["x"] == [1]
    assert threads(True)["x"][0] == before


# --- tables ---------------------------------------------------------------------------------------------


def test_stored_results_are_shown_though_their_floats_are_noisy():
    stored = pd.DataFrame({"share": [0.1 + 0.2, 0.2, 0.1, 0.7], "x": [3.0, 2.0, 1.0, 7.0]})
    explorer = explore_x(None, {"share": Range(0.1, 0.3, 0.1, "share")}, grid=stored)
    rows = explorer.static_spec()["data"]["values"]
    assert rows == [{"share": 0.1, "x": [1.0]}, {"share": 0.2, "x": [2.0]}, {"share": 0.3, "x": [3.0]}]
    assert explorer.spec["data"]["values"] == rows
    caption = explorer.spec["usermeta"]["embviz"]["caption"]
    assert caption == "Made numbers. The controls choose among stored results."
    with pytest.raises(traitlets.TraitError, match=r"nothing is stored at share = 0\.15, but at 0\.1, 0\.2"):
        explorer.value = {"share": 0.15}


def test_stored_tables_of_several_kinds_are_shown():
    points = pd.DataFrame({"n": [1, 1, 2], "x": [0.0, 1.0, 2.0]})
    grid = {"points": points, "level": pd.DataFrame({"height": [3.0]}), "marks": points[:1]}

    def three(points: alt.NamedData, level: alt.NamedData, marks: alt.NamedData) -> alt.LayerChart:
        level_of = alt.Chart(level).mark_rule().encode(y="height:Q")
        return alt.layer(draw_x(points), level_of, draw_x(marks))

    spec = make_two(None, {"n": [1, 2]}, three, grid=grid).static_spec()
    assert spec["datasets"]["level"] == [{"height": [3.0]}]
    assert spec["datasets"]["marks"] == [{"n": 1, "x": [0.0]}, {"n": 2, "x": []}]
    assert drawing(spec)
    with pytest.raises(ValueError, match=r"the grid's table 'points' has no row for \{'n': 3\}"):
        make_two(None, {"n": [1, 3]}, three, grid=grid)


def test_a_table_is_stored_once_where_a_control_changes_nothing_in_it_and_not_if_it_is_not_drawn():
    stored = make_two().static_spec()["datasets"]
    assert len(stored["points"]) == 6
    assert stored["level"] == [{"power": p, "height": [p], "name": ["a power"]} for p in (1, 2, 3)]
    explorer = make_two(draw=lambda points: draw_x(points))
    assert list(explorer.static_spec()["datasets"]) == ["points"]
    assert list(explorer.answer({"n": 3, "power": 1})["tables"]) == ["points"]
    assert make_two(draw=lambda tables: draw_two(**tables)).static_spec()["datasets"] == stored


def test_the_grid_of_several_tables_is_what_a_slow_loop_measures():
    grid = make_two().grid()
    assert list(grid) == ["points", "level"]
    loop = [
        measure_two(n, power)["points"].assign(n=n, power=power)[["n", "power", "x", "y"]]
        for n in (3, 4)
        for power in (1, 2, 3)
    ]
    pd.testing.assert_frame_equal(grid["points"], pd.concat(loop, ignore_index=True))


def test_a_table_may_be_empty_at_a_combination():
    def measured(n: int) -> dict[str, pd.DataFrame]:
        return {"points": pd.DataFrame({"x": np.arange(3.0)}), "marks": pd.DataFrame({"x": np.ones(n)})}

    def both(points: alt.NamedData, marks: alt.NamedData) -> alt.LayerChart:
        return alt.layer(draw_x(points), draw_x(marks).mark_tick())

    explorer = make_two(measured, {"n": [1, 0]}, both)
    assert explorer.static_spec()["datasets"]["marks"] == [{"n": 1, "x": [1.0]}, {"n": 0, "x": []}]
    assert explorer.answer({"n": 0})["tables"]["marks"] == [{"n": 0, "x": []}]


def test_noise_of_a_sum_is_written_as_zero_small_numbers_stay_and_all_are_plain_json():
    row = compact_row(pd.DataFrame({"x": [1.0, -4e-16, 1e-6], "tiny": [1e-20, 2e-20, 0.0]}), digits=3)
    assert row == {"x": [1.0, 0.0, 1e-06], "tiny": [1e-20, 2e-20, 0.0]}
    frame = pd.DataFrame({"n": np.array([1], dtype=np.uint16), "b": [True], "f": np.float32([1])})
    assert json.loads(json.dumps(compact_row(frame, digits=4))) == {"n": [1], "b": [True], "f": [1.0]}


# --- controls -------------------------------------------------------------------------------------------


def test_a_slider_has_no_noise_of_added_steps_and_keeps_whole_numbers_whole():
    assert Range(0, 1, 0.1, "x").values[3] == 0.3
    assert [type(value) for value in Range(1, 3, 1, "x").values] == [int, int, int]
    assert type(Range(1, 3, 1, "x").read(2.0)) is int
    assert Range(0, 10, 1, "x").initial == 5


def test_short_forms_stand_for_controls_and_names_for_labels():
    short = {"n_words": [1, 2], "pair": ("a", "b"), "k": range(0, 10, 5), "holes": False, "d": Range(0, 1, 1)}
    assert explore_x(one_column, short).controls == {
        "n_words": Choice([1, 2], "n words"),
        "pair": Choice(("a", "b"), "pair"),
        "k": Range(0, 5, 5, "k"),
        "holes": Toggle("holes"),
        "d": Range(0, 1, 1, "d"),
    }


def test_controls_have_finer_values_where_a_kernel_measures():
    faces = (make_explorer().static_spec(), make_explorer().live_spec())
    assert [spec["params"][1]["bind"]["step"] for spec in faces] == [0.2, 0.1]
    choice = Choice([1, 3], "n", live_values=range(1, 6))
    assert choice.binding(live=False)["options"] == [1, 3]
    ends = {"min": 1, "max": 5, "step": 1}
    assert choice.binding(live=True) == {"input": "range", **ends, "name": "n"}
    assert Choice([1, 3], "n", live_values=[1, 2, 3]).binding(live=True)["options"] == [1, 2, 3]
    explorer = make_two(controls={"n": choice, "power": [1]})
    assert explorer.answer({"n": 5, "power": 1})["tables"]["points"][0]["x"] == [0, 1, 2, 3, 4]
    assert len(explorer.static_spec()["datasets"]["points"]) == 2


def test_a_control_of_the_drawing_is_not_measured():
    seen: list[dict] = []

    def watched(**values) -> pd.DataFrame:
        seen.append(values)
        return pd.DataFrame({"x": [1.0, 2.0]})

    def above(data: alt.NamedData) -> alt.Chart:
        return draw_x(data).transform_filter("datum.x > least")

    explorer = explore_x(watched, {"n": [1, 2]}, above, view_controls={"least": Range(0, 2, 1)})
    spec = explorer.static_spec()
    assert seen == [{"n": 1}, {"n": 2}]
    assert [param["name"] for param in spec["params"]] == ["n", "least"]
    assert spec["usermeta"]["embviz"]["controls"] == ["n"]
    assert explorer.answer({"n": 1})["tables"]


def test_a_title_follows_the_controls():
    choice = Choice([3, 4], format="{} points")
    explorer = make_two(controls={"n": choice, "power": [1, 2]}, title="{n}, to the {power:.1f}")
    assert meta(explorer)["title"] == repr(explorer)[len("<explorer: ") : -1] == "3 points, to the 1.0"
    assert meta(explorer)["titles"][-1] == {"n": 4, "power": 2, "title": "4 points, to the 2.0"}
    assert explorer.answer({"n": 4, "power": 1})["title"] == "4 points, to the 1.0"
    braces = make_two(title="Modes {48} and {1, 14}")
    assert "titles" not in meta(braces)
    assert "title" not in braces.answer({"n": 3, "power": 1})


def test_a_title_is_made_from_what_was_measured():
    explorer = make_two(title=lambda level: f"power {level['height'][0]}, n = {{n}}")
    assert meta(explorer)["title"] == "power 2, n = 3"
    assert meta(explorer)["titles"][1] == {"n": 3, "power": 2, "title": "power 2, n = 3"}
    by_power = make_two(title=lambda level: f"power {level['height'].iloc[0]}")
    assert meta(by_power)["titles"] == [{"power": p, "title": f"power {p}"} for p in (1, 2, 3)]


# --- refusals -------------------------------------------------------------------------------------------


SHARES = pd.DataFrame({"share": [0.1, 0.3], "x": [1.0, 3.0]})
SHARE = {"share": Range(0.1, 0.3, 0.1, "share")}
CUBE = {name: Range(0, 20, 1, name) for name in "abc"}
NONE, INFINITE = (pd.DataFrame({"x": [1.0, wrong]}) for wrong in (np.nan, np.inf))
X, Y = one_column(), one_column().rename(columns={"x": "y"})


def moved(explorer: Explorer, **values) -> None:
    _ = explorer.spec
    explorer.answer(values)


def undeclared(points: alt.NamedData, lines: alt.NamedData) -> alt.Chart:
    return draw_x(points)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Range(0, 1, 0.3), "the step must be positive and divide the range"),
        (lambda: Range(0, 1, 0), "the step must be positive"),
        (lambda: Range(0, 1, 0.25, initial=0.3), r"starts at 0\.3, which is not on its grid"),
        (lambda: Choice([1, 2], initial=3), "starts at 3, not among"),
        (lambda: Choice([]), "at least one value, each once"),
        (lambda: Choice([1, 1]), "at least one value, each once"),
        (lambda: Choice([1, 9], live_values=[1, 2]), "has 9 in the page, not among live_values"),
        (lambda: Range(0, 1, 0.5, "share").read(1.5), "share: 1.5 is outside 0 to 1"),
        (lambda: Range(0, 1, 0.5, "share").read(float("nan")), "share: nan is outside"),
        (lambda: Range(0, 1, 0.5, "share").read("1"), "share: '1' is not a number"),
        (lambda: Range(0, 1, 0.5, "share").read(True), "share: True is not a number"),
        (lambda: Choice([1, 2], "window").read(3), "window: 3 is not among"),
        (lambda: Choice(["1"], "window").read(1), "window: 1 is not among"),
        (lambda: Toggle("holes").read(1), "holes: 1 is neither true nor false"),
        (lambda: make_two(controls={"n": "abc"}), "the control 'n' is a str: give a Choice"),
        (lambda: make_two(view_controls={"n": [1]}), "'n' is measured and only drawn"),
        (lambda: make_explorer(None), "a measuring function, or a grid"),
        (lambda: explore_x(measure, SHARE, grid=SHARES), r"no row for \{'share': 0\.2\}"),
        (lambda: explore_x(measure, SHARE, grid=one_column()), "no column share"),
        (lambda: explore_x(one_column, CUBE).grid(), r"21 x 21 x 21 = 9,261 .* more than 2,000.*live_step"),
        (lambda: make_two(tries={"a": {"power": 9}}), r"to try 'a' sets 'power' to 9: there is .1, 2, 3."),
        (lambda: make_two(tries={"a": {"angle": 9}}), "sets 'angle' to 9: there is n, power"),
        (lambda: make_two(title="{m}"), "follows 'm', which is none of the measured controls: n, power"),
        (lambda: make_two(draw=undeclared), "undeclared asks for lines, but the tables are points, level"),
        (lambda: returns(None), "made returned nothing: return a DataFrame, or several by name"),
        (lambda: returns(pd.Series([1.0])), "made returned a Series"),
        (lambda: returns({}), "made returned a dict"),
        (lambda: returns({"a": [1.0]}), "the table 'a' that made returned is a list"),
        (lambda: by_toggle(X, Y).grid(), r"measured \['x'\] at \{'a': True\}, but \['y'\] at first"),
        (lambda: by_toggle(*[X.rename(columns={"x": "a"})] * 2).grid(), "column 'a', the name of a control"),
        (lambda: by_toggle(NONE, NONE).grid(), r"1 of 2 values in column 'x' .* measured at .* missing"),
        (lambda: by_toggle(INFINITE, X).grid(), r"1 of 2 values in column 'x' .* missing or infinite"),
        (lambda: moved(by_toggle(Y, X), a=True), r"measured \['y'\] at \{'a': True\}, but \['x'\] at first"),
        (
            lambda: by_toggle({"points": X, "more": X}, {"points": X}).grid(),
            r"measured \['x'\] in 'more' at \{'a': True\}",
        ),
    ],
)
def test_what_cannot_be_an_explorer_is_refused_with_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make().static_spec()


@pytest.mark.parametrize("name", ["width", "datum", "two words", "2d", "measured", "PI", "x;alert(1)"])
def test_names_that_vega_keeps_for_itself_are_refused(name):
    with pytest.raises(ValueError, match="can't be called"):
        make_explorer(controls={name: Toggle("a")})
    for table in {"data_0", "datum", "two words"} & {name, "data_0"}:
        with pytest.raises(ValueError, match="a table can't be called"):
            returns({table: one_column(), "x": one_column()}).static_spec()


def test_a_heavy_twin_warns_and_a_heavier_one_is_refused(monkeypatch):
    big, small = (pd.DataFrame({"x": np.random.default_rng(0).random(n)}) for n in (90_000, 60_000))
    explorer = by_toggle(big, small)
    with pytest.warns(UserWarning, match=r"puts 1,\d+,\d+ bytes into the page: take fewer values"):
        explorer.static_spec()
    monkeypatch.setattr(explorers, "TWIN_LIMIT", 1_000_000)
    with pytest.raises(ValueError, match=r"would put 1,\d+,\d+ bytes into the page, more than 1,000,000"):
        explorer.static_spec()


# --- the live face, and the value -----------------------------------------------------------------------


@pytest.mark.parametrize("values", [None, [1, 2], "n", {"power": 1}, {"n": [], "power": {}}])
def test_values_of_no_sense_are_answered_with_a_sentence(values):
    [reply] = replies(make_two(), {"kind": "measure", "request": 7, "values": values})
    assert reply["request"] == 7
    assert reply["error"].startswith("ValueError: ")


def test_the_value_is_where_the_controls_stand_can_be_set_in_part_and_stays_where_a_value_is_wrong():
    explorer = make_explorer()
    seen: list[dict] = []
    explorer.observe(lambda change: seen.append(change.new), "value")
    assert explorer.value == {"power": 1, "scale": 0.3, "upward": True}
    explorer.value = {"scale": np.float64(0.4)}
    assert explorer.value == {"power": 1, "scale": 0.4, "upward": True}
    assert seen == [explorer.value]
    for wrong, message in ({"scale": 0.9}, "is outside"), ({"powr": 2}, "no control 'powr', but power"):
        with pytest.raises(traitlets.TraitError, match=message):
            explorer.value = wrong
    explorer.set_state({"value": {"power": 9, "scale": 0.3, "upward": True}})  # of a page
    explorer.set_state({"value": {"power": 2, "scale": 0.3, "upward": True}})
    assert [one["power"] for one in seen] == [1, 2]


def test_an_explorer_stands_in_boxes_links_and_outputs_of_ipywidgets():
    explorer, slider = make_explorer(), ipywidgets.IntSlider(1, 1, 3)
    box = ipywidgets.VBox([slider, explorer, explorer.widget])
    assert box.get_state()["children"][1] == f"IPY_MODEL_{explorer.model_id}"
    there_and_back = (lambda n: {"power": n}, lambda value: value["power"])
    ipywidgets.link((slider, "value"), (explorer, "value"), there_and_back)
    slider.value = 3
    assert explorer.value == {"power": 3, "scale": 0.3, "upward": True}
    heard: list[dict] = []
    ipywidgets.interactive_output(lambda state: heard.append(state), {"state": explorer})
    explorer.value = {"power": 2}
    assert (slider.value, heard[-1]["power"]) == (2, 2)


# --- the first picture, and the grid --------------------------------------------------------------------


def counted(calls: list[int]):
    def measured(n: int) -> pd.DataFrame:
        calls.append(n)
        return pd.DataFrame({"x": [float(n)]})

    return measured


def test_a_picture_is_shown_after_one_measurement_and_none_is_made_before(monkeypatch):
    calls: list[int] = []
    explorer = explore_x(counted(calls), {"n": range(9)}, tries={"all": {"n": 8}})
    explorer.value = {"n": 2}
    assert calls == []
    assert explorer.comm is None
    spec = explorer._repr_mimebundle_()[MIME]
    assert calls == [4]
    assert spec["params"] == [{"name": "n", "value": 4}]  # without a kernel nothing can move it
    assert spec["data"]["values"] == [{"n": 4, "x": [4.0]}]
    assert "tries" not in spec["usermeta"]["embviz"]
    assert drawing(spec)
    assert "bind" in explorer.spec["params"][0]
    monkeypatch.setenv("EMBVIZ_GRIDS", "1")  # as chapters are stored
    assert explorer._repr_mimebundle_()[MIME] == explorer.static_spec()
    assert sorted(calls) == list(range(9))  # each once
    assert len(explorer.static_spec()["data"]["values"]) == 9


def test_an_interrupt_keeps_what_was_measured():
    calls: list[int] = []

    def measured(n: int) -> pd.DataFrame:
        if n == 4 and 4 not in calls:
            calls.append(n)
            raise KeyboardInterrupt
        return counted(calls)(n)

    explorer = explore_x(measured, {"n": range(6)})
    with pytest.raises(KeyboardInterrupt):
        explorer.static_spec()
    assert calls == [3, 0, 1, 2, 4]
    assert len(explorer.static_spec()["data"]["values"]) == 6
    assert len(calls) == 7


def test_a_value_that_fails_leaves_a_gap_with_its_message():
    def measured(n: int) -> pd.DataFrame:
        return pd.DataFrame({"x": [1.0 / (n - 1) if n < 5 else np.nan]})

    explorer = explore_x(measured, {"n": range(6)}, title=lambda table: f"{table['x'][0]:g}")
    assert [row["n"] for row in explorer.static_spec()["data"]["values"]] == [0, 2, 3, 4]
    assert [one["n"] for one in meta(explorer)["titles"]] == [0, 2, 3, 4]
    failed, hole = meta(explorer)["gaps"]
    said = "ZeroDivisionError: float division by zero (measured by measured at n=1)"
    assert failed == {"n": 1, "message": f"Nothing was measured here. {said}"}
    assert hole["n"] == 5
    assert "1 of 1 values in column 'x'" in hole["message"]
    with pytest.raises(ZeroDivisionError):
        explorer.grid()


def test_an_error_of_the_drawing_comes_before_the_grid():
    calls: list[int] = []
    untyped = explore_x(
        counted(calls), {"n": range(9)}, lambda data: alt.Chart(data).mark_point().encode(x="x")
    )
    with pytest.raises(ValueError, match="leaves out a type"):
        untyped.static_spec()
    assert calls == [4]


def test_more_values_than_a_page_can_hold_are_live_and_refused_for_the_page():
    explorer = explore_x(counted([]), {"n": range(5_000)})
    ends = {"min": 0, "max": 4_999, "step": 1}
    assert explorer.spec["params"][0]["bind"] == {"input": "range", **ends, "name": "n"}
    with pytest.raises(ValueError, match=r"5,000 = 5,000 combinations, more than 2,000: .* live_step="):
        explorer.static_spec()
