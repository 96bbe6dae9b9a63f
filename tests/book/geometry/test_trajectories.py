"""The chapter on trajectories: walks against their closed form, the quick run's drawings, and the game."""

import itertools

import numpy as np
import pandas as pd
import pytest

from book.geometry import trajectories as chapter
from book.geometry.experiments import path_panels as panels
from book.geometry.experiments.path_panels import TRAINING, VIEWS, WALK
from embviz.ledger.cells import Cell
from embviz.trajectories.weight_paths import cosine_share
from embviz.view.explorers import Choice, Explorer, Range, Toggle
from tests.drawing import compiled

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """A run of 80 updates and three of its matrices, made here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chapter, "PRESET", "quick")
        patch.setattr(panels, "TENSORS", panels.TENSORS[:4])
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        yield


# --- walks ----------------------------------------------------------------------------------------------


def test_components_of_a_walk_are_those_of_its_covariance():
    n = 30
    covariance = np.minimum.outer(np.arange(n), np.arange(n)).astype(float)  # of a walk that starts at 0
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centre @ covariance @ centre)
    np.testing.assert_allclose(chapter.expected_shares(n), values[:0:-1] / values.sum(), atol=1e-12)
    for k in range(1, 5):
        wave = chapter.cosine(k, n)
        assert np.mean(wave**2) == pytest.approx(1)
        assert abs(vectors[:, -k] @ wave) / np.sqrt(n) == pytest.approx(1)


def test_shares_go_to_those_of_an_endless_walk():
    shares = chapter.expected_shares(20_000)
    for k in range(1, 5):
        assert shares[k - 1] == pytest.approx(6 / (np.pi * k) ** 2, rel=1e-3)  # 1 / n is left out


def test_wide_walks_have_the_cosines_and_narrow_ones_dont():
    wide, narrow = (chapter.components_of_a_walk(size, 0.0, 0) for size in (5_000, 4))
    first = wide[wide["component"] == 1]
    assert np.corrcoef(first["walk"], first["cosine"])[0, 1] > 0.999
    assert first["explained"].iloc[0] == pytest.approx(first["expected"].iloc[0], abs=0.02)
    # in four dimensions chance shows, in one component at least
    assert min(np.corrcoef(own["walk"], own["cosine"])[0, 1] for _, own in narrow.groupby("component")) < 0.98


def test_momentum_makes_steps_alike_and_as_long():
    steps = np.diff(chapter.walk(2_000, 0.9, seed=1), axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    cosines = (steps[1:] * steps[:-1]).sum(axis=1) / lengths[1:] / lengths[:-1]
    assert cosines.mean() == pytest.approx(0.9, abs=0.01)  # 2,000 dimensions: 0.5% each
    assert lengths.mean() == pytest.approx(np.sqrt(2_000), rel=0.02)


def test_the_table_of_shares_is_of_walks_and_ends_with_the_closed_form():
    table = chapter.share_table(n_draws=2)
    expected = np.mean([cosine_share(chapter.walk(10, 0.5, seed=seed)) for seed in range(2)])
    assert table.loc["10", "momentum 0.5"] == f"{expected:.2f}"
    assert float(table.loc["1,000", "momentum 0"]) == pytest.approx(
        float(table.loc["infinitely many", "momentum 0"]), abs=0.02
    )


def test_components_that_a_walk_hasnt_are_zero():
    flat = chapter.plane_of_a_walk(2, "2 and 3", 0)
    assert (flat[flat["line"] == "walk"]["y"] == 0).all()


# --- the quick run --------------------------------------------------------------------------------------


def test_walks_take_the_steps_of_their_matrix():
    table = chapter.drawings()
    assert set(table["shown"]) == set(VIEWS)
    for _, own in table.groupby(["tensor", "kind", "shown"]):
        np.testing.assert_allclose(own[["x", "y"]].mean(), 0, atol=1e-6)
        assert (own["x"] ** 2 + own["y"] ** 2).mean() == pytest.approx(1)
    sharp = chapter.numbers().pivot(index="tensor", columns="kind", values="sharpness")
    np.testing.assert_allclose(sharp[WALK], sharp[TRAINING], rtol=1e-6)  # of the weights: by construction


def test_turning_a_walk_keeps_its_distances():
    grid, table = chapter.stage_grid(), chapter.drawings()
    turned = grid.query("tensor == 'query 1' and path == @WALK and view == @VIEWS[2]")[["x", "y"]].to_numpy()
    before = table.query("tensor == 'query 1' and kind == @WALK and shown == @VIEWS[2]")[
        ["x", "y"]
    ].to_numpy()
    far = [np.linalg.norm(points[5:] - points[:-5], axis=1) for points in (turned, before)]
    np.testing.assert_allclose(*far, atol=0.003)  # three digits


def test_numbers_that_are_larger_more_often_tell_paths_apart():
    assert chapter.larger_chance(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1
    assert chapter.larger_chance(np.array([1.0]), np.array([1.0])) == 0.5
    assert chapter.larger_chance(np.array([]), np.array([1.0])) == 0.5
    assert len(chapter.numbers_table()) == 6
    assert chapter.numbers_table()["tells them apart"].str.endswith("%").all()


def test_sentences_quote_the_numbers():
    far = chapter.numbers().query("kind == @WALK")["disparity"]
    assert f"{far.mean():.1%}" in chapter.shape_finding()
    assert f"{len(far)} matrices" in chapter.shape_finding()
    phases = chapter.numbers().query("kind == @TRAINING")["n_phases"].mean()
    assert f"{phases:.1f} in a matrix" in chapter.phase_finding()


# --- the game -------------------------------------------------------------------------------------------


def test_a_deal_has_both_kinds_and_no_matrix_twice():
    for number in range(1, 30):
        cards = chapter.deal(number)
        assert {kind for _, kind in cards} == {TRAINING, WALK}
        assert len({tensor for tensor, _ in cards}) == chapter.N_PANELS
    assert chapter.deal(3) == chapter.deal(3)


def test_answers_are_hidden_until_asked_for_and_right():
    hidden, shown = (chapter.dealt(2, VIEWS[0], answers) for answers in (False, True))
    assert (hidden["answer"] == chapter.HIDDEN).all()
    pd.testing.assert_frame_equal(hidden.drop(columns="answer"), shown.drop(columns="answer"))
    words = chapter.answers_in_words()
    for panel, card in zip("ABCD", chapter.deal(2), strict=True):
        (answer,) = shown.loc[shown["panel"] == panel, "answer"].unique()
        assert words[answer] == chapter.in_words(*card)


def test_a_rule_that_knows_is_always_right(monkeypatch):
    table = chapter.numbers()
    known = table.assign(cosine_share=table["kind"].eq(TRAINING) + 1e-3 * np.arange(len(table)))
    monkeypatch.setattr(chapter, "numbers", lambda: known)
    assert chapter.rule_table().loc["two cosines in the layout", "right"] == "100%"
    assert "two cosines in the layout, is right in 100%" in chapter.rule_finding()


@pytest.mark.parametrize("n", [6, 7])
def test_chance_is_that_of_all_orders_of_the_paths(n):
    is_training, beyond = np.arange(n) < 3, np.arange(n) % 2 == 1
    found = []
    for places in itertools.permutations(range(n)):
        right = np.mean(is_training == beyond[list(places)])
        found.append(max(right, 1 - right))
    for right in set(found):
        expected, as_many = chapter.by_chance(right, is_training, beyond)
        assert expected == pytest.approx(np.mean(found))
        assert as_many == pytest.approx(
            np.mean(np.array(found) >= right - 1e-9)
        )  # shares are of small counts


def test_the_spread_of_chance_is_that_of_draws_that_do_not_differ():
    rng = np.random.default_rng(0)
    n, m = (int((chapter.numbers()["kind"] == kind).sum()) for kind in (TRAINING, WALK))
    drawn = [chapter.larger_chance(rng.random(n), rng.random(m)) for _ in range(2_000)]
    told = float(chapter.spread_finding().split()[-1].rstrip("%")) / 100
    assert told == pytest.approx(2 * np.std(drawn), abs=0.03)  # 2,000 draws: 2% of it; two digits


def test_every_explorer_draws():
    tensors = Choice(chapter.tensors(), "matrix")
    draws = {"dimension": Choice([30, 4], "d"), "seed": Range(0, 1, 1, "draw")}
    for explorer in (
        Explorer(
            chapter.components_of_a_walk,
            draws | {"momentum": Choice([0.0, 0.5], "m")},
            chapter.plot_components,
            title="t",
            caption="c",
        ),
        Explorer(
            chapter.plane_of_a_walk,
            draws | {"axes": Choice(["1 and 2", "1 and 3"], "a")},
            chapter.plot_plane,
            title="t",
            caption="c",
        ),
        Explorer(
            None,
            {"view": Choice(list(VIEWS), "v"), "path": Choice([TRAINING, WALK], "p"), "tensor": tensors},
            chapter.plot_stage,
            title="t",
            caption=chapter.run_note(),
            grid=chapter.stage_grid(),
        ),
        Explorer(
            chapter.dealt,
            {
                "deal_number": Range(1, 2, 1, "d"),
                "view": Choice(list(chapter.DEALT), "v"),
                "answers": Toggle("a"),
            },
            chapter.plot_dealt,
            title="t",
            caption="c",
        ),
    ):
        compiled(explorer)


def test_the_cell_is_a_whole_run_whose_snapshots_are_evenly_spaced():
    cell: Cell = panels.panel_cell("laptop")
    film = cell.config.film
    assert film.run.setting.n_steps % film.record_every == 0
    assert film.run.setting.n_steps // film.record_every == 100
