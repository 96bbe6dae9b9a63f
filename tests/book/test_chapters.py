"""Every chapter as it is stored, and the code that stores it, folds it and fills in its claims."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import yaml
from docutils import nodes
from docutils.parsers.rst import DirectiveError
from sphinx.util import logging

from book import ledger
from book.ledger.places import ledger_path
from book.view.blocks import fill_notebook
from tests.book.conftest import BOOK
from tests.book.scripts import load_script

execute, depth = load_script("execute"), load_script("ext/depth")
CHAPTERS = {str(path.relative_to(BOOK)): path for path in execute.chapters()}
PARTS = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))["parts"]
NUMBERED = [BOOK / chapter["file"] for part in PARTS if part.get("numbered") for chapter in part["chapters"]]
HEAD = re.compile(r"\*\*Prerequisites:\*\* (.+?)\.(?: \*\*Time:.*)?")
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
# A title that no control changes may not state a result: it has no number and none of these verbs.
RESULT = re.compile(
    r"\d|\b(is|are|was|were|has|have|had|does|do|did|comes?|meets?|finds?|takes?|costs?|keeps?|draws?|learns?"
    r"|lowers?|raises?|falls?|rises?|pays?|spoils?|lies?|holds?|differs?|parts?|agrees?|grows?|ends?|saves?"
    r"|depends?|belongs?|knows?|moves?|proves?|sets?|names?|leaves?|needs?|groks?|stands?|shows?)\b",
    re.IGNORECASE,
)
ALLOWED = {("geometry/pipeline.ipynb", "pipe-07")}  # its title is of all matrices, whichever is picked


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_stored_as_its_readers_need_it(chapter):
    path = CHAPTERS[chapter]
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [
        *execute.faults(notebook, text),
        *faults_of_head(path, notebook.cells),
        *(f"{cell.id}: a raw table: import book first, or typeset it" for cell in code if is_raw(cell)),
        *(
            f"{cell.id}: {title!r} does not follow the controls"
            for cell, title in stuck_titles(chapter, code)
        ),
        *(f"{cell.id}: {name} needs live_step or live_values" for cell, name in coarse_controls(code)),
    ] == []
    fill_notebook(path.read_bytes(), chapter.removesuffix(".ipynb"))  # refused if a verdict has moved


# --- head and claims ------------------------------------------------------------------------------------


def faults_of_head(path: Path, cells: list[Any]) -> Iterator[str]:
    """Below the title of a chapter with exercises stands what to read before, which comes earlier."""
    if path.with_suffix("") not in NUMBERED or not any("## Exercises" in cell.source for cell in cells):
        return
    title, _, head = cells[0].source.splitlines()[:3]
    said = HEAD.fullmatch(head)
    if not title.startswith("# ") or not said:
        yield f"{head!r} is not of the form **Prerequisites:** ..."
        return
    for words, address in LINK.findall(said[1]):
        before = (path.parent / address).resolve()
        if json.dumps(f"# {words}\n", ensure_ascii=False) not in before.read_text(encoding="utf-8"):
            yield f"{address} has another title than {words!r}"
        if NUMBERED.index(before.with_suffix("")) >= NUMBERED.index(path.with_suffix("")):
            yield f"{address} comes later"


def test_every_claim_has_its_line_in_the_chapter_that_it_names():
    for claim in ledger.load_claims():
        source = CHAPTERS[f"{claim.chapter}.ipynb"].read_text(encoding="utf-8")
        assert f"```{{claim}} {claim.id}\\n" in source, claim.id


def test_a_block_on_a_page_shows_the_ledger_and_one_that_names_nothing_is_an_error():
    noted: list[str] = []
    settings = SimpleNamespace(env=SimpleNamespace(note_dependency=noted.append, docname="kernel/algebra"))
    state = SimpleNamespace(document=SimpleNamespace(settings=settings))

    class Block(load_script("ext/claims").LedgerBlock):
        def parse_text_to_nodes(self, text):
            return [nodes.raw("", text)]

    def shown(claim: str) -> list[nodes.Node]:
        return Block("claim", [claim], {}, [], 1, 0, "", state, SimpleNamespace(reporter=None)).run()

    assert shown("kernel.exact")[0].astext().startswith("<p class='ev-claim' id='kernel.exact'>")
    assert str(ledger_path()) in noted  # the page is built again when the ledger changes
    with pytest.raises(DirectiveError) as refused:
        shown("kernel.nothing")
    assert "kernel.nothing" in refused.value.msg


# --- titles and tables ----------------------------------------------------------------------------------


def pictures(cell: Any) -> list[dict[str, Any]]:
    kind = execute.VEGA_LITE
    return [one.data[kind] for one in cell.outputs if kind in one.get("data", {})]


def is_raw(cell: Any) -> bool:
    """Whether a cell shows a table as pandas would."""
    shown = [{"text/plain": one.get("text", ""), **one.get("data", {})} for one in cell.outputs]
    html, text = ("\n".join(str(one.get(kind, "")) for one in shown) for kind in ("text/html", "text/plain"))
    return 'class="dataframe"' in html or bool(re.search(r"^(Name: .*, )?dtype: \w+$", text, re.MULTILINE))


def stuck_titles(chapter: str, code: list[Any]) -> Iterator[tuple[Any, str]]:
    for cell in code:
        for spec in pictures(cell) if (chapter, cell.id) not in ALLOWED else ():
            titles = titles_in_all_states(spec)
            if len(titles) == 1 and states_a_result(titles[0]):
                yield cell, titles[0]


def titles_in_all_states(spec: dict[str, Any]) -> list[str]:
    """The title at each combination of the controls, repeated ones once; none without a control."""
    meta = spec.get("usermeta", {}).get("embviz", {})
    values = {name: choices for name, choices in bound(spec) if name != "frame" and len(choices) > 1}
    if not values or "title" not in meta:
        return []
    states = (dict(zip(values, own, strict=True)) for own in itertools.product(*values.values()))
    own = meta.get("titles", [])
    return list(
        dict.fromkeys(
            next((one["title"] for one in own if fits(one, state)), meta["title"]) for state in states
        )
    )


def bound(part: Any) -> Iterator[tuple[str, list[Any]]]:
    """Each control of a stored specification with the values that a reader can give it."""
    for one in part if isinstance(part, list) else ():
        yield from bound(one)
    if isinstance(part, dict):
        for param in part.get("params", []):
            bind = param.get("bind", {})
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


# --- controls -------------------------------------------------------------------------------------------


def coarse_controls(code: list[Any]) -> Iterator[tuple[Any, str]]:
    """Controls of explorers that measure, which a kernel could move more finely, and does not."""
    sources = [ast.parse(cell.source) for cell in code]
    finer = finer_names(sources)
    for cell, source in zip(code, sources, strict=True):
        calls = [node for node in ast.walk(source) if isinstance(node, ast.Call)]
        explorers = [call for call in calls if ast.unparse(call.func).split(".")[-1] == "Explorer"]
        # None in place of a function: stored results, which the caption says where there is a kernel
        measures = any(not isinstance(call.args[0], ast.Constant) for call in explorers)
        for spec in pictures(cell) if measures else ():
            own = set(spec.get("usermeta", {}).get("embviz", {}).get("controls", [])) - finer
            for param in spec.get("params", []):
                if param["name"] in own and has_numbers_between(param.get("bind", {})):
                    yield cell, param["name"]


def has_numbers_between(bind: dict[str, Any]) -> bool:
    """Does a control have numbers, and not whole ones that follow one another, with none in between?"""
    options = bind.get("options", [])
    if bind.get("input") == "range":
        return bool(bind["step"] != 1)
    if not options or not all(type(option) in (int, float) for option in options):
        return False
    return sorted(options) != list(range(int(min(options)), int(min(options)) + len(options)))


def finer_names(sources: list[ast.Module]) -> set[str]:
    """Names of the controls that a chapter declares with finer live values, in place or as a variable."""
    parts = [node for source in sources for node in ast.walk(source)]
    assigned = [(target, one.value) for one in parts if isinstance(one, ast.Assign) for target in one.targets]
    variables = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    return {
        str(key.value)
        for one in parts
        if isinstance(one, ast.Dict)
        for key, value in zip(one.keys, one.values, strict=True)
        for control in [variables.get(value.id) if isinstance(value, ast.Name) else value]
        for argument in getattr(control, "keywords", ())
        if isinstance(key, ast.Constant) and argument.arg in ("live_step", "live_values")
    }


def test_a_slider_without_finer_values_is_found():
    binds = {
        "share": {"input": "range", "min": 0, "max": 1, "step": 0.25},
        "heads": {"input": "radio", "options": [2, 1, 3]},
        "widths": {"input": "select", "options": [16, 64, 256]},
        "map": {"input": "radio", "options": ["a", "b"]},
    }
    params = [{"name": name, "bind": bind} for name, bind in binds.items()]
    spec = {"params": params, "usermeta": {"embviz": {"controls": list(binds)}}}
    source = "w = Choice([16, 64, 256], live_values=range(16, 257))\n"
    source += 'Explorer(f, {"widths": w, "share": Range(0, 1, 0.25)})'

    def coarse(source: str) -> list[str]:
        output = display(**{execute.VEGA_LITE: spec})
        return [name for _, name in coarse_controls([nbformat.v4.new_code_cell(source, outputs=[output])])]

    assert coarse(source) == ["share"]
    assert coarse(source.replace("0.25)", "0.25, live_step=0.01)")) == []
    assert coarse("Explorer(None, {})") == []


# --- the stored form ------------------------------------------------------------------------------------

SPEC = {"mark": "point", "data": {"values": [{"x": 1.5}]}, "values": [1, 2.5, -3e-05]}


def stored(*outputs: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook of one cell in the stored form."""
    code = nbformat.v4.new_code_cell("1 + 1", outputs=list(outputs), execution_count=1)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), code])
    execute.clean(book)
    return book


def display(**data: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data={name.replace("__", "/"): data[name] for name in data})


def charted(**meta: object) -> nbformat.NotebookNode:
    return display(**{execute.VEGA_LITE: {**SPEC, "usermeta": {"embviz": meta}}, "text__plain": "<x>"})


def faults(book: nbformat.NotebookNode) -> list[str]:
    return execute.faults(book, execute.serialized(book))


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (display(**{execute.WIDGET: {"model_id": "x"}}), "Vega-Lite twin"),
        (charted(first=True), "shows an explorer's first picture alone"),
        (charted(gaps=[{"n": 3, "message": "Nothing was measured here."}]), "could not be measured at some"),
        (nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "ValueError: no"),
        (nbformat.v4.new_output("stream", name="stderr", text="FutureWarning: soon"), "to stderr: Future"),
        (display(text__plain="x" * execute.SIZE_LIMIT), "2,000,"),
    ],
)
def test_what_a_page_cannot_show_or_should_not_is_a_fault(output, fault):
    book = stored(output)
    assert fault in faults(book)[0]
    book.cells[1].metadata["tags"] = ["raises-exception"]  # an error that was announced is none
    assert bool(faults(book)) == (output.output_type != "error")


def test_what_programs_remember_goes_and_what_authors_wrote_stays():
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("one ", "line\n")]
    chart = charted()
    chart.data[execute.WIDGET] = {"model_id": "x"}
    book = stored()
    book.metadata |= {"widgets": {}, "language_info": {"name": "python", "version": "3.99"}}
    book.cells[1].metadata = {"tags": ["hide-input"], "execution": {"iopub.status.busy": "now"}}
    book.cells[1].execution_count, book.cells[1].outputs = 17, [*pieces, chart]
    execute.clean(book)
    assert book.metadata == {"kernelspec": execute.KERNEL, "language_info": {"name": "python"}}
    assert (book.cells[1].metadata, book.cells[1].execution_count) == ({"tags": ["hide-input"]}, 1)
    text, shown = book.cells[1].outputs
    assert (text.text, set(shown.data)) == ("one line\n", {execute.VEGA_LITE, "text/plain"})
    once = execute.serialized(book)
    assert "[1, 2.5, -3e-05]" in once  # numbers take one line, and lose nothing
    assert json.loads(once) == json.loads(nbformat.writes(book))
    execute.clean(again := nbformat.reads(once, as_version=4))
    assert execute.serialized(again) == once
    assert faults(book) == []
    book.cells[1].execution_count = None
    assert "cell 1 has not been run" in faults(book)


def test_check_tells_by_name_and_exit_status(tmp_path, capsys):
    path = tmp_path / "chapter.ipynb"
    book = stored(display(text__plain="2"))
    for status in (0, 1):
        path.write_text(execute.serialized(book), encoding="utf-8")
        assert execute.main(["--check", str(path)]) == status
        book.cells[1].metadata["scrolled"] = True
    assert "run book/execute.py on it" in capsys.readouterr().out


# --- folds ----------------------------------------------------------------------------------------------


def page_with(comment: str, *before: nodes.Node) -> nodes.document:
    page, note = nodes.document(None, None), nodes.raw("", f"<!-- {comment} -->", format="html")
    page += nodes.section("", nodes.title("", "More"), *before, note, nodes.paragraph("", "a"), ids=["one"])
    depth.fold_sections(None, page)
    return page


def test_what_follows_the_comment_below_a_heading_and_no_other_is_folded(monkeypatch: pytest.MonkeyPatch):
    heard: list[str] = []
    monkeypatch.setattr(logging.SphinxLoggerAdapter, "warning", lambda _, text, **__: heard.append(text))
    assert next(page_with("a note").findall(depth.depth), None) is None
    heading, fold = page_with("depth: two readings")[0].children
    assert (heading.astext(), fold["holds"], fold.astext()) == ("More", "two readings", "a")
    assert heard == []
    page_with("depth: late", nodes.paragraph("", "before"))
    assert heard == ["depth: no heading before it"]
