"""The chapter on one shape or many: drawings laid on each other, tables and sentences of what is stored."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from book.geometry import one_shape as chapter
from book.geometry.experiments import trajectory_recordings, trajectory_runs
from book.geometry.experiments.trajectory_findings import STUDIES
from embviz.ledger import cells
from embviz.metrics import procrustes_disparity
from embviz.view.explorers import Choice, Explorer
from tests.drawing import compiled
from tests.tiny_runs import TINY, tiny_runs

STORIES, WITHOUT = "short stories", "short stories, no Q"


def clear() -> None:
    for function in (
        chapter._stored_groups,
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
    assert chapter.note().startswith(
        "Text: 40 documents of docstrings of installed libraries (embedded); 1 layer"
    )
    assert chapter.note().endswith(", 80 steps, a sketch of 32 numbers a matrix; 2 seeds.")
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
    left = table["two_arms_left"].mean()  # as many matrices a seed
    assert f"left after walks, a mean over matrices: {left:.2f}, " in chapter.arms_finding()
    by_kind = chapter.compared_table()
    own = table[table["kind"] == "MLP-up"]
    assert by_kind.loc["MLP-up", "among these"] == f"{own['among_walks'].mean():.3f}"
    assert chapter.group_table().loc[WITHOUT, "seeds"] == "2"


def test_runs_with_and_without_queries_are_compared_over_the_kinds_that_both_have():
    table = chapter.group_table()
    assert table.index.name == "means over K, V, MLP-up, MLP-down"
    for name in (STORIES, WITHOUT):
        own = chapter.shapes(name)
        own = own[own["kind"] != "Q"]
        assert table.loc[name, "to the embedding"] == f"{own['disparity'].mean():.3f}"
        by_seed = own.groupby("seed")[["disparity", "walks"]].mean()
        ratio = (by_seed["disparity"] / by_seed["walks"]).mean()
        assert table.loc[name, "/ between walks"].startswith(f"{ratio:.2f}, ")


@pytest.mark.parametrize(
    ("between_runs", "walks", "said"),
    [
        (
            (0.5, 0.5, 0.5),
            (0.4, 0.4, 0.4),
            "nearer than to another run's (ratio 0.40, 0.40 to 0.40) and than random",
        ),
        ((0.1, 0.1, 0.1), (0.5, 0.5, 0.5), "but nearer than random walks are to each other (ratio 0.40"),
        ((0.1, 0.1, 0.1), (0.5, 0.5, 0.5), "are farther than to another run's (ratio 2.00"),
        # in the mean 0.2 against 0.25 and 0.217: as many seeds say otherwise as the spread allows
        (
            (0.1, 0.4, 0.25),
            (0.15, 0.3, 0.2),
            "as near, as far as 3 seeds tell, as to another run's (ratio 1.10",
        ),
        ((0.1, 0.4, 0.25), (0.15, 0.3, 0.2), "and as random walks are to each other"),
    ],
)
def test_the_verdict_follows_from_the_interval_over_seeds_of_both_ratios(
    monkeypatch, between_runs, walks, said
):
    made = {"kind": "K", "seed": range(3), "disparity": 0.2, "between_runs": between_runs, "walks": walks}
    monkeypatch.setattr(chapter, "shapes", lambda group: pd.DataFrame(made))
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


def test_the_sentence_on_shifts_has_the_means_without_and_with_the_largest_shift():
    run = chapter.first_group()[0]
    late = chapter.shifts()[-1] // 2
    planes = {
        name: trajectory_runs.layout(run, name)[["x", "y"]].to_numpy() for name in chapter.tensors()[:6]
    }
    embedding = planes.pop("embedding")
    together = np.mean([procrustes_disparity(one, embedding) for one in planes.values()])
    apart = np.mean([procrustes_disparity(one[late:], embedding[:-late]) for one in planes.values()])
    said = [float(word.rstrip(",")) for word in chapter.shift_finding().split() if word[0].isdigit()]
    assert said == pytest.approx([apart, together], abs=0.006)  # two digits, of disparities with three


@pytest.mark.parametrize("path", list(chapter.PATHS))
def test_a_horseshoe_read_backwards_is_itself_and_another_curve_is_not(monkeypatch, path):
    time = np.linspace(0, 1, 60)
    horseshoe = np.stack([np.cos(np.pi * time), np.cos(2 * np.pi * time)], axis=1)
    bent = np.stack([time, time**4], axis=1)
    for points, expected in ((horseshoe, 0.0), (bent, procrustes_disparity(bent[::-1], bent))):
        monkeypatch.setattr(chapter, "plane", lambda run, tensor, shown, points=points: points)
        assert chapter.reversed_disparity(path) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.02


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


@pytest.mark.parametrize("variant", ["decay only", "no Q"])
def test_stored_runs_that_have_no_w_q_leave_the_quick_ones_shown(monkeypatch, variant):
    alone = [dataclasses.replace(TINY, variant=variant, seed=seed) for seed in range(2)]
    monkeypatch.setattr(trajectory_runs, "stored_runs", lambda: {run.name: run for run in alone})
    clear()
    assert not chapter.is_stored()
    assert list(chapter.groups()) == [STORIES]
    assert "nothing is judged" in chapter.note()
    clear()


def test_runs_without_queries_stand_after_those_with(monkeypatch):
    web = dataclasses.replace(TINY, text="web text")
    both = [dataclasses.replace(run, seed=seed) for run in (dataclasses.replace(TINY, variant="no Q"), web)
            for seed in range(2)]  # fmt: skip
    monkeypatch.setattr(trajectory_runs, "stored_runs", lambda: {run.name: run for run in both})
    clear()
    assert list(chapter.groups()) == ["web text", WITHOUT]
    clear()


def test_without_stored_runs_quick_ones_are_made_and_nothing_is_judged_by_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    clear()
    assert not chapter.is_stored()
    assert "nothing is judged" in chapter.note()
    assert chapter.shape_finding().startswith("Disparity to the embedding")
    assert not list(tmp_path.iterdir())  # nothing is stored among results
    clear()
