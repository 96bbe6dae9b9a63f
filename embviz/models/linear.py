"""x W^T with the fastest float32 product that PyTorch has for this processor."""

from __future__ import annotations

import platform
from typing import Any

import torch
from torch import Tensor, nn


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As ``torch.nn.functional.linear``: x (..., I), weight (O, I), bias (O,) to (..., O).

    In float32 on x86 the product is oneDNN's, which uses vectors of 512 bits on every processor that has
    them; PyTorch's default, MKL, does so on Intel's alone, and is 2.3 times slower on an AMD EPYC of 2025.
    Derivatives of every order, ``vmap`` and autocast work as with the original.
    """
    if not _onednn_serves(x, weight):
        return nn.functional.linear(x, weight, bias)
    # oneDNN takes rows or columns that lie side by side, and is a hundred times slower on others
    product: Tensor = _Product.apply(x.reshape(-1, x.shape[-1]).contiguous(), weight.contiguous())
    if bias is not None:
        product = product + bias
    return product.view(*x.shape[:-1], -1)


def _onednn_serves(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and _ONEDNN
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()  # the compiler takes no call of this operator but its own
    )


_ONEDNN = (  # an operator that PyTorch's own compiler calls, but doesn't document
    platform.machine() in ("x86_64", "AMD64")
    and torch.backends.mkldnn.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


class _Product(torch.autograd.Function):
    """x w^T of matrices x (N, I) and w (O, I); its derivatives are such products again."""

    @staticmethod
    def forward(x: Tensor, w: Tensor) -> Tensor:  # type: ignore[override]
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")
        return product

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        grad = grad if grad.mT.is_contiguous() else grad.contiguous()
        to_x = _Product.apply(grad, w.mT) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_x, None
        # either order is right: oneDNN is a third faster with the narrower matrix first
        if grad.shape[-1] > x.shape[-1]:
            return to_x, _Product.apply(x.mT, grad.mT).mT
        return to_x, _Product.apply(grad.mT, x.mT)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, w: Tensor) -> tuple[Tensor, int]:
        x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        w = w if in_dims[1] is None else w.movedim(in_dims[1], 0)
        return x @ w.mT, 0


class Linear(nn.Linear):
    """PyTorch's, with the product of :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
