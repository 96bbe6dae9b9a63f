"""A transformer reads pairs of residues: the same numbers as from strings, at a third of the work.

In a causal transformer the first position depends on the first symbol alone, so it takes p distinct rows
instead of one for each pair; before the first attention so does each position. The last layer answers at
the last position only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from book.transformer import Block, Transformer
from embviz.models.linear import linear


@dataclass(frozen=True)
class Place:
    """Where the rows of one position lie in an array (N, ...) of distinct rows."""

    rows: slice
    index: Tensor | None = None  # which of them belongs to each pair, (B,); None: one each, or one for all

    def of(self, x: Tensor) -> Tensor:
        """Its rows of x (N, ...), one row per pair (B, ...), or one for all of them."""
        x = x[self.rows]
        if self.index is None:
            return x
        return pick_by_product(x, self.index) if x.is_cuda else x.index_select(0, self.index)


def pick_by_product(x: Tensor, index: Tensor) -> Tensor:
    """``x[index]`` whose gradient has the same bits each time on a GPU too, where sums in any order don't."""
    chosen = (index[:, None] == torch.arange(len(x), device=x.device)).to(x.dtype)  # (B, N)
    return (chosen @ x.flatten(1)).view(-1, *x.shape[1:])


def read_pairs(model: Transformer, a: Tensor, b: Tensor) -> Tensor:
    """Logits (B, V) of the answers to pairs a (B,), b (B,): ``model.last`` of strings [a, b, "="] or [a, b].

    Residues are the symbols from 0; "=", in strings of length 3, is the last symbol.
    """
    config = model.config
    p = config.n_symbols - (config.length == 3)
    residues, sign = model.embedding[:p], model.embedding[p:]  # (p, D), (1, D) or (0, D)
    starts = [residues, residues, sign][: config.length]
    if model.position is not None:
        starts = [rows + position for rows, position in zip(starts, model.position, strict=True)]
    x = torch.cat(starts)
    places = [Place(slice(0, p), a), Place(slice(p, 2 * p), b), Place(slice(2 * p, 2 * p + 1))]
    places = places[: config.length]
    *earlier, last = cast(Iterable[Block], model.blocks)
    for block in earlier:
        x, places = read_layer(block, x, places, range(len(places)))
    x, _ = read_layer(last, x, places, [len(places) - 1])
    return linear(model.norm(x), model.head)


def read_layer(
    block: Block, x: Tensor, places: Sequence[Place], asking: Sequence[int]
) -> tuple[Tensor, list[Place]]:
    """What the positions `asking` become, and where their rows lie; x (N, D) holds all positions' rows."""
    attention = block.attention
    hidden = block.before[0](x)
    keys, values = (attention.heads(part(hidden)) for part in (attention.key, attention.value))
    seen = [(place.of(keys), place.of(values)) for place in places]  # (B, H, D / H) each
    residuals, reads, found, n = [], [], [], 0
    for position in asking:
        place = places[position]
        if position == 0:  # sees itself alone
            residual, read = x[place.rows], values[place.rows]
            found.append(Place(slice(n, n + len(read)), place.index))
        else:
            asked = attention.heads(attention.query(hidden[place.rows]))
            read = _attend(Place(slice(None), place.index).of(asked), seen[: position + 1], attention.scale)
            residual = place.of(x).expand(len(read), -1)
            found.append(Place(slice(n, n + len(read))))
        residuals.append(residual)
        reads.append(read)
        n += len(read)
    changed = torch.cat(residuals) + attention.out(torch.cat(reads).flatten(1))
    return block.mlp(block.after[0](changed)), found


def _attend(query: Tensor, seen: Sequence[tuple[Tensor, Tensor]], scale: float | None) -> Tensor:
    """What queries (B or 1, H, D / H) read of two or three keys and values (B or 1, H, D / H) each.

    Scores are multiplied by `scale`; None: by 1 / sqrt(D / H).
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.stack(torch.broadcast_tensors(*((query * key).sum(-1) for key, _ in seen)))
    weights = (scores * scale).softmax(0)[..., None]  # (positions, B, H, 1)
    read = weights[0] * seen[0][1]
    for weight, (_, value) in zip(weights[1:], seen[1:], strict=True):
        read = read + weight * value
    return read
