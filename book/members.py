"""Models side by side in one program, a row of every array each: who they are, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, layer_norm


@dataclass(frozen=True)
class Member:
    """One of the models that run side by side."""

    seed: int  # of its weights, and of its dropout where it has some
    tied: bool = True


def output_rows(members: Sequence[Member]) -> Tensor:
    """Each member's output embedding, as a row (R,) of [all R input embeddings, all untied members' own].

    >>> output_rows([Member(0), Member(0, tied=False), Member(1), Member(1, tied=False)])
    tensor([0, 4, 2, 5])
    """
    untied = [r for r, member in enumerate(members) if not member.tied]
    rows = [r if m.tied else len(members) + untied.index(r) for r, m in enumerate(members)]
    return torch.tensor(rows)


def inner(name: str) -> str:
    """A parameter's name as one of a module's own, which may not have dots."""
    return name.replace(".", "/")


def looked_up(table: Tensor, tokens: Tensor) -> Tensor:
    """Rows of each member's own table (R, V, D) for its tokens (R, B, T): (R, B, T, D)."""
    n_members, vocab_size, dim = table.shape
    offset = torch.arange(n_members, device=tokens.device)[:, None, None] * vocab_size
    return embedding(tokens + offset, table.reshape(-1, dim))


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each member's own affine map: x (R, ..., I), weight (R, O, I), bias (R, O)."""
    flat = x.reshape(len(x), -1, x.shape[-1])
    product = flat @ weight.mT if bias is None else torch.baddbmm(bias[:, None], flat, weight.mT)
    return product.view(*x.shape[:-1], -1)


def normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm of x (R, ..., D) with each member's own scale and shift (R, D)."""
    shape = (len(x), *[1] * (x.dim() - 2), x.shape[-1])
    return torch.addcmul(bias.view(shape), layer_norm(x, x.shape[-1:]), weight.view(shape))
