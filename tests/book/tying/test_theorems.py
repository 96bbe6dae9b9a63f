"""The chapter on the theorems: the ends of its runs as one table, and its stored models."""

import numpy as np
import pytest
import torch

from book.tying import theorems as chapter
from book.tying.experiments import exor, theorems
from book.tying.languages.exor import EXor
from embviz.ledger.cells import read
from tests.book.tying.short_runs import store_short, stored_briefly

PRESET = "quick"


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    runs = [*(first for first, _ in chapter.RUNS.values()), chapter.RUNS["weight decay"][1]]
    cells = [exor.cell_of(run, PRESET) for run in runs]
    with stored_briefly(tmp_path_factory.mktemp("results"), cells, (chapter.runs, chapter.stored)):
        yield


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


def test_a_stored_model_has_the_embeddings_of_its_cell_and_a_deficient_one_lacks_a_dimension():
    for run in chapter.RUNS:
        model = chapter.stored(run, 0, PRESET)
        cell = exor.embeddings(chapter.RUNS[run][0], PRESET)[0, False, "output"]
        np.testing.assert_allclose(model.output_embedding.detach().numpy(), cell, rtol=1e-6)
        tokens = torch.from_numpy(EXor().contexts()[0][:50].astype(np.int64))
        with torch.no_grad():
            last_axis = model.encode(tokens)[..., 3].abs().max()
        assert (last_axis == 0) == run.startswith("no decay,")
