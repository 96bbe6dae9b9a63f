"""The chapter on phases: what it shows where nothing is stored, its tree, its settings, and every drawing."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from book.geometry import phases as chapter
from book.geometry.experiments import trajectory_runs as runs
from book.geometry.experiments.trajectory_recordings import KINDS
from embviz.ledger import cells
from embviz.trajectories.phases import NOISE, Clustering, find_phases
from embviz.view.explorers import Choice, Explorer, Range
from tests.drawing import compiled, drawn
from tests.tiny_runs import TINY, tiny_runs

CACHED = (chapter.shown_runs, chapter._laid_out, chapter._found, chapter.settings_grid)


@pytest.fixture(scope="module", autouse=True)
def nothing_stored(tmp_path_factory):
    with tiny_runs(tmp_path_factory.mktemp("phases")):
        for function in CACHED:
            function.cache_clear()
        yield
    for function in CACHED:
        function.cache_clear()


def main_explorer() -> Explorer:
    return Explorer(
        chapter.live_drawing(),
        {
            "tensor": Choice(chapter.tensors(), "matrix"),
            "path": Choice(list(chapter.PATHS.values()), "path"),
            "neighbors": chapter.neighbors_shown(),
            "size": chapter.sizes_shown(),
        },
        chapter.plot_explorer,
        view_controls={"at": chapter.steps_shown()},
        title=chapter.range_finding(),
        caption=chapter.note(chapter.first_run()),
        grid=chapter.explorer_grid(),
    )


# --- what is at hand ------------------------------------------------------------------------------------


def test_where_nothing_is_stored_a_quick_run_is_shown_and_says_so():
    assert list(chapter.shown_runs()) == ["short stories, seed 0"]
    assert not chapter.is_stored()
    assert "quick run made in this chapter" in chapter.note()
    assert chapter.tensors() == ["Q 1", "K 1", "V 1", "MLP-up 1", "MLP-down 1", "embedding", "all"]
    assert not cells.results_folder().exists()  # nothing was left where results belong


def test_stored_runs_are_preferred(monkeypatch):
    stored = dataclasses.replace(TINY, seed=3)
    without = dataclasses.replace(TINY, variant="no Q")
    monkeypatch.setattr(runs, "stored_runs", lambda: {run.name: run for run in (without, stored)})
    chapter.shown_runs.cache_clear()
    try:
        assert list(chapter.shown_runs()) == ["short stories, seed 3"]
        assert chapter.is_stored()
        assert "quick" not in chapter.note()
    finally:
        chapter.shown_runs.cache_clear()


def test_where_no_stored_run_has_read_stories_the_quick_one_is_shown(monkeypatch):
    web = dataclasses.replace(TINY, text="web text", seed=3)
    stored = {web.name: web}
    monkeypatch.setattr(runs, "stored_runs", lambda: stored)
    chapter.shown_runs.cache_clear()
    try:
        assert list(chapter.shown_runs()) == ["short stories, seed 0"]
        assert not chapter.is_stored()
        story = dataclasses.replace(TINY, seed=3)
        stored[story.name] = story
        chapter.shown_runs.cache_clear()
        assert list(chapter.shown_runs()) == ["short stories, seed 3", "web text, seed 3"]
        assert chapter.of_stories() == [story]
    finally:
        chapter.shown_runs.cache_clear()


def test_captions_say_what_was_read_and_that_drawings_are_of_sketches():
    assert "docstrings of installed libraries (embedded)" in chapter.note()
    assert f"a sketch of {TINY.sketch} numbers a matrix" in chapter.note()


def test_tables_have_a_row_a_kind_and_say_what_is_not_measured():
    for table in (chapter.kinds_table(), chapter.drops_table(), chapter.alternatives_table()):
        assert set(table.index) == set(KINDS)
    assert (chapter.alternatives_table()["UMAP, agreement"] == "not measured").all()
    assert (chapter.kinds_table()["stability over settings"] == "not measured").all()
    assert (chapter.bottleneck_table()["of held-out snapshots"] == "not measured").all()


def test_the_bottleneck_is_told_with_its_walks_and_the_sketch_with_its_worst_error():
    table = chapter.bottleneck_table()
    assert table.index.tolist() == list(KINDS)
    measures = chapter._reading(runs.measures, chapter.first_run())
    judged = measures[(measures["method"] == "pymde") & (measures["n_neighbors"] == 8)]
    own = judged[(judged["kind"] == "V") & (judged["path"] == "data")]["prediction"].mean()
    null = judged[(judged["kind"] == "V") & (judged["path"] != "data")]["prediction"].mean()
    assert table.loc["V", "loss not predicted"] == f"{own:.3f} ({null:.3f})"
    distortion = chapter._reading(runs.tensor_measures, chapter.first_run()).query(
        "path == 'data' and kind == 'V'"
    )
    assert table.loc["V", "at worst"] == f"{distortion['distortion_worst'].mean():.1%}"


@pytest.mark.parametrize(
    ("off", "done"),
    [("0.40 (0.50)", "raises it to"), ("0.10 (0.50)", "lowers it to"), ("0.20 (0.50)", "leaves it at")],
)
def test_the_sentence_on_drops_follows_the_table(monkeypatch, off, done):
    rows = {"movement, as it is": ["0.20 (0.30)"] * 2, "off": [off] * 2, "transitions": ["0.00 (0.00)"] * 2}
    monkeypatch.setattr(chapter, "drops_table", lambda: pd.DataFrame(rows))
    said = chapter.drops_finding()
    assert "0.20 as they are (0.30 in random walks)" in said
    assert said.endswith(f"{done} {off}")


def test_sentences_quote_means_of_the_runs():
    counts = chapter.kinds_grid().query("measure == 'phases' and path == 'training'")
    means = counts.groupby("kind")["value"].mean()
    gap = means["Q"] - means[["K", "V", "MLP-up", "MLP-down"]].mean()
    assert f"phases {gap:+.1f}, of random walks" in chapter.q_finding()


# --- the large explorer ---------------------------------------------------------------------------------


def test_controls_of_the_drawing_multiply_no_rows():
    spec = main_explorer().static_spec()
    compiled(spec)
    assert len(spec["data"]["values"]) == 7 * 2  # matrices and paths
    bound = {param["name"]: param.get("bind") for param in spec["params"]}
    assert bound["size"]["options"] == [8, 5]
    assert bound["at"]["input"] == "range"


def test_the_ring_is_at_the_step_chosen_in_both_pictures():
    spec = main_explorer().static_spec()
    grid = chapter.explorer_grid()
    first = grid[(grid["tensor"] == "Q 1") & (grid["path"] == "training")]
    for step in (first["step"].iloc[0], first["step"].iloc[-1]):
        for param in spec["params"]:
            if param["name"] == "at":
                param["value"] = int(step)
        rings = [item for item in drawn(spec, "symbol") if item.get("size") == 190]
        assert len(rings) == 2
    steps = chapter.steps_shown().values
    assert set(steps) <= set(first["step"])


def test_a_control_of_the_drawing_refuses_what_its_control_refuses():
    control = chapter.OfDrawing(Choice([8, 5], "least phase"))
    assert control.values == [8]  # of the rows that a page holds
    assert control.read(5) == 5
    with pytest.raises(ValueError, match="least phase"):
        control.read(6)


def test_live_the_judged_setting_draws_what_is_stored():
    grid = chapter.explorer_grid()
    for tensor, path in (("Q 1", "training"), ("all", "random walk")):
        stored = grid[(grid["tensor"] == tensor) & (grid["path"] == path)].reset_index(drop=True)
        for size in (8, 5):
            anew = chapter.draw_anew(tensor, path, 8, size)
            # the bottleneck is stored to 1 / 65536, and layouts are rounded to a hundredth
            np.testing.assert_allclose(anew[["x", "y"]], stored[["x", "y"]], atol=0.021)
            assert anew["step"].tolist() == stored["step"].tolist()
            assert anew["loss"].tolist() == stored["loss"].tolist()
            assert anew["phase"].tolist() == stored[f"phase_{size}"].tolist()


def test_live_any_neighbours_and_sizes_are_measured(monkeypatch):
    for function in (chapter._laid_out, chapter._found):
        function.cache_clear()
    explorer, laid_out = main_explorer(), []
    counted = chapter.lay_out
    monkeypatch.setattr(chapter, "lay_out", lambda *a, **k: laid_out.append(a) or counted(*a, **k))
    start = {"tensor": "K 1", "path": "training", "neighbors": 5, "size": 6}
    for moved in ({}, {"size": 11}, {"neighbors": 9}):
        (row,) = explorer.answer(start | moved)["tables"]["measured"]
        values = start | moved
        steps, plane = chapter._laid_out("K 1", "training", values["neighbors"])
        phases = find_phases(plane, Clustering(values["size"]))
        assert row["phase"] == phases.labels[np.isin(steps, row["step"])].tolist()
        assert set(row["n_phases"]) == {phases.n_phases}
    assert len(laid_out) == 2  # of 5 neighbours, and of 9
    assert chapter._found.cache_info().misses == 3  # and of 5 with another size
    with pytest.raises(ValueError, match="least phase"):
        explorer.answer(start | {"size": 1})


def test_live_and_in_the_book_one_drawing_serves_other_controls():
    explorer = main_explorer()
    bound = [
        {param["name"]: param.get("bind") for param in spec["params"]}
        for spec in (explorer.static_spec(), explorer.live_spec())
    ]
    assert bound[0]["neighbors"] is None  # one is stored
    assert bound[0]["size"]["options"] == [8, 5]
    assert (bound[1]["neighbors"]["min"], bound[1]["neighbors"]["max"]) == (3, 10)
    assert (bound[1]["size"]["min"], bound[1]["size"]["max"]) == (4, 20)
    for spec in (explorer.static_spec(), explorer.live_spec()):
        compiled(spec)
        assert any(" phases" in item["text"] for item in drawn(spec, "text"))


def test_live_all_noise_is_said_with_the_reason():
    explorer = main_explorer()
    spec, values = explorer.live_spec(), {"tensor": "Q 1", "path": "training", "neighbors": 8, "size": 20}
    spec["data"]["values"] = explorer.answer(values)["tables"]["measured"]
    spec["data"]["values"][0]["n_phases"] = [0] * len(spec["data"]["values"][0]["x"])
    split = spec["data"]["values"][0]["largest_split"][0]
    words = [item["text"] for item in drawn(spec, "text")]
    assert any(one.startswith(f"all noise: any cut takes off {split} at most; ") for one in words)


def test_without_stored_bottlenecks_nothing_is_measured_live(monkeypatch):
    monkeypatch.setattr(chapter, "is_stored", lambda: True)
    assert chapter.live_drawing() is None


# --- an optimizer with nothing to learn from ------------------------------------------------------------


def test_decay_alone_stands_beside_training_and_a_walk_with_its_own_numbers():
    grid, table = chapter.beside_grid(), chapter.beside_table()
    assert list(dict.fromkeys(grid["shown"])) == ["training", "random walk", "decay alone"]
    decaying = dataclasses.replace(TINY, variant="decay only")
    expected = chapter._reading(runs.layout, decaying, "all")
    own = grid[grid["shown"] == "decay alone"]
    assert own["phase"].tolist() == expected["phase"].tolist()
    assert own["loss"].tolist() == expected["loss"].round(3).tolist()
    measures = chapter._reading(runs.measures, decaying)
    n_phases = measures.query("path == 'data' and method == 'pymde'")["n_phases"].item()
    assert table.loc["decay alone", "phases"] == f"{n_phases:.0f}"
    assert f"{n_phases:.0f} in decay alone" in chapter.beside_finding()
    compiled(chapter.plot_beside())


def test_stored_runs_without_one_that_decays_are_shown_without_it(monkeypatch):
    monkeypatch.setattr(chapter, "is_stored", lambda: True)
    monkeypatch.setattr(runs, "stored_runs", lambda: {TINY.name: TINY})
    assert list(chapter._beside()) == ["training", "random walk"]


# --- the tree -------------------------------------------------------------------------------------------


def points_of(tensor: str) -> np.ndarray:
    table = chapter._drawings(chapter.first_run())
    judged = (table["method"] == "pymde") & (table["path"] == "data") & (table["tensor"] == tensor)
    return table.loc[judged, ["x", "y"]].to_numpy(float)


def boxes_of(tensor: str, size: int) -> pd.DataFrame:
    tables = chapter.tree(tensor, "training", size)
    return pd.concat([tables["clusters"], tables["phases"]], ignore_index=True)


def test_boxes_of_the_tree_are_the_phases_and_hold_their_snapshots():
    phases = find_phases(points_of("Q 1"), Clustering(5))
    boxes = chapter.tree("Q 1", "training", 5)["phases"]
    assert sorted(boxes["phase"]) == list(range(phases.n_phases))
    for box in boxes.itertuples():
        assert box.right - box.left == (phases.labels == box.phase).sum()
    root = boxes_of("Q 1", 5).sort_values("appears").iloc[0]
    assert (root["left"], root["right"]) == (0, len(phases.labels))


def test_children_lie_inside_their_parents_and_begin_where_these_end():
    whole = boxes_of("embedding", 5)
    inner = whole[whole["appears"] > 0]
    assert len(inner) == len(whole) - 1 > 0
    for box in inner.itertuples():
        wider = (whole["left"] <= box.left) & (whole["right"] >= box.right)
        around = whole[wider & (whole["appears"] < box.appears)]
        assert (np.abs(around["gone"] - box.appears) < 1e-6).any()


def test_memberships_are_stacked_and_at_most_one():
    member = chapter.tree("Q 1", "random walk", 5)["memberships"]
    assert member["high"].max() <= 1.001  # three digits
    assert (member["high"] >= member["low"]).all()


def test_a_tree_without_a_phase_says_so_and_is_drawn():
    tables = chapter.tree("Q 1", "training", 20)
    assert len(tables["phases"]) == len(tables["memberships"]) == 0
    told = tables["told"].iloc[0]
    assert (told["n_phases"], told["noise_share"], told["validity"]) == (0, 1, "needs two")
    explorer = Explorer(
        chapter.tree,
        {"tensor": ["Q 1"], "path": ["training"], "size": [20, 5]},
        chapter.plot_tree,
        title="t",
        caption="c",
    )
    words = [item["text"] for item in drawn(explorer.static_spec(), "text")]
    assert 0 < told["largest_split"] < 20
    assert f"all noise: any cut takes off {told['largest_split']} at most" in words


# --- settings and methods -------------------------------------------------------------------------------


def test_settings_are_compared_by_the_adjusted_rand_index_of_their_labels():
    grid = chapter.settings_grid()
    labels = chapter.settings_of("V 1", "training")
    place = [chapter.setting_names().index(name) for name in ("8, 5", "8, 8")]
    own = grid[(grid["tensor"] == "V 1") & (grid["path"] == "training")].set_index(["one", "other"])
    row = own.loc[tuple(place)]
    assert row["rand"] == pytest.approx(adjusted_rand_score(labels["8, 5"], labels["8, 8"]), abs=0.005)
    assert row["n_phases"] == labels["8, 5"].max() + 1
    means = grid.drop_duplicates(["tensor", "path"]).groupby("path")["stability"].mean()
    assert f"{means['training']:.2f} for training" in chapter.settings_finding()


def test_the_range_of_phases_is_that_of_the_settings(monkeypatch):
    made = pd.DataFrame(
        {
            "tensor": ["Q 1", "Q 1", "V 1", "V 1"], "path": "training", "one": ["a", "b"] * 2,
            "other": ["a", "b"] * 2, "n_phases": [2, 2, 1, 9],
        }
    )  # fmt: skip
    monkeypatch.setattr(chapter, "settings_grid", lambda: made)
    assert "V 1 has 1 phases or 9" in chapter.range_finding()
    monkeypatch.setattr(chapter, "settings_grid", lambda: made.iloc[:1])
    assert "not known" in chapter.range_finding()


def test_rounding_that_changes_nothing_agrees_and_unknown_bottlenecks_are_told(monkeypatch):
    with monkeypatch.context() as patch:
        plane = chapter._laid_out("Q 1", "training", 8)[1]
        patch.setattr(chapter, "_plane_of", lambda code, n: plane)
        patch.setattr(chapter, "_found", lambda *setting: find_phases(plane, Clustering(setting[3])))
        assert chapter.rounding_finding().endswith("radius: 1.00 for training, 1.00 for random walk")
    assert "for random walk" in chapter.rounding_finding()
    monkeypatch.setattr(chapter, "live_drawing", lambda: None)
    assert "not known" in chapter.rounding_finding()


def test_phases_that_come_back_are_no_intervals(monkeypatch):
    labels = {"data": [0, 0, NOISE, 0, 1, 1], "random walk 0": [0, 1, 1, 0, 2, 2]}
    monkeypatch.setattr(
        runs, "labels", lambda run, path: pd.DataFrame({"Q 1": labels[path]}, index=range(0, 12, 2))
    )
    assert "2 of 2 phases in training and 2 of 3 phases in random walk" in chapter.intervals_finding()


def test_every_explorer_draws():
    paths, matrices = Choice(list(chapter.PATHS.values()), "path"), Choice(chapter.tensors(), "matrix")
    kinds = Choice(["Q", "K", "V", "MLP-up", "MLP-down"], "kind")
    some = {"title": "t", "caption": "c"}
    for explorer in (
        Explorer(
            None,
            {"run": Choice(chapter.figure_runs(), "run"), "kind": kinds, "path": paths},
            chapter.plot_layers,
            grid=chapter.layer_grid(),
            **some,
        ),
        Explorer(
            None,
            {"measure": Choice(chapter.measures_shown(), "m")},
            chapter.plot_kinds,
            grid=chapter.kinds_grid(),
            **some,
        ),
        Explorer(
            None,
            {"tensor": matrices, "path": paths},
            chapter.plot_settings,
            grid=chapter.settings_grid(),
            **some,
        ),
        Explorer(
            None,
            {"drawn": Choice(list(chapter.methods().values()), "d"), "tensor": matrices},
            chapter.plot_methods,
            grid=chapter.method_grid(),
            **some,
        ),
        Explorer(
            chapter.tree,
            {"tensor": Choice(["Q 1"], "m"), "path": paths, "size": Range(5, 10, 5, "least phase")},
            chapter.plot_tree,
            **some,
        ),
    ):
        compiled(explorer)
