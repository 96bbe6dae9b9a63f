"""book/execute.py: outputs in one form, the same bytes each time, with nothing a static page can't show."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from tests.book.scripts import load_script

execute = load_script("execute")
SPEC = {"mark": "point", "data": {"values": [{"x": 1.5}]}, "values": [1, 2.5, -3e-05]}


def notebook(*outputs: nbformat.NotebookNode, source: str = "1 + 1") -> nbformat.NotebookNode:
    code = nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), code])


def display(**data: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_output(
        "display_data", data={key.replace("__", "/"): value for key, value in data.items()}
    )


def stored(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    execute.clean(book)
    return book


def faults(book: nbformat.NotebookNode) -> list[str]:
    return execute.faults(book, execute.serialized(book))


def charted(**meta: object) -> nbformat.NotebookNode:
    return display(**{execute.VEGA_LITE: {**SPEC, "usermeta": {"embviz": meta}}, "text__plain": "<x>"})


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
)  # fmt: skip
def test_what_a_page_cannot_show_or_should_not_is_a_fault(output, fault):
    book = stored(notebook(output))
    assert fault in faults(book)[0]
    book.cells[1].metadata["tags"] = ["raises-exception"]  # an error that was announced is none
    assert bool(faults(book)) == (output.output_type != "error")


def test_a_cell_that_was_not_run_is_a_fault():
    book = stored(notebook())
    book.cells[1].execution_count = None
    assert "cell 1 has not been run" in faults(book)


def test_a_widget_view_goes_where_a_twin_stands_beside_it():
    output = charted()
    output.data[execute.WIDGET] = {"model_id": "x"}
    book = stored(notebook(output))
    assert set(book.cells[1].outputs[0].data) == {execute.VEGA_LITE, "text/plain"}
    assert faults(book) == []


def test_what_programs_remember_goes_and_what_authors_wrote_stays():
    book = notebook()
    book.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    book.metadata["language_info"] = {"name": "python", "version": "3.99"}
    book.cells[1].metadata = {"tags": ["hide-input"], "execution": {"iopub.status.busy": "now"}}
    book.cells[1].execution_count = 17
    execute.clean(book)
    assert book.metadata == {"kernelspec": execute.KERNEL, "language_info": {"name": "python"}}
    assert book.cells[1].metadata == {"tags": ["hide-input"]}
    assert book.cells[1].execution_count == 1


def test_pieces_of_one_stream_are_joined_and_cleaning_twice_changes_nothing():
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("one ", "line\n")]
    book = stored(notebook(*pieces))
    assert [output.text for output in book.cells[1].outputs] == ["one line\n"]
    once = execute.serialized(book)
    assert execute.serialized(stored(nbformat.reads(once, as_version=4))) == once


def test_lists_of_numbers_take_one_line_and_lose_nothing():
    book = stored(notebook(display(**{execute.VEGA_LITE: SPEC, "text__plain": "[\n 1,\n 2\n]"})))
    text = execute.serialized(book)
    assert "[1, 2.5, -3e-05]" in text
    assert json.loads(text) == json.loads(nbformat.writes(book))


def test_what_a_cell_shows_of_the_ledger_is_not_stored():
    book = notebook(display(text__plain="holds"))
    book.cells[1].metadata["tags"] = ["ledger", "nbval-ignore-output"]
    assert faults(book)[0] == "cell 1 shows the ledger, and its output is stored"
    assert stored(book).cells[1].outputs == []
    assert faults(book) == []


def test_check_tells_by_name_and_exit_status(tmp_path, capsys):
    path = tmp_path / "chapter.ipynb"
    book = stored(notebook(display(text__plain="2")))
    path.write_text(execute.serialized(book), encoding="utf-8")
    assert execute.main(["--check", str(path)]) == 0
    book.cells[1].metadata["scrolled"] = True
    path.write_text(execute.serialized(book), encoding="utf-8")
    assert execute.main(["--check", str(path)]) == 1
    assert "run book/execute.py on it" in capsys.readouterr().out


@pytest.mark.parametrize("path", execute.chapters(), ids=lambda path: path.stem)
def test_every_chapter_is_in_the_stored_form(path: Path):
    assert execute.check(path) == []
