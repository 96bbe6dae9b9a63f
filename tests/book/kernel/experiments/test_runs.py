"""Runs of the kernel paper's models: their tables, batches and measures, pausing, and refusals."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
import torch

from book.kernel.experiments import runs
from book.kernel.experiments.runs import (
    KernelRun,
    cut_blocks,
    embedding,
    geometric_steps,
    measures,
    minigpt,
    prepare,
)
from book.kernel.experiments.texts import TextReading
from book.kernel.minigpt import MiniGPTConfig, StackedMiniGPT, dropout_masks
from book.members import Member

SHAPE = MiniGPTConfig(vocab_size=10, embedding_dim=8, n_layers=1, n_heads=2, length=16)
TINY = KernelRun(
    TextReading("embedded", vocab_size=10, n_tokens=600),
    SHAPE,
    n_epochs=3,
    batch_size=8,
    n_seeds=2,
    n_snapshots=4,
)

pytestmark = pytest.mark.usefixtures("own_runs")


@functools.cache
def table_of(config: KernelRun) -> pd.DataFrame:
    """Computed once; in the cache folder of whichever test asks first."""
    return minigpt.function(config)


# --- the table ----------------------------------------------------------------------------------------


def test_a_seed_is_the_same_alone_and_in_company():
    alone = table_of(dataclasses.replace(TINY, n_seeds=1, first_seed=1))
    together = measures(table_of(TINY)).query("seed == 1").reset_index(drop=True)
    # float32 sums in another order, through 15 updates
    pd.testing.assert_frame_equal(measures(alone), together, rtol=1e-3, check_exact=False)
    np.testing.assert_allclose(embedding(alone, 1), embedding(table_of(TINY), 1), atol=1e-3)


# --- training -----------------------------------------------------------------------------------------


def test_blocks_are_the_text_each_with_the_token_after_it():
    ids = np.arange(21, dtype=np.uint8)
    blocks = cut_blocks(ids, 5)
    assert blocks.tolist() == [list(range(start, start + 6)) for start in (0, 5, 10, 15)]
    assert len(cut_blocks(ids[:20], 5)) == 3


def test_an_epoch_reads_every_block_once_in_another_order_each_time_and_for_each_seed():
    session = prepare(TINY)
    epochs = [[session.batches(5 * epoch + step) for step in range(5)] for epoch in range(2)]
    assert [part.shape[1] for part in epochs[0]] == [8, 8, 8, 8, 5]  # the last batch is what is left
    orders = []
    for parts in epochs:
        read = torch.cat(parts, 1)
        for rows in read:
            assert sorted(rows.tolist()) == sorted(session.blocks.tolist())
            orders.append(str(rows.tolist()))
    assert len(set(orders)) == 4


def test_training_is_plain_adamw_on_those_batches():
    session = prepare(dataclasses.replace(TINY, n_seeds=1))
    model = StackedMiniGPT(TINY.shape, [Member(0)])
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    ours = TINY.optimizer
    assert (ours.beta1, ours.beta2, ours.eps) == (*adam.defaults["betas"], adam.defaults["eps"])
    assert {ours.rate(step) for step in (0, 1, 10_000)} == {3e-4}
    for step in range(15):
        adam.zero_grad()
        model.losses(session.batches(step), step).sum().backward()
        adam.step()
    table = table_of(dataclasses.replace(TINY, n_seeds=1))
    # the fused update rounds in its own way
    np.testing.assert_allclose(embedding(table, 0), model.embedding[0].detach().numpy(), atol=1e-5)


def test_measures_are_their_definitions(monkeypatch):
    session = prepare(TINY)
    found = session.measure()
    inputs, targets = session.blocks[:, :-1].expand(2, -1, -1), session.blocks[:, 1:]
    with torch.no_grad():
        logits = session.model(inputs)[1].log_softmax(-1)
        exact = -logits.gather(2, targets[..., None]).mean()
        masks = dropout_masks(TINY.shape, TINY.members, runs.SCORE_STEP, 8, 16)
        dropped = session.model(inputs[:, :8], masks=masks)[1].log_softmax(-1)
    assert found["train_loss"][1].item() == pytest.approx(exact.item(), rel=1e-5)
    squares = sum(array[1].square().sum() for array in session.model.weights.values())
    assert found["weight_norm"][1].item() == pytest.approx(squares.sqrt().item(), rel=1e-5)
    assert found["dropout_loss"][1] != found["train_loss"][1]
    # one batch: the first draws the masks of SCORE_STEP
    session.blocks = session.blocks[:8]
    own = -dropped.gather(2, targets[:8, :, None]).mean()
    assert session.measure()["dropout_loss"][1].item() == pytest.approx(own.item(), rel=1e-5)
    monkeypatch.setattr(runs, "N_SCORED", 2)
    ends = session.blocks[[0, 7]]
    session.blocks, shortened = ends, session.measure()["train_loss"]
    torch.testing.assert_close(session.measure()["train_loss"], shortened)


# --- the rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_steps", "n_snapshots"), [(2_000, 12), (3, 12), (1, 2)])
def test_snapshots_begin_before_the_first_update_and_end_after_the_last(n_steps, n_snapshots):
    steps = geometric_steps(n_steps, n_snapshots)
    assert steps[0] == 0
    assert steps[-1] == n_steps
    assert len(steps) <= n_snapshots
    assert steps == sorted(set(steps))


def test_a_missing_embedding_is_refused_with_those_that_there_are():
    table = table_of(TINY)
    with pytest.raises(
        ValueError, match=r"no embedding of seed 7 at step last .* seeds \[0, 1\], steps \[0, 15\]"
    ):
        embedding(table, 7)
    with pytest.raises(ValueError, match="keep_all=True keeps every snapshot's"):
        embedding(table, 0, 4)
    with pytest.raises(ValueError, match="only untied models have a separate output embedding"):
        embedding(table, 0, output=True)
