"""The chapter on phases: what it reads of stored runs, what it lays out anew, and its planted path."""

import ast
import json

import numpy as np
from sklearn.metrics import adjusted_rand_score

from book.geometry.experiments import trajectory_runs as runs
from embviz.trajectories import Clustering, find_phases, principal_coordinates, random_walk
from tests.book.conftest import BOOK


def test_another_clustering_is_drawn_on_the_layout_that_is_there(monkeypatch):
    asked = []

    def lay_out(points, layout, *, seed):
        asked.append((layout.n_neighbors, seed))
        return np.random.default_rng(seed).normal(size=(len(points), 2))

    monkeypatch.setattr(runs, "lay_out", lay_out)
    runs._laid_out.cache_clear()
    drawn = [
        runs.draw_anew("Q 1", "training", neighbors, clustering, seed=seed)
        for neighbors, clustering, seed in (
            (9, Clustering(25), None),
            (9, Clustering(50, 10), None),
            (9, Clustering(25, cluster_selection_epsilon=0.5), None),
            (9, Clustering(25), 7),
            (10, Clustering(25), 7),
        )
    ]
    runs._laid_out.cache_clear()
    assert asked == [(9, runs.first_run().seed), (9, 7), (10, 7)]
    same = [one["drawn"][["x", "y"]] for one in drawn[:3]]
    assert same[0].equals(same[1])
    assert same[0].equals(same[2])
    assert not same[0].equals(drawn[3]["drawn"][["x", "y"]])


def test_the_pages_planted_phases_are_found_and_its_walk_has_others():
    cells = json.loads((BOOK / "geometry" / "phases.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (source,) = [source for source in sources if "def planted(" in source]
    names = {"np": np, "steps": np.arange(400), "run": runs.first_run()}
    exec(compile(ast.parse(source), "phases", "exec"), names)
    stage, path = names["planted"]()
    agreed = [
        adjusted_rand_score(stage, find_phases(principal_coordinates(one.weights), Clustering()).labels)
        for one in (path, random_walk(path, seed=0))
    ]
    assert agreed[0] > 0.95
    assert agreed[1] < 0.8
