"""Smooth functions a single head can apply, with the constants their certificates need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SmoothFunction:
    """f with bounds on |f'| and |f''''| over [-radius, radius].

    `fourth_bound=None` means unknown: it is then estimated and the certificate says so. A `kinked` f has
    corners and no fourth derivative; its error is bounded between samples by slopes alone.
    """

    name: str
    apply: Callable[[Tensor], Tensor]
    slope_bound: Callable[[float], float]
    fourth_bound: Callable[[float], float] | None = None
    kinked: bool = False

    def derivative(self, s: Tensor) -> Tensor:
        """f' by automatic differentiation, entry by entry."""
        point = s.detach().clone().requires_grad_(True)
        with torch.enable_grad():
            value = self.apply(point)
            if not value.requires_grad:  # a constant
                return torch.zeros_like(s)
            (slope,) = torch.autograd.grad(value.sum(), point)
        return slope


def _constant(value: float) -> Callable[[float], float]:
    return lambda radius: value


# Fourth derivatives: tanh'''' peaks at 4.086; sigmoid(x) = (1 + tanh(x/2)) / 2 divides that by 32;
# softplus'''' = sigmoid''' with |sigmoid'''| <= 1/8; gelu'''' = (-4 + 7 x^2 - x^4) phi(x), largest at 0.
SMOOTH_FUNCTIONS: dict[str, SmoothFunction] = {
    f.name: f
    for f in (
        SmoothFunction("identity", lambda s: s.clone(), _constant(1.0), _constant(0.0)),
        SmoothFunction("sigmoid", torch.sigmoid, _constant(0.25), _constant(4.1 / 32)),
        SmoothFunction("tanh", torch.tanh, _constant(1.0), _constant(4.1)),
        SmoothFunction("softplus", torch.nn.functional.softplus, _constant(1.0), _constant(0.125)),
        SmoothFunction("gelu", torch.nn.functional.gelu, _constant(1.13), _constant(1.6)),
        SmoothFunction("exp", torch.exp, math.exp, math.exp),
    )
}
