"""Norms and singular values that neither underflow nor rounding can make too favourable."""

from __future__ import annotations

import math

import torch
from torch import Tensor

UNIT = 2.0**-53
TINY = 2.0**-1074
"""The smallest positive number: what one operation can lose where it underflows."""
SMALLEST_NORMAL = 2.0**-1022
"""Below it products no longer have a relative error of UNIT."""


def length(vector: Tensor) -> float:
    """The Euclidean norm; squares of tiny entries do not underflow, nor those of large ones overflow.

    >>> length(torch.tensor([3e-200, 4e-200], dtype=torch.float64))
    5e-200
    """
    top = float(vector.abs().max()) if vector.numel() else 0.0
    if not 0 < top < math.inf:
        return top
    return top * float((vector / top).norm())


def column_lengths(matrix: Tensor, *, of_zero: float = 0.0) -> Tensor:
    """The norms of the columns; `of_zero` for columns that are 0."""
    top = matrix.abs().amax(dim=0)
    nonzero = top > 0
    top = torch.where(nonzero, top, torch.ones_like(top))
    lengths = top * (matrix / top).norm(dim=0).clamp(min=1)
    return torch.where(nonzero, lengths, torch.full_like(top, of_zero))


def power_of_two(size: float) -> float:
    """The power of two in (size / 2, size], 1 for 0: dividing by it brings numbers to about 1 exactly."""
    return 2.0 ** math.floor(math.log2(size)) if 0 < size < math.inf else 1.0


def least_singular_value(matrix: Tensor) -> float:
    """A lower bound on the smallest |A v| over all unit vectors v, 0 where none can be certified.

    What rounding can have added to the computed value is taken off. More columns than rows leave some v
    with A v = 0.
    """
    n_rows, n_columns = matrix.shape
    if n_columns > n_rows or not bool(matrix.isfinite().all()):
        return 0.0
    slack = (max(matrix.shape) + 8 * n_columns) * UNIT
    unit = power_of_two(float(matrix.abs().max()))
    values = torch.linalg.svdvals(matrix / unit)
    least = float(values[-1] - slack * values[0]) * unit
    # |A v| >= least(A / lengths) * min(lengths) |v| is better where features differ in units.
    lengths = column_lengths(matrix, of_zero=1.0)
    values = torch.linalg.svdvals(matrix / lengths)
    least = max(least, float((values[-1] - slack * values[0]) * lengths.min()))
    return max(0.0, least - 2 * math.sqrt(matrix.numel()) * TINY)


def certified_square(least: float) -> float:
    """least^2, rounded down; 0 where the square is too small to have a relative error."""
    square = least * least
    return square * (1 - 4 * UNIT) if square >= SMALLEST_NORMAL else 0.0
