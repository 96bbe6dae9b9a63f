"""An altered picture fails, in each cell whose numbers differ between processors."""

import base64
import copy
import gzip
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from tests.book.conftest import BOOK
from tests.tolerated_pictures import (
    IGNORED,
    LAYOUT,
    VEGA_LITE,
    PictureError,
    faults,
    is_number,
    pytest_runtest_call,
)


def stored_pictures():
    """Each such picture of the book, with whether its coordinates come from a layout."""
    for path in sorted(BOOK.rglob("*.ipynb")):
        if "_build" in path.parts:
            continue
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            tags = cell["metadata"].get("tags", [])
            if cell["cell_type"] == "code" and IGNORED in tags:
                for output in cell["outputs"]:
                    if VEGA_LITE in output.get("data", {}):
                        name = f"{path.stem} {cell['id']}"
                        yield pytest.param(output["data"][VEGA_LITE], LAYOUT in tags, id=name)


PICTURES = list(stored_pictures())
every_picture = pytest.mark.parametrize(("picture", "layout"), PICTURES)


def tables(spec):
    """All lists of rows in a specification, to be changed in place."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == "datasets":
                yield from value.values()
            elif key == "values" and isinstance(value, list) and value and isinstance(value[0], dict):
                yield value
            else:
                yield from tables(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from tables(value)


def numbers_changed(spec, change):
    """A copy in which every number in the data is another."""
    spec = copy.deepcopy(spec)
    for rows in tables(spec):
        for row in rows:
            for column, value in row.items():
                if isinstance(value, list):
                    row[column] = [change(one) if is_number(one) else one for one in value]
                elif is_number(value):
                    row[column] = change(value)
    return spec


def with_mark(spec, mark):
    if isinstance(spec, dict):
        return {
            key: ({**value, "type": mark} if isinstance(value, dict) else mark)
            if key == "mark"
            else with_mark(value, mark)
            for key, value in spec.items()
        }
    return [with_mark(value, mark) for value in spec] if isinstance(spec, list) else spec


def test_there_are_such_pictures():
    assert len(PICTURES) >= 26


@every_picture
def test_a_picture_holds_beside_itself_and_beside_numbers_that_differ_a_little(picture, layout):
    assert faults(picture, picture, layout=layout) == []
    assert faults(picture, numbers_changed(picture, lambda value: value * 1.001), layout=layout) == []


def with_a_value_less(picture):
    longest = max(tables(picture), key=lambda rows: len(json.dumps(rows)))
    column = next((name for name, value in longest[0].items() if isinstance(value, list)), None)
    if column is None:
        longest.pop()
    else:
        longest[0][column] = longest[0][column][:-1]


def with_another_column(picture):
    for rows in tables(picture):
        for row in rows:
            name = next(iter(row))
            row[f"{name} of another"] = row.pop(name)


def with_other_words(picture):
    picture["description"] = f"Not {picture.get('description', '')}"


@every_picture
def test_a_picture_with_other_numbers_another_mark_a_value_less_another_column_or_other_words_fails(
    picture, layout
):
    assert faults(picture, numbers_changed(picture, lambda value: 7 - 3 * value), layout=layout)
    assert faults(picture, with_mark(picture, "arc"), layout=layout)
    for change in (with_a_value_less, with_another_column, with_other_words):
        altered = copy.deepcopy(picture)
        change(altered)
        assert faults(picture, altered, layout=layout), change.__name__


def outputs_of(picture):
    return [{"output_type": "display_data", "data": {VEGA_LITE: picture}}]


def checked_after(stored, drawn, tags=(IGNORED,)):
    """What the plugin does once a cell has run."""
    cell = SimpleNamespace(metadata={"tags": list(tags)}, outputs=stored)
    call = pytest_runtest_call(SimpleNamespace(cell=cell, test_outputs=drawn))
    next(call)
    with pytest.raises(StopIteration):
        call.send(None)


def test_the_plugin_fails_a_cell_that_draws_another_picture_and_leaves_the_others_alone():
    picture = PICTURES[0].values[0]
    other = numbers_changed(picture, lambda value: 7 - 3 * value)
    checked_after(outputs_of(picture), outputs_of(picture))
    checked_after(outputs_of(picture), outputs_of(other), tags=())  # nbval compares these itself
    with pytest.raises(PictureError, match="the picture is not the stored one"):
        checked_after(outputs_of(picture), outputs_of(other))
    with pytest.raises(PictureError, match="0 pictures, stored 1"):
        checked_after(outputs_of(picture), [])


DRAWN = {"mark": "point", "data": {"values": [{"x": x, "y": x**2} for x in range(5)]}}


def test_make_test_fails_a_notebook_whose_stored_picture_is_altered(tmp_path):
    source = f"from IPython.display import display\ndisplay({{{VEGA_LITE!r}: {DRAWN!r}}}, raw=True)"
    for name, stored in {"same": DRAWN, "altered": numbers_changed(DRAWN, lambda value: 7)}.items():
        cell = nbformat.v4.new_code_cell(source, execution_count=1, metadata={"tags": [IGNORED]})
        cell.outputs = [nbformat.v4.new_output("display_data", {VEGA_LITE: stored})]
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    makefile = (BOOK.parent / "Makefile").read_text(encoding="utf-8")
    (plugin,) = re.findall(r"^PICTURES := (.*)$", makefile, re.MULTILINE)
    assert "$(PICTURES)" in makefile.split("\ntest: setup")[1].split("\n\n")[0]
    command = [sys.executable, "-m", "pytest", *plugin.split(), "--nbval", "-p", "no:cacheprovider", "-rA"]
    done = subprocess.run([*command, tmp_path], cwd=BOOK.parent, capture_output=True, text=True, check=False)
    assert re.search(r"^PASSED .*same.ipynb::Cell 0", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^FAILED .*altered.ipynb::Cell 0", done.stdout, re.MULTILINE), done.stdout
    assert "column .data.values:y" in done.stdout


def test_clusters_of_a_layout_may_be_others_and_more_and_are_still_clusters():
    def picture(clusters):
        return {"data": {"values": [{"cluster": cluster} for cluster in clusters]}}

    stored = picture([-1, 0, 1, 2, 3, 4, 5, 6])
    assert faults(stored, picture([0, 0, 1, 1, 2, 2, 3, 3]), layout=True) == []
    assert faults(stored, picture([-1] * 8), layout=True)
    assert faults(stored, picture([0, 5, 10, 15, 20, 25, 30, 35]), layout=True)
    assert faults(stored, picture([7 - 3 * cluster for cluster in range(-1, 7)]), layout=True)


def a_map(sizes, packed=bytes(100)):
    """A picture of a map of so many words in each cluster."""
    columns = [{"name": "cluster", "kinds": list(sizes), "counts": list(sizes.values())}]
    regions = [{"text": kind, "size": size} for kind, size in sizes.items()]
    own = {"n_neighbors": 8, "columns": columns, "regions": regions}
    return {
        "usermeta": {"embviz": {"maps": [own | {"packed": base64.b64encode(gzip.compress(packed)).decode()}]}}
    }


def test_clusters_of_a_map_may_differ_by_a_few_words_and_of_a_map_laid_out_anew_in_all_but_their_number():
    stored = a_map({"plants": 60, "animals": 38, "tools": 2})
    assert faults(stored, a_map({"plants": 61, "animals": 37, "tools": 2})) == []
    assert faults(stored, a_map({"plants": 30, "animals": 68, "tools": 2}))
    assert faults(stored, a_map({"birds": 60, "animals": 38, "tools": 2}))
    assert faults(stored, a_map({"plants": 60, "animals": 38, "tools": 2}, bytes(90) + bytes(range(1, 11))))
    other = a_map({"birds": 50, "fish": 50}, b"others")
    assert faults(stored, other, layout=True) == []
    assert faults(stored, a_map({f"kind {i}": 1 for i in range(40)}), layout=True)
