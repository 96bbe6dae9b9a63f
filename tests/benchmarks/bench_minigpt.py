"""MiniGPT: five seeds side by side beside one after the other, and beside a plain model of PyTorch's."""

import os
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from book.kernel.minigpt import MiniGPTConfig, StackedMiniGPT, dropout_masks, rotate
from embviz.models.members import Member
from embviz.training.loop import keep_freed_memory

FULL = os.environ.get("EMBVIZ_BENCH") == "full"
N_STEPS = 60 if FULL else 8
N_ROUNDS = 3
CONFIG = MiniGPTConfig(vocab_size=100)
MEMBERS = [Member(seed) for seed in range(5)]
BATCH = 32

pytestmark = pytest.mark.usefixtures("one_thread")


class Plain(nn.Module):
    """One tied model of PyTorch's layers, with its fused attention and its dropout; our initial weights."""

    def __init__(self, seed: int, dropout: float = CONFIG.dropout) -> None:
        super().__init__()
        stack, dim = StackedMiniGPT(CONFIG, [Member(seed)]), CONFIG.embedding_dim
        weights = {name: array[0].detach() for name, array in stack.weights.items()}
        self.embedding = nn.Embedding.from_pretrained(weights["embedding"].clone(), freeze=False)
        self.drop, self.p, self.angles = nn.Dropout(dropout), dropout, stack.angles
        sizes = {"attention": (dim, 3 * dim), "out": (dim, dim), "up": (dim, 4 * dim), "down": (4 * dim, dim)}
        self.layers = nn.ModuleDict()
        for name in {name.rpartition(".")[0] for name in weights} - {""}:
            kind = name.rpartition(".")[2]
            layer = nn.Linear(*sizes[kind]) if kind in sizes else nn.LayerNorm(dim)
            layer.load_state_dict({part: weights[f"{name}.{part}"] for part in ("weight", "bias")})
            self.layers[name.replace(".", "/")] = layer

    def attend(self, layer: int, x: Tensor) -> Tensor:
        parts = self.layers[f"blocks/{layer}/attention"](x).unflatten(-1, (3, CONFIG.n_heads, -1))
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))  # (B, H, T, D / H)
        angles = self.angles[: x.shape[1]]
        dropout = self.p if self.training else 0.0
        read = scaled_dot_product_attention(
            rotate(query, angles), rotate(key, angles), value, dropout_p=dropout, is_causal=True
        )
        attended: Tensor = self.layers[f"blocks/{layer}/out"](read.transpose(1, 2).flatten(2))
        return attended

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        x = self.drop(self.embedding(tokens))
        for layer in range(CONFIG.n_layers):
            name = f"blocks/{layer}/"
            x = x + self.drop(self.attend(layer, self.layers[name + "norm1"](x)))
            wide = gelu(self.layers[name + "up"](self.layers[name + "norm2"](x)))
            x = x + self.drop(self.layers[name + "down"](wide))
        logits: Tensor = self.layers["norm"](x) @ self.embedding.weight.T
        return logits


def made_tokens() -> Tensor:
    """(R, B, T + 1)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(100, (len(MEMBERS), BATCH, CONFIG.length + 1), generator=generator)


def updates(model: nn.Module, loss: Callable[[int], Tensor], n_steps: int) -> float:
    """Seconds that so many updates take."""
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    start = time.perf_counter()
    for step in range(n_steps):
        adam.zero_grad(set_to_none=True)
        loss(step).sum().backward()
        adam.step()
    return time.perf_counter() - start


def side_by_side(n_steps: int) -> float:
    model, tokens = StackedMiniGPT(CONFIG, MEMBERS), made_tokens()
    return updates(model, lambda step: model.losses(tokens, step), n_steps)


def one_after_the_other(n_steps: int) -> float:
    tokens, total = made_tokens(), 0.0
    for row, member in enumerate(MEMBERS):
        model, own = StackedMiniGPT(CONFIG, [member]), tokens[row : row + 1]
        total += updates(model, lambda step, m=model, t=own: m.losses(t, step), n_steps)
    return total


def plainly(n_steps: int) -> float:
    tokens, total = made_tokens(), 0.0
    with torch.random.fork_rng(devices=[]):
        for row, member in enumerate(MEMBERS):
            model, own = Plain(member.seed), tokens[row]
            total += updates(model, lambda _, m=model, t=own: plain_loss(m, t), n_steps)
    return total


def plain_loss(model: Plain, tokens: Tensor) -> Tensor:
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def masks_alone(n_steps: int) -> float:
    start = time.perf_counter()
    for step in range(n_steps):
        dropout_masks(CONFIG, MEMBERS, step, BATCH, CONFIG.length)
    return time.perf_counter() - start


def fastest(*ways: Callable[[int], float]) -> list[float]:
    """Least seconds of each, all of them once in each round, since a machine's pace changes."""
    keep_freed_memory()
    for way in ways:
        way(2)
    return np.min([[way(N_STEPS) for way in ways] for _ in range(N_ROUNDS)], axis=0).tolist()


def test_five_seeds_side_by_side_beside_one_after_the_other(speed_table):
    tokens = made_tokens()
    ours = StackedMiniGPT(CONFIG, MEMBERS).losses(tokens)
    plain = [plain_loss(Plain(member.seed).eval(), tokens[row]) for row, member in enumerate(MEMBERS)]
    torch.testing.assert_close(ours, torch.stack(plain), rtol=1e-4, atol=1e-4)  # float32 in another order
    together, apart, peer, masks = fastest(side_by_side, one_after_the_other, plainly, masks_alone)
    n_tokens = len(MEMBERS) * BATCH * CONFIG.length * N_STEPS
    for job, took, other, bar, name in (
        (
            "MiniGPT, V = 100, d = 64, 5 seeds side by side, training",
            together,
            apart,
            "at least the peer on a CPU (where members take turns), more on a GPU",
            "the same program, one seed after the other",
        ),
        (
            "MiniGPT, V = 100, d = 64, training with dropout",
            together,
            peer,
            "above the peer",
            "nn.Linear, nn.Dropout, PyTorch's fused attention, fused AdamW, one seed after the other",
        ),
    ):
        speed_table(
            job=job, ours=n_tokens / took, peer=n_tokens / other, unit="tokens/s", bar=bar, peer_name=name
        )
    speed_table(
        job="MiniGPT, drawing the masks of dropout",
        ours=masks / N_STEPS,
        peer=together / N_STEPS,
        unit="s",
        bar="below 0.15 times the peer",
        peer_name="an update of the 5 seeds, dropout included",
    )
