"""The chapter on one shape or many: drawings laid on each other, tables and sentences of what is stored."""

import numpy as np
import pytest

from embviz import cells
from embviz.chapters import one_shape as chapter
from embviz.experiments.geometry import trajectory_recordings, trajectory_runs
from embviz.experiments.geometry.trajectory_findings import STUDIES
from embviz.explorers import Choice, Explorer
from embviz.metrics import procrustes_disparity
from tests.drawing import compiled
from tests.tiny_runs import tiny_runs

STORIES, WITHOUT = "short stories", "short stories, no Q"


def clear() -> None:
    for function in (
        chapter.groups,
        chapter.largest_disparity,
        chapter.shapes,
        chapter.plane,
        chapter.steps,
    ):
        function.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Tiny runs, stored where the quick ones belong."""
    folder = tmp_path_factory.mktemp("shapes")
    with tiny_runs(folder):
        cells.run(STUDIES["geometry.trajectories_shape"].preset_cells("quick"), n_jobs=1, progress=False)
        clear()
        yield folder
    clear()


# --- one drawing laid on another ------------------------------------------------------------------------


def test_a_drawing_that_was_turned_mirrored_scaled_and_shifted_is_laid_back():
    target = np.random.default_rng(0).standard_normal((40, 2))
    turn = np.array([[0.6, 0.8], [0.8, -0.6]])  # a reflection
    np.testing.assert_allclose(chapter.laid_on(3 * target @ turn + 7, target), target, atol=1e-12)


def test_what_is_left_of_a_laid_drawing_is_its_disparity():
    rng = np.random.default_rng(1)
    points, target = rng.standard_normal((2, 40, 2)) + 5
    left = ((chapter.laid_on(points, target) - target) ** 2).sum()
    whole = ((target - target.mean(axis=0)) ** 2).sum()
    assert left / whole == pytest.approx(procrustes_disparity(points, target))


def test_no_turn_and_no_scale_lies_nearer():
    rng = np.random.default_rng(2)
    points, target = rng.standard_normal((2, 30, 2))
    best = ((chapter.laid_on(points, target) - target) ** 2).sum()
    moved = points - points.mean(axis=0)
    for angle in np.linspace(0, 2 * np.pi, 24):
        for mirror in (1, -1):
            turn = np.array(
                [[np.cos(angle), -np.sin(angle)], [mirror * np.sin(angle), mirror * np.cos(angle)]]
            )
            for scale in (0.1, 0.5, 1.0, 2.0):
                other = scale * moved @ turn + target.mean(axis=0)
                assert ((other - target) ** 2).sum() >= best - 1e-9


# --- what is stored -------------------------------------------------------------------------------------


def test_runs_are_grouped_by_text_and_variant_and_said_in_the_caption():
    assert {name: len(group) for name, group in chapter.groups().items()} == {STORIES: 2, WITHOUT: 2}
    assert chapter.is_stored()
    assert chapter.note() == "Text: embedded; 1 layers of width 8, 80 steps; 2 seeds."
    assert chapter.panel_runs() == ["short stories, seed 0"]  # every kind of matrix is drawn: W_Q too


def test_panels_hold_both_drawings_and_their_disparity():
    grid = chapter.panel_grid()
    run = chapter.first_group()[0]
    own = grid[(grid["kind"] == "V") & (grid["shown"] == "random walks")]
    walks = [
        trajectory_runs.layout(run, name, path="random walk 0")[["x", "y"]] for name in ("V 1", "embedding")
    ]
    assert own["disparity"].unique() == pytest.approx([procrustes_disparity(*walks)], abs=5e-4)  # rounded
    fixed = own[own["which"] == "embedding"]
    np.testing.assert_allclose(fixed[["x", "y"]], walks[1].iloc[::2], atol=0.0051)
    assert set(grid["shown"]) == set(chapter.SHOWN)


def test_the_matrix_is_symmetric_within_a_run_and_not_between_runs():
    grid = chapter.matrix_grid()
    squares = {
        against: own.pivot(index="row", columns="column", values="disparity").to_numpy()
        for against, own in grid[grid["group"] == STORIES].groupby("against")
    }
    for against in ("the same run", "random walks"):
        np.testing.assert_array_equal(squares[against], squares[against].T)
        assert not np.diag(squares[against]).any()
    assert np.diag(squares["another seed"]).all()
    assert chapter.tensors() == ["Q 1", "K 1", "V 1", "MLP-up 1", "MLP-down 1", "embedding", "all"]


def test_sentences_and_tables_have_the_means_of_matrices_alone():
    table = chapter.shapes(STORIES)
    assert set(table["kind"]) == set(trajectory_recordings.PARAMETERS)
    assert f"of the same run is {table['disparity'].mean():.2f}" in chapter.shape_finding()
    assert f"between random walks {table['walks'].mean():.2f}" in chapter.shape_finding()
    assert f"left after walks: {table['two_arms_left'].mean():.2f}" in chapter.arms_finding()
    by_kind = chapter.compared_table()
    own = table[table["kind"] == "MLP-up"]
    assert by_kind.loc["MLP-up", "among these"] == f"{own['among_walks'].mean():.3f}"
    assert chapter.group_table().loc[WITHOUT, "seeds"] == "2"


@pytest.mark.parametrize(
    ("between_runs", "walks", "said"),
    [
        (0.5, 0.5, "nearer than to another run's, and than random walks are to each other"),
        (0.1, 0.5, "nearer than random walks are to each other, but no nearer than to another run's"),
        (0.1, 0.1, "no nearer than to another run's, and than random walks are to each other"),
    ],
)
def test_the_verdict_follows_from_both_nulls(monkeypatch, between_runs, walks, said):
    table = chapter.shapes(STORIES).assign(disparity=0.2, between_runs=between_runs, walks=walks)
    monkeypatch.setattr(chapter, "shapes", lambda group: table)
    assert said in chapter.verdict_finding()


# --- one clock ------------------------------------------------------------------------------------------


def test_a_shift_compares_a_matrix_with_the_embedding_as_it_was_before():
    run = chapter.first_group()[0]
    shift = chapter.shifts()[3]
    late = shift // 2  # a snapshot every two steps
    matrix, embedding = (
        trajectory_runs.layout(run, name)[["x", "y"]].to_numpy() for name in ("K 1", "embedding")
    )
    found = chapter.shifted("K", "training", shift)
    expected = procrustes_disparity(matrix[late:], embedding[:-late])
    assert found["disparity"].unique() == pytest.approx([expected], abs=5e-4)  # rounded
    unshifted = chapter.shifted("K", "training", 0)["disparity"].iloc[0]
    assert unshifted == pytest.approx(procrustes_disparity(matrix, embedding), abs=5e-4)
    assert chapter.shifts()[0] == 0
    assert "Two fifths of the run late" in chapter.shift_finding()
    assert 0 <= chapter.reversed_disparity("random walk") <= 1


def test_charts_and_explorers_compile():
    kinds = list(trajectory_recordings.PARAMETERS)
    shown = {
        "run": Choice(chapter.panel_runs(), "run"),
        "kind": Choice(kinds, "matrices"),
        "shown": Choice(list(chapter.SHOWN), "drawn"),
    }
    against = {"group": Choice(list(chapter.groups()), "runs"), "against": Choice(chapter.AGAINST, "columns")}
    compared = {
        "measure": Choice(chapter.MEASURES, "measure"),
        "group": Choice(list(chapter.groups()), "runs"),
    }
    for controls, draw, grid in (
        (shown, chapter.plot_panels, chapter.panel_grid()),
        (against, chapter.plot_matrix, chapter.matrix_grid()),
        (compared, chapter.plot_compared, chapter.compared_grid()),
    ):
        compiled(Explorer(None, controls, draw, title="A finding", caption="Data.", grid=grid))
    late = {
        "kind": Choice(kinds[:2], "matrix"),
        "path": Choice(list(chapter.PATHS), "path"),
        "shift": Choice(chapter.shifts(), "shift"),
    }
    explorer = Explorer(chapter.shifted, late, chapter.plot_shifted, title="A finding", caption="Data.")
    compiled(explorer)
    assert explorer.answer({"kind": "K", "path": "training", "shift": chapter.shifts()[-1]})


def test_without_stored_runs_quick_ones_are_made_and_nothing_is_judged_by_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    clear()
    assert not chapter.is_stored()
    assert "nothing is judged" in chapter.note()
    assert chapter.shape_finding().startswith("Disparity to the embedding")
    assert not list(tmp_path.iterdir())  # nothing is stored among results
    clear()
