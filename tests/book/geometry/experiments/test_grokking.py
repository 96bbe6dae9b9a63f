"""The grokking engine against a plain loop over whole strings; its schedule, its tables, its refusals."""

import dataclasses
import itertools
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch

from book.geometry.experiments import crossed
from book.geometry.experiments import grokking as engine
from book.geometry.experiments.grokking import (
    CONTROLS,
    DECAY,
    GROKFAST,
    MATCHED,
    SHUFFLED,
    SWITCHED,
    GrokkingRun,
    Members,
    Setting,
    circle,
    first_epochs,
    grok,
    grokking,
)
from book.geometry.experiments.pairs import pick_by_product, read_pairs
from book.transformer import Attending, Norm, Positions, StackedTransformers, Transformer

P = 11
TINY = GrokkingRun(p=P, train_share=0.6, n_epochs=3)
NEAR = dataclasses.replace(TINY, modes=(3, 5))
FLOAT64 = {"rtol": 1e-9, "atol": 1e-11}  # sums of some hundred terms in another order
pytestmark = pytest.mark.usefixtures("own_results")


# --- pairs ------------------------------------------------------------------------------------------

OPTIONS = list(
    itertools.product(get_args(Attending), get_args(Norm), get_args(Positions), (True, False), (1, 3))
)


@pytest.mark.parametrize(
    ("attention", "norm", "positions", "equals", "n_layers"), OPTIONS[:: len(OPTIONS) // 30 + 2]
)
def test_pairs_read_by_distinct_rows_have_the_logits_and_gradients_of_whole_strings(
    attention, norm, positions, equals, n_layers
):
    setting = Setting(norm=norm, positions=positions, equals=equals, n_layers=n_layers, start="pytorch")
    config = dataclasses.replace(TINY, attention=attention, setting=setting)
    model = Transformer(config.shape, seed=1).double()
    strings = torch.from_numpy(config.task.strings())[::3]
    pairs, whole = read_pairs(model, strings[:, 0], strings[:, 1]), model(strings)[:, -1]
    torch.testing.assert_close(pairs, whole, **FLOAT64)
    parameters = list(model.parameters())
    found, wanted = (torch.autograd.grad(out.sin().sum(), parameters) for out in (pairs, whole))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **FLOAT64)


def test_rows_picked_by_a_product_are_the_rows_alone_and_side_by_side():
    x, index = torch.randn(3, 7, 2, 4), torch.randint(7, (3, 20))
    torch.testing.assert_close(pick_by_product(x[0], index[0]), x[0][index[0]], rtol=0, atol=0)
    wanted = torch.stack([rows[own] for rows, own in zip(x, index, strict=True)])
    torch.testing.assert_close(torch.vmap(pick_by_product)(x, index), wanted, rtol=0, atol=0)


# --- the engine against a plain loop ----------------------------------------------------------------


def kept_of(gradient: np.ndarray, config: GrokkingRun) -> np.ndarray:
    """Projection of a gradient (p, D) by the sum over frequencies that defines it."""
    if config.control == SHUFFLED:
        order = np.random.default_rng(config.first_seed).permutation(config.p)
        plain = dataclasses.replace(config, control="")
        return kept_of(gradient[order], plain)[np.argsort(order)]
    p = len(gradient)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(p), np.arange(p)) / p)
    spectrum = waves @ gradient
    modes = config.modes
    if config.top_k:
        modes = np.argsort(-(np.abs(spectrum[: p // 2 + 1]) ** 2).sum(1))[: config.top_k]
    chosen = [k for k in range(p) if min(k, p - k) in modes]
    kept = (waves.conj().T[:, chosen] @ spectrum[chosen]).real / p
    if config.control == MATCHED:
        kept *= np.linalg.norm(gradient) / np.linalg.norm(kept)
    return kept


def trained_plainly(config: GrokkingRun) -> tuple[Transformer, list[float]]:
    """A loop over whole strings in float64, as a reader would write it; the model, and each epoch's loss."""
    task, setting, seed = config.task, config.setting, config.first_seed
    model = Transformer(config.shape, seed=seed).double()
    others = [p for name, p in model.named_parameters() if name != "embedding"]
    adam = torch.optim.AdamW(
        [
            {"params": [model.embedding], "weight_decay": setting.weight_decay},
            {"params": others, "weight_decay": 0.0 if config.control == DECAY else setting.weight_decay},
        ],
        betas=(0.9, setting.beta2),
    )
    strings, answers = torch.from_numpy(task.strings()), torch.from_numpy(task.answers())
    train = task.split(seed)[0]
    projecting = bool(config.modes or config.top_k)
    step, epoch_losses, slow = 0, [], {}
    for epoch in range(1, config.n_epochs + 1):
        order, size = np.arange(len(train)), setting.batch_size or len(train)
        if setting.batch_size:
            order = np.random.default_rng([seed, epoch, 1]).permutation(len(train))
        total, right = 0.0, 0
        for start in range(0, len(train), size):
            rows = train[order[start : start + size]]
            logits = model(strings[rows])[:, -1]
            loss = torch.nn.functional.cross_entropy(logits, answers[rows])
            adam.zero_grad()
            loss.backward()
            if projecting:
                gradient = model.embedding.grad[: config.p].numpy()
                model.embedding.grad[: config.p] = torch.from_numpy(kept_of(gradient, config))
            if config.control == GROKFAST:
                for name, weights in model.named_parameters():
                    slow[name] = 0.98 * slow.get(name, weights.grad) + 0.02 * weights.grad
                    weights.grad = weights.grad + 2.0 * slow[name]
            step += 1
            for group in adam.param_groups:
                group["lr"] = setting.learning_rate * min(1, step / max(1, setting.warm_up))
            adam.step()
            total += loss.item() * len(rows)
            right += int((logits.argmax(1) == answers[rows]).sum())
        if config.control == SWITCHED and right >= engine.MEMORIZED * len(train):
            projecting = False
        epoch_losses.append(total / len(train))
    return model, epoch_losses


RUNS = {
    "baseline": TINY,
    "batches": dataclasses.replace(TINY, setting=Setting(batch_size=20, warm_up=5)),
    "no query": dataclasses.replace(TINY, attention="no_q"),
    "prescribed": NEAR,
    "adaptive": dataclasses.replace(TINY, top_k=2),
    **{
        control: dataclasses.replace(NEAR, control=control, first_seed=2)
        for control in (SHUFFLED, MATCHED, DECAY)
    },
    SWITCHED: dataclasses.replace(NEAR, control=SWITCHED, n_epochs=6),
    GROKFAST: dataclasses.replace(TINY, control=GROKFAST),
}


@pytest.mark.parametrize("config", RUNS.values(), ids=RUNS)
def test_the_engine_trains_as_a_plain_loop_over_whole_strings_does(config, monkeypatch):
    monkeypatch.setattr(engine, "MEMORIZED", 0.2)  # of 73 pairs: within the few epochs here
    model, losses = trained_plainly(config)
    frames = list(grok(config, device="cpu"))
    # float32 against float64; Adam's first steps are signs of gradients, some of them near 0
    loose = {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose([frame.train_loss for frame in frames[1:]], losses, **loose)
    residues = model.embedding.detach().numpy()[:P]
    away = np.linalg.norm(residues - frames[0].embedding)
    assert np.linalg.norm(frames[-1].embedding - residues) < 0.02 * away
    if config.control == SWITCHED:
        unswitched = list(grok(dataclasses.replace(config, control=""), device="cpu"))
        assert np.linalg.norm(unswitched[-1].embedding - frames[-1].embedding) > 0.1 * away


def test_every_control_is_compared():
    assert set(CONTROLS) <= {config.control for config in RUNS.values()}


@pytest.mark.parametrize("name", ["batches", "adaptive", SHUFFLED, DECAY])
def test_seeds_side_by_side_train_as_each_does_alone(name):
    config = dataclasses.replace(RUNS[name], first_seed=0)
    together = Members(config, [0, 1, 2])
    side_by_side = [frame for epoch in range(4) for frame in together.frames(epoch)]
    for seed in (0, 1, 2):
        alone = Members(config, [seed])
        frames = [frame for epoch in range(4) for frame in alone.frames(epoch)]
        own = [frame for frame in side_by_side if frame.seed == seed]
        assert isinstance(together.model, StackedTransformers)
        for one, other in zip(own, frames, strict=True):
            assert (one.epoch, one.step) == (other.epoch, other.step)
            assert one.train_loss == pytest.approx(other.train_loss, rel=1e-4)  # float32 in another order
            np.testing.assert_allclose(one.embedding, other.embedding, atol=2e-4)


def test_adaptive_modes_chosen_every_few_updates_are_kept_in_between():
    group = Members(dataclasses.replace(TINY, top_k=2, every=3), [0])
    chosen = []
    for epoch in range(1, 7):
        list(group.frames(epoch))
        chosen.append(group.projections[0].chosen.tolist())
    assert chosen[0] == chosen[1] == chosen[2]
    assert chosen[3] == chosen[4] == chosen[5]


def test_random_subspaces_differ_from_seed_to_seed():
    config = dataclasses.replace(TINY, subspace=4)
    first, second = (config.projection(seed) for seed in (0, 1))
    gradient = torch.randn(P, 3)
    assert not torch.allclose(first.apply(gradient), second.apply(gradient))


# --- batches, schedule, stop ------------------------------------------------------------------------


def test_an_epochs_batches_hold_every_training_pair_once_in_an_order_of_seed_and_epoch():
    config = dataclasses.replace(TINY, setting=Setting(batch_size=20))
    group = Members(config, [0, 1])
    orders = {epoch: torch.cat(list(group.batches(epoch)), 1) for epoch in (1, 2)}
    for order in orders.values():
        torch.testing.assert_close(order.sort(1).values, group.train.sort(1).values)
    assert not torch.equal(orders[1], orders[2])
    torch.testing.assert_close(torch.cat(list(Members(config, [1]).batches(2)), 1)[0], orders[2][1])
    assert len(list(group.batches(1))) == config.steps_per_epoch == 4  # 73 pairs: 20, 20, 20, 13


def staged(monkeypatch, config: GrokkingRun, accuracies: dict[int, float]) -> list[engine.Frame]:
    """Frames of a run whose share right is what the stage says, from that epoch on."""
    now = {"epoch": 0}

    def scores(self, rows):
        share = accuracies[max(epoch for epoch in accuracies if epoch <= now["epoch"])]
        return torch.full((len(rows),), 1.0), torch.full((len(rows),), share)

    def train_epoch(self, epoch):
        now["epoch"] = epoch
        return self.scores(self.train)

    monkeypatch.setattr(Members, "scores", scores)
    monkeypatch.setattr(Members, "train_epoch", train_epoch)
    return list(grok(config, device="cpu"))


def test_validation_is_measured_every_fifth_epoch_each_one_near_the_thresholds_and_at_the_end(monkeypatch):
    frames = staged(monkeypatch, dataclasses.replace(TINY, n_epochs=19), {0: 0.1, 7: 0.5, 9: 0.6, 13: 0.2})
    measured = [frame.epoch for frame in frames if frame.validation_accuracy is not None]
    assert measured == [0, 5, 7, 8, 9, 10, 11, 12, 15, 19]


def test_a_seed_stops_after_twenty_epochs_with_all_but_every_pair_right_or_at_the_limit(monkeypatch):
    frames = staged(
        monkeypatch, dataclasses.replace(TINY, n_epochs=90), {0: 0.5, 10: 0.9995, 20: 0.9, 22: 1.0}
    )
    assert frames[-1].epoch == 41  # 22 to 41: the first ten did not last
    frames = staged(monkeypatch, dataclasses.replace(TINY, n_epochs=30), {0: 0.99})
    assert frames[-1].epoch == 30  # the limit


# --- tables -----------------------------------------------------------------------------------------


def made_table(*rows):
    return pd.DataFrame(rows, columns=["seed", "epoch", "quantity", "value"])


def test_the_first_epoch_at_a_threshold_is_a_time_and_never_getting_there_is_a_censored_one():
    table = made_table(
        (0, 5, "validation_accuracy", 0.5),
        (0, 7, "validation_accuracy", 0.95),
        (0, 6, "validation_accuracy", 0.96),
        (0, 8, "validation_accuracy", 0.2),
        (1, 5, "validation_accuracy", 0.94),
        (1, 9, "validation_accuracy", 0.1),
        (1, 10, "train_accuracy", 1.0),
    )
    assert first_epochs(table, 0.95) == [(0, 6, True), (1, 9, False)]
    assert first_epochs(table, 0.99, "train_accuracy") == [(1, 10, True)]
    assert first_epochs(table, 0.96)[0] == (0, 6, True), "exactly at the threshold is there"


def test_the_plane_of_a_learned_mode_shows_a_circle():
    angles = 2 * np.pi * 3 * np.arange(P) / P
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 2))).Q
    embedding = 2 * np.stack([np.cos(angles), np.sin(angles)], 1) @ axes.T + 5
    points = circle(embedding - embedding.mean(0), 3)
    np.testing.assert_allclose(points, 2 * np.stack([np.cos(angles), np.sin(angles)], 1), atol=1e-12)


# --- refusals ---------------------------------------------------------------------------------------


def test_a_loss_that_is_no_longer_finite_names_the_epoch_and_the_seed():
    config = dataclasses.replace(TINY, first_seed=4, setting=Setting(learning_rate=1e30))
    with pytest.raises(FloatingPointError, match=r"no longer finite in epoch 2 for seed \[4\]: lower the"):
        list(grok(config, device="cpu"))


# --- runs that stop when their times are known ------------------------------------------------------


@pytest.fixture(scope="module")
def forty_epochs():
    setting = Setting(batch_size=20, n_layers=1)
    config = GrokkingRun(p=7, train_share=0.8, n_epochs=40, setting=setting)
    return config, grokking.function(config)


@pytest.mark.parametrize("thresholds", [(0.5, 0.15), (0.8, 0.05), (2.0, 0.1)])
def test_a_run_that_stops_at_its_times_is_the_beginning_of_the_whole_run(
    monkeypatch, forty_epochs, thresholds
):
    config, whole = forty_epochs
    names = ("train_accuracy", "validation_accuracy")
    monkeypatch.setattr(crossed, "MEMORIZED", thresholds[0])
    monkeypatch.setattr(crossed, "GROKKED", thresholds[1])
    stopped = crossed.first_times.function(config)
    ends = [first_epochs(whole, *pair)[0] for pair in zip(thresholds, names, strict=True)]
    last = max(epoch for _, epoch, _ in ends)
    pd.testing.assert_frame_equal(
        stopped, whole[whole["quantity"].isin(names) & (whole["epoch"] <= last)].reset_index(drop=True)
    )
    assert all(reached for *_, reached in ends) == (thresholds[0] < 1) == (last < 40)
    assert stopped["epoch"].max() == last
