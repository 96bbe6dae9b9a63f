"""A table as it is printed: plain column names, aligned decimals, digits with a meaning, grey controls."""

from __future__ import annotations

import html
import itertools
import math
import numbers
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embviz.labels import LABELS, is_control, title

MISSING = "–"
MINUS, FIGURE_SPACE = "\u2212", "\u2007"  # as wide as a digit, and never collapsed
MOST_ROWS = 60  # of a table that nobody shortened
ROUNDED = 4  # decimals: a column with no more was rounded by its author
MOST_DIGITS = 6  # of a column before each value is written by itself
SHORT = 24  # characters of a row's name that stand on one line
NUMERIC = re.compile(rf"([> +\-{MINUS}]*)(\d[\d,]*)(\.\d+)?(?=$|[\s%,;(]|e[+-]\d+$)(.*)", re.DOTALL)

# Twice the class: notebooks and pages have rules of their own for tables, more specific than one class.
STYLE = """
.embviz-table{overflow-x:auto}
.embviz-table.embviz-table table{border-collapse:collapse;border:0;margin:.3em 0;width:auto}
.embviz-table.embviz-table tr:nth-child(n){background:none;border:0}
.embviz-table.embviz-table tbody tr:nth-child(n){border-bottom:1px solid rgba(128,128,128,.35)}
.embviz-table.embviz-table tbody tr.control:nth-child(n){background:rgba(128,128,128,.2)}
.embviz-table.embviz-table :is(th,td){padding:.25em 1em .25em .3em;text-align:left;vertical-align:top;
border:0;max-width:24em;white-space:normal;font-variant-numeric:tabular-nums;font-weight:normal}
.embviz-table.embviz-table thead th{vertical-align:bottom;font-weight:600}
.embviz-table.embviz-table thead th[colspan]{border-bottom:1px solid rgba(128,128,128,.5)}
.embviz-table.embviz-table thead tr:last-child th{border-bottom:1px solid}
.embviz-table.embviz-table :is(td.number,th.short){white-space:nowrap}
.embviz-table p{margin:.2em 0;font-size:.9em}
""".replace("\n", "")


@dataclass(frozen=True, repr=False)
class TypesetTable:
    """A typeset table: HTML in a notebook and on a page, aligned text elsewhere. See :func:`typeset`."""

    titles: list[list[str]]  # the rows of headings
    cells: list[list[str]]  # row by row, the row's names first
    n_names: int  # columns of names
    controls: frozenset[int]  # rows with a grey ground
    note: str = ""

    def __repr__(self) -> str:
        above = [
            ["" if place and text == row[place - 1] else text for place, text in enumerate(row)]
            for row in self.titles[:-1]
        ]
        lines = [*above, self.titles[-1], *self.cells]
        widths = [max(map(len, column), default=0) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        text.insert(len(self.titles), "  ".join("-" * width for width in widths))
        return "\n".join([*text, *([self.note] if self.note else [])]).replace(FIGURE_SPACE, " ")

    def _repr_html_(self) -> str:
        head = "".join(f"<tr>{self._headings(row)}</tr>\n" for row in self.titles)
        body = "".join(self._row(row, cells) for row, cells in enumerate(self.cells))
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f'<div class="embviz-table"><style>{STYLE}</style><table>\n'
            f"<thead>\n{head}</thead>\n<tbody>\n{body}</tbody></table>{note}</div>"
        )

    def _headings(self, row: list[str]) -> str:
        """One row of headings; neighbours of one name are one heading, in all rows but the last."""
        if row is self.titles[-1]:
            return "".join(f'<th scope="col">{html.escape(text)}</th>' for text in row)
        spans = [(text, len(list(group))) for text, group in itertools.groupby(row)]
        return "".join(
            f'<th colspan="{width}" scope="colgroup">{html.escape(text)}</th>'
            if text
            else "<td></td>" * width
            for text, width in spans
        )

    def _row(self, row: int, cells: list[str]) -> str:
        parts = []
        for column, cell in enumerate(cells):
            text = html.escape(cell)
            if column < self.n_names:
                short = ' class="short"' if len(cell) <= SHORT else ""
                parts.append(f'<th{short} scope="row">{text}</th>')
            else:
                of_kind = ' class="number"' if NUMERIC.fullmatch(cell.strip(FIGURE_SPACE)) else ""
                parts.append(f"<td{of_kind}>{text}</td>")
        grey = ' class="control"' if row in self.controls else ""
        return f"<tr{grey}>{''.join(parts)}</tr>\n"


def typeset(
    table: pd.DataFrame | pd.Series,
    *,
    titles: Mapping[Any, str] | None = None,
    digits: int = 3,
    note: str = "",
    most_rows: int = MOST_ROWS,
) -> TypesetTable:
    """A table as it is printed.

    Columns are called by their axis titles with units, decimals stand under each other, and an index without
    a name or meaning is left out. Counts are whole, an exact zero is ``0``, missing values are a dash, and
    truth values yes or no. Rows whose name says so (control, shuffled, untrained) have a grey ground.

    Parameters
    ----------
    table : DataFrame or Series
    titles : mapping of column (or index name) to heading, optional
        Where the table of axis titles (``embviz.labels.LABELS``) says something else.
    digits : int, default 3
        Significant digits of a column's largest value. A column that is rounded to four decimals or fewer
        stays as it is.
    note : str
        A sentence below.
    most_rows : int, default 60
        Of a longer table the first ones are shown, and the note says so.

    >>> lengths = pd.DataFrame(
    ...     {"n_phases": [12.0, 3.0], "loss": [0.51234, 12.25]}, index=["training", "random walk"]
    ... )
    >>> typeset(lengths)
                 phases  loss
    -----------  ------  -----
    training     12       0.51
    random walk   3      12.25
    """
    frame = (
        table.to_frame("" if table.name is None else table.name) if isinstance(table, pd.Series) else table
    )
    shown = frame.head(most_rows)
    if len(frame) > most_rows:
        note = f"{note} The first {most_rows:,} of {len(frame):,} rows.".strip()
    names = _row_names(shown.index)
    columns = [align_column(format_column(list(values), digits=digits)) for _, values in shown.items()]
    return TypesetTable(
        _titles(shown, len(names), titles or {}),
        [list(row) for row in zip(*names, *columns, strict=True)],
        len(names),
        _controls(shown.index) if names else frozenset(),
        note,
    )


# --- headings and names of rows -------------------------------------------------------------------------


def _titles(frame: pd.DataFrame, n_names: int, titles: Mapping[Any, str]) -> list[list[str]]:
    """The rows of headings: a row a level of the columns, above it what a level is called."""
    columns = frame.columns
    levels = [columns.get_level_values(level) for level in range(columns.nlevels)]
    rows = [[""] * n_names + [_title(label, titles) for label in level] for level in levels]
    above = [_title(name, titles) for name in columns.names if name is not None]
    if above and len(columns) > 1:
        rows.insert(0, [""] * n_names + [", ".join(above)] * len(columns))
    rows[-1][:n_names] = [_title(name, titles) for name in frame.index.names][:n_names]
    return rows


def _title(name: Any, titles: Mapping[Any, str]) -> str:
    if name is None:
        return ""
    if name in titles:
        return titles[name]
    if not isinstance(name, str):
        return _plain(name)
    # a plain word may be an axis of another chart, so it is looked up for its unit alone
    known = ("_" in name and name.isidentifier()) or (
        name in LABELS and re.sub(r"\W", "", LABELS[name].words) == name
    )
    return title(name) if known else name


def _row_names(index: pd.Index) -> list[list[str]]:
    """The columns that name a row; of several, a name is not repeated below itself."""
    if isinstance(index, pd.RangeIndex) and index.name is None:
        return []
    levels = [format_column(list(index.get_level_values(level))) for level in range(index.nlevels)]
    if len(levels) == 1:
        return [align_column(levels[0])]
    outer, before = [], [""] * len(levels)
    for names in zip(*levels, strict=True):
        fresh = next((place for place, name in enumerate(names) if name != before[place]), len(names) - 1)
        outer.append(
            ["" if place < fresh and place < len(names) - 1 else name for place, name in enumerate(names)]
        )
        before = list(names)
    return [align_column(list(column)) for column in zip(*outer, strict=True)]


def _controls(index: pd.Index) -> frozenset[int]:
    """The rows whose name calls them a control; none where all do."""
    words = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in index]
    found = frozenset(row for row, name in enumerate(words) if is_control(name, row=True))
    return found if len(found) < len(words) else frozenset()


# --- cells as text --------------------------------------------------------------------------------------


def number(value: float | None, unit: str = "", *, digits: int = 3) -> str:
    """A number at so many significant digits, whole counts in full; a dash when there is none.

    >>> number(0.123456), number(17005207.0, "tokens"), number(None), number(float("inf"))
    ('0.123', '17,005,207 tokens', '–', '∞')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    whole = float(value).is_integer() and abs(value) >= 1000
    text = f"{value:,.0f}" if whole else f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return f"{text} {unit}".strip()


def format_column(values: Sequence[Any], *, digits: int = 3) -> list[str]:
    """The cells of one column as text, its numbers with as many decimals as the column calls for.

    >>> format_column([0.98123, 0.034, 0.0]), format_column([29.0, 1472.0])
    (['0.981', '0.034', '0'], ['29', '1,472'])
    >>> format_column([True, None, (14, 4)])
    ['yes', '–', '14, 4']
    """
    figures = [float(value) for value in values if _is_number(value) and math.isfinite(value) and value != 0]
    n_decimals = _decimals(np.abs(figures), digits) if figures else 0
    return [_plain(value, n_decimals, digits) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool)


def _plain(value: Any, n_decimals: int | None = None, digits: int = 3) -> str:
    if isinstance(value, bool | np.bool):
        return "yes" if value else "no"
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(map(_plain, value))
    if not _is_number(value):
        return MISSING if value is None or value is pd.NA or value is pd.NaT else str(value)
    amount = abs(float(value))
    if amount == 0:
        return "0"
    fixed = n_decimals is not None and math.isfinite(amount) and round(amount, n_decimals) != 0
    text = f"{amount:,.{n_decimals}f}" if fixed else number(amount, digits=digits)
    return f"{MINUS}{text}" if value < 0 else text


def _decimals(amounts: np.ndarray, digits: int) -> int | None:
    """So many as the author rounded to, or show so many digits of the largest and two of the least.

    None where those are too many: then each number is written by itself.
    """
    top, bottom = (math.floor(math.log10(end)) for end in (amounts.max(), amounts.min()))
    least = max(digits - 1 - top, min(digits - 1, 1) - bottom, 0)
    for n_decimals in [*range(ROUNDED + 1), least]:  # 1e-7: what a float32 leaves behind
        if np.allclose(amounts, amounts.round(n_decimals), rtol=1e-7, atol=0):
            break
    return n_decimals if max(n_decimals, top + 1 + n_decimals) <= MOST_DIGITS or n_decimals == 0 else None


def align_column(texts: Sequence[str]) -> list[str]:
    """The same cells with spaces in front, and behind numbers too: the points stand in a line.

    >>> [text.replace(FIGURE_SPACE, "_") for text in align_column(["0.5 (0.4 to 0.6)", "12", "–"])]
    ['_0.5 (0.4 to 0.6)', '12', '–']
    """
    found = [NUMERIC.fullmatch(text) for text in texts]
    widest = max((len(match[1] + match[2]) for match in found if match), default=0)
    if sum(match is not None for match in found) * 2 < sum(bool(text.strip(f" {MISSING}")) for text in texts):
        return list(texts)
    lines = []
    for text, match in zip(texts, found, strict=True):
        if match is None:
            lines.append(text)
            continue
        before = f"{match[1].replace('-', MINUS)}{match[2]}"
        after = re.sub(r"(?<![\w.])-(?=[\d.])", MINUS, text[len(match[1] + match[2]) :])
        lines.append(FIGURE_SPACE * (widest - len(before)) + before + after)
    return lines


# --- notebooks ------------------------------------------------------------------------------------------


def typeset_frames() -> None:
    """From now on this notebook shows DataFrames and Series as :func:`typeset` does."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for kind in (pd.DataFrame, pd.Series):
        formatters["text/html"].for_type(kind, lambda table: typeset(table)._repr_html_())
        formatters["text/plain"].for_type(kind, lambda table, printer, _: printer.text(repr(typeset(table))))
