"""How far a function moves when its argument moves: bounds without cancellation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Spread = Callable[[Tensor, Tensor], Tensor]
"""(x, e) -> bound on |f(y) - f(x)| for |y - x| <= e."""


def _sqrt(x: Tensor, e: Tensor) -> Tensor:
    """|sqrt y - sqrt x| = |y - x| / (sqrt y + sqrt x), and at most sqrt |y - x|."""
    steep = e / (torch.sqrt(x) + torch.sqrt((x - e).clamp(min=0)))
    return torch.where(e > 0, torch.minimum(torch.sqrt(e), steep), 0.0)


def _rsqrt(x: Tensor, e: Tensor) -> Tensor:
    low = x - e
    return torch.where(low > 0, 0.5 * e * low.clamp(min=0) ** -1.5, math.inf)


def _reciprocal(x: Tensor, e: Tensor) -> Tensor:
    size, low = x.abs(), x.abs() - e
    return torch.where(low > 0, e / size / low, math.inf)


def _exp(x: Tensor, e: Tensor) -> Tensor:
    return torch.exp(x) * torch.expm1(e)


def _log(x: Tensor, e: Tensor) -> Tensor:
    low = x - e
    return torch.where(low > 0, e / low, math.inf)


def _erf(x: Tensor, e: Tensor) -> Tensor:
    near = (x.abs() - e).clamp(min=0)
    return (e * (2 / math.sqrt(math.pi)) * torch.exp(-near * near)).clamp(max=2.0)


def _wave(x: Tensor, e: Tensor) -> Tensor:
    return e.clamp(max=2.0)


def _sigmoid(x: Tensor, e: Tensor) -> Tensor:
    tail = torch.exp(-(x.abs() - e).clamp(min=0))
    return (e * tail / (1 + tail) ** 2).clamp(max=1.0)


def _tanh(x: Tensor, e: Tensor) -> Tensor:
    tail = torch.exp(-2 * (x.abs() - e).clamp(min=0))
    return (4 * e * tail / (1 + tail) ** 2).clamp(max=2.0)


SPREADS: dict[str, Spread] = {
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "exp": _exp,
    "log": _log,
    "erf": _erf,
    "sin": _wave,
    "cos": _wave,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
}
"""By the name that heads have for the function."""
ODD = ("erf", "sin", "tanh", "sqrt")
"""Functions that are 0 at 0."""
