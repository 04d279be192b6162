"""ReLU networks written down for smooth functions on a box, as Lemma 19 of [DEEP] needs them for scores.

Nodes of a grid with steps h_1..h_D, cells cut into simplices by the order of the coordinates (Kuhn), values at
the nodes times hats: the interpolant is linear on every simplex, and within 1/2 sum_ij h_i h_j |f_ij| of f.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]
"""Points (n, D) to values (n, d)."""


def hat(u: Tensor) -> Tensor:
    """The hat of the grid of integers, 1 at 0, by ReLUs: relu(1 - (max(0, u_1..u_D) - min(0, u_1..u_D)))."""
    largest = smallest = torch.zeros_like(u[..., 0])
    for part in u.unbind(-1):
        largest = torch.relu(part - largest) + largest
        smallest = smallest - torch.relu(smallest - part)
    return torch.relu(1 - (largest - smallest))


def interpolant(f: Map, points: Tensor, steps: Sequence[float], reach: Sequence[float]) -> Tensor:
    """The network at some points: sum over nodes of f(node) hat((point - node) / steps).

    reach  nodes lie in [-reach_i, reach_i] and one step beyond; there is nothing outside

    All other hats vanish at a point, so only the 2^D nodes of its cell are evaluated.
    """
    h, far = points.new_tensor(steps), points.new_tensor(reach)
    low = torch.floor(points / h)
    total = torch.zeros(())
    for corner in product((0.0, 1.0), repeat=len(steps)):
        node = (low + points.new_tensor(corner)) * h
        inside = (node.abs() <= far + h).all(-1, keepdim=True)
        total = total + hat((points - node) / h).unsqueeze(-1) * f(node) * inside
    return total


def second_derivatives(f: Map, points: Tensor) -> Tensor:
    """The largest |f_ij| of any output over the points, (D, D)."""
    at = points.clone().requires_grad_(True)
    size = points.shape[1]
    most = torch.zeros(size, size, dtype=points.dtype)
    with torch.enable_grad():
        for value in f(at).unbind(-1):
            (slope,) = torch.autograd.grad(value.sum(), at, create_graph=True)
            for i in range(size):
                (bend,) = torch.autograd.grad(slope[:, i].sum(), at, retain_graph=True)
                most[i] = torch.maximum(most[i], bend.abs().amax(dim=0).detach())
    return most


def steps_for(eps: float, bends: Tensor, n_outputs: int) -> list[float]:
    """Steps for which sqrt(d)/2 sum_ij h_i h_j |f_ij| = eps, all coordinates sharing it."""
    h = bends.diagonal().clamp(min=1e-9).rsqrt()
    rule = math.sqrt(n_outputs) / 2 * float(h @ bends @ h)
    return [float(step) for step in h * math.sqrt(eps / rule)]
