"""Training that comes out the same on every processor, by rounding what would be amplified."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn


def round_training(model: nn.Module) -> Callable[[int], None]:
    """Make a small model's training independent of the processor; returns ``train(after_backward=...)``.

    Two processors differ in the last digit of a sum, and training amplifies that: after some hundred steps
    two runs of one seed may be different models. Here the model goes into double precision, its first
    weights are rounded to 256 steps up to their tensor's largest (a normal deviate differs in its seventh
    digit), and every gradient is rounded before the update. A difference of 1e-16 then has one chance in
    10^8 to be kept, a number.

    >>> model = nn.Linear(2, 1)
    >>> after_backward = round_training(model)
    >>> model(torch.tensor([[1.0, 1 / 3]], dtype=torch.float64)).sum().backward()
    >>> after_backward(0)
    >>> model.weight.grad[0].tolist()
    [1.0, 0.33333333]
    """
    model.double()
    with torch.no_grad():
        for weight in model.parameters():
            if largest := float(weight.abs().max()):
                step = 2.0 ** (math.ceil(math.log2(largest)) - 8)
                weight.copy_((weight / step).round() * step)

    def after_backward(step: int) -> None:
        for weight in model.parameters():
            if weight.grad is not None:
                weight.grad.copy_(weight.grad.round(decimals=8))

    return after_backward
