"""Sketches: random projections that keep distances."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from embviz.runs.tensors import find_ties

Projection = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sketch:
    """A random projection to `size` numbers that keeps distances: a function of its seed, name and shape.

    Chunks of `size` weights are given random signs, turned around by a random number of places each, and
    added up. So every weight counts once, and two of them meet in one number with probability 1 / size at
    most: the squared length comes out right on average, with a relative variance of 2 / size at most, and
    a distance is off by about 1 / sqrt(2 size). Measured on one core: 0.7 ns a weight, where a dense
    Gaussian matrix takes 33, and a subsampled Hadamard transform 9 (tests/bench/bench_runs.py).

    >>> Sketch(size=4).projection("embedding", (10, 3))(torch.ones(10, 3)).shape
    torch.Size([4])

    Source
    ------
    M. Charikar, K. Chen and M. Farach-Colton (2002), with the buckets of a chunk chosen together.
    """

    size: int = 256  # numbers that stand for a tensor; a smaller tensor stays as it is
    seed: int = 0
    full: bool = True  # store snapshots 1, 2, 4, 5, 16, 17, 64, ... in full too, to measure the error on them

    def projection(self, name: str, shape: Sequence[int], device: torch.device | str = "cpu") -> Projection:
        """The map from a tensor of that name and shape, on `device`, to (size,); linear.

        It keeps 5 bytes a weight in memory. Half precision is computed in float32. A tensor of no more than
        `size` numbers is flattened only.
        """
        n = math.prod(shape)
        if n <= self.size:
            return _flat
        # raw bits of PCG64, which no later numpy draws otherwise: a sign a weight, and a turn a chunk
        key = json.dumps([self.seed, self.size, name, list(shape)]).encode()
        bits = np.random.PCG64(np.random.SeedSequence(int.from_bytes(hashlib.sha256(key).digest())))
        raw = bits.random_raw(-(-n // 64)).astype("<u8").view(np.uint8)
        signs = 2 * np.unpackbits(raw, count=n, bitorder="little").astype(np.int8) - 1
        turns = bits.random_raw(-(-n // self.size)) % np.uint64(self.size)
        # each number takes one weight of every chunk, so that the map is a gather and a sum over chunks: one
        # pass over the weights, without the collisions that adding them up in place would have
        width: type = np.int32 if n + self.size < 2**31 else np.int64  # of places, the last chunk's included
        chunks: np.ndarray = np.arange(0, n, self.size, dtype=width)[:, None]
        places: np.ndarray = np.arange(self.size, dtype=width) - turns.astype(width)[:, None]
        places %= width(self.size)
        places += chunks
        short = places >= n  # the last chunk may be
        np.minimum(places, width(n - 1), out=places)
        signs = signs[places]
        signs[short] = 0
        index = torch.from_numpy(places.ravel()).to(device)
        sign = torch.from_numpy(signs.ravel()).to(device)

        def project(tensor: Tensor) -> Tensor:
            signed = _flat(tensor).index_select(0, index).mul_(sign)
            return signed.view(-1, self.size).sum(0)

        return project


def _flat(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    return flat if flat.dtype == torch.float64 else flat.float()


def run_bytes(
    weights: Mapping[str, Tensor] | nn.Module, n_snapshots: int, *, sketch: int | Sketch | None = None
) -> int:
    """Bytes of the weights that a run of so many snapshots stores, before it begins.

    Parameters
    ----------
    weights, sketch
        As of :meth:`embviz.runs.Run.append` and :meth:`embviz.runs.Run.open`.
    n_snapshots : int

    Examples
    --------
    >>> weights = {"embedding": torch.ones(1000, 100)}
    >>> [run_bytes(weights, 100, sketch=sketch) for sketch in (None, 256, Sketch(256, full=False))]
    [40000000, 3302400, 102400]
    """
    tensors = weights.state_dict() if isinstance(weights, nn.Module) else weights
    unique = {tensors[name] for name in find_ties(tensors).values()}
    whole = sum(tensor.nbytes for tensor in unique)
    if sketch is None:
        return n_snapshots * whole
    sketch = Sketch(sketch) if isinstance(sketch, int) else sketch
    # of floating numbers so many are kept, in 32 bits or more; all of the others
    row = sum(
        min(t.numel(), sketch.size) * max(4, t.element_size()) if t.is_floating_point() else t.nbytes
        for t in unique
    )
    return n_snapshots * row + whole * sum(sketch.full and is_reference(n + 1) for n in range(n_snapshots))


def is_reference(number: int) -> bool:
    """Whether snapshot `number`, from 1, is stored in full too: 1, 2, 4, 5, 16, 17, 64, 65, ...

    A few in a run of any length, some far apart and some adjacent, and none that a longer run would drop.
    """
    return any(n > 0 and n & (n - 1) == 0 and n.bit_length() % 2 for n in (number, number - 1))
