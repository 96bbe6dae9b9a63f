"""Every explorer of the book that measures has finer values with a kernel than on the static page."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from tests.book.scripts import load_script

VEGA_LITE = "application/vnd.vegalite.v5+json"
FINER = {"live_step", "live_values"}


def has_numbers_between(bind: dict[str, Any]) -> bool:
    """Does a control have numbers, and not whole ones that follow one another, with none in between?"""
    options = bind.get("options", [])
    if bind["input"] == "range":
        return bool(bind["step"] != 1)
    if not options or not all(type(option) in (int, float) for option in options):
        return False
    return sorted(options) != list(range(int(min(options)), int(min(options)) + len(options)))


def called(node: ast.AST) -> str:
    """The last name of what is called: ``Explorer`` of ``view.Explorer(...)``."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def finer_names(sources: list[ast.Module]) -> set[str]:
    """Names of the controls that a chapter declares with finer live values, in place or as a variable."""
    nodes = [node for source in sources for node in ast.walk(source)]
    variables = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names = set()
    for node in nodes:
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            control = variables.get(value.id) if isinstance(value, ast.Name) else value
            given = {argument.arg for argument in getattr(control, "keywords", ())}
            if isinstance(key, ast.Constant) and FINER & given:
                names.add(str(key.value))
    return names


def coarse(notebook: dict[str, Any]) -> list[str]:
    """Controls of explorers that measure, which a kernel could move more finely, and does not."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = [ast.parse("".join(cell["source"])) for cell in cells]
    found, finer = [], finer_names(sources)
    for cell, source in zip(cells, sources, strict=True):
        calls = [node for node in ast.walk(source) if called(node) == "Explorer"]
        # None in place of a function: stored results, which the caption says where there is a kernel
        measures = any(not isinstance(call.args[0], ast.Constant) for call in calls)
        for output in cell["outputs"] if measures else ():
            spec = output.get("data", {}).get(VEGA_LITE, {})
            own = set(spec.get("usermeta", {}).get("embviz", {}).get("controls", [])) - finer
            bound = [one for one in spec.get("params", []) if one["name"] in own and "bind" in one]
            found += [one["name"] for one in bound if has_numbers_between(one["bind"])]
    return found


CHAPTERS = load_script("execute").chapters()


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_control_with_numbers_has_finer_values_with_a_kernel(path):
    found = coarse(json.loads(path.read_text(encoding="utf-8")))
    assert found == [], "give these controls live_step or live_values"


def test_a_slider_without_finer_values_is_found():
    spec = {
        "params": [
            {"name": "share", "bind": {"input": "range", "min": 0, "max": 1, "step": 0.25}},
            {"name": "heads", "bind": {"input": "radio", "options": [2, 1, 3]}},
            {"name": "widths", "bind": {"input": "select", "options": [16, 64, 256]}},
            {"name": "map", "bind": {"input": "radio", "options": ["a", "b"]}},
        ],
        "usermeta": {"embviz": {"controls": ["share", "heads", "widths", "map"]}},
    }
    source = "w = Choice([16, 64, 256], live_values=range(16, 257))\n"
    source += 'Explorer(f, {"widths": w, "share": Range(0, 1, 0.25)})'

    def made(source):
        cell = {"cell_type": "code", "source": source, "outputs": [{"data": {VEGA_LITE: spec}}]}
        return {"cells": [cell]}

    assert coarse(made(source)) == ["share"]
    assert coarse(made(source.replace("0.25)", "0.25, live_step=0.01)"))) == []
    assert coarse(made("Explorer(None, {})")) == []
