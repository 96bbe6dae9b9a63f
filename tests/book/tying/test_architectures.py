"""The chapter on other architectures: its models are the stored ones."""

import numpy as np
import pytest

from book.tying import architectures as chapter
from book.tying.experiments import exor
from embviz.ledger.cells import read
from tests.book.tying.short_runs import stored_briefly


@pytest.fixture(scope="module", autouse=True)
def results(tmp_path_factory):
    """Real cells of a few steps, stored where the quick ones belong."""
    cells = [exor.cell_of(chapter.MODELS["LSTM"][0], "quick")]
    with stored_briefly(tmp_path_factory.mktemp("results"), cells, (chapter.curves, chapter.trained)):
        yield


def test_what_is_not_stored_and_what_there_is_not_is_refused():
    assert chapter.stored_cells("larger LSTM") == []
    with pytest.raises(ValueError, match="no run of the larger LSTM is stored: `embviz run"):
        chapter.curves("larger LSTM")
    with pytest.raises(ValueError, match="no model 'gru': choose one of transformer, LSTM"):
        chapter.curves("gru")


def test_a_trained_model_is_the_stored_one():
    model = chapter.trained("LSTM")
    cell = chapter.stored_cells("LSTM")[0]
    table = read(cell)[0]
    rows = table[(table["seed"] == 0) & ~table["tied"] & (table["quantity"] == "output/1B/2")]
    last = rows.loc[rows["step"].idxmax(), "value"]
    np.testing.assert_allclose(float(model.output_embedding[3, 2].detach()), last, rtol=1e-6)
