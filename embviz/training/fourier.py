"""The Sounding Hammer: Fourier modes of a gradient along one axis, with permuted rows as a control.

Mode k of an axis of n rows, k = 0..n//2, stands for the frequencies k and n - k together: a cosine and a
sine, but one direction alone for k = 0 and, if n is even, k = n/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import special
from torch import Tensor, nn

Loss = Callable[[nn.Module, Any], Tensor]  # of a module and a batch: one number
ROUNDING = 1e-6  # regularities of one spectrum, transformed in float32 in another order, differ by less


@dataclass(frozen=True, eq=False)
class Sounding:
    """How a tensor rings along an axis, and how much of its power lies in its few strongest modes.

    :attr:`regularity` has three baselines, each usually above the one before. `flat` is the few modes' share
    of all. `noise` is what white noise gives: the strongest are picked after looking, and sums of few squares
    differ by chance. `permuted` is what the same rows give in random orders: columns that move together
    and a common mean (mode 0, which no order changes) concentrate power too.
    """

    power: np.ndarray  # (n//2 + 1,), as power_spectrum
    top: int  # modes that count as few
    flat: float
    noise: float
    permuted: np.ndarray  # (n_permutations,)

    @property
    def modes(self) -> np.ndarray:
        """All modes, the strongest first; of equal ones the lower first."""
        return np.argsort(-self.power, kind="stable")

    @property
    def regularity(self) -> float:
        """rho: the share of all power in the `top` strongest modes."""
        return _top_share(self.power, self.top)

    @property
    def z(self) -> float:
        """Regularity above the mean of permuted rows, in their standard deviations."""
        above, spread = self.regularity - self.permuted.mean(), self.permuted.std(ddof=1)
        if max(abs(above), spread) < ROUNDING:
            return 0.0
        return float(above / spread) if spread > 0 else math.copysign(math.inf, above)

    @property
    def p(self) -> float:
        """Share of orders, the given one among them, that are at least as regular."""
        return float((1 + (self.permuted > self.regularity - ROUNDING).sum()) / (1 + len(self.permuted)))


def power_spectrum(tensor: Tensor) -> np.ndarray:
    """P(k), shape (n//2 + 1,): the squared norm of mode k of the rfft along axis 0, over all other axes."""
    rows = tensor.detach().reshape(len(tensor), -1)
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    return torch.fft.rfft(rows, dim=0).abs().square().sum(1).cpu().numpy()


def sound(
    tensor: Tensor,
    *,
    dim: int = 0,
    n_rows: int | None = None,
    top: int = 16,
    n_permutations: int = 200,
    seed: int = 0,
) -> Sounding:
    """Spectrum of one tensor, such as a mean gradient, and its regularity, with permuted rows as a control.

    Parameters
    ----------
    tensor : Tensor of any shape
        A weight or a gradient; half precision is computed in float32.
    dim : int
        The axis.
    n_rows : int, optional
        Take rows 0..n_rows - 1 alone: p for an embedding of p + 1 rows whose last is "=".
    top : int
        K, the modes that count as few.
    n_permutations : int
        Random orders of the rows; each costs as much as the spectrum.
    seed : int
        Of the orders.

    Source
    ------
    Geometry paper, section 3.1, eq. 3; of the baselines it has `flat` alone.
    """
    rows = tensor.detach().movedim(dim, 0)[:n_rows]
    rows = rows.reshape(len(rows), -1)  # (n, rest)
    n, width = rows.shape
    bins = n // 2 + 1
    if not 1 <= top < bins or n_permutations < 2:
        raise ValueError(
            f"top = {top}, n_permutations = {n_permutations}: an axis of {n} rows has {bins} modes, of which "
            "fewer than all count as few; at least two permutations are needed"
        )
    power = power_spectrum(rows).astype(float)
    if not 0 < power.sum() < math.inf:
        raise ValueError(
            f"the tensor of shape {tuple(tensor.shape)} is zero or not finite: it has no spectrum"
        )
    rng = np.random.default_rng(seed)
    orders = (torch.from_numpy(rng.permutation(n)).to(rows.device) for _ in range(n_permutations))
    permuted = [_top_share(power_spectrum(rows[order]), top) for order in orders]
    return Sounding(power, top, top / bins, noise_share(bins, width, top), np.array(permuted))


def _top_share(power: np.ndarray, top: int) -> float:
    return float(np.sort(power)[-top:].sum(dtype=float) / power.sum(dtype=float))


def noise_share(bins: int, width: int, top: int) -> float:
    """Share of all power in the `top` strongest modes of white noise: an order statistic, above top / bins.

    Parameters
    ----------
    bins : int
        Modes, taken as many: the strongest are those above a quantile.
    width : int
        Columns: a mode's power is a sum of so many exponentials.
    top : int
    """
    # a mode's power P is Gamma(width): above its quantile t lies the share E[P; P > t] / E[P] of all power;
    # x times the density of Gamma(width) is width times that of Gamma(width + 1)
    threshold = special.gammainccinv(width, top / bins)
    return float(special.gammaincc(width + 1, threshold))


def strike(
    module: nn.Module,
    loss: Loss,
    batches: Iterable[Any],
    *,
    tensors: Sequence[str] | None = None,
    dim: int = 0,
    top: int = 16,
    n_permutations: int = 200,
) -> dict[str, Sounding]:
    """Sounding Hammer: which modes of a module's parameters does the loss push, before any is trained?

    Parameters
    ----------
    module : nn.Module
        Used in the mode it is in (``eval()`` for no dropout); its gradients stay as they are.
    loss : function of the module and a batch, one number
    batches : iterable
        Their gradients are averaged with equal weights.
    tensors : sequence of str, optional
        Parameter names, any of a tied tensor's. By default every learning parameter that has two axes or
        more, more than `top` modes along `dim`, and a gradient.
    dim, top, n_permutations
        As in :func:`sound`, for each tensor alike.

    Returns
    -------
    dict of str to Sounding
    """
    struck = _struck(module, tensors, dim, top)
    means = _mean_gradients(module, loss, batches, list(struck.values()))
    silent = [name for name, mean in zip(struck, means, strict=True) if not mean.any()]
    if silent and (tensors is not None or len(silent) == len(struck)):
        raise ValueError(f"the loss gives no gradient to {', '.join(silent)}: leave out what it misses")
    return {
        name: sound(mean, dim=dim, top=top, n_permutations=n_permutations)
        for name, mean in zip(struck, means, strict=True)
        if name not in silent
    }


def _struck(module: nn.Module, tensors: Sequence[str] | None, dim: int, top: int) -> dict[str, Tensor]:
    """Parameters to measure; a tied one once, under the first of its names that was asked for."""
    chosen: dict[str, Tensor] = {
        name: tensor
        for name, tensor in module.named_parameters()
        if tensor.requires_grad and -tensor.ndim <= dim < tensor.ndim > 1 and tensor.shape[dim] // 2 + 1 > top
    }
    if tensors is not None:
        every = {name: t for name, t in module.named_parameters(remove_duplicate=False) if t.requires_grad}
        chosen = {}
        for name in tensors:
            if all(every[name] is not tensor for tensor in chosen.values()):
                chosen[name] = every[name]
    if not chosen:
        raise ValueError(f"no parameter has over {top} modes along dim {dim}: name tensors, or lower top")
    return chosen


def _mean_gradients(
    module: nn.Module, loss: Loss, batches: Iterable[Any], tensors: Sequence[Tensor]
) -> list[Tensor]:
    sums = [torch.zeros_like(t, dtype=torch.promote_types(t.dtype, torch.float32)) for t in tensors]
    n_batches = 0
    for batch in batches:
        value = loss(module, batch)
        if value.numel() != 1 or not value.requires_grad:
            raise ValueError(
                f"the loss must be one number that depends on parameters: it has shape {tuple(value.shape)}, "
                f"requires_grad {value.requires_grad}"
            )
        gradients = torch.autograd.grad(value.sum(), tensors, allow_unused=True)
        for total, gradient in zip(sums, gradients, strict=True):
            if gradient is not None:
                total += gradient
        n_batches += 1
    if n_batches == 0:
        raise ValueError("there is no batch: an iterator may have been used up")
    return [total / n_batches for total in sums]


def tabulate(soundings: Mapping[str, Sounding]) -> pd.DataFrame:
    """One row a tensor: regularity with its baselines (`permuted` their mean), and the `top` modes."""
    return pd.DataFrame(
        {
            "tensor": name,
            "regularity": one.regularity,
            "flat": one.flat,
            "noise": one.noise,
            "permuted": one.permuted.mean(),
            "z": one.z,
            "p": one.p,
            "modes": " ".join(map(str, one.modes[: one.top])),
        }
        for name, one in soundings.items()
    )
