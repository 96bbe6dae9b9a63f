"""Grokking's runs without queries, the chance of an overlap, and drawn sets of modes."""

import pandas as pd
import pytest
import torch

from book.geometry.experiments import hammer_modular, queries, steering, variants
from book.geometry.experiments.grokking import GrokkingRun, grok
from book.transformer import Transformer, n_parameters
from embviz.training.fourier import power_spectrum

# --- without queries ------------------------------------------------------------------------------------


def test_the_wider_mlp_takes_as_many_weights_as_the_query_projection():
    both, wide = (
        n_parameters(Transformer(run.shape, seed=0)) for run in (steering.BASE, queries.VARIANTS["wide_no_q"])
    )
    assert wide == both


def test_runs_of_a_pair_start_from_the_same_weights_but_for_the_projection_that_is_gone():
    whole = dict(Transformer(queries.RUNS["with queries"].shape, seed=3).named_parameters())
    for name in ("without queries", "without keys"):
        weights = dict(Transformer(queries.RUNS[name].shape, seed=3).named_parameters())
        gone = {key.split(".")[-2] for key in whole.keys() - weights.keys()}
        assert gone == {"query" if name == "without queries" else "key"}
        assert all(torch.equal(weight, whole[key]) for key, weight in weights.items())


# --- the hammer -----------------------------------------------------------------------------------------


def test_the_share_of_the_named_modes_has_the_permuted_order_as_its_control(monkeypatch):
    powers = {"gradient": {1: 3.0, 14: 2.0, 20: 1.0}, "permuted": {1: 3.0, 20: 2.0, 21: 1.0}}
    rows = [("start", name, mode, own.get(mode, 0.0)) for name, own in powers.items() for mode in range(49)]
    rows += [("start", name, -1, 0.0) for name in ("regularity", "z")]
    table = pd.DataFrame(rows, columns=["moment", "quantity", "mode", "value"])
    monkeypatch.setattr(hammer_modular, "first_cells", lambda preset: [0, 1, 2])
    monkeypatch.setattr(hammer_modular, "read", lambda cell: (table, {}))
    monkeypatch.setattr(hammer_modular, "_fresh", lambda preset: {})
    found = hammer_modular._findings("paper")["nanda"]
    assert found.value == pytest.approx(2 / 3)
    assert found.controls == {"permuted": pytest.approx(1 / 3)}


def test_a_strike_hears_the_start_and_the_end_of_a_run_and_changes_nothing_of_it():
    run = GrokkingRun(p=11, train_share=0.6, n_epochs=4)
    torch.set_num_threads(1)
    table = hammer_modular.strikes.function(hammer_modular.Strike(run))
    *_, last = grok(run, device="cpu")
    heard = table[(table["moment"] == "end") & (table["quantity"] == "embedding")]
    assert heard["value"].tolist() == power_spectrum(torch.from_numpy(last.embedding)).tolist()


# --- drawn sets -----------------------------------------------------------------------------------------


def test_ahead_counts_drawn_sets_no_later_than_near_nyquist_of_their_seed():
    near, drawn = [(5, 60), (6, 90)], [(5, 60), (5, 61), (6, 89), (6, 90)]
    rows = [("near-Nyquist", *one) for one in near] + [("drawn", *one) for one in drawn]
    finding = variants.ahead(pd.DataFrame(rows, columns=["modes", "seed", "grok"]), "grok")
    assert (finding.value, finding.n_seeds) == (0.75, 2)
    assert finding.controls["by_lot"] == 0.5  # of two different times one is no later than the other
