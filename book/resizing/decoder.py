"""The causal transformer of the resizing chapters, with a choice of norms, gains, positions and heads."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu, normalize, scaled_dot_product_attention

from book.transformer import check_options
from embviz.models.linear import Linear, linear

Norm = Literal["layer", "rms"]
Gains = Literal["each", "one", "none", "dense"]
Placement = Literal["pre", "peri", "sphere"]
Positions = Literal["learned", "rotary", "alibi"]
Start = Literal["pytorch", "small"]
_SPHERE_UNIT = 0.1  # where scales of the sphere start, so that Adam's steps are not too small for them
_SPHERE_LOGITS = 10.0  # the logits' scale at the start


@dataclass(frozen=True)
class DecoderConfig:
    """Shape of a decoder; the defaults are a pre-norm model with LayerNorm's centering and gains.

    `placement` is "pre": a norm before each part; "peri": one before and one after each; "sphere": normalized
    GPT, see :class:`Decoder`. A last norm is there in any case. `gains` is "each": one for each dimension;
    "one": one for all; "none"; "dense": a matrix, which a vector of gains becomes in another basis.
    """

    n_symbols: int
    length: int  # most symbols in a string
    embedding_dim: int = 128  # D, the width of the residual stream
    n_layers: int = 2
    n_heads: int = 4
    head_dim: int = 0  # 0: embedding_dim / n_heads; otherwise free of embedding_dim
    mlp_dim: int = 512
    gated: Literal[False] = False  # as `activation` the same everywhere; stored results are named by both
    norm: Norm = "layer"  # "layer" takes the mean over dimensions away first
    gains: Gains = "each"
    norm_biases: bool = False  # a vector added after each gain
    placement: Placement = "pre"
    positions: Positions = "learned"
    rotary_base: float = 10_000.0
    tied: bool = True  # whether the output embedding is the input embedding
    biases: bool = False  # of the linear maps but the head
    head_bias: bool = False  # a number added to the logit of each symbol
    activation: Literal["gelu"] = "gelu"
    attention_scale: float = 0.0  # of products of queries and keys; 0: 1 / sqrt(head's width)
    norm_eps: float = 1e-5
    norm_width: int = 0  # a norm's sum of squares is divided by this; 0: embedding_dim
    after_gains: Literal["one"] | None = None  # of peri-norm's second norms
    start: Start = "small"  # of the weights, see initial_value

    def __post_init__(self) -> None:
        check_options(self, norm=Norm, gains=Gains, placement=Placement, positions=Positions, start=Start)
        if not self.head_dim and self.embedding_dim % self.n_heads:
            raise ValueError(
                f"embedding_dim {self.embedding_dim} is no multiple of {self.n_heads} heads: name a head_dim"
            )
        if self.placement != "pre" and (self.norm != "rms" or self.norm_biases or self.biases):
            raise ValueError(f"in peri-norm and on the sphere norm is 'rms', and there are no biases: {self}")
        # a gain for each dimension after a part, or of a step, belongs to the basis of the stream
        if (self.placement == "sphere" and self.gains != "one") or (
            self.placement == "peri" and self.after_gains != "one"
        ):
            raise ValueError(f"gains on the sphere, and after_gains in peri-norm, are 'one': {self}")

    @property
    def head_width(self) -> int:
        """Coordinates of a query, key or value of one head."""
        return self.head_dim or self.embedding_dim // self.n_heads

    @property
    def scale(self) -> float:
        """What products of queries and keys are multiplied by before the softmax."""
        sign = 1 if self.placement == "sphere" else -1  # there both have unit length
        return self.attention_scale or self.head_width ** (sign / 2)

    @property
    def divisor(self) -> int:
        """What a norm divides the sum of squares by."""
        return self.norm_width or self.embedding_dim


def unit(x: Tensor, axis: int = -1) -> Tensor:
    """x over its length along an axis; 0 stays 0."""
    return normalize(x, dim=axis, eps=1e-12)


class Gain(nn.Module):
    """Multiply by a number for each dimension, by one for all, by none, or by a matrix."""

    def __init__(self, dim: int, kind: Gains) -> None:
        super().__init__()
        shapes: dict[Gains, tuple[int, ...]] = {"each": (dim,), "one": (), "dense": (dim, dim)}
        self.weight = nn.Parameter(torch.empty(shapes[kind])) if kind != "none" else None

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return x
        return linear(x, self.weight) if self.weight.dim() == 2 else x * self.weight


class DecoderNorm(Gain):
    """LayerNorm or RMSNorm, then a gain, then a bias where there is one."""

    def __init__(self, config: DecoderConfig, kind: Gains | None = None) -> None:
        super().__init__(config.embedding_dim, kind or config.gains)
        self.config = config
        self.bias = nn.Parameter(torch.empty(config.embedding_dim)) if config.norm_biases else None

    def forward(self, x: Tensor) -> Tensor:
        if self.config.norm == "layer":
            x = x - x.mean(-1, keepdim=True)
        squares = x.square().sum(-1, keepdim=True) / self.config.divisor
        x = super().forward(x * torch.rsqrt(squares + self.config.norm_eps))
        return x if self.bias is None else x + self.bias


class SphereLinear(Linear):
    """A linear map whose vectors along one axis have unit length, whatever the parameter's lengths."""

    def __init__(self, n_in: int, n_out: int, axis: int) -> None:
        super().__init__(n_in, n_out, False)
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, unit(self.weight, self.axis))


def _reader(config: DecoderConfig, n_out: int) -> Linear:
    """A map from the residual stream."""
    if config.placement == "sphere":
        return SphereLinear(config.embedding_dim, n_out, axis=1)
    return Linear(config.embedding_dim, n_out, config.biases)


def _writer(config: DecoderConfig, n_in: int) -> Linear:
    """A map into the residual stream."""
    if config.placement == "sphere":
        return SphereLinear(n_in, config.embedding_dim, axis=0)
    return Linear(n_in, config.embedding_dim, config.biases)


class DecoderAttention(nn.Module):
    """Causal attention of heads that may be wider or narrower than D / H."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config, inner = config, config.n_heads * config.head_width
        self.query, self.key, self.value = (_reader(config, inner) for _ in range(3))
        self.out = _writer(config, inner)
        on_sphere = config.placement == "sphere"
        self.scales = nn.Parameter(torch.empty(inner)) if on_sphere else None  # of queries and of keys

    def forward(self, x: Tensor) -> Tensor:
        """What each of x (B, T, D) reads at its own place and before, (B, T, D)."""
        config = self.config
        query, key, value = (
            part(x).unflatten(-1, (config.n_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )  # (B, H, T, W)
        if config.positions == "rotary":
            query, key = (rotate(part, config.rotary_base) for part in (query, key))
        if self.scales is not None:
            scales = (self.scales / _SPHERE_UNIT).unflatten(-1, (config.n_heads, 1, -1))
            query, key = unit(query) * scales, unit(key) * scales
        mask = alibi(config.n_heads, x.shape[1]).to(x) if config.positions == "alibi" else None
        read = scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=config.scale
        )
        attended: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return attended


class DecoderBlock(nn.Module):
    """Attention and an MLP, each added to the residual stream, or on the sphere a step towards it."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = DecoderAttention(config)
        self.up, self.down = _reader(config, config.mlp_dim), _writer(config, config.mlp_dim)
        on_sphere, peri = config.placement == "sphere", config.placement == "peri"
        self.before = nn.ModuleList([] if on_sphere else [DecoderNorm(config) for _ in range(2)])
        self.after = nn.ModuleList(
            [DecoderNorm(config, config.after_gains) for _ in range(2)] if peri else []
        )
        steps = [Gain(config.embedding_dim, config.gains) for _ in range(2)] if on_sphere else []
        self.steps = nn.ModuleList(steps)
        self.scales = nn.Parameter(torch.empty(config.mlp_dim)) if on_sphere else None  # of hidden units

    def mlp(self, x: Tensor) -> Tensor:
        """The MLP's answer to x (..., D), (..., D)."""
        up: Tensor = self.up(x)
        if self.scales is not None:  # products of unit vectors are brought to the scale of one
            up = up * self.scales * math.sqrt(self.config.divisor)
        answer: Tensor = self.down(gelu(up))
        return answer

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) after both parts."""
        parts: tuple[Callable[[Tensor], Tensor], ...] = (self.attention, self.mlp)
        for index, part in enumerate(parts):
            if self.config.placement == "sphere":
                step = self.steps[index](unit(part(x)) - x) * (1 / self.config.n_layers / _SPHERE_UNIT)
                x = unit(x + step)
            else:
                answer = part(self.before[index](x))
                x = x + (self.after[index](answer) if len(self.after) else answer)
        return x


class Decoder(nn.Module):
    """A causal transformer without dropout.

    Parameters
    ----------
    config : DecoderConfig
    seed : int
        Of the initial weights; the global random state is neither used nor changed.

    Notes
    -----
    On the sphere ("sphere"), normalized GPT: the residual stream, embeddings, and all vectors of maps along
    the residual axis have unit length; a part moves the stream by x <- unit(x + a (unit(part(x)) - x)), a
    learned; queries and keys have unit length and a learned scale each coordinate, hidden units and logits
    a learned scale. Other than the publication has it: lengths are taken away in the forward pass, not after
    an update, so that any optimizer may be used; a is one number; there is no gate; steps start at 1 / L and
    other scales at round numbers, free of the width; logits are 10 cosines at first.
    """

    def __init__(self, config: DecoderConfig, *, seed: int) -> None:
        super().__init__()
        self.config = config
        shape, learned = (config.n_symbols, config.embedding_dim), config.positions == "learned"
        with torch.random.fork_rng(devices=[]):  # PyTorch's layers draw weights that are drawn anew below
            self.embedding = nn.Parameter(torch.empty(shape))  # (V, D)
            self.position = (
                nn.Parameter(torch.empty(config.length, config.embedding_dim)) if learned else None
            )  # (T, D)
            self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.n_layers))
            on_sphere = config.placement == "sphere"
            self.norm = None if on_sphere else DecoderNorm(config)
            self.free_head = None if config.tied else nn.Parameter(torch.empty(shape))  # (V, D)
            self.head_bias = nn.Parameter(torch.empty(config.n_symbols)) if config.head_bias else None
            self.scales = nn.Parameter(torch.empty(config.n_symbols)) if on_sphere else None  # of logits
        with torch.no_grad():
            for name, array in self.state_dict().items():
                array.copy_(initial_value(config, name, tuple(array.shape), seed))

    def embed(self, tokens: Tensor) -> Tensor:
        """Input of the first layer, (B, T, D), for tokens (B, T)."""
        on_sphere = self.config.placement == "sphere"
        x = embedding(tokens, unit(self.embedding) if on_sphere else self.embedding)
        if self.position is None:
            return x
        x = x + self.position[: tokens.shape[1]]
        return unit(x) if on_sphere else x

    def states(self, tokens: Tensor) -> list[Tensor]:
        """Residual stream before each layer and after the last, L + 1 of (B, T, D)."""
        found = [self.embed(tokens)]
        for block in self.blocks:
            found.append(block(found[-1]))
        return found

    def read_out(self, x: Tensor) -> Tensor:
        """Logits (..., V) of the residual stream after the last layer, (..., D)."""
        head = self.embedding if self.free_head is None else self.free_head
        if self.scales is None:
            assert self.norm is not None
            return linear(self.norm(x), head, self.head_bias)
        return linear(x, unit(head)) * (self.scales * (_SPHERE_LOGITS / _SPHERE_UNIT))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of the symbol after each of tokens (B, T)."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.read_out(x)


def initial_value(config: DecoderConfig, name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Weight of that name before training, from the seed and the name alone.

    "pytorch": embeddings N(0, 1), linear maps uniform in +-1/sqrt(inputs). "small": N(0, 0.02^2), maps into
    the residual stream divided by sqrt(2 L), as GPT-2. Gains are 1, biases 0; on the sphere weights have
    unit length along the residual axis, and steps and scales start as :class:`Decoder` tells.
    """
    if name.endswith("bias"):
        return torch.zeros(shape)
    is_gain = any(part in name.split(".") for part in ("before", "after", "norm", "steps"))
    if is_gain:
        start = _SPHERE_UNIT if "steps" in name.split(".") else 1.0
        return start * (torch.eye(*shape) if len(shape) == 2 else torch.ones(shape))
    if name.endswith("scales"):
        hidden = name.startswith("blocks") and "attention" not in name
        return torch.full(shape, 1.0 if hidden else _SPHERE_UNIT)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    is_map = name.startswith("blocks")
    if config.start == "pytorch" and (is_map or name == "free_head"):
        values = rng.uniform(-1, 1, shape) / math.sqrt(shape[1])
    elif config.start == "pytorch":
        values = rng.standard_normal(shape)
    else:
        depth = math.sqrt(2 * config.n_layers) if name.endswith(("out.weight", "down.weight")) else 1.0
        values = 0.02 / depth * rng.standard_normal(shape)
    if config.placement == "sphere" and name != "position":
        axis = 0 if name.endswith(("out.weight", "down.weight")) else 1
        values = values / np.linalg.norm(values, axis=axis, keepdims=True)
    return torch.from_numpy(values).float()


def rotate(x: Tensor, base: float) -> Tensor:
    """Rotary positions: pairs of coordinates, one of each half of x (..., T, W), turned by the position.

    Source
    ------
    Su and others (2021), section 3.2.2, the pairing of later programs: coordinate i with W / 2 + i.
    """
    n_places, width = x.shape[-2:]
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)  # (W / 2,)
    angles = torch.arange(n_places, dtype=torch.float64)[:, None] * rates
    sine, cosine = angles.sin().to(x), angles.cos().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def alibi(n_heads: int, length: int) -> Tensor:
    """What ALiBi adds to scaled products, (H, T, T): minus the distance times a slope of 2^(-8 h / H).

    Later positions are minus infinity.

    Source
    ------
    Press, Smith and Lewis (2021), section 3; their rule for powers of two serves all numbers of heads.
    """
    slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1, dtype=torch.float64) / n_heads)
    places = torch.arange(length, dtype=torch.float64)
    distance = places[:, None] - places  # (T, T)
    added = -slopes[:, None, None] * distance
    return added.masked_fill(distance < 0, -math.inf)


def with_weights(config: DecoderConfig, weights: dict[str, Tensor]) -> Decoder:
    """A decoder with copies of these weights, in their type, ready for use."""
    model = Decoder(config, seed=0).to(next(iter(weights.values())))
    model.load_state_dict(weights)
    return model.eval()
