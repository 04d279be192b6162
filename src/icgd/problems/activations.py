"""Activations of a network, with the bounds on their derivatives that fits are certified by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import InvalidParameter


@dataclass(frozen=True)
class Activation:
    """r with r', and suprema over the real line of |r'|, |r''|, |r'''|, |r''''|, |r'''''|.

    >>> ACTIVATIONS["tanh"].bounds[0]
    1.0
    """

    name: str
    apply: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor], Tensor]
    bounds: tuple[float, float, float, float, float]

    @property
    def smooth(self) -> bool:
        """Whether it has no corner."""
        return math.isfinite(self.bounds[1])


def _tanh_slope(z: Tensor) -> Tensor:
    t = torch.tanh(z)
    return (1 - t) * (1 + t)  # unlike 1 / cosh^2 it does not overflow, nor do its derivatives


def _sigmoid_slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z) * torch.sigmoid(-z)


def _gelu_slope(z: Tensor) -> Tensor:
    density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return 0.5 * torch.erfc(-z / math.sqrt(2)) + z * density


# tanh' = 1 - tanh^2; its derivatives are polynomials in tanh, whose extremes on [-1, 1] give the bounds.
# sigmoid(z) = (1 + tanh(z/2)) / 2, softplus' = sigmoid. GELU's are polynomials times the normal density.
_TANH = (1.0, 0.7699, 2.0, 4.0859, 16.0)
_SIGMOID = tuple(b / 2 ** (k + 2) for k, b in enumerate(_TANH))
ACTIVATIONS: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation(
            "relu",
            torch.relu,
            lambda z: (z > 0).to(z),
            (1.0, math.inf, math.inf, math.inf, math.inf),
        ),
        Activation("tanh", torch.tanh, _tanh_slope, _TANH),
        Activation("sigmoid", torch.sigmoid, _sigmoid_slope, _SIGMOID),
        Activation("softplus", torch.nn.functional.softplus, torch.sigmoid, (1.0, *_SIGMOID[:4])),
        Activation(
            "gelu", torch.nn.functional.gelu, _gelu_slope, (1.1290, 0.7979, 0.7789, 1.5958, 2.8426)
        ),
        Activation("linear", lambda z: z.clone(), torch.ones_like, (1.0, 0.0, 0.0, 0.0, 0.0)),
    )
}


def activation(name: str) -> Activation:
    """The activation of this name, or a complaint that lists them."""
    if name not in ACTIVATIONS:
        raise InvalidParameter("activation", name, f"be one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
