"""Small encoders that fill in a masked symbol: transformer, bidirectional LSTM, MLP-Mixer; tied or not.

One model at a time, of PyTorch's own layers, as a reader would write it. :mod:`book.tying.models.stacked`
runs many of them side by side with the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

Architecture = Literal["transformer", "lstm", "mixer"]


@dataclass(frozen=True)
class EncoderConfig:
    """Shape of an encoder; the defaults are the smallest transformer of the tying paper, section 5."""

    architecture: Architecture = "transformer"
    n_layers: int = 1
    embedding_dim: int = 4  # D, of the input and the output embedding
    hidden_dim: int = 4  # feed-forward width; an LSTM's state a direction; a mixer's channel width
    token_dim: int = 4  # width of a mixer's token mixing; the other architectures ignore it
    vocab_size: int = 7
    length: int = 8  # symbols in a string, T
    positions: bool = False  # a learned embedding of the position, added to the input
    rank: int = 0  # of the encodings, the other coordinates being put to 0; 0: no limit

    def __post_init__(self) -> None:
        if self.architecture not in get_args(Architecture):
            raise ValueError(
                f"architecture is {self.architecture!r}: choose one of {', '.join(get_args(Architecture))}"
            )
        sizes = (self.n_layers, self.embedding_dim, self.hidden_dim, self.token_dim)
        if min(*sizes, self.vocab_size, self.length) < 1:
            raise ValueError(f"every size must be at least 1, got {self}")
        if not 0 <= self.rank <= self.embedding_dim:
            raise ValueError(f"rank must lie between 0 and embedding_dim, got {self}")


class BidirectionalLSTM(nn.Module):
    """LSTM layers in both directions, and a linear map back to the embedding's width."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            config.embedding_dim, config.hidden_dim, config.n_layers, bidirectional=True, batch_first=True
        )
        self.project = nn.Linear(2 * config.hidden_dim, config.embedding_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.lstm(x)[0])  # (B, T, D)


class MixerLayer(nn.Module):
    """Mixes places, then channels; each after a layer norm and around a residual."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim = config.embedding_dim
        self.token_norm, self.channel_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_in = nn.Linear(config.length, config.token_dim)
        self.token_out = nn.Linear(config.token_dim, config.length)
        self.channel_in = nn.Linear(dim, config.hidden_dim)
        self.channel_out = nn.Linear(config.hidden_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.token_out(self.token_in(self.token_norm(x).mT).relu())  # (B, D, T)
        x = x + mixed.mT
        return x + self.channel_out(self.channel_in(self.channel_norm(x)).relu())


class Encoder(nn.Module):
    """An encoder between an input and an output embedding, without dropout and without an output bias.

    Parameters
    ----------
    config : EncoderConfig
    tied : bool
        Whether the output embedding is the input embedding: one parameter, stored once.
    seed : int
        Of the initial weights, which are PyTorch's for each layer and N(0, 1) for embeddings; the
        global random state is neither used nor changed. The tied and the untied model of one seed share
        all weights that both have.

    Source
    ------
    Tying paper, sections 4, 5 and appendices C.3-C.6; sizes that the text leaves out as in the authors'
    program.
    """

    kept: Tensor | None

    def __init__(self, config: EncoderConfig, *, tied: bool, seed: int) -> None:
        super().__init__()
        self.config = config
        shape = (config.vocab_size, config.embedding_dim)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.input_embedding = nn.Parameter(torch.randn(shape))  # E_I, (V, D)
            self.body = _make_body(config)
            # drawn last, so that tied and untied models of one seed share their other weights
            free = torch.randn(shape)
            position = torch.randn(config.length, config.embedding_dim)
        self.free_output = None if tied else nn.Parameter(free)  # E_O, (V, D)
        self.position = nn.Parameter(position) if config.positions else None  # (T, D)
        self.register_buffer("kept", kept_coordinates(config), persistent=False)

    @property
    def output_embedding(self) -> nn.Parameter:
        """E_O (V, D): the input embedding itself where tied."""
        return self.input_embedding if self.free_output is None else self.free_output

    def encode(self, tokens: Tensor) -> Tensor:
        """Encodings (B, T, D) of tokens (B, T)."""
        x = nn.functional.embedding(tokens, self.input_embedding)  # (B, T, D)
        encoded: Tensor = self.body(x if self.position is None else x + self.position)
        return encoded if self.kept is None else encoded * self.kept

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of tokens (B, T)."""
        return self.encode(tokens) @ self.output_embedding.mT


def kept_coordinates(config: EncoderConfig) -> Tensor | None:
    """1 for a coordinate of the encodings that is kept, 0 for one that is not, (D,); None where all are."""
    if config.rank in (0, config.embedding_dim):
        return None
    return (torch.arange(config.embedding_dim) < config.rank).float()


def _make_body(config: EncoderConfig) -> nn.Module:
    if config.architecture == "lstm":
        return BidirectionalLSTM(config)
    if config.architecture == "mixer":
        return nn.Sequential(*(MixerLayer(config) for _ in range(config.n_layers)))
    layer = nn.TransformerEncoderLayer(
        config.embedding_dim, 1, config.hidden_dim, dropout=0.0, activation="gelu", batch_first=True
    )
    # its layers start as copies of one another
    return nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=False)
