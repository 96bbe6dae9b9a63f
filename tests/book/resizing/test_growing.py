"""The stored runs that the chapter on growing shows, by hand."""

import pandas as pd
import pytest

from book.resizing import growing as chapter
from book.resizing.experiments import growing

WIDE = {
    "orthogonal": [3.0, 2.0, 1.0],
    "zeros": [3.0, 2.5, 2.4],
    "fresh": [3.0, 1.8, 0.9],
    "scratch": [6.0, 3.0, 2.0],
}
OUTSIDE = {"orthogonal": [0.0, 0.1, 0.2], "zeros": [0.0, 1e-9, 0.0], "fresh": [0.0, 0.2, 0.3]}


def made(run: growing.GrowRun) -> pd.DataFrame:
    """A table in which a seed adds a hundredth to every loss."""
    steps = [0, 60, 120]
    rows = [
        (32, step, "log_perplexity", loss + run.base.seed / 100)
        for step, loss in zip(steps, WIDE[run.how], strict=True)
    ]
    rows += [(32, 0, "products", 100.0)]
    if run.how != "scratch":
        rows += [
            (16, step, "log_perplexity", loss) for step, loss in zip(steps, (6.0, 4.0, 3.0), strict=True)
        ]
        rows += [(16, 0, "products", 50.0)]
        rows += [(32, step, "outside", share) for step, share in zip(steps, OUTSIDE[run.how], strict=True)]
        rows += [
            (32, 0, f"logit_error_{how}", error)
            for how, error in (("orthogonal", 1e-15), ("zeros", 2e-15), ("gaussian", 0.2))
        ]
    return pd.DataFrame(rows, columns=["width", "step", "quantity", "value"])


@pytest.fixture
def stored(monkeypatch):
    """Made tables in place of stored ones."""
    for module in (chapter, growing):
        monkeypatch.setattr(module, "table_of", lambda cell: made(cell.config))
    chapter.curves.cache_clear()
    yield
    chapter.curves.cache_clear()


def test_curves_count_the_narrow_models_updates_backwards_and_its_products_first(stored):
    table = chapter.curves("quick")
    updates, products = (table[(table["axis"] == axis) & (table["seed"] == 0)] for axis in chapter.AXES)
    assert updates[updates["way"] == chapter.NARROW]["spent"].tolist() == [-120, -60, 0]
    training = growing.runs("quick", "orthogonal")[0].base.training
    tokens = training.batch_size * training.length
    narrow = 3 * 120 * tokens * 50 / 1e12
    own = products[products["way"] == "orthonormal columns"]["spent"].tolist()
    assert own == pytest.approx(
        [narrow, narrow + 3 * 60 * tokens * 100 / 1e12, narrow + 3 * 120 * tokens * 100 / 1e12]
    )
    assert products[products["way"] == "from scratch"]["spent"].tolist()[0] == 0


def test_savings_and_last_losses_are_those_of_each_seed(stored):
    table = chapter.ends("quick").set_index(["way", "seed"])
    assert table["steps"]["orthonormal columns"].tolist() == [50, 50]  # 2.0 at step 60 of 120
    assert table["steps"]["zeros"].tolist() == [0, 0]
    assert table["last"]["from scratch"].tolist() == [2.0, 2.01]
    assert table["steps"]["from scratch"].isna().all()


def test_the_axis_of_losses_ends_where_the_narrow_model_ended(stored):
    assert chapter.limits("quick") == (0.74, 4.0)  # the narrow model has 4.0 at four fifths


def test_rounding_in_old_directions_is_no_energy_in_new_ones(stored):
    table = chapter.outside("quick")
    assert (table[table["way"] == "zeros"]["outside_share"] == 0).all()
    assert table.groupby("way")["outside_share"].max().to_dict() == {
        "orthonormal columns": 0.2,
        "zeros": 0.0,
        "fresh readers": 0.3,
    }


def test_ways_of_a_larger_preset_that_are_not_stored_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert chapter.runs("paper", "fresh") == []
    assert len(chapter.runs("quick", "fresh")) == 2
