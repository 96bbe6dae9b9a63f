"""What steps undo, who carries a circuit, slopes of spectra, queries against keys, steered positions."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import byte_slope, crossed, natural_order, steps, transplant
from book.geometry.experiments.crossed import GROKKED, MEMORIZED
from book.geometry.experiments.grokking import GrokkingRun, Members, Setting
from book.projected import Prescribed
from book.transformer import Transformer

TINY = GrokkingRun(p=7, train_share=0.6, n_epochs=3, setting=Setting(n_layers=1))


# --- steps ----------------------------------------------------------------------------------------------


def test_cosines_of_steps_are_those_of_a_plain_loop(monkeypatch):
    monkeypatch.setattr(steps, "NEAR", dataclasses.replace(TINY, modes=(1, 2)))
    table = steps.steps.function(steps.Steps(TINY))
    members, gradients = Members(TINY, [0]), []
    for epoch in (1, 2, 3):
        members.train_epoch(epoch)
        gradients.append(members.embedding_gradients()[0, :7].detach().clone())
    kept = [Prescribed((1, 2)).apply(gradient) for gradient in gradients]
    rest = [gradient - part for gradient, part in zip(gradients, kept, strict=True)]
    for name, parts in {"gradient": gradients, "kept": kept, "deleted": rest}.items():
        pairs = itertools.pairwise(part.flatten() for part in parts)
        expected = [float(one @ other / (one.norm() * other.norm())) for one, other in pairs]
        found = table.loc[table["quantity"] == name, "cosine"].tolist()
        assert found == pytest.approx(expected, abs=1e-5)


def made_frames(monkeypatch, accuracies):
    def frames(members, epoch):
        members.train_epoch(epoch)
        training, validation = accuracies[epoch - 1]
        return [SimpleNamespace(train_accuracy=training, validation_accuracy=validation)]

    monkeypatch.setattr(Members, "frames", frames)
    run = dataclasses.replace(TINY, modes=(1, 2), n_epochs=len(accuracies))
    return steps.steps.function(steps.Steps(run)).set_index("update")["window"].to_dict()


def test_windows_begin_at_10_and_99_percent_and_end_with_grokking(monkeypatch):
    monkeypatch.setattr(steps, "LEAST", 2)
    course = [(0.0, None), (0.09, 0.0), (0.1, 0.0), (0.5, 0.96), (0.99, 0.1), (1.0, 0.95), (1.0, 1.0)]
    windows = {2: steps.PLATEAU, 3: steps.LEARNING, 4: steps.LEARNING, 5: steps.MEMORY, 6: steps.MEMORY}
    assert made_frames(monkeypatch, course) == windows
    monkeypatch.setattr(steps, "MOST", 2)  # without grokking it is recorded that far
    assert max(made_frames(monkeypatch, [(1.0, 0.0)] * 5)) == 2


def test_a_gain_is_paired_by_seed_beside_that_of_a_subspace(monkeypatch):
    base = {"gradient": -0.2, "kept": -0.1, "deleted": -0.3}
    rows = [
        ("baseline", seed, window, quantity, cosine + 0.1 * seed)
        for seed in range(3)
        for window in steps.WINDOWS
        for quantity, cosine in base.items()
    ]
    for run, cosine in (("near_nyquist", -0.05), ("subspace", -0.4)):
        rows += [(run, s, window, "gradient", cosine + 0.1 * s) for s in range(3) for window in steps.WINDOWS]
    table = pd.DataFrame(rows, columns=["run", "seed", "window", "quantity", "cosine"])
    monkeypatch.setattr(steps, "cosines", lambda preset: table)
    found = steps.STUDIES["geometry.undoing"].measure("paper")
    gain = found["gain_learning"]
    assert (gain.low, gain.high) == pytest.approx((0.15, 0.15))
    assert gain.controls == pytest.approx({"subspace": -0.2})
    assert found["deleted_memorized"].value == pytest.approx(-0.2)


# --- transplants ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", transplant.GIVEN[1:])
def test_a_receiver_has_the_donors_part_for_good_and_learns_the_rest(given):
    donor = Transformer(TINY.shape, seed=0)
    receiver = Members(TINY, [0])
    receiver.model = transplant._with_part(donor, given, 1_000)
    fresh = dict(Transformer(TINY.shape, seed=1_000).named_parameters())
    transplant._train(receiver)
    for name, theirs in donor.named_parameters():
        mine = dict(receiver.model.named_parameters())[name]
        if transplant.part_of(name) == given:
            assert torch.equal(mine, theirs), name
        else:
            assert not torch.equal(mine, fresh[name]), name


def test_the_controls_keep_their_own_untrained_embedding_or_attention():
    table = transplant.transplant.function(transplant.Transplant(TINY))
    assert set(table["given"]) == {*transplant.GIVEN, *transplant.UNTRAINED.values()}
    seed = TINY.first_seed + transplant.OTHER
    own = dict(Transformer(TINY.shape, seed=seed).named_parameters())
    kept = transplant._with_part(Transformer(TINY.shape, seed=seed), transplant.ATTENTION, seed)
    for name, mine in kept.named_parameters():
        assert torch.equal(mine, own[name])
        assert mine.requires_grad == (transplant.part_of(name) != transplant.ATTENTION)


def test_a_donor_is_trained_until_it_has_finished_and_its_epoch_is_the_first_at_95_percent():
    course = [0.2, 0.96, 0.9, 1.0, 1.0]
    members = SimpleNamespace(config=SimpleNamespace(n_epochs=4), going={0})
    seen = []

    def frames(epoch):
        seen.append(epoch)
        members.going = set() if epoch == 3 else {0}
        return [SimpleNamespace(validation_accuracy=course[epoch])]

    members.frames = frames
    assert transplant._train(members, to_the_end=True) == [("epoch", 1.0), ("grokked", 1.0)]
    assert seen == [0, 1, 2, 3]


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


def test_the_share_of_a_few_strong_modes_is_one_for_a_few_waves_and_leaves_the_mean_out():
    rows = torch.cos(2 * torch.pi * 3 * torch.arange(32)[:, None] / 32) + 100.0
    assert transplant.top_share(rows) == pytest.approx(1.0)
    noise = torch.randn(33, 500, generator=torch.Generator().manual_seed(0))
    share = transplant.top_share(noise + 100)
    assert share == pytest.approx(5 / 16, abs=0.04)  # the strongest of 16 even ones


def test_the_embedding_is_credited_with_what_its_receivers_save(monkeypatch):
    tables = {}
    for seed, donor, kept, attention in ((20, 400, 100, 200), (21, 500, 100, 500), (22, 300, 60, 600)):
        rows = [("nothing", "epoch", donor), ("embedding", "epoch", kept)]
        rows += [("attention", "epoch", attention), ("MLPs and head", "epoch", donor)]
        rows += [("untrained embedding", "epoch", 2 * donor), ("untrained attention", "epoch", 1.5 * donor)]
        rows += [("nothing", "share", 0.7), ("nothing", "permuted", 0.2)]
        tables[seed] = pd.DataFrame(rows, columns=["given", "quantity", "value"])
    monkeypatch.setattr(transplant, "SEEDS", {"paper": range(20, 23)})
    monkeypatch.setattr(transplant, "read", lambda cell: (tables[cell.config.donor.first_seed], {}))
    found = transplant.STUDIES["geometry.carrier"].measure("paper")
    assert found["embedding_given"].value == pytest.approx((75 + 80 + 80) / 3)
    assert found["attention_given"].value == pytest.approx((50 + 0 - 100) / 3)
    assert found["embedding_minus_attention"].value == pytest.approx((25 + 80 + 180) / 3)
    assert found["embedding_minus_attention"].controls == {"untrained": pytest.approx(-100 + 50)}
    assert found["embedding_minus_rest"].value == found["embedding_given"].value
    assert found["embedding_excess"].value == pytest.approx(0.5)


# --- slopes ---------------------------------------------------------------------------------------------


def test_a_spectrum_that_falls_as_a_power_has_that_slope_and_its_mean_does_not_count():
    modes = np.arange(1, 129)
    power = np.concatenate([[1e6], 3.0 * modes**-0.35])
    assert byte_slope.slope(power) == pytest.approx(-0.35)


# --- other controls -------------------------------------------------------------------------------------


def test_steered_positions_keep_their_modes_and_tokens_their_whole_gradient():
    runs = {run.variant: run for run in natural_order.position_runs("laptop")}
    lowest = runs["positions, lowest modes"].projection(4_096)
    assert lowest.modes == (1, 2, 3, 4, 5)
    assert runs["positions, near-Nyquist"].projection(4_096).modes == (28, 29, 30, 31, 32)  # of 64 positions
    assert runs["baseline"].projection(4_096) is None
    assert {run.seed for run in runs.values()} <= {2, 3, 4}
