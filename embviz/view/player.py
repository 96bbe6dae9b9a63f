"""Players: a run as a moving picture, recorded or computed while the reader watches.

A :class:`Player` names the frames of a run and a drawing function. The static book plays the recording;
with a kernel the page may also ask a generator for one frame after another, and keeps what it has seen.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import traitlets
from threadpoolctl import threadpool_limits

from embviz.view import explorers
from embviz.view.explorers import Control, Value, error_message, read_message
from embviz.view.main_thread import answer_between_cells
from embviz.view.named_tables import (
    MEASURED,
    Draw,
    Feed,
    compact_row,
    connect,
    make_spec,
    refuse_holes,
    without_repeats,
)
from embviz.view.pages import portable, script, style

FRAME = "frame"  # the column of step numbers, and the Vega parameter with the step shown
NEXT = "next_frame"  # the step at which a row's successor takes over
FIXED = "fixed"  # the Vega parameter with the columns that are the same in every frame
COMPUTED = "computed"  # in the rows of a live run that has controls of its own
NOTE = "note"  # in a live frame's `attrs`: words that the page shows below the chart from then on
TYPING = 600  # milliseconds without a key after which a typed value counts
FRAME_LIMIT = 2_000  # a slider has no more places than that on a wide screen

# What a drawing function may draw beside the frame it's given.
HISTORY = alt.NamedData(name="history")
BACKGROUND = alt.NamedData(name="background")

Live = Callable[..., Iterable[pd.DataFrame]]


@dataclass(frozen=True)
class Number(Control):
    """A whole number that is typed; for live runs, which have no grid.

    Parameters
    ----------
    start, stop : int
        Least and largest value, both included.
    label : str
        Words before the field, with the unit if there is one.
    initial : int
        There at first.
    """

    start: int
    stop: int
    label: str
    initial: int

    def __post_init__(self) -> None:
        if not self.start <= self.initial <= self.stop:
            raise ValueError(
                f"the number {self.label!r} starts at {self.initial}, outside {self.start} to {self.stop}"
            )

    def _element(self, *, live: bool) -> dict[str, Any]:
        ends = {"min": self.start, "max": self.stop, "step": 1}
        return {"input": "number", **ends, "debounce": TYPING}

    def read(self, sent: object) -> Value:
        text = str(sent).strip()
        if isinstance(sent, bool) or not re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII):
            raise ValueError(f"{self.label}: {text or 'nothing'} is not a whole number")
        if not self.start <= int(text) <= self.stop:
            raise ValueError(f"{self.label}: {int(text)} is outside {self.start} to {self.stop}")
        return int(text)


@dataclass(frozen=True)
class Numbers(Control):
    """A set of whole numbers, typed or picked by clicks on a player's chart; for live runs.

    The page, and the function that computes, have it as text: numbers in order with blanks between them.

    Parameters
    ----------
    label : str
        Words before the field.
    initial : str
        There at first; may be empty.
    click : str, optional
        A click on a mark whose data have this field puts its number into the set, or takes it out.
    recorded : str, optional
        The curve of a player's recordings that holds such a set as text: where nothing is computed, a click
        shows the first recording with the number in it.
    """

    label: str
    initial: str = ""
    click: str = ""
    recorded: str = ""

    def __post_init__(self) -> None:
        self.read(self.initial)

    def _element(self, *, live: bool) -> dict[str, Any]:
        return {"input": "text", "debounce": TYPING}

    def read(self, sent: object) -> Value:
        words = re.split(r"[\s,;]+", str(sent).strip(" \t,;{}"))
        wrong = [word for word in words if word and not re.fullmatch(r"\d{1,9}", word, re.ASCII)]
        if wrong:
            raise ValueError(
                f"{self.label}: {wrong[0]!r} is not a whole number; write such as 30 35 40 45 48, or nothing"
            )
        return " ".join(map(str, sorted({int(word) for word in words if word})))


class Player(explorers.Controlled):
    """A run played frame by frame: play, pause, step, scrub; from a recording, or live with a kernel.

    Parameters
    ----------
    frames : DataFrame
        The recording, tidy: one or more rows a frame, a whole number `frame` (the step), and a column for
        each control. Frames increase, at most 2,000 of them, the same for every combination of controls;
        nothing NaN or infinite.
    draw : function
        Takes the data of one frame (give each encoding its type: ``"x:Q"``) and returns a chart of any
        kind. It may draw three things more: :data:`HISTORY`, one row a frame with `frame` and the
        `curves`; :data:`BACKGROUND`, the table below; and expressions may use ``frame``, the step shown,
        as in ``"datum.frame <= frame"``. Fix the scales' domains, or the axes jump. The panels of an
        ``alt.hconcat`` with widths in pixels (290 each fits the book) stand below each other where the page
        is narrow, and so do those of each row of an ``alt.vconcat``. A row may hold columns, an
        ``alt.vconcat`` each. Make the colours and shapes of panels independent with ``resolve_scale``, or
        legends mix.
    title : str or function of the controls' names, optional
        What is seen, in one sentence. A control's name in braces, as in ``"Seed {seed}"``, follows the
        control; a function makes the sentence from the controls' values. Frames that are computed have a
        neutral title then.
    caption : str, optional
        Data, seeds and interval.
    step_label : str, default ``"step"``
        What a frame's number counts.
    initial : int, optional
        The frame shown at first, such as the last, which shows the finding; by default the first.
    live : function of the controls' names, optional
        Returns an iterator of frames with the recording's columns (but for the controls'), such as a
        generator that trains; the page asks for each. What a frame's ``attrs["note"]`` says is shown below
        the chart.
    controls : mapping of name to Choice, Range or Toggle, optional
        Choose among recordings, and are handed to `live`.
    live_controls : mapping of name to a control, optional
        Handed to `live` instead of `controls`, and shown instead of them where frames are computed: what can
        be computed may be more than what can be recorded. Expressions of the drawing may use them; without
        a kernel they are empty texts.
    curves : sequence of str, optional
        Columns with one value a frame, such as a loss.
    background : DataFrame, optional
        What is the same in every frame, stored once; with columns for all controls, or for none.
    digits : int, default 4
        Significant digits kept in the page.

    Attributes
    ----------
    step : int
        The frame that is shown. Setting it turns to another one, and a frame that does not exist raises
        ``traitlets.TraitError``. ``player.observe(function, "step")`` calls a function at every frame.

    Examples
    --------
    >>> import altair as alt, pandas as pd
    >>> player = Player(
    ...     pd.DataFrame({"frame": [0, 10], "x": [0.0, 1.0]}),
    ...     lambda data: alt.Chart(data).mark_point().encode(x=alt.X("x:Q").scale(domain=[0, 1])),
    ...     title="A point moves",
    ...     caption="One made point.",
    ... )
    >>> player
    <player: A point moves>
    >>> player.steps
    [0, 10]
    >>> player.step = 10
    """

    _esm = script("explorer.js") + script("player.js") + "\nexport default { render: renderPlayer };\n"
    _css = style("explorer.css", "player.css")
    kind = "player"
    computes = traitlets.Bool(help="whether a kernel can compute frames").tag(sync=True)
    step = traitlets.Int(help="the frame that is shown").tag(sync=True)

    def __init__(
        self,
        frames: pd.DataFrame,
        draw: Draw,
        *,
        title: str | Callable[..., str] = "",
        caption: str = "",
        step_label: str = "step",
        initial: int | None = None,
        live: Live | None = None,
        controls: Mapping[str, Control] | None = None,
        live_controls: Mapping[str, Control] | None = None,
        curves: Sequence[str] = (),
        background: pd.DataFrame | None = None,
        digits: int = 4,
    ) -> None:
        self.controls, self.live_controls = dict(controls or {}), dict(live_controls or {})
        self.draw, self.live = draw, live
        self._check_controls()
        self.title, self.caption, self.step_label = title, caption, step_label
        self.curves, self.digits = list(curves), digits
        self._frames = self._checked_recording(frames)
        self.columns = [name for name in self._frames.columns if name not in self.controls]
        self._lists = [name for name in self.columns if name not in (FRAME, *self.curves)]
        self.steps: list[int] = sorted({int(step) for step in self._frames[FRAME]})
        self.initial = self.steps[0] if initial is None else initial
        if self.initial not in self.steps:
            raise ValueError(
                f"frame {initial}, to be shown at first, is none of the {len(self.steps)} frames from "
                f"{self.steps[0]} to {self.steps[-1]}"
            )
        self._background = background
        self._run: LiveRun | None = None
        self._whose: tuple[object, object] = (None, None)  # page and number of the run
        self._computed: list[int] = []  # its frames so far
        super().__init__()
        self.on_msg(self._hear)

    # --- the widget ---

    @traitlets.default("spec")
    def _first_spec(self) -> dict[str, Any]:
        return self.static_spec()

    @traitlets.default("computes")
    def _computes(self) -> bool:
        return self.live is not None

    @traitlets.default("step")
    def _first_step(self) -> int:
        return self.initial

    @traitlets.validate("step")
    def _known_step(self, proposal: Any) -> int:
        step: int = proposal["value"]
        if step not in self.steps and step not in self._computed:
            raise traitlets.TraitError(
                f"there is no frame {step} among the {len(self.steps)} frames from {self.steps[0]} to "
                f"{self.steps[-1]}, and none that was computed"
            )
        return step

    def _hear(self, _: object, message: object, buffers: object) -> None:
        kind, reader, run, seen, values = read_message(message, "reader", "run", "seen", "values")
        if kind != "frame":
            return
        reply = {"kind": "frame", "reader": reader, "run": run}

        def answer() -> None:
            try:
                self._turn_to((reader, run), bool(seen), values)
                reply.update(self._next())
            except BaseException as error:  # whatever the run raises is the reader's to see: the page waits
                reply["error"] = error_message(error)
            self.send(reply)

        answer_between_cells(answer)

    def _turn_to(self, whose: tuple[object, object], goes_on: bool, values: Any) -> None:
        """Begin the run that a page asks for, unless it's the one under way."""
        if self._run is not None and whose == self._whose:
            return
        if goes_on:
            raise ValueError("this run is no longer here: another view of the player began its own")
        old, self._run = self._run, None
        if old is not None:
            old.close()
        self._run, self._whose, self._computed = self.begin(values), whose, []

    def _next(self) -> dict[str, Any]:
        assert self._run is not None  # turned to
        row = None
        try:
            row = self._run.next_row()
        finally:
            if row is None:  # it ended, or failed
                self._run = None
        if row is None:
            return {"end": True}
        self._computed.append(row[FRAME])
        return {"row": row}

    @property
    def first_title(self) -> str:
        """The title at the controls' first values."""
        return self._title({name: control.read(control.initial) for name, control in self.controls.items()})

    def _title(self, values: Mapping[str, Any]) -> str:
        text = self.title(**values) if callable(self.title) else self.title
        return explorers.fill_title(text, values, self.controls)

    def static_spec(self) -> dict[str, Any]:
        """Vega-Lite specification of the recording: one row a frame, lists inside, and a slider over frames.

        It is refused beyond 4 MB of JSON, and warns beyond 1 MB.
        """
        return self._spec

    def begin(self, sent: Mapping[str, object]) -> LiveRun:
        """A live run at control values that the page sent, to be asked for its frames."""
        if self.live is None:
            raise ValueError(f"{self!r} has a recording alone: give it a `live` function to compute frames")
        values = explorers.read_values(self.live_controls or self.controls, sent)
        written: Mapping[str, Value] = {COMPUTED: True} if self.live_controls else values
        return LiveRun(self, iter(self.live(**values)), written)

    def packed(self, run: pd.DataFrame, values: Mapping[str, Value]) -> list[dict[str, Any]]:
        """A run's frames as rows, one each: the controls' values, the step, the curves, lists of all else."""
        steps = run[FRAME].to_numpy(dtype=np.int64)
        starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
        nexts = [*steps[starts[1:]].tolist(), int(steps[-1]) + 1]
        lists = compact_row(run[self._lists], digits=self.digits)
        # a loss may fall by twelve orders, so nothing small is taken for noise
        curves = compact_row(run[self.curves].iloc[starts], digits=self.digits, noise=0)
        rows = []
        for place, (start, until) in enumerate(zip(starts, [*starts[1:], len(steps)], strict=True)):
            row = {**values, FRAME: int(steps[start]), NEXT: nexts[place]}
            row |= {name: column[place] for name, column in curves.items()}
            rows.append(row | {name: column[start:until] for name, column in lists.items()})
        return rows

    def _check_controls(self) -> None:
        explorers.check_names([*self.controls, *self.live_controls])
        both = set(self.controls) & set(self.live_controls)
        if both:
            raise ValueError(f"{sorted(both)[0]!r} is a control and a live control: give one another name")
        taken = {FRAME, NEXT, FIXED, COMPUTED, NOTE} & {*self.controls, *self.live_controls}
        if taken:
            raise ValueError(f"a control can't be called {sorted(taken)[0]!r}: the player uses it")
        if self.live_controls and self.live is None:
            raise ValueError("live controls need a `live` function to compute frames")

    def _checked_recording(self, frames: pd.DataFrame) -> pd.DataFrame:
        if FRAME not in frames.columns:
            raise ValueError(f"the recording has no column {FRAME!r}: it needs the step number of every row")
        if len(frames) == 0:
            raise ValueError("the recording has no frames: record at least one")
        check_frame(frames, self.curves)
        frames = explorers.rows_at_controls(frames, self.controls, "the recording")
        first: list[int] | None = None
        for values, recording in _by_controls(frames, self.controls):
            steps = _increasing(recording[FRAME], values)
            first = steps if first is None else first
            if steps != first:
                step = min(set(steps) ^ set(first))
                raise ValueError(
                    f"frame {step} is in one recording and not in another ({values}): record all at the same "
                    "steps, so that a control changes the run and not the time"
                )
            for curve in self.curves:
                _one_value_a_frame(recording, curve)
        return frames

    @functools.cached_property
    def _spec(self) -> dict[str, Any]:
        words = {"finding": self.first_title, "caption": self.caption, "who": repr(self)}
        spec = make_spec(self.draw, [MEASURED], **words)
        rows, fixed = self._rows()
        # the columns stored once are put into each row that hasn't its own: live rows have
        keys = {name: json.dumps(name) for name in fixed}
        restored = [
            {"calculate": f"datum[{key}] || {FIXED}[{key}]", "as": name} for name, key in keys.items()
        ]
        datasets = {MEASURED: rows}
        here = explorers.is_chosen(self.controls)
        # the rows of the recording chosen, and those computed
        here = f"datum.{COMPUTED} === true || ({here})" if self.live_controls else here
        chosen = [{"filter": here}] if self.controls else []
        shown = {"filter": f"datum.{FRAME} <= {FRAME} && {FRAME} < datum.{NEXT}"}
        flat = [{"flatten": self._lists}] if self._lists else []
        feeds = {
            MEASURED: Feed(MEASURED, [*chosen, shown, *restored, *flat]),
            HISTORY.name: Feed(MEASURED, chosen),
        }
        if self._background is not None:
            datasets[BACKGROUND.name], feeds[BACKGROUND.name] = self._behind(self._background)
        if BACKGROUND.name in connect(spec, feeds) - set(feeds):
            raise ValueError("the drawing uses BACKGROUND, but the player was given no `background` table")
        spec["datasets"] = {**spec.get("datasets", {}), **datasets}
        # for viewers that aren't ours; every frame is a whole number of these steps from the first
        ends = {
            "min": self.steps[0],
            "max": self.steps[-1],
            "step": math.gcd(*np.diff(self.steps).tolist()) or 1,
        }
        slider = {"input": "range", **ends, "name": self.step_label}
        own = [
            {"name": FIXED, "value": fixed},
            {"name": FRAME, "value": self.initial, "bind": slider},
        ]
        bound = explorers.bound_params(self.controls, live=False)
        free = [{"name": name, "value": ""} for name in self.live_controls]
        spec["params"] = [*bound, *free, *own, *spec.get("params", [])]
        meta = spec["usermeta"]["embviz"]
        meta |= {"controls": list(self.controls), "player": {"label": self.step_label, **self._asking()}}
        if self._follows:
            titles = [{**own, "title": self._title(own)} for own in explorers.combinations(self.controls)]
            meta["titles"] = without_repeats(titles, list(self.controls))
        spec = portable(spec)
        explorers.check_page_size(
            spec, repr(self), "thin the frames (every second one), draw fewer points, or keep fewer digits"
        )
        return spec

    def _asking(self) -> dict[str, Any]:
        """For the page: the controls of live runs, and what a click on the chart means."""
        if not self.live_controls:
            return {}
        clicks = [
            {"control": name, "field": control.click, "recorded": control.recorded}
            for name, control in self.live_controls.items()
            if isinstance(control, Numbers) and control.click
        ]
        return {"asks": explorers.bound_params(self.live_controls, live=True), "clicks": clicks}

    def _rows(self) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
        """A row for each frame of each recording, and the columns that are the same in all of them."""
        rows: list[dict[str, Any]] = []
        for values, recording in _by_controls(self._frames, self.controls):
            rows += self.packed(recording, values)
        first = {name: rows[0][name] for name in self._lists}
        fixed = {name: kept for name, kept in first.items() if all(row[name] == kept for row in rows)}
        return [{name: kept for name, kept in row.items() if name not in fixed} for row in rows], fixed

    def _behind(self, table: pd.DataFrame) -> tuple[list[dict[str, Any]], Feed]:
        """The background's rows, one for all controls or one for each value, and what unfolds them."""
        refuse_holes(table, " of the background")
        own = [str(name) for name in table.columns if name not in self.controls]
        flat = {"flatten": own}
        if len(own) == len(table.columns):
            return [compact_row(table, digits=self.digits, noise=0)], Feed(BACKGROUND.name, [flat])
        table = explorers.rows_at_controls(table, self.controls, "the background")
        rows = [
            {**values, **compact_row(part[own], digits=self.digits, noise=0)}
            for values, part in _by_controls(table, self.controls)
        ]
        return rows, Feed(BACKGROUND.name, [{"filter": explorers.is_chosen(self.controls)}, flat])


class LiveRun:
    """One live run, asked for a frame at a time; what it yields is checked like a recording.

    `values` of the controls are written into each row.
    """

    def __init__(self, player: Player, frames: Iterator[pd.DataFrame], values: Mapping[str, Value]) -> None:
        self._player, self._frames, self._values = player, frames, values
        self.n_frames, self._last = 0, -math.inf

    def next_row(self) -> dict[str, Any] | None:
        """The next frame as a row, computed now; None at the run's end."""
        # as an explorer's measurements: small sums on two threads take many times one's time
        with threadpool_limits(limits=1):
            frame = next(self._frames, None)
        if frame is None:
            return None
        if self.n_frames == FRAME_LIMIT:
            raise ValueError(
                f"{FRAME_LIMIT:,} frames are the most that a player stores: yield fewer, such as every tenth"
            )
        step = self._checked(frame)
        self.n_frames, self._last = self.n_frames + 1, step
        (row,) = self._player.packed(frame, self._values)
        return {**row, NOTE: str(frame.attrs[NOTE])} if NOTE in frame.attrs else row

    def close(self) -> None:
        """Let a generator clean up behind itself."""
        if hasattr(self._frames, "close"):
            self._frames.close()

    def _checked(self, frame: pd.DataFrame) -> int:
        absent = [name for name in self._player.columns if name not in frame.columns]
        if absent or len(frame) == 0:
            what = f"no column {', '.join(map(repr, absent))}" if absent else "no row"
            raise ValueError(
                f"live frame number {self.n_frames + 1} has {what}: it needs what the recording has"
            )
        check_frame(frame, self._player.curves)
        steps = frame[FRAME].unique()
        if len(steps) > 1:
            raise ValueError(f"a live frame has the steps {list(map(int, steps))}: yield one frame at a time")
        for curve in self._player.curves:
            _one_value_a_frame(frame, curve)
        step = int(steps[0])
        if step <= self._last:
            raise ValueError(f"frames must increase: live frame {step} comes after {self._last}")
        return step


def check_frame(frames: pd.DataFrame, curves: Sequence[str] = ()) -> None:
    """Refuse rows that no player can show: steps that are no whole numbers, holes, names that are taken."""
    for step in frames[FRAME].unique():
        if isinstance(step, bool | np.bool_ | str) or not float(step).is_integer():
            raise ValueError(f"a frame is the whole number of a step, not {step!r}")
    if NEXT in frames.columns:
        raise ValueError(f"a column can't be called {NEXT!r}: the player uses that name")
    absent = [curve for curve in curves if curve not in frames.columns]
    if absent:
        raise ValueError(f"the curve {absent[0]!r} is no column of the frames: {list(frames.columns)}")
    refuse_holes(frames, " of the frames", by=FRAME)


def _increasing(column: pd.Series, values: Mapping[str, Any]) -> list[int]:
    """The steps of one recording in order, each once."""
    steps = column.to_numpy(dtype=np.int64)
    falls = np.flatnonzero(np.diff(steps) < 0)
    if len(falls):
        before, after = steps[falls[0]], steps[falls[0] + 1]
        at = f" at {dict(values)}" if values else ""
        raise ValueError(
            f"frames must increase: {after} comes after {before}{at}; sort the rows by {FRAME!r}"
        )
    unique: list[int] = np.unique(steps).tolist()
    if len(unique) > FRAME_LIMIT:
        raise ValueError(
            f"{len(unique):,} frames, more than {FRAME_LIMIT:,}: thin the recording, to one of "
            f"{math.ceil(len(unique) / FRAME_LIMIT)} frames"
        )
    return unique


def _one_value_a_frame(frames: pd.DataFrame, curve: str) -> None:
    n_values = frames.groupby(FRAME, sort=False)[curve].nunique()
    if (n_values > 1).any():
        step = n_values.index[n_values > 1][0]
        raise ValueError(
            f"the curve {curve!r} has {n_values[step]} values in frame {step}, but a curve has one a frame"
        )


def _by_controls(
    table: pd.DataFrame, controls: Mapping[str, Control]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The table's parts, one for each combination of the controls' values, in the controls' order."""
    if not controls:
        yield {}, table
        return
    parts = {key: part for key, part in table.groupby(list(controls), sort=False)}
    for values in explorers.combinations(controls):
        yield values, parts[tuple(values.values())]
