"""Fourier modes of a gradient along one axis: keep a few of them, or measure the spectrum of each.

Between the backward pass and the optimizer's step::

    loss.backward()
    project_gradients(model.embedding, Prescribed((30, 35, 40, 45, 48)))
    optimizer.step()

Mode k of an axis of n rows, k = 0..n//2, stands for the frequencies k and n - k together: a cosine and a
sine, but one direction alone for k = 0 and, if n is even, k = n/2.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import special
from torch import Tensor, nn

Memory = dict[str, Tensor]  # modes chosen earlier, by parameter name; stored beside the optimizer's state
Loss = Callable[[nn.Module, Any], Tensor]  # of a module and a batch: one number
ROUNDING = 1e-6  # regularities of one spectrum, transformed in float32 in another order, differ by less


class _Moment(NamedTuple):
    """When a gradient came, and where its modes are remembered."""

    step: int
    memory: Memory | None
    name: str


# --- projections ------------------------------------------------------------------------------------


class Projection(ABC):
    """An orthogonal projection of a gradient along one axis, the same at every place of the other axes."""

    adapts: ClassVar[bool] = False  # whether the gradient chooses the subspace

    @abstractmethod
    def _project(self, rows: Tensor, moment: _Moment) -> Tensor:
        """Project rows (R, n, rest) along n, each of R members by itself; ValueError if n doesn't fit."""

    def apply(
        self,
        gradient: Tensor,
        *,
        dim: int = 0,
        n_rows: int | None = None,
        stacked: bool | None = None,
        match_norm: bool = False,
        step: int = 0,
        memory: Memory | None = None,
        name: str = "gradient",
    ) -> Tensor:
        """The projected gradient: a new tensor of the same shape and type.

        Parameters
        ----------
        gradient : Tensor of any shape
            Half precision is computed in float32.
        dim : int
            The axis.
        n_rows : int, optional
            The task's axis is rows 0..n_rows - 1, and rows after it stay as they are: p for an embedding of
            p + 1 rows whose last is "=". By default all rows.
        stacked : bool, optional
            Whether axis 0 holds members side by side, as (R, V, D) with `dim` 1: each chooses its own modes,
            and keeps its own norm. Needs saying only where that matters and `dim` isn't 0.
        match_norm : bool
            Rescale what is kept to the norm of the full gradient: a control for plain gradient descent.
            Adam's steps hardly depend on a gradient's scale.
        step, memory, name
            For ``Adaptive(k, every)`` with `every` above 1: the update's number, counted from 0; the
            dictionary that remembers the modes; the key in it.

        Raises
        ------
        ValueError
            If the projection doesn't fit the axis, or what `stacked` means matters and isn't said.
        """
        if stacked is None and dim % max(gradient.ndim, 1) and (self.adapts or match_norm):
            raise ValueError(
                f"shape {tuple(gradient.shape)}, dim {dim}: say stacked=True if axis 0 holds members, each "
                "with its own modes and norm, stacked=False if all is one tensor"
            )
        projected = gradient.clone()
        rows = _rows(projected, dim, n_rows, bool(stacked))
        full = _flat(rows)
        kept = self._project(full, _Moment(step, memory, name))
        if match_norm:
            kept = kept * _stretch(full, kept)
        rows.copy_(kept.reshape(rows.shape))
        return projected


@dataclass(frozen=True)
class Prescribed(Projection):
    """Keep these modes, each in 0..n//2 (PFFT: geometry paper, section 2.2, eq. 2).

    >>> Prescribed((1,)).apply(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([ 0.5000,  0.0000, -0.5000,  0.0000])
    """

    modes: tuple[int, ...]

    def __post_init__(self) -> None:
        modes = tuple(operator.index(mode) for mode in self.modes)
        if not modes or len(set(modes)) < len(modes):
            raise ValueError(
                f"modes = {modes}: name at least one, each once. Without any the tensor would learn nothing; "
                "for a baseline leave the projection out"
            )
        object.__setattr__(self, "modes", modes)

    def n_directions(self, n: int) -> int:
        """Dimensions kept of an axis of `n` rows: the size of a :class:`RandomSubspace` to compare with."""
        if outside := [mode for mode in self.modes if not 0 <= mode <= n // 2]:
            raise ValueError(
                f"modes {outside} lie outside 0..{n // 2}, all that an axis of {n} rows has: choose others, "
                "or check dim and n_rows"
            )
        return sum(1 if 2 * mode in (0, n) else 2 for mode in self.modes)

    def _project(self, rows: Tensor, moment: _Moment) -> Tensor:
        self.n_directions(rows.shape[1])  # refuses modes outside
        return _keep_modes(rows, torch.tensor([self.modes], device=rows.device))


@dataclass(frozen=True)
class Adaptive(Projection):
    """Keep the gradient's own `k` strongest modes, mode 0 among them if it is (FGP: section 2.2).

    They are chosen at steps 0, every, 2 every ... and kept in between. Of equal ones the lower comes first.
    """

    k: int
    every: int = 1  # steps; above 1 it needs a memory
    adapts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.k < 1 or self.every < 1:
            raise ValueError(f"k and every must be at least 1: {self}")

    def _project(self, rows: Tensor, moment: _Moment) -> Tensor:
        if self.k > rows.shape[1] // 2 + 1:
            raise ValueError(f"an axis of {rows.shape[1]} rows is too short for {self.k} modes")
        if self.every == 1:
            return _keep_modes(rows, self._strongest(rows))
        step, memory, name = moment
        if memory is None:
            raise ValueError(
                f"{self} remembers modes between its choices: give memory={{}}, the same each step"
            )
        if step % self.every == 0:
            memory[name] = self._strongest(rows)
        elif name not in memory or memory[name].shape != (len(rows), self.k):
            raise ValueError(
                f"no {self.k} modes are remembered for {name!r} at step {step}: count steps from 0, and "
                "resume a run with the memory stored beside it"
            )
        return _keep_modes(rows, memory[name].to(rows.device))

    def _strongest(self, rows: Tensor) -> Tensor:
        return _power(rows).argsort(dim=1, descending=True, stable=True)[:, : self.k]


@dataclass(frozen=True)
class RandomSubspace(Projection):
    """Keep a fixed random subspace of `size` dimensions: a control without Fourier modes."""

    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a subspace needs at least one dimension: {self}")

    def _project(self, rows: Tensor, moment: _Moment) -> Tensor:
        if self.size > rows.shape[1]:
            raise ValueError(f"an axis of {rows.shape[1]} rows is too short for {self.size} dimensions")
        basis = _orthonormal(rows.shape[1], self.size, self.seed).to(rows)  # (n, size)
        return basis @ (basis.mT @ rows)


@dataclass(frozen=True)
class Shuffled(Projection):
    """The same projection as if the rows stood in a fixed random order: a control without their own order."""

    projection: Projection
    seed: int

    @property
    def adapts(self) -> bool:  # type: ignore[override]
        return self.projection.adapts

    def _project(self, rows: Tensor, moment: _Moment) -> Tensor:
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(rows.shape[1])).to(rows.device)
        return self.projection._project(rows[:, order], moment)[:, order.argsort()]


def _rows(tensor: Tensor, dim: int, n_rows: int | None, stacked: bool) -> Tensor:
    """A view of the axis, (R, n, ...); R is 1 if axis 0 holds no members."""
    if tensor.layout != torch.strided or not tensor.is_floating_point() or tensor.numel() == 0:
        raise ValueError(
            f"{tensor.layout} {tensor.dtype} of shape {tuple(tensor.shape)}: a dense, real tensor with "
            "elements is needed (an nn.Embedding with sparse=False)"
        )
    if not -tensor.ndim <= dim < tensor.ndim or (stacked and dim % tensor.ndim == 0):
        taken = ", whose axis 0 holds the members" if stacked else ""
        raise ValueError(f"dim {dim} is not an axis to take of shape {tuple(tensor.shape)}{taken}")
    rows = tensor.movedim(dim, 1) if stacked else tensor.movedim(dim, 0)[None]
    n = rows.shape[1] if n_rows is None else n_rows
    if not 2 <= n <= rows.shape[1]:
        raise ValueError(f"{n} rows along dim {dim} of {tuple(tensor.shape)}: take 2 to {rows.shape[1]}")
    return rows[:, :n]


def _flat(rows: Tensor) -> Tensor:
    """Rows (R, n, ...) as (R, n, rest), in float32 at least."""
    return rows.to(torch.promote_types(rows.dtype, torch.float32)).reshape(*rows.shape[:2], -1)


def _power(rows: Tensor) -> Tensor:
    """Power of each mode, (R, n//2 + 1), of rows (R, n, rest)."""
    return torch.fft.rfft(rows, dim=1).abs().square().sum(2)


def _keep_modes(rows: Tensor, modes: Tensor) -> Tensor:
    """Rows (R, n, rest) without modes other than `modes`, (R, k) or (1, k)."""
    spectrum = torch.fft.rfft(rows, dim=1)
    mask = spectrum.real.new_zeros(len(modes), spectrum.shape[1]).scatter_(1, modes, 1.0)
    return torch.fft.irfft(spectrum * mask[:, :, None], n=rows.shape[1], dim=1)


def _stretch(full: Tensor, kept: Tensor) -> Tensor:
    """Factor (R, 1, 1) that gives `kept` the norm of `full`; 0 if it holds rounding errors alone."""
    wanted, present = (torch.linalg.vector_norm(rows, dim=(1, 2), keepdim=True) for rows in (full, kept))
    rounding = 32 * torch.finfo(full.dtype).eps * wanted  # some times the error of a transform
    return torch.where(present <= rounding, 0.0, wanted / present)


@functools.lru_cache(maxsize=8)
def _orthonormal(n: int, size: int, seed: int) -> Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).standard_normal((n, size))).Q)


# --- around the backward pass -----------------------------------------------------------------------


def project_gradients(
    parameters: nn.Module | Tensor | Iterable[Tensor],
    projection: Projection,
    *,
    dim: int = 0,
    n_rows: int | None = None,
    stacked: bool | None = None,
    match_norm: bool = False,
    step: int = 0,
    memory: Memory | None = None,
) -> None:
    """Project gradients in place: after ``loss.backward()``, before the optimizer's step.

    Plain gradient descent then moves in the subspace alone. Adam doesn't: it divides each coordinate by its
    own size, so that its steps leave the subspace in part and are as long as without a projection.

    Parameters
    ----------
    parameters : module, parameter, or several
        A module stands for all its parameters that aren't frozen. A tied tensor is projected once.
    projection, dim, n_rows, stacked, match_norm, step, memory
        As in :meth:`Projection.apply`; in `memory` a name is a module's, or the parameter's place.

    Raises
    ------
    ValueError
        If there is no parameter, or one has no gradient (names them), or doesn't fit: then none is changed.
    """
    named = _named(parameters)
    gradients = {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None}
    if missing := sorted(named.keys() - gradients.keys()):
        raise ValueError(
            f"no gradient in {', '.join(missing)}: project after loss.backward() and before zero_grad(), and "
            "leave out what the loss doesn't reach"
        )
    project = functools.partial(
        projection.apply, dim=dim, n_rows=n_rows, stacked=stacked, match_norm=match_norm, step=step
    )
    projected = [project(gradient, memory=memory, name=name) for name, gradient in gradients.items()]
    for gradient, kept in zip(gradients.values(), projected, strict=True):
        gradient.copy_(kept)


def _named(parameters: nn.Module | Tensor | Iterable[Tensor]) -> dict[str, Tensor]:
    """Parameters by name, or by place; each tensor once."""
    named: dict[str, Tensor]
    if isinstance(parameters, nn.Module):
        named = {name: tensor for name, tensor in parameters.named_parameters() if tensor.requires_grad}
    else:
        several = [parameters] if isinstance(parameters, Tensor) else parameters
        distinct = {id(tensor): tensor for tensor in several}.values()
        named = {str(place): tensor for place, tensor in enumerate(distinct)}
    if not named:
        raise ValueError("no trainable parameter was given: there is no gradient to project or measure")
    return named


@dataclass(eq=False)
class Attachment:
    """A projection that hangs on a parameter; a resumed run sets `step` and `memory` to what they were."""

    remove: Callable[[], None] = field(repr=False)  # lets gradients through whole again
    step: int = 0  # backward passes so far
    memory: Memory = field(default_factory=dict)


def attach(
    parameter: Tensor,
    projection: Projection,
    *,
    dim: int = 0,
    n_rows: int | None = None,
    stacked: bool | None = None,
    match_norm: bool = False,
) -> Attachment:
    """Project a parameter's gradient in each backward pass from now on: for training loops of others.

    A shared parameter is projected once, the sum over its uses. Where gradients of several passes add up to
    one update and the projection adapts or matches norms, use :func:`project_gradients` on the sum.

    Parameters
    ----------
    parameter : Tensor that requires a gradient
    projection, dim, n_rows, stacked, match_norm
        As in :meth:`Projection.apply`. What doesn't fit is refused at once, not in the backward pass.

    Returns
    -------
    Attachment, with ``remove()``
    """
    if not parameter.requires_grad:
        raise ValueError("the parameter requires no gradient: there is nothing to project")
    project = functools.partial(
        projection.apply, dim=dim, n_rows=n_rows, stacked=stacked, match_norm=match_norm
    )
    project(torch.zeros_like(parameter), memory={})

    def hook(gradient: Tensor) -> Tensor:
        attachment.step += 1
        return project(gradient, step=attachment.step - 1, memory=attachment.memory)

    attachment = Attachment(parameter.register_hook(hook).remove)
    return attachment


# --- the Sounding Hammer ----------------------------------------------------------------------------


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


def power_spectrum(
    tensor: Tensor, *, dim: int = 0, n_rows: int | None = None, stacked: bool = False
) -> np.ndarray:
    """P(k), the squared norm of mode k of the rfft along an axis, over all other axes.

    Parameters
    ----------
    tensor, dim, n_rows, stacked
        As in :meth:`Projection.apply`; a weight or a gradient.

    Returns
    -------
    array, shape (n//2 + 1,), or (R, n//2 + 1) of stacked members
    """
    power = _power(_flat(_rows(tensor.detach(), dim, n_rows, stacked))).cpu().numpy()
    return power if stacked else power[0]


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
    tensor, dim, n_rows
        As in :meth:`Projection.apply`.
    top : int
        K, the modes that count as few.
    n_permutations : int
        Random orders of the rows; each costs as much as the spectrum.
    seed : int
        Of the orders.

    Raises
    ------
    ValueError
        If the axis has no more than `top` modes, or the tensor is zero or not finite.

    Source
    ------
    Geometry paper, section 3.1, eq. 3; of the baselines it has `flat` alone.
    """
    rows = _flat(_rows(tensor.detach(), dim, n_rows, False))  # (1, n, rest)
    n, width = rows.shape[1:]
    bins = n // 2 + 1
    if not 1 <= top < bins or n_permutations < 2:
        raise ValueError(
            f"top = {top}, n_permutations = {n_permutations}: an axis of {n} rows has {bins} modes, of which "
            "fewer than all count as few; at least two permutations are needed"
        )
    power = power_spectrum(rows[0]).astype(float)
    if not 0 < power.sum() < math.inf:
        raise ValueError(
            f"the tensor of shape {tuple(tensor.shape)} is zero or not finite: it has no spectrum"
        )
    rng = np.random.default_rng(seed)
    orders = (torch.from_numpy(rng.permutation(n)).to(rows.device) for _ in range(n_permutations))
    permuted = [_top_share(power_spectrum(rows[0, order]), top) for order in orders]
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
    threshold = special.gammainccinv(width, top / bins)
    return float(special.gammaincc(width + 1, threshold))


def strike(
    module: nn.Module,
    loss: Loss,
    batches: Iterable[Any],
    *,
    tensors: Sequence[str] | None = None,
    dim: int = 0,
    n_rows: int | Mapping[str, int] | None = None,
    top: int = 16,
    n_permutations: int = 200,
    seed: int = 0,
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
    dim, n_rows, top, n_permutations, seed
        As in :func:`sound`, for each tensor alike; `n_rows` also by name, such as the positions that the
        batches reach.

    Returns
    -------
    dict of str to Sounding

    Raises
    ------
    ValueError
        If a name is unknown, the loss reaches no tensor, or not one that was named, or there is no batch.
    """
    rows = n_rows if isinstance(n_rows, Mapping) else dict.fromkeys(_named(module), n_rows)
    struck = _struck(module, tensors, dim, rows, top)
    means = _mean_gradients(module, loss, batches, list(struck.values()))
    silent = [name for name, mean in zip(struck, means, strict=True) if not mean.any()]
    if silent and (tensors is not None or len(silent) == len(struck)):
        raise ValueError(f"the loss gives no gradient to {', '.join(silent)}: leave out what it misses")
    return {
        name: sound(mean, dim=dim, n_rows=rows.get(name), top=top, n_permutations=n_permutations, seed=seed)
        for name, mean in zip(struck, means, strict=True)
        if name not in silent
    }


def _struck(
    module: nn.Module, tensors: Sequence[str] | None, dim: int, rows: Mapping[str, int | None], top: int
) -> dict[str, Tensor]:
    """Parameters to measure; a tied one once, under the first of its names that was asked for."""
    chosen = {
        name: tensor
        for name, tensor in _named(module).items()
        if -tensor.ndim <= dim < tensor.ndim > 1 and (rows.get(name) or tensor.shape[dim]) // 2 + 1 > top
    }
    if tensors is not None:
        every = {name: t for name, t in module.named_parameters(remove_duplicate=False) if t.requires_grad}
        if unknown := [name for name in tensors if name not in every]:
            raise ValueError(
                f"no trainable parameter is called {', '.join(unknown)}; there are {list(every)}"
            )
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
