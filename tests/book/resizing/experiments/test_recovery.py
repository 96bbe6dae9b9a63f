"""Recovery of resized models: ports, fine-tuning, steps to come back, findings, throughput."""

import dataclasses
import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from book.language import draw_batch, next_token_losses
from book.resizing.experiments import bases, recovery, throughput
from book.resizing.experiments.bases import BaseRun
from book.resizing.experiments.recovery import (
    PCA,
    PROJECTION,
    SCRATCH,
    TREATMENTS,
    TRUNCATED,
    WITHIN,
    ZEROS,
    OtherBase,
    RecoveryRun,
    when_recovered,
)
from book.transformer import n_parameters
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
    folded = recovery.resizing.fold(bases.load(BASE).model).embedding
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


def test_the_base_model_is_left_as_it_was_and_runs_repeat_to_the_bit():
    before = {name: array.clone() for name, array in bases.load(BASE).model.state_dict().items()}
    again = recovery.recovery.function(RUN)
    pd.testing.assert_frame_equal(again, table_of(RUN))
    for name, array in bases.load(BASE).model.state_dict().items():
        torch.testing.assert_close(array, before[name], rtol=0, atol=0)
    other = table_of(dataclasses.replace(RUN, seed=1))
    assert not np.array_equal(other["log_perplexity"], again["log_perplexity"])


def test_stages_share_the_steps_and_begin_with_the_score_of_their_port():
    table = table_of(dataclasses.replace(RUN, ratios=(0.5, 0.25)))
    assert table[["step", "stage", "width"]].to_numpy().tolist() == [
        *([step, 0, 4] for step in (0, 1, 2)),
        *([step, 1, 2] for step in (2, 4)),
    ]
    first = table_of(dataclasses.replace(RUN, n_steps=2))
    np.testing.assert_array_equal(first["log_perplexity"], table["log_perplexity"][:3])
    assert table["log_perplexity"][3] != table["log_perplexity"][2]  # the second port


def test_every_stage_reads_on_where_the_last_one_stopped(monkeypatch):
    seen = []

    def recorded(stream, *, seed, step, batch_size, length):
        seen.append((seed, step))
        return draw_batch(stream, seed=seed, step=step, batch_size=batch_size, length=length)

    monkeypatch.setattr(recovery, "draw_batch", recorded)
    recovery.recovery.function(dataclasses.replace(RUN, ratios=(0.5, 0.25), seed=7))
    assert seen == [(1_007, step) for step in range(4)]


def test_another_base_is_carried_by_the_same_steps():
    run = OtherBase(BASE, (0.5,), (PROJECTION, SCRATCH), n_steps=4, learning_rate=1e-2)
    table = recovery.other_bases.function(run)
    own = table[table["treatment"] == PROJECTION].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[list(table_of(RUN))], table_of(RUN))
    assert set(table["steps"]) == {30}


# --- steps to recover ---------------------------------------------------------------------------------


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


def test_a_run_is_recovered_at_once_or_censored_at_its_last_step():
    assert when_recovered(made_table({0: 0.9, 10: 3.0})) == recovery.Recovered(0.0, True)
    assert when_recovered(made_table({0: 3.0, 400: 1.03})) == recovery.Recovered(400.0, False)


def test_a_run_that_leaves_again_is_back_for_good_when_it_comes_to_stay():
    table = made_table({0: 1.0, 10: 1 + WITHIN + 0.3, 40: 1 + WITHIN - 0.1, 80: 0.9})
    assert when_recovered(table) == recovery.Recovered(0.0, True)
    found = when_recovered(table, for_good=True)
    assert found.reached
    assert found.steps == pytest.approx(10 + 30 * 0.75)
    assert when_recovered(table[:2], for_good=True) == recovery.Recovered(10.0, False)
    assert when_recovered(table[:1], for_good=True) == recovery.Recovered(0.0, True)
    falling = made_table({0: 3.0, 10: 1 + WITHIN + 0.3, 40: 1 + WITHIN - 0.1, 80: 0.9})
    assert when_recovered(falling, for_good=True) == when_recovered(falling)  # one crossing


# --- findings -----------------------------------------------------------------------------------------


def made_losses(run: RecoveryRun) -> dict[int, float]:
    """Made-up scores: a projection of 3/4 comes back at step 20, zero steps in growing, others never."""
    ratio, worse = run.ratios[-1], 0.1 * TREATMENTS.index(run.treatment) + 0.01 * run.seed
    start = 0.0 if ratio >= 1 and run.treatment != SCRATCH else 1.0
    end = 0.0 if ratio == 0.75 and run.treatment == PROJECTION else start * 0.5 + worse
    end -= 0.2 * (len(run.ratios) - 1)
    return {0: 1 + start, 40: 1 + end}


@pytest.fixture
def made_cells(monkeypatch):
    def read(cell):
        run = cell.config
        table = made_table(made_losses(run)).assign(stage=0, width=run.widths[-1])
        return table, {}

    monkeypatch.setattr(recovery, "read", read)


def test_findings_on_perplexity_follow_from_the_tables(made_cells):
    found = recovery.STUDIES["resizing.perplexity"].findings("quick")
    assert found["pca_half"].value == pytest.approx(0.2)
    assert found["pca_half"].high == pytest.approx(0.2)  # paired: the seeds' own spread is gone
    assert found["truncated_half"].value == pytest.approx(0.3)
    assert found["share_recovered"].value == pytest.approx(2 / 3)  # 3/4 and double, not half


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


# --- throughput ---------------------------------------------------------------------------------------


def throughput_table() -> pd.DataFrame:
    rows = [
        (round_, rule, ratio, speed * (1 + round_), 2 * speed, size, 10 * size)
        for round_ in (0, 1)
        for rule, ratio, speed, size in (
            ("original", 1.0, 100.0, 10),
            ("kept heads", 0.5, 150.0, 6),
            ("kept heads", 1.0, 100.0, 11),
            ("plain rule", 0.5, 300.0, 3),
        )
    ]
    names = ["round", "rule", "ratio", "training", "scoring", "n_parameters", "peak_bytes"]
    return pd.DataFrame(rows, columns=names)


def test_throughput_is_the_ratio_of_best_rounds():
    found = throughput.ratios_to_original(throughput_table()).set_index("rule")
    plain = found.loc["plain rule"]
    assert (plain["training"], plain["scoring"], plain["parameters"], plain["memory"]) == (3.0, 3.0, 0.3, 0.3)
    table = throughput_table()
    table.loc[table["rule"] == "plain rule", "training"] = [300.0, 300.0]  # in the better round no faster
    plain = throughput.ratios_to_original(table).set_index("rule").loc["plain rule"]
    assert (plain["training_low"], plain["training"], plain["training_high"]) == (1.5, 1.5, 3.0)


def test_timed_models_have_the_sizes_they_should():
    run = throughput.ThroughputRun(BASE, (0.5, 0.75), n_rounds=1, n_steps=1)
    table = throughput.throughput.function(run).set_index(["rule", "ratio"])
    assert list(table.index) == [
        ("original", 1.0),
        ("kept heads", 0.5),
        ("kept heads", 0.75),
        ("plain rule", 0.5),
        ("plain rule", 0.75),
    ]
    counts = table["n_parameters"]
    assert counts["kept heads", 0.5] == n_parameters(port(PROJECTION, 0.5))
    assert counts["plain rule", 0.5] < counts["kept heads", 0.5] < counts["kept heads", 0.75]
    assert (table[["training", "scoring"]] > 0).all(axis=None)


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
