"""Points of a box of one or two variables, on which sums of units are fitted and their errors looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FINE = {1: (4999,), 2: (67, 623)}
"""Points per variable on which the error is looked at."""
BUSY, NARROW = 8.0, 0.1
"""Activations bend within this distance of 0; points there are at most so far apart."""
BESIDE = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
"""Around the middle of a smooth unit, in its widths."""


def uniform(half: float, n: int) -> Tensor:
    """n even points of [-half, half], ends included."""
    return torch.linspace(-half, half, n, dtype=torch.float64)


def cosines(half: float, n: int) -> Tensor:
    """n points of [-half, half], dense at its ends."""
    return -half * torch.cos(torch.linspace(0, math.pi, n, dtype=torch.float64))


def grid_points(axes: Sequence[Tensor]) -> Tensor:
    """All combinations, (points, variables)."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def first_samples(a: Tensor, box: tuple[float, ...], *, smooth: bool, odd: bool) -> list[Tensor]:
    """Axes fine enough that no unit and no bend of an activation falls between their points.

    a    (M, F), inner weights     odd  only the half where the first variable is not negative
    """
    counts = FINE[len(box)]
    axes = [uniform(half, n) for half, n in zip(box, counts, strict=True)]
    if odd:
        axes[0] = torch.linspace(0, box[0], (counts[0] + 1) // 2, dtype=torch.float64)
    half, gap = box[-1], float(axes[-1][1] - axes[-1][0])
    more, least = list[Tensor](), gap
    if gap > NARROW:
        more.append(uniform(BUSY, round(2 * BUSY / NARROW) + 1))
        least = NARROW
    steep = a[a[:, -2].abs() * gap > 0.25]
    if smooth and len(steep):
        width = 1 / steep[:, -2].abs()
        middle = -steep[:, -1] / steep[:, -2]
        more += [middle + k * width for k in BESIDE]
        least = min(least, float(width.min()))
    if more:
        # On a common lattice: points that nearly meet would make slopes of rounding.
        least /= 4
        every = (torch.cat([axes[-1], *more]) / least).round().unique() * least
        inside = every[(every > axes[-1][0] + least) & (every < half - least)]
        axes[-1] = torch.cat([axes[-1][:1], inside, axes[-1][-1:]])
    return axes
