"""A causal transformer to be read in one sitting: with or without queries, alone or side by side."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from book.members import inner
from embviz.models.linear import Linear, linear

Attending = Literal["standard", "no_q", "half_no_q", "no_k", "frozen_q", "identity_q", "half_standard"]
Norm = Literal["pre", "post", "none"]
Positions = Literal["learned", "sines", "none"]
Activation = Literal["gelu", "relu"]
Start = Literal["pytorch", "scaled", "small"]


def check_options(config: object, **known: Any) -> None:
    """Refuse a configuration with an option that its type, a Literal, does not list."""
    for name, options in known.items():
        if getattr(config, name) not in get_args(options):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}: choose one of {', '.join(get_args(options))}"
            )


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a transformer; the defaults are the geometry paper's for modular arithmetic.

    `attention` is "standard"; "no_q", whose queries are the normalized hidden state itself; or a control:
    "half_standard" and "half_no_q", the same with scores halved; "no_k", whose keys are the hidden state;
    "frozen_q", a random query projection that is never trained; "identity_q", one that starts as the
    identity. With a `key_rank` the keys are the hidden state and a change of that rank, which starts at zero;
    with a `key_multiple` a learned multiple of the hidden state, which starts there, and that change.
    """

    n_symbols: int
    length: int  # most symbols in a string
    embedding_dim: int = 128
    n_layers: int = 2
    n_heads: int = 4
    mlp_dim: int = 512
    attention: Attending = "standard"
    key_rank: int = 0  # 0: a full key projection
    key_multiple: float | None = None  # where the learned multiple of x in such keys starts; None: it is 1
    norm: Norm = "pre"  # "pre": before each part and at the end; "post": after each residual sum
    positions: Positions = "learned"
    tied: bool = False  # whether the output embedding is the input embedding
    biases: bool = False  # of the linear maps but the last; layer norms have theirs in any case
    activation: Activation = "gelu"
    start: Start = "pytorch"  # of the weights, see initial_value
    embedding_sd: float = 0.0  # of embedding and positions at the start; 0: as `start` has it

    def __post_init__(self) -> None:
        check_options(
            self,
            attention=Attending,
            norm=Norm,
            positions=Positions,
            activation=Activation,
            start=Start,
        )


class FrozenLinear(nn.Module):
    """A linear map whose weight is no parameter."""

    weight: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight)


class NearIdentity(nn.Module):
    """x, or a learned multiple of it, plus a linear map of it that has a low rank."""

    def __init__(self, dim: int, rank: int, multiple: float | None = None) -> None:
        super().__init__()
        self.narrow, self.widen = Linear(dim, rank, False), Linear(rank, dim, False)
        self.multiple = None if multiple is None else nn.Parameter(torch.tensor(float(multiple)))

    def forward(self, x: Tensor) -> Tensor:
        widened: Tensor = self.widen(self.narrow(x))
        return (x if self.multiple is None else self.multiple * x) + widened


class Attention(nn.Module):
    """Causal attention; where `query` or `key` is the identity, the hidden state stands in for it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        dim, self.n_heads = config.embedding_dim, config.n_heads
        make_query: dict[Attending, Callable[[], nn.Module]] = {
            "no_q": nn.Identity,
            "half_no_q": nn.Identity,
            "frozen_q": lambda: FrozenLinear(dim),
        }
        self.query = make_query.get(config.attention, lambda: Linear(dim, dim, config.biases))()
        if config.key_rank:
            self.key: nn.Module = NearIdentity(dim, config.key_rank, config.key_multiple)
        else:
            self.key = nn.Identity() if config.attention == "no_k" else Linear(dim, dim, config.biases)
        self.value = Linear(dim, dim, config.biases)
        self.out = Linear(dim, dim, config.biases)
        width = dim // self.n_heads
        halved = config.attention.startswith("half_")
        self.scale = 0.5 * width**-0.5 if halved else None  # None: 1 / sqrt(width)

    def heads(self, x: Tensor) -> Tensor:
        """x (..., D) as (..., H, D / H)."""
        return x.unflatten(-1, (self.n_heads, -1))

    def forward(self, asking: Tensor, x: Tensor) -> Tensor:
        """What `asking` (B, Q, D) reads in x (B, T, D): itself, or its last position alone; (B, Q, D)."""
        query, key, value = (
            self.heads(part).transpose(1, 2) for part in (self.query(asking), self.key(x), self.value(x))
        )  # (B, H, Q or T, D / H)
        causal = asking.shape[1] == x.shape[1]  # the last position may look at all others
        read = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=self.scale
        )
        attended: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return attended


class Block(nn.Module):
    """Attention and an MLP, each in a residual sum, with norms before the parts or after the sums."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        dim, biases = config.embedding_dim, config.biases
        self.attention = Attention(config)
        self.up, self.down = Linear(dim, config.mlp_dim, biases), Linear(config.mlp_dim, dim, biases)
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.before, self.after = (
            nn.ModuleList(nn.LayerNorm(dim) if config.norm == here else nn.Identity() for _ in range(2))
            for here in ("pre", "post")
        )

    def mlp(self, x: Tensor) -> Tensor:
        """x (..., D) after the second residual sum, (..., D)."""
        changed = x + self.down(self.activation(self.up(self.before[1](x))))
        normed: Tensor = self.after[1](changed)
        return normed

    def forward(self, x: Tensor, n_asking: int) -> Tensor:
        """x (B, T, D) to what its last `n_asking` positions, all or one, become: (B, n_asking, D)."""
        hidden = self.before[0](x)
        attended = self.attention(hidden[:, -n_asking:], hidden)
        return self.mlp(self.after[0](x[:, -n_asking:] + attended))


class Transformer(nn.Module):
    """A causal transformer without dropout.

    Parameters
    ----------
    config : TransformerConfig
    seed : int
        Of the initial weights; the global random state is neither used nor changed. Each array follows from
        the seed and its own name, so models of one seed that differ in an option share all that both have.

    Source
    ------
    Geometry paper, equations 1 and 4, sections 5.1, 6.1 and 6.5: without biases the parameter counts are its.
    """

    position: nn.Parameter | Tensor | None

    def __init__(self, config: TransformerConfig, *, seed: int) -> None:
        super().__init__()
        self.config = config
        shape = (config.n_symbols, config.embedding_dim)
        with torch.random.fork_rng(devices=[]):  # PyTorch's layers draw weights that are drawn anew below
            self.embedding = nn.Parameter(torch.empty(shape))  # (V, D)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
            self.norm = nn.LayerNorm(config.embedding_dim) if config.norm == "pre" else nn.Identity()
            self.free_head = None if config.tied else nn.Parameter(torch.empty(shape))  # (V, D)
        if config.positions == "sines":
            self.register_buffer("position", sines(config.length, config.embedding_dim))
        else:
            learned = nn.Parameter(torch.empty(config.length, config.embedding_dim))
            self.position = learned if config.positions == "learned" else None  # (T, D)
        with torch.no_grad():
            for name, array in self.state_dict().items():
                if array.dim() == 2 and not (name == "position" and config.positions == "sines"):
                    array.copy_(initial_value(config, name, tuple(array.shape), seed))
                elif name.endswith("bias"):
                    array.zero_()

    @property
    def head(self) -> Tensor:
        """Output embedding (V, D): the input embedding itself where tied."""
        return self.embedding if self.free_head is None else self.free_head

    def embed(self, tokens: Tensor) -> Tensor:
        """Input of the first layer, (B, T, D), for tokens (B, T)."""
        x = nn.functional.embedding(tokens, self.embedding)
        return x if self.position is None else x + self.position[: tokens.shape[1]]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of the symbol after each of tokens (B, T)."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, x.shape[1])
        return linear(self.norm(x), self.head)

    def last(self, tokens: Tensor) -> Tensor:
        """Logits (B, V) of the symbol after the last; the last layer computes nothing for the others."""
        x = self.embed(tokens)
        for block in self.blocks[:-1]:
            x = block(x, x.shape[1])
        x = self.blocks[-1](x, 1)
        return linear(self.norm(x[:, 0]), self.head)


def initial_value(config: TransformerConfig, name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Weight of that name before training.

    "pytorch": embeddings N(0, 1), linear maps uniform in +-1/sqrt(inputs), as PyTorch's layers start.
    "scaled": N(0, 1/D), the MLP's way down included, and N(0, 1/V) for a free head, as in the work on
    progress measures. "small": N(0, 0.02^2), maps into the residual stream divided by sqrt(2 L), as GPT-2.
    `embedding_sd`, where it is not 0, replaces the spread of the embedding and the positions.
    """
    if config.attention == "identity_q" and name.endswith("query.weight"):
        return torch.eye(config.embedding_dim)
    if name.endswith("key.widen.weight"):
        return torch.zeros(shape)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if config.embedding_sd and name in ("embedding", "position"):
        return torch.from_numpy(config.embedding_sd * rng.standard_normal(shape)).float()
    is_map = name.startswith("blocks")
    if config.start == "pytorch":
        values = rng.uniform(-1, 1, shape) / math.sqrt(shape[1]) if is_map else rng.standard_normal(shape)
        if name == "free_head":  # PyTorch's Linear again
            values = rng.uniform(-1, 1, shape) / math.sqrt(shape[1])
    elif config.start == "scaled":
        fan = config.n_symbols if name == "free_head" else config.embedding_dim
        values = rng.standard_normal(shape) / math.sqrt(fan)
    else:
        depth = math.sqrt(2 * config.n_layers) if name.endswith(("out.weight", "down.weight")) else 1.0
        values = 0.02 / depth * rng.standard_normal(shape)
    return torch.from_numpy(values).float()


def sines(length: int, dim: int) -> Tensor:
    """Sines and cosines of the position, (T, D), wavelengths from 2 pi to 10,000 times as long."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(dim) // 2 * 2 / dim)  # (T, D)
    return torch.from_numpy(np.where(np.arange(dim) % 2, np.cos(angles), np.sin(angles))).float()


def n_parameters(model: nn.Module) -> int:
    """Numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters())


# --- many side by side ------------------------------------------------------------------------------


class StackedTransformers(nn.Module):
    """R transformers of one shape in one program: every array has a leading axis R, one row per member.

    Parameters
    ----------
    models : sequence of Transformer
        Of one configuration; their weights are copied.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.config = models[0].config
        parameters, buffers = stack_module_state(list(models))
        self.names = {inner(name): name for name in (*parameters, *buffers)}
        self.arrays = nn.ParameterDict({inner(name): array for name, array in parameters.items()})
        for name, array in buffers.items():
            self.register_buffer(inner(name), array)
        self._skeleton = [Transformer(self.config, seed=0).to("meta")]  # in a list: no part of the state

    @property
    def weights(self) -> dict[str, Tensor]:
        """Stacked arrays by a transformer's own names."""
        stacked = {**self.arrays, **dict(self.named_buffers())}
        return {self.names[name]: array for name, array in stacked.items()}

    def each(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """``function(model, *tensors)`` of every member, with its own row of the tensors (R, ...)."""
        called = _Call(self._skeleton[0], function)

        def one(weights: dict[str, Tensor], *rows: Tensor) -> Tensor:
            result: Tensor = functional_call(called, weights, rows)
            return result

        weights = {f"model.{name}": array for name, array in self.weights.items()}
        # the fused attention of the CPU is one that vmap would call member by member
        on_cpu = next(self.parameters()).device.type == "cpu"
        with sdpa_kernel(SDPBackend.MATH) if on_cpu else nullcontext():
            return vmap(one)(weights, *tensors)


class _Call(nn.Module):
    """A function of a model as a module, which is what functional_call takes."""

    def __init__(self, model: nn.Module, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.function(self.model, *tensors)
