"""Gradients projected along their rows on Fourier modes, and controls without them.

Between the backward pass and the optimizer's step ``weight.grad = Prescribed((30, 35)).apply(weight.grad)``,
or in every backward pass ``weight.register_hook(Prescribed((30, 35)).apply)``. Plain gradient descent then
moves in the subspace alone. Adam doesn't: it divides each coordinate by its own size, so that its steps leave
the subspace in part and are as long as without a projection.

Mode k of n rows, k = 0..n//2, stands for the frequencies k and n - k together: a cosine and a sine, but one
direction alone for k = 0 and, if n is even, k = n/2.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


class GradientProjection(ABC):
    """An orthogonal projection along the rows of a gradient."""

    @abstractmethod
    def apply(self, gradient: Tensor) -> Tensor:
        """The projected gradient (n, D), a new tensor."""


@dataclass(frozen=True)
class Prescribed(GradientProjection):
    """Keep these modes, each in 0..n//2 (PFFT: geometry paper, section 2.2, eq. 2).

    >>> Prescribed((1,)).apply(torch.tensor([[1.0], [0.0], [0.0], [0.0]])).flatten().tolist()
    [0.5, 0.0, -0.5, 0.0]
    """

    modes: Sequence[int]

    def n_directions(self, n: int) -> int:
        """Dimensions kept of `n` rows: the size of a :class:`RandomSubspace` to compare with."""
        if outside := [mode for mode in self.modes if not 0 <= mode <= n // 2]:
            raise ValueError(f"modes {outside} lie outside 0..{n // 2}, all that {n} rows have")
        return sum(1 if 2 * mode in (0, n) else 2 for mode in self.modes)

    def apply(self, gradient: Tensor) -> Tensor:
        self.n_directions(len(gradient))  # refuses modes outside
        return _keep_modes(gradient, torch.tensor(self.modes))


@dataclass
class Adaptive(GradientProjection):
    """Keep the gradient's own `k` strongest modes, mode 0 among them if it is (FGP: section 2.2).

    They are chosen in the first call and every `every` calls, and kept in between. Of equal ones the lower
    comes first.
    """

    k: int
    every: int = 1
    chosen: Tensor | None = field(default=None, init=False, repr=False, compare=False)  # modes, (k,)
    n_calls: int = field(default=0, init=False, repr=False, compare=False)

    def apply(self, gradient: Tensor) -> Tensor:
        if self.chosen is None or self.n_calls % self.every == 0:
            power = torch.fft.rfft(gradient, dim=0).abs().square().sum(1)
            self.chosen = power.argsort(descending=True, stable=True)[: self.k]
        self.n_calls += 1
        return _keep_modes(gradient, self.chosen)


@dataclass(frozen=True)
class RandomSubspace(GradientProjection):
    """Keep a fixed random subspace of `size` dimensions: a control without Fourier modes."""

    size: int
    seed: int

    def apply(self, gradient: Tensor) -> Tensor:
        basis = _orthonormal(len(gradient), self.size, self.seed).to(gradient)  # (n, size)
        return basis @ (basis.mT @ gradient)


@dataclass(frozen=True)
class Shuffled(GradientProjection):
    """The same projection as if the rows stood in a fixed random order: a control without their own order."""

    projection: GradientProjection
    seed: int

    def apply(self, gradient: Tensor) -> Tensor:
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(len(gradient)))
        return self.projection.apply(gradient[order])[order.argsort()]


def stretched(kept: Tensor, full: Tensor) -> Tensor:
    """A projected gradient at the norm of the full one, a control for plain gradient descent.

    It stays 0 where it holds rounding errors alone: some times the error of a transform.
    """
    wanted, present = torch.linalg.vector_norm(full), torch.linalg.vector_norm(kept)
    rounding = 32 * torch.finfo(full.dtype).eps * wanted
    return kept * torch.where(present <= rounding, 0.0, wanted / present)


def _keep_modes(gradient: Tensor, modes: Tensor) -> Tensor:
    """Rows (n, D) without modes other than `modes`, (k,)."""
    spectrum = torch.fft.rfft(gradient, dim=0)
    mask = spectrum.real.new_zeros(len(spectrum), 1)
    mask[modes.to(mask.device)] = 1.0
    return torch.fft.irfft(spectrum * mask, n=len(gradient), dim=0)


@functools.lru_cache(maxsize=8)
def _orthonormal(n: int, size: int, seed: int) -> Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).standard_normal((n, size))).Q)
