"""Computations in view: what is stored is shown, what is computed is compared, and a difference is said."""

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import Latex
from IPython.utils.capture import capture_output

from book.view.in_view import NothingStoredError, grid_in_view, in_view, picture_in_view
from embviz.view import Range

LOSSES = pd.DataFrame({"seed": [0, 0, 1, 1], "loss": [2.0, 1.0, 2.0, 1.5]})


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """Results in an empty folder, as a page is made."""
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EMBVIZ_GRIDS", "1")
    monkeypatch.delenv("EMBVIZ_COMPUTE", raising=False)


def store(monkeypatch, table=LOSSES, name="reflections.made"):
    with monkeypatch.context() as patch:
        patch.setenv("EMBVIZ_COMPUTE", "store")
        return in_view(name, lambda: table, within=0)


def moved(by):
    return lambda: LOSSES.assign(loss=LOSSES["loss"] + by)


def test_a_page_shows_what_is_stored_and_computes_nothing(monkeypatch, capsys):
    store(monkeypatch)
    shown = in_view("reflections.made", lambda: 1 / 0, within=0)
    pd.testing.assert_frame_equal(shown, LOSSES)
    assert capsys.readouterr().out == ""


def test_a_page_without_a_stored_result_names_the_command_that_stores_it():
    with pytest.raises(NothingStoredError, match=r"nothing is stored under .*--compute CHAPTER stores it"):
        in_view("reflections.made", moved(0), within=0)


@pytest.mark.parametrize(("by", "said"), [(0.09, ""), (0.11, "mean loss 1.61, stored 1.5 (within 0.1) 0")])
def test_a_page_that_computes_shows_the_computed_value_only_beyond_the_tolerance(
    monkeypatch, capsys, by, said
):
    store(monkeypatch)
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    shown = in_view("reflections.made", moved(by), within=0.1, by="seed")
    printed = capsys.readouterr().out
    assert said in printed
    assert bool(printed) == bool(said)
    assert shown["loss"].mean() == pytest.approx(LOSSES["loss"].mean() + (by if said else 0))


def test_a_live_notebook_shows_what_it_computed_and_says_what_is_stored(monkeypatch, capsys):
    store(monkeypatch)
    monkeypatch.delenv("EMBVIZ_GRIDS")
    assert in_view("reflections.made", moved(0.01), within=0.1)["loss"].tolist() == LOSSES["loss"].tolist()
    assert "with EMBVIZ_COMPUTE=1" in capsys.readouterr().out
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    assert in_view("reflections.made", moved(0.01), within=0.1)["loss"][0] == pytest.approx(2.01)
    assert in_view("reflections.other", moved(0.01), within=0.1)["loss"][0] == pytest.approx(2.01)


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (LOSSES.iloc[::-1], {}, ""),
        (LOSSES.iloc[::-1], {"each": True}, "loss differs by 1, more than 0.1"),
        (LOSSES[:3], {"each": True}, "3 rows, stored 4"),
        (LOSSES[:2], {"by": "seed"}, "groups [(0,)], stored [(0,), (1,)]"),
        (LOSSES.assign(loss=[9.0, -6.0, 9.0, -6.0]), {}, "min loss -6, stored 1"),
        (LOSSES.rename(columns={"loss": "nats"}), {}, "columns ['seed', 'nats'], stored ['seed', 'loss']"),
        (LOSSES.assign(seed=7), {"within": {"loss": 0.1}}, ""),
        (LOSSES.assign(seed=7), {}, "mean seed 7, stored 0.5"),
    ],
)
def test_tables_are_compared_by_groups_or_row_by_row(monkeypatch, capsys, table, options, said):
    store(monkeypatch)
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    in_view("reflections.made", lambda: table, **{"within": 0.1} | options)
    printed = capsys.readouterr().out
    assert said in printed
    assert bool(printed) == bool(said)


def test_a_grid_is_stored_whole_and_measured_live(monkeypatch, capsys):
    controls = {"k": Range(1, 3, 1)}

    def measure(k):
        return pd.DataFrame({"t": [0, 1], "y": [0, k]})

    with monkeypatch.context() as patch:
        patch.setenv("EMBVIZ_COMPUTE", "store")
        grid_in_view("reflections.lines", measure, controls, within=0)
    grid = grid_in_view("reflections.lines", None, controls, within=0)
    assert grid.groupby("k")["y"].max().to_dict() == {1: 1, 2: 2, 3: 3}
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    grid_in_view("reflections.lines", lambda k: measure(k + (k == 2)), controls, within=0.1)
    assert "mean y 1.5, stored 1 (within 0.1) 2" in capsys.readouterr().out
    monkeypatch.delenv("EMBVIZ_GRIDS")
    assert grid_in_view("reflections.lines", measure, controls, within=0) is None


def test_a_grid_of_several_tables_is_stored_table_by_table(monkeypatch, capsys):
    controls = {"k": Range(1, 2, 1)}
    within = {"lines": {"y": 0.1}, "ends": {"z": 0.1}}

    def measure(k):
        return {"lines": pd.DataFrame({"y": [0, k]}), "ends": pd.DataFrame({"z": [k]})}

    with monkeypatch.context() as patch:
        patch.setenv("EMBVIZ_COMPUTE", "store")
        grid_in_view("reflections.pair", measure, controls, within=within)
    grid = grid_in_view("reflections.pair", None, controls, within=within)
    assert grid["ends"].to_dict("list") == {"z": [1, 2], "k": [1, 2]}
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    grid_in_view("reflections.pair", lambda k: measure(k + 1), controls, within=within)
    assert "mean z 2, stored 1 (within 0.1) 1" in capsys.readouterr().out


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_picture_is_stored_as_a_page_shows_it_and_is_itself_in_a_live_notebook(monkeypatch, shell):
    made = Latex("$x$")
    with monkeypatch.context() as patch:
        patch.setenv("EMBVIZ_COMPUTE", "store")
        with capture_output():
            picture_in_view("reflections.picture", lambda: made)
    with capture_output() as captured:
        assert picture_in_view("reflections.picture", lambda: 1 / 0) is None
    (output,) = captured.outputs
    assert output.data["text/latex"] == "$x$"
    monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
    monkeypatch.delenv("EMBVIZ_GRIDS")
    assert picture_in_view("reflections.picture", lambda: made) is made


class Chart:
    """Shows itself as a chart with a title and a caption."""

    def __init__(self, title, caption):
        self.about = {"title": title, "caption": caption}

    def _repr_mimebundle_(self, **_):
        return {
            "text/plain": "<chart>",
            "application/vnd.vegalite.v5+json": {"usermeta": {"embviz": self.about}},
        }


@pytest.mark.parametrize(
    ("computed", "said"),
    [
        (Chart("5 clusters", "Seed 0."), ""),  # another number of them
        (Chart("4 phases", "Seed 0."), "'<chart> # phases Seed #.', stored '<chart> # clusters Seed #.'"),
        (Chart("4 clusters", "Mean of seeds."), "'<chart> # clusters Mean of seeds.', stored"),
    ],
)
def test_a_computed_picture_has_the_words_of_the_stored_one(monkeypatch, shell, computed, said):
    with capture_output() as captured:
        monkeypatch.setenv("EMBVIZ_COMPUTE", "store")
        picture_in_view("reflections.chart", lambda: Chart("4 clusters", "Seed 0."))
        monkeypatch.setenv("EMBVIZ_COMPUTE", "1")
        picture_in_view("reflections.chart", lambda: computed)
    assert said in captured.stdout
    assert bool(captured.stdout) == bool(said)
