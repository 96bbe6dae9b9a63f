"""A run's matrices as a grid: each stands in its place, is coloured by cluster, and can be picked."""

import numpy as np
import pandas as pd
import pytest

from book.geometry import pipeline_grid
from embviz.trajectories import Clustering, Layout, Recipe, random_walk, trace, weight_path
from embviz.view import theme
from tests import drawing

RECIPE = Recipe(autoencoder=None, layout=Layout("pca"), clustering=Clustering(5, 3))
NAMES = ["embedding", "Q 1", "Q 2", "MLP-up 1", "MLP-up 2"]


@pytest.fixture(scope="module")
def spec():
    tables = []
    for seed, name in enumerate(NAMES):
        steps = np.random.default_rng(seed).normal(size=(200, 6))
        path = weight_path(name, steps.cumsum(axis=0), np.arange(200), np.linspace(3, 1, 200))
        for kind, one in {"training": path, "random walk": random_walk(path, seed=seed)}.items():
            tables.append(trace(one, RECIPE, seed=0).table.assign(matrix=name, kind=kind))
    player = pipeline_grid.grid_player(pd.concat(tables), initial=NAMES[3], caption="Made.")
    assert player.step == player.steps[-1] == 199
    return player.static_spec()


def test_layers_are_columns_kinds_are_rows_and_the_rest_stands_beside():
    places = pipeline_grid.grid_places([*NAMES, "head"]).set_index("matrix")
    assert places.loc["embedding", ["row", "column"]].tolist() == [0, 0]
    assert places.loc["head", ["row", "column"]].tolist() == [1, 0]
    assert places.loc["Q 2", ["row", "column"]].tolist() == [0, 2]
    assert places.loc["MLP-up 1", ["row", "column", "kind"]].tolist() == [1, 1, "MLP-up"]


def test_every_layout_lies_in_the_cell_of_its_matrix_and_clusters_have_their_colours(spec):
    grid = {**spec["vconcat"][0], "datasets": spec["datasets"], "params": spec["params"]}
    boxes, points = drawing.drawn(grid, "rect"), drawing.drawn(grid, "symbol")
    assert len(boxes) == len(NAMES)
    inside = [
        sum(
            b["x"] <= p["x"] <= b["x"] + b["width"] and b["y"] <= p["y"] <= b["y"] + b["height"]
            for p in points
        )
        for b in boxes
    ]
    assert inside == [100] * len(NAMES)  # every second of 200
    assert len(points) == 100 * len(NAMES)
    assert {point["fill"] for point in points} <= {*theme.CLUSTERS, theme.FAINT}


def test_the_grid_of_random_walks_is_below_and_a_click_in_either_picks_a_matrix(spec):
    titles = [row["title"]["text"].partition(";")[0] for row in spec["vconcat"][:2]]
    assert titles == ["training", "random walk"]
    (picked,) = [param for param in spec["params"] if param["name"] == "picked"]
    assert picked["value"] == [{"matrix": NAMES[3]}]
    assert picked["bind"]["options"] == NAMES
    named = {layer["name"] for grid in spec["vconcat"][:2] for layer in grid["layer"] if "name" in layer}
    assert set(picked["views"]) == named


def test_the_chosen_matrix_is_no_wider_than_the_grids(spec):
    for row in spec["vconcat"][2:]:
        widths = [part["width"] for part in row["hconcat"]]
        assert len(widths) == 2
        assert sum(widths) < pipeline_grid.SIDE
