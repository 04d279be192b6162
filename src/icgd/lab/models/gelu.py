"""GPT-2's GELU, on CPU in about half the time of PyTorch's own and with the same derivative."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

# 0.5 x (1 + tanh(r (x + k x^3))) = x sigmoid(2 r (x + k x^3)), and a sigmoid costs a third of a tanh.
_C = 2 * math.sqrt(2 / math.pi)
_K = 0.044715
# A piece and its few temporaries stay in the cache of a core.
_PIECE = 1 << 16


def gelu(x: Tensor) -> Tensor:
    """GELU by its tanh approximation, `functional.gelu(x, approximate="tanh")`.

    >>> x = torch.linspace(-5, 5, 11, dtype=torch.float64)
    >>> bool((gelu(x) - functional.gelu(x, approximate="tanh")).abs().max() < 1e-14)
    True
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling() or not x.is_contiguous():
        return functional.gelu(x, approximate="tanh")
    activated: Tensor = _Gelu.apply(x)
    return activated


class _Gelu(torch.autograd.Function):
    """Value and slope in one pass over pieces: what is saved is the slope, and the input can go."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        value = torch.empty_like(x)
        wanted = ctx.needs_input_grad[0]
        slope = torch.empty_like(x) if wanted else value
        for x_, value_, slope_ in zip(
            *(t.view(-1).split(_PIECE) for t in (x, value, slope)), strict=True
        ):
            square = x_ * x_
            gate = torch.mul(square, _C * _K).add_(_C).mul_(x_).sigmoid_()
            torch.mul(x_, gate, out=value_)
            if wanted:
                # d/dx x s(u) = s + x s (1 - s) u' = s + (1 - s) value u',  u' = C + 3 C K x^2
                rest = square.mul_(3 * _C * _K).add_(_C).mul_(value_)
                torch.addcmul(gate, rest, gate, value=-1, out=slope_).add_(rest)
        if wanted:
            ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return grad * slope
