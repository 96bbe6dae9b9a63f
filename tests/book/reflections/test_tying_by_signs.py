"""Tying by signs: tables of made results, and what stands where nothing is stored."""

from types import SimpleNamespace

import pandas as pd
import pytest
from IPython.display import Markdown

from book.reflections import tying_by_signs as chapter
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled


def made_scores() -> pd.DataFrame:
    """Rows as stored models give them: two tests, two models, two seeds."""
    rows = [
        ("text8_prefix", signature, seed, test, score + 0.1 * seed)
        for signature, score in (("free", 0.4), ("half", 0.3))
        for seed in (1, 2)
        for test in ("wordsim", "men")
    ]
    return pd.DataFrame(rows, columns=["corpus", "signature", "seed", "test", "score"])


@pytest.fixture
def made_cells(monkeypatch):
    monkeypatch.setattr(chapter.vectors, "scores", lambda cells, way: made_scores())
    return [SimpleNamespace(config=SimpleNamespace(corpus="text8_prefix", n_epochs=15, embedding_dim=200))]


def test_scores_are_named_and_say_what_was_trained_on(made_cells):
    table = chapter.word_scores(made_cells)
    assert set(table["test"]) == {"WordSim-353", "MEN"}
    assert set(table["model"]) == {"SGNS", "WT"}
    assert table.attrs["run"] == "text8_prefix, 15 epochs, d = 200"


def test_ratios_are_taken_seed_by_seed(made_cells):
    table = chapter.ratios(chapter.word_scores(made_cells)).set_index(["test", "seed"])["ratio"]
    assert table["MEN", 1] == pytest.approx(0.4 / 0.5)
    assert table["MEN", 2] == pytest.approx(0.5 / 0.6, abs=1e-4)


def test_table_2_is_the_papers():
    table = chapter.table_2().set_index(["test", "model"])["score"]
    assert table["WordSim-353", "WT"] == 0.638
    assert len(table) == 18


def test_nothing_stored_gives_empty_tables_and_a_sentence():
    assert chapter.ratios(chapter.word_scores([])).empty
    said = chapter.shown(lambda: 1 / 0, [], "*Not stored yet.*")
    assert isinstance(said, Markdown)


def test_the_first_preset_that_is_whole_is_taken(monkeypatch):
    here, absent = (
        SimpleNamespace(path="a", stored=lambda: True),
        SimpleNamespace(path="b", stored=lambda: False),
    )
    cells_of = {"paper": [here, absent], "laptop": [here], "quick": []}.get
    assert chapter.stored(["paper", "laptop"], cells_of) == [here]
    assert chapter.stored(["paper"], cells_of) == []


def test_the_sweep_averages_similarities_and_keeps_the_analogy_tests_apart(monkeypatch):
    rows = [
        (0.5, 1, test, 1.0, value)
        for test, value in [("men", 0.8), ("mturk", 1.0), ("google", 0.5), ("msr", 0.7)]
    ]
    table = pd.DataFrame(rows, columns=["share", "seed", "test", "score", "relative"])
    monkeypatch.setattr(chapter.vectors, "sweep_scores", lambda: table)
    curves = chapter.sweep_curves().set_index("shown")["relative"]
    apart = {"Google's analogies": 0.5, "MSR's analogies": 0.7}
    assert curves.to_dict() == apart | {"similarities": pytest.approx(0.9)}


def test_a_test_that_no_model_passes_is_no_line_of_the_sweep(monkeypatch):
    rows = [
        (share, 1, test, score, score / flat)
        for test, flat in [("men", 0.4), ("rare_words", -0.01), ("mean", 1.0)]
        for share, score in [(0.1, 0.2), (0.5, flat), (1.0, 0.3)]
    ]
    table = pd.DataFrame(rows, columns=["share", "seed", "test", "score", "relative"])
    monkeypatch.setattr(chapter.vectors, "sweep_scores", lambda: table)
    curves = chapter.sweep_curves().query("shown == 'similarities'")
    assert curves["relative"].tolist() == [0.5, 1.0, 0.75]
    assert chapter.ends_of_sweep() == (
        "The mean score is highest where 50% of the signs are plus, and 20% where 10% are "
        "and 30% where 100% are (plateau: 100%)"
    )


def test_the_mark_stands_at_the_explorers_control():
    kinds = ["a", "b"]
    table = pd.DataFrame(
        {"share_plus": [0.0, 1.0] * 2, "kind": ["a", "a", "b", "b"], "score": [0.1, 0.9, 1, 0]}
    )
    explorer = Explorer(
        lambda share: {"curves": table},
        {"share": Choice([0.0, 0.5], "share")},
        lambda curves: chapter.with_mark(curves, kinds),
        title="a title",
        caption="a caption",
    )
    spec = explorer.static_spec()
    assert '"calculate": "share"' in str(spec).replace("'", '"')
    assert compiled(chapter.with_mark(table, kinds).transform_calculate(share="0.5"))


def test_factorizations_stand_in_a_row_each():
    cells = chapter.stored(["laptop"], chapter.factor_readings)
    table = chapter.factor_table(cells)
    assert len(table) == len(cells) + 1 == 5
    assert float(table.loc["window 5, count >= 100", "share of +1"]) > 0.6
    assert float(table.loc["window 5, count >= 100, tokens shuffled", "WordSim-353"]) < 0.2
    assert table.loc["items", "WordSim-353"] == "97", "of 353, the others have rare words"
