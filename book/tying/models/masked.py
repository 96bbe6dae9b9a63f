"""A masked language model: a transformer that fills in masked tokens, its embeddings tied or not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class MaskedConfig:
    """Shape of a masked language model; the defaults are from the tying paper, appendix C.7."""

    vocab_size: int
    n_layers: int = 3
    embedding_dim: int = 128
    n_heads: int = 4
    hidden_dim: int = 512  # of the feed-forward layers
    init_sd: float = 0.3  # of the embeddings
    positions: bool = False  # learned ones; the authors' program has none
    length: int = 64  # most tokens in a sequence, for positions

    def __post_init__(self) -> None:
        sizes = (
            self.vocab_size,
            self.n_layers,
            self.embedding_dim,
            self.n_heads,
            self.hidden_dim,
            self.length,
        )
        if min(sizes) < 1 or self.embedding_dim % self.n_heads:
            raise ValueError(
                f"every size must be at least 1, and embedding_dim a multiple of n_heads, got {self}"
            )
        if self.init_sd <= 0:
            raise ValueError(f"init_sd must be above 0, got {self.init_sd}")


class MaskedLanguageModel(nn.Module):
    """PyTorch's post-norm transformer encoder between an input and an output embedding; no dropout, no bias
    on the output.

    Parameters
    ----------
    config : MaskedConfig
    tied : bool
        Whether the output embedding is the input embedding.
    seed : int
        Of the initial weights; the global random state is neither used nor changed. Tied and untied models
        of one seed share all weights that both have.

    Source
    ------
    Tying paper, appendix C.7.
    """

    def __init__(self, config: MaskedConfig, *, tied: bool, seed: int) -> None:
        super().__init__()
        self.config = config
        shape = (config.vocab_size, config.embedding_dim)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.input_embedding = nn.Parameter(torch.randn(shape) * config.init_sd)  # E_I, (V, D)
            layer = nn.TransformerEncoderLayer(
                config.embedding_dim,
                config.n_heads,
                config.hidden_dim,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
            )
            self.body = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=False)
            position = torch.randn(config.length, config.embedding_dim) * config.init_sd
            free = None if tied else torch.randn(shape) * config.init_sd
        self.position = nn.Parameter(position) if config.positions else None  # (T, D)
        self.free_output = None if free is None else nn.Parameter(free)  # E_O, (V, D)

    @property
    def output_embedding(self) -> nn.Parameter:
        """E_O (V, D): the input embedding itself where tied."""
        return self.input_embedding if self.free_output is None else self.free_output

    def encode(self, tokens: Tensor) -> Tensor:
        """Encodings (B, T, D) of tokens (B, T)."""
        x = nn.functional.embedding(tokens, self.input_embedding)
        encoded: Tensor = self.body(x if self.position is None else x + self.position[: tokens.shape[1]])
        return encoded

    def forward(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Logits (n, V) at the n places where the mask `asked` (B, T) is true, row by row."""
        return self.encode(tokens)[asked] @ self.output_embedding.mT
