"""Models side by side in one program, a row of every array each: who they are, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Member:
    """One of the models that run side by side."""

    seed: int  # of its weights, and of its dropout where it has some
    tied: bool = True


def named_once(members: Sequence[Member]) -> tuple[Member, ...]:
    """The members as they are.

    Raises
    ------
    ValueError
        If there is no member, or one is named twice.
    """
    if not members or len(set(members)) < len(members):
        raise ValueError(f"name at least one member, each once: {list(members)}")
    return tuple(members)


def output_rows(members: Sequence[Member]) -> Tensor:
    """Each member's output embedding, as a row (R,) of [all R input embeddings, all untied members' own].

    >>> output_rows([Member(0), Member(0, tied=False), Member(1), Member(1, tied=False)])
    tensor([0, 4, 2, 5])
    """
    untied = [r for r, member in enumerate(members) if not member.tied]
    rows = [r if m.tied else len(members) + untied.index(r) for r, m in enumerate(members)]
    return torch.tensor(rows)
