"""What a single block should hold, from autograd on a single layer: the oracle for probes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ExactForward:
    """z = W o + b and o_new = relu(z), or z on a linear layer."""

    z: Tensor
    out: Tensor
    closed: Tensor


@dataclass(frozen=True)
class ExactBackward:
    """delta, W^T delta, and the updated W and b."""

    delta: Tensor
    signal: Tensor
    weight: Tensor
    bias: Tensor | None


def exact_forward(W: Tensor, b: Tensor | None, o: Tensor, *, linear: bool) -> ExactForward:
    """One layer forward by torch.nn.functional; `closed` is 1 minus autograd's slope of the ReLU."""
    z = torch.nn.functional.linear(o, W, b).requires_grad_(True)
    with torch.enable_grad():
        out = z if linear else torch.relu(z)
        (slope,) = torch.autograd.grad(out.sum(), z)
    closed = 1.0 - slope
    return ExactForward(z.detach(), out.detach(), closed)


def exact_backward(
    W: Tensor, b: Tensor | None, o: Tensor, incoming: Tensor, closed: Tensor, lr: float
) -> ExactBackward:
    """One layer backward: gradients of sum_r open_r v_r (W o + b)_r, and one torch.optim.SGD step."""
    weight = W.detach().clone().requires_grad_(True)
    bias = None if b is None else b.detach().clone().requires_grad_(True)
    inp = o.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        z = torch.nn.functional.linear(inp, weight, bias)
        z.retain_grad()
        (z * incoming * (1.0 - closed)).sum().backward()
    parameters = [p for p in (weight, bias) if p is not None]
    torch.optim.SGD(parameters, lr=lr).step()
    assert z.grad is not None
    assert inp.grad is not None
    return ExactBackward(z.grad, inp.grad, weight.detach(), None if bias is None else bias.detach())
