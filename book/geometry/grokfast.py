"""GrokFast: strengthen what stays in the gradients from step to step, of all parameters, before the update.

Source: Lee, Kang, Kim & Lee (2024), "Grokfast: accelerated grokking by amplifying slow gradients", the
algorithm with an exponential average.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

DECAY, GAIN = 0.98, 2.0  # of the average, and how much of it is added: the authors' for modular arithmetic


@torch.no_grad()
def amplify_slow_gradients(
    parameters: Mapping[str, Tensor], memory: dict[str, Tensor], *, decay: float = DECAY, gain: float = GAIN
) -> None:
    """Add to each gradient, in place, `gain` times its running average: after ``loss.backward()``.

    Parameters
    ----------
    parameters : mapping of str to Tensor
        Such as ``dict(model.named_parameters())``; those without a gradient are left out.
    memory : dict
        Of the averages by name; empty before the first step, the same dictionary at each.
    decay : float in [0, 1)
    gain : float, 0 or more

    Raises
    ------
    ValueError
        If `decay` or `gain` lies outside, or an average has another shape than its gradient.

    >>> weight = torch.zeros(1, requires_grad=True); weight.grad = torch.ones(1); memory = {}
    >>> amplify_slow_gradients({"weight": weight}, memory, decay=0.5, gain=2.0); weight.grad
    tensor([3.])
    """
    if not (0 <= decay < 1 and gain >= 0):
        raise ValueError(f"decay must lie in [0, 1) and gain be 0 or more, got {decay} and {gain}")
    for name, parameter in parameters.items():
        if (gradient := parameter.grad) is None:
            continue
        if name not in memory:
            memory[name] = gradient.clone()  # the authors' average starts at the first gradient
        elif memory[name].shape != gradient.shape:
            raise ValueError(
                f"the average of {name!r} has shape {tuple(memory[name].shape)}, its gradient "
                f"{tuple(gradient.shape)}: give each model another memory"
            )
        else:
            memory[name].lerp_(gradient, 1 - decay)
        gradient.add_(memory[name], alpha=gain)
