"""The chapter on growing: savings by hand, where first updates point, and what the page shows."""

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing import growing as chapter
from book.resizing.experiments import growing
from embviz.models import resizing
from embviz.models.decoder import Decoder, DecoderConfig

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


def test_savings_and_last_losses_are_means_over_seeds(stored):
    table = chapter.ends("quick")
    assert list(table.index) == list(chapter.WAYS.values())
    assert table.loc["orthonormal columns", "updates saved"] == "50%"  # 2.0 at step 60 of 120
    assert table.loc["zeros", "updates saved"] == "0%"
    assert table.loc["from scratch", "last loss (nats)"] == "2.005"
    assert "zeros 2.405" in chapter.ends_finding("quick")


def test_what_width_is_worth_is_held_against_zeros(stored):
    assert "+1.400 nats (orthonormal columns), +1.500 nats (fresh readers)" in chapter.width_finding("quick")


def test_rounding_in_old_directions_is_no_energy_in_new_ones(stored):
    table = chapter.outside("quick")
    assert (table[table["way"] == "zeros"]["outside_share"] == 0).all()
    assert chapter.outside_finding("quick").endswith(
        "orthonormal columns 20.0%, zeros 0.0%, fresh readers 30.0%"
    )


def test_the_table_of_errors_has_the_null(stored):
    table = chapter.error_table("quick")
    assert table.loc["Gaussian columns", "least"] == "2.0e-01"
    assert table.loc["zeros", "largest"] == "2.0e-15"


def test_charts_can_be_drawn(stored):
    for chart in (chapter.plot_curves(chapter.curves("quick"), "quick"), chapter.plot_outside("quick")):
        assert chart.to_dict()["layer"]


def test_ways_of_a_larger_preset_that_are_not_stored_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBVIZ_RESULTS_DIR", str(tmp_path))
    assert chapter.runs("paper", "fresh") == []
    assert len(chapter.runs("quick", "fresh")) == 2


def test_the_share_outside_is_along_the_residual_axis_alone():
    model = Decoder(DecoderConfig(4, 4, 4, 1, 2, mlp_dim=4, norm="rms", gains="none"), seed=0)
    basis = torch.eye(4, dtype=torch.float64)[:, :2]
    arrays = {name: torch.zeros_like(array, dtype=torch.float64) for name, array in model.named_parameters()}
    arrays["blocks.0.up.weight"][0] = torch.tensor([1.0, 0, 0, 0])  # reads an old direction
    arrays["blocks.0.down.weight"][3] = torch.tensor([0.0, 3.0, 0, 0])  # writes a new one
    assert chapter._outside(model, arrays, basis) == pytest.approx(0.9)
    assert set(resizing.axes(model)) == set(arrays)


def test_gradients_stay_in_what_the_map_reaches_and_adam_leaves_it_but_for_zeros(monkeypatch, one_thread):
    run = growing.runs("quick", "orthogonal")[0]
    monkeypatch.setattr(chapter, "narrow_here", lambda: Decoder(run.base.shape, seed=1))
    table = chapter.first_update()
    assert table.loc["zeros"].tolist() == ["0", "0"]
    assert table.loc["orthonormal columns", "gradient"] == "0"  # but for rounding
    assert float(table.loc["orthonormal columns", "Adam's update"]) > 0.01
    assert float(table.loc["fresh readers", "gradient"]) > 0


def test_models_grown_here_begin_where_the_narrow_one_stands(monkeypatch, one_thread):
    run = growing.runs("quick", "orthogonal")[0]
    monkeypatch.setattr(chapter, "narrow_here", lambda: Decoder(run.base.shape, seed=1))
    monkeypatch.setattr(chapter, "HERE_STEPS", 4)
    monkeypatch.setattr(chapter, "HERE_EVERY", 2)
    chapter._trained.cache_clear()
    table = chapter.grow_here("fresh", 20)
    chapter._trained.cache_clear()
    first = table[table["step"] == 0].set_index("series")["log_perplexity"]
    assert first["grown"] == pytest.approx(first["narrow, trained on"], abs=1e-5)  # float32
    assert sorted(set(table["step"])) == [0, 2, 4]
    assert "16 to 20 dimensions, fresh readers" in table["note"].iloc[0]
    assert np.isfinite(table["log_perplexity"]).all()
