"""The chapter on trajectories: its walks against their closed form, the quick run's drawings, the game."""

import ast
import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from book.geometry.experiments import path_panels as panels
from book.geometry.experiments.path_panels import TRAINING, VIEWS, WALK
from embviz.trajectories.traces import Layout
from tests.book.conftest import BOOK

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """A run of 80 updates and three of its matrices, made here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "SHOWN", "quick")
        patch.setattr(panels, "RECIPE", dataclasses.replace(panels.RECIPE, layout=Layout(max_iter=30)))
        patch.setattr(panels, "TENSORS", panels.TENSORS[:4])
        patch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(scope="module")
def page():
    """The functions that the chapter's cells define, by name."""
    cells = json.loads((BOOK / "geometry" / "trajectories.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {"np": np, "pd": pd}
    for cell in cells:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            kept = [
                node
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name in {"walk", "cosine", "closed_form"}
            ]
            exec(compile(ast.Module(kept, []), "trajectories", "exec"), names)
    return names


# --- walks, as the page has them ------------------------------------------------------------------------


def test_the_pages_closed_form_is_the_spectrum_of_a_walks_covariance(page):
    n = 30
    covariance = np.minimum.outer(np.arange(n), np.arange(n)).astype(float)  # of a walk that starts at 0
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centre @ covariance @ centre)
    np.testing.assert_allclose(page["closed_form"](n), values[:0:-1] / values.sum(), atol=1e-12)
    for k in range(1, 5):
        wave = page["cosine"](k, n)
        assert np.mean(wave**2) == pytest.approx(1)
        assert abs(vectors[:, -k] @ wave) / np.sqrt(n) == pytest.approx(1)


def test_shares_go_to_those_of_an_endless_walk(page):
    shares = page["closed_form"](20_000)
    for k in range(1, 5):
        assert shares[k - 1] == pytest.approx(6 / (np.pi * k) ** 2, rel=1e-3)  # 1 / n is left out


def test_the_pages_walk_has_the_momentum_that_it_is_given(page):
    steps = np.diff(page["walk"](2_000, 0.9, seed=1), axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    cosines = (steps[1:] * steps[:-1]).sum(axis=1) / lengths[1:] / lengths[:-1]
    assert cosines.mean() == pytest.approx(0.9, abs=0.01)  # 2,000 dimensions: 0.5% each
    assert lengths.mean() == pytest.approx(np.sqrt(2_000), rel=0.02)


# --- the quick run --------------------------------------------------------------------------------------


def test_walks_take_the_steps_of_their_matrix():
    table = panels.drawings()
    assert set(table["shown"]) == set(VIEWS)
    for _, own in table.groupby(["tensor", "kind", "shown"]):
        np.testing.assert_allclose(own[["x", "y"]].mean(), 0, atol=1e-6)
        assert (own["x"] ** 2 + own["y"] ** 2).mean() == pytest.approx(1)
    sharp = panels.numbers().pivot(index="tensor", columns="kind", values="sharpness")
    np.testing.assert_allclose(sharp[WALK], sharp[TRAINING], rtol=1e-6)  # of the weights: by construction


def test_turning_a_walk_keeps_its_distances():
    grid, table = panels.stage_grid(), panels.drawings()
    turned = grid.query("tensor == 'query 1' and path == @WALK and view == @VIEWS[2]")[["x", "y"]].to_numpy()
    before = table.query("tensor == 'query 1' and kind == @WALK and shown == @VIEWS[2]")[
        ["x", "y"]
    ].to_numpy()
    far = [np.linalg.norm(points[5:] - points[:-5], axis=1) for points in (turned, before)]
    np.testing.assert_allclose(*far, atol=0.003)  # three digits


# --- the game -------------------------------------------------------------------------------------------


def test_answers_are_hidden_until_asked_for_and_right():
    hidden, shown = (panels.dealt(2, VIEWS[0], answers) for answers in (False, True))
    assert hidden["told"]["answer"].tolist() == ["?"] * 4
    assert len({tensor for tensor, _ in panels.deal(2)}) == len(panels.PANELS)
    pd.testing.assert_frame_equal(hidden["paths"], shown["paths"])
    answers = shown["told"].set_index("panel")["answer"]
    for name, (tensor, kind) in zip(panels.PANELS, panels.deal(2), strict=True):
        assert answers[name] == f"{'is' if kind == TRAINING else 'walks like'} {tensor}"
