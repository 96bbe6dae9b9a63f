"""What steps undo, who carries a circuit, slopes of spectra, queries against keys, steered positions."""

import dataclasses
import itertools
from types import SimpleNamespace

import pytest
import torch

from book.geometry.experiments import crossed, steps, transplant
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
