"""Cells that show the ledger: they have the tag ``ledger`` and need nothing of other cells.

What they show is never stored. A kernel shows it when the cell is run, and the build shows it on the page.
"""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.formatters import DisplayFormatter

TAG = "ledger"


def shows_ledger(cell: dict[str, Any]) -> bool:
    """Whether a notebook's cell has the tag."""
    return TAG in cell["metadata"].get("tags", [])


def evaluate(source: str) -> Any:
    """Run a cell by itself; gives the value of its last line, an expression."""
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        raise ValueError(f"a cell with the tag {TAG!r} ends with the expression that it shows:\n{source}")
    names: dict[str, Any] = {}
    exec(compile(ast.Module(before, []), "<ledger cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<ledger cell>", "eval"), names)


def fill(cells: list[dict[str, Any]]) -> None:
    """Put into a notebook's cells what those with the tag show."""
    for cell in filter(shows_ledger, cells):
        data, metadata = DisplayFormatter().format(evaluate("".join(cell["source"])))
        output = {"output_type": "execute_result", "data": data, "metadata": metadata}
        cell["outputs"] = [{**output, "execution_count": cell["execution_count"]}]
