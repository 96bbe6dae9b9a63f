"""Explorers: a chart with controls, declared once, alive in a notebook and in the static book.

An :class:`Explorer` names a measuring function, its controls and a drawing function. With a kernel, every
move of a control measures again; in the book the same declaration is a chart over a grid measured
beforehand, with the same controls drawn by the same code.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import altair as alt
import anywidget
import joblib
import numpy as np
import pandas as pd
import traitlets
import vl_convert
from threadpoolctl import threadpool_limits

from embviz.view import theme

WIDGET = "application/vnd.jupyter.widget-view+json"
MEASURED = "measured"  # the data set that a drawing function draws
GRID_LIMIT = 2_000  # combinations: more can't be told apart with sliders, nor measured while waiting
TYPING = 600  # milliseconds without a key after which a typed value counts
TWIN_WARNING, TWIN_LIMIT = 1_000_000, 4_000_000  # bytes of JSON in a page

# Names that Vega keeps for itself: a control so called would change the chart's size or not compile.
RESERVED = frozenset(
    [
        *("width", "height", "padding", "autosize", "background", "cursor"),  # signals
        *("datum", "event", "item", "parent", "data", "unit", "measured"),
        *("true", "false", "null", "undefined", "this", "if"),
        *("NaN", "E", "LN2", "LN10", "LOG2E", "LOG10E", "PI", "SQRT1_2", "SQRT2"),
    ]
)

Value = str | int | float | bool
Measure = Callable[..., pd.DataFrame]
Draw = Callable[[alt.NamedData], alt.TopLevelMixin]


class Control(Protocol):
    """What an explorer asks of a control; `name` is the control's key among the controls."""

    @property
    def label(self) -> str: ...
    @property
    def values(self) -> Sequence[Any]: ...
    @property
    def initial(self) -> Any: ...
    def binding(self, *, live: bool) -> dict[str, Any]: ...
    def matches(self, name: str) -> str: ...
    def read(self, sent: object) -> Value: ...


@dataclass(frozen=True)
class Choice:
    """One of several values: radio buttons up to four of them, a list beyond.

    Parameters
    ----------
    values : sequence of str, int or float
        In the order shown.
    label : str
        Words before the control, with the unit if there is one.
    format : str or function, default ``"{}"``
        What a value is called: a format string, or a function from value to text.
    initial : one of `values`, optional
        Chosen at first; by default the first.
    """

    values: Sequence[Any]
    label: str
    format: str | Callable[[Any], str] = "{}"
    initial: Any = None

    def __post_init__(self) -> None:
        if len(self.values) == 0 or len(set(self.values)) != len(self.values):
            raise ValueError(
                f"the choice {self.label!r} needs at least one value, each once: {self.values!r}"
            )
        if self.initial is None:
            object.__setattr__(self, "initial", self.values[0])
        if self.initial not in self.values:
            raise ValueError(
                f"the choice {self.label!r} starts at {self.initial!r}, not among {self.values!r}"
            )

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        say = self.format.format if isinstance(self.format, str) else self.format
        kind = "radio" if len(self.values) <= 4 else "select"
        labels = [say(value) for value in self.values]
        return {"input": kind, "options": list(self.values), "labels": labels, "name": self.label}

    def matches(self, name: str) -> str:
        """Vega expression that is true for the grid's rows at the chosen value."""
        return f"datum.{name} === {name}"

    def read(self, sent: object) -> Value:
        """The value that the page sent, one of ours."""
        for value in self.values:
            if value == sent and isinstance(value, str) == isinstance(sent, str):
                chosen: Value = value
                return chosen
        raise ValueError(f"{self.label}: {sent!r} is not among {list(self.values)!r}")


@dataclass(frozen=True)
class Range:
    """A slider.

    Parameters
    ----------
    start, stop, step : int or float
        First value, last value (included) and distance between two, which must divide the range. With
        whole numbers the measuring function gets whole numbers.
    label : str
        Words before the control, with the unit if there is one.
    initial : int or float, optional
        Chosen at first; by default the middle of the grid.
    live_step : int or float, optional
        A finer step where a kernel measures; by default `step`.
    """

    start: float
    stop: float
    step: float
    label: str
    initial: float | None = None
    live_step: float | None = None

    def __post_init__(self) -> None:
        steps = (self.stop - self.start) / self.step if self.step > 0 else -1.0
        if steps < 1 or abs(steps - round(steps)) > 1e-6:
            raise ValueError(
                f"the range {self.label!r} goes from {self.start} to {self.stop} in steps of {self.step}: "
                "the step must be positive and divide the range"
            )
        if self.initial is None:
            object.__setattr__(self, "initial", self.values[len(self.values) // 2])
        if not any(math.isclose(self.initial, value, abs_tol=self.step / 1e6) for value in self.values):  # type: ignore[arg-type]
            raise ValueError(f"the range {self.label!r} starts at {self.initial}, which is not on its grid")

    @property
    def values(self) -> list[float]:
        """The grid's values, without the noise of adding steps (0.3, not 0.30000000000000004)."""
        n_steps = round((self.stop - self.start) / self.step)
        return [self._tidy(self.start + index * self.step) for index in range(n_steps + 1)]

    def _tidy(self, value: float) -> float:
        whole = all(float(x).is_integer() for x in (self.start, self.live_step or self.step))
        return round(value) if whole else float(f"{value:.10g}")

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        step = self.live_step or self.step if live else self.step
        return {"input": "range", "min": self.start, "max": self.stop, "step": step, "name": self.label}

    def matches(self, name: str) -> str:
        """Vega expression that is true for the grid's rows at the chosen value."""
        return f"abs(datum.{name} - {name}) < {self.step / 2!r}"

    def read(self, sent: object) -> Value:
        """The number that the page sent, inside the range."""
        if isinstance(sent, bool) or not isinstance(sent, int | float):
            raise ValueError(f"{self.label}: {sent!r} is not a number")
        slack = self.step / 1e6  # 0.1 + 0.2 is more than 0.3
        if not self.start - slack <= sent <= self.stop + slack:
            raise ValueError(f"{self.label}: {sent} is outside {self.start} to {self.stop}")
        return self._tidy(sent)


@dataclass(frozen=True)
class Toggle:
    """A check box: True or False.

    Parameters
    ----------
    label : str
        What is true when it's checked.
    initial : bool, default False
    """

    label: str
    initial: bool = False

    @property
    def values(self) -> list[bool]:
        """Both states."""
        return [False, True]

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        return {"input": "checkbox", "name": self.label}

    def matches(self, name: str) -> str:
        """Vega expression that is true for the grid's rows in the chosen state."""
        return f"datum.{name} === {name}"

    def read(self, sent: object) -> Value:
        """The state that the page sent."""
        if not isinstance(sent, bool):
            raise ValueError(f"{self.label}: {sent!r} is neither true nor false")
        return sent


@dataclass(frozen=True)
class Number:
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

    @property
    def values(self) -> range:
        """All of them."""
        return range(self.start, self.stop + 1)

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        ends = {"min": self.start, "max": self.stop, "step": 1}
        return {"input": "number", **ends, "name": self.label, "debounce": TYPING}

    def matches(self, name: str) -> str:
        """Vega expression that is true for rows at the number."""
        return f"datum.{name} == {name}"

    def read(self, sent: object) -> Value:
        """The number that the page sent, as a number or as it was typed."""
        text = str(sent).strip()
        if isinstance(sent, bool) or not re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII):
            raise ValueError(f"{self.label}: {text or 'nothing'} is not a whole number")
        if not self.start <= int(text) <= self.stop:
            raise ValueError(f"{self.label}: {int(text)} is outside {self.start} to {self.stop}")
        return int(text)


@dataclass(frozen=True)
class Numbers:
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

    @property
    def values(self) -> list[str]:
        """The set there at first; the others are too many to list."""
        return [self.initial]

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element."""
        return {"input": "text", "name": self.label, "debounce": TYPING}

    def matches(self, name: str) -> str:
        """Vega expression that is true for rows at the set."""
        return f"datum.{name} === {name}"

    def read(self, sent: object) -> Value:
        """The set that the page sent, in order."""
        words = re.split(r"[\s,;]+", str(sent).strip(" \t,;{}"))
        wrong = [word for word in words if word and not re.fullmatch(r"\d{1,9}", word, re.ASCII)]
        if wrong:
            raise ValueError(
                f"{self.label}: {wrong[0]!r} is not a whole number; write such as 30 35 40 45 48, or nothing"
            )
        return " ".join(map(str, sorted({int(word) for word in words if word})))


class Explorer:
    """A chart that answers to controls, with a kernel or without.

    Parameters
    ----------
    measure : function of the controls' names, or None
        Returns a tidy DataFrame with the same columns for every combination, never NaN or infinite (drop
        the row instead). None where only a stored `grid` is shown.
    controls : mapping of name to Choice, Range or Toggle
        Names are Python and Vega identifiers; a drawing function may use them in expressions
        (``alt.datum``-like strings such as ``"datum.x > threshold"``).
    draw : function
        Takes the data to draw (give each encoding its type: ``"x:Q"``) and returns a chart.
    title : str
        The finding, in one sentence.
    caption : str
        Data, seeds and interval.
    grid : DataFrame, optional
        Rows for every combination, with a column for each control: stored results, shown instead of
        measuring beforehand.
    digits : int, default 4
        Significant digits kept in the page.
    n_jobs : int, default 1
        Worker processes that measure the grid (joblib's meaning).

    Raises
    ------
    ValueError
        If a control's name can't be used, if neither `measure` nor `grid` is given, or if the grid is too
        large for a page (the message has the number and the way out).

    Examples
    --------
    >>> import altair as alt, pandas as pd
    >>> explorer = Explorer(
    ...     lambda slope: pd.DataFrame({"x": [0, 1], "y": [0, slope]}),
    ...     {"slope": Range(0, 4, 1, "slope")},
    ...     lambda data: alt.Chart(data).mark_line().encode(x="x:Q", y="y:Q"),
    ...     title="A line has a slope",
    ...     caption="Two made points.",
    ... )
    >>> explorer.grid().shape
    (10, 3)
    """

    def __init__(
        self,
        measure: Measure | None,
        controls: Mapping[str, Control],
        draw: Draw,
        *,
        title: str,
        caption: str,
        grid: pd.DataFrame | None = None,
        digits: int = 4,
        n_jobs: int = 1,
    ) -> None:
        check_names(controls)
        if measure is None and grid is None:
            raise ValueError("an explorer needs a measuring function, or a grid of stored results, or both")
        self.measure, self.controls, self.draw = measure, dict(controls), draw
        self.title, self.caption = title, caption
        self.digits, self.n_jobs = digits, n_jobs
        self._grid = None if grid is None else self._checked_grid(grid)

    def __repr__(self) -> str:
        return f"<explorer: {self.title}>"

    def grid(self) -> pd.DataFrame:
        """Every combination of the controls measured, once: tidy, the controls' columns first.

        Raises
        ------
        ValueError
            If there are more than 2,000 combinations, or a measurement is NaN or infinite, or has other
            columns than the first.
        """
        if self._grid is None:
            combinations = self._combinations()
            assert self.measure is not None  # else a grid was given
            tasks = (joblib.delayed(_measure_on_one_thread)(self.measure, values) for values in combinations)
            frames = joblib.Parallel(n_jobs=self.n_jobs)(tasks)
            for values, frame in zip(combinations, frames, strict=True):
                self._checked(frame, values)
                if list(frame.columns) != list(frames[0].columns):
                    raise ValueError(f"measured {list(frame)} at {values}, but {list(frames[0])} at first")
            keyed = [frame.assign(**values) for values, frame in zip(combinations, frames, strict=True)]
            self._grid = pd.concat(keyed, ignore_index=True)[[*self.controls, *frames[0].columns]]
        return self._grid

    def static_spec(self) -> dict[str, Any]:
        """Vega-Lite specification of the twin that needs no kernel: one row a combination, lists inside.

        Raises
        ------
        ValueError
            If it takes more than 4 MB of JSON; beyond 1 MB it warns.
        """
        grid = self.grid()
        columns = [column for column in grid.columns if column not in self.controls]
        by_combination = {key: frame for key, frame in grid.groupby(list(self.controls), sort=False)}
        rows = []
        for values in self._combinations():
            frame = by_combination[tuple(values.values())]
            rows.append({**values, **compact_row(frame[columns], digits=self.digits)})
        spec = self._spec(rows, columns, before=[{"filter": is_chosen(self.controls)}], live=False)
        weigh(spec, repr(self), "take fewer values, bin the curves, or keep fewer digits")
        return spec

    def live_spec(self) -> dict[str, Any]:
        """The same specification over one row: the start values', replaced at each measurement."""
        start = {name: control.initial for name, control in self.controls.items()}
        frame = self._measured(start)
        columns = [column for column in frame.columns if column not in self.controls]
        row = {**start, **compact_row(frame[columns], digits=self.digits)}
        return self._spec([row], columns, before=[], live=True)

    def answer(self, sent: Mapping[str, object]) -> list[dict[str, Any]]:
        """Rows for control values that the page sent, ready for the live chart.

        Raises
        ------
        ValueError
            If a control is missing or its value is none of its own, or the measurement isn't finite.
        """
        values = read_values(self.controls, sent)
        frame = self._measured(values)
        columns = [column for column in frame.columns if column not in self.controls]
        return [{**values, **compact_row(frame[columns], digits=self.digits)}]

    @functools.cached_property
    def widget(self) -> LiveFace:
        """The live face, made on first use."""
        return LiveFace(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle = {theme.MIME: self.static_spec(), "text/plain": repr(self)}
        if self.measure is not None:
            bundle[WIDGET] = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return bundle

    def _combinations(self) -> list[dict[str, Any]]:
        sizes = [len(control.values) for control in self.controls.values()]
        if math.prod(sizes) > GRID_LIMIT:
            product = " x ".join(f"{size:,}" for size in sizes)
            raise ValueError(
                f"the grid of {self.title!r} has {product} = {math.prod(sizes):,} combinations, more than "
                f"{GRID_LIMIT:,}: take coarser steps (a Range keeps finer ones live with live_step) or fewer "
                "controls"
            )
        return combinations(self.controls)

    def _measured(self, values: Mapping[str, Any]) -> pd.DataFrame:
        if self.measure is None:
            frame = self.grid()
            for name, value in values.items():
                frame = frame[frame[name] == value]
            return frame.reset_index(drop=True)
        return self._checked(_measure_on_one_thread(self.measure, values), values)

    def _checked(self, frame: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
        taken = [column for column in frame.columns if column in self.controls]
        if taken:
            raise ValueError(
                f"the measured table has a column {taken[0]!r}, the name of a control: rename one"
            )
        return _finite(frame, f"measured at {dict(values)}")

    def _checked_grid(self, grid: pd.DataFrame) -> pd.DataFrame:
        self._combinations()  # refuses too many
        return _finite(keyed(grid, self.controls, "the grid"), "in the given grid")

    def _spec(
        self, rows: list[dict[str, Any]], columns: list[str], *, before: list[dict[str, Any]], live: bool
    ) -> dict[str, Any]:
        chart = self.draw(alt.NamedData(name=MEASURED))
        spec = theme.captioned(chart, finding=self.title, caption=self.caption).to_dict()
        _inherit_data(spec)
        spec["data"] = {"name": MEASURED, "values": rows}
        spec["transform"] = [*before, {"flatten": columns}, *spec.get("transform", [])]
        spec["params"] = [*bound_params(self.controls, live=live), *spec.get("params", [])]
        spec["usermeta"]["embviz"]["controls"] = list(self.controls)
        return theme.portable(spec)


class LiveFace(anywidget.AnyWidget):
    """The widget behind an explorer: the page sends control values, the kernel sends rows back."""

    _esm = Path(__file__).with_name("explorer.js")
    _css = Path(__file__).with_name("explorer.css")
    spec = traitlets.Dict().tag(sync=True)
    runtime = traitlets.Bytes().tag(sync=True)

    def __init__(self, explorer: Explorer) -> None:
        super().__init__(spec=explorer.live_spec(), runtime=vega_runtime().encode())
        self._explorer = explorer
        self.on_msg(self._hear)

    def _hear(self, _: object, message: dict[str, Any], buffers: object) -> None:
        if message.get("kind") == "measure":
            reply = {"kind": "rows", "request": message.get("request")}
            try:
                reply["rows"] = self._explorer.answer(message.get("values", {}))
            except Exception as error:  # whatever the measuring function raises is the reader's to see
                reply["error"] = f"{type(error).__name__}: {error}"
            self.send(reply)


# What an explorer and a player share: their controls, and what they may weigh.


def check_names(controls: Iterable[str]) -> None:
    """Refuse a control's name that is no identifier, or that Vega keeps for itself."""
    for name in controls:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in RESERVED:
            raise ValueError(f"a control can't be called {name!r}: use another plain identifier")


def combinations(controls: Mapping[str, Control]) -> list[dict[str, Any]]:
    """Every combination of the controls' values, the last control's moving fastest."""
    every = itertools.product(*(control.values for control in controls.values()))
    return [dict(zip(controls, values, strict=True)) for values in every]


def is_chosen(controls: Mapping[str, Control]) -> str:
    """Vega expression that is true for rows at the chosen values of all controls."""
    return " && ".join(control.matches(name) for name, control in controls.items()) or "true"


def bound_params(controls: Mapping[str, Control], *, live: bool) -> list[dict[str, Any]]:
    """Vega-Lite parameters, each bound to its input element."""
    parts = []
    for name, control in controls.items():
        bind = control.binding(live=live)
        fixed = len(bind.get("options", "ab")) == 1  # nothing to choose, as where one run is stored so far
        parts.append({"name": name, "value": control.initial} | ({} if fixed else {"bind": bind}))
    return parts


def read_values(controls: Mapping[str, Control], sent: Mapping[str, object]) -> dict[str, Value]:
    """The controls' values that the page sent.

    Raises
    ------
    ValueError
        If one is missing or none of its control's own.
    """
    missing = [name for name in controls if name not in sent]
    if missing:
        raise ValueError(f"the page sent no value for {', '.join(missing)}")
    return {name: control.read(sent[name]) for name, control in controls.items()}


def keyed(table: pd.DataFrame, controls: Mapping[str, Control], what: str) -> pd.DataFrame:
    """A stored table's rows at the controls' values, each written as its control writes it.

    Parameters
    ----------
    table : DataFrame
        With a column for each control.
    controls : mapping of name to Choice, Range or Toggle
    what : str
        What the table is called in a message, such as ``"the grid"``.

    Raises
    ------
    ValueError
        If a control has no column, or a combination of values no row.
    """
    absent = [name for name in controls if name not in table.columns]
    if absent:
        raise ValueError(f"{what} has no column {', '.join(absent)}: it needs one for each control")
    table = table.copy()
    for name, control in controls.items():
        # the control's own value, so that 0.30000000000000004 in a stored table still is 0.3
        own = [_own_value(control, value) for value in table[name]]
        table = table.assign(**{name: pd.Series(own, index=table.index, dtype=object)})
        table = table[table[name].isin(list(control.values))]
    present = set(table[list(controls)].itertuples(index=False, name=None))
    for values in combinations(controls) if controls else []:
        if tuple(values.values()) not in present:
            raise ValueError(f"{what} has no row for {values}: compute it, or leave the value out")
    return table


def weigh(spec: dict[str, Any], name: str, advice: str) -> None:
    """Warn of a specification beyond 1 MB of JSON, refuse one beyond 4 MB."""
    size = len(json.dumps(spec))
    if size > TWIN_LIMIT:
        raise ValueError(f"{name} would put {size:,} bytes into the page, more than {TWIN_LIMIT:,}: {advice}")
    if size > TWIN_WARNING:
        warnings.warn(f"{name} puts {size:,} bytes into the page: {advice}", stacklevel=4)


def drawing_code() -> str:
    """``explorer.js`` without its last line, for a script that adds a start-up or a player of its own."""
    code, export, _ = (
        Path(__file__).with_name("explorer.js").read_text(encoding="utf-8").rpartition("export default")
    )
    assert export, "explorer.js ends with its export"
    return code


def _measure_on_one_thread(measure: Measure, values: Mapping[str, Any]) -> pd.DataFrame:
    # Two BLAS threads took 150 times one's time for a 300 x 300 matrix on a busy machine; and a sum in one
    # order gives the same digits everywhere.
    with threadpool_limits(limits=1):
        return measure(**values)


@functools.cache
def vega_runtime() -> str:
    """JavaScript of Vega, Vega-Lite and Vega-Embed in one piece, from the installed vl-convert; no network.

    It sets ``globalThis.embvizVegaEmbed`` and must be wrapped in a function or loaded as a module, since it
    declares short names of its own.
    """
    snippet = "globalThis.embvizVegaEmbed = vegaEmbed;"
    return vl_convert.javascript_bundle(snippet)


def compact_row(frame: pd.DataFrame, *, digits: int, noise: float = 1e-10) -> dict[str, list[Any]]:
    """Columns of a tidy table as lists of plain JSON values, floats rounded to significant digits.

    Values below `noise` of their column's largest are written as 0, so that stored outputs compare equal on
    another processor; with 0 all are kept, as for a loss that falls by many orders.

    >>> compact_row(pd.DataFrame({"word": ["a", "b"], "x": [1 / 3, 200000.0]}), digits=4)
    {'word': ['a', 'b'], 'x': [0.3333, 200000.0]}
    """
    return {str(column): _rounded(frame[column], digits, noise) for column in frame.columns}


def _rounded(column: pd.Series, digits: int, noise: float) -> list[Any]:
    if pd.api.types.is_float_dtype(column.dtype):
        # what is 0 but for the order of a sum comes out as 1e-16 or -4e-16, by machine: write 0
        least = noise * float(column.abs().max()) if len(column) else 0.0
        return [float(f"{value:.{digits}g}") if abs(value) > least else 0.0 for value in column]
    return [_plain(value) for value in column]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _own_value(control: Control, stored: Any) -> Any:
    try:
        return control.read(_plain(stored))
    except ValueError:
        return None  # a stored value that this explorer doesn't show


def _finite(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    for column in frame.columns:
        wrong = frame[column].isna()
        if pd.api.types.is_float_dtype(frame[column].dtype):
            wrong |= np.isinf(frame[column])
        if wrong.any():
            raise ValueError(
                f"{int(wrong.sum())} of {len(frame)} values in column {column!r} {where} are missing or "
                "infinite: leave their rows out, so that nobody takes a gap for a number"
            )
    return frame


def _inherit_data(spec: dict[str, Any]) -> None:
    """Take our data's name out of every view, so that all inherit it, filtered, from the outermost one."""
    if spec.get("data", {}).get("name") == MEASURED:
        del spec["data"]
    for part in ("layer", "concat", "hconcat", "vconcat"):
        for view in spec.get(part, []):
            _inherit_data(view)
    if isinstance(spec.get("spec"), dict):
        _inherit_data(spec["spec"])
