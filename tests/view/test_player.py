"""Players: the recording as stored, refusals that name frame and column, a run asked for frame by frame."""

import json

import altair as alt
import numpy as np
import pandas as pd
import pytest
import traitlets
import vl_convert

from embviz.view import explorers, player
from embviz.view.explorers import Choice, Range
from embviz.view.player import BACKGROUND, HISTORY, MEASURED, NOTE, LiveRun, Number, Numbers, Player
from tests.made_player import EVERY, SYMBOLS, frame_of, make_player, recording, train
from tests.view.asking import replies


def points(**columns) -> pd.DataFrame:
    return pd.DataFrame({"frame": [0, 0, 10, 10, 40, 40], "x": [0.0, 1, 2, 3, 4, 5]} | columns)


def draw_x(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[0, 9]))


def small(frames: pd.DataFrame | None = None, draw=draw_x, **changes) -> Player:
    frames = points() if frames is None else frames
    return Player(frames, draw, **{"title": "It moves", "caption": "Made.", **changes})


def drawing(spec: dict, **values) -> str:
    """The SVG of a specification with some parameters where they would be moved to."""
    spec = json.loads(json.dumps(spec))
    for param in spec["params"]:
        param["value"] = values.get(param["name"], param["value"])
    return vl_convert.vegalite_to_svg(spec, vl_version="6.4")


def n_marks(mark: str, spec: dict, **values) -> int:
    return drawing(spec, **values).count(f'aria-roledescription="{mark}"')


def rows(made: Player) -> list[dict]:
    return made.static_spec()["datasets"][MEASURED]


# --- the recording in the page --------------------------------------------------------------------------


def test_each_frame_draws_what_its_rows_alone_would_draw_until_the_next_one():
    spec = small().static_spec()
    shown = {step: drawing(spec, frame=step) for step in (0, 10, 39, 40)}
    for step in (0, 10, 40):
        alone = small(points()[lambda table, step=step: table["frame"] == step]).static_spec()
        assert shown[step] == drawing(alone)
    assert shown[39] == shown[10]
    assert len(set(shown.values())) == 3


def test_the_rows_are_what_a_slow_loop_packs_and_columns_that_never_change_are_stored_once():
    made, frames, expected = make_player(4), recording(4), []
    for tied in (False, True):
        for step in (0, 20, 40, 60):
            chosen = frames[(frames["tied"] == tied) & (frames["frame"] == step)]
            row = {"tied": tied, "frame": step, "next_frame": step + (1 if step == 60 else 20)}
            row |= {name: float(f"{chosen[name].iloc[0]:.4g}") for name in ("loss", "accuracy")}
            row |= {axis: [float(f"{value:.4g}") for value in chosen[axis]] for axis in "xy"}
            expected.append(row)
    for row, other in zip(rows(made), expected, strict=True):
        # beyond the kept digits only the sign of a zero could differ
        assert {**row, "x": 0, "y": 0} == {**other, "x": 0, "y": 0}
        np.testing.assert_allclose([row["x"], row["y"]], [other["x"], other["y"]], atol=1e-9)
    fixed = next(param["value"] for param in made.static_spec()["params"] if param["name"] == "fixed")
    assert set(fixed) == {"symbol", "pair"}
    assert all(f">{symbol}</text>" in drawing(made.static_spec()) for symbol in SYMBOLS)


def test_the_history_has_one_row_a_frame_of_the_chosen_recording_and_knows_the_frame_shown():
    def curve(data: alt.NamedData) -> alt.Chart:
        return alt.Chart(HISTORY).mark_point().encode(x="frame:Q", y="loss:Q")

    def up_to_now(data: alt.NamedData) -> alt.Chart:
        return curve(data).transform_filter("datum.frame <= frame")

    spec = make_player(4, draw=curve).static_spec()
    assert [n_marks("point", spec, tied=tied) for tied in (False, True)] == [4, 4]
    spec = small(points(loss=[3.0, 3, 2, 2, 1, 1]), up_to_now, curves=["loss"]).static_spec()
    assert [n_marks("point", spec, frame=step) for step in (0, 10, 40)] == [1, 2, 3]


def test_a_loss_that_falls_by_twelve_orders_stays_a_number():
    fallen = pd.DataFrame({"loss": [5.0, 1e-3, 1e-12]})
    spec = small(
        points(loss=fallen["loss"].repeat(2).tolist()), curves=["loss"], background=fallen
    ).static_spec()
    assert [row["loss"] for row in spec["datasets"][MEASURED]] == [5.0, 1e-3, 1e-12]
    assert spec["datasets"]["background"] == [{"loss": [5.0, 1e-3, 1e-12]}]


def test_the_background_is_stored_once_drawn_in_every_frame_and_follows_the_controls_that_it_has():
    def ticks(data: alt.NamedData) -> alt.LayerChart:
        return draw_x(data) + alt.Chart(BACKGROUND).mark_tick().encode(x="x:Q")

    spec = small(draw=ticks, background=pd.DataFrame({"x": [0.5, 1.5, 2.5]})).static_spec()
    assert spec["datasets"]["background"] == [{"x": [0.5, 1.5, 2.5]}]
    assert [n_marks("tick", spec, frame=step) for step in (0, 40)] == [3, 3]
    table = pd.DataFrame({"tied": [True, False, False], "x": [1.0, 2.0, 3.0]})
    spec = make_player(3, draw=ticks, background=table).static_spec()
    assert [n_marks("tick", spec, tied=tied) for tied in (True, False)] == [1, 2]


def test_rows_are_filtered_once_for_all_panels():
    compiled = vl_convert.vegalite_to_vega(make_player(4).static_spec(), vl_version="6.4")
    flattened = [data for data in compiled["data"] if "flatten" in json.dumps(data.get("transform", []))]
    assert [data["name"] for data in compiled["data"]].count(MEASURED) == len(flattened) == 1


def test_a_title_follows_the_controls_by_name_or_by_function():
    frames = pd.concat([points(seed=seed) for seed in (0, 1)])
    made = small(frames, controls={"seed": Choice([1, 0], "seed")}, title="Seed {seed} moves")
    titles = [{"seed": 1, "title": "Seed 1 moves"}, {"seed": 0, "title": "Seed 0 moves"}]
    assert repr(made) == "<player: Seed 1 moves>"
    assert made.static_spec()["usermeta"]["embviz"]["titles"] == titles
    same = small(frames, controls={"seed": Choice([1, 0], "seed")}, title=lambda seed: f"Seed {seed} moves")
    assert same.static_spec() == made.static_spec()
    assert "titles" not in small().static_spec()["usermeta"]["embviz"]


# --- refusals -------------------------------------------------------------------------------------------


def last_frame(*steps) -> Player:
    return small(points(frame=pd.Series([0, 0, 10, 10, *steps], dtype=object)))


def wide_live(**changes) -> Player:
    """A player whose live runs have controls of their own: a number and a set of numbers."""
    frames = pd.concat([points(kept="1 2").assign(run="low"), points(kept="7").assign(run="high")])
    own = {"by": Number(0, 99, "by", initial=3), "modes": Numbers("modes", "5", click="x", recorded="kept")}
    arguments = {"controls": {"run": Choice(["low", "high"], "run")}, "live_controls": own, "live": shifted}
    return small(frames, curves=["kept"], **{**arguments, **changes})


def shifted(by: int, modes: str):
    """Frames of points moved by `by`, with a note in the second and the set of numbers in `kept`."""
    for step in (0, 10):
        frame = pd.DataFrame({"frame": step, "x": [by + step, by], "kept": modes})
        if step:
            frame.attrs[NOTE] = "half of it"
        yield frame


NUMBER = Number(0, 9, "n", initial=0)
P, MODES = Number(2, 199, "p", initial=97), Numbers("modes")
TYPED = {"48 30": "30 48", "{1, 14, 41}": "1 14 41", "5;5,5": "5", "": "", " , ": "", 7: "7"}
MANY = pd.DataFrame({"frame": range(4_001), "x": 0.0})


def untyped(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x="x")


def background_alone(data: alt.NamedData) -> alt.Chart:
    return alt.Chart(BACKGROUND).mark_point().encode(x="x:Q")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small(pd.DataFrame({"x": [1.0]})), "has no column 'frame'"),
        (lambda: small(points().head(0)), "has no frames"),
        (
            lambda: small(points(frame=[0, 0, 40, 40, 10, 10])),
            "frames must increase: 10 comes after 40; sort the rows by 'frame'",
        ),
        (
            lambda: make_player(frames=pd.concat([recording(3)[:21], recording(3)[21:][::-1]])),
            r"20 comes after 40 at \{'tied': True\}",
        ),
        (lambda: last_frame(10.5, 10.5), "whole number of a step, not 10.5"),
        (lambda: last_frame(np.nan, np.nan), "whole number of a step, not nan"),
        (lambda: last_frame("one", "one"), "whole number of a step, not 'one'"),
        (lambda: last_frame(True, True), "whole number of a step, not True"),
        (lambda: small(points(x=[0, 1, 2, np.nan, 4, 5])), "'x' of the frames .frame 10 first. are missing"),
        (lambda: small(points(x=[0, 1, 2, np.inf, 4, 5])), "'x' of the frames .frame 10 first. are missing"),
        (
            lambda: small(background=pd.DataFrame({"y": [1.0, None]})),
            "column 'y' of the background are missing or infinite",
        ),
        (
            lambda: make_player(frames=recording(3)[: -len(SYMBOLS)]),
            "frame 40 is in one recording and not in another",
        ),
        (lambda: make_player(frames=recording(3)[:21]), r"the recording has no row for \{'tied': True\}"),
        (lambda: make_player(frames=recording(3).drop(columns="tied")), "the recording has no column tied"),
        (lambda: small(MANY), "4,001 frames, more than 2,000: thin the recording, to one of 3 frames"),
        (lambda: small(initial=20), "frame 20, to be shown at first, is none of the 3 frames from 0 to 40"),
        (lambda: small(title="{run}"), "the title follows 'run', which is none"),
        (lambda: small(curves=["x"]), "the curve 'x' has 2 values in frame 0"),
        (lambda: small(curves=["loss"]), r"the curve 'loss' is no column of the frames: \['frame', 'x'\]"),
        (lambda: small(points(next_frame=0)), "can't be called 'next_frame'"),
        (lambda: small(draw=untyped), 'leaves out a type.*write such as "x:Q"'),
        (lambda: small(draw=background_alone), "given no `background` table"),
        (lambda: small(controls={"frame": Range(0, 1, 1, "a")}), "can't be called"),
        (lambda: small(points(fixed=0), controls={"fixed": Range(0, 1, 1, "a")}), "can't be called"),
        (lambda: small(points(width=0), controls={"width": Range(0, 1, 1, "a")}), "can't be called"),
        (lambda: wide_live(live_controls={"run": NUMBER}), "'run' is a control and a live control"),
        (lambda: wide_live(live=None), "live controls need a `live` function"),
        (lambda: wide_live(live_controls={"note": NUMBER}), "a control can't be called 'note'"),
        (lambda: Number(2, 199, "p", initial=1), "starts at 1, outside 2 to 199"),
    ],
)
def test_a_recording_or_a_drawing_that_is_none_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make().static_spec()


def test_a_heavy_player_is_refused(monkeypatch):
    monkeypatch.setattr(explorers, "TWIN_LIMIT", 1_000)
    with pytest.raises(ValueError, match=r"would put \d,\d+ bytes into the page, more than 1,000: thin"):
        small().static_spec()


# --- live: a fake page asks, a made run answers ---------------------------------------------------------


class Page:
    """Stands for the page: asks for frames and keeps them."""

    def __init__(self, made: Player, reader: str = "r1", **values) -> None:
        self.made, self.reader, self.run, self.frames, self.values = made, reader, 1, [], values

    def ask(self) -> dict:
        question = {"kind": "frame", "reader": self.reader, "run": self.run, "values": self.values}
        [reply] = replies(self.made, {**question, "seen": len(self.frames)})
        assert (reply["reader"], reply["run"]) == (self.reader, self.run)
        if "row" in reply:
            self.frames.append(reply["row"])
        return reply

    def restart(self, **values) -> None:
        self.run, self.frames, self.values = self.run + 1, [], self.values | values


def one(step: int, **columns) -> pd.DataFrame:
    return pd.DataFrame({"frame": [step, step], "x": [0.1, 0.2], **columns})


def test_live_frames_are_the_recordings_rows():
    page = Page(make_player(5, live=train), tied=True)
    while "row" in page.ask():
        pass
    recorded = [row for row in rows(make_player(5)) if row["tied"]]
    assert len(page.frames) == 5
    for row, kept in zip(page.frames, recorded, strict=True):
        assert row["symbol"] == SYMBOLS
        assert {name: row[name] for name in kept} == {**kept, "next_frame": row["frame"] + 1}


def test_beginning_anew_ends_the_earlier_run_and_hands_over_the_controls():
    closed: list[bool] = []

    def run(tied: bool):
        try:
            yield frame_of(0, tied)
            yield frame_of(1, tied)
        finally:
            closed.append(tied)

    runs = {tied: run(tied) for tied in (True, False)}  # held here, or Python would close what is dropped
    page = Page(make_player(3, live=lambda tied: runs[tied]), tied=True)
    page.ask()
    page.restart(tied=False)
    assert page.ask()["row"]["tied"] is False
    assert closed == [True]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError("a <b>3 GB</b> matrix"), "MemoryError: a <b>3 GB</b> matrix"),
        (KeyboardInterrupt(), "The kernel was interrupted: move a control, or start again."),
        (SystemExit("done"), "SystemExit: done"),
    ],
)
def test_what_a_run_raises_is_told_and_a_new_one_can_begin(error, told):
    def run():
        yield one(0)
        raise error

    page = Page(small(live=run))
    assert "row" in page.ask()
    assert page.ask()["error"] == told
    page.restart()
    assert page.ask()["row"]["frame"] == 0


def test_another_view_takes_the_run_over_and_the_first_is_told():
    made = small(live=lambda: iter([one(0), one(1), one(2)]))
    first, second = Page(made, "r1"), Page(made, "r2")
    first.ask()
    assert second.ask()["row"]["frame"] == 0
    assert "another view of the player began its own" in first.ask()["error"]
    assert second.ask()["row"]["frame"] == 1
    first.restart()
    assert first.ask()["row"]["frame"] == 0


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([one(5), one(5)], "frames must increase: live frame 5 comes after 5"),
        ([one(5), one(4)], "frames must increase: live frame 4 comes after 5"),
        ([one(0, x=[0.1, np.nan])], "column 'x' of the frames (frame 0 first) are missing or infinite"),
        ([one(0).drop(columns="x")], "live frame number 1 has no column 'x'"),
        ([one(0), one(0).head(0)], "live frame number 2 has no row"),
        ([points()], "a live frame has the steps [0, 10, 40]: yield one frame at a time"),
        ([pd.DataFrame({"frame": [0.5], "x": [1.0]})], "whole number of a step, not"),
        ([one(0, loss=[1.0, 2.0])], "the curve 'loss' has 2 values in frame 0"),
    ],
)
def test_a_live_frame_that_is_none_is_refused(frames, message):
    curves = [name for name in frames[0] if name == "loss"]
    page = Page(small(points(loss=0.0) if curves else None, curves=curves, live=lambda: frames))
    for _ in frames[1:]:
        page.ask()
    assert message in page.ask()["error"]


def test_a_live_run_without_end_is_stopped_at_the_limit(monkeypatch):
    monkeypatch.setattr(player, "FRAME_LIMIT", 2)
    run = LiveRun(small(points()[:4]), (one(step) for step in range(9)), {})
    assert [run.next_row()["frame"] for _ in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="2 frames are the most that a player stores: yield fewer"):
        run.next_row()


def test_a_recording_alone_computes_nothing():
    with pytest.raises(ValueError, match="has a recording alone"):
        small().begin({})
    assert small().computes is False
    assert small(live=lambda: []).computes is True


@pytest.mark.parametrize(
    ("question", "error"),
    [
        *[(part, "ValueError: the page sent no value") for part in ({}, {"values": None}, {"values": [1]})],
        ({"values": "n", "run": []}, "ValueError: the page sent no value"),
        ({"values": {"tied": "yes"}}, "'yes' is neither true nor false"),
    ],
)
def test_a_question_of_no_sense_is_answered_with_a_sentence(question, error):
    [reply] = replies(make_player(3, live=train), {"kind": "frame", **question})
    assert error in reply["error"]


def test_a_live_run_may_have_controls_of_its_own_and_its_rows_say_that_they_were_computed():
    run = wide_live().begin({"by": "40", "modes": "9,7 7"})
    first, second = run.next_row(), run.next_row()
    assert first == {"computed": True, "frame": 0, "next_frame": 1, "kept": "7 9", "x": [40, 40]}
    assert second["x"] == [50, 40]
    assert second["note"] == "half of it"
    with pytest.raises(ValueError, match="the page sent no value for by, modes"):
        wide_live().begin({"run": "low"})


def test_without_a_kernel_live_controls_are_empty_and_the_recording_is_drawn_as_without_them():
    spec = wide_live().static_spec()
    params = {param["name"]: param for param in spec["params"]}
    assert [params[name]["value"] for name in ("by", "modes")] == ["", ""]
    asked = spec["usermeta"]["embviz"]["player"]
    assert [(param["name"], param["value"]) for param in asked["asks"]] == [("by", 3), ("modes", "5")]
    assert asked["clicks"] == [{"control": "modes", "field": "x", "recorded": "kept"}]
    plain = wide_live(live_controls=None, live=None).static_spec()
    assert drawing(spec, run="high", frame=10) == drawing(plain, run="high", frame=10)


def test_a_computed_row_is_drawn_whatever_recording_is_chosen():
    made = wide_live()
    row, spec = made.begin({"by": 3, "modes": ""}).next_row(), made.static_spec()
    spec["datasets"][MEASURED] = [row]
    pictures = {drawing(spec, run=run, frame=0) for run in ("low", "high")}
    assert len(pictures) == 1
    spec["datasets"][MEASURED] = [{**row, "computed": False}]
    assert drawing(spec, run="low", frame=0) not in pictures


@pytest.mark.parametrize(
    ("control", "typed", "read"),
    [
        *[(P, typed, 113) for typed in ("113", 113, " 113 ", "+113")],
        *[(MODES, typed, read) for typed, read in TYPED.items()],
        *[(P, typed, None) for typed in ("", "9.5", True, "1e2", "٣", "200")],
        *[(MODES, typed, None) for typed in ("one", "1 -2", "1.5", "<b>")],
    ],
)
def test_a_typed_number_or_set_is_read_in_order_each_number_once_or_refused(control, typed, read):
    if read is not None:
        assert control.read(typed) == read
        return
    with pytest.raises(ValueError, match=r"p: .* is not a whole number|outside 2 to 199|write such as 30 35"):
        control.read(typed)


# --- the step -------------------------------------------------------------------------------------------


def test_the_step_can_be_read_set_and_observed():
    made = make_player(3, initial=EVERY)
    steps: list[int] = []
    made.observe(lambda change: steps.append(change.new), "step")
    assert made.static_spec()["params"][-1]["value"] == made.step == EVERY
    made.step = 2 * EVERY
    with pytest.raises(traitlets.TraitError, match="there is no frame 7 among the 3 frames from 0 to 40"):
        made.step = 7
    assert (made.step, steps) == (2 * EVERY, [2 * EVERY])


def test_a_step_that_was_computed_can_be_set():
    made = make_player(2, live=train)
    page = Page(made, tied=True)
    for _ in range(4):
        page.ask()
    made.step = 3 * EVERY
    page.restart()
    page.ask()
    with pytest.raises(traitlets.TraitError, match="and none that was computed"):
        made.step = 2 * EVERY
