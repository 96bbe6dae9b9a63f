"""Numbers that judge claims on geometry, each against its definition on made data."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import (
    byte_slope,
    crossed,
    hammer_language,
    hammer_modular,
    language_models,
    transplant,
    variants,
)
from book.geometry.experiments import trajectory_findings as trajectories
from book.geometry.experiments.crossed import GROKKED, MEMORIZED
from book.geometry.experiments.grokking import GrokkingRun, Members, Setting
from book.geometry.experiments.language_models import BASELINE, NO_Q

TINY = GrokkingRun(p=13, train_share=0.6, n_epochs=1, setting=Setting(n_layers=1))
OWN, CONTROL = trajectories.DATA, trajectories.WALK


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_slope_stands_beside_the_same_rows_in_another_order(monkeypatch):
    wave = torch.cos(2 * torch.pi * 3 * torch.arange(32)[:, None] / 32) + torch.zeros(32, 2)
    streams = SimpleNamespace(held_out=None, checksum="")
    visits = [("start", torch.nn.Linear(1, 1), streams, None)]
    monkeypatch.setattr(byte_slope, "train_and_visit", lambda config: visits)
    monkeypatch.setattr(byte_slope, "mean_gradients", lambda *_: [wave])
    hammer = SimpleNamespace(losses=lambda *_: None)
    config = SimpleNamespace(hammer=hammer, seed=0, text=SimpleNamespace(corpus="made"))
    table = byte_slope.byte_slope.function(config).groupby("quantity")["power"]
    assert table.max()["permuted"] < 0.7 * table.max()["gradient"]
    assert table.agg(lambda power: power.iloc[1:-1].sum() + power.iloc[-1] / 2).round(1).nunique() == 1


# --- grokking ---------------------------------------------------------------------------------------------


def crossed_table(factors: list[float]) -> pd.DataFrame:
    rows = [
        (16, "small", run, seed, factor * epochs, 1.0)
        for run, epochs in crossed.PRINTED.items()
        for seed, factor in enumerate(factors)
    ]
    return pd.DataFrame(rows, columns=[*crossed.KEYS, "seed", "grok", "memorize"])


def test_a_setting_misses_by_its_median_and_the_interval_draws_seeds_again(monkeypatch):
    table = crossed_table([1.0, 1.2, 60.0])
    assert crossed.factors_off(table)["both"].tolist() == pytest.approx([1.2])
    monkeypatch.setattr(crossed, "crossed_times", lambda preset: table)
    miss = crossed._findings("paper")["miss"]
    assert (miss.low, miss.value, miss.high) == pytest.approx((1, 1.2, 60))


def test_a_threshold_that_is_just_reached_is_reached(monkeypatch):
    exact = {"train_accuracy": MEMORIZED, "validation_accuracy": GROKKED}
    frames = [SimpleNamespace(seed=0, epoch=epoch, scores=exact) for epoch in range(3)]
    monkeypatch.setattr(crossed, "grok", lambda config: iter(frames))
    assert crossed.first_times.function(SimpleNamespace(n_seeds=1))["epoch"].max() == 0
    members = SimpleNamespace(
        config=SimpleNamespace(n_epochs=3),
        frames=lambda epoch: [SimpleNamespace(validation_accuracy=GROKKED)],
    )
    assert transplant._train(members) == [("epoch", 1.0), ("grokked", 1.0)]


def test_the_chance_of_an_overlap_is_resampled_over_seeds_once_they_have_memorized(monkeypatch):
    counts = {hammer_modular.MEMORY: [1, 3, 5], hammer_modular.START: [0, 0, 0]}
    monkeypatch.setattr(hammer_modular, "_shared", lambda tables, moment, quantity: counts[moment])
    found = hammer_modular._overlap([pd.DataFrame({"mode": [48]})])
    ends = (hammer_modular.log_overlap_p([same] * 3, 48) for same in (5, 1))
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert found.value == pytest.approx(hammer_modular.log_overlap_p([1, 3, 5], 48))


def test_named_modes_of_permuted_rows_are_the_control_of_the_gradients(monkeypatch):
    monkeypatch.setattr(hammer_modular, "first_cells", lambda preset: range(3))
    monkeypatch.setattr(hammer_modular, "read", lambda cell: (pd.DataFrame({"moment": [""]}), None))
    monkeypatch.setattr(hammer_modular, "_single", lambda *_: 1.0)
    monkeypatch.setattr(hammer_modular, "_fresh", lambda preset: {})
    shares = {"gradient": 1.0, "permuted": 0.25}
    monkeypatch.setattr(hammer_modular, "share_of_nanda", lambda table, quantity: shares[quantity])
    assert hammer_modular._findings("quick")["nanda"].controls == {"permuted": 0.25}


def test_rows_in_another_order_sound_differently_in_every_model(one_thread):
    heard = pd.DataFrame(
        hammer_modular._heard(Members(TINY, [0]), "", 0), columns=["", "name", "mode", "value"]
    )
    powers = heard[heard["mode"] >= 0].pivot(index="mode", columns="name", values="value")
    assert np.abs(powers["gradient"] - powers["permuted"]).iloc[1:].max() > 0.01 * powers["gradient"].max()


def test_the_correlation_of_variants_has_an_interval_over_seeds(monkeypatch):
    rng = np.random.default_rng(0)
    rows = [
        (name, seed, *rng.integers(1, 99, 2)) for name in ("near-Nyquist", "a", "b", "c") for seed in range(4)
    ]
    table = pd.DataFrame(rows, columns=["variant", "seed", "grok", "memorize"])
    monkeypatch.setattr(variants, "variant_times", lambda preset: table)
    paired = table.assign(modes=np.where(table["variant"] == "near-Nyquist", "near-Nyquist", "drawn"))
    monkeypatch.setattr(variants, "ten_seeds", lambda preset: paired)
    found = variants._variant_findings("quick")["correlation"]
    assert found.low < found.value < found.high


# --- language models --------------------------------------------------------------------------------------


def test_the_spread_of_permuted_rows_is_that_of_a_sample_and_all_rows_are_a_reading(monkeypatch):
    heard = SimpleNamespace(permuted=np.array([1.0, 2.0, 6.0]), regularity=0, flat=0, noise=0, modes=[1])
    monkeypatch.setattr(hammer_language, "sound", lambda *_, **__: heard)
    monkeypatch.setattr(hammer_language, "mean_gradients", lambda *_: [noise(12, 2)])
    monkeypatch.setattr(hammer_language.Hammer, "losses", lambda *_: None)
    hammer = hammer_language.Hammer(n_rows=8)
    table = hammer.strike(None, torch.nn.Linear(1, 1), None, [hammer_language.Part("role", "weight")])
    assert table["permuted_sd"].tolist() == pytest.approx([np.sqrt(7)] * 2)
    monkeypatch.setattr(hammer_language, "read", lambda cell: (table, None))
    monkeypatch.setattr(hammer_language, "hammer_language", SimpleNamespace(cell=lambda run: run))
    readings = hammer_language.regularities("quick", [SimpleNamespace(hammer=hammer, seed=0)])["reading"]
    assert readings.tolist() == ["first rows", "whole axis"]


def course(variant: str, gaps: list[float], key_shares: list[float]) -> pd.DataFrame:
    rows = pd.DataFrame({"step": range(3), "bits_per_byte": 2.0, "key_share": key_shares})
    rows = rows.assign(train_bits_per_byte=2 + np.array(gaps), key_power=0.1, alignment=0.2, variant=variant)
    return pd.concat([rows.assign(seed=seed) for seed in range(3)])


def test_gaps_are_compared_at_the_end_and_alignment_with_its_start(monkeypatch):
    table = pd.concat(
        [course(BASELINE, [0, 0.2, 0.1], [0.5, 0.5, 0.5]), course(NO_Q, [0, 0.4, 0.5], [0.1, 0.2, 0.3])]
    )
    monkeypatch.setattr(language_models, "curves", lambda runs: table)
    assert language_models._generalization_findings("quick")["gap"].value == pytest.approx(0.4)
    share = language_models._alignment_findings("quick")["share_over_untrained"]
    assert (share.value, share.controls["untrained"]) == pytest.approx((0.3 / 0.1, 1.0))


def test_early_is_a_sixth_of_the_training():
    rows = [
        (step, variant, 0, 2.0 - 0.01 * step * (variant == NO_Q))
        for step in range(13)
        for variant in (BASELINE, NO_Q)
    ]
    table = pd.DataFrame(rows, columns=["step", "variant", "seed", "bits_per_byte"])
    assert language_models.early_gains(table) == pytest.approx([1.0])


# --- trajectories -----------------------------------------------------------------------------------------


def kinds(q: float, *others: float) -> pd.DataFrame:
    """One seed's numbers by kind."""
    return pd.DataFrame([dict(zip(("Q", *trajectories.OTHERS), (q, *others), strict=True))])


def test_q_is_held_against_the_mean_of_the_others_and_the_control_is_that_of_walks(monkeypatch):
    tables = {OWN: kinds(9.0, 1, 1, 1, 5), CONTROL: kinds(3.0, 1, 1, 1, 1)}
    monkeypatch.setattr(trajectories, "of_kinds", lambda runs, column, path=OWN: tables[path])
    found = trajectories.contrasts([SimpleNamespace(source=SimpleNamespace(corpus="made"))])["phases"]
    assert (found.value, found.controls["random_walk"]) == (7, 2)


def test_drops_of_shuffled_losses_are_what_they_have_over_the_walks(monkeypatch):
    tables = {OWN: kinds(0.9, 0, 0, 0, 0), CONTROL: kinds(0.3, 0, 0, 0, 0)}
    monkeypatch.setattr(trajectories, "of_kinds", lambda runs, column, path=OWN: tables[path])
    monkeypatch.setattr(trajectories, "_of_q", lambda *_: np.array([0.5]))
    measures = pd.DataFrame(
        {"method": "pymde", "n_neighbors": 5, "kind": "Q", "path": OWN, "transition_p": [0.04, 0.06]}
    )
    run = SimpleNamespace(seed=0, pipeline=SimpleNamespace(neighbors=[5]))
    monkeypatch.setattr(
        trajectories.trajectory_runs,
        "measures",
        lambda run: pd.concat([measures, measures.assign(path=f"{CONTROL} 0")]),
    )
    found = trajectories._drop_findings([run], trajectories.findings.over_seeds)
    assert found["drops"].value == pytest.approx(0.6)
    assert found["drops"].controls["shuffled"] == pytest.approx(0.2)
    assert found["significant"].value == 0.5


def test_a_shape_is_compared_by_ratios_of_means_over_matrices(monkeypatch):
    rows = [
        (seed, tensor, 0.1, 0.2, 0.4, 0.0) for seed, tensor in itertools.product(range(3), ("Q 1", "K 1"))
    ]
    columns = ["seed", "tensor", "disparity", "between_runs", "walks", "two_arms_left"]
    monkeypatch.setattr(trajectories, "shape_table", lambda runs: pd.DataFrame(rows, columns=columns))
    found = trajectories.shape_findings([SimpleNamespace(source=SimpleNamespace(corpus="made"))])
    assert (found["against_runs"].value, found["against_walks"].value) == pytest.approx((0.5, 0.25))
    monkeypatch.setattr(trajectories, "shapes", lambda group: table.assign(kind="Q"))
    table = pd.DataFrame(rows, columns=columns).assign(walks=[0.4, 0.4, 0.2, 0.2, 0.1, 0.1])
    assert trajectories.ratio("made", "walks").value == pytest.approx((0.25 + 0.5 + 1) / 3)  # seed by seed
