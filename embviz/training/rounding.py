"""Training that comes out the same on every processor, by rounding what would be amplified."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn


def round_training(model: nn.Module, *, decimals: int = 8) -> Callable[[int], None]:
    """Make a small model's training independent of the processor; the way it takes stays a usual one.

    Two processors differ in the last digit of a sum, and training amplifies that: after some hundred steps
    two runs of one seed may be different models. Here the model goes into double precision, its first
    weights are rounded to 256 steps up to their tensor's largest (a normal deviate differs in its seventh
    digit), and every gradient is rounded before the update, so that differences in later digits are
    forgotten at each step.

    Parameters
    ----------
    model : nn.Module
        Changed in place; its losses must be computed in double precision on a CPU.
    decimals : int, default 8
        Kept of the gradients. A difference of 1e-16 then has one chance in 10^8 to be kept, a number.

    Returns
    -------
    function of the step, for ``train(..., after_backward=...)``
        It raises TypeError where a gradient is no longer in double precision.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> after_backward = round_training(model, decimals=2)
    >>> model(torch.tensor([[1.0, 1 / 3]], dtype=torch.float64)).sum().backward()
    >>> after_backward(0)
    >>> model.weight.grad
    tensor([[1.0000, 0.3300]], dtype=torch.float64)
    """
    model.double()
    with torch.no_grad():
        for weight in model.parameters():
            largest = float(weight.abs().max()) if weight.numel() else 0.0
            if largest > 0:
                step = 2.0 ** (math.ceil(math.log2(largest)) - 8)
                weight.copy_((weight / step).round() * step)

    def after_backward(step: int) -> None:
        for name, weight in model.named_parameters():
            if weight.dtype != torch.float64:
                raise TypeError(
                    f"{name} is {weight.dtype} at step {step}: keep the model in double precision"
                )
            if weight.grad is not None:
                weight.grad.copy_(weight.grad.round(decimals=decimals))

    return after_backward
