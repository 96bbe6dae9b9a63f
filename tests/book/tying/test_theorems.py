"""The chapter on the theorems: its runs as one table, and its pictures in the plane."""

import json

import altair as alt
import numpy as np
import pytest
import torch

from book.tying import theorems as chapter
from book.tying.experiments import exor, theorems
from book.tying.languages.exor import EXor
from embviz.ledger.cells import read
from tests.book.tying.short_runs import N_STEPS, store_short, stored_briefly

PRESET = "quick"


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    with stored_briefly(tmp_path_factory.mktemp("results"), (chapter.runs, chapter.stored)):
        for name, (first, fresh) in chapter.RUNS.items():
            if not exor.cell_of(first, PRESET).stored():
                store_short(exor.cell_of(first, PRESET))
            if name == "weight decay":
                store_short(exor.cell_of(fresh, PRESET))
        yield


def test_runs_are_the_stored_ones_of_three_kinds_with_the_fresh_seeds_as_far_as_there_are():
    for tied in (False, True):
        table = chapter.runs(tied=tied, preset=PRESET)
        assert (table["tied"] == tied).all()
        seeds = table.groupby("run", sort=False)["seed"].unique().map(list).to_dict()
        assert seeds == {
            "weight decay": [0, 1, 20, 21],
            "no weight decay": [0, 1],
            "no decay, 3 of 4 dimensions": [0, 1],
        }
        assert (table["loss_gap"] >= chapter.LEAST_GAP).all()


def test_the_ends_are_those_of_the_runs_and_of_the_many_seeds_that_keep_no_curve():
    before = chapter.ends(PRESET)
    assert len(before) == 8
    cell = theorems.ends_of(theorems.MANY, PRESET)
    store_short(cell)
    table = chapter.ends(PRESET).iloc[len(before) :]
    assert (table["run"] == "no weight decay").all()
    assert list(table["seed"]) == list(cell.config.seeds)
    many = read(cell)[0]
    expected = (many["output_11"] / many["output_01"]).to_numpy()
    np.testing.assert_allclose(table["relative_output_11"], expected)


def test_a_caption_counts_the_seeds_that_are_drawn():
    table = chapter.runs(preset=PRESET)
    assert chapter.about(table).endswith(
        "seeds weight decay: 4, no weight decay: 2, no decay, 3 of 4 dimensions: 2."
    )
    one = table[table["run"] == "no weight decay"]
    assert chapter.about(one) == f"EXor, transformer, d = 4, {N_STEPS} steps; seeds 2."


def test_a_stored_model_has_the_embeddings_of_its_cell_and_a_deficient_one_lacks_a_dimension():
    for run in chapter.RUNS:
        model = chapter.stored(run, 0, PRESET)
        cell = exor.embeddings(chapter.RUNS[run][0], PRESET)[0, False, "output"]
        np.testing.assert_allclose(model.output_embedding.detach().numpy(), cell, rtol=1e-6)
        tokens = torch.from_numpy(EXor().contexts()[0][:50].astype(np.int64))
        with torch.no_grad():
            last_axis = model.encode(tokens)[..., 3].abs().max()
        assert (last_axis == 0) == run.startswith("no decay,")


def test_the_plane_draws_each_arrow_to_its_end_in_equal_scales():
    chart = chapter.plot_plane(["a", "b"], reach=2.0)(alt.NamedData("arrows"), alt.NamedData("area"))
    said = json.dumps(chart.to_dict())
    assert said.count('"domain": [-2.0, 2.0]') >= 4
    spec = chart.to_dict()
    assert spec["width"] == spec["height"]
