"""Explorers: a chart with controls, declared once, alive in a notebook and in the static book.

An :class:`Explorer` names a measuring function, its controls and a drawing function. With a kernel, every
move of a control measures again; in the book the same declaration is a chart over a grid measured
beforehand, with the same controls drawn by the same code. Controls that only the drawing uses are measured in
neither.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import traitlets
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from embviz.view.main_thread import answer_between_cells
from embviz.view.named_tables import (
    MEASURED,
    Draw,
    Feed,
    Tables,
    as_tables,
    call_with_tables,
    compact_row,
    connect,
    make_spec,
    name_of,
    plain,
    refuse_holes,
    short_repr,
    without_repeats,
)
from embviz.view.pages import portable, script, style, vega_runtime
from embviz.view.pictures import Picture

GRID_LIMIT = 2_000  # combinations: more can't be told apart with sliders, nor measured while waiting
GRIDS = "EMBVIZ_GRIDS"  # the environment variable with which cells store whole grids
MEND = ". Choose another value, or mend the function and run its cell again."
STORED = "The controls choose among stored results."  # where a kernel measures nothing
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
Measure = Callable[..., pd.DataFrame | Mapping[str, pd.DataFrame]]
Title = str | Callable[..., str]
FIELD = re.compile(r"\{([A-Za-z]\w*)(?::([^{}]*))?\}")  # of a title that follows the controls


class Control:
    """What a reader moves. Its `values` are what a page offers; what is typed has none."""

    label: str
    values: Sequence[Any]
    initial: Any

    def binding(self, *, live: bool) -> dict[str, Any]:
        """Vega's description of the input element, with the finer values of a kernel where it is live."""
        return {**self._element(live=live), "name": self.label}

    def _element(self, *, live: bool) -> dict[str, Any]:
        raise NotImplementedError

    def say(self, value: Any) -> str:
        """What a value is called."""
        return str(value)

    def read(self, sent: object) -> Value:
        """The value that the page sent; raises ``ValueError``, in words for the page, if it is none."""
        raise NotImplementedError


@dataclass(frozen=True)
class Choice(Control):
    """One of several values: radio buttons up to four of them, a list beyond.

    Parameters
    ----------
    values : sequence of str, int or float
        In the order shown.
    label : str
        Words before the control, with the unit if there is one; by default its name.
    format : str or function, default ``"{}"``
        What a value is called: a format string, or a function from value to text.
    initial : one of `values`, optional
        Chosen at first; by default the first.
    live_values : sequence, optional
        More of them where a kernel measures, these among them; a slider if they are a ``range``. By default
        `values`.
    """

    values: Sequence[Any]
    label: str = ""
    format: str | Callable[[Any], str] = "{}"
    initial: Any = None
    live_values: Sequence[Any] | None = None

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
        absent = [value for value in self.values if value not in self._shown(live=True)]
        if absent:
            raise ValueError(
                f"the choice {self.label!r} has {absent[0]!r} in the page, not among live_values"
            )

    def _element(self, *, live: bool) -> dict[str, Any]:
        shown = self._shown(live=live)
        if live and isinstance(self.live_values, range):
            ends = {"min": shown[0], "max": shown[-1], "step": self.live_values.step}
            return {"input": "range", **ends}
        kind = "radio" if len(shown) <= 4 else "select"
        labels = [self.say(value) for value in shown]
        return {"input": kind, "options": list(shown), "labels": labels}

    def say(self, value: Any) -> str:
        return self.format.format(value) if isinstance(self.format, str) else self.format(value)

    def _shown(self, *, live: bool) -> Sequence[Any]:
        return self.values if self.live_values is None or not live else self.live_values

    def read(self, sent: object) -> Value:
        shown = self._shown(live=True)
        for value in shown:
            if value == sent and isinstance(value, str) == isinstance(sent, str):
                chosen: Value = value
                return chosen
        raise ValueError(f"{self.label}: {sent!r} is not among {list(shown)!r}")


@dataclass(frozen=True)
class Range(Control):
    """A slider.

    Parameters
    ----------
    start, stop, step : int or float
        First value, last value (included) and distance between two, which must divide the range. With
        whole numbers the measuring function gets whole numbers.
    label : str
        Words before the control, with the unit if there is one; by default its name.
    initial : int or float, optional
        Chosen at first; by default the middle of the grid.
    live_step : int or float, optional
        A finer step where a kernel measures; by default `step`.
    """

    start: float
    stop: float
    step: float
    label: str = ""
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
    def values(self) -> list[float]:  # type: ignore[override]
        """The grid's values, without the noise of adding steps (0.3, not 0.30000000000000004)."""
        n_steps = round((self.stop - self.start) / self.step)
        return [self._tidy(self.start + index * self.step) for index in range(n_steps + 1)]

    def _tidy(self, value: float) -> float:
        whole = all(float(x).is_integer() for x in (self.start, self.live_step or self.step))
        return round(value) if whole else float(f"{value:.10g}")

    def _element(self, *, live: bool) -> dict[str, Any]:
        step = self.live_step or self.step if live else self.step
        return {"input": "range", "min": self.start, "max": self.stop, "step": step}

    def read(self, sent: object) -> Value:
        if isinstance(sent, bool) or not isinstance(sent, int | float):
            raise ValueError(f"{self.label}: {sent!r} is not a number")
        slack = self.step / 1e6  # 0.1 + 0.2 is more than 0.3
        if not self.start - slack <= sent <= self.stop + slack:
            raise ValueError(f"{self.label}: {sent} is outside {self.start} to {self.stop}")
        return self._tidy(sent)


@dataclass(frozen=True)
class Toggle(Control):
    """A check box: True or False.

    Parameters
    ----------
    label : str
        What is true when it's checked; by default the control's name.
    initial : bool, default False
    """

    label: str = ""
    initial: bool = False
    values = (False, True)  # no field

    def _element(self, *, live: bool) -> dict[str, Any]:
        return {"input": "checkbox"}

    def say(self, value: Any) -> str:
        return "yes" if value else "no"

    def read(self, sent: object) -> Value:
        if not isinstance(sent, bool):
            raise ValueError(f"{self.label}: {sent!r} is neither true nor false")
        return sent


class Controlled(Picture):
    """A picture that Vega draws under controls: what an explorer and a player share."""

    runtime = traitlets.Bytes().tag(sync=True)
    kind = ""
    title: Title

    @property
    def first_title(self) -> str:
        """The title at the controls' first values."""
        raise NotImplementedError

    @traitlets.default("runtime")
    def _first_runtime(self) -> bytes:
        return vega_runtime().encode()

    def __repr__(self) -> str:
        return short_repr(self.kind, self.first_title)

    @property
    def _follows(self) -> bool:
        return callable(self.title) or FIELD.search(self.title) is not None


class Explorer(Controlled):
    """A chart that answers to controls, with a kernel or without.

    Parameters
    ----------
    measure : function of the controls' names, or None
        Returns a tidy DataFrame, or a mapping of names to several, each with columns of its own that are the
        same for every combination; never NaN or infinite (drop the row instead). It may be defined in the
        notebook. None where only a stored `grid` is shown.
    controls : mapping of name to Choice, Range or Toggle
        Names are Python and Vega identifiers; a drawing function may use them in expressions
        (``alt.datum``-like strings such as ``"datum.x > threshold"``). A list or tuple stands for a
        :class:`Choice`, Python's ``range`` for a :class:`Range`, True or False for a :class:`Toggle`.
    draw : function
        Takes the data to draw (give each encoding its type: ``"x:Q"``) and returns a chart. Several tables
        are handed to the parameters of their names, or to its one parameter as a mapping.
    title : str or function, optional
        The finding, in one sentence. A control's name in braces, as in ``"Window {window}"``, follows the
        control; a function makes the sentence from the tables that it takes as `draw` does.
    caption : str, optional
        Data, seeds and interval.
    view_controls : mapping of name to a control, optional
        Only the drawing uses them, in expressions: nothing is measured for them.
    grid : DataFrame or mapping of names to DataFrames, optional
        Rows for every combination, with a column for each control: stored results, shown at first and in a
        page instead of measuring. Of several tables the first needs them all; one without a control's column
        is the same whatever that says.
    tries : mapping of str to mapping, optional
        States worth a look, each a button: what it is called, and the values of some controls.
    digits : int, default 4
        Significant digits kept in the page.

    Attributes
    ----------
    value : dict
        Where the controls stand, by their names, `view_controls` too. Setting it moves the controls in the
        page, and names that are left out stay where they are: ``explorer.value = {"slope": 3}``. A name or a
        value that does not exist raises ``traitlets.TraitError`` and changes nothing.
        ``explorer.observe(function, "value")`` calls a function at every move.

    Examples
    --------
    >>> import altair as alt, pandas as pd
    >>> explorer = Explorer(
    ...     lambda slope: pd.DataFrame({"x": [0, 1], "y": [0, slope]}),
    ...     {"slope": range(5)},
    ...     lambda data: alt.Chart(data).mark_line().encode(x="x:Q", y="y:Q"),
    ...     title="A line of slope {slope}",
    ...     caption="Two made points.",
    ... )
    >>> explorer.grid().shape, explorer
    ((10, 3), <explorer: A line of slope 2>)
    >>> explorer.value = {"slope": 4}
    >>> explorer.value
    {'slope': 4}
    """

    _esm = script("explorer.js") + "\nexport default { render };\n"
    _css = style("explorer.css")
    kind = "explorer"
    value = traitlets.Dict(help="where the controls stand").tag(sync=True)

    def __init__(
        self,
        measure: Measure | None,
        controls: Mapping[str, Any],
        draw: Draw,
        *,
        title: Title = "",
        caption: str = "",
        view_controls: Mapping[str, Any] | None = None,
        grid: pd.DataFrame | Mapping[str, pd.DataFrame] | None = None,
        tries: Mapping[str, Mapping[str, Any]] | None = None,
        digits: int = 4,
    ) -> None:
        self.controls, self.view_controls = label_controls(controls), label_controls(view_controls or {})
        check_names([*self.controls, *self.view_controls])
        both = set(self.controls) & set(self.view_controls)
        if both:
            raise ValueError(f"{sorted(both)[0]!r} is measured and only drawn: give one another name")
        if measure is None and grid is None:
            raise ValueError("an explorer needs a measuring function, or a grid of stored results, or both")
        self.tries = self._checked_tries(tries or {})
        self.measure, self.draw = measure, draw
        self.title, self.caption = title, caption
        self.digits = digits
        self._drawn: set[str] | None = None  # the tables that the drawing uses, once there is one
        self._columns: dict[str, list[str]] | None = None  # of each table, as they were drawn at first
        self._grid_tables: dict[tuple[Any, ...], Tables] = {}  # measured so far, by the controls' values
        self._gaps: dict[tuple[Any, ...], Exception] = {}  # combinations of the grid that failed
        self._stored = grid is not None
        self._grid = None if grid is None else self._checked_grid(as_tables(grid, "the grid"))
        if isinstance(title, str):
            self._filled(title, self._start)
        super().__init__()
        self.on_msg(self._hear)

    def _checked_tries(self, tries: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        every = {**self.controls, **self.view_controls}
        for name, values in tries.items():
            for control, value in values.items():
                if control not in every or value not in every[control].values:
                    has = every[control].values if control in every else ", ".join(every)
                    raise ValueError(f"to try {name!r} sets {control!r} to {value!r}: there is {has}")
        return [{"name": name, "values": dict(values)} for name, values in tries.items()]

    # --- the widget ---

    @traitlets.default("spec")
    def _first_spec(self) -> dict[str, Any]:
        if self.measure is not None:
            return self.live_spec()
        spec = self.static_spec()
        meta = spec["usermeta"]["embviz"]
        meta |= {"stored": True, "caption": f"{self.caption} {STORED}".strip()}
        return spec

    @traitlets.default("value")
    def _first_value(self) -> dict[str, Any]:
        every = {**self.controls, **self.view_controls}
        return {name: control.read(control.initial) for name, control in every.items()}

    @traitlets.validate("value")
    def _whole_value(self, proposal: Any) -> dict[str, Any]:
        every = {**self.controls, **self.view_controls}
        given = proposal["value"]
        unknown = [name for name in given if name not in every]
        if unknown:
            raise traitlets.TraitError(f"there is no control {unknown[0]!r}, but {', '.join(every)}")
        try:
            read = {name: every[name].read(plain(value)) for name, value in given.items()}
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None
        for name in self.controls if self.measure is None else ():
            if name in read and read[name] not in self.controls[name].values:
                stored = ", ".join(map(str, self.controls[name].values))
                raise traitlets.TraitError(f"nothing is stored at {name} = {read[name]}, but at {stored}")
        before = self._trait_values.get("value") or self._first_value()
        return {name: read.get(name, before.get(name)) for name in every}

    def _hear(self, _: object, message: object, buffers: object) -> None:
        kind, request, values = read_message(message, "request", "values")
        if kind != "measure":
            return
        reply: dict[str, Any] = {"kind": "rows", "request": request}

        def answer() -> None:
            try:
                reply.update(self.answer(values))
            except BaseException as error:  # an interrupt too: the page waits for an answer
                reply["error"] = error_message(error, MEND)
            self.send(reply)

        answer_between_cells(answer)

    def output_spec(self) -> dict[str, Any]:
        """What a cell's output shows without a kernel: the first picture, or the grid where it was measured.

        With the environment variable ``EMBVIZ_GRIDS`` the grid is measured at once, as for the book.
        """
        if self._grid is not None or os.environ.get(GRIDS):
            return self.static_spec()
        spec = {**self.spec, "params": [dict(param) for param in self.spec["params"]]}
        for param in spec["params"]:
            if param["name"] in self.controls:
                param.pop("bind", None)  # a kernel alone can measure elsewhere
        own = {**spec["usermeta"]["embviz"], "controls": [], "first": True}
        own.pop("tries", None)
        return {**spec, "usermeta": {**spec["usermeta"], "embviz": own}}

    def grid(self) -> pd.DataFrame | Tables:
        """Every combination of the controls measured, once: tidy, the controls' columns first.

        An interrupt keeps what was measured, and the next call goes on from there.

        Returns
        -------
        DataFrame, or dict of name to DataFrame
            As the measuring function returns them.

        Raises
        ------
        Exception
            Of the measurement that failed first; ``ValueError`` beyond 2,000 combinations, and where a number
            is NaN or infinite, or tables or columns are not those of the first.
        """
        tables = self._tables
        for error in self._gaps.values():
            raise error
        return tables[MEASURED] if set(tables) == {MEASURED} else tables

    def static_spec(self) -> dict[str, Any]:
        """Vega-Lite specification of the twin that needs no kernel: one row a combination, lists inside.

        The grid is measured now if it was not before. A combination that fails leaves a gap, where the page
        shows the error's message.

        Raises
        ------
        ValueError
            If there are more than 2,000 combinations, or they take more than 4 MB of JSON; beyond 1 MB it
            warns. An error of the drawing function, or of the measurement at the controls' first values, is
            raised before the grid is measured.
        """
        if self.measure is not None:
            _ = self.spec
        spec = self._spec({name: self._rows(name) for name in self._tables}, live=False)
        meta = spec["usermeta"]["embviz"]
        if self._follows:
            titles = [{**values, "title": self._title(values)} for values in self._there]
            meta["titles"] = without_repeats(titles, list(self.controls))
        if self._gaps:
            meta["gaps"] = [
                {
                    **dict(zip(self.controls, key, strict=True)),
                    "message": f"Nothing was measured here. {error_message(error)}",
                }
                for key, error in self._gaps.items()
            ]
        check_page_size(spec, repr(self), "take fewer values, bin the curves, or keep fewer digits")
        return spec

    def live_spec(self) -> dict[str, Any]:
        """The same specification over one row a table: the start values', replaced at each measurement."""
        tables = self._kept(self._start)
        self._columns = columns_of(tables)
        return self._spec(self._answer_rows(self._start, tables), live=True)

    def answer(self, sent: Mapping[str, object]) -> dict[str, Any]:
        """Rows of each table that is drawn, and the title if it follows, for values that the page sent."""
        values = read_values(self.controls, sent)
        tables = self._measured(values)
        if self._columns is not None:
            self._refuse_others(tables, values, self._columns)
        rows = self._answer_rows(values, tables)
        used = {name: own for name, own in rows.items() if self._drawn is None or name in self._drawn}
        reply: dict[str, Any] = {"tables": used}
        return reply | ({"title": self._title(values, tables)} if self._follows else {})

    @functools.cached_property
    def first_title(self) -> str:
        """The title at the controls' first values."""
        return self._title(self._start)

    @property
    def _start(self) -> dict[str, Any]:
        return {name: control.read(control.initial) for name, control in self.controls.items()}

    @property
    def _there(self) -> list[dict[str, Any]]:
        """The combinations that were measured."""
        every = combinations(self.controls)
        return [values for values in every if tuple(values.values()) not in self._gaps]

    def _refuse_too_many(self) -> None:
        sizes = [len(control.values) for control in self.controls.values()]
        if math.prod(sizes) > GRID_LIMIT:
            product = " x ".join(f"{size:,}" for size in sizes)
            raise ValueError(
                f"the grid of {self.title!r} has {product} = {math.prod(sizes):,} combinations, more than "
                f"{GRID_LIMIT:,}: take coarser steps (Range(..., live_step=) keeps finer ones where a kernel "
                "measures) or fewer controls"
            )

    # --- measuring ---

    @property
    def _name(self) -> str:
        return "nothing" if self.measure is None else name_of(self.measure)

    @property
    def _tables(self) -> Tables:
        if self._grid is None:
            self._refuse_too_many()
            first = columns_of(self._kept(self._start))
            measured: dict[str, list[pd.DataFrame]] = {name: [] for name in first}
            # what a build stores has no bar in it
            for values in tqdm(
                combinations(self.controls), "grid", delay=1, leave=False, disable=bool(os.environ.get(GRIDS))
            ):
                try:
                    tables = self._kept(values)
                    self._refuse_others(tables, values, first)
                except Exception as error:
                    self._gaps[tuple(values.values())] = error
                    continue
                for name, table in tables.items():
                    measured[name].append(table.assign(**values)[[*self.controls, *table.columns]])
            self._grid = {
                name: pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
                for name, parts in measured.items()
            }
        return self._grid

    def _kept(self, values: Mapping[str, Any]) -> Tables:
        """A combination of a given grid, or what is measured there; an interrupt leaves what was measured."""
        key = tuple(values.values())
        if key not in self._grid_tables:
            self._grid_tables[key] = self._at(values) if self._stored else self._measured(values)
        return self._grid_tables[key]

    def _refuse_others(self, tables: Tables, values: Mapping[str, Any], first: dict[str, list[str]]) -> None:
        """Refuse tables or columns that the drawing does not know."""
        for name in {**first, **tables}:
            own, other = [*tables.get(name, ())], first.get(name, [])
            if own != other:
                what = "" if name == MEASURED else f" in {name!r}"
                raise ValueError(f"{self._name} measured {own}{what} at {dict(values)}, but {other} at first")

    def _measured(self, values: Mapping[str, Any]) -> Tables:
        if self.measure is None:
            return self._at(values)
        # Two BLAS threads took 150 times one's time for a 300 x 300 matrix on a busy machine; and a sum in
        # one order gives the same digits everywhere.
        try:
            with threadpool_limits(limits=1):
                tables = as_tables(self.measure(**values), self._name)
        except Exception as error:
            at = ", ".join(f"{name}={value!r}" for name, value in values.items())
            error.add_note(f"measured by {self._name} at {at}")
            raise
        for table in tables.values():
            taken = [column for column in table.columns if column in self.controls]
            if taken:
                raise ValueError(
                    f"the measured table has a column {taken[0]!r}, the name of a control: rename one"
                )
            refuse_holes(table, f" that {self._name} measured at {dict(values)}")
        return tables

    @functools.cached_property
    def _parts(self) -> dict[str, tuple[list[str], dict[tuple[Any, ...], pd.DataFrame]]]:
        """Of each table the controls that have a column in it, and its part at each of their combinations."""
        parts = {}
        for name, table in self._tables.items():
            own = [control for control in self.controls if control in table.columns]
            split = {key: part for key, part in table.groupby(own, sort=False)} if own else {(): table}
            empty = table.iloc[:0]
            keys = dict.fromkeys(tuple(values[control] for control in own) for values in self._there)
            parts[name] = (
                own,
                {key: split.get(key, empty).drop(columns=own).reset_index(drop=True) for key in keys},
            )
        return parts

    def _at(self, values: Mapping[str, Any]) -> Tables:
        return {
            name: parts[tuple(values[control] for control in own)]
            for name, (own, parts) in self._parts.items()
        }

    def _checked_grid(self, grid: Tables) -> Tables:
        self._refuse_too_many()
        tables = {}
        for place, (name, table) in enumerate(grid.items()):
            own = {key: one for key, one in self.controls.items() if place == 0 or key in table.columns}
            what = "the grid" if name == MEASURED else f"the grid's table {name!r}"
            tables[name] = rows_at_controls(table, own, what, whole=place == 0)
            refuse_holes(tables[name], f" in the given {what.removeprefix('the ')}")
        return tables

    # --- drawing ---

    def _rows(self, name: str) -> list[dict[str, Any]]:
        """A row for each combination of the controls that have a column in the table."""
        own, parts = self._parts[name]
        rows = [
            {**dict(zip(own, key, strict=True)), **compact_row(part, digits=self.digits)}
            for key, part in parts.items()
        ]
        return rows if name == MEASURED else without_repeats(rows, own)

    def _answer_rows(self, values: Mapping[str, Any], tables: Tables) -> dict[str, list[dict[str, Any]]]:
        return {
            name: [{**values, **compact_row(table, digits=self.digits)}] for name, table in tables.items()
        }

    def _spec(self, rows: dict[str, list[dict[str, Any]]], *, live: bool) -> dict[str, Any]:
        check_names(set(rows) - {MEASURED}, "table")
        spec = make_spec(
            self.draw, list(rows), finding=self.first_title, caption=self.caption, who=repr(self)
        )
        feeds = {name: Feed(name, self._unfolded(own, live=live)) for name, own in rows.items()}
        if set(rows) == {MEASURED}:
            _inherit_data(spec)
            spec["data"] = {"name": MEASURED, "values": rows[MEASURED]}
            spec["transform"] = [*feeds[MEASURED].transform, *spec.get("transform", [])]
            self._drawn = {MEASURED}
        else:
            self._drawn = connect(spec, feeds) & set(feeds)
            spec["datasets"] = {
                **spec.get("datasets", {}),
                **{name: rows[name] for name in sorted(self._drawn)},
            }
        bound = [*bound_params(self.controls, live=live), *bound_params(self.view_controls, live=True)]
        spec["params"] = [*bound, *spec.get("params", [])]
        spec["usermeta"]["embviz"]["controls"] = list(self.controls)
        if self.tries:
            spec["usermeta"]["embviz"]["tries"] = self.tries
        return portable(spec)

    def _unfolded(self, rows: list[dict[str, Any]], *, live: bool) -> list[dict[str, Any]]:
        """What turns a table's rows in the page into the table at the chosen values."""
        columns = [name for name in rows[0] if name not in self.controls]
        own = {name: control for name, control in self.controls.items() if name in rows[0]}
        chosen = [] if live or (not own and self.controls) else [{"filter": is_chosen(own)}]
        return [*chosen, {"flatten": columns}]

    # --- the title ---

    def _title(self, values: Mapping[str, Any], tables: Tables | None = None) -> str:
        if not callable(self.title):
            return self._filled(self.title, values)
        if tables is None:
            tables = self._at(values) if self._grid is not None else self._kept(values)
        return self._filled(str(call_with_tables(self.title, tables)), values)

    def _filled(self, text: str, values: Mapping[str, Any]) -> str:
        return fill_title(text, values, self.controls)


# What an explorer and a player share: controls, messages, the size of a page.


def check_names(names: Iterable[str], what: str = "control") -> None:
    """Refuse a name that is no identifier, or that Vega keeps for itself."""
    for name in names:
        known = name in RESERVED or re.fullmatch(r"(data|source)_\d+", name)
        if known or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise ValueError(f"a {what} can't be called {name!r}: use another plain identifier")


def label_controls(controls: Mapping[str, Any]) -> dict[str, Control]:
    """Controls by name, short forms written out, each with a label.

    >>> label_controls({"n_words": [10, 20], "holes": True, "k": range(1, 6, 2)})["k"]
    Range(start=1, stop=5, step=2, label='k', initial=3, live_step=None)
    """
    return {name: _as_control(given, str(name).replace("_", " ")) for name, given in controls.items()}


def _as_control(given: Any, label: str) -> Control:
    if isinstance(given, bool):
        return Toggle(label, given)
    if isinstance(given, range) and len(given) > 1:
        return Range(given[0], given[-1], given.step, label)
    if isinstance(given, list | tuple | range):
        return Choice(given, label)
    if not isinstance(given, Control):
        raise ValueError(
            f"the control {label!r} is a {type(given).__name__}: give a Choice, a Range or a Toggle, or a "
            "list, a range or True or False in its place"
        )
    return given if given.label else dataclasses.replace(given, label=label)  # type: ignore[type-var]


def read_message(message: object, *keys: str) -> tuple[Any, ...]:
    """The kind of a page's message and what it has under `keys`; None for what it lacks."""
    if not isinstance(message, Mapping):
        return (None,) * (1 + len(keys))
    return tuple(message.get(key) for key in ("kind", *keys))


def error_message(error: BaseException, advice: str = "") -> str:
    """An error in words for the page: what it says, where it arose, and what to do."""
    if isinstance(error, KeyboardInterrupt):
        return "The kernel was interrupted: move a control, or start again."
    notes = getattr(error, "__notes__", ())
    where = f" ({notes[0]})" if notes else ""
    return f"{type(error).__name__}: {error}{where}{advice if notes else ''}"


def columns_of(tables: Tables) -> dict[str, list[str]]:
    """The columns of each table."""
    return {name: [*table.columns] for name, table in tables.items()}


def combinations(controls: Mapping[str, Control]) -> list[dict[str, Any]]:
    """Every combination of the controls' values, the last control's moving fastest."""
    every = itertools.product(*(control.values for control in controls.values()))
    return [dict(zip(controls, values, strict=True)) for values in every]


def fill_title(text: str, values: Mapping[str, Any], controls: Mapping[str, Control]) -> str:
    """A title with the controls' values in place of their names in braces, written as the controls say."""

    def put(field: re.Match[str]) -> str:
        name, how = field.groups()
        if name not in values:
            raise ValueError(
                f"the title follows {name!r}, which is none of the measured controls: "
                f"{', '.join(values) or 'there are none'}"
            )
        return format(values[name], how) if how else controls[name].say(values[name])

    return FIELD.sub(put, text)


def is_chosen(controls: Mapping[str, Control]) -> str:
    """Vega expression that is true for rows at the chosen values of all controls."""
    chosen = [
        f"abs(datum.{name} - {name}) < {control.step / 2!r}"
        if isinstance(control, Range)
        else f"datum.{name} === {name}"
        for name, control in controls.items()
    ]
    return " && ".join(chosen) or "true"


def bound_params(controls: Mapping[str, Control], *, live: bool) -> list[dict[str, Any]]:
    """Vega-Lite parameters, each bound to its input element."""
    parts = []
    for name, control in controls.items():
        bind = control.binding(live=live)
        fixed = len(bind.get("options", "ab")) == 1  # nothing to choose, as where one run is stored so far
        parts.append({"name": name, "value": control.initial} | ({} if fixed else {"bind": bind}))
    return parts


def read_values(controls: Mapping[str, Control], sent: Mapping[str, object]) -> dict[str, Value]:
    """The controls' values that the page sent; raises ``ValueError`` if one is missing or invalid."""
    if not isinstance(sent, Mapping):
        raise ValueError("the page sent no values by the controls' names: run the cell again")
    missing = [name for name in controls if name not in sent]
    if missing:
        raise ValueError(f"the page sent no value for {', '.join(missing)}")
    return {name: control.read(sent[name]) for name, control in controls.items()}


def rows_at_controls(
    table: pd.DataFrame, controls: Mapping[str, Control], what: str, *, whole: bool = True
) -> pd.DataFrame:
    """A stored table's rows at the controls' values, each written as its control writes it.

    `what` is the table's name in a message. Raises ``ValueError`` if a control has no column, or a
    combination of values no row where the table is to be `whole`.
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
    for values in combinations(controls) if controls and whole else []:
        if tuple(values.values()) not in present:
            raise ValueError(f"{what} has no row for {values}: compute it, or leave the value out")
    return table


def check_page_size(spec: dict[str, Any], name: str, advice: str) -> None:
    """Warn of a specification beyond 1 MB of JSON, refuse one beyond 4 MB."""
    size = len(json.dumps(spec))
    if size > TWIN_LIMIT:
        raise ValueError(f"{name} would put {size:,} bytes into the page, more than {TWIN_LIMIT:,}: {advice}")
    if size > TWIN_WARNING:
        warnings.warn(f"{name} puts {size:,} bytes into the page: {advice}", stacklevel=4)


def _own_value(control: Control, stored: Any) -> Any:
    try:
        return control.read(plain(stored))
    except ValueError:
        return None  # a stored value that this explorer doesn't show


def _inherit_data(spec: dict[str, Any]) -> None:
    """Take our data's name out of every view, so that all inherit it, filtered, from the outermost one."""
    if spec.get("data", {}).get("name") == MEASURED:
        del spec["data"]
    for part in ("layer", "concat", "hconcat", "vconcat"):
        for view in spec.get(part, []):
            _inherit_data(view)
    if isinstance(spec.get("spec"), dict):
        _inherit_data(spec["spec"])
