"""LSTM language models whose output embedding is free, tied to the input, or tied through signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

Tying = Literal["none", "plain", "signs"]
State = tuple[Tensor, Tensor]  # hidden and cell state, each (L, B, D)


@dataclass(frozen=True)
class LSTMConfig:
    """Size and tying of a language model; the defaults are the smaller model of Table 3."""

    vocab_size: int
    embedding_dim: int = 200  # also the width of every LSTM layer, which tying requires
    n_layers: int = 2
    dropout: float = 0.2  # after the embedding, between layers, before the decoder; 0.5 at 650
    tying: Tying = "plain"
    init_range: float = 0.1  # embeddings start uniform in +-init_range, the decoder's bias at 0

    def __post_init__(self) -> None:
        if self.tying not in get_args(Tying):
            raise ValueError(f"tying is {self.tying!r}: choose one of {', '.join(get_args(Tying))}")
        if min(self.vocab_size, self.embedding_dim, self.n_layers) < 1:
            raise ValueError(f"vocab_size, embedding_dim and n_layers must be at least 1, got {self}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout is a probability below 1, got {self.dropout}")


class _LinearCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of a linear decoder, keeping one (N, V) array where autograd keeps three."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]
        dtype = hidden.dtype
        with torch.autocast(hidden.device.type, enabled=False):
            logits = hidden @ weight.to(dtype).t()  # (N, V), the bias still missing
            loss, residual_sum = _logits_to_residuals(logits, bias, targets)
        ctx.save_for_backward(hidden, weight, logits, residual_sum)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        hidden, weight, residuals, residual_sum = ctx.saved_tensors
        dtype, scale = hidden.dtype, grad / len(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            grad_hidden = (residuals @ weight.to(dtype)) * scale.to(dtype)  # (N, D)
            grad_weight = residuals.t() @ (hidden * scale.to(dtype))  # (V, D)
        return grad_hidden, grad_weight.to(weight.dtype), residual_sum * scale, None


def _logits_to_residuals(
    logits: Tensor, bias: Tensor, targets: Tensor, rows_at_once: int = 32
) -> tuple[Tensor, Tensor]:
    """Make logits (N, V) softmax minus one-hot in place, bias added; mean loss and residuals' sum (V,).

    In float32 whatever the type of the logits, in one buffer of a few rows that stays in the
    processor's cache: twice as fast as whole arrays.
    """
    loss = torch.zeros((), device=logits.device)
    residual_sum = torch.zeros(logits.shape[1], device=logits.device)
    buffer = torch.empty((min(rows_at_once, len(targets)), logits.shape[1]), device=logits.device)
    for part, wanted in zip(logits.split(rows_at_once), targets.split(rows_at_once), strict=True):
        rows = torch.arange(len(wanted), device=wanted.device)
        scores = buffer[: len(wanted)].copy_(part).add_(bias)  # (n, V)
        wanted_score, top_score = scores[rows, wanted], scores.amax(1)  # (n,)
        residuals = torch.softmax(scores, dim=1, out=scores)
        # log-sum-exp by way of the likeliest word, whose probability cannot underflow
        loss += (top_score - residuals.amax(1).log() - wanted_score).sum()
        residuals[rows, wanted] -= 1.0
        residual_sum += residuals.sum(0)
        part.copy_(residuals)
    return loss / len(targets), residual_sum


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of ``softmax(hidden @ weight.T + bias)`` in nats, and its gradients.

    Parameters
    ----------
    hidden : tensor, shape (N, D)
        Its type is the type of the three large products; the softmax and the loss are float32.
    weight : tensor, shape (V, D)
    bias : tensor, shape (V,)
    targets : integer tensor, shape (N,)
        Ids below V.

    Returns
    -------
    tensor, shape (), float32
    """
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets)


class LSTMLanguageModel(nn.Module):
    """A word-level LSTM language model: embedding E, LSTM layers, a linear decoder with bias.

    The decoder's matrix is a table of its own (``tying="none"``), E itself (``"plain"``), or
    E diag(q) with random signs q (``"signs"``), where q is a buffer and the table is stored once.
    Models of one seed start from the same weights, whatever the tying.

    Parameters
    ----------
    config : LSTMConfig
    seed : int
        Of the initial weights and of q; the global random state is neither used nor changed.

    Source
    ------
    Reflections paper, Table 3 and Remark 4.3, with the settings of its footnote 12.
    """

    signs: Tensor

    def __init__(self, config: LSTMConfig, *, seed: int) -> None:
        super().__init__()
        self.config = config
        shape, bound = (config.vocab_size, config.embedding_dim), config.init_range
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))  # E, (V, D)
            width, n_layers = config.embedding_dim, config.n_layers
            # torch warns about dropout between layers where there is only one
            self.lstm = nn.LSTM(width, width, n_layers, dropout=config.dropout if n_layers > 1 else 0.0)
            # drawn last, so that tied and free models of one seed share their other weights
            free = torch.empty(shape).uniform_(-bound, bound) if config.tying == "none" else None
            self.free_decoder = None if free is None else nn.Parameter(free)  # (V, D)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))  # (V,)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("signs", _draw_signs(config, seed))  # q, (D,)

    @property
    def decoder(self) -> nn.Parameter:
        """The table (V, D) that makes logits: E itself where tied, so it is stored and trained once."""
        return self.embedding if self.free_decoder is None else self.free_decoder

    def initial_state(self, batch_size: int) -> State:
        """Zeros: hidden and cell state, each (L, B, D)."""
        shape = (self.config.n_layers, batch_size, self.config.embedding_dim)
        return self.embedding.new_zeros(shape), self.embedding.new_zeros(shape)

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """What the embedding table is multiplied by: q * LSTM(E[tokens]), (T, B, D), and the new state."""
        inputs = self.dropout(nn.functional.embedding(tokens, self.embedding))  # (T, B, D)
        hidden, state = self.lstm(inputs, state)
        return self.dropout(hidden) * self.signs.to(hidden.dtype), state

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits of the next word, (T, B, V), for tokens (T, B), and the new state."""
        hidden, state = self.features(tokens, state)
        return nn.functional.linear(hidden, self.decoder, self.bias), state

    def loss(self, tokens: Tensor, targets: Tensor, state: State) -> tuple[Tensor, State]:
        """Mean cross entropy of targets (T, B) in nats, and the new state; faster than by the logits."""
        hidden, state = self.features(tokens, state)
        flat = hidden.reshape(-1, hidden.shape[-1])  # (T B, D)
        return linear_cross_entropy(flat, self.decoder, self.bias, targets.reshape(-1)), state


def _draw_signs(config: LSTMConfig, seed: int) -> Tensor:
    """Rademacher signs (D,) for a sign-tied model, else all +1; a stream apart from the weights'."""
    if config.tying != "signs":
        return torch.ones(config.embedding_dim)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (config.embedding_dim,), generator=generator) * 2.0 - 1.0
