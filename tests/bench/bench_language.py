"""The byte language model in our loop, beside a plain one around PyTorch's own layers."""

import itertools
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from book.language import Stream, TextConfig, draw_batch, load_streams, next_token_losses
from book.transformer import Transformer, TransformerConfig
from embviz.training.loop import AdamW, keep_freed_memory, train

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = TransformerConfig(256, 128, 128, 5, 4, 512, start="small")  # the laptop preset's
BATCH = 16
N_STEPS = 60 if FULL else 8
N_ROUNDS = 5
RATE = 1e-3

pytestmark = pytest.mark.usefixtures("one_thread")


def now() -> float:
    """Seconds: of the processor for this thread, which no other work delays; on a GPU of the clock."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.thread_time()


class PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        dim = SHAPE.embedding_dim
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.read, self.write = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(dim, SHAPE.mlp_dim, bias=False), nn.GELU(), nn.Linear(SHAPE.mlp_dim, dim, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.read(self.norms[0](x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (SHAPE.n_heads, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.write(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        dim = SHAPE.embedding_dim
        self.embedding, self.position = nn.Embedding(256, dim), nn.Embedding(SHAPE.length, dim)
        self.blocks = nn.Sequential(*(PlainBlock() for _ in range(SHAPE.n_layers)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02, generator=torch.Generator().manual_seed(0))

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.embedding(tokens) + self.position(places))))


def plain_loop(model: nn.Module, text: Stream) -> Iterator[float]:
    """A step a time: its loss."""
    tokens = torch.from_numpy(text.ids.astype(np.int64))
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(0)
    while True:
        starts = torch.randint(len(tokens) - SHAPE.length, (BATCH,), generator=generator)
        batch = torch.stack([tokens[start : start + SHAPE.length + 1] for start in starts.tolist()]).to(
            DEVICE
        )
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        yield loss.item()


def our_loop(model: nn.Module, text: Stream) -> Iterator[float]:
    told: list[float] = []

    def losses(step: int) -> Tensor:
        batch = draw_batch(text, seed=0, step=step, batch_size=BATCH, length=SHAPE.length).to(DEVICE)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
            loss = next_token_losses(model, batch).mean()
        told[:] = [loss.item()]
        return loss

    for _ in train(model, losses, AdamW(RATE), n_steps=10**6, snapshot_at=1, weights="none"):
        if told:
            yield told[0]


def seconds_a_step(loop: Iterator[float]) -> float:
    start = now()
    for _ in itertools.islice(loop, N_STEPS):
        pass
    return (now() - start) / N_STEPS


def least_seconds_a_step(loops: dict[str, Iterator[float]]) -> dict[str, float]:
    """Of each loop, when its code is loaded and memory taken; in turns, since other work comes and goes."""
    took: dict[str, list[float]] = {name: [seconds_a_step(loop)] for name, loop in loops.items()}
    for _ in range(N_ROUNDS):
        for name, loop in loops.items():
            took[name].append(seconds_a_step(loop))
    return {name: min(seconds) for name, seconds in took.items()}


def some_text() -> Stream:
    return load_streams(TextConfig("embedded", n_documents=600, n_held_out=5)).train


def test_tokens_a_second_of_the_byte_language_model(speed_table):
    keep_freed_memory()
    text = some_text()
    models: dict[str, nn.Module] = {
        "ours": Transformer(SHAPE, seed=0).to(DEVICE),
        "plain": Plain().to(DEVICE),
    }
    counts = {sum(one.numel() for one in model.parameters()) for model in models.values()}
    assert len(counts) == 1  # the same model
    makers: dict[str, Callable[[nn.Module, Stream], Iterator[float]]] = {
        "ours": our_loop,
        "plain": plain_loop,
    }
    loops = {name: make(models[name], text) for name, make in makers.items()}
    first = {name: next(loop) for name, loop in loops.items()}
    assert first["ours"] == pytest.approx(first["plain"], abs=0.1)  # ln 256, both
    took = least_seconds_a_step(loops)
    n_tokens = BATCH * SHAPE.length
    speed_table(
        job=f"byte language model, {counts.pop():,} parameters, training",
        ours=n_tokens / took["ours"],
        peer=n_tokens / took["plain"],
        unit="tokens/s",
        bar="at least 1 times the peer",
        peer_name="plain loop around PyTorch's layers: SDPA, fused AdamW, autocast on a GPU; 1 thread",
    )
