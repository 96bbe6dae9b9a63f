"""A typeset table has aligned decimals, plain names, whole counts, grey controls and no Python in it."""

import re

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from embviz.labels import LABELS, Label
from embviz.view import save_page, typeset, typeset_frames

FIGURE_SPACE = "\u2007"


def column(table, place):
    return [cells[place].replace(FIGURE_SPACE, " ") for cells in typeset(table).cells]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([0.0, 0.25], ["0", "0.25"]),
        ([-0.0, 0.25], ["0", "0.25"]),
        ([2.07e-18, 0.0, -0.5], [" 2.07e-18", " 0", "−0.5"]),
        ([0.51234, 12.25], [" 0.51", "12.25"]),
        ([0.9959, 0.24], ["0.9959", "0.2400"]),  # as their author rounded them
        (np.array([0.42, 0.36], dtype=np.float32), ["0.42", "0.36"]),
    ],
)
def test_a_number_has_the_digits_that_tell_it_apart_and_no_others(values, written):
    assert column(pd.DataFrame({"x": values}), 0) == written


def test_a_plain_word_is_not_taken_for_another_charts_axis(monkeypatch):
    monkeypatch.setitem(LABELS, "moment", Label("measured over its scale"))
    assert typeset(pd.DataFrame({"moment": [1], "share of W_K": [1]})).titles == [["moment", "share of W_K"]]


def test_no_tuple_and_no_row_of_index_names_is_shown():
    table = pd.DataFrame({"setting": [(14, 4)], "found": [True], "gap": [None]})
    assert typeset(table).cells == [["14, 4", "yes", "–"]]
    assert typeset(table)._repr_html_().count("<tr>") == 2
    assert repr(typeset(table)).count("\n") == 2


def test_an_index_of_several_names_says_each_once():
    index = pd.MultiIndex.from_product([["a", "b"], ["x", "y"]], names=["text", "part"])
    cells = typeset(pd.DataFrame({"n": [1, 2, 3, 4]}, index=index)).cells
    assert [row[:2] for row in cells] == [["a", "x"], ["", "y"], ["b", "x"], ["", "y"]]


def test_columns_of_two_levels_share_a_heading():
    table = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([["before"], ["x", "y"]]), index=["a"])
    assert typeset(table).titles == [["", "before", "before"], ["", "x", "y"]]
    assert '<th colspan="2" scope="colgroup">before</th>' in typeset(table)._repr_html_()
    assert repr(typeset(table)).splitlines()[0].split() == ["before"]


def test_controls_are_grey_by_name():
    table = pd.DataFrame({"n": [1, 2, 3]}, index=["training", "random walk", "shuffled text"])
    assert grey(typeset(table)) == ["random walk", "shuffled text"]
    assert grey(typeset(table.tail(2))) == []
    drawn = pd.DataFrame({"n": [1, 2, 3]}, index=["near-Nyquist", "random subspace", "word and its rotation"])
    assert grey(typeset(drawn)) == ["random subspace", "word and its rotation"]


def grey(shown):
    return re.findall(r'<tr class="control"><th class="short" scope="row">(.*?)</th>', shown._repr_html_())


def test_words_are_text_and_never_html():
    table = pd.DataFrame({"<b>x": ["<script>alert(1)</script>"]}, index=["</td>"])
    shown = typeset(table, note="<i>")._repr_html_()
    assert not re.search("<script|<b>|<i>|<th.*?></td>", shown)


def test_a_long_table_says_how_much_of_it_is_shown():
    shown = typeset(pd.DataFrame({"x": np.arange(100)}))
    assert len(shown.cells) == 60
    assert shown.note == "The first 60 of 100 rows."


def test_a_notebook_shows_frames_and_series_typeset():
    shell = InteractiveShell.instance()
    try:
        typeset_frames()
        for table in (pd.DataFrame({"n_phases": [3.0]}), pd.Series([3.0], name="n_phases")):
            data, _ = shell.display_formatter.format(table)
            assert data["text/plain"].split() == ["phases", "------", "3"]
            assert 'class="dataframe"' not in data["text/html"]
            assert "<th" in data["text/html"]
    finally:
        InteractiveShell.clear_instance()


def test_a_saved_page_has_its_tables_typeset(tmp_path):
    save_page([], tmp_path / "page.html", tables={"runs": pd.DataFrame({"n_phases": [3.0]})})
    assert '<th scope="col">phases</th>' in (tmp_path / "page.html").read_text(encoding="utf-8")
