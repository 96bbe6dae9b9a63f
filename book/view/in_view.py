"""Expensive or chaotic computations of a chapter: computed in view, shown from a store.

A cell defines its computation as a function and hands it to :func:`in_view`, or to :func:`grid_in_view` for
the grid of an explorer. Pages and `make test` show the stored table: they are the same on every machine
and cost nothing. With the variable ``EMBVIZ_COMPUTE=1``, which ``python -m book lab`` and ``make test-all``
set, the function is called, and its result compared with what is stored within the tolerance that the call
states. ``EMBVIZ_COMPUTE=store`` (``python book/execute.py --compute``) stores what is computed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pandas as pd
from IPython.display import display
from IPython.utils.capture import capture_output

from book.ledger.cells import Cell, Experiment, compute, read
from embviz.view.explorers import GRIDS, combinations, label_controls

COMPUTE, STORE = "EMBVIZ_COMPUTE", "store"
WIDGET = "application/vnd.jupyter.widget-view+json"
VEGA_LITE = "application/vnd.vegalite.v5+json"
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
Tolerance = float | Mapping[str, float]
Grid = pd.DataFrame | dict[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class InView:
    """What a chapter computes in a cell; its name alone tells it from others."""

    name: str


class NothingStoredError(ValueError):
    """A chapter whose computation has no stored result."""


def in_view(
    name: str,
    function: Callable[[], pd.DataFrame],
    *,
    within: Tolerance,
    by: str | Sequence[str] = (),
    each: bool = False,
) -> pd.DataFrame:
    """The stored table of a computation; where everything is computed, the computed one beside it.

    Parameters
    ----------
    name : str
        ``paper.experiment``, under which the table is stored.
    function : callable
        Computes the table; takes nothing. No NaN, no infinity.
    within : float or mapping of column to float
        Largest absolute difference to what is stored, in units of the column: of its mean, its smallest and
        its largest value. A mapping names the columns that are compared; a float is for all with numbers.
        Coordinates of a layout and labels of clusters are left out, since another processor has others.
    by : str or sequence of str
        Columns whose groups are compared one by one; the groups must be the same.
    each : bool, default False
        Compare row by row, for results that all processors agree on.

    Returns
    -------
    DataFrame
        What is stored. In a live notebook with ``EMBVIZ_COMPUTE=1`` what was computed, with a line of output
        if it differs by more than `within`; where a page is made or compared, in that case alone.

    Raises
    ------
    NothingStoredError
        If a page is made and nothing is stored; the message has the command that stores it.
    """
    return _shown(name, function, Comparison(within, by, each=each))


def grid_in_view(
    name: str,
    measure: Callable[..., Any],
    controls: Mapping[str, Any],
    *,
    within: Tolerance | Mapping[str, Mapping[str, float]],
    each: bool = False,
) -> Grid | None:
    """The stored grid of an explorer, for its argument `grid`; None where a kernel measures live.

    Parameters
    ----------
    name : str
        ``paper.experiment``, under which the grid is stored.
    measure : callable
        The explorer's measuring function.
    controls : mapping of name to control
        Those of the explorer.
    within, each
        As in :func:`in_view`; every combination of the controls is compared by itself. Where `measure`
        returns several tables, `within` is a mapping of each one's name to a mapping of its columns.
    """
    if os.environ.get(COMPUTE) and not os.environ.get(GRIDS):
        return None

    @functools.cache
    def measured() -> list[tuple[dict[str, Any], Any]]:
        return [(values, measure(**values)) for values in combinations(label_controls(controls))]

    def grid(table: str | None = None) -> pd.DataFrame:
        found = [(values, one[table] if table else one) for values, one in measured()]
        return pd.concat([one.assign(**values) for values, one in found], ignore_index=True)

    several = {}
    for table, limits in within.items() if isinstance(within, Mapping) else ():
        if isinstance(limits, Mapping):
            comparison = Comparison(limits, list(controls), each=each)
            several[table] = _shown(f"{name}_{table}", functools.partial(grid, table), comparison)
    return several or _shown(name, grid, Comparison(cast("Tolerance", within), list(controls), each=each))


def picture_in_view(name: str, function: Callable[[], Any]) -> Any:
    """The stored outputs of a picture, or of a page of several; the picture itself where a kernel computes.

    Of what is computed, titles and captions are compared with the stored ones, without their numbers; points
    and clusters of a layout are not.

    Parameters
    ----------
    name : str
        ``paper.experiment``, under which the outputs are stored.
    function : callable
        Returns what a notebook can show; takes nothing.
    """
    if os.environ.get(COMPUTE) and not os.environ.get(GRIDS):
        return function()
    table = _shown(name, lambda: _outputs(function()), Words())
    for bundle in table["bundle"]:
        display(json.loads(bundle), raw=True)
    return None


def _outputs(picture: Any) -> pd.DataFrame:
    """What a notebook shows of it, an output a row; without the widget, which a page cannot show."""
    with capture_output() as captured:
        display(picture)
    bundles = [
        {mime: data for mime, data in output.data.items() if mime != WIDGET} for output in captured.outputs
    ]
    return pd.DataFrame({"part": range(len(bundles)), "bundle": [json.dumps(one) for one in bundles]})


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a computed table is compared with a stored one; fields as in :func:`in_view`."""

    within: Tolerance
    by: str | Sequence[str] = ()
    each: bool = False

    def differences(self, computed: pd.DataFrame, stored: pd.DataFrame) -> Iterator[str]:
        """Where two tables differ by more than the tolerance, a sentence each."""
        if list(computed.columns) != list(stored.columns):
            yield f"columns {list(computed.columns)}, stored {list(stored.columns)}"
        elif self.each:
            yield from self._rows(computed, stored)
        else:
            yield from self._groups(computed, stored)

    def _limits(self, table: pd.DataFrame) -> dict[str, float]:
        if isinstance(self.within, Mapping):
            return dict(self.within)
        numbers = table.select_dtypes("number").columns.difference(self._keys, sort=False)
        return dict.fromkeys(numbers, self.within)

    @property
    def _keys(self) -> list[str]:
        return [self.by] if isinstance(self.by, str) else list(self.by)

    def _rows(self, computed: pd.DataFrame, stored: pd.DataFrame) -> Iterator[str]:
        if len(computed) != len(stored):
            yield f"{len(computed)} rows, stored {len(stored)}"
            return
        for column, limit in self._limits(stored).items():
            apart = (computed[column].reset_index(drop=True) - stored[column].reset_index(drop=True)).abs()
            if not apart.max() <= limit:
                yield f"{column} differs by {apart.max():.3g}, more than {limit:g}"

    def _groups(self, computed: pd.DataFrame, stored: pd.DataFrame) -> Iterator[str]:
        parts, others = self._parts(computed), self._parts(stored)
        if set(parts) != set(others):
            yield f"groups {sorted(parts)}, stored {sorted(others)}"
            return
        for key, other in others.items():
            where = ", ".join(map(str, key))
            for column, limit in self._limits(stored).items():
                for what in ("mean", "min", "max"):
                    new, old = (float(getattr(table[column], what)()) for table in (parts[key], other))
                    if not abs(new - old) <= limit:
                        said = f"{what} {column} {new:.4g}, stored {old:.4g} (within {limit:g})"
                        yield f"{said} {where}".strip()

    def _parts(self, table: pd.DataFrame) -> dict[tuple[Any, ...], pd.DataFrame]:
        return dict(list(table.groupby(self._keys, sort=False))) if self._keys else {(): table}


class Words:
    """How the outputs of a picture are compared: by their titles and captions, a # for each number."""

    def differences(self, computed: pd.DataFrame, stored: pd.DataFrame) -> Iterator[str]:
        """Outputs that are missing, or say something else; a sentence each."""
        new, old = ([_words(json.loads(bundle)) for bundle in one["bundle"]] for one in (computed, stored))
        if len(new) != len(old):
            yield f"{len(new)} outputs, stored {len(old)}"
        yield from (
            f"{one!r}, stored {other!r}" for one, other in zip(new, old, strict=False) if one != other
        )


def _words(bundle: Mapping[str, Any]) -> str:
    about = bundle.get(VEGA_LITE, {}).get("usermeta", {}).get("embviz", {})
    said = [bundle.get("text/plain", ""), about.get("title"), about.get("caption")]
    return NUMBER.sub("#", " ".join(one for one in said if isinstance(one, str)))


def _shown(name: str, function: Callable[[], pd.DataFrame], comparison: Comparison | Words) -> pd.DataFrame:
    cell = Cell(Experiment(name, 1, lambda _: function()), InView(name))
    mode, page = os.environ.get(COMPUTE, ""), bool(os.environ.get(GRIDS))
    if mode == STORE:
        compute(cell)
    if not cell.stored():
        if page:
            raise NothingStoredError(
                f"nothing is stored under {name}: python book/execute.py --compute CHAPTER stores it"
            )
        return function()
    stored = read(cell)[0]
    if mode in ("", "0", STORE):
        if not page:
            print(f"{name} is a stored result; with {COMPUTE}=1, as in `make lab`, this cell computes it.")
        return stored
    computed = function().reset_index(drop=True)
    found = list(comparison.differences(computed, stored))
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        print(f"Computed here, {name} differs from the stored result: {'; '.join(found[:3])}{more}.")
    return computed if found or not page else stored
