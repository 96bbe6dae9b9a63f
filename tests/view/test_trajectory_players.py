"""A run's matrices as a grid: each stands in its place, is coloured by cluster, and can be picked."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from embviz.trajectories import Clustering, Layout, Recipe, random_walk, trace, weight_path
from embviz.view import theme, trajectory_player, trajectory_players
from tests import drawing

RECIPE = Recipe(autoencoder=None, layout=Layout("pca"), clustering=Clustering(5, 3))
NAMES = [
    "embedding",
    "blocks.0.query.weight",
    "blocks.1.query.weight",
    "blocks.0.up.weight",
    "blocks.1.up.weight",
]


@pytest.fixture(scope="module")
def traces():
    made = {}
    for seed, name in enumerate(NAMES):
        steps = np.random.default_rng(seed).normal(size=(200, 6))
        path = weight_path(name, steps.cumsum(axis=0), np.arange(200), np.linspace(3, 1, 200))
        walk = random_walk(path, seed=seed)
        made[name] = {"training": trace(path, RECIPE, seed=0), "random walk": trace(walk, RECIPE, seed=0)}
    return made


def test_layers_are_columns_kinds_are_rows_and_the_rest_stands_beside():
    places = trajectory_players.grid_places([*NAMES, "head"]).set_index("matrix")
    assert places.loc["embedding", ["row", "column"]].tolist() == [0, 0]
    assert places.loc["head", ["row", "column"]].tolist() == [1, 0]
    assert places.loc["blocks.1.query.weight", ["row", "column"]].tolist() == [0, 2]
    assert places.loc["blocks.0.up.weight", ["row", "column", "kind"]].tolist() == [1, 1, "up"]
    alone = trajectory_players.grid_places(["Q 1", "Q 2", "MLP-up 2"])
    assert alone[["row", "column"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 1]]
    assert alone["kind"].tolist() == ["Q", "Q", "MLP-up"]


def test_every_layout_lies_in_the_cell_of_its_matrix_and_clusters_have_their_colours(traces):
    spec = trajectory_player(traces, caption="Made.").static_spec()
    grid = {**spec["vconcat"][0], "datasets": spec["datasets"], "params": spec["params"]}
    boxes = drawing.drawn(grid, "rect")
    assert len(boxes) == len(NAMES)
    points = drawing.drawn(grid, "symbol")
    inside = [
        sum(
            b["x"] <= p["x"] <= b["x"] + b["width"] and b["y"] <= p["y"] <= b["y"] + b["height"]
            for p in points
        )
        for b in boxes
    ]
    assert len(set(inside)) == 1
    assert sum(inside) == len(points) == 100 * len(NAMES)  # every second of 200
    assert {point["fill"] for point in points} <= {*theme.CLUSTERS, theme.FAINT}


def test_the_grid_of_random_walks_is_below_and_a_click_in_either_picks_a_matrix(traces):
    player = trajectory_player(traces, initial=NAMES[3], caption="Made.")
    spec = player.static_spec()
    titles = [row["title"]["text"].partition(";")[0] for row in spec["vconcat"][:2]]
    assert titles == ["training", "random walk"]
    (picked,) = [param for param in spec["params"] if param["name"] == "picked"]
    assert picked["value"] == [{"matrix": NAMES[3]}]
    assert picked["bind"]["options"] == NAMES
    named = {layer["name"] for grid in spec["vconcat"][:2] for layer in grid["layer"] if "name" in layer}
    assert set(picked["views"]) == named
    assert player.step == player.steps[-1] == 199


def test_rows_of_a_table_are_drawn_like_the_traces_that_they_come_from(traces):
    rows = [own.table.assign(matrix=name, kind=kind) for name in NAMES for kind, own in traces[name].items()]
    from_table = trajectory_player(pd.concat(rows), caption="Made.")
    assert from_table.static_spec() == trajectory_player(traces, caption="Made.").static_spec()


def test_the_chosen_matrix_is_no_wider_than_the_grids_however_many_kinds_there_are(traces):
    two = {name: traces[name] for name in NAMES[:2]}
    three = {name: {**of_kinds, "another": of_kinds["random walk"]} for name, of_kinds in two.items()}
    for made, n in ((two, 2), (three, 3)):
        layouts, losses = trajectory_player(made).static_spec()["vconcat"][n:]
        for row in (layouts, losses):
            widths = [part["width"] for part in row["hconcat"]]
            assert len(widths) == n
            assert sum(widths) < trajectory_players.SIDE


def test_without_losses_none_are_drawn(traces):
    name = NAMES[1]
    path = weight_path(name, traces[name]["training"].path.weights, np.arange(200))
    player = trajectory_player({name: {"training": trace(path, RECIPE, seed=0)}})
    assert "loss" not in json.dumps(player.static_spec()["vconcat"])


def test_what_cannot_be_drawn_in_one_grid_is_refused(traces):
    with pytest.raises(ValueError, match="there is no matrix to draw"):
        trajectory_player({})
    with pytest.raises(ValueError, match="'head' is to be shown first, and the matrices are embedding"):
        trajectory_player(traces, initial="head")
    one = traces[NAMES[1]]
    with pytest.raises(ValueError, match="trace the same for all"):
        trajectory_player({**traces, NAMES[1]: {"training": one["training"]}})
    late = replace(one["training"], path=replace(one["training"].path, steps=np.arange(1, 201)))
    with pytest.raises(ValueError, match=r"training of blocks.0.query.weight has other steps than embedding"):
        trajectory_player({**traces, NAMES[1]: {**one, "training": late}})
