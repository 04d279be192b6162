"""Activations and their derivatives, in formulas that stay exact where PyTorch's are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import constant, entry, zero

aten = torch.ops.aten


def positive(x: Tensor) -> Tensor:
    """The flag of x > 0."""
    return aten.gt.Tensor(x, zero(x))


def nonpositive_part(x: Tensor) -> Tensor:
    """min(x, 0), exactly."""
    return -torch.relu(-x)


def log1p_exp_of_minus_size(x: Tensor) -> Tensor:
    """log(1 + exp(-|x|)) as -log(sigmoid(|x|)): the sigmoid lies in [1/2, 1], nothing cancels."""
    return -torch.log(torch.sigmoid(torch.abs(x)))


@entry(aten.leaky_relu.default)
def leaky_relu(x: Tensor, slope: Any = 0.01) -> Tensor:
    """x, or slope x below 0."""
    return torch.where(positive(x), x, x * slope)


@entry(aten.leaky_relu_backward.default)
def leaky_relu_backward(g: Tensor, x: Tensor, slope: Any, is_result: bool) -> Tensor:
    """Its derivative; the result has the sign of the argument."""
    return torch.where(positive(x), g, g * slope)


@entry(aten.threshold_backward.default)
def threshold_backward(g: Tensor, x: Tensor, threshold: Any) -> Tensor:
    """g where x exceeds the threshold."""
    return torch.where(aten.gt.Tensor(x, constant(x, threshold)), g, zero(g))


@entry(aten.elu.default)
def elu(x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    """x, or alpha (exp(x) - 1) below 0; the exponent never grows on the side that is not taken."""
    below = (torch.exp(nonpositive_part(x * input_scale)) - 1) * (alpha * scale)
    return torch.where(positive(x), x * scale, below)


@entry(aten.elu_backward.default)
def elu_backward(
    g: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Tensor
) -> Tensor:
    """Its derivative, from the argument or from the result."""
    if is_result:
        below = (x + alpha * scale) * input_scale
    else:
        below = torch.exp(nonpositive_part(x * input_scale)) * (alpha * scale * input_scale)
    return torch.where(positive(x), g * scale, g * below)


ROOT_HALF = math.sqrt(0.5)
GAUSS = 1 / math.sqrt(2 * math.pi)
TANH_SCALE, TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715


@entry(aten.gelu.default)
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function, or PyTorch's approximation of it by tanh."""
    if approximate == "tanh":
        inner = (x + x * x * x * TANH_CUBIC) * TANH_SCALE
        return x * ((torch.tanh(inner) + 1) * 0.5)
    return x * ((torch.erf(x * ROOT_HALF) + 1) * 0.5)


@entry(aten.gelu_backward.default)
def gelu_backward(g: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """Its derivative."""
    square = x * x
    if approximate == "tanh":
        t = torch.tanh((x + square * x * TANH_CUBIC) * TANH_SCALE)
        inner = (square * (3 * TANH_CUBIC) + 1) * TANH_SCALE
        slope = (t + 1) * 0.5 + (x * (1 - t * t)) * inner * 0.5
        return g * slope
    slope = (torch.erf(x * ROOT_HALF) + 1) * 0.5 + x * torch.exp(square * -0.5) * GAUSS
    return g * slope


@entry(aten.silu.default)
def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * torch.sigmoid(x)


@entry(aten.silu_backward.default)
def silu_backward(g: Tensor, x: Tensor) -> Tensor:
    """Its derivative; 1 - sigmoid(x) is sigmoid(-x)."""
    s = torch.sigmoid(x)
    return g * (s * (x * (1 - s) + 1))


@entry(aten.sigmoid_backward.default)
def sigmoid_backward(g: Tensor, s: Tensor) -> Tensor:
    """s (1 - s)."""
    return g * (s * (1 - s))


@entry(aten.tanh_backward.default)
def tanh_backward(g: Tensor, t: Tensor) -> Tensor:
    """1 - tanh^2."""
    return g * (1 - t * t)


@entry(aten.softplus.default)
def softplus(x: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta; from the threshold on x itself, with PyTorch's small jump there."""
    z = x * beta
    smooth = (torch.relu(z) + log1p_exp_of_minus_size(z)) * (1.0 / beta)
    return torch.where(aten.gt.Tensor(z, constant(z, threshold)), x, smooth)


@entry(aten.softplus_backward.default)
def softplus_backward(g: Tensor, x: Tensor, beta: Any, threshold: Any) -> Tensor:
    """Its derivative, with the same threshold."""
    z = x * beta
    return torch.where(aten.gt.Tensor(z, constant(z, threshold)), g, g * torch.sigmoid(z))


@entry(aten.log_sigmoid_forward.default)
def log_sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    """min(x, 0) - log(1 + exp(-|x|))."""
    return nonpositive_part(x) - log1p_exp_of_minus_size(x), torch.zeros(0, dtype=x.dtype)


@entry(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(g: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    """sigmoid(-x)."""
    return g * torch.sigmoid(-x)


@entry(aten.mish.default)
def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x))."""
    return x * torch.tanh(softplus(x))


@entry(aten.mish_backward.default)
def mish_backward(g: Tensor, x: Tensor) -> Tensor:
    """Its derivative."""
    t = torch.tanh(softplus(x))
    return g * (t + (x * torch.sigmoid(x)) * (1 - t * t))


@entry(aten.hardtanh.default)
def hardtanh(x: Tensor, low: Any = -1, high: Any = 1) -> Tensor:
    """Clamped."""
    return torch.clamp(x, low, high)


@entry(aten.hardsigmoid.default)
def hardsigmoid(x: Tensor) -> Tensor:
    """clamp(x + 3, 0, 6) / 6."""
    return torch.clamp(x + 3, 0, 6) / 6


@entry(aten.hardswish.default)
def hardswish(x: Tensor) -> Tensor:
    """x clamp(x + 3, 0, 6) / 6."""
    return x * (torch.clamp(x + 3, 0, 6) / 6)


SIXTH = float(torch.tensor(1 / 6, dtype=torch.float32))
"""PyTorch's own derivative of hardsigmoid multiplies by 1/6 rounded to float32, in every precision."""


@entry(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(g: Tensor, x: Tensor) -> Tensor:
    """A sixth inside (-3, 3), 0 outside."""
    inside = (x > -3) & (x < 3)
    return torch.where(inside, g * SIXTH, zero(g))


@entry(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(g: Tensor, x: Tensor, width: Any) -> Tensor:
    """0 inside [-width, width], g outside."""
    inside = (x >= -width) & (x <= width)
    return torch.where(inside, zero(g), g)
