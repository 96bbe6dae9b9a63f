"""Recovery of resized models: ports, fine-tuning, steps to come back, peak memory."""

import dataclasses
import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from book.language import draw_batch, next_token_losses
from book.resizing import rules
from book.resizing.experiments import bases, recovery, throughput
from book.resizing.experiments.recovery import (
    PROJECTION,
    TRUNCATED,
    WITHIN,
    RecoveryRun,
    when_recovered,
)
from tests.book.resizing.conftest import BASE

RUN = RecoveryRun(BASE, (0.5,), n_steps=4, learning_rate=1e-2)

pytestmark = pytest.mark.usefixtures("own_runs")


@functools.cache
def table_of(run: RecoveryRun) -> pd.DataFrame:
    """Computed once."""
    return recovery.recovery.function(run)


def port(treatment: str, ratio: float) -> nn.Module:
    base = bases.load(BASE)
    return recovery.resized(base, base.model, round(8 * ratio), treatment, 0)


# --- ports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_rotation_or_a_wider_stream_loses_nothing_at_first(ratio):
    base = bases.load(BASE)
    lost = bases.held_out_loss(port(PROJECTION, ratio), base) - base.log_perplexity
    assert abs(lost) < 1e-4  # products in float32, and a score stored in it
    narrow = bases.held_out_loss(port(PROJECTION, 0.25), base) - base.log_perplexity
    assert narrow > 0.01  # what the test would see of a map that loses something


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_all_ways_to_one_width_give_models_of_one_shape(ratio):
    models = {name: port(name, ratio) for name in recovery.treatments_at(ratio)}
    shapes = {
        name: {key: tuple(array.shape) for key, array in model.state_dict().items()}
        for name, model in models.items()
    }
    assert len(models) > 2
    assert all(shape == shapes[PROJECTION] for shape in shapes.values())
    weights = [model.state_dict()["embedding"] for model in models.values()]
    assert all(not torch.equal(weights[0], other) for other in weights[1:])


def test_truncated_dimensions_are_columns_of_the_folded_embedding():
    folded = rules.fold(bases.load(BASE).model).embedding
    kept = port(TRUNCATED, 0.5).state_dict()["embedding"]
    found = [int((folded - column[:, None]).abs().sum(0).argmin()) for column in kept.T]
    torch.testing.assert_close(kept, folded[:, found], rtol=0, atol=0)
    assert len(set(found)) == 4


# --- fine-tuning --------------------------------------------------------------------------------------


def test_fine_tuning_is_adamw_from_a_fresh_state_with_a_cosine():
    base = bases.load(BASE)
    model = port(PROJECTION, 0.5)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-8, weight_decay=0.1)
    expected = [bases.held_out_loss(model, base)]
    for step in range(4):
        adam.param_groups[0]["lr"] = 1e-3 + 9e-3 / 2 * (1 + math.cos(math.pi * step / 4))
        batch = draw_batch(base.streams.train, seed=1_000, step=step, batch_size=4, length=16)
        adam.zero_grad()
        next_token_losses(model, batch).mean().backward()
        adam.step()
        expected.append(bases.held_out_loss(model, base))
    table = table_of(RUN)
    assert table["step"].tolist() == [0, 1, 2, 4]
    # float32, four updates: rounding differs between the fused optimizer and this one
    np.testing.assert_allclose(table["log_perplexity"], [expected[i] for i in (0, 1, 2, 4)], rtol=1e-4)
    assert table["original"].unique() == pytest.approx([base.log_perplexity])
    assert set(table["width"]) == {4}


def test_every_stage_reads_on_where_the_last_one_stopped(monkeypatch):
    seen = []

    def recorded(stream, *, seed, step, batch_size, length):
        seen.append((seed, step))
        return draw_batch(stream, seed=seed, step=step, batch_size=batch_size, length=length)

    monkeypatch.setattr(recovery, "draw_batch", recorded)
    recovery.recovery.function(dataclasses.replace(RUN, ratios=(0.5, 0.25), seed=7))
    assert seen == [(1_007, step) for step in range(4)]


# --- throughput ---------------------------------------------------------------------------------------


def test_peak_memory_counts_what_is_alive_at_once():
    given = torch.zeros(1_000)
    with throughput.PeakMemory(given) as memory:
        first = given + 1  # 8,000 bytes with the one given
        second = first * 2  # 12,000
        view = second.view(10, 100)  # the same memory
        del first
        third = view + 1  # 12,000 again
    assert (memory.now, memory.peak) == (12_000, 12_000)
    del second, view, third
    assert memory.now == 4_000


def test_peak_memory_sees_what_the_backward_pass_keeps():
    weight = torch.ones(100, 100, requires_grad=True)

    def peak(n_layers: int) -> int:
        with throughput.PeakMemory(weight) as memory:
            x = torch.ones(50, 100)
            for _ in range(n_layers):
                x = (x @ weight).tanh()
            x.sum().backward()
        weight.grad = None
        return memory.peak

    each = 50 * 100 * 4
    # every layer keeps what came out of its tanh until the backward pass
    assert peak(6) - peak(3) == 3 * each


def made_table(losses: dict[int, float], original: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame({"step": list(losses), "log_perplexity": list(losses.values()), "original": original})


def test_steps_to_recover_lie_on_the_line_between_two_scores():
    found = when_recovered(made_table({0: 3.0, 10: 1 + WITHIN + 0.3, 40: 1 + WITHIN - 0.1, 80: 2.0}))
    assert found.reached
    assert found.steps == pytest.approx(10 + 30 * 0.75)
    exactly = when_recovered(made_table({0: 3.0, 10: 1.0 + WITHIN}))
    assert exactly.steps == pytest.approx(10)
    assert when_recovered(made_table({0: 2.0, 10: 1.0, 20: 1.0}), 0.0) == recovery.Recovered(10.0, True)
    assert math.exp(WITHIN) == pytest.approx(1.02)


def test_a_ratio_of_steps_is_open_on_the_side_where_runs_are_censored():
    back, out = (made_table({0: 2.0, 10: 1.5, 20: last}) for last in (1.0, 1.4))
    assert recovery.when_recovered(back).reached
    assert not recovery.when_recovered(out).reached
    least = recovery.ratio_of_steps([out, out], [back, back], "")
    assert (least.low, least.high) == (least.value, math.inf)
    assert least.value > 1
    most = recovery.ratio_of_steps([back, back], [out, out], "")
    assert (most.low, most.high) == (0.0, most.value)
    assert most.value == pytest.approx(1 / least.value)
