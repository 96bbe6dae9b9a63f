"""A function that is defined again in its own cell is the one that an explorer calls."""

import altair as alt
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from embviz.view import redefined
from embviz.view.explorers import Explorer

CELL = """
import pandas as pd

def measured(n):
    return pd.DataFrame({{"x": [{value}]}})
"""


@pytest.fixture
def run():
    """Runs a cell of a notebook, by its identifier."""
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))

    def note(result):
        redefined.note_functions(result.info.cell_id, shell.user_ns)

    shell.events.register("post_run_cell", note)
    before = dict(redefined._NEWEST)

    def run_cell(source: str, cell: str | None) -> dict:
        assert shell.run_cell(source, cell_id=cell).success
        return shell.user_ns

    yield run_cell
    redefined._NEWEST.clear()
    redefined._NEWEST.update(before)


def shown(explorer: Explorer) -> list:
    return explorer.answer({"n": 1})["tables"]["measured"][0]["x"]


def test_the_next_move_calls_the_function_as_its_cell_defines_it_now(run):
    function = run(CELL.format(value=1), "a")["measured"]
    explorer = Explorer(function, {"n": [1, 2]}, lambda data: alt.Chart(data).mark_point().encode(x="x:Q"))
    assert explorer.spec["data"]["values"][0]["x"] == [1]
    run(CELL.format(value=2), "b")  # another cell's function of the same name is another function
    assert shown(explorer) == [1]
    run(CELL.format(value=3), "a")
    assert shown(explorer) == [3]
    assert explorer.grid()["x"].tolist() == [3, 3]
    run(CELL.format(value=4), "a")
    assert explorer.grid()["x"].tolist() == [4, 4]
    run(CELL.format(value=5), None)
    assert shown(explorer) == [4]


def test_what_no_cell_defined_is_called_as_it_is():
    assert redefined.newest(len) is len
    assert redefined.newest(shown) is shown
