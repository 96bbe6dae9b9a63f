"""Named tables: what an explorer or a player draws, from a function's result to compact rows in a page.

A measuring function returns a DataFrame, or several by name, each tidy with columns of its own. In a page
every table is one row a combination of the controls (or a frame), with lists inside that a transform
unfolds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from embviz.view import theme

MEASURED = "measured"  # the table of a function that returns but one
Tables = dict[str, pd.DataFrame]
Draw = Callable[..., alt.TopLevelMixin]


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called in a message.

    >>> name_of(len), name_of(lambda x: x)
    ('len', 'the measuring function')
    """
    name = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    return "the measuring function" if name == "<lambda>" else name


def as_tables(result: Any, who: str) -> Tables:
    """A measuring function's result as tables by name; a DataFrame alone is called ``measured``.

    Raises ``ValueError`` if it is neither; the message names the function.
    """
    if isinstance(result, pd.DataFrame):
        return {MEASURED: result}
    if not isinstance(result, Mapping) or not result:
        raise ValueError(
            f"{who} returned {_kind(result)}: return a DataFrame, or several by name, such as "
            '{"points": points, "lines": lines}'
        )
    for name, table in result.items():
        if not isinstance(table, pd.DataFrame):
            raise ValueError(f"the table {name!r} that {who} returned is {_kind(table)}, not a DataFrame")
    return dict(result)


def _kind(thing: Any) -> str:
    return "nothing" if thing is None else f"a {type(thing).__name__}"


def call_with_tables(function: Callable[..., Any], tables: Mapping[str, Any]) -> Any:
    """Call a drawing function with its tables: the one there is, or those that its parameters name.

    A function with one parameter, called otherwise than any table, gets them all as a mapping.

    >>> call_with_tables(lambda lines, points: points, {"points": 1, "lines": 2})
    1
    >>> call_with_tables(lambda tables: sorted(tables), {"points": 1, "lines": 2})
    ['lines', 'points']
    """
    if set(tables) == {MEASURED}:
        return function(tables[MEASURED])
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return function(**tables)
    needed = [one.name for one in parameters if one.default is one.empty]
    unknown = [name for name in needed if name not in tables]
    if unknown and len(needed) == 1:
        return function(tables)
    if unknown:
        raise ValueError(
            f"{name_of(function)} asks for {', '.join(unknown)}, but the tables are {', '.join(tables)}"
        )
    return function(**{one.name: tables[one.name] for one in parameters if one.name in tables})


def make_spec(draw: Draw, names: Sequence[str], *, finding: str, caption: str, who: str) -> dict[str, Any]:
    """The specification that a drawing function makes of tables known by name alone.

    Raises ``ValueError`` if it leaves out a type, which nothing can be guessed from.
    """
    chart = call_with_tables(draw, {name: alt.NamedData(name=name) for name in names})
    try:
        spec: dict[str, Any] = theme.captioned(chart, finding=finding, caption=caption).to_dict()
    except ValueError as error:
        if "without a type" not in str(error):
            raise
        raise ValueError(
            f"the drawing of {who} leaves out a type, and there is no table to guess it from: write "
            f'such as "x:Q" ({error})'
        ) from error
    return spec


def short_repr(kind: str, title: str) -> str:
    """A picture in a message: its kind, and its title if it has one.

    >>> short_repr("map", "Words"), short_repr("map", "")
    ('<map: Words>', '<map>')
    """
    return f"<{kind}: {title}>" if title else f"<{kind}>"


def refuse_holes(table: pd.DataFrame, where: str = "", *, by: str | None = None) -> None:
    """Raise ``ValueError`` if a value is missing or infinite; `where` stands behind the column's name.

    `by` is a column that says in which row the first one is.
    """
    for column in table.columns:
        wrong = table[column].isna()
        if pd.api.types.is_float_dtype(table[column].dtype):
            wrong |= np.isinf(table[column])
        if wrong.any():
            where += f" ({by} {table[by][wrong].iloc[0]} first)" if by else ""
            raise ValueError(
                f"{int(wrong.sum())} of {len(table)} values in column {column!r}{where} are missing or "
                "infinite: leave their rows out, so that nobody takes a gap for a number"
            )


# --- rows of a page ---------------------------------------------------------------------------------------


def compact_row(frame: pd.DataFrame, *, digits: int, noise: float = 1e-10) -> dict[str, list[Any]]:
    """Columns of a tidy table as lists of plain JSON values, floats rounded to significant digits.

    Values below `noise` of their column's largest are written as 0, so that stored outputs compare equal on
    another processor; with 0 all are kept, as for a loss that falls by many orders.

    >>> compact_row(pd.DataFrame({"word": ["a", "b"], "x": [1 / 3, 200000.0]}), digits=4)
    {'word': ['a', 'b'], 'x': [0.3333, 200000.0]}
    """
    row = {}
    for name, column in frame.items():
        if not pd.api.types.is_float_dtype(column.dtype):
            row[str(name)] = [plain(value) for value in column]
            continue
        # what is 0 but for the order of a sum comes out as 1e-16 or -4e-16, by machine: write 0
        least = noise * float(column.abs().max()) if len(column) else 0.0
        row[str(name)] = [float(f"{value:.{digits}g}") if abs(value) > least else 0.0 for value in column]
    return row


def plain(value: Any) -> Any:
    """A value that JSON can represent."""
    return value.item() if isinstance(value, np.generic) else value


def without_repeats(rows: list[dict[str, Any]], controls: Sequence[str]) -> list[dict[str, Any]]:
    """The rows without the controls that change nothing in them, each kept once.

    >>> rows = [{"a": 0, "b": 0, "x": [1]}, {"a": 0, "b": 1, "x": [1]}, {"a": 1, "b": 0, "x": [2]}]
    >>> without_repeats(rows, ["a", "b"])
    [{'a': 0, 'x': [1]}, {'a': 1, 'x': [2]}]
    """
    for control in controls:
        left = [{key: value for key, value in row.items() if key != control} for row in rows]
        kept = [name for name in controls if left and name in left[0]]
        by_values: dict[tuple[Any, ...], dict[str, Any]] = {}
        if all(by_values.setdefault(tuple(row[name] for name in kept), row) == row for row in left):
            rows = list(by_values.values())
    return rows


class Feed(NamedTuple):
    """Where a name that a drawing uses gets its rows from."""

    source: str  # name of the data set in the page
    transform: list[dict[str, Any]]


def connect(view: dict[str, Any], feeds: Mapping[str, Feed], inherited: str = "") -> set[str]:
    """Give every view that names one of our tables its rows; views inside it inherit them.

    Returns the names of data that its views draw.
    """
    data = view.get("data")
    name = str(data["name"]) if isinstance(data, dict) and "name" in data else ""
    if name and name == inherited:
        del view["data"]
    elif name in feeds:
        view["data"] = {"name": feeds[name].source}
        view["transform"] = [*feeds[name].transform, *view.get("transform", [])]
        inherited = name
    used = {name} - {""}
    inner = [one for part in ("layer", "concat", "hconcat", "vconcat") for one in view.get(part, [])]
    if isinstance(view.get("spec"), dict):
        inner.append(view["spec"])
    for one in inner:
        used |= connect(one, feeds, inherited)
    return used
