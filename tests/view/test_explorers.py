"""Explorers: one declaration, whose two faces draw the same; refusals that say what to do."""

import doctest
import json
import warnings

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from threadpoolctl import threadpool_info

from embviz.view import explorers, theme
from embviz.view.explorers import Choice, Explorer, Range, Toggle, compact_row

WORDS = ["<script>alert(1)</script>", 'it\'s "quoted"', "🦉", "שלום", "two\nlines", "</script>", "__proto__"]


def measure(power: int, scale: float, upward: bool) -> pd.DataFrame:
    x = np.arange(4)
    return pd.DataFrame({"x": x, "y": (1 if upward else -1) * scale * x**power, "name": WORDS[:4]})


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


def make_explorer(**changes) -> Explorer:
    arguments = {
        "measure": measure,
        "controls": controls(),
        "draw": draw,
        "title": "Curves bend",
        "caption": "Made numbers.",
    } | changes
    return Explorer(arguments.pop("measure"), arguments.pop("controls"), arguments.pop("draw"), **arguments)


def one_column(**values) -> pd.DataFrame:
    return pd.DataFrame({"x": [1.0]})


def draw_x(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x="x:Q")


def drawing(spec: dict) -> str:
    """The SVG of a specification with its controls where they stand."""
    return vl_convert.vegalite_to_svg(spec, vl_version="6.4")


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(explorers).failed == 0


def test_the_static_twin_draws_what_the_live_face_draws_at_every_combination():
    explorer = make_explorer()
    static, live = explorer.static_spec(), explorer.live_spec()
    drawings = set()
    for power in (1, 3):
        for scale in (0.1, 0.3, 0.5):
            values = {"power": power, "scale": scale, "upward": scale != 0.3}
            for param in static["params"]:
                param["value"] = values[param["name"]]
            live["data"]["values"] = explorer.answer(values)
            assert drawing(static) == drawing(live)
            drawings.add(drawing(static))
    assert len(drawings) == 6


def test_the_grid_is_what_a_slow_loop_measures():
    frames = []
    for power in (1, 2, 3):
        for scale in (0.1, 0.3, 0.5):
            for upward in (False, True):
                frame = measure(power, scale, upward)
                frame.insert(0, "power", power)
                frame.insert(1, "scale", scale)
                frame.insert(2, "upward", upward)
                frames.append(frame)
    pd.testing.assert_frame_equal(make_explorer().grid(), pd.concat(frames, ignore_index=True))


def test_the_grid_is_the_same_from_two_workers():
    pd.testing.assert_frame_equal(make_explorer(n_jobs=2).grid(), make_explorer().grid())


def test_words_of_any_kind_pass_through_unchanged():
    spec = json.loads(json.dumps(make_explorer().static_spec()))
    assert spec["data"]["values"][0]["name"] == WORDS[:4]
    choice = Choice(WORDS, "word")
    assert choice.binding(live=False)["options"] == WORDS
    assert [choice.read(word) for word in WORDS] == WORDS


def test_a_bundle_holds_twin_widget_and_text():
    bundle = make_explorer()._repr_mimebundle_()
    assert set(bundle) == {theme.MIME, explorers.WIDGET, "text/plain"}
    assert bundle["text/plain"] == "<explorer: Curves bend>"
    assert bundle[theme.MIME]["usermeta"]["embviz"]["controls"] == ["power", "scale", "upward"]


def test_the_stored_twin_is_the_same_each_time():
    first, second = (json.dumps(make_explorer().static_spec()) for _ in range(2))
    assert first == second


def test_finer_steps_are_live_only():
    spec_of = {"static": make_explorer().static_spec(), "live": make_explorer().live_spec()}
    steps = {face: spec["params"][1]["bind"]["step"] for face, spec in spec_of.items()}
    assert steps == {"static": 0.2, "live": 0.1}


@pytest.mark.parametrize("combine", [alt.hconcat, alt.vconcat, alt.layer])
def test_charts_beside_each_other_all_show_the_chosen_rows(combine):
    def pair(data: alt.NamedData) -> alt.TopLevelMixin:
        return combine(draw_x(data), draw_x(data).mark_tick())

    explorer = make_explorer(measure=one_column, controls={"a": Toggle("a")}, draw=pair)
    spec = explorer.static_spec()
    assert json.dumps(spec).count(f'"name": "{explorers.MEASURED}"') == 1
    compiled = vl_convert.vegalite_to_vega(spec, vl_version="6.4")
    assert sum("flatten" in json.dumps(data.get("transform", [])) for data in compiled["data"]) == 1


def test_a_facet_shows_the_chosen_rows():
    def facets(data: alt.NamedData) -> alt.TopLevelMixin:
        return draw_x(data).facet("x:N")

    spec = make_explorer(measure=one_column, controls={"a": Toggle("a")}, draw=facets).static_spec()
    assert drawing(spec)


def test_a_drawing_keeps_its_own_transforms_after_ours():
    def doubled(data: alt.NamedData) -> alt.Chart:
        return draw_x(data).transform_calculate(twice="2 * datum.x")

    spec = make_explorer(measure=one_column, controls={"a": Toggle("a")}, draw=doubled).static_spec()
    assert [next(iter(step)) for step in spec["transform"]] == ["filter", "flatten", "calculate"]


def test_measuring_takes_one_thread_and_leaves_the_others_as_they_were():
    def threads(a: bool) -> pd.DataFrame:
        np.eye(2) @ np.eye(2)
        return pd.DataFrame({"x": [max(pool["num_threads"] for pool in threadpool_info())]})

    before = threads(True)["x"][0]
    explorer = make_explorer(measure=threads, controls={"a": Toggle("a")}, draw=draw_x)
    assert explorer.grid()["x"].tolist() == [1, 1]
    assert explorer.answer({"a": True})[0]["x"] == [1]
    assert threads(True)["x"][0] == before


# stored results in place of measuring


def test_stored_results_are_shown_though_their_floats_are_noisy():
    stored = pd.DataFrame({"share": [0.1 + 0.2, 0.2, 0.1, 0.7], "x": [3.0, 2.0, 1.0, 7.0]})
    explorer = make_explorer(
        measure=None, controls={"share": Range(0.1, 0.3, 0.1, "share")}, draw=draw_x, grid=stored
    )
    rows = explorer.static_spec()["data"]["values"]
    assert rows == [{"share": 0.1, "x": [1.0]}, {"share": 0.2, "x": [2.0]}, {"share": 0.3, "x": [3.0]}]
    assert explorers.WIDGET not in explorer._repr_mimebundle_()


def test_stored_results_with_a_hole_are_refused_by_naming_it():
    stored = pd.DataFrame({"share": [0.1, 0.3], "x": [1.0, 3.0]})
    with pytest.raises(ValueError, match=r"no row for \{'share': 0\.2\}"):
        make_explorer(controls={"share": Range(0.1, 0.3, 0.1, "share")}, draw=draw_x, grid=stored)


def test_stored_results_without_a_controls_column_are_refused():
    with pytest.raises(ValueError, match="no column share"):
        make_explorer(controls={"share": Toggle("share")}, draw=draw_x, grid=one_column())


# controls


def test_a_slider_has_no_noise_of_added_steps_and_keeps_whole_numbers_whole():
    assert Range(0, 1, 0.1, "x").values[3] == 0.3
    assert [type(value) for value in Range(1, 3, 1, "x").values] == [int, int, int]
    assert type(Range(1, 3, 1, "x").read(2.0)) is int
    assert Range(0, 10, 1, "x").initial == 5


@pytest.mark.parametrize(
    ("control", "sent", "message"),
    [
        (Range(0, 1, 0.5, "share"), 1.5, "share: 1.5 is outside 0 to 1"),
        (Range(0, 1, 0.5, "share"), float("nan"), "share: nan is outside"),
        (Range(0, 1, 0.5, "share"), "1", "share: '1' is not a number"),
        (Range(0, 1, 0.5, "share"), True, "share: True is not a number"),
        (Choice([1, 2], "window"), 3, "window: 3 is not among"),
        (Choice(["1"], "window"), 1, "window: 1 is not among"),
        (Toggle("holes"), 1, "holes: 1 is neither true nor false"),
    ],
)
def test_what_a_page_should_not_send_is_refused(control, sent, message):
    with pytest.raises(ValueError, match=message):
        control.read(sent)


def test_a_step_that_does_not_divide_the_range_is_refused():
    with pytest.raises(ValueError, match="the step must be positive and divide the range"):
        Range(0, 1, 0.3, "share")
    with pytest.raises(ValueError, match="the step must be positive"):
        Range(0, 1, 0, "share")


def test_a_start_off_the_grid_is_refused():
    with pytest.raises(ValueError, match=r"starts at 0\.3, which is not on its grid"):
        Range(0, 1, 0.25, "share", initial=0.3)
    with pytest.raises(ValueError, match="starts at 3, not among"):
        Choice([1, 2], "window", initial=3)


def test_a_choice_without_values_or_with_one_twice_is_refused():
    for values in ([], [1, 1]):
        with pytest.raises(ValueError, match="at least one value, each once"):
            Choice(values, "window")


def test_many_values_become_a_list():
    assert Choice(range(4), "n").binding(live=False)["input"] == "radio"
    assert Choice(range(5), "n", format=lambda n: f"no. {n}").binding(live=False) == {
        "input": "select",
        "options": [0, 1, 2, 3, 4],
        "labels": ["no. 0", "no. 1", "no. 2", "no. 3", "no. 4"],
        "name": "n",
    }


# refusals of the whole


@pytest.mark.parametrize("name", ["width", "datum", "two words", "2d", "measured", "PI", "x;alert(1)"])
def test_names_that_vega_keeps_for_itself_are_refused(name):
    with pytest.raises(ValueError, match="can't be called"):
        make_explorer(controls={name: Toggle("a")})


def test_an_explorer_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a measuring function, or a grid"):
        make_explorer(measure=None)


def test_a_grid_too_large_to_measure_is_refused_with_its_number():
    many = {name: Range(0, 20, 1, name) for name in "abc"}
    with pytest.raises(ValueError, match=r"21 x 21 x 21 = 9,261 combinations, more than 2,000.*live_step"):
        make_explorer(measure=one_column, controls=many, draw=draw_x).grid()


def big(a: bool) -> pd.DataFrame:
    return pd.DataFrame({"x": np.random.default_rng(0).standard_normal(90_000 if a else 60_000)})


def test_a_heavy_twin_warns_and_a_heavier_one_is_refused(monkeypatch):
    explorer = make_explorer(measure=big, controls={"a": Toggle("a")}, draw=draw_x)
    with pytest.warns(UserWarning, match=r"puts 1,\d+,\d+ bytes into the page: take fewer values"):
        explorer.static_spec()
    monkeypatch.setattr(explorers, "TWIN_LIMIT", 1_000_000)
    with pytest.raises(ValueError, match=r"would put 1,\d+,\d+ bytes into the page, more than 1,000,000"):
        explorer.static_spec()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, None])
def test_a_silent_gap_is_refused(wrong):
    explorer = make_explorer(
        measure=lambda a: pd.DataFrame({"x": [1.0, wrong]}), controls={"a": Toggle("a")}, draw=draw_x
    )
    with pytest.raises(ValueError, match=r"1 of 2 values in column 'x' measured at .* missing or infinite"):
        explorer.grid()


def test_other_columns_at_another_combination_are_refused():
    explorer = make_explorer(
        measure=lambda a: pd.DataFrame({"x" if a else "y": [1.0]}), controls={"a": Toggle("a")}, draw=draw_x
    )
    with pytest.raises(ValueError, match=r"measured \['x'\] at \{'a': True\}, but \['y'\] at first"):
        explorer.grid()


def test_a_measured_column_named_as_a_control_is_refused():
    explorer = make_explorer(measure=one_column, controls={"x": Toggle("x")}, draw=draw_x)
    with pytest.raises(ValueError, match="column 'x', the name of a control"):
        explorer.grid()


# rounding


def test_noise_of_a_sum_is_written_as_zero_but_small_numbers_stay():
    row = compact_row(pd.DataFrame({"x": [1.0, -4e-16, 1e-6], "tiny": [1e-20, 2e-20, 0.0]}), digits=3)
    assert row == {"x": [1.0, 0.0, 1e-06], "tiny": [1e-20, 2e-20, 0.0]}


def test_rows_are_plain_json_values():
    frame = pd.DataFrame(
        {"n": np.array([1, 2], dtype=np.uint16), "b": [True, False], "f": np.float32([1, 2])}
    )
    assert json.loads(json.dumps(compact_row(frame, digits=4))) == {
        "n": [1, 2],
        "b": [True, False],
        "f": [1.0, 2.0],
    }


# the live face


class Page:
    """Stands for the page: hears what the widget sends."""

    def __init__(self, explorer: Explorer) -> None:
        self.heard: list[dict] = []
        self.widget = explorer.widget
        self.widget.send = self.heard.append

    def say(self, **message) -> dict:
        self.widget._hear(self.widget, message, [])
        return self.heard[-1]


def test_a_moved_control_is_answered_with_rows():
    page = Page(make_explorer())
    reply = page.say(kind="measure", request="r1", values={"power": 2, "scale": 0.4, "upward": True})
    assert reply["request"] == "r1"
    assert reply["rows"] == [
        {
            "power": 2,
            "scale": 0.4,
            "upward": True,
            "x": [0, 1, 2, 3],
            "y": [0.0, 0.4, 1.6, 3.6],
            "name": WORDS[:4],
        }
    ]


def test_an_error_of_the_measurement_is_told_to_the_page():
    def fail(a: bool) -> pd.DataFrame:
        if a:
            raise MemoryError("a 3 GB matrix: choose fewer words")
        return one_column()

    page = Page(make_explorer(measure=fail, controls={"a": Toggle("a")}, draw=draw_x))
    reply = page.say(kind="measure", request=1, values={"a": True})
    assert reply["error"] == "MemoryError: a 3 GB matrix: choose fewer words"
    assert "rows" not in reply
    assert "no value for a" in page.say(kind="measure", request=2, values={})["error"]
    assert "rows" in page.say(kind="measure", request=3, values={"a": False})


def test_the_live_face_brings_vega_along_and_names_no_host():
    source = make_explorer().widget.runtime.decode()
    assert "embvizVegaEmbed" in source
    assert "esm.sh" not in source
    assert "jsdelivr" not in source


def test_showing_an_explorer_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_explorer()._repr_mimebundle_()


def test_a_choice_of_one_is_fixed_and_has_no_control():
    grid = pd.DataFrame({"run": ["only"] * 4, "k": [1, 1, 2, 2], "x": [0, 1, 0, 1], "y": [0, 1, 1, 0]})
    explorer = Explorer(
        None,
        {"run": Choice(["only"], "run"), "k": Choice([1, 2], "k")},
        lambda data: alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q"),
        title="t",
        caption="c",
        grid=grid,
    )
    run, k = explorer.static_spec()["params"][:2]
    assert run == {"name": "run", "value": "only"}
    assert k["bind"]["options"] == [1, 2]
