"""The global bound: per-round bounds composed with how far one exact SGD round can spread two states.

    E_{l+1} <= (bound of round l) + sup |U(W') - U(W)|  over |W' - W| <= E_l entry by entry

The second term is computed by interval arithmetic around the transformer's own state, flips of
ReLUs included. It is rigorous, and for deep networks it grows geometrically: once it exceeds the
size of the weights themselves it says nothing, and is called vacuous.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from icgd.problems import NetworkSpec, Weights


def expansion(
    spec: NetworkSpec, weights: Weights, x: Tensor, y: Tensor, lr: float, radius: float
) -> float:
    """sup over |W' - W| <= radius of the largest entry of U(W') - U(W), U one exact SGD round."""
    if radius == 0.0:
        return 0.0
    if not math.isfinite(radius):
        return math.inf
    value, spread = x.double(), torch.zeros_like(x, dtype=torch.float64)
    layers = []
    for i, (W, b) in enumerate(weights, 1):
        z, e = _affine(W.double(), None if b is None else b.double(), value, spread, radius)
        layers.append((value, spread, z, e))
        if spec.is_linear(i):
            value, spread = z, e
        else:
            value, spread = z.relu(), torch.where(z + e <= 0, 0.0, e)
    signal, spread = value - y.double(), spread
    worst = radius
    for i in range(spec.n_layers, 0, -1):
        W, _ = weights[i - 1]
        inp, e_inp, z, e_z = layers[i - 1]
        delta, e_delta = _gated(signal, spread, z, e_z, linear=spec.is_linear(i))
        change = delta.abs().unsqueeze(-1) * e_inp + e_delta.unsqueeze(-1) * (inp.abs() + e_inp)
        moved = radius + lr * max(float(change.max()), float(e_delta.max()))
        if not math.isfinite(moved):
            return math.inf
        worst = max(worst, moved)
        signal, spread = _affine(W.double().T, None, delta, e_delta, radius)
    return worst


def _affine(
    W: Tensor, b: Tensor | None, v: Tensor, e: Tensor, radius: float
) -> tuple[Tensor, Tensor]:
    centre = W @ v
    spread = W.abs() @ e + radius * float((v.abs() + e).sum())
    return (centre, spread) if b is None else (centre + b, spread + radius)


def _gated(v: Tensor, e: Tensor, z: Tensor, e_z: Tensor, *, linear: bool) -> tuple[Tensor, Tensor]:
    if linear:
        return v, e
    on, off = z - e_z > 0, z + e_z <= 0
    centre = torch.where(z > 0, v, 0.0)
    spread = torch.where(on, e, torch.where(off, 0.0, v.abs() + e))
    return centre, spread
