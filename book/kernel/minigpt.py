"""A small GPT with rotary positions and dropout, many side by side: every array has a leading axis R.

Pre-norm blocks of causal attention and an MLP, linear maps with biases, an output embedding that is the
input embedding where tied. The kernel paper names MiniGPT and says no more than its sizes, rotary positions,
dropout and tying; the rest is GPT-2's.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu

from book.members import Member, affine, inner, looked_up, normed, output_rows
from embviz.models.linear import linear

Start = Literal["pytorch", "small"]
ROTARY_BASE = 10_000.0
OUTPUT_BIAS = "output.bias"
_LEVELS = 1 << 16  # a decision of dropout takes 16 random bits


@dataclass(frozen=True)
class MiniGPTConfig:
    """Shape of a MiniGPT; the defaults are from the kernel paper's tables, or GPT-2's where it is silent.

    `start` is "pytorch": embeddings N(0, 1), maps and their biases uniform in +-1/sqrt(inputs), as PyTorch's
    layers start; or "small": N(0, 0.02^2), maps into the residual stream divided by sqrt(2 L), biases 0, as
    GPT-2.
    """

    vocab_size: int
    embedding_dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    length: int = 64  # most tokens in a sequence
    dropout: float = 0.1  # of the embedding, the attention weights and both branches; rounded to 1 / 65,536
    start: Start = "pytorch"

    def __post_init__(self) -> None:
        sizes = (self.vocab_size, self.embedding_dim, self.n_layers, self.n_heads, self.length)
        if min(sizes) < 1:
            raise ValueError(f"every size must be at least 1, got {self}")
        step = 2 * self.n_heads
        if self.embedding_dim % step:
            nearest = max(1, round(self.embedding_dim / step)) * step
            raise ValueError(
                f"embedding_dim is {self.embedding_dim}: rotary positions turn pairs of coordinates in each "
                f"of {self.n_heads} heads, so it must be a multiple of {step}; the nearest is {nearest}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in 0..1, below 1, got {self.dropout}")
        if self.start not in get_args(Start):
            raise ValueError(f"start is {self.start!r}: choose one of {', '.join(get_args(Start))}")

    @property
    def mlp_dim(self) -> int:
        """Hidden units of a block's MLP."""
        return 4 * self.embedding_dim

    @property
    def dropped(self) -> int:
        """Of 65,536 numbers, those that dropout takes."""
        return round(self.dropout * _LEVELS)


@dataclass(frozen=True)
class BiasedGPTConfig(MiniGPTConfig):
    """A MiniGPT with a learned output bias, 0 at first: embeddings need not hold how frequent words are."""

    output_bias: bool = True


@dataclass(frozen=True)
class Masks:
    """What dropout leaves: each number is 0, or 1 over the probability of staying."""

    embedding: Tensor  # (R, B, T, D)
    attention: Tensor  # (L, R, B H, T, T)
    branches: Tensor  # (L, 2, R, B, T, D), of attention and MLP

    def member(self, index: int) -> Masks:
        """Masks of one member, R = 1."""
        own = slice(index, index + 1)
        return Masks(self.embedding[own], self.attention[:, own], self.branches[:, :, own])


class StackedMiniGPT(nn.Module):
    """R models of one shape, each with its own weights, in one program.

    Parameters
    ----------
    config : MiniGPTConfig
    members : sequence of Member
        Each array is a function of the member's seed, the array's name and the configuration alone, so that a
        member is the same alone or in company, and a tied one shares all it has with its untied twin.

    Raises
    ------
    ValueError
        If there is no member, or one is named twice.

    Notes
    -----
    ``free_head`` has a row for each untied member only, in their order. The global random state is neither
    used nor changed.
    """

    angles: Tensor
    future: Tensor
    head_rows: Tensor

    def __init__(self, config: MiniGPTConfig, members: Sequence[Member]) -> None:
        super().__init__()
        self.config, self.members = config, tuple(members)
        self.arrays = nn.ParameterDict()
        for name, shape in array_shapes(config).items():
            self._add(name, shape, [member.seed for member in members])
        untied = [r for r, member in enumerate(members) if not member.tied]
        if untied:
            shape = (config.vocab_size, config.embedding_dim)
            self._add("free_head", shape, [members[r].seed for r in untied])
        self.register_buffer("head_rows", output_rows(members), persistent=False)
        self.register_buffer("angles", rotary_angles(config), persistent=False)
        future = torch.full((config.length, config.length), -math.inf).triu(1)
        self.register_buffer("future", future, persistent=False)

    def _add(self, name: str, shape: tuple[int, ...], seeds: Sequence[int]) -> None:
        rows = [initial_value(self.config, name, shape, seed) for seed in seeds]
        self.arrays[inner(name)] = nn.Parameter(torch.stack(rows))

    @property
    def weights(self) -> dict[str, Tensor]:
        """Stacked arrays by name."""
        return {name.replace("/", "."): array for name, array in self.arrays.items()}

    @property
    def embedding(self) -> Tensor:
        """Input embedding (R, V, D)."""
        return self.arrays["embedding"]

    @property
    def head(self) -> Tensor:
        """Output embedding (R, V, D): a tied member's row is its input embedding."""
        if "free_head" not in self.arrays:
            return self.embedding
        return torch.cat([self.embedding, self.arrays["free_head"]])[self.head_rows]

    @torch.no_grad()
    def set_embeddings(self, embeddings: Tensor) -> None:
        """Start from other input embeddings, (R, V, D); an untied member's output embedding stays.

        Raises
        ------
        ValueError
            If the shape is not that of :attr:`embedding`, or a number is not finite.
        """
        if embeddings.shape != self.embedding.shape:
            raise ValueError(
                f"embeddings have shape {tuple(embeddings.shape)}: give (members, words, coordinates), "
                f"{tuple(self.embedding.shape)}"
            )
        if not embeddings.isfinite().all():
            raise ValueError("embeddings hold a NaN or an infinity")
        self.embedding.copy_(embeddings)

    def forward(self, tokens: Tensor, *, masks: Masks | None = None) -> Tensor:
        """Logits (R, B, T, V) of the token after each of tokens (R, B, T), each member its own."""
        n_tokens, limit = tokens.shape[2], self.config.length
        if n_tokens > limit:
            raise ValueError(f"sequences of {n_tokens} tokens: this model reads {limit} at most")
        arrays = {**self.weights, "head": self.head}  # every array one row per member
        arrays.pop("free_head", None)
        if tokens.device.type != "cpu":
            return self._read(arrays, tokens, masks)
        # on a CPU members take turns: what one of them computes stays in the cache
        own = {name: array.split(1) for name, array in arrays.items()}
        logits = [
            self._read(
                {name: rows[r] for name, rows in own.items()},
                tokens[r : r + 1],
                None if masks is None else masks.member(r),
            )
            for r in range(len(self.members))
        ]
        return torch.cat(logits)

    def _read(self, arrays: Mapping[str, Tensor], tokens: Tensor, masks: Masks | None) -> Tensor:
        """Logits of all the members, or of one, whose arrays are given."""
        x = looked_up(arrays["embedding"], tokens)
        x = x if masks is None else x * masks.embedding
        for layer in range(self.config.n_layers):
            part = functools.partial(_pair, arrays, f"blocks.{layer}.")
            read = self._attend(
                part, normed(x, *part("norm1")), None if masks is None else masks.attention[layer]
            )
            branch = _linear(read, *part("out"))
            x = x + (branch if masks is None else branch * masks.branches[layer, 0])
            branch = _linear(gelu(_linear(normed(x, *part("norm2")), *part("up"))), *part("down"))
            x = x + (branch if masks is None else branch * masks.branches[layer, 1])
        x = normed(x, *_pair(arrays, "", "norm"))
        return _linear(x, arrays["head"], arrays.get(OUTPUT_BIAS))

    def _attend(self, part: Callable[[str], tuple[Tensor, Tensor]], x: Tensor, mask: Tensor | None) -> Tensor:
        """What the heads of a block read: normed x (R, B, T, D) to (R, B, T, D)."""
        n_members, n_rows, n_tokens, _ = x.shape
        heads = _linear(x, *part("attention")).view(n_members, n_rows, n_tokens, 3, self.config.n_heads, -1)
        # (R, B, T, 2, H, D / H): queries and keys turn together
        turned = rotate(heads[..., :2, :, :], self.angles[:n_tokens, None, None])
        query, key = (turned[..., i, :, :].transpose(2, 3).flatten(0, 2) for i in range(2))
        value = heads[..., 2, :, :].transpose(2, 3).flatten(0, 2)  # (R B H, T, D / H)
        future = self.future[:n_tokens, :n_tokens]
        weights = torch.baddbmm(future, query, key.mT, alpha=query.shape[-1] ** -0.5).softmax(-1)
        if mask is not None:
            weights = (weights.view(mask.shape) * mask).flatten(0, 1)
        read = (weights @ value).view(n_members, n_rows, -1, n_tokens, value.shape[-1])
        return read.transpose(2, 3).flatten(3)

    def losses(self, tokens: Tensor, step: int | None = None) -> Tensor:
        """Mean cross entropy, nats, (R,), of all tokens (R, B, T + 1) but each sequence's first.

        With a `step` dropout is on, as :func:`dropout_masks` has it for that step.
        """
        inputs, targets = tokens[..., :-1], tokens[..., 1:]
        masks = None
        if step is not None and self.config.dropped:
            masks = dropout_masks(self.config, self.members, step, inputs.shape[1], inputs.shape[2])
            masks = _moved(masks, tokens.device)
        logits = self(inputs, masks=masks)
        flat = cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
        return flat.view(len(tokens), -1).mean(1)


# --- weights ----------------------------------------------------------------------------------------


def array_shapes(config: MiniGPTConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of a tied member's arrays by name; an untied one has a ``free_head`` besides, (V, D)."""
    dim = config.embedding_dim
    maps = {"attention": (3 * dim, dim), "out": (dim, dim), "up": (config.mlp_dim, dim)}
    maps["down"] = (dim, config.mlp_dim)
    shapes: dict[str, tuple[int, ...]] = {"embedding": (config.vocab_size, dim)}
    for layer in range(config.n_layers):
        for norm in ("norm1", "norm2"):
            shapes |= {f"blocks.{layer}.{norm}.{part}": (dim,) for part in ("weight", "bias")}
        for name, shape in maps.items():
            shapes |= {f"blocks.{layer}.{name}.weight": shape, f"blocks.{layer}.{name}.bias": shape[:1]}
    shapes |= {"norm.weight": (dim,), "norm.bias": (dim,)}
    return shapes | ({OUTPUT_BIAS: (config.vocab_size,)} if isinstance(config, BiasedGPTConfig) else {})


def initial_value(config: MiniGPTConfig, name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Array of that name before training, see :class:`MiniGPTConfig`."""
    if "norm" in name:
        return torch.full(shape, float(name.endswith("weight")))
    if name == OUTPUT_BIAS:
        return torch.zeros(shape)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if config.start == "small":
        if name.endswith("bias"):
            return torch.zeros(shape)
        depth = math.sqrt(2 * config.n_layers) if name.endswith(("out.weight", "down.weight")) else 1.0
        return torch.from_numpy(0.02 / depth * rng.standard_normal(shape)).float()
    if name == "embedding":
        return torch.from_numpy(rng.standard_normal(shape)).float()
    n_inputs = config.mlp_dim if ".down." in name else config.embedding_dim
    return torch.from_numpy(rng.uniform(-1, 1, shape) / math.sqrt(n_inputs)).float()


# --- dropout ----------------------------------------------------------------------------------------


def dropout_masks(
    config: MiniGPTConfig, members: Sequence[Member], step: int, n_rows: int, n_tokens: int
) -> Masks:
    """Masks of a batch of `n_rows` sequences of `n_tokens` at update `step`.

    A member's masks are a function of its seed, the step and the batch's shape alone: those of a tied model
    and its untied twin are the same, and company changes nothing.
    """
    layers, dim = config.n_layers, config.embedding_dim
    wide = (n_rows, n_tokens, dim)
    square = (n_rows * config.n_heads, n_tokens, n_tokens)
    sizes = math.prod(wide), layers * math.prod(square), layers * 2 * math.prod(wide)
    n_words = -(-sum(sizes) // 4)  # of 64 bits
    keep = torch.empty(len(members), 4 * n_words)
    scale = _LEVELS / (_LEVELS - config.dropped)
    for row, member in zip(keep, members, strict=True):
        bits = np.random.SFC64([member.seed, step, zlib.crc32(b"dropout")]).random_raw(n_words)
        # compared as signed numbers, since few of PyTorch's kernels take unsigned ones
        signed = torch.from_numpy(bits.view(np.int16))
        torch.mul(signed >= config.dropped - _LEVELS // 2, scale, out=row)
    embedding, attention, branches = keep[:, : sum(sizes)].split(sizes, 1)
    return Masks(
        embedding.view(-1, *wide),
        attention.view(-1, layers, *square).transpose(0, 1),
        branches.view(-1, layers, 2, *wide).permute(1, 2, 0, 3, 4, 5),
    )


def _moved(masks: Masks, device: torch.device) -> Masks:
    return Masks(masks.embedding.to(device), masks.attention.to(device), masks.branches.to(device))


# --- parts ------------------------------------------------------------------------------------------


def rotary_angles(config: MiniGPTConfig) -> Tensor:
    """Angle by which pair i of a head turns at position t: t / 10,000^(2 i H / D), radians, (T, D / 2 H).

    Source
    ------
    Su et al. (2021), RoFormer, section 3.2.2.
    """
    head_dim = config.embedding_dim // config.n_heads
    rates = ROTARY_BASE ** -(np.arange(0, head_dim, 2) / head_dim)
    return torch.from_numpy(np.arange(config.length)[:, None] * rates)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn neighbouring coordinates of x (..., D), as pairs, by angles (..., D / 2)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    turns = torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)
    return torch.view_as_real(pairs * turns).flatten(-2)


def _pair(arrays: Mapping[str, Tensor], block: str, name: str) -> tuple[Tensor, Tensor]:
    return arrays[f"{block}{name}.weight"], arrays[f"{block}{name}.bias"]


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each member's own affine map: x (R, ..., I), weight (R, O, I), bias (R, O)."""
    if len(weight) == 1:
        return linear(x, weight[0], None if bias is None else bias[0])
    return affine(x, weight, bias)
