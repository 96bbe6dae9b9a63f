"""What chapters store for their pages: tables in the one typeset form, titles that follow their controls."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from tests.book.scripts import load_script

execute = load_script("execute")
CHAPTERS = {str(path.relative_to(execute.BOOK)): path for path in execute.chapters()}

# A title that no control changes may not state a result: it has no number and none of these verbs.
RESULT = re.compile(
    r"\d|\b(is|are|was|were|has|have|had|does|do|did|comes?|meets?|finds?|takes?|costs?|keeps?|draws?|learns?"
    r"|lowers?|raises?|falls?|rises?|pays?|spoils?|lies?|holds?|differs?|parts?|agrees?|grows?|ends?|saves?"
    r"|depends?|belongs?|knows?|moves?|proves?|sets?|names?|leaves?|needs?|groks?|stands?|shows?)\b",
    re.IGNORECASE,
)
ALLOWED: dict[tuple[str, str], str] = {  # (chapter, cell): why its title may stay
    ("geometry/pipeline.ipynb", "pipe-07"): "of all matrices at the end, whatever matrix is picked",
}


def outputs(chapter: str) -> Iterator[tuple[Any, Any]]:
    """Each cell with each of its outputs."""
    for cell in nbformat.read(CHAPTERS[chapter], as_version=4).cells:
        for output in cell.get("outputs", []):
            yield cell, output


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_raw_table_of_pandas_is_on_a_page(chapter):
    raw = []
    for cell, output in outputs(chapter):
        html, text = (output.get("data", {}).get(kind, "") for kind in ("text/html", "text/plain"))
        words = text + output.get("text", "")
        is_raw = 'class="dataframe"' in html or re.search(r"^(Name: .*, )?dtype: \w+$", words, re.MULTILINE)
        raw += [cell.id] if is_raw else []
    assert not raw, f"import book before the first table, or view.typeset(table): {raw}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_title_that_states_a_result_follows_the_controls(chapter):
    stuck = [
        f"{cell.id}: {titles[0]}"
        for cell, output in outputs(chapter)
        for titles in [titles_in_all_states(output.get("data", {}).get(execute.VEGA_LITE, {}))]
        if len(titles) == 1 and states_a_result(titles[0]) and (chapter, cell.id) not in ALLOWED
    ]
    assert not stuck


def titles_in_all_states(spec: dict[str, Any]) -> list[str]:
    """The title at each combination of the controls, repeated ones once; none without a control."""
    meta = spec.get("usermeta", {}).get("embviz", {})
    values = {name: choices for name, choices in bound(spec) if name != "frame" and len(choices) > 1}
    if not values or "title" not in meta:
        return []
    titles = [
        next((one["title"] for one in meta.get("titles", []) if fits(one, state)), meta["title"])
        for state in (dict(zip(values, own, strict=True)) for own in itertools.product(*values.values()))
    ]
    return list(dict.fromkeys(titles))


def bound(part: Any) -> Iterator[tuple[str, list[Any]]]:
    """Each control of a stored specification with the values that a reader can give it."""
    if isinstance(part, list):
        for one in part:
            yield from bound(one)
    if not isinstance(part, dict):
        return
    for param in part.get("params", []):
        bind = param.get("bind", {}) if isinstance(param, dict) else {}
        if isinstance(bind, dict) and "input" in bind:
            yield param["name"], choices_of(bind)
    for key in ("layer", "concat", "hconcat", "vconcat", "spec"):
        yield from bound(part.get(key))


def choices_of(bind: dict[str, Any]) -> list[Any]:
    if bind["input"] == "checkbox":
        return [False, True]
    if bind["input"] == "range":
        n_steps = round((bind["max"] - bind["min"]) / bind["step"])
        return [bind["min"] + place * bind["step"] for place in range(n_steps + 1)]
    return list(bind.get("options", []))


def fits(one: dict[str, Any], state: dict[str, Any]) -> bool:
    return all(
        state[name] == value or (isinstance(value, float) and abs(state[name] - value) < 1e-9)
        for name, value in one.items()
        if name != "title"
    )


def states_a_result(title: str) -> bool:
    return not title.endswith("?") and RESULT.search(title) is not None


def test_a_stuck_result_is_found_and_a_neutral_title_is_not():
    control = {"name": "seed", "bind": {"input": "select", "options": [0, 1]}}
    spec = {"params": [control], "usermeta": {"embviz": {"title": "The arms meet"}}}
    assert titles_in_all_states(spec) == ["The arms meet"]
    assert states_a_result("The arms meet")
    assert not states_a_result("Which of these have learned something?")
    assert not states_a_result("The trajectory of a run beside a random walk, step by step")
    spec["usermeta"]["embviz"]["titles"] = [{"seed": 0, "title": "one"}, {"seed": 1, "title": "two"}]
    assert titles_in_all_states(spec) == ["one", "two"]
