"""What a head computes, evaluated fast and to full precision, with a bound on its rounding.

    head(s) = (E(w) + tanh(y) O(w)) / B(w),  y = base s,  w = sinh(y)^2       (grid_sums.py)

is formed as (E c + sinh(y) O) / (B c) with c = sqrt(1 + w), the polynomials by Horner's rule. Near s = 0 an odd
head keeps its relative precision, since nothing is subtracted.

Rounding, with u the unit roundoff. y and sinh(y) err by (2 + e) u, which is an error of s, and costs
`condition` times as much. c errs by 2u from w, the sum and the root; it cancels but in the odd part. A
coefficient of w^j is rounded once, multiplied j times, added to j + 1 times at most, and w itself errs by u:
together (3 j + 2) u. All bounds are sums of absolute values, over small cells of s, at the worse end of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import torch
from torch import Tensor

from icgd.transformer.gadgets.machine_heads.families import exactly
from icgd.transformer.gadgets.machine_heads.fitting import Fit

CELLS = 2000
SINH = 4.0
"""Relative error of sinh in units of u: torch's, or a series of positive terms for small y."""


@dataclass(frozen=True)
class Ratio:
    """A fitted head as three polynomials.

    table   rows of coefficients, highest power first: [E,] O, B
    base    y / s
    error, relative  of the head with its rounding, absolute and relative to f
    """

    fit: Fit
    table: Tensor
    base: float
    error: float
    relative: float

    @classmethod
    def of(cls, fit: Fit) -> Ratio:
        """Round the coefficients and bound what that and the arithmetic cost."""
        with exactly():
            even, odd, bottom = fit.sums.polynomials
            base = float(torch.tensor(float(fit.sums.base), dtype=fit.dtype))
            rows = [[float(c) for c in reversed(row)] for row in (even, odd, bottom) if row]
        exact = torch.tensor(rows, dtype=torch.float64)
        table = exact.to(fit.dtype)
        absolute, relative = _rounding(fit, exact.flip(1), base)
        return cls(fit, table, base, fit.error + absolute, fit.relative + relative)

    @property
    def odd(self) -> bool:
        """Whether E is missing."""
        return self.fit.family.odd

    def __call__(self, s: Tensor) -> Tensor:
        """The head for every entry of s, |s| <= radius."""
        sinh = torch.sinh(s * self.base)
        w = sinh * sinh
        flat = w.reshape(1, -1)
        columns = self.table.unsqueeze(-1).unbind(1)
        rows = columns[0].expand(-1, flat.shape[1])
        for column in columns[1:]:
            rows = torch.addcmul(column, rows, flat)
        cosh = torch.sqrt(w + 1.0)
        odd, bottom = rows[-2].view_as(w), rows[-1].view_as(w)
        if self.odd:
            return sinh * odd / (bottom * cosh)
        return (rows[0].view_as(w) * cosh + sinh * odd) / (bottom * cosh)


def _rounding(fit: Fit, rows: Tensor, base: float) -> tuple[float, float]:
    """Bounds on the absolute and on the relative rounding error; rows are lowest power first."""
    family, u = fit.family, torch.finfo(fit.dtype).eps / 2
    edges = family.radius * torch.linspace(0, 1, CELLS + 1, dtype=torch.float64)
    sinh = torch.sinh(edges * base)
    w = sinh * sinh
    j = torch.arange(rows.shape[1], dtype=torch.float64)
    powers = w.unsqueeze(-1) ** j
    low, high = powers[:-1], powers[1:]
    rounds = 3 * j + 2
    bottom = low @ rows[-1]
    shape = (high @ (rounds * rows[-1])) / bottom  # both ends: slightly more than B's own
    size = high @ rows[-2].abs()
    tanh = (sinh / torch.sqrt(1 + w))[1:]
    argument = family.condition * (2 + SINH + 1.5 * float(base * family.radius))
    lost_odd = (high @ (rounds * rows[-2].abs()) + 4 * size) / bottom
    if family.odd:
        inside = (low @ rows[-2].clamp(min=0) + high @ rows[-2].clamp(max=0)) / (high @ rows[-1])
        per_s = lost_odd / inside.abs() if bool((inside > 0).all()) else None
        relative = float((shape + per_s).max()) + 3 if per_s is not None else math.inf
        relative = 1.02 * u * (relative + argument)
        return relative * _largest(fit), relative
    lost_even = (high @ ((rounds + 2) * rows[0].abs())) / bottom
    value = (high @ rows[0].abs() + tanh * size) / bottom
    lost = lost_even + tanh * lost_odd + (shape + 3) * value
    f_low = _least(fit)
    absolute = (
        1.02 * u * (float(lost.max()) + argument * (_largest(fit) if family.relative else 1.0))
    )
    relative = absolute / f_low if family.relative else math.inf
    return absolute, relative


def _largest(fit: Fit) -> float:
    return max(_ends(fit))


def _least(fit: Fit) -> float:
    return min(_ends(fit))


def _ends(fit: Fit) -> tuple[float, ...]:
    """|f| at both ends; every family is monotone, and an odd one is 0 between them."""
    with exactly():
        ends = [fit.family.exact(Decimal(sign * fit.family.radius)) for sign in (-1, 1)]
    return tuple(abs(float(end)) for end in ends)
