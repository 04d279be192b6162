"""How far two samples are from having one law: the energy distance."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.errors import InvalidParameter

ROWS = 1024
"""Points whose distances to all others are kept at a time."""


def energy_distance(x: Tensor, y: Tensor) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| from samples (n, d) and (m, d), each mean over pairs of two points.

    A point is never paired with itself (a U-statistic): for one law the expectation is 0, so that values
    below 0 occur; for two laws it is positive.

    >>> energy_distance(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]]))
    -1.0
    """
    for name, sample in (("x", x), ("y", y)):
        if sample.dim() != 2 or len(sample) < 2:
            raise InvalidParameter(name, tuple(sample.shape), "be (n, d) with at least two points")
    n, m = len(x), len(y)
    between = _sum_of_distances(x, y) / (n * m)
    within = _sum_of_distances(x, x) / (n * (n - 1)) + _sum_of_distances(y, y) / (m * (m - 1))
    return 2 * between - within


def _sum_of_distances(x: Tensor, y: Tensor) -> float:
    # The fast way (|x|^2 - 2xy + |y|^2) loses half of the digits of small distances.
    exact = "donot_use_mm_for_euclid_dist"
    return sum(float(torch.cdist(part, y, compute_mode=exact).sum()) for part in x.split(ROWS))
