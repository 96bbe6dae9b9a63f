"""Numbers that judge claims on resizing, each against its definition on made data."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from book.resizing.experiments import bases, fresh, geometry, quantized, recovery, widths
from tests.book.resizing.experiments.test_several_bases import made_ports


def test_a_port_is_tuned_after_four_hundred_updates(monkeypatch):
    table = pd.DataFrame({"step": [0, 200, 400, 600], "lost": [4.0, 3.0, 2.0, 1.0]})
    monkeypatch.setattr(widths, "curves", lambda runs, stored: table)
    monkeypatch.setattr(widths, "when_recovered", lambda *_, **__: recovery.Recovered(600.0, True))
    assert widths.carried(None) == widths.Carried(4.0, 2.0, 600.0, True)


def test_correlations_within_widths_are_of_ranks_and_leave_the_old_width_out():
    at_d = pd.DataFrame({"rule": "commuting rules", "m": 8, "error": range(6), "lost": [9, 8, 7, 6, 5, 4.0]})
    assert widths.within_widths(pd.concat([made_ports(1.0), at_d])) == pytest.approx(1.0)
    assert widths.rank_correlation([1, 2, 3, 4], [1, 10, 100, 1e6]) == pytest.approx(1)


def test_hidden_states_are_centred_row_by_row_and_measured_on_others_than_pca_sees(monkeypatch):
    states = np.random.default_rng(0).normal(3, 1, (5, 4))
    np.testing.assert_allclose(widths._centered(states).mean(axis=1), 0, atol=1e-12)
    run, seeds = widths.language_runs("quick")[0], []
    model = SimpleNamespace(embedding=None)
    monkeypatch.setattr(widths.resizing, "fold", lambda model: model)
    monkeypatch.setattr(bases, "calibration", lambda base, n, seed: seeds.append(seed) or states)
    with pytest.raises(AttributeError, match="detach"):  # the embedding comes after the states that PCA sees
        next(widths._language_rows(run, SimpleNamespace(model=model)))
    assert seeds == [run.seed]
    with_rows = SimpleNamespace(
        model=SimpleNamespace(embedding=SimpleNamespace(detach=lambda: torch_like(states)))
    )
    none = dataclasses.replace(run, quarters=(), n_draws=0)
    assert list(widths._language_rows(none, with_rows)) == []
    assert seeds == [run.seed, run.seed, run.seed + 1]


def torch_like(states: np.ndarray) -> SimpleNamespace:
    """What is asked of a tensor."""
    return SimpleNamespace(double=lambda: SimpleNamespace(numpy=lambda: states))


# --- fresh base models ------------------------------------------------------------------------------------


def test_rotations_and_permutations_are_compared_with_the_model_as_it_is(monkeypatch):
    means = {quantized.NONE: 1.0, quantized.ROTATION: 3.0, quantized.PERMUTATION: 1.5}
    monkeypatch.setattr(fresh, "quantized_runs", lambda preset, how: [[how]])
    monkeypatch.setattr(quantized, "quantized", SimpleNamespace(cell=lambda run: run))
    monkeypatch.setattr(quantized, "mean_of", lambda how, *_: means[how])
    found = fresh._quantized_figures("quick")["int4_tensor_bases"]
    assert (found.value, found.controls) == (2, {quantized.PERMUTATION: 0.5})


def test_what_a_plain_head_loses_and_a_model_from_scratch_are_less_what_our_repairs_lose(monkeypatch):
    monkeypatch.setattr(fresh, "ours", lambda *_: None)
    monkeypatch.setattr(fresh, "_ends", lambda runs: np.full(3, 0.5))
    monkeypatch.setattr(fresh, "their", lambda *_, scratch, **__: scratch)
    monkeypatch.setattr(fresh, "lost", lambda scratch: np.full(3, 3.0 if scratch else 1.0))
    found = fresh._head_figures("quick")["plain_kept_tuned_half"]
    assert (found.value, found.controls["scratch"]) == (0.5, 2.5)


def test_a_ratio_of_what_maps_have_seen_is_the_root_of_mean_squares(monkeypatch):
    rows = [
        (vectors, family, draw, factor * (4.0 if vectors == "outside" else 1.0))
        for vectors in ("inside", "outside", "steering")
        for family, factor in ((geometry.PCA, 1.0), ("gaussian", 1.0))
        for draw in range(2)
    ]
    table = pd.DataFrame(rows, columns=["vectors", "family", "draw", "value"]).assign(quantity="mean square")
    sizes = pd.concat([table.assign(set=name, size=size) for name in ("own", "mixed") for size in (1, 2, 3)])
    monkeypatch.setattr(fresh, "support_runs", lambda preset: ["support"])
    monkeypatch.setattr(geometry, "sizes_runs", lambda preset: [SimpleNamespace(sizes=(1, 2, 3))])
    monkeypatch.setattr(geometry, "support", SimpleNamespace(cell=lambda run: table))
    monkeypatch.setattr(geometry, "support_sizes", SimpleNamespace(cell=lambda run: sizes))
    monkeypatch.setattr(fresh, "table_of", lambda own: own)
    found = fresh._support_figures("quick")
    assert (found["ratio_seen"].value, found["larger"].value) == pytest.approx((2, 1))
    monkeypatch.setattr(geometry, "sizes_runs", lambda preset, unseen: [SimpleNamespace(sizes=(1, 2, 3))] * 3)
    mixed = sizes.assign(value=sizes["value"].where(sizes["set"] == "own", sizes["value"] / 4))
    monkeypatch.setattr(geometry, "support_sizes", SimpleNamespace(cell=lambda run: mixed))
    found = fresh._representative("quick")["representative_fresh"]
    assert (found.value, found.controls["gaussian"]) == pytest.approx((0.5, 0.5))


def test_a_map_of_many_vectors_misses_beyond_epsilon(monkeypatch):
    eps = geometry.EPS
    values = {"gaussian": [0.9 * eps, 1.1 * eps], geometry.COORDINATES: [3 * eps, 0.5 * eps]}
    table = pd.DataFrame([(family, 16, value) for family, own in values.items() for value in own])
    table.columns = ["family", "m", "value"]
    monkeypatch.setattr(geometry, "many_runs", lambda preset: [None])
    monkeypatch.setattr(geometry, "many_vectors", SimpleNamespace(cell=lambda run: table))
    monkeypatch.setattr(fresh, "table_of", lambda own: own)
    found = fresh._many_figures("quick")["failures_many"]
    assert (found.value, found.controls) == (0.5, {geometry.COORDINATES: 0.5})


def test_a_run_that_just_reaches_the_loss_has_recovered():
    table = pd.DataFrame({"step": [0, 10, 20], "log_perplexity": [2.0, 1.0, 1.0], "original": 1.0})
    assert recovery.when_recovered(table, 0.0) == recovery.Recovered(10.0, True)


# --- the lemma, and maps that have seen a set ---------------------------------------------------------------


def test_the_appendixs_formula_counts_patterns_of_at_most_half_ones():
    table = geometry.capacity.function(geometry.CountsRun(9))
    assert table["formula"].tolist() == table["counted"].tolist()


def test_a_draw_misses_the_lemma_beyond_its_epsilon(monkeypatch):
    run = geometry.lemma_run("quick")
    rows = [
        (vectors, family, run.eps * factor)
        for vectors in (geometry.EMBEDDINGS, geometry.HIDDEN)
        for family, factor in (("gaussian", 1.5), (geometry.COORDINATES, 0.9))
        for _ in range(run.n_draws)
    ]
    table = pd.DataFrame(rows, columns=["vectors", "family", "value"]).assign(
        quantity="at bound", m=4, draw=0
    )
    smallest = pd.DataFrame({"quantity": "smallest", "family": geometry.FAMILIES, "value": 4})
    monkeypatch.setattr(geometry, "table_of", lambda cell: pd.concat([table, smallest]))
    found = geometry._lemma_findings("quick")["failures_hidden"]
    assert (found.value, found.controls) == (1, {geometry.COORDINATES: 0})


def test_no_vector_is_measured_that_a_map_was_made_from(monkeypatch):
    seeds = {"map": set(), "measured": set()}

    def calibration(base, n, seed, streams=None):
        seeds["map" if n == 4 or n == 2 else "measured"].add(seed)
        return np.random.default_rng([seed, n]).normal(size=(n, 4))

    base = SimpleNamespace(config=SimpleNamespace(shape=SimpleNamespace(embedding_dim=4)))
    monkeypatch.setattr(bases, "load", lambda run: base)
    monkeypatch.setattr(bases, "calibration", calibration)
    monkeypatch.setattr(geometry, "steering", lambda base, n, seed: calibration(base, 3, seed))
    run = geometry.SizesRun(bases.base("quick"), None, sizes=(4,), n_draws=3, n_vectors=7)
    assert len(list(geometry._sizes_rows(run, None))) == 3 * 2 * 2 * 3
    assert len(seeds["map"]) == 3
    assert not seeds["map"] & seeds["measured"]


def test_a_calibration_set_takes_layers_and_places_by_its_seed(monkeypatch):
    length = 4
    states = [
        torch.arange(bases.BATCH * length).view(bases.BATCH, length, 1) + 1e3 * layer for layer in range(3)
    ]
    base = SimpleNamespace(
        streams=SimpleNamespace(train=None),
        length=length,
        model=SimpleNamespace(states=lambda tokens: states),
    )
    monkeypatch.setattr(bases, "draw_batch", lambda *_, **__: torch.zeros(bases.BATCH, length + 1))
    first, again, other = (bases.calibration(base, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
