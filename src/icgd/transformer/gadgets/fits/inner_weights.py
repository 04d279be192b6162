"""Inner weights of sums of units, which are written down and not fitted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from icgd.transformer.gadgets.fits.sample_points import uniform


def own_units(name: str, attention: str) -> tuple[Tensor, Tensor] | None:
    """(a, c) where r is a sum of one or two units of sigma itself: tanh(t) = 2 sigmoid(2t) - 1."""
    table = {
        ("relu", "relu"): [(1.0, 0.0, 1.0)],
        ("tanh", "tanh"): [(1.0, 0.0, 1.0)],
        ("sigmoid", "sigmoid"): [(1.0, 0.0, 1.0)],
        ("tanh", "sigmoid"): [(2.0, 0.0, 2.0), (0.0, 0.0, -2.0)],
        ("sigmoid", "tanh"): [(0.5, 0.0, 0.5), (0.0, 1.0, 0.5 / math.tanh(1.0))],
    }
    if (name, attention) not in table:
        return None
    rows = torch.tensor(table[name, attention], dtype=torch.float64)
    return rows[:, :2], rows[:, 2]


def even_units(n: int, radius: float, scale: float, pad: float = 2.0) -> Tensor:
    """scale (t - t_m), with the n centres t_m even over a range somewhat wider than the domain."""
    centres = uniform(radius + pad / scale, n)
    return torch.stack([torch.full_like(centres, scale), -scale * centres], 1)


def ladder(n: int, top: float) -> Tensor:
    """top/n, 2 top/n, .., top."""
    return top * torch.arange(1, n + 1, dtype=torch.float64) / n


def random_units(n: int, box: tuple[float, ...], activation: str, seed: int) -> Tensor:
    """Random directions, sizes in [0.3, 1.5] (1 for ReLU) and centres in 1.2 times the box."""
    if activation == "relu" and len(box) == 1:
        return even_units(n, box[0], 1.0, pad=0.0) if n > 1 else torch.ones(n, 2).double()
    source = torch.Generator().manual_seed(seed)
    direction = torch.randn(n, len(box), dtype=torch.float64, generator=source)
    direction = direction / direction.norm(dim=1, keepdim=True)
    draw = torch.rand(n, 2, dtype=torch.float64, generator=source)
    size = torch.ones(n).double() if activation == "relu" else 0.3 + 1.2 * draw[:, 0]
    shift = size * max(box) * 1.2 * (2 * draw[:, 1] - 1)
    return torch.cat([direction * size.unsqueeze(1), shift.unsqueeze(1)], 1)
