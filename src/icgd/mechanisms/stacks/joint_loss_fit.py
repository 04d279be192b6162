"""dl/do of a joint loss l(o, y) as a sum of ReLUs in both: a fan of directions, knots along each of them.

Along one direction ReLUs make any piecewise linear function; sums of functions of single directions make
all polynomials of a degree below the number of directions. Outer weights are found by least squares.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from icgd.problems import Loss
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.sample_points import uniform
from icgd.transformer.gadgets.fits.sup_error import largest_between

F64 = torch.float64
SIDE = 201
"""Points per variable on which the error is looked at first."""


def fan(n_units: int, radius: float, target_radius: float) -> Tensor:
    """(n_units, 3): a constant, then units relu(a o + b y + k), as many directions as knots on each.

    >>> fan(17, 1.0, 1.0).shape
    torch.Size([17, 3])
    """
    n = n_units - 1
    directions = max(1, min(n, 2 ** round(math.log2(math.sqrt(n)))))
    rows = [[0.0, 0.0, 1.0]]
    for k in range(directions):
        a, b = math.cos(math.pi * k / directions), math.sin(math.pi * k / directions)
        reach = abs(a) + abs(b)  # of a o/R + b y/T
        knots = n // directions + (k < n % directions)
        rows += [
            [a / radius, b / target_radius, reach - 2 * reach * m / knots] for m in range(knots)
        ]
    return torch.tensor(rows, dtype=F64)


@lru_cache(maxsize=8)  # verification builds the same stack again and again
def fit_joint_slope(
    loss: Loss, radius: float, target_radius: float, n_units: int
) -> tuple[Tensor, Tensor, Certificate]:
    """Units (H, 3) on (o, y, 1) with rows of l1 norm <= 1, outer weights (H,), and the error met.

    Statement: [DEEP] Lemma 4

    Differs from the paper: the units are written down, for one output at a time, so that a loss must be
    entry-wise, l = sum_k l(o_k, y_k); its Lemma 7 promises eps^-2 of them, this takes about 1/eps. The
    error is measured and not proven.
    """
    a = fan(n_units, radius, target_radius)
    side = math.isqrt(n_units) + 1
    points = _grid(radius, target_radius, 4 * side + 1, 3 * side + 1)
    wanted = loss.slope_of(*points.T.contiguous())
    hidden = _units(a, points)
    c = torch.linalg.lstsq(hidden, wanted.unsqueeze(1), rcond=1e-9, driver="gelsd").solution[:, 0]

    def miss(points: Tensor) -> Tensor:
        parts = points.split(2**14)
        return torch.cat([_units(a, at) @ c - loss.slope_of(*at.T.contiguous()) for at in parts])

    error = largest_between(miss, [uniform(radius, SIDE), uniform(target_radius, SIDE)])
    norm = a.abs().sum(dim=1).clamp(min=1.0)  # the mask of a token that asks needs it
    steepest = float((c.abs() * a[:, :2].abs().amax(dim=1)).sum())
    certificate = Certificate(
        f"joint_loss[{loss.name}]",
        radius,
        error,
        steepest,
        float((c * norm).abs().max()),
        rigorous=False,
    )
    return a / norm.unsqueeze(1), c * norm, certificate


def _grid(radius: float, target_radius: float, n_o: int, n_y: int) -> Tensor:
    o = torch.linspace(-radius, radius, n_o, dtype=F64)
    return torch.cartesian_prod(o, torch.linspace(-target_radius, target_radius, n_y, dtype=F64))


def _units(a: Tensor, points: Tensor) -> Tensor:
    return torch.relu(points @ a[:, :2].T + a[:, 2])
