"""Grokking: an epoch beside a plain loop of PyTorch's layers, three seeds beside one, a live run."""

import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from book.geometry.experiments.grokking import GrokkingRun, Members, Setting, grok
from embviz.models.transformer import Transformer
from embviz.training.loop import keep_freed_memory

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_EPOCHS = 30 if FULL else 6
N_ROUNDS = 3
RUN = GrokkingRun()
NEAR = GrokkingRun(modes=(30, 35, 40, 45, 48), n_epochs=200)
SETTINGS = {"full batch": Setting(), "batches of 512": Setting(batch_size=512)}


@pytest.fixture(autouse=True)
def keep_thread_count():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class PlainTransformer(nn.Module):
    """The same model of nn.TransformerEncoder's, with the same weights."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        config, state = model.config, model.state_dict()
        dim = config.embedding_dim
        layer = nn.TransformerEncoderLayer(
            dim,
            config.n_heads,
            config.mlp_dim,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
            bias=False,
        )
        layer.norm1, layer.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)  # which have a bias in our model
        self.embedding = nn.Embedding.from_pretrained(state["embedding"].clone(), freeze=False)
        self.position = nn.Parameter(state["position"].clone())
        self.body = nn.TransformerEncoder(
            layer, config.n_layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.head = nn.Linear(dim, config.n_symbols, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(config.length))
        with torch.no_grad():
            self.head.weight.copy_(state["free_head"])
            for own, theirs in zip(self.body.layers, model.blocks, strict=True):
                attention = theirs.attention
                parts = [attention.query.weight, attention.key.weight, attention.value.weight]
                own.self_attn.in_proj_weight.copy_(torch.cat(parts))
                own.self_attn.out_proj.weight.copy_(attention.out.weight)
                own.linear1.weight.copy_(theirs.up.weight)
                own.linear2.weight.copy_(theirs.down.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, V) after the last of tokens (B, T)."""
        x = self.embedding(tokens) + self.position
        return self.head(self.body(x, mask=self.mask, is_causal=True)[:, -1])


def plain_epochs(config: GrokkingRun, n_threads: int) -> Iterator[float]:
    """A plain, well-written loop; each epoch's mean loss."""
    torch.set_num_threads(n_threads)
    keep_freed_memory()  # our loop's trick is the peer's too
    group = Members(config, [0])  # for its batches
    model = PlainTransformer(Transformer(config.shape, seed=0))
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1.0, fused=True)
    for epoch in range(1, N_EPOCHS * (N_ROUNDS + 1) + 1):
        total = 0.0
        for (rows,) in group.batches(epoch):
            adam.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(group.strings[rows]), group.answers[rows])
            loss.backward()
            adam.step()
            total += loss.item() * len(rows) / group.train.shape[1]
        yield total


def our_epochs(config: GrokkingRun, n_threads: int) -> Iterator[float]:
    """Our loop; each epoch's mean loss."""
    torch.set_num_threads(n_threads)
    keep_freed_memory()
    group = Members(config, [0])
    for epoch in range(1, N_EPOCHS * (N_ROUNDS + 1) + 1):
        yield group.train_epoch(epoch)[0].item()


def rates(ways: dict[tuple[str, int], Iterator[float]]) -> dict[tuple[str, int], float]:
    """Most epochs a second of each, all of them once in each round, since a machine's pace changes."""
    rounds = []
    for _ in range(N_ROUNDS):
        took = []
        for (_, n_threads), epochs in ways.items():
            torch.set_num_threads(n_threads)
            start = time.perf_counter()
            for _ in range(N_EPOCHS):
                next(epochs)
            took.append(time.perf_counter() - start)
        rounds.append(took)
    return dict(zip(ways, (N_EPOCHS / np.min(rounds, axis=0)).tolist(), strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_an_epoch_beside_that_of_a_plain_loop(speed_table, name: str):
    config = GrokkingRun(setting=SETTINGS[name])
    makers: dict[str, Callable[[GrokkingRun, int], Iterator[float]]]
    makers = {"ours": our_epochs, "plain": plain_epochs}
    ways = {(who, n): make(config, n) for who, make in makers.items() for n in (1, 2)}
    first = {way: [next(epochs) for _ in range(3)] for way, epochs in ways.items()}  # and the warm-up
    # float32 in another order, through Adam's first steps: signs of gradients, some near 0
    np.testing.assert_allclose(first["ours", 1], first["plain", 1], rtol=2e-3)
    rate = rates(ways)
    best, peer = (max((way for way in ways if way[0] == who), key=rate.__getitem__) for who in makers)
    speed_table(
        job=f"grokking p = 97, {name}, training epochs",
        ours=rate[best],
        peer=rate[peer],
        unit="epochs/s",
        bar="above the peer",
        peer_name=f"nn.TransformerEncoder, fused AdamW, {peer[1]} thread(s); ours: {best[1]} thread(s)",
    )


def seconds_a_seed(n_seeds: int) -> float:
    """Of one epoch, its validation included."""
    config = GrokkingRun(n_seeds=n_seeds, n_epochs=N_EPOCHS)
    start = time.perf_counter()
    for _ in grok(config):
        pass
    return (time.perf_counter() - start) / n_seeds / N_EPOCHS


def test_three_seeds_side_by_side_beside_one_alone(speed_table):
    torch.set_num_threads(1)
    rounds = [(seconds_a_seed(3), seconds_a_seed(1)) for _ in range(N_ROUNDS)]
    together, alone = np.min(rounds, axis=0).tolist()
    speed_table(
        job="grokking p = 97, full batch, 3 seeds, an epoch of a seed",
        ours=together,
        peer=alone,
        unit="s",
        bar="at most the peer on a CPU (where seeds take turns), a third of it on a GPU",
        peer_name="one seed alone, the same program",
    )


def test_a_live_run_starts_at_once_and_groks_with_near_nyquist_modes(speed_table):
    torch.set_num_threads(1)  # as in the chapter: two wait for each other wherever something else runs
    start = time.perf_counter()
    frames = grok(NEAR)
    next(frames)
    first = time.perf_counter() - start
    while (next(frames).validation_accuracy or 0.0) <= 0.95:
        pass
    grokked = time.perf_counter() - start
    for job, took, bar in (
        ("grokking live, the first frame", first, "below 2 s"),
        ("grokking live, near-Nyquist modes to 95%", grokked, "below 60 s"),
    ):
        speed_table(job=job, ours=took, peer=None, unit="s", bar=bar, peer_name="none")
