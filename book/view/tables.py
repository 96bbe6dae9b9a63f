"""Tables of figures: one row per kind, with its mean, its range over seeds and the published value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from book.view.sentences import Amount, amount
from embviz.view import theme
from embviz.view.typesetting import TypesetTable, number, typeset

Cell = Amount | str


class FiguresTable(Mapping[Any, Any]):
    """A table that a chapter shows and whose numbers its sentences take: see :func:`figures_table`.

    ``table[row]`` is the row's number, or its numbers by column where there are several.
    """

    def __init__(
        self, cells: Mapping[Any, dict[Any, Cell]], texts: pd.DataFrame, shown: TypesetTable
    ) -> None:
        self._cells, self.texts, self._shown = dict(cells), texts, shown

    def __getitem__(self, row: Any) -> Any:
        cells = self._cells[row]
        if len(cells) == 1:
            return next(iter(cells.values()))
        nested: dict[Any, Any] = {}
        for (value, kind), cell in cells.items():
            if kind is None:
                nested[value] = cell
            else:
                nested.setdefault(kind, {})[value] = cell
        return {key: only(part) for key, part in nested.items()}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return repr(self._shown)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


def only(part: Any) -> Any:
    """The value of a mapping of one, or the mapping."""
    return next(iter(part.values())) if isinstance(part, dict) and len(part) == 1 else part


def figures_table(
    table: pd.DataFrame,
    values: str | Sequence[str] | Mapping[str, str],
    by: str | Sequence[str],
    *,
    across: str | None = None,
    rows: Sequence[Any] | None = None,
    spread: bool = True,
    statistic: str | Mapping[str, str] = "mean",
    published: Mapping[str, Mapping[Any, float | None]] | None = None,
    limit: float = math.inf,
) -> FiguresTable:
    """Measured numbers by kind: mean with the range over seeds in brackets, published value, seeds.

    Parameters
    ----------
    table : DataFrame
        Tidy: one row per `seed` of a kind. Missing values are left out. A column of truth values is counted
        ("4 of 5"), one of text or of one number a kind is shown as it is.
    values : str, list of str, or mapping of column to heading
        What was measured; headings come from ``theme.title`` where they aren't given.
    by : str or list of str
        The columns that name a row.
    across : str, optional
        A column whose kinds stand side by side.
    rows : list, optional
        The rows in order (tuples with several `by`); a kind that the table lacks is "not measured".
    spread : bool, default True
        Whether the least and the largest value stand in brackets.
    statistic : {"mean", "median"}, or mapping of value's column to one of them
        Of columns that a mapping leaves out it is the mean.
    published : mapping of value's column to a mapping of row to number, optional
        The paper's; with `across`, of (row, kind). See :func:`book.ledger.published`.
    limit : float
        Nobody waited beyond: such values are written ``> limit``. Take the median.

    Returns
    -------
    FiguresTable

    Raises
    ------
    ValueError
        If several rows have one kind and seed: choose a step first.

    >>> from book.view import say
    >>> runs = pd.DataFrame({"run": ["a", "a", "b"], "seed": [0, 1, 0], "accuracy": [0.5, 0.75, 1.0]})
    >>> theirs = {"accuracy": {"a": 0.6}}
    >>> times = figures_table(runs, "accuracy", "run", rows=["a", "b", "c"], published=theirs)
    >>> times.texts["accuracy"].to_list(), times.texts["paper"].to_list()
    (['0.6 (0.5 to 0.8)', '1', 'not measured'], ['0.6', '–', '–'])
    >>> say("{times[a]} beside {times[a]:paper}, {times[a]:seeds} seeds", times=times)
    0.6 beside 0.6, 2 seeds
    """
    keys = [by] if isinstance(by, str) else list(by)
    headings = _headings(values)
    _refuse_repeats(table, [*keys, *([across] if across else []), "seed"])
    papers = published or {}
    chosen = dict.fromkeys(headings, statistic) if isinstance(statistic, str) else statistic
    statistics = {value: chosen.get(value, "mean") for value in headings}
    groups = {key[0] if len(keys) == 1 else key: own for key, own in table.groupby(keys, sort=False)}
    kinds = [None] if across is None else list(dict.fromkeys(table[across]))
    cells: dict[Any, dict[Any, Cell]] = {}
    for row in groups if rows is None else rows:
        own = groups.get(row, table.iloc[:0])
        cells[row] = {
            (value, kind): _cell(
                own if kind is None else own[own[across] == kind],
                value,
                papers.get(value, {}).get(row if kind is None else (row, kind)),
                statistics[value],
                limit,
            )
            for value in headings
            for kind in kinds
        }
    texts = _texts(cells, headings, set(papers), spread=spread)
    texts["seeds"] = [groups[row]["seed"].nunique() if row in groups else 0 for row in cells]
    texts.index = _index(list(cells), keys)
    note = _note(cells, statistics, headings) if spread else ""
    return FiguresTable(cells, texts, typeset(texts, note=note))


def _headings(values: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(values, Mapping):
        return dict(values)
    names = [values] if isinstance(values, str) else values
    return {name: theme.title(name) for name in names}


def _refuse_repeats(table: pd.DataFrame, one: list[str]) -> None:
    several = table[table.duplicated(one)]
    if len(several):
        which = ", ".join(f"{name} {several.iloc[0][name]}" for name in one)
        raise ValueError(f"several rows for {which}: choose one, such as the last step's, before the table")


def _cell(own: pd.DataFrame, value: str, paper: float | None, statistic: str, limit: float) -> Cell:
    column = own[value].dropna()
    if pd.api.types.is_bool_dtype(column.dtype) and len(column):
        return f"{int(column.sum())} of {len(column)}"
    if not pd.api.types.is_numeric_dtype(column.dtype) and len(column):
        return ", ".join(dict.fromkeys(map(str, column)))
    return amount(column, statistic=statistic, paper=paper, limit=limit)


def _texts(
    cells: Mapping[Any, dict[Any, Cell]],
    headings: Mapping[str, str],
    papers: set[str],
    *,
    spread: bool,
) -> pd.DataFrame:
    columns: dict[str, list[str]] = {}
    for value, kind in dict.fromkeys(key for row in cells.values() for key in row):
        own = [row[value, kind] for row in cells.values()]
        several = len(headings) > 1
        name = headings[value] if kind is None else f"{headings[value]}, {kind}" if several else str(kind)
        columns[name] = [cell if isinstance(cell, str) else cell.text(spread=spread) for cell in own]
        before = f"{name}, " if several or kind is not None else ""
        if value in papers:
            columns[f"{before}paper"] = [
                number(cell.paper) if isinstance(cell, Amount) else "–" for cell in own
            ]
    return pd.DataFrame(columns)


def _index(rows: list[Any], keys: list[str]) -> pd.Index:
    names = [key.replace("_", " ") for key in keys]
    if len(keys) > 1 and all(isinstance(row, tuple) for row in rows):
        return pd.MultiIndex.from_tuples(rows, names=names)
    return pd.Index(rows, name=", ".join(names))


def _note(
    cells: Mapping[Any, dict[Any, Cell]], statistics: Mapping[str, str], headings: Mapping[str, str]
) -> str:
    own = [cell for row in cells.values() for cell in row.values() if isinstance(cell, Amount)]
    if all(cell.least == cell.most for cell in own):
        return ""
    first, *others = dict.fromkeys(statistics.values())
    named = [
        f" ({other} for {', '.join(headings[value] for value in headings if statistics[value] == other)})"
        for other in others
    ]
    return f"{first.capitalize()} over seeds{''.join(named)}, in brackets the least and the largest."
